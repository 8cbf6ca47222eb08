// Every op of backend/cpu, at every ISA level this machine has, against backend/ref.
//
// Both see the same weights and inputs. What may differ: the order of sums, and activations that
// the CPU rounds to 8 bits for panels of integers, or to bf16; the tolerances say how much.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "kernels/kernels.h"
#include "quant/quantize.h"

namespace hadal {
namespace {

using Floats = std::vector<float>;

// Relative L2 error that activations rounded for a product cause.
constexpr double kInt8Rows = 2e-2;
constexpr double kBf16Rows = 3e-3;

// What the order of sums changes; at levels with tiles, also what pairs of bf16 (kBf16Pair) lose.
double Exact(IsaLevel level) {
  return level < IsaLevel::kAvx512Amx ? 2e-6 : 4e-6;
}

double RelativeError(const Floats& got, const Floats& want) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    size += double{want[i]} * want[i];
  }
  return std::sqrt(error / std::max(size, 1e-30));
}

Floats Random(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  Floats out(n);
  for (float& value : out) value = normal(random);
  return out;
}

// A tensor that owns its bytes.
struct Owned {
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  TensorView view;
};

Owned MakeWeight(DType type, std::vector<uint64_t> shape, uint32_t seed) {
  Owned owned;
  owned.view.name = std::string(Name(type));
  owned.view.dtype = type;
  owned.view.shape = std::move(shape);
  const uint64_t rows = owned.view.rows();
  const uint64_t cols = owned.view.cols();
  owned.bytes.resize(rows * RowBytes(type, cols));
  const Floats values = Random(rows * cols, seed);
  if (type == DType::kF8E4M3) {
    for (size_t i = 0; i < values.size(); ++i) {
      owned.bytes[i] = static_cast<std::byte>(0x30 + static_cast<int>(values[i] * 4) % 12) |
                       (values[i] < 0 ? std::byte{0x80} : std::byte{0});
    }
    owned.view.scale_block = 128;
    owned.scales = Random((rows + 127) / 128 * ((cols + 127) / 128), seed + 1);
    owned.view.scales = std::as_bytes(std::span(owned.scales));
  } else {
    for (uint64_t r = 0; r < rows; ++r) {
      QuantizeRow(type, std::span(values).subspan(r * cols, cols),
                  std::span(owned.bytes).subspan(r * RowBytes(type, cols), RowBytes(type, cols)));
    }
  }
  owned.view.data = owned.bytes;
  return owned;
}

Owned MakeVector(uint64_t n, uint32_t seed) {
  return MakeWeight(DType::kF32, {n}, seed);
}

const std::vector<DType> kTypes = {
    DType::kF32,  DType::kF16,  DType::kBF16,   DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0,
    DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,   DType::kQ2_K,   DType::kQ3_K, DType::kQ4_K,
    DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4};

bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16 ||
         type == DType::kF8E4M3;
}

double Bf16Tolerance(IsaLevel level) {
  return GetKernels(level).linear.bf16_rows == ActivationKind::kBf16 ? kBf16Rows : Exact(level);
}

double Tolerance(IsaLevel level, DType type) {
  if (type == DType::kBF16) return Bf16Tolerance(level);
  return IsFloat(type) ? Exact(level) : kInt8Rows;
}

// The same work on both backends; results are compared by the caller.
class Parity : public testing::TestWithParam<IsaLevel> {
 protected:
  Parity() {
    backends_.push_back(MakeRefBackend());
    backends_.push_back(MakeCpuBackend(2, GetParam()));
  }

  void Reserve(const ModelSpec& spec, uint32_t tokens) {
    StepLimits limits;
    limits.max_tokens = tokens;
    for (auto& backend : backends_) backend->Reserve(spec, limits);
  }

  // body(backend, out) fills out [n]; returns both results, ref first.
  template <typename Body>
  std::pair<Floats, Floats> Both(size_t n, Body&& body) {
    std::pair<Floats, Floats> out = {Floats(n, 7.0f), Floats(n, 7.0f)};
    body(*backends_[0], out.first);
    body(*backends_[1], out.second);
    return out;
  }

