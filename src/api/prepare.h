// Work that would keep an I/O thread busy: templates and tokenizers on long texts.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

#include "http/exchange.h"

namespace hadal::api {

// Runs `job` on the pool while the exchange waits. `job` owns all it needs: when the client goes,
// the exchange ends and the job's result is dropped. What it throws is thrown here.
template <typename Job>
Awaitable<std::invoke_result_t<Job>> RunOn(asio::thread_pool& pool, Exchange& exchange, Job job) {
  using Result = std::invoke_result_t<Job>;
  std::packaged_task<Result()> task(std::move(job));
  std::future<Result> result = task.get_future();
  asio::post(pool, [task = std::move(task), notifier = exchange.notifier()]() mutable {
    task();
    notifier.Notify();
  });
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    co_await exchange.Wait(std::chrono::minutes(1));
  }
  co_return result.get();
}

}  // namespace hadal::api
