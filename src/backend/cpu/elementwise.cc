#include "backend/cpu/elementwise.h"

#include <algorithm>

#include "base/check.h"

namespace hadal {
namespace {

// Elements below which handing work to another thread costs more than it saves (a few us).
constexpr uint64_t kElementsPerTask = 4096;

template <typename Body>
void ForRows(ThreadPool& pool, uint32_t rows, uint32_t cols, Body&& body) {
  const uint64_t per_task = std::max<uint64_t>(kElementsPerTask / std::max(cols, 1u), 1);
  pool.ParallelFor(static_cast<int64_t>((rows + per_task - 1) / per_task),
                   [&](int64_t task, int /*thread*/) {
                     const uint64_t first = static_cast<uint64_t>(task) * per_task;
                     const uint64_t end = std::min<uint64_t>(first + per_task, rows);
                     for (uint64_t row = first; row < end; ++row) body(static_cast<uint32_t>(row));
                   });
}

}  // namespace

void CpuRmsNorm(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor x, Tensor add,
                const float* weight, float eps, Tensor out) {
  HADAL_CHECK(out.rows == x.rows && out.cols == x.cols);
  HADAL_CHECK(!add || (add.rows == x.rows && add.cols == x.cols));
  ForRows(pool, x.rows, x.cols, [&](uint32_t row) {
    RmsNormArgs args;
    args.x = x.row(row);
    args.add = add ? add.row(row) : nullptr;
    args.weight = weight;
    args.eps = eps;
    args.n = x.cols;
    args.out = out.row(row);
    kernels.rms_norm(args);
  });
}

void CpuGlu(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor gate, Tensor up,
            Tensor out) {
  HADAL_CHECK(gate.cols == up.cols && gate.cols == out.cols);
  HADAL_CHECK(gate.rows == up.rows && gate.rows == out.rows);
  ForRows(pool, gate.rows, gate.cols,
          [&](uint32_t row) { kernels.glu(gate.row(row), up.row(row), gate.cols, out.row(row)); });
}

void CpuAddScaled(ThreadPool& pool, const ElementwiseKernels& kernels, Tensor x, Tensor y,
                  Tensor gate) {
  HADAL_CHECK(x.rows == y.rows && x.cols == y.cols);
  HADAL_CHECK(!gate || (gate.rows == x.rows && gate.cols == 1));
  ForRows(pool, x.rows, x.cols, [&](uint32_t row) {
    kernels.add_scaled(y.row(row), gate ? gate.row(row) : nullptr, x.cols, x.row(row));
  });
}

}  // namespace hadal