  std::vector<std::unique_ptr<Backend>> backends_;
};

ModelSpec SmallSpec(uint32_t hidden) {
  ModelSpec spec;
  spec.hidden = hidden;
  spec.intermediate = hidden;
  spec.attention.n_heads = spec.attention.n_kv_heads = 1;
  spec.attention.head_dim = 16;
  return spec;
}

TEST_P(Parity, EmbedIsExact) {
  Reserve(SmallSpec(512), 40);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 40; ++i) tokens.push_back(i * 13 % 70);
  for (const DType type : kTypes) {
    const Owned table = MakeWeight(type, {70, 512}, 1);
    const auto [want, got] = Both(40 * 512, [&](Backend& backend, Floats& out) {
      const auto weight = backend.Upload(table.view, WeightPolicy::kAsStored);
      EXPECT_EQ(weight->rows(), 70u);
      EXPECT_EQ(weight->bytes(), backend.WeightBytes(table.view, WeightPolicy::kAsStored));
      backend.Embed(*weight, tokens, Tensor(out.data(), 40, 512));
    });
    EXPECT_EQ(want, got) << Name(type);
  }
}

TEST_P(Parity, Linear) {
  Reserve(SmallSpec(768), 50);
  uint32_t seed = 1;
  for (const DType type : kTypes) {
    for (const uint32_t n : {1u, 3u, 50u}) {
      const uint32_t rows = 40 + seed % 30;
      const Owned weight = MakeWeight(type, {rows, 768}, ++seed);
      const Owned bias = MakeVector(rows, ++seed);
      Floats x = Random(size_t{n} * 768, ++seed);
      const auto [want, got] = Both(size_t{n} * rows, [&](Backend& backend, Floats& out) {
        const auto w = backend.Upload(weight.view, WeightPolicy::kAsStored);
        const auto b = backend.Upload(bias.view, WeightPolicy::kAsStored);
        backend.Linear(Tensor(x.data(), n, 768), {w.get(), b.get(), Tensor(out.data(), n, rows)});
      });
      EXPECT_LT(RelativeError(got, want), Tolerance(GetParam(), type))
          << Name(type) << " rows " << n;
    }
  }
}

TEST_P(Parity, LinearUnderEveryPolicy) {
  Reserve(SmallSpec(200), 5);
  const std::map<WeightPolicy, double> policies = {{WeightPolicy::kF32, Exact(GetParam())},
                                                   {WeightPolicy::kBf16, Bf16Tolerance(GetParam())},
                                                   {WeightPolicy::kQ8, kInt8Rows},
                                                   {WeightPolicy::kQ4, kInt8Rows}};
  const Owned weight = MakeWeight(DType::kF16, {33, 200}, 1);
  Floats x = Random(5 * 200, 2);
  for (const auto& entry : policies) {
    const WeightPolicy policy = entry.first;  // clang 14 captures no part of a structured binding
    const auto [want, got] = Both(5 * 33, [&](Backend& backend, Floats& out) {
      const auto w = backend.Upload(weight.view, policy);
      if (&backend == backends_[1].get()) {
        EXPECT_EQ(w->bytes(), backend.WeightBytes(weight.view, policy));
      }
      backend.Linear(Tensor(x.data(), 5, 200), {w.get(), nullptr, Tensor(out.data(), 5, 33)});
    });
    EXPECT_LT(RelativeError(got, want), entry.second) << static_cast<int>(policy);
  }
}

