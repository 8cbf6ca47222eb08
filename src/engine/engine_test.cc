#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/error.h"

namespace hadal {
namespace {

constexpr uint32_t kVocab = 50;

// A "model" whose next token is a function of the whole text so far.
int32_t NextToken(std::span<const int32_t> text) {
  uint32_t hash = 17;
  for (const int32_t token : text) hash = hash * 31 + static_cast<uint32_t>(token);
  return static_cast<int32_t>(hash % (kVocab - 1));
}

std::vector<int32_t> Expected(std::vector<int32_t> text, size_t n) {
  const size_t prompt = text.size();
  while (text.size() < prompt + n) text.push_back(NextToken(text));
  return {text.begin() + static_cast<std::ptrdiff_t>(prompt), text.end()};
}

class FakeExecutor : public StepExecutor {
 public:
  void Run(const StepPlan& plan, std::span<RunResult> results) override {
    if (device_lost) Fail(ErrorKind::kResource, "the device is gone");
    if (!preparation_.failed.empty()) Fail(ErrorKind::kResource, "no memory");
    // A step takes as long as a test wants: so that cancellations meet running requests.
    while (hold) std::this_thread::yield();
    for (size_t i = 0; i < results.size(); ++i) {
      const PlannedRun& run = plan.runs[i];
      const Sequence& sequence = *run.sequence;
      ASSERT_EQ(sequence.pages.n_tokens(), run.first_position + run.n_tokens);
      if (sequence.request.prompt.front() == poison) {
        results[i].error = Error(ErrorKind::kNumeric, "poisoned");
      }
      if (!run.samples) continue;
      std::vector<int32_t> text = sequence.request.prompt;
      text.insert(text.end(), sequence.generated.begin(), sequence.generated.end());
      for (size_t d = 0;; ++d) {
        results[i].tokens.push_back(NextToken(text));
        if (d == run.draft.size() || run.draft[d] != results[i].tokens.back()) break;
        text.push_back(run.draft[d]);
      }
    }
    ++steps;
  }
  bool kv_depends_on_length() const override { return false; }
  PreparationTimes preparation() const override { return preparation_; }
  PreparationTimes preparation_;
  std::atomic<bool> hold{false}, device_lost{false};
  std::atomic<int> steps{0};
  int32_t poison = -1;
};

KvLayout Layout() {
  ModelSpec spec;
  spec.n_layers = 1;
  spec.layers.resize(1);
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, 16);
}

class EngineTest : public testing::Test {
 protected:
  void Start(uint32_t max_open = 64, EngineOptions options = {}) {
    options.limits = {
        .max_tokens = 32, .max_sequences = 8, .max_logit_rows = 32, .max_context = 200};
    options.vocab = kVocab;
    options.max_open_requests = max_open;
    engine_ = std::make_unique<Engine>(options, kv_, executor_);
  }
  void TearDown() override {
    executor_.hold = false;
    if (!engine_) return;
    // Abandoned requests are gone within a step.
    for (int i = 0; i < 2000 && engine_->stats().kv.used_pages > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(engine_->stats().kv.used_pages, 0u);
    EXPECT_EQ(engine_->stats().kv.promised_pages, 0u);
  }
  static Request Ask(std::vector<int32_t> prompt, uint32_t max_tokens) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    return request;
  }
  // All tokens and the end.
  static std::pair<std::vector<int32_t>, FinishedEvent> Drain(RequestHandle& handle) {
    std::vector<int32_t> tokens;
    while (const auto event = handle.Next()) {
      if (const auto* token = std::get_if<TokenEvent>(&*event)) tokens.push_back(token->token);
      if (const auto* end = std::get_if<FinishedEvent>(&*event)) return {tokens, *end};
    }
    ADD_FAILURE() << "no FinishedEvent";
    return {};
  }

