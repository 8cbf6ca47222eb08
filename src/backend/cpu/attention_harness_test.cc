#include "backend/cpu/attention_harness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "backend/cpu/attention.h"
#include "backend/cpu/rope.h"
#include "tensor/byte_vector.h"
#include "tensor/half.h"

namespace hadal {
namespace {

std::vector<float> Random(size_t n, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

// k_up [heads * kv_lora, nope] or v_up [heads * v_head_dim, kv_lora]: the same for all sequences.
std::vector<float> Up(const AttentionCase& shape, bool values) {
  const uint32_t rows = shape.heads * (values ? shape.v_head_dim : shape.kv_lora);
  const uint32_t cols = values ? shape.kv_lora : shape.nope;
  return Random(size_t{rows} * cols, values ? 77 : 76, 1.0f / std::sqrt(float(cols)));
}

float Scale(const AttentionCase& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.q_dim()));
}

class TestWeight : public Weight {
 public:
  explicit TestWeight(std::vector<float> values) : values_(std::move(values)) {}
  uint64_t rows() const override { return 1; }
  uint64_t cols() const override { return values_.size(); }
  uint64_t bytes() const override { return 0; }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

void PlainHeadLinear(const HeadLinearArgs& args) {
  const float* weight = static_cast<const TestWeight&>(*args.weight).data();
  for (uint32_t row = 0; row < args.x.rows; ++row) {
    for (uint32_t head = 0; head < args.heads; ++head) {
      const float* x = args.x.row(row) + head * args.x_head_stride;
      float* out = args.out.row(row) + head * args.out_head_stride;
      for (uint32_t o = 0; o < args.out_dim; ++o) {
        const float* w = weight + (size_t{head} * args.out_dim + o) * args.in_dim;
        double sum = 0;
        for (uint32_t i = 0; i < args.in_dim; ++i) sum += static_cast<double>(w[i]) * x[i];
        out[o] = static_cast<float>(sum);
      }
    }
  }
}

ModelSpec SpecOf(const AttentionCase& shape) {
  ModelSpec spec;
  spec.n_layers = 2;  // the second is used: offsets of layers must be right
  spec.layers = {{false, shape.window}, {false, shape.window}};
  AttentionSpec& attention = spec.attention;
  attention.kind = shape.mla() ? AttentionKind::kMla : AttentionKind::kGqa;
  attention.n_heads = shape.heads;
  attention.n_kv_heads = shape.kv_heads;
  attention.head_dim = shape.q_dim();
  attention.kv_lora_rank = shape.kv_lora;
  attention.qk_nope_head_dim = shape.nope;
  attention.qk_rope_head_dim = shape.rope;
  attention.v_head_dim = shape.v_head_dim;
  return spec;
}

// One run's cache, page tables and step arrays.
class Runner {
 public:
  Runner(const AttentionCase& shape, const std::vector<TestSequence>& sequences,
         const RunOptions& options)
      : shape_(shape),
        sequences_(sequences),
        kernels_(GetKernels(options.level)),
        pool_(options.threads),
        attention_(&pool_, &kernels_.attention),
        allocator_(MakeRefBackend()),
        k_up_(Up(shape, false)),
        v_up_(Up(shape, true)),
        stored_(sequences.size(), 0) {
    kv_.layout = MakeKvLayout(SpecOf(shape), shape.dtype, shape.block_size);
    uint32_t n_pages = 0;
    for (const TestSequence& s : sequences) n_pages += PagesFor(s.tokens);
    FillArena(n_pages, options.page_seed);
    std::vector<uint32_t> order(n_pages);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), std::mt19937(options.page_seed));
    auto next = order.begin();
    for (const TestSequence& s : sequences) {
      tables_.emplace_back(next, next + PagesFor(s.tokens));
      next += PagesFor(s.tokens);
      run_.out.emplace_back(size_t{s.tokens} * shape.heads * shape.out_dim());
    }
    StepLimits limits;
    limits.max_tokens = 4096;
    attention_.Reserve(SpecOf(shape), limits);
  }