TEST_P(Parity, LinearGroupOfMixedTypes) {
  Reserve(SmallSpec(512), 9);
  const std::vector<DType> types = {DType::kQ4_K, DType::kQ6_K, DType::kF32, DType::kQ4_K,
                                    DType::kBF16};
  Floats x = Random(9 * 600, 2);  // rows of 512 in a wider tensor
  for (size_t i = 0; i < types.size(); ++i) {
    const auto [want, got] = Both(9 * 48, [&](Backend& backend, Floats& out) {
      std::vector<std::unique_ptr<Weight>> weights;
      std::vector<Floats> outs(types.size(), Floats(9 * 48));
      std::vector<LinearArgs> linears;
      for (size_t j = 0; j < types.size(); ++j) {
        const Owned weight = MakeWeight(types[j], {48, 512}, static_cast<uint32_t>(j));
        weights.push_back(backend.Upload(weight.view, WeightPolicy::kAsStored));
        linears.push_back({weights[j].get(), nullptr, Tensor(outs[j].data(), 9, 48)});
      }
      backend.LinearGroup(Tensor(x.data(), 9, 512, 600), linears);
      out = outs[i];
    });
    EXPECT_LT(RelativeError(got, want), Tolerance(GetParam(), types[i])) << i;
  }
}

TEST_P(Parity, RowOps) {
  Reserve(SmallSpec(333), 21);
  const Owned weight = MakeVector(333, 1);
  const Floats x = Random(21 * 333, 2);
  Floats y = Random(21 * 333, 3);
  Floats gate = Random(21, 4);
  const std::vector<uint32_t> rows = {20, 0, 7, 7};
  const size_t n = x.size();
  using Op = std::function<void(Backend&, Floats&)>;
  const std::vector<std::pair<std::string, Op>> ops = {
      {"RmsNorm",
       [&](Backend& b, Floats& out) {
         Floats in = x;
         const auto w = b.Upload(weight.view, WeightPolicy::kAsStored);
         b.RmsNorm(Tensor(in.data(), 21, 333), {}, *w, 1e-5f, Tensor(out.data(), 21, 333));
       }},
      {"RmsNorm with residual",
       [&](Backend& b, Floats& out) {
         Floats in = x;
         const auto w = b.Upload(weight.view, WeightPolicy::kAsStored);
         b.RmsNorm(Tensor(in.data(), 21, 333), Tensor(y.data(), 21, 333), *w, 1e-5f,
                   Tensor(out.data(), 21, 333));
         out.insert(out.end(), in.begin(), in.end());
       }},
      {"RmsNorm in place",
       [&](Backend& b, Floats& out) {
         out = x;
         const auto w = b.Upload(weight.view, WeightPolicy::kAsStored);
         const Tensor t(out.data(), 21, 333);
         b.RmsNorm(t, {}, *w, 1e-5f, t);
       }},
      {"Glu",
       [&](Backend& b, Floats& out) {
         out = x;
         const Tensor t(out.data(), 21, 333);
         b.Glu(t, Tensor(y.data(), 21, 333), t);
       }},
      {"AddScaled",
       [&](Backend& b, Floats& out) {
         out = x;
         b.AddScaled(Tensor(out.data(), 21, 333), Tensor(y.data(), 21, 333), {});
       }},
      {"AddScaled with gate",
       [&](Backend& b, Floats& out) {
         out = x;
         b.AddScaled(Tensor(out.data(), 21, 333), Tensor(y.data(), 21, 333),
                     Tensor(gate.data(), 21, 1));
       }},
      {"GatherRows",
       [&](Backend& b, Floats& out) {
         Floats in = x;
         out.assign(4 * 333, 0);
         b.GatherRows(Tensor(in.data(), 21, 333), rows, Tensor(out.data(), 4, 333));
       }},
  };
  for (const auto& [name, op] : ops) {
    const auto [want, got] = Both(n, op);
    EXPECT_LT(RelativeError(got, want), Exact(GetParam())) << name;
  }
}

MoeSpec Routing(uint32_t experts, uint32_t used, MoeScoring scoring) {
  MoeSpec moe;
  moe.n_experts = experts;
  moe.n_used = used;
  moe.intermediate = 64;
  moe.scoring = scoring;
  return moe;
}

