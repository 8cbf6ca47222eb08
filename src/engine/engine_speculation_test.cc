// With drafts every request gets the very bytes that it gets without: real tiny models of every
// kind of attention, one at a time and in mixed batches, however tokens are chosen.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/json.h"
#include "base/mapped_file.h"
#include "engine/engine_test_stack.h"

namespace hadal {
namespace {

std::string Bits(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return fmt::format("{:016x}", bits);
}

std::string Describe(const TokenLogprobs& logprobs) {
  std::string text = fmt::format(" {} {} rank {}", logprobs.chosen.token,
                                 Bits(logprobs.chosen.logprob), logprobs.rank);
  for (const TokenLogprob& other : logprobs.top) {
    text += fmt::format(" {}:{}", other.token, Bits(other.logprob));
  }
  return text;
}

struct Told {
  std::vector<std::string> events;  // everything but times
  FinishedEvent end;
};

Told Listen(RequestHandle& handle) {
  Told told;
  while (const auto event = handle.Next()) {
    if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      told.events.push_back(fmt::format("{}{}{}", token->token, token->ends_text ? " ends" : "",
                                        token->logprobs ? Describe(*token->logprobs) : ""));
    } else if (const auto* prompt = std::get_if<PromptEvent>(&*event)) {
      for (const TokenLogprobs& entry : prompt->logprobs) {
        told.events.push_back("prompt" + Describe(entry));
      }
    } else {
      told.end = std::get<FinishedEvent>(*event);
      told.events.push_back(fmt::format("{} {}", Name(told.end.reason),
                                        told.end.error ? told.end.error->message() : ""));
    }
  }
  return told;
}

constexpr uint32_t kKinds = 8;

// Random models say little twice: the bias makes them choose among a few tokens, so that guesses
// come true now and then.
Request MakeOne(const std::vector<int32_t>& text, uint32_t kind, uint32_t i) {
  Request request;
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>((7 * i) % 30);
  request.prompt.assign(begin, begin + 12 + static_cast<std::ptrdiff_t>((13 * i) % 40));
  request.max_tokens = 40;
  request.sampling.temperature = 0.8f;
  request.sampling.seed = 17 + i;
  const auto bias = [&](float value) {
    for (const int32_t token : {3, 5, 7}) request.sampling.logit_bias.emplace_back(token, value);
  };
  switch (kind) {
    case 0:
      bias(20);
      request.sampling.temperature = 0;
      break;
    case 1:
      bias(20);
      break;
    case 2:
      bias(20);
      request.sampling.top_p = 0.9f;
      request.sampling.min_p = 0.02f;
      request.sampling.logprobs = 3;
      break;
    case 3:
      bias(8);
      request.sampling.repetition_penalty = 1.2f;
      request.sampling.frequency_penalty = 0.1f;
      request.sampling.presence_penalty = -0.5f;
      break;
    case 4:  // ends somewhere, not before its 20th token
      bias(20);
      request.stop_token_ids = {5};
      request.sampling.min_tokens = 20;
      break;
    case 5:
      bias(20);
      request.sampling.temperature = 0;
      request.sampling.logprobs = 1;
      request.prompt_logprobs = true;
      request.eos_ids = {3};
      request.sampling.ignore_eos = true;
      break;
    case 6:
      bias(20);
      request.sampling.dry.multiplier = 0.8f;
      request.sampling.dry.allowed_length = 4;
      break;
    case 7:
      bias(20);
      request.sampling.top_k = 3;
      break;
    default:
      break;
  }
  return request;
}

EngineOptions Drafting(Speculation speculation) {
  EngineOptions options;
  options.limits.speculation = speculation;
  options.limits.max_draft = 6;
  return options;
}

class EngineSpeculation : public testing::TestWithParam<const char*> {
 protected:
  EngineSpeculation() {
    const Json golden = ParseJson(ReadTextFile(kModels / GetParam() / "golden.json"), GetParam());
    text_ = golden["long"]["prompt_ids"].get<std::vector<int32_t>>();
  }
  std::filesystem::path path() const { return kModels / GetParam(); }
  std::vector<int32_t> text_;
};

TEST_P(EngineSpeculation, EachKindAloneIsTheSame) {
  const StepLimits limits{
      .max_tokens = 64, .max_sequences = 1, .max_logit_rows = 64, .max_context = 128};
  Stack plain(path(), limits, 12), drafting(path(), limits, 12, Drafting(Speculation::kAlways));
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    uint32_t accepted = 0, rejected = 0;
    for (uint32_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(testing::Message() << "kind " << kind << " request " << i);
      RequestHandle one = plain.engine->Submit(MakeOne(text_, kind, i));
      RequestHandle other = drafting.engine->Submit(MakeOne(text_, kind, i));
      const Told expected = Listen(one), told = Listen(other);
      EXPECT_EQ(told.events, expected.events);
      EXPECT_EQ(expected.end.report.drafted_tokens, 0u);
      accepted += told.end.report.accepted_tokens;
      rejected += told.end.report.drafted_tokens - told.end.report.accepted_tokens;
      EXPECT_EQ(told.end.report.steps + told.end.report.accepted_tokens, expected.end.report.steps);
    }
    EXPECT_GT(accepted, 0u) << "kind " << kind;
    if (kind != 0 && kind != 5) {
      EXPECT_GT(rejected, 0u) << "kind " << kind;
    }
  }
  EXPECT_EQ(drafting.engine->stats().kv.used_pages, 0u);
}