  void Step(const StepPlan& plan) {
    std::vector<int32_t> tokens;
    std::vector<uint32_t> positions, slots, pages, offsets = {0};
    std::vector<StepSequence> parts;
    std::vector<float> q, k, v;
    for (const auto& [s, rows] : plan) {
      const uint32_t first = stored_[s];
      parts.push_back({static_cast<uint32_t>(tokens.size()), rows, first + rows});
      for (uint32_t t = first; t < first + rows; ++t) {
        tokens.push_back(0);
        positions.push_back(t);
        slots.push_back(tables_[s][t / shape_.block_size] * shape_.block_size +
                        t % shape_.block_size);
      }
      const uint32_t seen_from =
          shape_.window != 0 && first + 1 > shape_.window ? first + 1 - shape_.window : 0;
      for (uint32_t page = 0; page < PagesFor(first + rows); ++page) {
        const bool passed = (page + 1) * shape_.block_size <= seen_from;
        pages.push_back(passed ? kNoPage : tables_[s][page]);
      }
      offsets.push_back(static_cast<uint32_t>(pages.size()));
      const TestSequence& from = sequences_[s];
      Append(from.q, first, rows, shape_.heads * shape_.q_dim(), q);
      Append(from.k, first, rows, shape_.kv_heads * shape_.k_dim(), k);
      if (!shape_.mla()) Append(from.v, first, rows, shape_.kv_heads * shape_.head_dim, v);
      stored_[s] += rows;
    }
    const StepInput::KvPages group = {slots, pages, offsets};
    StepInput step;
    step.tokens = tokens;
    step.positions = positions;
    step.sequences = parts;
    step.groups = {&group, 1};
    Compute(step, plan, q, k, v);
  }

  AttentionRun Finish() {
    run_.tiles = attention_.tiles();
    run_.jobs = pool_.jobs();
    return std::move(run_);
  }

 private:
  uint32_t PagesFor(uint32_t tokens) const {
    return (tokens + shape_.block_size - 1) / shape_.block_size;
  }

  // Pages hold large stale values: finite, as what a former owner left.
  void FillArena(uint32_t n_pages, uint32_t seed) {
    const KvLayout& layout = kv_.layout;
    kv_.arenas.push_back(allocator_->Allocate(n_pages * layout.groups[0].page_bytes));
    auto* arena = static_cast<std::byte*>(kv_.arenas[0].data());
    const std::vector<float> stale = Random(997, seed, layout.scaled ? 1e28f : 1e30f);
    uint64_t n = 0;
    const auto fill = [&](uint64_t tile, uint64_t scales_at, uint64_t bytes) {
      for (uint64_t at = 0; at < bytes; n += 4) {
        const float value = stale[n % stale.size()];
        if (shape_.dtype == DType::kF32 || at >= scales_at) {
          std::memcpy(arena + tile + at, &value, 4);
          at += 4;
        } else if (shape_.dtype == DType::kBF16) {
          const uint16_t bits = F32ToBf16(value);
          std::memcpy(arena + tile + at, &bits, 2);
          at += 2;
        } else {
          arena[tile + at++] = static_cast<std::byte>(std::bit_cast<uint32_t>(value) >> 3);
        }
      }
    };
    for (uint32_t page = 0; page < n_pages; ++page) {
      for (uint32_t head = 0; head < layout.n_kv_heads; ++head) {
        for (uint32_t tile = 0; tile < layout.tiles_per_page(); ++tile) {
          fill(layout.KTileOffset(1, page, head, tile), layout.k_scales_at, layout.k_tile_bytes);
          fill(layout.VTileOffset(1, page, head, tile), layout.v_scales_at, layout.v_tile_bytes);
        }
      }
    }
  }

  static void Append(const std::vector<float>& from, uint32_t first, uint32_t rows, uint32_t cols,
                     std::vector<float>& to) {
    to.insert(to.end(), from.begin() + size_t{first} * cols,
              from.begin() + size_t{first + rows} * cols);
  }