TEST_P(Parity, ArgmaxIsExact) {
  constexpr uint32_t kRows = 9;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const uint32_t cols : {1u, 15u, 64u, 1000u, 1024u, 5001u}) {
    Floats x = Random(size_t{kRows} * cols, cols);
    const auto row = [&](uint32_t r) { return x.data() + size_t{r} * cols; };
    std::fill_n(row(1), cols, -3.5f);              // all equal
    row(2)[0] = row(2)[cols - 1] = 99;             // first and last
    row(3)[cols / 2] = row(3)[cols * 2 / 3] = 99;  // the lower of two
    std::fill_n(row(4), cols, -0.0f);
    row(4)[cols - 1] = 0.0f;  // equal to the others
    row(5)[cols / 3] = infinity;
    row(6)[cols - 1] = -infinity;
    row(7)[0] = std::numeric_limits<float>::quiet_NaN();
    row(8)[cols - 1] = std::numeric_limits<float>::max();
    std::vector<int32_t> want(kRows), got(kRows);
    backends_[0]->Argmax(Tensor(x.data(), kRows, cols), want);
    backends_[1]->Argmax(Tensor(x.data(), kRows, cols), got);
    EXPECT_EQ(want, got) << cols;
    EXPECT_EQ(want[2], 0) << cols;
    EXPECT_EQ(want[5], -1) << cols;
  }
}

TEST_P(Parity, MoeRoute) {
  std::vector<MoeSpec> cases = {Routing(8, 2, MoeScoring::kSoftmax),
                                Routing(64, 6, MoeScoring::kSoftmax),
                                Routing(60, 4, MoeScoring::kSigmoid)};
  cases[1].group_score = MoeGroupScore::kMax;
  cases[1].n_groups = 8;
  cases[1].n_groups_used = 3;
  cases[1].weight_scale = 16.0f;
  cases.push_back(Routing(256, 8, MoeScoring::kSigmoid));
  cases[3].group_score = MoeGroupScore::kTopTwoSum;
  cases[3].n_groups = 8;
  cases[3].n_groups_used = 4;
  cases[3].choice_bias = cases[3].normalize = true;
  cases[3].weight_scale = 2.5f;
  constexpr uint32_t kTokens = 33;
  for (size_t c = 0; c < cases.size(); ++c) {
    const MoeSpec& moe = cases[c];
    ModelSpec spec = SmallSpec(64);
    spec.moe = moe;
    Reserve(spec, kTokens);
    Floats logits = Random(size_t{kTokens} * moe.n_experts, static_cast<uint32_t>(c));
    // The last token's logits are all equal: ties fall to the lower index.
    std::fill(logits.end() - moe.n_experts, logits.end(), 0.25f);
    const Owned bias = MakeVector(moe.n_experts, 99);
    std::vector<int32_t> experts[2];
    int which = 0;
    const size_t n = size_t{kTokens} * moe.n_used;
    const auto [want, got] = Both(n, [&](Backend& backend, Floats& weights) {
      const auto b = backend.Upload(bias.view, WeightPolicy::kAsStored);
      experts[which].resize(n);
      backend.MoeRoute(Tensor(logits.data(), kTokens, moe.n_experts), moe,
                       moe.choice_bias ? b.get() : nullptr,
                       {experts[which].data(), weights.data(), moe.n_used});
      ++which;
    });
    EXPECT_EQ(experts[0], experts[1]) << c;
    EXPECT_LT(RelativeError(got, want), 1e-6) << c;
  }
}

struct MoeCase {
  DType gate, up, down;
};

