// Which experts a token goes to (MoeSpec in spec/model_spec.h).
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"

namespace hadal {

// Used by the backend's thread alone.
class CpuRouter {
 public:
  explicit CpuRouter(ThreadPool* pool) : pool_(pool) {}

  uint64_t WorkspaceBytes(const ModelSpec& spec) const;
  void Reserve(const ModelSpec& spec);

  // As Backend::MoeRoute; choice_bias [n_experts] or null.
  void Route(Tensor logits, const MoeSpec& moe, const float* choice_bias, Routing routing);

 private:
  // Scores are f64, so that near ties fall as they do in the reference.
  struct Scratch {
    double* scores = nullptr;  // [n_experts]
    double* choice = nullptr;  // [n_experts]: scores plus bias; -inf once taken or masked
    double* groups = nullptr;  // [n_groups]
  };
  void RouteToken(const float* logits, const MoeSpec& moe, const float* choice_bias,
                  const Scratch& scratch, int32_t* experts, float* weights) const;

  ThreadPool* pool_;
  uint64_t per_thread_ = 0;  // doubles
  std::vector<double> scratch_;
};

}  // namespace hadal
