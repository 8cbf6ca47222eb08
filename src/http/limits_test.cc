// What a server survives: limits, timeouts, floods.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "http/server.h"
#include "http/testing.h"

namespace hadal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class HttpLimitsTest : public testing::Test {
 protected:
  void Start(const HttpServerOptions& options = {}) {
    Site site;
    site.router.Add("GET", "/health",
                    [](Exchange& exchange) -> Awaitable<void> {
                      co_await exchange.Respond(TextReply(200, "ok"));
                    },
                    {.metric = "ops", .open = true});
    site.router.Add("POST", "/echo", [](Exchange& exchange) -> Awaitable<void> {
      co_await exchange.Respond(TextReply(200, exchange.request().body));
    });
    site.router.Add("GET", "/hold", [this](Exchange& exchange) -> Awaitable<void> {
      ++n_held_;
      while (!release_) co_await exchange.Wait(milliseconds(5));
      co_await exchange.Respond(TextReply(200, "held"));
    });
    site.router.Add("GET", "/tokens", [this](Exchange& exchange) -> Awaitable<void> {
      const Notifier notifier = exchange.notifier();
      {
        const std::lock_guard lock(mutex_);
        notifiers_.push_back(notifier);
      }
      co_await exchange.StartStream(200, Headers());
      for (int i = 0; i < 20; ++i) {
        co_await exchange.Wait(milliseconds(1));
        co_await exchange.Write("token ");
      }
    });
    server_.emplace(options, std::move(site), metrics_);
  }
  TestClient Connect() { return TestClient(server_->port()); }
  double Cut(std::string_view cause) {
    return metrics_.Value(Counter::kHttpConnectionsCut, {cause});
  }

  std::atomic<int> n_held_ = 0;
  std::atomic<bool> release_ = false;
  std::mutex mutex_;
  std::vector<Notifier> notifiers_;
  Metrics metrics_;
  std::optional<HttpServer> server_;
};

const std::string kPost = "POST /echo HTTP/1.1\r\nHost: t\r\n";