TEST_P(Parity, MoeFfn) {
  constexpr uint32_t kHidden = 256;
  constexpr uint32_t kExperts = 7;
  constexpr uint32_t kTokens = 50;  // more than one tile of rows for the expert that all use
  ModelSpec spec = SmallSpec(kHidden);
  spec.moe = Routing(kExperts, 3, MoeScoring::kSoftmax);
  spec.moe->intermediate = 256;
  Reserve(spec, kTokens);
  const std::vector<MoeCase> cases = {{DType::kF32, DType::kF32, DType::kF32},
                                      {DType::kBF16, DType::kBF16, DType::kBF16},
                                      {DType::kQ8_0, DType::kQ8_0, DType::kQ8_0},
                                      {DType::kQ4_K, DType::kQ4_0, DType::kQ6_K}};
  Floats x = Random(kTokens * kHidden, 1);
  Floats weights = Random(kTokens * 3, 2);
  std::vector<int32_t> chosen;
  for (uint32_t i = 0; i < kTokens; ++i) {
    // Expert 5 gets no token.
    for (const uint32_t e : {i * i % 5, (i * i + 1 + i % 3) % 5, 6u}) {
      chosen.push_back(static_cast<int32_t>(e));
    }
  }
  for (const MoeCase& types : cases) {
    for (const uint32_t n : {1u, kTokens}) {
      const auto [want, got] = Both(size_t{n} * kHidden, [&](Backend& backend, Floats& out) {
        std::vector<ExpertWeights> experts(kExperts);
        for (uint32_t e = 0; e < kExperts; ++e) {
          const auto upload = [&](DType type, uint64_t rows, uint64_t cols, uint32_t seed) {
            Owned weight = MakeWeight(type, {rows, cols}, seed + 10 * e);
            return backend.Upload(weight.view, WeightPolicy::kAsStored);
          };
          // The last expert differs in type from the others.
          const bool last = e + 1 == kExperts;
          experts[e].gate = upload(last ? DType::kF16 : types.gate, 256, kHidden, 3);
          experts[e].up = upload(types.up, 256, kHidden, 4);
          experts[e].down = upload(types.down, kHidden, 256, 5);
        }
        backend.MoeFfn(Tensor(x.data(), n, kHidden), experts, {chosen.data(), weights.data(), 3},
                       Tensor(out.data(), n, kHidden));
      });
      const double tolerance =
          2 * std::max({Tolerance(GetParam(), types.gate), Tolerance(GetParam(), types.up),
                        Tolerance(GetParam(), types.down)});
      EXPECT_LT(RelativeError(got, want), tolerance) << Name(types.gate) << " " << n;
    }
  }
}

// Two sequences in one step, the second with history, on scattered pages.
struct Attending {
  explicit Attending(bool mla, DType dtype, uint32_t window) {
    spec.hidden = 64;
    spec.n_layers = 1;
    spec.layers.resize(1);
    spec.layers[0].window = window;
    AttentionSpec& a = spec.attention;
    a.kind = mla ? AttentionKind::kMla : AttentionKind::kGqa;
    a.n_heads = 4;
    a.n_kv_heads = 2;
    a.head_dim = 24;
    if (mla) {
      a.kv_lora_rank = 48;
      a.qk_nope_head_dim = 20;
      a.qk_rope_head_dim = 8;
      a.v_head_dim = 24;
      a.head_dim = 28;
    }
    layout = MakeKvLayout(spec, dtype, 16);
  }

  ModelSpec spec;
  KvLayout layout;
};