  void Compute(const StepInput& step, const StepPlan& plan, std::vector<float>& q,
               std::vector<float>& k, std::vector<float>& v) {
    const uint32_t n = step.n_tokens();
    const uint32_t out_cols = shape_.heads * shape_.out_dim();
    std::vector<float> out(size_t{n} * out_cols, NAN);
    RopeStoreArgs store;
    store.q = Tensor(q.data(), n, shape_.heads * shape_.q_dim());
    store.k = Tensor(k.data(), n, shape_.kv_heads * shape_.k_dim());
    store.q_heads = shape_.heads;
    store.q_head_dim = shape_.q_dim();
    store.kv_heads = shape_.kv_heads;
    store.k_head_dim = shape_.k_dim();
    if (!shape_.mla()) {
      store.v = Tensor(v.data(), n, shape_.kv_heads * shape_.head_dim);
      store.v_head_dim = shape_.head_dim;
    }
    store.layer = 1;
    CpuRopeAndStore(pool_, kernels_, step, kv_, store);
    if (shape_.mla()) {
      AttentionMlaArgs args;
      args.q = store.q;
      args.out = Tensor(out.data(), n, out_cols);
      args.k_up = &k_up_;
      args.v_up = &v_up_;
      args.heads = shape_.heads;
      args.kv_lora = shape_.kv_lora;
      args.nope = shape_.nope;
      args.rope = shape_.rope;
      args.v_head_dim = shape_.v_head_dim;
      args.scale = Scale(shape_);
      args.window = shape_.window;
      args.layer = 1;
      attention_.Mla(step, kv_, args, PlainHeadLinear);
    } else {
      AttentionGqaArgs args;
      args.q = store.q;
      args.out = Tensor(out.data(), n, out_cols);
      args.heads = shape_.heads;
      args.kv_heads = shape_.kv_heads;
      args.head_dim = shape_.head_dim;
      args.scale = Scale(shape_);
      args.window = shape_.window;
      args.layer = 1;
      attention_.Gqa(step, kv_, args);
    }
    for (size_t i = 0; i < plan.size(); ++i) {
      const StepSequence& part = step.sequences[i];
      std::copy_n(out.begin() + size_t{part.first_row} * out_cols, size_t{part.n_rows} * out_cols,
                  run_.out[plan[i].first].begin() + size_t{part.context - part.n_rows} * out_cols);
    }
  }

  const AttentionCase shape_;
  const std::vector<TestSequence>& sequences_;
  const KernelTable& kernels_;
  ThreadPool pool_;
  CpuAttention attention_;
  std::unique_ptr<Backend> allocator_;
  KvCache kv_;
  TestWeight k_up_, v_up_;
  std::vector<uint32_t> stored_;
  std::vector<std::vector<uint32_t>> tables_;
  AttentionRun run_;
};

}  // namespace

TestSequence::TestSequence(const AttentionCase& shape, uint32_t n, uint32_t seed)
    : tokens(n),
      q(Random(size_t{n} * shape.heads * shape.q_dim(), 3 * seed, 1.5f)),
      k(Random(size_t{n} * shape.kv_heads * shape.k_dim(), 3 * seed + 1, 1.5f)),
      v(Random(shape.mla() ? 0 : size_t{n} * shape.kv_heads * shape.head_dim, 3 * seed + 2, 1.0f)) {
}

std::vector<StepPlan> Chunked(uint32_t tokens, uint32_t chunk) {
  std::vector<StepPlan> plan;
  for (uint32_t done = 0; done < tokens; done += chunk) {
    plan.push_back({{0, std::min(chunk, tokens - done)}});
  }
  return plan;
}

AttentionRun RunCpuAttention(const AttentionCase& shape, const std::vector<TestSequence>& sequences,
                             const std::vector<StepPlan>& plan, const RunOptions& options) {
  Runner runner(shape, sequences, options);
  for (const StepPlan& step : plan) runner.Step(step);
  return runner.Finish();
}

