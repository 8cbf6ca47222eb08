#include "http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>

#include "base/json.h"
#include "http/testing.h"

namespace hadal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the handlers below share with the test.
struct World {
  std::mutex mutex;
  std::vector<std::string> log;   // access log
  std::vector<Notifier> waiting;  // exchanges in /wait
  std::atomic<int> n_waiting = 0, n_gone = 0, n_callbacks = 0, n_finished = 0;

  Notifier TakeNotifier() {
    const std::lock_guard lock(mutex);
    Notifier last = waiting.back();
    waiting.pop_back();
    return last;
  }
  size_t n_logged() {
    const std::lock_guard lock(mutex);
    return log.size();
  }
  Json LastLogged() {
    const std::lock_guard lock(mutex);
    return ParseJson(log.back(), "log");
  }
};

// Waits for Notify, streamed or not; counts how it ended.
Awaitable<void> WaitThenAnswer(World& world, Exchange& exchange, bool stream) {
  exchange.OnClientGone([&world] { ++world.n_callbacks; });
  {
    const std::lock_guard lock(world.mutex);
    world.waiting.push_back(exchange.notifier());
  }
  if (stream) co_await exchange.StartStream(200, Headers());
  ++world.n_waiting;
  try {
    Exchange::Wake wake = co_await exchange.Wait(seconds(60));
    EXPECT_EQ(wake, Exchange::Wake::kNotified);
  } catch (const ClientGone&) {
    ++world.n_gone;
    throw;
  }
  if (stream) {
    co_await exchange.Write("done");
    co_await exchange.FinishStream();
  } else {
    co_await exchange.Respond(TextReply(200, "done"));
  }
  ++world.n_finished;
}

Site MakeSite(World& world) {
  Site site;
  site.router.Add(
      "GET", "/health",
      [](Exchange& exchange) -> Awaitable<void> {
        co_await exchange.Respond(TextReply(200, exchange.draining() ? "draining" : "ok"));
      },
      {.metric = "ops", .open = true, .while_draining = true});
  site.router.Add("POST", "/echo", [](Exchange& exchange) -> Awaitable<void> {
    co_await exchange.Respond(TextReply(200, exchange.request().body));
  });
  site.router.Add("GET", "/models/{id*}", [](Exchange& exchange) -> Awaitable<void> {
    std::string id(exchange.request().Parameter("id"));
    co_await exchange.Respond(TextReply(200, std::move(id)));
  });
  site.router.Add("GET", "/stream", [](Exchange& exchange) -> Awaitable<void> {
    co_await exchange.StartStream(200, Headers("content-type", "text/event-stream"));
    for (int i = 0; i < 3; ++i) co_await exchange.Write("data: " + std::to_string(i) + "\n\n");
  });
  site.router.Add("GET", "/flood", [&world](Exchange& exchange) -> Awaitable<void> {
    co_await exchange.StartStream(200, Headers());
    try {
      while (true) co_await exchange.Write(std::string(64 << 10, 'x'));
    } catch (const ClientGone&) {
      ++world.n_gone;
      throw;
    }
  });
  site.router.Add("GET", "/wait", [&world](Exchange& exchange) -> Awaitable<void> {
    co_await WaitThenAnswer(world, exchange, /*stream=*/false);
  });
  site.router.Add("GET", "/wait-stream", [&world](Exchange& exchange) -> Awaitable<void> {
    co_await WaitThenAnswer(world, exchange, /*stream=*/true);
  });
  site.router.Add("GET", "/throw/{what}", [](Exchange& exchange) -> Awaitable<void> {
    const std::string_view what = exchange.request().Parameter("what");
    if (what == "error") Fail(ErrorKind::kInvalid, "no such thing");
    if (what == "bug") throw std::runtime_error("a secret");
    if (what == "int") throw 7;
    if (what == "stream") {
      co_await exchange.StartStream(200, Headers());
      co_await exchange.Write("half");
      throw std::runtime_error("too late");
    }
  });
  site.access_log = [&world](const std::string& line) {
    const std::lock_guard lock(world.mutex);
    world.log.push_back(line);
  };
  return site;
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServer& Start(HttpServerOptions options = {}) { return Start(options, MakeSite(world_)); }
  HttpServer& Start(HttpServerOptions options, Site site) {
    server_ = std::make_unique<HttpServer>(options, std::move(site), metrics_);
    return *server_;
  }
  TestClient Connect() { return TestClient(server_->port()); }

  World world_;
  Metrics metrics_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, KeepsTheConnectionForManyRequests) {
  Start();
  TestClient client = Connect();
  for (int i = 0; i < 20; ++i) {
    const Reply health = client.Get("/health");
    EXPECT_EQ(health.status, 200);
    EXPECT_EQ(health.body, "ok");
    const std::string body(static_cast<size_t>(i * 7000), 'b');
    EXPECT_EQ(client.Post("/echo", body).body, body);
  }
  EXPECT_EQ(metrics_.Value(Counter::kHttpConnections), 1);
  ASSERT_TRUE(Eventually([&] { return world_.n_logged() == 40; }));
  EXPECT_EQ(metrics_.Value(Counter::kHttpRequests, {"ops", "2xx"}), 20);
  EXPECT_EQ(metrics_.Count(Histogram::kHttpFirstByte, {"ops"}), 20);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Start();
  TestClient client = Connect();
  std::string all;
  for (int i = 0; i < 50; ++i) {
    all += "GET /models/m" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
    all += "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc\r\n";
  }
  ASSERT_TRUE(client.Send(all));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(client.Read().body, "m" + std::to_string(i));
    EXPECT_EQ(client.Read().body, "abc");
  }
}

