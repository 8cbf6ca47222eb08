#include "backend/ref/ref_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "base/check.h"
#include "base/error.h"
#include "quant/blocks.h"
#include "quant/quantize.h"
#include "tensor/half.h"

namespace hadal {
namespace {

constexpr std::align_val_t kAlignment{64};

void CheckShape(Tensor x, const LinearArgs& linear) {
  HADAL_CHECK(linear.weight->cols() == x.cols && linear.weight->rows() == linear.out.cols);
  HADAL_CHECK(linear.out.rows == x.rows);
  HADAL_CHECK(linear.bias == nullptr || linear.bias->cols() == linear.out.cols);
}

void RefLinear(Tensor x, const LinearArgs& linear) {
  CheckShape(x, linear);
  const RefWeight& weight = AsRef(*linear.weight);
  for (uint32_t i = 0; i < x.rows; ++i) {
    for (uint32_t o = 0; o < linear.out.cols; ++o) {
      double sum = RefDot(x.row(i), weight.row(o), x.cols);
      if (linear.bias != nullptr) sum += AsRef(*linear.bias).row(0)[o];
      linear.out.row(i)[o] = static_cast<float>(sum);
    }
  }
}

// Replaces values by what they become in `type`'s blocks of 32; the last block of a row is filled
// with zeros.
void Requantize(const TensorView& view, DType type, std::vector<float>& values) {
  const uint64_t cols = view.cols();
  std::vector<float> row((cols + 31) / 32 * 32);
  std::vector<std::byte> blocks(RowBytes(type, row.size()));
  TensorView block_row;
  block_row.name = view.name;
  block_row.dtype = type;
  block_row.shape = {1, row.size()};
  block_row.data = blocks;
  for (uint64_t r = 0; r < view.rows(); ++r) {
    std::copy_n(values.begin() + r * cols, cols, row.begin());
    WithContext(fmt::format("tensor '{}', row {}", view.name, r),
                [&] { QuantizeRow(type, row, blocks); });
    DequantizeRows(block_row, 0, 1, row);
    std::copy_n(row.begin(), cols, values.begin() + r * cols);
    std::fill(row.begin() + cols, row.end(), 0.0f);
  }
}

}  // namespace

double RefDot(const float* a, const float* b, uint64_t n) {
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double RefSigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double RefSilu(double x) {
  return x * RefSigmoid(x);
}

std::unique_ptr<Backend> MakeRefBackend() {
  return std::make_unique<RefBackend>();
}

std::string RefBackend::Describe() const {
  return "ref, plain f32 loops, 1 thread";
}

Buffer RefBackend::Allocate(uint64_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  if (bytes <= std::numeric_limits<size_t>::max() / 2) {
    data = ::operator new(bytes, kAlignment, std::nothrow);
  }
  if (data == nullptr) {
    Fail(ErrorKind::kResource, "cannot allocate {} bytes; choose a smaller context or model",
         bytes);
  }
  std::memset(data, 0, bytes);
  return Buffer(this, data, bytes);
}

void RefBackend::Free(void* data, uint64_t /*size*/) noexcept {
  ::operator delete(data, kAlignment);
}

std::unique_ptr<Weight> RefBackend::Upload(const TensorView& view, WeightPolicy policy) {
  CheckTensorParts(view);
  auto weight = std::make_unique<RefWeight>(view.rows(), view.cols());
  std::vector<float>& values = weight->values();
  DequantizeRows(view, 0, view.rows(), values);
  if (view.shape.size() == 1) return weight;
  switch (policy) {
    case WeightPolicy::kAsStored:
    case WeightPolicy::kF32:
      break;
    case WeightPolicy::kBf16:
      for (float& value : values) value = Bf16ToF32(F32ToBf16(value));
      break;
    case WeightPolicy::kQ8:
      Requantize(view, DType::kQ8_0, values);
      break;
    case WeightPolicy::kQ4:
      Requantize(view, DType::kQ4_0, values);
      break;
  }
  return weight;
}

uint64_t RefBackend::WeightBytes(const TensorView& view, WeightPolicy /*policy*/) const {
  return view.elements() * sizeof(float);
}

void RefBackend::CopyIn(std::span<const std::byte> host, Buffer& to, uint64_t offset) {
  HADAL_CHECK(offset <= to.size() && host.size() <= to.size() - offset);
  if (!host.empty()) std::memcpy(static_cast<char*>(to.data()) + offset, host.data(), host.size());
}

void RefBackend::CopyOut(const Buffer& from, uint64_t offset, std::span<std::byte> host) {
  HADAL_CHECK(offset <= from.size() && host.size() <= from.size() - offset);
  if (!host.empty()) {
    std::memcpy(host.data(), static_cast<const char*>(from.data()) + offset, host.size());
  }
}

void RefBackend::Zero(Buffer& buffer, uint64_t offset, uint64_t size) {
  HADAL_CHECK(offset <= buffer.size() && size <= buffer.size() - offset);
  if (size > 0) std::memset(static_cast<char*>(buffer.data()) + offset, 0, size);
}

void RefBackend::CopyPages(Buffer& arena, uint64_t page_bytes, std::span<const uint32_t> from,
                           std::span<const uint32_t> to) {
  HADAL_CHECK(from.size() == to.size());
  char* data = static_cast<char*>(arena.data());
  for (size_t i = 0; i < from.size(); ++i) {
    HADAL_CHECK((uint64_t{std::max(from[i], to[i])} + 1) * page_bytes <= arena.size());
    if (from[i] == to[i]) continue;
    std::memcpy(data + to[i] * page_bytes, data + from[i] * page_bytes, page_bytes);
  }
}

// Elements of the KV cache that share a scale, at most.
static uint32_t LargestVector(const AttentionSpec& attention) {
  return std::max({attention.head_dim, attention.kv_lora_rank, attention.qk_rope_head_dim});
}

void RefBackend::Reserve(const ModelSpec& spec, const StepLimits& limits) {
  scores_.resize(limits.max_context);
  latent_.resize(2 * spec.attention.kv_lora_rank);
  codes_.resize(LargestVector(spec.attention));
  if (!spec.moe) return;
  experts_.resize(2 * spec.moe->n_experts);
  groups_.resize(spec.moe->n_groups);
  allowed_.resize(spec.moe->n_experts + spec.moe->n_groups);
  hidden_.resize(spec.moe->intermediate);
  sum_.resize(spec.hidden);
}

uint64_t RefBackend::WorkspaceBytes(const ModelSpec& spec, const StepLimits& limits) const {
  uint64_t doubles = limits.max_context + 2 * spec.attention.kv_lora_rank;
  const uint64_t codes = LargestVector(spec.attention);
  if (!spec.moe) return doubles * sizeof(double) + codes;
  doubles += 2 * spec.moe->n_experts + spec.moe->n_groups + spec.hidden;
  return doubles * sizeof(double) + codes + spec.moe->n_experts + spec.moe->n_groups +
         spec.moe->intermediate * sizeof(float);
}

void RefBackend::BeginStep(const StepInput& step, KvCache& kv) {
  step_ = &step;
  kv_ = &kv;
}

void RefBackend::EndStep() {
  step_ = nullptr;
  kv_ = nullptr;
}

void RefBackend::Embed(const Weight& table, std::span<const int32_t> tokens, Tensor out) {
  ++counters_.ops;
  HADAL_CHECK(out.rows == tokens.size() && out.cols == table.cols());
  for (uint32_t i = 0; i < out.rows; ++i) {
    HADAL_CHECK(tokens[i] >= 0 && static_cast<uint64_t>(tokens[i]) < table.rows());
    std::copy_n(AsRef(table).row(tokens[i]), out.cols, out.row(i));
  }
}

void RefBackend::GatherRows(Tensor in, std::span<const uint32_t> rows, Tensor out) {
  ++counters_.ops;
  HADAL_CHECK(out.rows == rows.size() && out.cols == in.cols);
  for (uint32_t i = 0; i < out.rows; ++i) {
    HADAL_CHECK(rows[i] < in.rows);
    std::copy_n(in.row(rows[i]), out.cols, out.row(i));
  }
}

void RefBackend::RmsNorm(Tensor x, Tensor add, const Weight& weight, float eps, Tensor out) {
  ++counters_.ops;
  HADAL_CHECK(weight.cols() == x.cols && out.rows == x.rows && out.cols == x.cols);
  HADAL_CHECK(!add || (add.rows == x.rows && add.cols == x.cols));
  const float* scale = AsRef(weight).row(0);
  for (uint32_t i = 0; i < x.rows; ++i) {
    float* row = x.row(i);
    for (uint32_t c = 0; add && c < x.cols; ++c) row[c] += add.row(i)[c];
    const double mean_square = RefDot(row, row, x.cols) / x.cols;
    const double factor = 1 / std::sqrt(mean_square + eps);
    for (uint32_t c = 0; c < x.cols; ++c) {
      out.row(i)[c] = static_cast<float>(row[c] * factor * scale[c]);
    }
  }
}

void RefBackend::Linear(Tensor x, const LinearArgs& linear) {
  ++counters_.ops;
  RefLinear(x, linear);
}

void RefBackend::LinearGroup(Tensor x, std::span<const LinearArgs> linears) {
  ++counters_.ops;
  for (const LinearArgs& linear : linears) RefLinear(x, linear);
}

void RefBackend::Glu(Tensor gate, Tensor up, Tensor out) {
  ++counters_.ops;
  HADAL_CHECK(gate.cols == up.cols && gate.cols == out.cols);
  HADAL_CHECK(gate.rows == up.rows && gate.rows == out.rows);
  for (uint32_t i = 0; i < gate.rows; ++i) {
    for (uint32_t c = 0; c < gate.cols; ++c) {
      out.row(i)[c] = static_cast<float>(RefSilu(gate.row(i)[c]) * up.row(i)[c]);
    }
  }
}

void RefBackend::AddScaled(Tensor x, Tensor y, Tensor gate) {
  ++counters_.ops;
  HADAL_CHECK(x.rows == y.rows && x.cols == y.cols);
  HADAL_CHECK(!gate || (gate.rows == x.rows && gate.cols == 1));
  for (uint32_t i = 0; i < x.rows; ++i) {
    const double factor = gate ? RefSigmoid(gate.row(i)[0]) : 1;
    for (uint32_t c = 0; c < x.cols; ++c) {
      x.row(i)[c] = static_cast<float>(x.row(i)[c] + factor * y.row(i)[c]);
    }
  }
}

void RefBackend::Argmax(Tensor x, std::span<int32_t> best) {
  ++counters_.ops;
  HADAL_CHECK(best.size() == x.rows && x.cols > 0);
  for (uint32_t i = 0; i < x.rows; ++i) {
    const std::span<const float> row(x.row(i), x.cols);
    const bool finite =
        std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); });
    best[i] =
        finite ? static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()) : -1;
  }
}

}  // namespace hadal
