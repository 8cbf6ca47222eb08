// The meaning of every op, in plain loops: f32 storage, f64 sums in ascending order, one thread.
// Other backends are held to it; it is never meant to be fast.
#pragma once

#include <vector>

#include "backend/backend.h"

namespace hadal {

// Row-major f32, whatever the file holds.
class RefWeight : public Weight {
 public:
  RefWeight(uint64_t rows, uint64_t cols) : rows_(rows), cols_(cols), values_(rows * cols) {}
  uint64_t rows() const override { return rows_; }
  uint64_t cols() const override { return cols_; }
  uint64_t bytes() const override { return values_.size() * sizeof(float); }
  const float* row(uint64_t r) const { return values_.data() + r * cols_; }
  std::vector<float>& values() { return values_; }

 private:
  uint64_t rows_;
  uint64_t cols_;
  std::vector<float> values_;
};

class RefBackend : public Backend {
 public:
  std::string Describe() const override;

  Buffer Allocate(uint64_t bytes) override;
  void Free(void* data, uint64_t size) noexcept override;
  std::unique_ptr<Weight> Upload(const TensorView& view, WeightPolicy policy) override;
  uint64_t WeightBytes(const TensorView& view, WeightPolicy policy) const override;
  void CopyIn(std::span<const std::byte> host, Buffer& to, uint64_t offset) override;
  void CopyOut(const Buffer& from, uint64_t offset, std::span<std::byte> host) override;
  void Zero(Buffer& buffer, uint64_t offset, uint64_t size) override;
  void CopyPages(Buffer& arena, uint64_t page_bytes, std::span<const uint32_t> from,
                 std::span<const uint32_t> to) override;

  void Reserve(const ModelSpec& spec, const StepLimits& limits) override;
  uint64_t WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const override;
  void BeginStep(const StepInput& step, KvCache& kv) override;
  void EndStep() override;

  void Embed(const Weight& table, std::span<const int32_t> tokens, Tensor out) override;
  void GatherRows(Tensor in, std::span<const uint32_t> rows, Tensor out) override;
  void RmsNorm(Tensor x, Tensor add, const Weight& weight, float eps, Tensor out) override;
  void Linear(Tensor x, const LinearArgs& linear) override;
  void LinearGroup(Tensor x, std::span<const LinearArgs> linears) override;
  void Glu(Tensor gate, Tensor up, Tensor out) override;
  void RopeAndStore(const RopeStoreArgs& args) override;
  void AttentionGqa(const AttentionGqaArgs& args) override;
  void AttentionMla(const AttentionMlaArgs& args) override;
  void MoeRoute(Tensor logits, const MoeSpec& moe, const Weight* choice_bias,
                Routing routing) override;
  void MoeFfn(Tensor x, std::span<const ExpertWeights> experts, Routing routing,
              Tensor out) override;
  void AddScaled(Tensor x, Tensor y, Tensor gate) override;
  void Argmax(Tensor x, std::span<int32_t> best) override;

  OpCounters counters() const override { return counters_; }

 private:
  // One row of a step: where its tokens lie.
  struct Row {
    uint32_t sequence = 0;
    uint32_t first = 0;  // first visible token
    uint32_t last = 0;   // last visible token: itself
  };
  Row Visible(uint32_t sequence, uint32_t row, uint32_t window) const;
  // One element of the cache, as f32; of a key, the element d of a part (KvLayout::k_parts).
  float LoadK(uint32_t layer, uint32_t sequence, uint32_t token, uint32_t head, uint32_t part,
              uint32_t d) const;
  float LoadV(uint32_t layer, uint32_t sequence, uint32_t token, uint32_t head, uint32_t d) const;
  void Store(const RopeStoreArgs& args, uint32_t row);
  uint32_t PageOf(uint32_t layer, uint32_t sequence, uint32_t token) const;
  void MlaHead(const AttentionMlaArgs& args, const Row& row, uint32_t head, const float* q,
               float* out);
  // scores_[token - row.first] becomes the softmax of the scores.
  void Softmax(const Row& row);

  OpCounters counters_;
  const StepInput* step_ = nullptr;
  KvCache* kv_ = nullptr;
  // Scratch, sized by Reserve.
  std::vector<double> scores_;    // [max_context]
  std::vector<double> latent_;    // [2 * kv_lora]: of the query, of the values
  std::vector<uint8_t> codes_;    // [largest head or latent]
  std::vector<double> experts_;   // [2 * n_experts]: score, score to choose by
  std::vector<double> groups_;    // [n_groups]
  std::vector<uint8_t> allowed_;  // [n_experts + n_groups]
  std::vector<float> hidden_;     // [expert intermediate]
  std::vector<double> sum_;       // [hidden]
};

// sum of a[i] * b[i] in ascending order.
double RefDot(const float* a, const float* b, uint64_t n);
double RefSilu(double x);
double RefSigmoid(double x);
inline const RefWeight& AsRef(const Weight& weight) {
  return static_cast<const RefWeight&>(weight);
}

}  // namespace hadal