TEST_F(HttpLimitsTest, RefusesWhatIsTooLarge) {
  HttpServerOptions options;
  options.max_header_bytes = 2000;
  options.max_body_bytes = 1000;
  Start(options);
  TestClient headers = Connect();
  headers.Send("GET /health HTTP/1.1\r\nHost: t\r\nX: " + std::string(100'000, 'x'));
  EXPECT_EQ(headers.Read().status, 431);
  TestClient announced = Connect();
  announced.Send(kPost + "X-Request-Id: big\r\nContent-Length: 100000000\r\n\r\n");
  const Reply refused = announced.Read();
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.headers.Find("x-request-id"), "big");
  TestClient chunked = Connect();
  chunked.Send(kPost + "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100; ++i) chunked.Send("64\r\n" + std::string(100, 'x') + "\r\n");
  EXPECT_EQ(chunked.Read().status, 413);
  EXPECT_EQ(Connect().Post("/echo", std::string(1000, 'x')).status, 200);
}

TEST_F(HttpLimitsTest, AClientThatSendsItAllAnywayStillReadsTheRefusal) {
  Start();
  TestClient client = Connect();
  client.Send(kPost + "Content-Length: 100000000\r\n\r\n");
  const std::string piece(1 << 20, 'x');
  bool open = true;
  for (int i = 0; i < 95 && open; ++i) open = client.Send(piece);
  EXPECT_EQ(client.Read().status, 413);
  EXPECT_EQ(Connect().Get("/health").status, 200);
}

TEST_F(HttpLimitsTest, AsksForABodyThatWaitsForIt) {
  Start();
  TestClient client = Connect();
  client.Send(kPost + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hello");
  EXPECT_EQ(client.Read().body, "hello");
  // One that would be refused is not asked for.
  client.Send(
      "POST /nowhere HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.Read().status, 404);
}

TEST_F(HttpLimitsTest, GivesUpOnSlowClients) {
  HttpServerOptions options;
  options.header_timeout = options.body_timeout = options.idle_timeout = milliseconds(60);
  Start(options);
  TestClient silent = Connect(), head = Connect(), body = Connect(), idle = Connect();
  head.Send("GET /health HTTP/1.1\r\nHo");
  body.Send(kPost + "Content-Length: 5\r\n\r\nhel");
  EXPECT_EQ(idle.Get("/health").status, 200);
  EXPECT_EQ(head.Read().status, 408);
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_EQ(silent.ReadToEnd(), "");
  EXPECT_EQ(idle.ReadToEnd(), "");
  EXPECT_EQ(Cut("header_timeout"), 1);
  EXPECT_EQ(Cut("body_timeout"), 1);
  EXPECT_EQ(Cut("idle"), 2);
}

TEST_F(HttpLimitsTest, MalformedRequestsGetTheirStatusAndTheServerGoesOn) {
  Start();
  for (const auto& [text, status] : std::vector<std::pair<std::string, int>>{
           {std::string("\0\0\0\0\r\n\r\n", 8), 400},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {kPost + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", 400},
           {kPost + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400}}) {
    TestClient client = Connect();
    client.Send(text);
    EXPECT_EQ(client.Read().status, status) << text;
    EXPECT_EQ(client.ReadToEnd(), "");
  }
  TestClient truncated = Connect();
  truncated.Send(kPost + "Content-Length: 10\r\n\r\nhalf");
  truncated.ShutdownSend();
  EXPECT_EQ(truncated.ReadToEnd(), "");
  EXPECT_EQ(Connect().Get("/health").status, 200);
}

TEST_F(HttpLimitsTest, RefusesConnectionsWhenAllAreBusy) {
  HttpServerOptions options;
  options.max_connections = 4;
  Start(options);
  std::vector<TestClient> busy;
  for (int i = 0; i < 4; ++i) {
    busy.push_back(Connect());
    busy.back().Send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  }
  ASSERT_TRUE(Eventually([&] { return n_held_ == 4; }));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Connect().Get("/health").status, 503);
  EXPECT_EQ(Cut("limit"), 10);
  release_ = true;
  for (TestClient& client : busy) EXPECT_EQ(client.Read().body, "held");
  EXPECT_EQ(Connect().Get("/health").status, 200) << "idle connections make room";
}

TEST_F(HttpLimitsTest, HoldsTheBodiesOfAllRequestsToABudget) {
  HttpServerOptions options;
  options.max_pending_body_bytes = 100'000;
  Start(options);
  TestClient client = Connect();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.Post("/echo", std::string(60'000, 'x')).status, 200);
  }
  EXPECT_EQ(client.Post("/echo", std::string(150'000, 'x')).status, 503);
  EXPECT_EQ(Connect().Post("/echo", std::string(90'000, 'x')).status, 200);
}

TEST_F(HttpLimitsTest, AnswersAmongTwoThousandHalfOpenConnections) {
  HttpServerOptions options;
  options.max_connections = 100;
  Start(options);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int n = limit.rlim_cur > 4000 ? 2000 : 500;
  std::vector<TestClient> half_open;
  for (int i = 0; i < n; ++i) {
    half_open.push_back(Connect());
    half_open.back().Send("GET /health HTTP/1.1\r\nHost:");
    if (i % 100 == 99) {
      EXPECT_EQ(Connect().Get("/health").status, 200) << i;
    }
  }
  EXPECT_TRUE(Eventually([&] { return Cut("evicted") >= n - 110; }));
  EXPECT_LE(metrics_.Value(Gauge::kHttpConnectionsOpen), 110);
}

TEST_F(HttpLimitsTest, GoesOnWhenDescriptorsRunOut) {
  Start();
  TestClient victim = Connect();
  victim.Send("GET /health HTTP/1.1\r\n");
  ASSERT_TRUE(Eventually([&] { return metrics_.Value(Gauge::kHttpConnectionsOpen) == 1; }));
  TestClient late{TestClient::Unconnected()};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit none_left = before;
  none_left.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  late.Connect(server_->port());
  // The half-open connection gives its descriptor to the newcomer.
  EXPECT_EQ(late.Get("/health").status, 200);
  EXPECT_EQ(victim.ReadToEnd(), "");
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_GE(Cut("accept_error"), 1);
  EXPECT_EQ(Cut("evicted"), 1);
  EXPECT_EQ(Connect().Get("/health").status, 200);
}

// For the thread sanitizer more than for what it asserts: clients that come and go in every state,
// while another thread wakes exchanges, live and dead, until the server stops under load.
TEST_F(HttpLimitsTest, StandsManyClientsThatComeAndGo) {
  HttpServerOptions options;
  options.max_connections = 20;
  Start(options);
  std::atomic<bool> stop = false;
  std::thread waker([&] {
    while (!stop) {
      {
        const std::lock_guard lock(mutex_);
        for (const Notifier& notifier : notifiers_) notifier.Notify();
        if (notifiers_.size() > 100) notifiers_.erase(notifiers_.begin(), notifiers_.begin() + 50);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::atomic<int> n_whole = 0;
  std::vector<std::thread> clients;
  for (int t = 0; t < 6; ++t) {
    clients.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        TestClient client = Connect();
        switch ((i + t) % 5) {
          case 0:
            if (client.Get("/tokens").body.size() == 120) ++n_whole;
            break;
          case 1:
            client.Send("GET /tokens HTTP/1.1\r\nHost: t\r\n\r\n");
            client.ReadUntil("token");
            break;
          case 2:
            client.Send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
            break;
          case 3:
            client.Send("POST /echo HTTP/1.1\r\nHost");
            break;
          case 4:
            client.Post("/echo", std::string(50'000, 'x'));
            break;
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(n_whole, 0);
  TestClient running = Connect();
  running.Send("GET /hold HTTP/1.1\r\nHost: t\r\n\r\n");
  server_->Stop();
  stop = true;
  waker.join();
  EXPECT_EQ(metrics_.Value(Gauge::kHttpConnectionsOpen), 0);
  EXPECT_EQ(metrics_.Value(Gauge::kHttpRequestsInFlight), 0);
}

}  // namespace
}  // namespace hadal
