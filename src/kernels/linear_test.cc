// Matrix products of every panel format at every ISA level this machine has, against plain loops
// over the unpacked weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/half.h"

namespace hadal {
namespace {

struct AlignedDelete {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

AlignedBytes MakeAligned(size_t bytes) {
  return AlignedBytes(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64})));
}

// Every panel format of quant/panel.h.
std::vector<PanelFormat> Formats() {
  std::vector<PanelFormat> formats;
  const auto add = [&](PanelKind kind, ScaleKind scales, uint16_t group, bool min, uint8_t zero) {
    PanelFormat format;
    format.kind = kind;
    format.scales = scales;
    format.group = group;
    format.has_min = min;
    format.zero_point = zero;
    formats.push_back(format);
  };
  add(PanelKind::kF32, ScaleKind::kNone, 0, false, 0);
  add(PanelKind::kF16, ScaleKind::kNone, 0, false, 0);
  add(PanelKind::kBF16, ScaleKind::kNone, 0, false, 0);
  add(PanelKind::kP8, ScaleKind::kF16, 32, false, 128);
  add(PanelKind::kP8, ScaleKind::kF16, 32, true, 0);
  add(PanelKind::kP8, ScaleKind::kF32, 32, false, 128);
  add(PanelKind::kP8, ScaleKind::kSuper, 16, false, 128);
  add(PanelKind::kP8, ScaleKind::kSuper, 32, false, 128);
  add(PanelKind::kP8, ScaleKind::kSuper, 32, true, 0);
  add(PanelKind::kP4, ScaleKind::kF16, 32, false, 8);
  add(PanelKind::kP4, ScaleKind::kF16, 32, true, 0);
  add(PanelKind::kP4, ScaleKind::kF32, 32, true, 0);
  add(PanelKind::kP4, ScaleKind::kF32, 128, true, 0);
  add(PanelKind::kP4, ScaleKind::kSuper, 16, false, 4);
  add(PanelKind::kP4, ScaleKind::kSuper, 16, true, 0);
  add(PanelKind::kP4, ScaleKind::kSuper, 32, true, 0);
  formats.push_back(formats[2]);
  formats.back().scale_block = 128;
  return formats;
}

std::string Describe(const PanelFormat& f) {
  return "kind " + std::to_string(static_cast<int>(f.kind)) + " scales " +
         std::to_string(static_cast<int>(f.scales)) + " group " + std::to_string(f.group) +
         (f.has_min ? " min" : "") + (f.scale_block != 0 ? " block scales" : "");
}

// A panel matrix whose every byte of weights is random and whose scales are small and finite.
PanelMatrix RandomMatrix(uint64_t rows, uint64_t cols, const PanelFormat& format, uint32_t seed) {
  PanelArena arena;
  PanelMatrix matrix(rows, cols, format, arena);
  const ChunkLayout& chunk = matrix.chunk();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  for (uint64_t p = 0; p < matrix.panels(); ++p) {
    for (uint64_t c = 0; c < matrix.chunks(); ++c) {
      std::byte* at = matrix.mutable_panel(p) + c * chunk.bytes;
      auto* half = reinterpret_cast<uint16_t*>(at);
      auto* single = reinterpret_cast<float*>(at);
      if (format.scales == ScaleKind::kNone) {
        for (int i = 0; i < 32 && format.kind != PanelKind::kF32; ++i) {
          const float x = normal(random);
          half[i] = format.kind == PanelKind::kF16 ? F32ToF16(x) : F32ToBf16(x);
        }
        for (int i = 0; i < 16 && format.kind == PanelKind::kF32; ++i) single[i] = normal(random);
        continue;
      }
      for (uint32_t i = 0; i < chunk.bytes; ++i) at[i] = static_cast<std::byte>(random());
      const uint32_t scale_end =
          format.scales == ScaleKind::kSuper ? chunk.scale_at : chunk.weights_at;
      for (uint32_t i = 0; i < scale_end / 4; ++i) {
        if (format.scales == ScaleKind::kF32) {
          single[i] = normal(random);
        } else {
          half[2 * i] = F32ToF16(normal(random));
          half[2 * i + 1] = F32ToF16(normal(random));
        }
      }
    }
    if (format.scale_block != 0) {
      for (uint64_t b = 0; b < (cols + format.scale_block - 1) / format.scale_block; ++b) {
        matrix.MutableBlockScales(p)[b] = normal(random);
      }
    }
  }
  return matrix;
}

