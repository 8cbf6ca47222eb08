// A weight on the CPU: packed panels, one matrix or a stack of them, or a plain f32 vector.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/thread_pool.h"
#include "quant/panel.h"

namespace hadal {

class CpuWeight : public Weight {
 public:
  // The matrices of one stack, equal in shape and format.
  explicit CpuWeight(std::vector<PanelMatrix> matrices);
  explicit CpuWeight(std::vector<float> vector);

  uint64_t rows() const override;
  uint64_t cols() const override;
  uint64_t bytes() const override;
  std::vector<std::span<const std::byte>> packed() const override;

  bool is_vector() const { return matrices_.empty(); }
  // Requires a vector.
  const float* vector() const;
  // Requires matrices; a stack has more than one.
  const std::vector<PanelMatrix>& matrices() const { return matrices_; }
  const PanelMatrix& matrix() const;

 private:
  std::vector<PanelMatrix> matrices_;
  std::vector<float> vector_;
};

// The weight as this backend made it.
const CpuWeight& AsCpu(const Weight& weight);

// What Backend::Upload does: 1-D views become f32 vectors, 2-D views a matrix, 3-D views a stack.
// Packs on all threads of the pool, into memory of the arena.
std::unique_ptr<CpuWeight> PackWeight(ThreadPool& pool, PanelArena& arena, const TensorView& view,
                                      WeightPolicy policy);
// What Backend::Restore does, reading on all threads of the pool.
std::unique_ptr<CpuWeight> RestoreWeight(ThreadPool& pool, PanelArena& arena,
                                         const TensorView& view, WeightPolicy policy,
                                         const BlobReader& blobs, size_t first);
// The bytes PackWeight would allocate.
uint64_t PackedWeightBytes(const TensorView& view, WeightPolicy policy);

}  // namespace hadal
