// The whole way from token ids to token ids, with real tiny models and values computed elsewhere.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "engine/engine_test_stack.h"

namespace hadal {
namespace {

Request Greedy(const Json& golden) {
  Request request;
  request.prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
  request.max_tokens = static_cast<uint32_t>(golden["greedy_ids"].size());
  request.sampling.temperature = 0;
  return request;
}

Answer Wait(RequestHandle handle) {
  Answer answer = WaitFor(handle);
  if (answer.end.error) ADD_FAILURE() << answer.end.error->message();
  return answer;
}

class EngineModel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::filesystem::path path = kModels / GetParam() / "golden.json";
    golden_ = ParseJson(ReadTextFile(path), path.string());
  }
  Json golden_;
};

TEST_P(EngineModel, GreedyTokensAreTheGoldenOnes) {
  Stack stack(kModels / GetParam(),
              {.max_tokens = 17, .max_sequences = 4, .max_logit_rows = 17, .max_context = 256}, 32);
  EXPECT_EQ(Wait(stack.engine->Submit(Greedy(golden_))).tokens,
            golden_["greedy_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(Wait(stack.engine->Submit(Greedy(golden_["long"]))).tokens,
            golden_["long"]["greedy_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(stack.engine->stats().kv.used_pages, 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, EngineModel,
                         testing::Values("llama_gqa", "llama_rope_dynamic", "mistral_swa",
                                         "qwen2_swa_mixed", "qwen3", "deepseek_v2_lite",
                                         "deepseek_v3"),
                         [](const auto& test) { return std::string(test.param); });

// A conversation: each turn's prompt is the last one with its answer and something new. Every kind
// of attention must give the very bits that computing it all again gives.
TEST(EnginePrefix, EarlierTurnsAreReusedBitForBit) {
  for (const char* name : {"qwen2_swa_mixed", "mistral_swa", "deepseek_v3", "llama_rope_dynamic"}) {
    SCOPED_TRACE(name);
    const Json golden = ParseJson(ReadTextFile(kModels / name / "golden.json"), name);
    const auto text = golden["long"]["prompt_ids"].get<std::vector<int32_t>>();
    const StepLimits limits{
        .max_tokens = 48, .max_sequences = 2, .max_logit_rows = 48, .max_context = 256};
    Stack chat(kModels / name, limits, 16);
    std::vector<int32_t> history;
    for (size_t turn = 0; turn < 3; ++turn) {
      const auto more = text.begin() + static_cast<std::ptrdiff_t>(turn * 40);
      history.insert(history.end(), more, more + 40);
      Request request;
      request.prompt = history;
      request.max_tokens = 20;
      request.sampling.temperature = 0.7f;
      request.sampling.seed = 3;
      request.sampling.logprobs = 0;
      Stack fresh(kModels / name, limits, 16);
      const Answer expected = Wait(fresh.engine->Submit(request));
      const Answer answer = Wait(chat.engine->Submit(request));
      EXPECT_EQ(answer, expected) << "turn " << turn;
      EXPECT_EQ(expected.end.usage.cached_tokens, 0u);
      const bool shares = turn > 0 && !chat.model.rope().length_dependent();
      // All of the earlier turn but the last token of its answer, in whole pages.
      EXPECT_EQ(answer.end.usage.cached_tokens, shares ? (history.size() - 41) / 16 * 16 : 0u);
      // The same again: the last page at least is computed anew.
      const Answer again = Wait(chat.engine->Submit(request));
      EXPECT_EQ(again, expected);
      EXPECT_EQ(again.end.usage.cached_tokens, (history.size() - 1) / 16 * 16);
      history.insert(history.end(), answer.tokens.begin(), answer.tokens.end());
    }
    EXPECT_EQ(chat.engine->stats().kv.used_pages, 0u);
    EXPECT_GT(chat.engine->stats().kv.known_blocks, 0u);
  }
}

// Prompts of many lengths, greedy and sampled, in one engine with small chunks and few pages, must
// be bit for bit what each is alone.
void ExpectEachAsAlone(const char* name, std::unique_ptr<Backend> (*make_backend)()) {
  const Json golden = ParseJson(ReadTextFile(kModels / name / "golden.json"), name);
  const auto text = golden["long"]["prompt_ids"].get<std::vector<int32_t>>();
  std::vector<Request> requests;
  for (size_t i = 0; i < 12; ++i) {
    Request request;
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(i * 5);
    request.prompt.assign(begin, begin + static_cast<std::ptrdiff_t>(1 + i * 7));
    request.max_tokens = 6 + static_cast<uint32_t>(i % 5);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.8f;
    request.sampling.top_p = 0.95f;
    request.sampling.repetition_penalty = 1.1f;
    request.sampling.seed = 1000 + i;
    request.sampling.logprobs = 2;
    request.prompt_logprobs = i % 2 == 0;
    requests.push_back(request);
  }
  Stack alone(kModels / name,
              {.max_tokens = 128, .max_sequences = 1, .max_logit_rows = 128, .max_context = 256},
              16, {}, 0, make_backend());
  Stack together(kModels / name,
                 {.max_tokens = 13, .max_sequences = 6, .max_logit_rows = 13, .max_context = 256},
                 16, {}, 0, make_backend());
  std::vector<RequestHandle> handles;
  for (const Request& request : requests) handles.push_back(together.engine->Submit(request));
  for (size_t i = 0; i < requests.size(); ++i) {
    const Answer expected = Wait(alone.engine->Submit(requests[i]));
    EXPECT_EQ(expected.tokens.size(), *requests[i].max_tokens);
    EXPECT_EQ(Wait(std::move(handles[i])), expected) << "request " << i;
  }
  EXPECT_EQ(together.engine->stats().kv.used_pages, 0u);
  EXPECT_EQ(together.engine->stats().kv.promised_pages, 0u);
}

TEST(EngineBatch, ManyAtOnceAreEachAsAlone) {
  for (const char* name : {"qwen2_swa_mixed", "deepseek_v3", "llama_rope_dynamic"}) {
    SCOPED_TRACE(name);
    ExpectEachAsAlone(name, MakeRefBackend);
  }
}

// With threads, sequences choose their tokens at the same time.
TEST(EngineBatch, ManyAtOnceOnThreadsAreEachAsAlone) {
  for (const char* name : {"qwen2_swa_mixed", "deepseek_v3"}) {
    SCOPED_TRACE(name);
    ExpectEachAsAlone(name, [] { return MakeCpuBackend(3); });
  }
}

}  // namespace
}  // namespace hadal
