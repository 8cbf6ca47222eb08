// For tests: a checkpoint opened on the reference backend, up to a running engine.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "formats/checkpoint.h"

namespace hadal {

inline const std::filesystem::path kModels = HADAL_SOURCE_DIR "/tests/data/models";

struct Stack {
  Stack(const std::filesystem::path& path, const StepLimits& step_limits, uint32_t n_pages)
      : checkpoint(Checkpoint::Open(path)),
        backend(MakeRefBackend()),
        model(Model::Load(checkpoint, *backend, {})),
        limits(step_limits),
        kv(AllocateKvCache(*backend, MakeKvLayout(checkpoint.spec(), DType::kF32, 16), n_pages)),
        pages(kv.layout, std::vector<uint32_t>(kv.layout.groups.size(), n_pages),
              limits.max_tokens) {
    model.Reserve(limits);
    runner.emplace(model, kv, limits);
    EngineOptions options;
    options.limits = {limits.max_tokens, limits.max_sequences, limits.max_logit_rows,
                      limits.max_context};
    options.vocab = checkpoint.spec().vocab;
    engine.emplace(options, pages, *runner);
  }

  Checkpoint checkpoint;
  std::unique_ptr<Backend> backend;
  Model model;
  StepLimits limits;
  KvCache kv;
  KvManager pages;
  std::optional<Runner> runner;
  std::optional<Engine> engine;
};

}  // namespace hadal
