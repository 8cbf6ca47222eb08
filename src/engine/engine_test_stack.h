// For tests: a checkpoint opened on a backend, the reference unless told, up to a running engine.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "formats/checkpoint.h"

namespace hadal {

inline const std::filesystem::path kModels = HADAL_SOURCE_DIR "/tests/data/models";

struct Stack {
  // `options`: what is not of the step's limits; `swap_pages`: of all groups together.
  Stack(const std::filesystem::path& path, const StepLimits& step_limits, uint32_t n_pages,
        EngineOptions options = {}, uint32_t swap_pages = 0,
        std::unique_ptr<Backend> device = MakeRefBackend())
      : checkpoint(Checkpoint::Open(path)),
        backend(std::move(device)),
        model(Model::Load(checkpoint, *backend, {})),
        limits(step_limits),
        kv(AllocateKvCache(*backend, MakeKvLayout(checkpoint.spec(), DType::kF32, 16), n_pages)),
        pages(kv.layout, std::vector<uint32_t>(kv.layout.groups.size(), n_pages),
              limits.max_tokens) {
    model.Reserve(limits);
    uint64_t page_bytes = 0;
    for (const KvGroup& group : kv.layout.groups)
      page_bytes = std::max(page_bytes, group.page_bytes);
    swap.emplace(std::filesystem::temp_directory_path(), swap_pages * page_bytes);
    runner.emplace(model, kv, limits, &*swap);
    options.limits.max_tokens = limits.max_tokens;
    options.limits.max_sequences = limits.max_sequences;
    options.limits.max_logit_rows = limits.max_logit_rows;
    options.limits.max_context = limits.max_context;
    options.vocab = checkpoint.spec().vocab;
    engine.emplace(options, pages, *runner);
  }

  Checkpoint checkpoint;
  std::unique_ptr<Backend> backend;
  Model model;
  StepLimits limits;
  KvCache kv;
  KvManager pages;
  std::optional<SwapSpace> swap;
  std::optional<Runner> runner;
  std::optional<Engine> engine;
};

// Everything that became of a request.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<double> logprobs;
  std::vector<double> prompt_logprobs;
  FinishedEvent end;

  // What was said, not how long it took.
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs &&
           prompt_logprobs == other.prompt_logprobs;
  }
};

inline Answer WaitFor(RequestHandle& handle) {
  Answer answer;
  while (const auto event = handle.Next()) {
    if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      answer.tokens.push_back(token->token);
      if (token->logprobs) answer.logprobs.push_back(token->logprobs->chosen.logprob);
    } else if (const auto* prompt = std::get_if<PromptEvent>(&*event)) {
      EXPECT_EQ(prompt->first_position, answer.prompt_logprobs.size() + 1);
      for (const TokenLogprobs& entry : prompt->logprobs) {
        answer.prompt_logprobs.push_back(entry.chosen.logprob);
      }
    } else {
      answer.end = std::get<FinishedEvent>(*event);
    }
  }
  return answer;
}

}  // namespace hadal