TEST_P(Parity, RopeStoreAndAttention) {
  constexpr uint32_t kFirst = 19;   // tokens of sequence 0
  constexpr uint32_t kSecond = 45;  // of sequence 1: 40, then 5
  for (const bool mla : {false, true}) {
    for (const auto& [name, dtype] : kKvTypes) {
      for (const uint32_t window : {0u, 17u}) {
        Attending shape(mla, dtype, window);
        const AttentionSpec& a = shape.spec.attention;
        Reserve(shape.spec, 64);
        const uint32_t q_dim = a.head_dim;
        const uint32_t k_dim = mla ? a.kv_lora_rank + a.qk_rope_head_dim : a.head_dim;
        const uint32_t kv_heads = mla ? 1 : a.n_kv_heads;
        const uint32_t v_dim = mla ? 0 : a.head_dim;
        const uint32_t out_dim = mla ? a.v_head_dim : a.head_dim;
        const uint32_t rope = mla ? a.qk_rope_head_dim : a.head_dim;
        const Owned k_up = MakeWeight(DType::kF32, {a.n_heads, 48, 20}, 50);
        const Owned v_up = MakeWeight(DType::kF32, {a.n_heads, 24, 48}, 51);
        const uint32_t pages[] = {5, 2, 1, 4, 0};
        const uint32_t offsets[] = {0, 2, 5};
        const auto [want, got] = Both(0, [&](Backend& backend, Floats& out) {
          KvCache kv;
          kv.layout = shape.layout;
          kv.arenas.push_back(backend.Allocate(6 * shape.layout.groups[0].page_bytes));
          const auto ku = backend.Upload(k_up.view, WeightPolicy::kAsStored);
          const auto vu = backend.Upload(v_up.view, WeightPolicy::kAsStored);
          for (int step = 0; step < 2; ++step) {
            std::vector<StepSequence> sequences;
            std::vector<uint32_t> positions, slots;
            const auto add = [&](uint32_t s, uint32_t from, uint32_t to) {
              sequences.push_back({static_cast<uint32_t>(positions.size()), to - from, to});
              for (uint32_t t = from; t < to; ++t) {
                positions.push_back(t);
                slots.push_back(pages[offsets[s] + t / 16] * 16 + t % 16);
              }
            };
            std::vector<uint32_t> tables(pages, pages + 5);
            std::vector<uint32_t> table_offsets(offsets, offsets + 3);
            if (step == 0) {
              add(1, 0, 40);
              tables.erase(tables.begin(), tables.begin() + 2);
              table_offsets = {0, 3};
            } else {
              add(0, 0, kFirst);
              add(1, 40, kSecond);
            }
            const auto n = static_cast<uint32_t>(positions.size());
            std::vector<int32_t> tokens(n, 0);
            StepInput::KvPages group{slots, tables, table_offsets};
            StepInput input;
            input.tokens = tokens;
            input.positions = positions;
            input.sequences = sequences;
            input.groups = {&group, 1};
            const auto seed = static_cast<uint32_t>(step * 100);
            Floats q = Random(size_t{n} * a.n_heads * q_dim, seed + 1);
            Floats k = Random(size_t{n} * kv_heads * k_dim, seed + 2);
            Floats v = Random(size_t{n} * kv_heads * v_dim + 1, seed + 3);
            Floats cos = Random(size_t{n} * rope / 2, seed + 4);
            Floats sin = Random(size_t{n} * rope / 2, seed + 5);
            Floats result(size_t{n} * a.n_heads * out_dim);
            backend.BeginStep(input, kv);
            RopeStoreArgs store;
            store.q = Tensor(q.data(), n, a.n_heads * q_dim);
            store.k = Tensor(k.data(), n, kv_heads * k_dim);
            if (!mla) store.v = Tensor(v.data(), n, kv_heads * v_dim);
            store.q_heads = a.n_heads;
            store.q_head_dim = q_dim;
            store.q_rope_offset = mla ? a.qk_nope_head_dim : 0;
            store.kv_heads = kv_heads;
            store.k_head_dim = k_dim;
            store.k_rope_offset = mla ? a.kv_lora_rank : 0;
            store.v_head_dim = v_dim;
            store.rope_dim = rope;
            store.rope_layout = mla ? RopeLayout::kInterleaved : RopeLayout::kHalfSplit;
            store.cos = Tensor(cos.data(), n, rope / 2);
            store.sin = Tensor(sin.data(), n, rope / 2);
            backend.RopeAndStore(store);
            if (mla) {
              AttentionMlaArgs args;
              args.q = store.q;
              args.out = Tensor(result.data(), n, a.n_heads * out_dim);
              args.k_up = ku.get();
              args.v_up = vu.get();
              args.heads = a.n_heads;
              args.kv_lora = a.kv_lora_rank;
              args.nope = a.qk_nope_head_dim;
              args.rope = rope;
              args.v_head_dim = out_dim;
              args.scale = 0.05f;
              args.window = window;
              backend.AttentionMla(args);
            } else {
              AttentionGqaArgs args;
              args.q = store.q;
              args.out = Tensor(result.data(), n, a.n_heads * out_dim);
              args.heads = a.n_heads;
              args.kv_heads = kv_heads;
              args.head_dim = a.head_dim;
              args.scale = 0.2f;
              args.window = window;
              backend.AttentionGqa(args);
            }
            backend.EndStep();
            out.insert(out.end(), result.begin(), result.end());
            out.insert(out.end(), q.begin(), q.end());
          }
        });
        // A rotated key may differ in its last bit and then be rounded otherwise.
        const double tolerance = dtype == DType::kF32 ? 5e-6 : 1e-2;
        EXPECT_LT(RelativeError(got, want), tolerance)
            << (mla ? "mla " : "gqa ") << name << " window " << window;
      }
    }
  }
}