TEST_F(HttpServerTest, StreamsInChunksAndKeepsTheConnection) {
  Start();
  TestClient client = Connect();
  for (int i = 0; i < 3; ++i) {
    const Reply reply = client.Get("/stream");
    EXPECT_EQ(reply.headers.Find("content-type"), "text/event-stream");
    EXPECT_EQ(reply.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  }
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  Start();
  TestClient streaming = Connect();
  streaming.Send("GET /stream HTTP/1.0\r\n\r\n");
  const std::string answer = streaming.ReadToEnd();
  EXPECT_EQ(answer.find("chunked"), std::string::npos);
  EXPECT_NE(answer.find("\r\n\r\ndata: 0\n\ndata: 1\n\ndata: 2\n\n"), std::string::npos);
  TestClient kept = Connect();
  for (int i = 0; i < 2; ++i) {
    kept.Send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(kept.Read().headers.Find("connection"), "keep-alive");
  }
}

TEST_F(HttpServerTest, ReadsChunkedBodies) {
  Start();
  TestClient client = Connect();
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send("5\r\nhello\r\n1;name=value\r\n \r\n5\r\nwor");
  client.Send("ld\r\n0\r\nTrailer: ignored\r\n\r\n");
  EXPECT_EQ(client.Read().body, "hello world");
  EXPECT_EQ(client.Get("/health").status, 200);
}

TEST_F(HttpServerTest, AnswersHeadOptionsAndWrongMethods) {
  Start();
  TestClient client = Connect();
  client.Send("HEAD /health HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.Read(/*head_only=*/true).headers.Find("content-length"), "2");
  client.Send("HEAD /stream HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.Read(/*head_only=*/true).status, 200);
  client.Send("OPTIONS /echo HTTP/1.1\r\nHost: t\r\n\r\n");
  Reply options = client.Read(/*head_only=*/true);
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.headers.Find("allow"), "POST, OPTIONS");
  const Reply wrong = client.Post("/health", "x");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.Find("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(client.Get("/nothing").status, 404);
  EXPECT_EQ(client.Get("//models///a%2Fb/c").body, "a/b/c");
}

TEST_F(HttpServerTest, HandlerExceptionsBecomeAnswers) {
  Start();
  TestClient client = Connect();
  const Reply error = client.Get("/throw/error");
  EXPECT_EQ(error.status, 400);
  EXPECT_EQ(error.body, "no such thing\n");
  for (const char* what : {"bug", "int", "nothing"}) {
    const Reply bug = client.Get(std::string("/throw/") + what);
    EXPECT_EQ(bug.status, 500) << what;
    EXPECT_EQ(bug.body.find("secret"), std::string::npos);
  }
  EXPECT_EQ(client.Get("/health").status, 200);
  // The head is out: the only honest end is one that no client can take for a whole answer.
  EXPECT_EQ(client.Get("/throw/stream").status, 0);
  ASSERT_TRUE(Eventually([&] { return world_.n_logged() == 6; }));
  EXPECT_EQ(world_.LastLogged()["error"], "too late");
  EXPECT_EQ(world_.LastLogged()["complete"], false);
  EXPECT_EQ(Connect().Get("/health").status, 200);
}

TEST_F(HttpServerTest, GuardsRoutesWithKeys) {
  Site site = MakeSite(world_);
  site.keys = ApiKeys({"first-key", "second-key"});
  Start({}, std::move(site));
  TestClient client = Connect();
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_EQ(client.Get("/models/a").status, 401);
  EXPECT_EQ(client.Get("/models/a", "Authorization: Bearer first-kez\r\n").status, 401);
  EXPECT_EQ(client.Get("/models/a", "Authorization: Bearer \r\n").status, 401);
  EXPECT_EQ(client.Get("/models/a", "Authorization: Basic eDpmaXJzdC1rZXk=\r\n").status, 200);
  EXPECT_EQ(client.Get("/models/a", "Authorization: Basic eDpmaXJzdC1rZXo=\r\n").status, 401);
  EXPECT_EQ(client.Get("/models/a", "Authorization: Basic !!!!\r\n").status, 401);
  EXPECT_EQ(client.Get("/nothing").status, 401);
  EXPECT_EQ(client.Get("/models/a", "Authorization: bearer first-key\r\n").status, 200);
  EXPECT_EQ(client.Get("/models/a", "X-API-Key: second-key\r\n").status, 200);
  ASSERT_TRUE(Eventually([&] { return world_.n_logged() == 10; }));
  EXPECT_EQ(world_.LastLogged()["key"], 1);
  // A refused upload is not waited for.
  client.Send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10000000\r\n\r\n");
  EXPECT_EQ(client.Read().status, 401);
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, AnswersBrowsers) {
  Site site = MakeSite(world_);
  site.keys = ApiKeys({"key"});
  site.cors_origin = "https://chat.example";
  Start({}, std::move(site));
  TestClient client = Connect();
  client.Send(
      "OPTIONS /echo HTTP/1.1\r\nHost: t\r\nOrigin: https://chat.example\r\n"
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization, x-stainless-os\r\n\r\n");
  const Reply preflight = client.Read(/*head_only=*/true);
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.Find("access-control-allow-origin"), "https://chat.example");
  EXPECT_EQ(preflight.headers.Find("access-control-allow-headers"),
            "authorization, x-stainless-os");
  EXPECT_EQ(client.Get("/health", "Origin: https://chat.example\r\n")
                .headers.Find("access-control-allow-origin"),
            "https://chat.example");
  const Reply stranger = client.Get("/health", "Origin: https://evil.example\r\n");
  EXPECT_FALSE(stranger.headers.Has("access-control-allow-origin"));
}

TEST_F(HttpServerTest, NamesRequests) {
  Start();
  TestClient client = Connect();
  EXPECT_EQ(client.Get("/health", "X-Request-Id: mine-7\r\n").headers.Find("x-request-id"),
            "mine-7");
  const auto first = client.Get("/health", "X-Request-Id: has space\r\n");
  const auto second = client.Get("/health");
  EXPECT_EQ(first.headers.Find("x-request-id")->substr(0, 4), "req-");
  EXPECT_NE(first.headers.Find("x-request-id"), second.headers.Find("x-request-id"));
  const Reply refused = client.Get("/nothing", "X-Request-Id: lost\r\n");
  EXPECT_EQ(refused.headers.Find("x-request-id"), "lost");
}

TEST_F(HttpServerTest, AnotherThreadWakesAHandler) {
  Start();
  for (const char* path : {"/wait", "/wait-stream"}) {
    TestClient client = Connect();
    world_.n_waiting = 0;
    client.Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
    const Notifier notifier = world_.TakeNotifier();
    notifier.Notify();
    EXPECT_EQ(client.Read().body, "done");
    notifier.Notify();  // the exchange is over
  }
  EXPECT_EQ(world_.n_gone, 0);
}

TEST_F(HttpServerTest, NotifiersOutliveTheServer) {
  Start();
  TestClient client = Connect();
  client.Send("GET /wait HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  const Notifier notifier = world_.TakeNotifier();
  server_.reset();
  EXPECT_EQ(world_.n_gone, 1);
  notifier.Notify();
}

TEST_F(HttpServerTest, NoticesAVanishedClientWhileTheHandlerWaits) {
  Start();
  int expected = 0;
  for (const char* path : {"/wait", "/wait-stream"}) {
    TestClient client = Connect();
    client.Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return world_.n_waiting == expected + 1; }));
    client.Close();
    ++expected;
    EXPECT_TRUE(Eventually([&] { return world_.n_gone == expected; })) << path;
    EXPECT_EQ(world_.n_callbacks, expected);
  }
  ASSERT_TRUE(Eventually([&] { return world_.n_logged() == 2; }));
  EXPECT_EQ(world_.LastLogged()["complete"], false);
}

TEST_F(HttpServerTest, AnswersAClientThatHasSaidAllItWillSay) {
  Start();
  TestClient client = Connect();
  client.Send("GET /health HTTP/1.1\r\nHost: t\r\n\r\nGET /models/a HTTP/1.1\r\nHost: t\r\n\r\n");
  client.ShutdownSend();
  EXPECT_EQ(client.Read().body, "ok");
  EXPECT_EQ(client.Read().body, "a");
  EXPECT_EQ(client.ReadToEnd(), "");
}

TEST_F(HttpServerTest, ARequestSentAheadIsNeitherADisconnectNorLost) {
  Start();
  TestClient client = Connect();
  client.Send("GET /wait HTTP/1.1\r\nHost: t\r\n\r\nGET /models/next HTTP/1.1\r\nHo");
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  client.Send("st: t\r\n\r\n");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(world_.n_gone, 0);
  world_.TakeNotifier().Notify();
  EXPECT_EQ(client.Read().body, "done");
  EXPECT_EQ(client.Read().body, "next");
}

TEST_F(HttpServerTest, NoticesAVanishedClientBehindAFullReadAhead) {
  Start();
  TestClient client = Connect();
  client.Send(
      "GET /wait HTTP/1.1\r\nHost: t\r\n\r\nPOST /echo HTTP/1.1\r\nHost: t\r\n"
      "Content-Length: 100000\r\n\r\n");
  client.Send(std::string(100000, 'x'));  // more than is read ahead, less than the kernel takes
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  client.Close();
  EXPECT_TRUE(Eventually([&] { return world_.n_gone == 1; }));
}

TEST_F(HttpServerTest, DropsASlowReader) {
  HttpServerOptions options;
  options.write_timeout = milliseconds(100);
  options.send_buffer_bytes = 16 << 10;
  Start(options);
  TestClient client(server_->port(), /*receive_buffer=*/4096);
  client.Send("GET /flood HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_TRUE(Eventually([&] { return world_.n_gone == 1; }));
  EXPECT_EQ(metrics_.Value(Counter::kHttpConnectionsCut, {"slow_reader"}), 1);
  EXPECT_EQ(Connect().Get("/health").status, 200);
}

TEST_F(HttpServerTest, DrainLetsRunningRequestsFinish) {
  HttpServer& server = Start();
  TestClient running = Connect(), idle = Connect();
  EXPECT_EQ(idle.Get("/health").body, "ok");
  running.Send("GET /wait-stream HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  auto drained = std::async(std::launch::async, [&] { return server.Drain(seconds(20)); });
  ASSERT_TRUE(Eventually([&] { return server.draining(); }));
  const Reply refused = idle.Get("/models/a");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.Find("connection"), "close");
  EXPECT_EQ(Connect().Get("/health").body, "draining");
  world_.TakeNotifier().Notify();
  EXPECT_EQ(running.Read().body, "done");
  running.Close();
  idle.Close();
  EXPECT_TRUE(drained.get());
  server.Stop();
  EXPECT_FALSE(Connect().connected());
}

TEST_F(HttpServerTest, DrainWaitsNoLongerThanTheDeadline) {
  HttpServer& server = Start();
  TestClient running = Connect();
  running.Send("GET /wait HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  EXPECT_FALSE(server.Drain(milliseconds(50)));
  EXPECT_EQ(world_.n_gone, 0);
  server.Stop();
  EXPECT_EQ(world_.n_gone, 1);
  EXPECT_EQ(running.ReadToEnd(), "");
}

TEST_F(HttpServerTest, StopEndsADrain) {
  HttpServer& server = Start();
  TestClient running = Connect();
  running.Send("GET /wait HTTP/1.1\r\nHost: t\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return world_.n_waiting == 1; }));
  auto drained = std::async(std::launch::async, [&] { return server.Drain(seconds(600)); });
  ASSERT_TRUE(Eventually([&] { return server.draining(); }));
  server.Stop();
  EXPECT_FALSE(drained.get());
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  HttpServer& server = Start();
  HttpServerOptions taken;
  taken.port = server.port();
  Metrics metrics;
  EXPECT_THROW(HttpServer(taken, Site(), metrics), Error);
  HttpServerOptions nowhere;
  nowhere.host = "no such host";
  EXPECT_THROW(HttpServer(nowhere, Site(), metrics), Error);
}

}  // namespace
}  // namespace hadal
