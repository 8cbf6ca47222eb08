// Attention over a cache of many layers (so that it is read from memory): GB/s of keys and values,
// GFLOP/s of the score and value products, and their share of what this machine's kernels reach.
#include <benchmark/benchmark.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

#include "backend/cpu/attention.h"
#include "kernels/kernels.h"
#include "tensor/half.h"

namespace hadal {
namespace {

struct Shape {
  const char* name;
  uint32_t heads, kv_heads, head_dim;  // GQA
  uint32_t kv_lora, rope;              // MLA
  uint32_t context, rows, layers;
};

constexpr Shape kShapes[] = {
    {"qwen2_1.5b/decode_4k", 12, 2, 128, 0, 0, 4096, 1, 28},
    {"qwen2_1.5b/decode_32k", 12, 2, 128, 0, 0, 32768, 1, 4},
    {"qwen2_1.5b/prefill_512_at_4k", 12, 2, 128, 0, 0, 4096, 512, 2},
    {"smollm2_135m/decode_4k", 9, 3, 64, 0, 0, 4096, 1, 30},
    {"mha/decode_4k", 16, 16, 128, 0, 0, 4096, 1, 4},
    {"v2_lite/decode_4k", 16, 1, 0, 512, 64, 4096, 1, 27},
    {"v2_lite/prefill_128_at_4k", 16, 1, 0, 512, 64, 4096, 128, 2},
    {"v3/decode_4k", 128, 1, 0, 512, 64, 4096, 1, 8},
};

ModelSpec SpecOf(const Shape& shape) {
  ModelSpec spec;
  spec.n_layers = shape.layers;
  spec.layers.resize(shape.layers);
  AttentionSpec& attention = spec.attention;
  attention.n_heads = shape.heads;
  attention.n_kv_heads = shape.kv_heads;
  attention.head_dim = shape.head_dim;
  if (shape.kv_lora != 0) {
    attention.kind = AttentionKind::kMla;
    attention.kv_lora_rank = shape.kv_lora;
    attention.qk_rope_head_dim = shape.rope;
  }
  return spec;
}

// One sequence in the middle of a step.
class World {
 public:
  World(const Shape& shape, DType dtype, IsaLevel level, int threads)
      : shape_(shape),
        pool_(threads),
        attention_(&pool_, &GetKernels(level).attention),
        allocator_(MakeRefBackend()) {
    StepLimits limits;
    limits.max_tokens = shape.rows;
    attention_.Reserve(SpecOf(shape), limits);
    kv_.layout = MakeKvLayout(SpecOf(shape), dtype, 16);
    const uint32_t n_pages = shape.context / 16;
    kv_.arenas.push_back(allocator_->Allocate(n_pages * kv_.layout.groups[0].page_bytes));
    Buffer& arena = kv_.arenas[0];
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<float> noise(1021);
    for (float& x : noise) x = normal(generator);
    auto* bytes = static_cast<std::byte*>(arena.data());
    for (uint64_t i = 0; i < arena.size() / sizeof(float); ++i) {
      const float value = noise[i % noise.size()];
      // As int8 codes and as scales, any finite number will do; FP8 has no subnormal codes.
      uint32_t word = std::bit_cast<uint32_t>(value);
      if (dtype == DType::kBF16) word = F32ToBf16(value) * 0x10001u;
      if (dtype == DType::kF8E4M3) word |= 0x08080808u;
      std::memcpy(bytes + 4 * i, &word, 4);
    }
    pages_.resize(n_pages);
    std::iota(pages_.begin(), pages_.end(), 0u);
    std::shuffle(pages_.begin(), pages_.end(), generator);
    offsets_ = {0, n_pages};
    positions_.resize(shape.rows);
    std::iota(positions_.begin(), positions_.end(), shape.context - shape.rows);
    tokens_.resize(shape.rows);
    sequences_ = {{0, shape.rows, shape.context}};
    group_ = {{}, pages_, offsets_};
    step_.tokens = tokens_;
    step_.positions = positions_;
    step_.sequences = sequences_;
    step_.groups = {&group_, 1};
    q_.resize(size_t{shape.rows} * shape.heads * 1024);
    for (size_t i = 0; i < q_.size(); ++i) q_[i] = noise[i % noise.size()];
    out_.resize(q_.size());
  }