  KvManager kv_{Layout(), {40}, 32};
  FakeExecutor executor_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, OneRequest) {
  Start();
  const std::vector<int32_t> prompt = {1, 2, 3};
  RequestHandle handle = engine_->Submit(Ask(prompt, 7));
  const auto [tokens, end] = Drain(handle);
  EXPECT_EQ(tokens, Expected(prompt, 7));
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_EQ(end.usage.generated_tokens, 7u);
  EXPECT_TRUE(handle.ended());
  EXPECT_EQ(handle.Next(), std::nullopt);
}

TEST_F(EngineTest, ManyCallersGetWhatEachWouldGetAlone) {
  Start();
  std::vector<std::future<void>> callers;
  for (int32_t caller = 0; caller < 4; ++caller) {
    callers.push_back(std::async(std::launch::async, [this, caller] {
      for (int32_t i = 0; i < 12; ++i) {
        std::vector<int32_t> prompt(static_cast<size_t>(1 + (caller * 37 + i * 13) % 90), caller);
        prompt.push_back(i);
        RequestHandle handle = engine_->Submit(Ask(prompt, 20));
        EXPECT_EQ(Drain(handle).first, Expected(prompt, 20));
      }
    }));
  }
  for (std::future<void>& caller : callers) caller.get();
  EXPECT_EQ(engine_->stats().generated_tokens, 4u * 12 * 20);
}

TEST_F(EngineTest, StopTokensAndEos) {
  Start();
  const std::vector<int32_t> prompt = {4, 4};
  const std::vector<int32_t> all = Expected(prompt, 12);
  Request request = Ask(prompt, 12);
  request.eos_ids = {all[5]};
  const auto first = std::find(all.begin(), all.end(), all[5]) - all.begin() + 1;
  RequestHandle stops = engine_->Submit(request);
  const auto [tokens, end] = Drain(stops);
  EXPECT_EQ(tokens.size(), static_cast<size_t>(first));
  EXPECT_EQ(end.reason, FinishReason::kStop);
  request.sampling.ignore_eos = true;
  RequestHandle goes_on = engine_->Submit(request);
  EXPECT_EQ(Drain(goes_on).first, all);
  request.stop_token_ids = {all[0]};
  RequestHandle stops_at_once = engine_->Submit(request);
  EXPECT_EQ(Drain(stops_at_once).first.size(), 1u);
}

TEST_F(EngineTest, CancelEndsWithAnEvent) {
  Start();
  executor_.hold = true;
  RequestHandle running = engine_->Submit(Ask({1}, 199));
  RequestHandle queued = engine_->Submit(Ask({2}, 199));
  EXPECT_EQ(running.NextFor(std::chrono::milliseconds(5)), std::nullopt);
  EXPECT_FALSE(running.ended());
  running.Cancel();
  queued.Cancel();
  executor_.hold = false;
  EXPECT_EQ(Drain(running).second.reason, FinishReason::kCancelled);
  EXPECT_EQ(Drain(queued).second.reason, FinishReason::kCancelled);
}

TEST_F(EngineTest, AVanishedCallerIsCancelledAndOthersGoOn) {
  Start();
  executor_.hold = true;
  RequestHandle stays = engine_->Submit(Ask({3}, 50));
  { RequestHandle vanishes = engine_->Submit(Ask({1}, 199)); }
  executor_.hold = false;
  EXPECT_EQ(Drain(stays).first, Expected({3}, 50));
}

TEST_F(EngineTest, RefusesBeforeQueueing) {
  Start(2);
  EXPECT_THROW(engine_->Submit(Ask({}, 5)), Error);
  EXPECT_THROW(engine_->Submit(Ask({1, 50}, 5)), Error);
  EXPECT_THROW(engine_->Submit(Ask({-1}, 5)), Error);
  EXPECT_THROW(engine_->Submit(Ask(std::vector<int32_t>(150, 1), 51)), Error);
  EXPECT_THROW(engine_->Submit(Ask(std::vector<int32_t>(200, 1), 1)), Error);
  Request bad = Ask({1}, 5);
  bad.sampling.top_p = 0;
  EXPECT_THROW(engine_->Submit(bad), Error);
  bad = Ask({1}, 5);
  bad.stop_token_ids = {kVocab};
  EXPECT_THROW(engine_->Submit(bad), Error);

  executor_.hold = true;
  RequestHandle one = engine_->Submit(Ask({1}, 5)), two = engine_->Submit(Ask({1}, 5));
  try {
    engine_->Submit(Ask({1}, 5));
    ADD_FAILURE() << "a third open request was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
  }
  executor_.hold = false;
  one = RequestHandle();
  RequestHandle three = engine_->Submit(Ask({1}, 5));
  EXPECT_EQ(Drain(three).first.size(), 5u);
}

TEST_F(EngineTest, DefaultMaxTokensIsTheRestOfTheContext) {
  Start();
  Request request = Ask(std::vector<int32_t>(190, 1), 0);
  request.max_tokens.reset();
  RequestHandle handle = engine_->Submit(request);
  EXPECT_EQ(handle.max_tokens(), 10u);
  EXPECT_EQ(Drain(handle).first.size(), 10u);
}

TEST_F(EngineTest, FailuresReachTheirOwnCallerOnly) {
  executor_.poison = 9;
  Start();
  RequestHandle bad = engine_->Submit(Ask({9}, 30)), good = engine_->Submit(Ask({8}, 30));
  const FinishedEvent end = Drain(bad).second;
  EXPECT_EQ(end.reason, FinishReason::kError);
  ASSERT_TRUE(end.error.has_value());
  EXPECT_EQ(end.error->kind(), ErrorKind::kNumeric);
  EXPECT_EQ(Drain(good).first, Expected({8}, 30));
  executor_.device_lost = true;
  RequestHandle lost = engine_->Submit(Ask({8}, 30));
  EXPECT_EQ(Drain(lost).second.error->message(), "the device is gone");
}

TEST_F(EngineTest, EndAllTellsWhyToThoseWhoRunWaitAndCome) {
  Start();
  executor_.hold = true;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 12; ++i) handles.push_back(engine_->Submit(Ask({1, 2}, 100)));
  engine_->EndAll(Error(ErrorKind::kResource, "closing down", {.code = "draining"}));
  handles.push_back(engine_->Submit(Ask({1, 2}, 100)));
  executor_.hold = false;
  for (RequestHandle& handle : handles) {
    const FinishedEvent end = Drain(handle).second;
    EXPECT_EQ(end.reason, FinishReason::kError);
    ASSERT_TRUE(end.error.has_value());
    EXPECT_EQ(end.error->details().code, "draining");
  }
}

