// The part of Boost.Asio that coroutines need, included in one order.
#pragma once

// clang-format off
#include <utility>  // Asio 1.74 uses std::exchange without it
#include <boost/asio/awaitable.hpp>
// clang-format on

namespace hadal {

namespace asio = boost::asio;
template <typename T>
using Awaitable = boost::asio::awaitable<T>;

}  // namespace hadal
