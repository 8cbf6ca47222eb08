// The only file that sees Boost.Beast.
#include "http/request_parser.h"

#include <fmt/core.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/check.h"
#include "http/target.h"

namespace hadal {

namespace beast = boost::beast;

struct RequestParser::Impl {
  beast::http::request_parser<beast::http::string_body> parser;
};

namespace {

constexpr std::string_view kLastChunk = "0\r\n\r\n";

std::string Text(beast::string_view view) {
  return std::string(view.data(), view.size());
}

HttpFailure Translate(const beast::error_code& error, const ParserLimits& limits) {
  using Code = beast::http::error;
  if (error == Code::header_limit) {
    return {431, fmt::format("the request's headers exceed {} bytes", limits.head_bytes)};
  }
  if (error == Code::body_limit || error == Code::buffer_overflow) {
    return {413, fmt::format("the request's body exceeds {} bytes", limits.body_bytes)};
  }
  if (error == Code::bad_version) return {505, "this server speaks HTTP/1.1"};
  return {400, "malformed HTTP request: " + error.message()};
}

}  // namespace

RequestParser::RequestParser(const ParserLimits& limits)
    : limits_(limits), impl_(std::make_unique<Impl>()) {
  impl_->parser.header_limit(static_cast<uint32_t>(limits.head_bytes));
  // The true limit is set when the head is known: a request that is too large still has an id.
  impl_->parser.body_limit(UINT64_MAX);
}

RequestParser::~RequestParser() = default;

std::optional<uint64_t> RequestParser::BodyRemaining() const {
  const auto remaining = impl_->parser.content_length_remaining();
  if (impl_->parser.chunked()) return std::nullopt;
  return remaining ? *remaining : 0;
}

size_t RequestParser::Feed(std::string_view input) {
  HADAL_CHECK(!done_ && !failure_);
  auto& parser = impl_->parser;
  size_t used = 0;
  while (used < input.size()) {
    beast::error_code error;
    const std::string_view rest = input.substr(used);
    // What is left of a chunked body is never shorter than its end, and Beast 1.74 asserts on less.
    if (parser.is_header_done() && parser.chunked() && rest.size() < kLastChunk.size()) return used;
    const size_t n = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), error);
    used += n;
    // Beast's own limit forgets the lines that it has already taken.
    if (!head_done_) head_bytes_ += n;
    if (head_bytes_ > limits_.head_bytes) error = beast::http::error::header_limit;
    if (error == beast::http::error::need_more) {
      if (input.size() - used > limits_.head_bytes)
        Refuse(431, "a line of the request is too long");
      return used;
    }
    if (error) {
      failure_ = Translate(error, limits_);
      return used;
    }
    if (!head_done_ && parser.is_header_done()) {
      head_done_ = true;
      FinishHead();
      if (!failure_ && parser.is_done()) done_ = true;
      return used;
    }
    if (parser.is_done()) {
      request_.body = std::move(parser.get().body());
      done_ = true;
      return used;
    }
  }
  return used;
}

void RequestParser::FinishHead() {
  auto& parser = impl_->parser;
  const auto& message = parser.get();
  request_.method = Text(message.method_string());
  request_.http11 = message.version() >= 11;
  request_.keep_alive = message.keep_alive();
  int n_hosts = 0, n_codings = 0;
  for (const auto& field : message) {
    n_hosts += field.name() == beast::http::field::host;
    n_codings += field.name() == beast::http::field::transfer_encoding;
    request_.headers.Add(Text(field.name_string()), Text(field.value()));
  }
  std::optional<Target> target =
      ParseTarget(std::string_view(message.target().data(), message.target().size()));
  if (!target) return Refuse(400, "the request's target is not a path");
  request_.path = std::move(target->path);
  request_.segments = std::move(target->segments);
  request_.query = std::move(target->query);

  if (n_hosts > 1 || (request_.http11 && n_hosts == 0)) {
    return Refuse(400, "the request needs one Host header");
  }
  // Beast takes "gzip, chunked" too.
  const auto coding = request_.headers.Find("transfer-encoding");
  if (n_codings > 1 || (coding && !EqualsIgnoringCase(*coding, "chunked"))) {
    return Refuse(501, "the only transfer coding this server knows is chunked");
  }
  if (coding && !request_.http11) return Refuse(400, "HTTP/1.0 has no transfer codings");
  if (const auto expect = request_.headers.Find("expect")) {
    if (!EqualsIgnoringCase(*expect, "100-continue")) {
      return Refuse(417, "the only expectation this server knows is 100-continue");
    }
    request_.wants_continue = request_.http11;
  }
  const auto length = parser.content_length();
  if (length && *length > limits_.body_bytes) {
    return Refuse(413, fmt::format("the request's body of {} bytes exceeds {} bytes", *length,
                                   limits_.body_bytes));
  }
  parser.body_limit(limits_.body_bytes);
}

}  // namespace hadal