TEST_F(EngineTest, RefusalsCarryNumbers) {
  EngineOptions options;
  options.max_queue = 3;
  Start(20, options);
  const auto refusal = [&](Request request) {
    try {
      engine_->Submit(std::move(request));
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "accepted";
    return Error(ErrorKind::kIo, "");
  };
  const Error too_long = refusal(Ask(std::vector<int32_t>(150, 1), 51));
  ASSERT_TRUE(too_long.details().context_overflow.has_value());
  EXPECT_EQ(too_long.details().context_overflow->prompt_tokens, 150u);
  EXPECT_EQ(too_long.details().context_overflow->max_tokens, 51u);
  EXPECT_EQ(too_long.details().context_overflow->capacity, 200u);
  // Eight may run and three wait, whether or not the engine has taken them yet.
  executor_.hold = true;
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 11; ++i) handles.push_back(engine_->Submit(Ask({1}, 199)));
  const Error full = refusal(Ask({1}, 5));
  EXPECT_EQ(full.kind(), ErrorKind::kResource);
  EXPECT_GE(full.details().retry_after_seconds.value(), 1);
  handles.clear();
  executor_.hold = false;
}

TEST_F(EngineTest, WakesTheCallerWhenThereIsSomethingToRead) {
  Start();
  std::atomic<int> woken{0};
  Request request = Ask({1, 2}, 5);
  request.wake = [&woken] { ++woken; };
  RequestHandle handle = engine_->Submit(request);
  std::vector<int32_t> tokens;
  while (!handle.ended()) {
    const int seen = woken.load();
    while (const auto event = handle.TryNext()) {
      if (const auto* token = std::get_if<TokenEvent>(&*event)) tokens.push_back(token->token);
    }
    // A caller that only reads when woken misses nothing.
    while (!handle.ended() && woken.load() == seen) std::this_thread::yield();
  }
  EXPECT_EQ(tokens, Expected({1, 2}, 5));
  EXPECT_EQ(handle.TryNext(), std::nullopt);
  EXPECT_GE(woken.load(), 1);
}