  void Run(uint32_t layer) {
    if (shape_.kv_lora == 0) {
      AttentionGqaArgs args;
      args.q = Tensor(q_.data(), shape_.rows, shape_.heads * shape_.head_dim);
      args.out = Tensor(out_.data(), shape_.rows, shape_.heads * shape_.head_dim);
      args.heads = shape_.heads;
      args.kv_heads = shape_.kv_heads;
      args.head_dim = shape_.head_dim;
      args.scale = 0.1f;
      args.layer = layer;
      attention_.Gqa(step_, kv_, args);
    } else {
      AttentionMlaArgs args;
      args.q = Tensor(q_.data(), shape_.rows, shape_.heads * (128 + shape_.rope));
      args.out = Tensor(out_.data(), shape_.rows, shape_.heads * 128);
      args.heads = shape_.heads;
      args.kv_lora = shape_.kv_lora;
      args.nope = 128;
      args.rope = shape_.rope;
      args.v_head_dim = 128;
      args.scale = 0.1f;
      args.layer = layer;
      attention_.Mla(step_, kv_, args, [](const HeadLinearArgs&) {});
    }
  }

  double BytesPerRun() const {
    return kv_.layout.bytes_per_token() / shape_.layers * shape_.context;
  }
  double FlopsPerRun() const {
    const double pairs = shape_.rows * (shape_.context - (shape_.rows - 1) / 2.0) * shape_.heads;
    return 2 * pairs *
           (shape_.kv_lora == 0 ? 2 * shape_.head_dim : 2 * shape_.kv_lora + shape_.rope);
  }

 private:
  Shape shape_;
  ThreadPool pool_;
  CpuAttention attention_;
  std::unique_ptr<Backend> allocator_;
  KvCache kv_;
  std::vector<uint32_t> pages_, offsets_, positions_;
  std::vector<int32_t> tokens_;
  std::vector<StepSequence> sequences_;
  StepInput::KvPages group_;
  StepInput step_;
  std::vector<float> q_, out_;
};

template <typename Body>
double Seconds(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Attention(benchmark::State& state, const Shape& shape, DType dtype, IsaLevel level,
               int threads) {
  World world(shape, dtype, level, threads);
  uint32_t layer = 0;
  for (auto _ : state) {
    world.Run(layer);
    layer = (layer + 1) % shape.layers;
  }
  const double runs = static_cast<double>(state.iterations());
  state.counters["GB/s"] =
      benchmark::Counter(runs * world.BytesPerRun() * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] =
      benchmark::Counter(runs * world.FlopsPerRun() * 1e-9, benchmark::Counter::kIsRate);
}

// What to compare with: one thread's arithmetic alone, all in registers.
void Peak(benchmark::State& state, IsaLevel level) {
  const ProbeKernels& probe = GetKernels(level).probe;
  constexpr uint64_t kRounds = 100000;
  for (auto _ : state) benchmark::DoNotOptimize(probe.float_dot(kRounds));
  state.counters["GFLOP/s"] = benchmark::Counter(static_cast<double>(state.iterations() * kRounds) *
                                                     static_cast<double>(probe.float_ops) * 1e-9,
                                                 benchmark::Counter::kIsRate);
}

void Register() {
  for (const IsaLevel level : SupportedIsaLevels()) {
    const std::string isa(Name(level));
    benchmark::RegisterBenchmark(("peak/" + isa).c_str(), [=](benchmark::State& s) {
      Peak(s, level);
    })->UseRealTime();
    for (const Shape& shape : kShapes) {
      for (const auto& [kv_name, dtype] : kKvTypes) {
        for (const int threads : {1, 2}) {
          const std::string name = std::string(shape.name) + "/kv_" + std::string(kv_name) + '/' +
                                   isa + "/threads_" + std::to_string(threads);
          benchmark::RegisterBenchmark(name.c_str(), [=, type = dtype](benchmark::State& s) {
            Attention(s, shape, type, level, threads);
          })->UseRealTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace hadal

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  hadal::Register();
  benchmark::RunSpecifiedBenchmarks();
}
