#include "model/rope_rows.h"

#include <span>

namespace hadal {
namespace {

void CopyRows(const std::vector<float>& rows, Backend& backend, Buffer& buffer, Tensor to) {
  const auto offset =
      reinterpret_cast<const std::byte*>(to.data) - static_cast<const std::byte*>(buffer.data());
  const std::span<const float> used(rows.data(), size_t{to.rows} * to.cols);
  backend.CopyIn(std::as_bytes(used), buffer, static_cast<uint64_t>(offset));
}

}  // namespace

void RopeRows::Reserve(const RopeTable& rope, uint32_t max_tokens) {
  const size_t half = rope.spec().dim / 2;
  cos_.resize(max_tokens * half);
  sin_.resize(max_tokens * half);
  length_ = 0;
  frequencies_ = rope.InverseFrequencies(length_);
}

void RopeRows::Write(const RopeTable& rope, const StepInput& step, Backend& backend, Buffer& buffer,
                     Tensor cos, Tensor sin) {
  const size_t half = rope.spec().dim / 2;
  for (uint32_t i = 0; i < step.n_tokens(); ++i) {
    if (!step.rope_lengths.empty() && step.rope_lengths[i] != length_) {
      length_ = step.rope_lengths[i];
      frequencies_ = rope.InverseFrequencies(length_);
    }
    rope.CosSin(step.positions[i], frequencies_, {cos_.data() + i * half, half},
                {sin_.data() + i * half, half});
  }
  CopyRows(cos_, backend, buffer, cos);
  CopyRows(sin_, backend, buffer, sin);
}

}  // namespace hadal