namespace {

// x as the cache gives it back: `dim` elements, for 8-bit types with a scale of their own.
std::vector<double> Rounded(DType dtype, const float* x, uint32_t dim) {
  std::vector<double> out(x, x + dim);
  if (dtype == DType::kF32) return out;
  if (dtype == DType::kBF16) {
    for (double& value : out) value = Bf16ToF32(F32ToBf16(static_cast<float>(value)));
    return out;
  }
  std::vector<uint8_t> codes(dim);
  const double scale = EncodeByteVector({x, dim}, dtype, codes.data());
  for (uint32_t i = 0; i < dim; ++i) out[i] = DecodeByte(codes[i], dtype) * scale;
  return out;
}

// All keys, [tokens][kv_heads][k_dim]; the parts of MLA's apart.
std::vector<double> RoundedKeys(const AttentionCase& shape, const TestSequence& sequence) {
  std::vector<double> out;
  for (const float* k = sequence.k.data(); k != sequence.k.data() + sequence.k.size();
       k += shape.k_dim()) {
    const uint32_t first = shape.mla() ? shape.kv_lora : shape.head_dim;
    for (const double x : Rounded(shape.dtype, k, first)) out.push_back(x);
    for (const double x : Rounded(shape.dtype, k + first, shape.k_dim() - first)) out.push_back(x);
  }
  return out;
}

std::vector<double> RoundedValues(const AttentionCase& shape, const TestSequence& sequence) {
  std::vector<double> out;
  for (size_t at = 0; at < sequence.v.size(); at += shape.head_dim) {
    for (const double x : Rounded(shape.dtype, sequence.v.data() + at, shape.head_dim)) {
      out.push_back(x);
    }
  }
  return out;
}

}  // namespace

std::vector<float> PlainAttention(const AttentionCase& shape, const TestSequence& sequence) {
  const std::vector<double> keys = RoundedKeys(shape, sequence);
  const std::vector<double> values = RoundedValues(shape, sequence);
  const uint32_t v_dim = shape.mla() ? shape.kv_lora : shape.head_dim;
  const std::vector<float> k_up = Up(shape, false);
  const std::vector<float> v_up = Up(shape, true);
  std::vector<float> out;
  for (uint32_t i = 0; i < sequence.tokens; ++i) {
    for (uint32_t head = 0; head < shape.heads; ++head) {
      const uint32_t kv_head = head / (shape.heads / shape.kv_heads);
      const float* q = sequence.q.data() + (size_t{i} * shape.heads + head) * shape.q_dim();
      std::vector<double> query(q, q + shape.q_dim());
      if (shape.mla()) {
        query.assign(shape.kv_lora, 0.0);
        for (uint32_t l = 0; l < shape.kv_lora; ++l) {
          const float* w = k_up.data() + (size_t{head} * shape.kv_lora + l) * shape.nope;
          for (uint32_t d = 0; d < shape.nope; ++d) query[l] += static_cast<double>(w[d]) * q[d];
        }
        query.insert(query.end(), q + shape.nope, q + shape.nope + shape.rope);
      }
      const uint32_t first = shape.window != 0 && i + 1 > shape.window ? i + 1 - shape.window : 0;
      std::vector<double> p(i + 1 - first);
      for (uint32_t t = first; t <= i; ++t) {
        const double* k = keys.data() + (size_t{t} * shape.kv_heads + kv_head) * shape.k_dim();
        double score = 0;
        for (uint32_t d = 0; d < shape.k_dim(); ++d) score += query[d] * k[d];
        p[t - first] = score * Scale(shape);
      }
      const double max = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x - max);
      std::vector<double> value(v_dim, 0.0);
      for (uint32_t t = first; t <= i; ++t) {
        const size_t at = size_t{t} * shape.kv_heads + kv_head;
        const double* v =
            shape.mla() ? keys.data() + at * shape.k_dim() : values.data() + at * shape.head_dim;
        for (uint32_t d = 0; d < v_dim; ++d) value[d] += p[t - first] / sum * v[d];
      }
      if (!shape.mla()) {
        out.insert(out.end(), value.begin(), value.end());
        continue;
      }
      for (uint32_t o = 0; o < shape.v_head_dim; ++o) {
        const float* w = v_up.data() + (size_t{head} * shape.v_head_dim + o) * shape.kv_lora;
        double x = 0;
        for (uint32_t l = 0; l < shape.kv_lora; ++l) x += w[l] * value[l];
        out.push_back(static_cast<float>(x));
      }
    }
  }
  return out;
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace hadal