TEST_P(Parity, MemoryOps) {
  for (auto& backend : backends_) {
    Buffer buffer = backend->Allocate(4 << 20);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    std::vector<std::byte> page(1 << 10, std::byte{42});
    backend->CopyIn(page, buffer, 3 << 10);
    const std::vector<uint32_t> from = {3, 0};
    const std::vector<uint32_t> to = {4000, 3};
    backend->CopyPages(buffer, 1 << 10, from, to);
    std::vector<std::byte> back(1 << 10);
    backend->CopyOut(buffer, 4000 << 10, back);
    EXPECT_EQ(back, page);
    backend->Zero(buffer, 4000 << 10, 100);
    backend->CopyOut(buffer, 4000 << 10, back);
    EXPECT_EQ(std::count(back.begin(), back.end(), std::byte{0}), 100);
    backend->CopyOut(buffer, 3 << 10, back);
    EXPECT_EQ(std::count(back.begin(), back.end(), std::byte{0}), 1 << 10);
  }
}

// The same bits for a row alone and in a batch, on any number of threads.
TEST_P(Parity, ResultsDoNotDependOnBatchOrThreads) {
  constexpr uint32_t kHidden = 256;
  constexpr uint32_t kRows = 60;
  ModelSpec spec = SmallSpec(kHidden);
  spec.moe = Routing(4, 2, MoeScoring::kSoftmax);
  spec.moe->intermediate = 256;
  StepLimits limits;
  limits.max_tokens = kRows;
  Floats x = Random(kRows * kHidden, 1);
  Floats gates = Random(kRows * 2, 2);
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < static_cast<int32_t>(kRows); ++i) {
    chosen.insert(chosen.end(), {i % 4, (i + 1 + i / 7 % 3) % 4});
  }
  for (const DType type : {DType::kBF16, DType::kQ8_0, DType::kQ4_K}) {
    Floats first;
    for (const int threads : {1, 2, 3}) {
      const auto backend = MakeCpuBackend(threads, GetParam());
      backend->Reserve(spec, limits);
      const Owned owned = MakeWeight(type, {200, kHidden}, 3);
      const auto weight = backend->Upload(owned.view, WeightPolicy::kAsStored);
      std::vector<ExpertWeights> experts(4);
      for (uint32_t e = 0; e < 4; ++e) {
        const Owned up = MakeWeight(type, {256, kHidden}, 4 + e);
        const Owned down = MakeWeight(type, {kHidden, 256}, 14 + e);
        experts[e].gate = backend->Upload(up.view, WeightPolicy::kAsStored);
        experts[e].up = backend->Upload(up.view, WeightPolicy::kAsStored);
        experts[e].down = backend->Upload(down.view, WeightPolicy::kAsStored);
      }
      for (const uint32_t batch : {kRows, 1u, 7u}) {
        Floats out(size_t{kRows} * 200);
        Floats moe(size_t{kRows} * kHidden);
        for (uint32_t i = 0; i < kRows; i += batch) {
          const uint32_t n = std::min(batch, kRows - i);
          const Tensor rows(x.data() + size_t{i} * kHidden, n, kHidden);
          backend->Linear(rows,
                          {weight.get(), nullptr, Tensor(out.data() + size_t{i} * 200, n, 200)});
          backend->MoeFfn(rows, experts, {chosen.data() + 2 * i, gates.data() + 2 * i, 2},
                          Tensor(moe.data() + size_t{i} * kHidden, n, kHidden));
        }
        out.insert(out.end(), moe.begin(), moe.end());
        if (first.empty()) first = out;
        ASSERT_EQ(first, out) << Name(type) << ", " << threads << " threads, batches of " << batch;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Parity, testing::ValuesIn(SupportedIsaLevels()),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace hadal
