// The device cut: what a model needs from a device, as coarse, eager ops. backend/ref is their
// definition in plain loops; every other backend is held to it by one parity test.
//
// Shapes: a Tensor is f32, row-major, one row per token unless said otherwise. Outputs may not
// overlap inputs except where "in place" is written. Every output element is reduced in an order
// that depends on the problem alone: never on the number of rows, threads or sequences.
// Ops neither throw nor allocate. One thread (the engine's) calls a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/step_input.h"
#include "base/blob_file.h"
#include "base/placement.h"
#include "quant/weight_policy.h"
#include "spec/kv_layout.h"
#include "spec/model_spec.h"
#include "tensor/tensor_view.h"

namespace hadal {

class Backend;

// Device memory, freed with its owner. Must not outlive the backend.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Backend* backend, void* data, uint64_t size)
      : backend_(backend), data_(data), size_(size) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  void* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  Backend* backend_ = nullptr;
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

// Activations on the device: a view. stride counts floats between rows.
struct Tensor {
  float* data = nullptr;
  uint32_t rows = 0;
  uint32_t cols = 0;
  uint32_t stride = 0;

  Tensor() = default;
  Tensor(float* d, uint32_t r, uint32_t c) : data(d), rows(r), cols(c), stride(c) {}
  Tensor(float* d, uint32_t r, uint32_t c, uint32_t s) : data(d), rows(r), cols(c), stride(s) {}
  explicit operator bool() const { return data != nullptr; }
  float* row(uint32_t r) const { return data + static_cast<size_t>(r) * stride; }
};

// A matrix (or vector, or stack of matrices) on the device, in whatever form the backend chose.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual uint64_t rows() const = 0;   // output features, over all stacked matrices
  virtual uint64_t cols() const = 0;   // input features
  virtual uint64_t bytes() const = 0;  // device memory it takes
  // What Backend::Restore makes the same weight of: host-readable, in order. Only for backends with
  // a PackedForm.
  virtual std::vector<std::span<const std::byte>> packed() const { return {}; }
};

// One KV arena per KvLayout group.
struct KvCache {
  KvLayout layout;
  std::vector<Buffer> arenas;
};

struct LinearArgs {
  const Weight* weight = nullptr;  // [out, in]
  const Weight* bias = nullptr;    // [out] or null
  Tensor out;                      // [n, out]
};

// Rotates the rope part of q and k in place and stores k (and v) in the cache.
struct RopeStoreArgs {
  Tensor q;  // [n, q_heads * q_head_dim]
  Tensor k;  // [n, kv_heads * k_head_dim]; MLA: one head, latent then rope part
  Tensor v;  // [n, kv_heads * v_head_dim], or empty (MLA)
  uint32_t q_heads = 0, q_head_dim = 0, q_rope_offset = 0;
  uint32_t kv_heads = 0, k_head_dim = 0, k_rope_offset = 0, v_head_dim = 0;
  uint32_t rope_dim = 0;
  RopeLayout rope_layout = RopeLayout::kHalfSplit;
  Tensor cos, sin;  // [n, rope_dim / 2]
  uint32_t layer = 0;
};

struct AttentionGqaArgs {
  Tensor q;    // [n, heads * head_dim], rotated
  Tensor out;  // [n, heads * head_dim]
  uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;
  uint32_t window = 0;
  uint32_t layer = 0;
};

// Absorbed MLA: q_latent[h] = k_up[h]^T q_nope[h]; scores against [latent, rope] in the cache;
// out[h] = v_up[h] (sum_t p_t latent_t).
struct AttentionMlaArgs {
  Tensor q;                      // [n, heads * (nope + rope)], rope part rotated
  Tensor out;                    // [n, heads * v_head_dim]
  const Weight* k_up = nullptr;  // stack of heads: [heads * kv_lora, nope]
  const Weight* v_up = nullptr;  // stack of heads: [heads * v_head_dim, kv_lora]
  uint32_t heads = 0, kv_lora = 0, nope = 0, rope = 0, v_head_dim = 0;
  float scale = 0;
  uint32_t window = 0;
  uint32_t layer = 0;
};

// Which experts each token goes to: device arrays [n, n_used], best first.
struct Routing {
  int32_t* experts = nullptr;
  float* weights = nullptr;
  uint32_t n_used = 0;
};

struct ExpertWeights {
  std::unique_ptr<Weight> gate, up, down;
};

// Work done since the backend was made; deterministic, for tests and `bench`.
struct OpCounters {
  uint64_t ops = 0;              // calls of the op methods below
  uint64_t attention_tiles = 0;  // (query row, KV tile) pairs that attention visited, per KV head
  uint64_t barriers = 0;         // times all threads met
  // Of whole steps, by backends that have a kernel table:
  uint64_t kernel_calls = 0;  // calls into it
  // Packed weights that matrix products read, once for each pass over them, scales included; KV
  // tiles that attention reads, once for each pass, whole; KV written, per token its share of a
  // tile. Activations, looked-up embedding rows and copied pages do not count.
  uint64_t bytes = 0;

  // What came between two readings.
  OpCounters operator-(const OpCounters& before) const {
    return {ops - before.ops, attention_tiles - before.attention_tiles, barriers - before.barriers,
            kernel_calls - before.kernel_calls, bytes - before.bytes};
  }
};

