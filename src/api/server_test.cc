// The whole server in one process: many clients at once, some of them impatient.
#include "api/server.h"

#include <gtest/gtest.h>

#include <thread>

#include "api/prompt_builder.h"
#include "chat/prompt_tokens.h"
#include "engine/engine_test_stack.h"
#include "http/testing.h"

namespace hadal::api {
namespace {

using namespace std::chrono_literals;

const std::filesystem::path kModel = kModels / "llama_gqa";

class ApiServerTest : public testing::Test {
 protected:
  ApiServerTest()
      : stack_(kModel,
               {.max_tokens = 64, .max_sequences = 8, .max_logit_rows = 8, .max_context = 256}, 60,
               EngineOptionsFor(metrics_)),
        tokenizer_(Tokenizer::Create(stack_.checkpoint.vocabulary())),
        api_({.keep_alive = 50ms}, metrics_),
        http_({}, api_.MakeSite(), metrics_) {}

  static EngineOptions EngineOptionsFor(Metrics& metrics) {
    EngineOptions options;
    options.metrics = &metrics;
    return options;
  }
  void Ready() {
    ServedModel model{.engine = &*stack_.engine,
                      .tokenizer = &tokenizer_,
                      .names = ModelNames({"tiny"}, true),
                      .special_tokens = {},
                      .params = {stack_.checkpoint.spec().vocab, {}, {}},
                      .eos_ids = stack_.checkpoint.spec().eos_ids};
    model.chat_template.emplace(
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
    api_.SetModel(std::move(model));
  }
  TestClient Connect() { return TestClient(http_.port()); }
  bool PagesAreFree() {
    return Eventually([&] { return stack_.engine->stats().kv.used_pages == 0; });
  }

  Metrics metrics_;
  Stack stack_;
  Tokenizer tokenizer_;
  ApiServer api_;
  HttpServer http_;
};

TEST_F(ApiServerTest, NotReadyWhileLoading) {
  api_.SetProgress(0.25);
  EXPECT_EQ(Connect().Get("/health").status, 200);
  const Reply ready = Connect().Get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.body, R"({"status":"loading","progress":0.25})");
  const Reply refused = Connect().Post("/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.Find("retry-after"), "2");
  Ready();
  EXPECT_EQ(Connect().Get("/ready").status, 200);
  EXPECT_EQ(Connect().Post("/v1/completions", R"({"prompt": "x"})").status, 200);
}

TEST_F(ApiServerTest, ManyClientsGetWhatOneGets) {
  Ready();
  const auto body = [](int i) {
    return R"({"prompt": [[5, 6, 7], [8, 9]], "n": 2, "max_tokens": 20, "ignore_eos": true, "seed": )" +
           std::to_string(i % 4) + "}";
  };
  const auto choices_of = [](const Reply& reply) {
    return OrderedJson::parse(reply.body)["choices"].dump();
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 4; ++i) alone.push_back(choices_of(Connect().Post("/completions", body(i))));
  std::vector<std::thread> clients;
  std::atomic<int> equal{0};
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] {
      TestClient client = Connect();
      for (int turn = 0; turn < 2; ++turn) {
        const Reply reply = client.Post("/completions", body(i));
        equal += reply.status == 200 && choices_of(reply) == alone[static_cast<size_t>(i % 4)];
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(equal.load(), 24);
  EXPECT_TRUE(PagesAreFree());
}

TEST_F(ApiServerTest, VanishedClientsFreeTheirPages) {
  Ready();
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&, i] {
      TestClient client = Connect();
      const std::string stream = i % 2 == 0 ? "true" : "false";
      const std::string body =
          R"({"prompt": [5, 6, 7], "max_tokens": 250, "ignore_eos": true, "stream": )" + stream +
          "}";
      client.Send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
      std::this_thread::sleep_for(std::chrono::milliseconds(i));
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(PagesAreFree());
  // Those that went before the engine had their request count nowhere.
  EXPECT_TRUE(Eventually([&] { return metrics_.Value(Counter::kAborted, {"client_gone"}) >= 1; }));
  EXPECT_EQ(Connect().Post("/v1/completions", R"({"prompt": "x", "max_tokens": 1})").status, 200);
}

TEST_F(ApiServerTest, DrainsWhatRuns) {
  Ready();
  TestClient client = Connect();
  const std::string body =
      R"({"prompt": [5], "max_tokens": 60, "ignore_eos": true, "stream": true})";
  client.Send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  client.ReadUntil("data: ");
  std::thread drain([&] { EXPECT_TRUE(http_.Drain(20s)); });
  const std::string rest = client.ReadToEnd();
  EXPECT_NE(rest.find("\"finish_reason\":\"length\""), std::string::npos);
  EXPECT_NE(rest.find("[DONE]"), std::string::npos);
  drain.join();
}

TEST_F(ApiServerTest, ReportsBelongToTheirRequest) {
  Ready();
  TestClient client = Connect();
  client.Post("/v1/chat/completions",
              R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "seed": 9})",
              "X-Request-Id: mine\r\n");
  ASSERT_TRUE(Eventually([&] { return Connect().Get("/v1/requests/mine").status == 200; }));
  const OrderedJson report = OrderedJson::parse(client.Get("/v1/requests/mine").body);
  EXPECT_EQ(report["parameters"]["seed"], 9);
  EXPECT_EQ(report["choices"].size(), 1u);
  EXPECT_EQ(client.Get("/v1/requests/other").status, 404);
}

}  // namespace
}  // namespace hadal::api
