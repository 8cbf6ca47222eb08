#include "http/request_parser.h"

#include <gtest/gtest.h>

namespace hadal {
namespace {

struct Parsed {
  int failure = 0;  // status; 0: none
  bool head = false, done = false;
  HttpRequest request;
  std::string rest;  // bytes that belong to the next request
};

// Feeds `input` in pieces of `step` bytes, as a connection would.
Parsed Parse(std::string_view input, size_t step = SIZE_MAX, const ParserLimits& limits = {}) {
  RequestParser parser(limits);
  std::string pending;
  while (!parser.done() && !parser.failure()) {
    const size_t before = pending.size();
    if (!pending.empty()) pending.erase(0, parser.Feed(pending));
    if (parser.done() || parser.failure() || pending.size() < before) continue;
    if (input.empty()) break;
    pending += input.substr(0, step);
    input.remove_prefix(std::min(step, input.size()));
  }
  Parsed result;
  if (parser.failure()) result.failure = parser.failure()->status;
  result.head = parser.head_done();
  result.done = parser.done();
  result.request = parser.request();
  result.rest = pending + std::string(input);
  return result;
}

const std::string kPost =
    "POST /a%20b?q=1 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 5\r\n\r\nhello";

TEST(RequestParser, TheResultDoesNotDependOnThePieces) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{64}, SIZE_MAX}) {
    const Parsed parsed = Parse(kPost + "GET /", step);
    ASSERT_TRUE(parsed.done) << step;
    EXPECT_EQ(parsed.request.method, "POST");
    EXPECT_EQ(parsed.request.path, "/a b");
    EXPECT_EQ(parsed.request.Query("q"), "1");
    EXPECT_EQ(parsed.request.headers.Find("X-ONE"), "1");
    EXPECT_EQ(parsed.request.body, "hello");
    EXPECT_TRUE(parsed.request.keep_alive);
    EXPECT_EQ(parsed.rest, "GET /");
  }
}

TEST(RequestParser, ReadsChunksInAnyPieces) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0A;x=\"y z\"\r\n0123456789\r\n000\r\nAuthorization: Bearer late\r\n\r\nNEXT";
  for (const size_t step : {size_t{1}, size_t{2}, size_t{5}, SIZE_MAX}) {
    const Parsed parsed = Parse(text, step);
    ASSERT_TRUE(parsed.done) << step;
    EXPECT_EQ(parsed.request.body, "abc0123456789");
    EXPECT_FALSE(parsed.request.headers.Has("authorization")) << "trailers are no headers";
    EXPECT_EQ(parsed.rest, "NEXT");
  }
}

TEST(RequestParser, RefusesMalformedRequests) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  const std::pair<std::string, int> cases[] = {
      {"\x16\x03\x01 TLS", 400},
      {"GET /\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\n\r\n", 505},
      {"GET / HTTP/1.1\nHost: h\n\n\r\n\r\n", 505},
      {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET nowhere HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nNo colon\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400},
      {post + "Content-Length: -5\r\n\r\n", 400},
      {post + "Content-Length: 5x\r\n\r\n", 400},
      {post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {post + "Transfer-Encoding: chunked, gzip\r\n\r\n", 501},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {post + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Expect: coffee\r\nContent-Length: 5\r\n\r\nhello", 417},
      {chunked + "x\r\n\r\n", 400},
      {chunked + "-1\r\na\r\n", 400},
      {chunked + "3\r\nabcd\r\n0\r\n\r\n", 400},
      {chunked + "3 \r\nabc\r\n0\r\n\r\n", 400},
      {chunked + "fffffffffffffffff\r\n", 400},
      {chunked + "ffffffffffffffff\r\n", 413},
      {chunked + "0\r\nbad trailer\r\n\r\n", 400},
  };
  for (const auto& [text, status] : cases) {
    for (const size_t step : {size_t{1}, SIZE_MAX}) {
      const Parsed parsed = Parse(text, step);
      EXPECT_EQ(parsed.failure, status) << text << " by " << step;
      EXPECT_FALSE(parsed.done);
    }
  }
}

TEST(RequestParser, HoldsItsLimitsInAnyPieces) {
  const ParserLimits limits{.head_bytes = 1000, .body_bytes = 100};
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  std::string many;
  for (int i = 0; i < 200; ++i) many += "a: b\r\n";
  const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
  std::string chunks;
  for (int i = 0; i < 51; ++i) chunks += "2\r\nxy\r\n";
  const std::pair<std::string, int> cases[] = {
      {start + many + "\r\n", 431},
      {start + "a: " + std::string(2000, 'x'), 431},
      {"GET /" + std::string(2000, 'x'), 431},
      {start + "Content-Length: 101\r\n\r\n", 413},
      {chunked + "065\r\n", 413},
      {chunked + chunks, 413},
      {chunked + "1;" + std::string(3000, 'x'), 431},
      {chunked + "0\r\nTrailer: " + std::string(3000, 'x'), 431},
  };
  for (const auto& [text, status] : cases) {
    // 6 and 7: whole lines at a time, which the parser takes one by one.
    for (const size_t step : {size_t{1}, size_t{6}, size_t{7}, size_t{500}, SIZE_MAX}) {
      EXPECT_EQ(Parse(text, step, limits).failure, status) << text.substr(0, 80) << " by " << step;
    }
  }
  EXPECT_TRUE(Parse(start + "Content-Length: 100\r\n\r\n" + std::string(100, 'x'), 9, limits).done);
}

TEST(RequestParser, KnowsWhatTheClientWants) {
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n").request.keep_alive);
  EXPECT_TRUE(Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").request.keep_alive);
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").request.keep_alive);
  EXPECT_TRUE(
      Parse("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n")
          .request.wants_continue);
}

}  // namespace
}  // namespace hadal
