// Linear on the CPU backend: what a matrix product costs, its activations' preparation included.
// The arguments are rows and the matrix, [out, in]. Weights cycle through enough copies to come
// from memory, not from cache, as in a model. Counters:
//   GB/s    packed weight bytes read
//   GOP/s   multiplications and additions
//   %read, %peak   of what the probe kernels reach on this machine at the same time
//
//   HADAL_BENCH_THREADS=2 HADAL_ISA=avx512vnni linear_bench --benchmark_filter=q8_0
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/placement.h"
#include "kernels/kernels.h"

namespace hadal {
namespace {

constexpr uint64_t kWeightBytes = 512 << 20;
constexpr uint32_t kMaxRows = 512;

int Threads() {
  const char* text = std::getenv("HADAL_BENCH_THREADS");
  return text != nullptr ? std::atoi(text) : DefaultThreads(ReadTopology());
}

struct Peaks {
  double read = 0;  // bytes/s
  double int8 = 0;  // operations/s
  double floats = 0;
  double bf16 = 0;
};

template <typename Body>
double Seconds(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of a few short runs on all threads.
const Peaks& MeasuredPeaks() {
  static const Peaks peaks = [] {
    const ProbeKernels& probe = GetKernels(ChooseIsaLevel()).probe;
    ThreadPool pool(Threads());
    std::vector<uint8_t> data(kWeightBytes, 1);
    const auto threads = static_cast<uint64_t>(pool.size());
    const uint64_t part = data.size() / threads / 256 * 256;
    Peaks best;
    for (int i = 0; i < 5; ++i) {
      best.read = std::max(best.read,
                           threads * part / Seconds([&] {
                             pool.Run([&](int t) {
                               benchmark::DoNotOptimize(probe.read(data.data() + t * part, part));
                             });
                           }));
      const auto rate = [&](float (*dot)(uint64_t rounds), uint64_t ops) {
        const uint64_t rounds = 1'000'000'000 / ops;
        return threads * rounds * ops /
               Seconds([&] { pool.Run([&](int) { benchmark::DoNotOptimize(dot(rounds)); }); });
      };
      best.int8 = std::max(best.int8, rate(probe.int8_dot, probe.int8_ops));
      best.floats = std::max(best.floats, rate(probe.float_dot, probe.float_ops));
      best.bf16 = std::max(best.bf16, rate(probe.bf16_dot, probe.bf16_ops));
    }
    return best;
  }();
  return peaks;
}

// Random bytes are valid blocks of every type but for their scales, which are f16 at offset 0 of
// these types. Plain floats get a middling exponent: subnormals would be timed otherwise.
std::vector<std::byte> RandomWeights(DType type, uint64_t rows, uint64_t cols) {
  const uint64_t row_bytes = RowBytes(type, cols);
  std::vector<std::byte> data(rows * row_bytes);
  const DTypeInfo& info = Info(type);
  const bool plain = info.block_elements == 1;
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= data.size(); i += 8) {
    const uint64_t word = plain ? (random() & 0x807F807F807F807F) | 0x3C003C003C003C00 : random();
    std::memcpy(data.data() + i, &word, 8);
  }
  if (plain) return data;
  const uint16_t scale = 0x1000;
  for (uint64_t at = 0; at < data.size(); at += info.block_bytes) {
    std::memcpy(data.data() + at, &scale, 2);
    if (type == DType::kQ4_1 || type == DType::kQ4_K) std::memcpy(data.data() + at + 2, &scale, 2);
    if (type == DType::kQ6_K) std::memcpy(data.data() + at + 208, &scale, 2);
  }
  return data;
}

void BM_Linear(benchmark::State& state, DType type) {
  const auto rows = static_cast<uint32_t>(state.range(0));
  const auto out = static_cast<uint32_t>(state.range(1));
  const auto in = static_cast<uint32_t>(state.range(2));
  const std::unique_ptr<Backend> backend = MakeCpuBackend(Threads());
  ModelSpec spec;
  spec.hidden = in;
  spec.attention.n_heads = spec.attention.n_kv_heads = 1;
  spec.attention.head_dim = 64;
  StepLimits limits;
  limits.max_tokens = kMaxRows;
  backend->Reserve(spec, limits);
  TensorView view;
  view.name = "bench";
  view.dtype = type;
  view.shape = {out, in};
  const std::vector<std::byte> data = RandomWeights(type, out, in);
  view.data = data;
  std::vector<std::unique_ptr<Weight>> weights;
  const uint64_t bytes = backend->WeightBytes(view, WeightPolicy::kAsStored);
  for (uint64_t i = 0; i == 0 || (rows <= 16 && i * bytes < kWeightBytes); ++i) {
    weights.push_back(backend->Upload(view, WeightPolicy::kAsStored));
  }
  std::vector<float> x(size_t{rows} * in);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 23) - 11.0f;
  std::vector<float> y(size_t{rows} * out);
  LinearArgs args;
  args.out = Tensor(y.data(), rows, out);
  size_t next = 0;
  for (auto _ : state) {
    args.weight = weights[next].get();
    next = (next + 1) % weights.size();
    backend->Linear(Tensor(x.data(), rows, in), args);
  }
  const double n = static_cast<double>(state.iterations());
  const double ops = 2.0 * rows * out * in;
  const Peaks& peaks = MeasuredPeaks();
  const double floats = type == DType::kBF16 ? peaks.bf16 : peaks.floats;
  const double peak = Info(type).block_elements == 1 ? floats : peaks.int8;
  const auto rate = benchmark::Counter::kIsRate;
  state.counters["GB/s"] = benchmark::Counter(n * bytes / 1e9, rate);
  state.counters["GOP/s"] = benchmark::Counter(n * ops / 1e9, rate);
  state.counters["%read"] = benchmark::Counter(100 * n * bytes / peaks.read, rate);
  state.counters["%peak"] = benchmark::Counter(100 * n * ops / peak, rate);
}

void Shapes(benchmark::internal::Benchmark* b) {
  for (const int rows : {1, 2, 4, 8, 16, 32, 128, 512}) {
    b->Args({rows, 8960, 1536});
    b->Args({rows, 1536, 8960});
  }
  b->UseRealTime()->MinTime(0.3);
}

BENCHMARK_CAPTURE(BM_Linear, q8_0, DType::kQ8_0)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, q4_0, DType::kQ4_0)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, q4_1, DType::kQ4_1)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, q4_k, DType::kQ4_K)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, q6_k, DType::kQ6_K)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, bf16, DType::kBF16)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, f16, DType::kF16)->Apply(Shapes);
BENCHMARK_CAPTURE(BM_Linear, f32, DType::kF32)->Apply(Shapes);

}  // namespace
}  // namespace hadal

BENCHMARK_MAIN();