// All kinds in one engine that has few pages and few rows, with several choices, drafts as they
// come and as the clock has it.
TEST_P(EngineSpeculation, MixedBatchesAreTheSame) {
  Stack plain(path(),
              {.max_tokens = 64, .max_sequences = 1, .max_logit_rows = 64, .max_context = 128}, 12);
  for (const Speculation speculation : {Speculation::kAlways, Speculation::kAuto}) {
    EngineOptions options = Drafting(speculation);
    options.limits.promise = PagePromise::kPrompt;
    Stack crowd(path(),
                {.max_tokens = 28, .max_sequences = 6, .max_logit_rows = 20, .max_context = 112},
                16, options, 16);
    std::vector<std::vector<RequestHandle>> handles;
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      for (uint32_t i = 0; i < 2; ++i) {
        handles.push_back(crowd.engine->SubmitChoices(MakeOne(text_, kind, i), 1 + i));
      }
    }
    for (uint32_t r = 0; r < handles.size(); ++r) {
      for (uint32_t c = 0; c < handles[r].size(); ++c) {
        SCOPED_TRACE(testing::Message() << "kind " << r / 2 << " choice " << c);
        Request request = MakeOne(text_, r / 2, r % 2);
        request.choice_index = c;
        RequestHandle single = plain.engine->Submit(request);
        EXPECT_EQ(Listen(handles[r][c]).events, Listen(single).events);
      }
    }
    const EngineStats stats = crowd.engine->stats();
    if (speculation == Speculation::kAlways) {
      EXPECT_GT(stats.accepted_tokens, 50u);
    }
    EXPECT_EQ(stats.kv.used_pages + stats.kv.promised_pages + stats.swap_used_bytes, 0u);
  }
}

// A conversation whose earlier turns were generated with drafts: what later turns take from the
// prefix cache is what computing it gives.
TEST_P(EngineSpeculation, DraftsDoNotSpoilThePrefixCache) {
  const StepLimits limits{
      .max_tokens = 64, .max_sequences = 2, .max_logit_rows = 64, .max_context = 256};
  Stack chat(path(), limits, 32, Drafting(Speculation::kAlways));
  Stack fresh(path(), limits, 32);
  std::vector<int32_t> history(text_.begin(), text_.begin() + 20);
  uint32_t cached = 0;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    Request request = MakeOne(text_, 2, turn);
    request.prompt = history;
    request.max_tokens = 45;
    RequestHandle one = chat.engine->Submit(request);
    request.cache_salt = std::to_string(turn);  // computes everything
    RequestHandle other = fresh.engine->Submit(request);
    const Told told = Listen(one), expected = Listen(other);
    EXPECT_EQ(told.events, expected.events) << "turn " << turn;
    cached += told.end.usage.cached_tokens;
    for (size_t i = 0; i + 1 < told.events.size(); ++i) {
      history.push_back(std::stoi(told.events[i]));
    }
    const auto more = text_.begin() + 20 + 5 * static_cast<std::ptrdiff_t>(turn);
    history.insert(history.end(), more, more + 5);
  }
  EXPECT_GT(chat.engine->stats().accepted_tokens, 0u);
  const bool shares = !chat.model.rope().length_dependent();
  EXPECT_EQ(cached > 60, shares) << cached;
}

INSTANTIATE_TEST_SUITE_P(Models, EngineSpeculation,
                         testing::Values("llama_gqa", "mistral_swa", "qwen2_swa_mixed",
                                         "deepseek_v2_lite", "deepseek_v3", "llama_rope_dynamic"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace hadal