std::vector<float> RandomRows(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

// Activations prepared by the kernels of a level, and the same as plain numbers.
struct Input {
  Input(const LinearKernels& kernels, const PanelFormat& format, const std::vector<float>& x,
        uint32_t rows, uint32_t cols) {
    form = FormFor(kernels, format);
    layout = LayoutFor(form, cols);
    if (form.kind == ActivationKind::kF32) {
      data = reinterpret_cast<const std::byte*>(x.data());
      row_bytes = cols * sizeof(float);
      return;
    }
    row_bytes = layout.row_bytes;
    owned = MakeAligned(rows * row_bytes);
    data = owned.get();
    for (uint32_t r = 0; r < rows; ++r) {
      kernels.prepare({x.data() + size_t{r} * cols, owned.get() + r * row_bytes, form, layout});
    }
  }

  // What the row stands for: x as rounded.
  double Value(const std::vector<float>& x, uint32_t row, uint32_t k, uint32_t cols) const {
    const float value = x[size_t{row} * cols + k];
    if (form.kind == ActivationKind::kBf16) return Bf16ToF32(F32ToBf16(value));
    if (form.kind != ActivationKind::kInt8) return value;
    float max = 0;
    const uint32_t first = k / form.group * form.group;
    for (uint32_t i = first; i < std::min(first + form.group, cols); ++i) {
      max = std::max(max, std::fabs(x[size_t{row} * cols + i]));
    }
    if (max == 0) return 0;
    return double{std::nearbyint(value * (127.0f / max))} * double{max / 127.0f};
  }

  ActivationForm form;
  ActivationLayout layout;
  AlignedBytes owned;
  const std::byte* data = nullptr;
  uint64_t row_bytes = 0;
};

LinearTask TaskFor(const PanelMatrix& w, const Input& x, uint32_t n_rows, float* out) {
  LinearTask task;
  task.panels = w.panel(0);
  task.panel_bytes = w.panel_bytes();
  task.n_panels = static_cast<uint32_t>(w.panels());
  task.cols = static_cast<uint32_t>(w.cols());
  task.chunks = static_cast<uint32_t>(w.chunks());
  task.scale_block = w.format().scale_block;
  task.rows = x.data;
  task.row_bytes = x.row_bytes;
  task.scale_at = x.layout.scale_at;
  task.sum_at = x.layout.sum_at;
  task.n_rows = n_rows;
  task.out = out;
  task.out_stride = w.rows();
  task.out_cols = static_cast<uint32_t>(w.rows());
  return task;
}

// Columns a row of this format may have: not a multiple of its chunk where that is possible, and at
// last more than the columns that many rows go through at a time.
std::vector<uint32_t> ColsFor(const PanelFormat& format) {
  if (format.scales == ScaleKind::kNone) return {1, 2, 7, 64, 601};
  if (format.scales == ScaleKind::kSuper) return {256, 768};
  if (format.group == 128) return {128, 1024};
  return {32, 96, 608};
}

class Linear : public testing::TestWithParam<IsaLevel> {};

TEST_P(Linear, EveryFormatEqualsPlainLoops) {
  const LinearKernels& kernels = GetKernels(GetParam()).linear;
  uint32_t seed = 1;
  for (const PanelFormat& format : Formats()) {
    for (const uint32_t cols : ColsFor(format)) {
      for (const uint32_t rows : {1u, 16u, 39u}) {
        const uint32_t n = 1 + seed % 9;
        const PanelMatrix w = RandomMatrix(rows, cols, format, ++seed);
        const std::vector<float> x = RandomRows(size_t{n} * cols, ++seed);
        const std::vector<float> bias = RandomRows(rows, ++seed);
        const Input input(kernels, format, x, n, cols);
        std::vector<float> out(size_t{n} * rows, -1.0f);
        LinearTask task = TaskFor(w, input, n, out.data());
        task.bias = bias.data();
        kernels.linear(format, task);
        std::vector<float> weights(cols);
        for (uint32_t j = 0; j < rows; ++j) {
          UnpackRow(w, j, weights);
          for (uint32_t i = 0; i < n; ++i) {
            double sum = bias[j];
            double size = std::fabs(bias[j]);
            for (uint32_t k = 0; k < cols; ++k) {
              const double term = weights[k] * input.Value(x, i, k, cols);
              sum += term;
              size += std::fabs(term);
            }
            ASSERT_NEAR(out[size_t{i} * rows + j], sum, 4e-6 * size + 1e-30)
                << Describe(format) << " [" << rows << ", " << cols << "] x " << n << " at row "
                << i << ", output " << j;
          }
        }
      }
    }
  }
}

TEST_P(Linear, ARowHasTheSameBitsInAnyBatch) {
  const LinearKernels& kernels = GetKernels(GetParam()).linear;
  constexpr uint32_t kRows = 77;  // more than any kernel for many rows wants
  constexpr uint32_t kOut = 56;   // four panels, the last one half full
  for (const PanelFormat& format : Formats()) {
    const uint32_t cols = ColsFor(format).back();
    const PanelMatrix w = RandomMatrix(kOut, cols, format, 11);
    const std::vector<float> x = RandomRows(size_t{kRows} * cols, 12);
    const Input input(kernels, format, x, kRows, cols);
    std::vector<float> alone(size_t{kRows} * kOut);
    for (uint32_t i = 0; i < kRows; ++i) {
      LinearTask task = TaskFor(w, input, 1, alone.data() + size_t{i} * kOut);
      task.rows += i * task.row_bytes;
      kernels.linear(format, task);
    }
    for (uint32_t n = 2; n <= kRows; n += n < 37 ? 1 : 20) {
      std::vector<float> out(size_t{n} * kOut);
      kernels.linear(format, TaskFor(w, input, n, out.data()));
      ASSERT_TRUE(std::equal(out.begin(), out.end(), alone.begin()))
          << Describe(format) << " " << n;
    }
    // One panel at a time.
    std::vector<float> out(size_t{kRows} * kOut);
    for (uint32_t p = 0; p < w.panels(); ++p) {
      LinearTask task = TaskFor(w, input, kRows, out.data() + 16 * p);
      task.panels = w.panel(p);
      task.n_panels = 1;
      task.out_cols = std::min(16u, kOut - 16 * p);
      kernels.linear(format, task);
    }
    ASSERT_EQ(out, alone) << Describe(format);
  }
}

// The largest products an int8 level can meet: saturating instructions would show.
TEST_P(Linear, ExtremeIntegersAreExact) {
  const LinearKernels& kernels = GetKernels(GetParam()).linear;
  for (const float sign : {1.0f, -1.0f}) {
    PanelFormat format{PanelKind::kP8, ScaleKind::kF16, 32, false, 128};
    PanelArena arena;
    PanelMatrix w(16, 64, format, arena);
    std::byte* chunk = w.mutable_panel(0);
    for (uint32_t i = 0; i < w.chunk().bytes; ++i) chunk[i] = std::byte{255};
    for (int i = 0; i < 32; ++i) reinterpret_cast<uint16_t*>(chunk)[i] = 0x3C00;  // 1.0
    const std::vector<float> x(64, sign * 127.0f);
    const Input input(kernels, format, x, 1, 64);
    std::vector<float> out(16);
    kernels.linear(format, TaskFor(w, input, 1, out.data()));
    for (const float value : out) EXPECT_EQ(value, sign * 64 * 127 * 127);
  }
}

TEST_P(Linear, NonFiniteActivationsAreNotLost) {
  const LinearKernels& kernels = GetKernels(GetParam()).linear;
  for (const PanelFormat& format : Formats()) {
    const uint32_t cols = ColsFor(format).back();
    const PanelMatrix w = RandomMatrix(16, cols, format, 3);
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      std::vector<float> x = RandomRows(cols, 4);
      x[cols / 2] = bad;
      const Input input(kernels, format, x, 1, cols);
      std::vector<float> out(16);
      kernels.linear(format, TaskFor(w, input, 1, out.data()));
      for (const float value : out) EXPECT_FALSE(std::isfinite(value)) << Describe(format);
    }
  }
}

TEST_P(Linear, TinyAndZeroRowsGiveZero) {
  const LinearKernels& kernels = GetKernels(GetParam()).linear;
  for (const PanelFormat& format : Formats()) {
    const uint32_t cols = ColsFor(format).back();
    const PanelMatrix w = RandomMatrix(16, cols, format, 3);
    for (const float tiny : {0.0f, -0.0f, 1e-44f}) {
      const std::vector<float> x(cols, tiny);
      const Input input(kernels, format, x, 1, cols);
      std::vector<float> out(16, 1.0f);
      kernels.linear(format, TaskFor(w, input, 1, out.data()));
      for (const float value : out) EXPECT_NEAR(value, 0, 1e-40) << Describe(format);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Linear, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace hadal