TEST_F(EngineTest, ChoicesShareThePromptAndNothingElse) {
  Start();
  const std::vector<int32_t> prompt(50, 3);
  std::vector<RequestHandle> handles = engine_->SubmitChoices(Ask(prompt, 10), 5);
  ASSERT_EQ(handles.size(), 5u);
  EXPECT_EQ(handles[0].seed(), handles[4].seed());  // their draws differ by the choice index
  handles[2].Cancel();
  for (size_t i = 0; i < 5; ++i) {
    const auto [tokens, end] = Drain(handles[i]);
    if (i != 2) EXPECT_EQ(tokens, Expected(prompt, 10));
  }
  EXPECT_LE(engine_->stats().prompt_tokens, 50u + 5);
  EXPECT_THROW(engine_->SubmitChoices(Ask(prompt, 10), 0), Error);
  EXPECT_THROW(engine_->SubmitChoices(Ask(prompt, 10), 65), Error);
}

TEST_F(EngineTest, MetricsCountWhatHappened) {
  Metrics metrics;
  EngineOptions options;
  options.metrics = &metrics;
  Start(64, options);
  RequestHandle one = engine_->Submit(Ask(std::vector<int32_t>(40, 1), 6));
  Drain(one);
  RequestHandle two = engine_->Submit(Ask(std::vector<int32_t>(40, 1), 6));
  EXPECT_EQ(Drain(two).second.report.reuse_stop, ReuseStop::kWholePrompt);
  executor_.preparation_.failed = "page_tables";
  RequestHandle unlucky = engine_->Submit(Ask({2}, 6));
  EXPECT_TRUE(Drain(unlucky).second.error.has_value());
  executor_.preparation_.failed = {};
  const std::string text = metrics.Text();
  for (const char* line :
       {"hadal_prompt_tokens_total 81", "hadal_generated_tokens_total 12",
        "hadal_batch_preparation_failures_total{stage=\"page_tables\"} 1",
        "hadal_prefix_query_tokens_total 81", "hadal_prefix_hit_tokens_total 32",
        "hadal_time_to_first_token_seconds_count 2", "hadal_inter_token_latency_seconds_count 10",
        "hadal_request_seconds_count 3", "hadal_requests_running 0", "hadal_kv_pages 40",
        "hadal_kv_free_pages 40", "hadal_breaker_state{state=\"closed\"} 1"}) {
    EXPECT_NE(text.find(std::string("\n") + line + "\n"), std::string::npos) << line << text;
  }
  one = RequestHandle();
  two = RequestHandle();
  unlucky = RequestHandle();
  engine_.reset();
}

TEST_F(EngineTest, SeedIsDrawnAndReported) {
  Start();
  Request request = Ask({1}, 1);
  RequestHandle a = engine_->Submit(request), b = engine_->Submit(request);
  EXPECT_NE(a.seed(), b.seed());
  request.sampling.seed = 77;
  EXPECT_EQ(engine_->Submit(request).seed(), 77u);
}

}  // namespace
}  // namespace hadal