class Backend {
 public:
  virtual ~Backend() = default;
  // "cpu avx512bf16, 2 threads".
  virtual std::string Describe() const = 0;

  // --- memory ---
  // Zeroed, 64-byte aligned. Throws Error(kResource).
  virtual Buffer Allocate(uint64_t bytes) = 0;
  virtual void Free(void* data, uint64_t size) noexcept = 0;
  // Packs a tensor of a checkpoint. A 1-D tensor becomes an f32 vector whatever the policy.
  // Throws Error(kBadFile | kUnsupported | kResource).
  virtual std::unique_ptr<Weight> Upload(const TensorView& view, WeightPolicy policy) = 0;
  // Names what Upload makes of tensors, for keeping it in a file: with the same name, equal tensors
  // and policies give equal bytes. Empty: not to be kept.
  virtual std::string PackedForm() const { return {}; }
  // What Upload made of a tensor of this type and shape, from blobs `first` onwards, which hold its
  // packed() parts. Does not read the tensor's data. Throws as BlobReader::ReadChunk, and
  // Error(kResource).
  virtual std::unique_ptr<Weight> Restore(const TensorView& view, WeightPolicy policy,
                                          const BlobReader& /*blobs*/, size_t /*first*/) {
    return Upload(view, policy);
  }
  // Exactly what Upload would allocate for such a tensor.
  virtual uint64_t WeightBytes(const TensorView& view, WeightPolicy policy) const = 0;
  virtual void CopyIn(std::span<const std::byte> host, Buffer& to, uint64_t offset) = 0;
  virtual void CopyOut(const Buffer& from, uint64_t offset, std::span<std::byte> host) = 0;
  virtual void Zero(Buffer& buffer, uint64_t offset, uint64_t size) = 0;
  // pages of `page_bytes` inside one arena: from[i] -> to[i].
  virtual void CopyPages(Buffer& arena, uint64_t page_bytes, std::span<const uint32_t> from,
                         std::span<const uint32_t> to) = 0;

  // --- step ---
  // Sizes the scratch space once for a model and limits; no op may be called before.
  virtual void Reserve(const ModelSpec& spec, const StepLimits& limits) = 0;
  virtual uint64_t WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const = 0;
  // `step` and `kv` stay valid until EndStep; attention and RopeAndStore use them.
  virtual void BeginStep(const StepInput& step, KvCache& kv) = 0;
  virtual void EndStep() = 0;

  // --- ops ---
  // out[i] = table[tokens[i]]
  virtual void Embed(const Weight& table, std::span<const int32_t> tokens, Tensor out) = 0;
  virtual void GatherRows(Tensor in, std::span<const uint32_t> rows, Tensor out) = 0;
  // x += add (when given, in place); out = x / sqrt(mean(x^2) + eps) * weight. out may be x.
  virtual void RmsNorm(Tensor x, Tensor add, const Weight& weight, float eps, Tensor out) = 0;
  // out = x weight^T + bias
  virtual void Linear(Tensor x, const LinearArgs& linear) = 0;
  // Several Linears over the same x.
  virtual void LinearGroup(Tensor x, std::span<const LinearArgs> linears) = 0;
  // out = silu(gate) * up; out may be gate.
  virtual void Glu(Tensor gate, Tensor up, Tensor out) = 0;
  virtual void RopeAndStore(const RopeStoreArgs& args) = 0;
  virtual void AttentionGqa(const AttentionGqaArgs& args) = 0;
  virtual void AttentionMla(const AttentionMlaArgs& args) = 0;
  // logits [n, n_experts]; choice_bias [n_experts] or null. Formulas: MoeSpec.
  virtual void MoeRoute(Tensor logits, const MoeSpec& moe, const Weight* choice_bias,
                        Routing routing) = 0;
  // out[i] = sum over the chosen experts, in ascending expert index, of w * down(silu(gate x) * up
  // x)
  virtual void MoeFfn(Tensor x, std::span<const ExpertWeights> experts, Routing routing,
                      Tensor out) = 0;
  // x += y, or x += sigmoid(gate) * y with gate [n, 1]. In place.
  virtual void AddScaled(Tensor x, Tensor y, Tensor gate) = 0;
  // best[i] = the column of row i's largest value, the lowest on a tie; -1 where a value of the row
  // is not finite.
  virtual void Argmax(Tensor x, std::span<int32_t> best) = 0;

  // Work of the host between steps: body(index) for every index in [0, n), on as many threads as
  // host_threads() says. `body` must not throw.
  virtual int host_threads() const { return 1; }
  virtual void RunOnHost(int64_t n, const std::function<void(int64_t index)>& body) {
    for (int64_t i = 0; i < n; ++i) body(i);
  }

  virtual OpCounters counters() const = 0;
};

inline Buffer::~Buffer() {
  if (data_ != nullptr) backend_->Free(data_, size_);
}
inline Buffer::Buffer(Buffer&& other) noexcept
    : backend_(other.backend_), data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}
inline Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

// The two backends of this machine. `ref` is the definition of every op: slow, plain, and always
// f32. Throws Error(kUsage) for an impossible number of threads. A number of threads alone leaves
// their places to the system.
std::unique_ptr<Backend> MakeRefBackend();
std::unique_ptr<Backend> MakeCpuBackend(int n_threads);
std::unique_ptr<Backend> MakeCpuBackend(const Placement& placement);

}  // namespace hadal
