#include "formats/tensor_plan.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

constexpr std::array kCommonHfNames = {
    TensorName{"embed", "model.embed_tokens.weight"},
    TensorName{"norm", "model.norm.weight"},
    TensorName{"head", "lm_head.weight"},
    TensorName{"layers.#.attn_norm", "model.layers.#.input_layernorm.weight"},
    TensorName{"layers.#.ffn_norm", "model.layers.#.post_attention_layernorm.weight"},
    TensorName{"layers.#.q", "model.layers.#.self_attn.q_proj.weight"},
    TensorName{"layers.#.k", "model.layers.#.self_attn.k_proj.weight"},
    TensorName{"layers.#.v", "model.layers.#.self_attn.v_proj.weight"},
    TensorName{"layers.#.o", "model.layers.#.self_attn.o_proj.weight"},
    TensorName{"layers.#.q_norm", "model.layers.#.self_attn.q_norm.weight"},
    TensorName{"layers.#.k_norm", "model.layers.#.self_attn.k_norm.weight"},
    TensorName{"layers.#.gate", "model.layers.#.mlp.gate_proj.weight"},
    TensorName{"layers.#.up", "model.layers.#.mlp.up_proj.weight"},
    TensorName{"layers.#.down", "model.layers.#.mlp.down_proj.weight"},
};

constexpr std::array kGgufNames = {
    TensorName{"embed", "token_embd.weight"},
    TensorName{"norm", "output_norm.weight"},
    TensorName{"head", "output.weight"},
    TensorName{"layers.#.attn_norm", "blk.#.attn_norm.weight"},
    TensorName{"layers.#.ffn_norm", "blk.#.ffn_norm.weight"},
    TensorName{"layers.#.q", "blk.#.attn_q.weight"},
    TensorName{"layers.#.k", "blk.#.attn_k.weight"},
    TensorName{"layers.#.v", "blk.#.attn_v.weight"},
    TensorName{"layers.#.o", "blk.#.attn_output.weight"},
    TensorName{"layers.#.q_norm", "blk.#.attn_q_norm.weight"},
    TensorName{"layers.#.k_norm", "blk.#.attn_k_norm.weight"},
    TensorName{"layers.#.q_a", "blk.#.attn_q_a.weight"},
    TensorName{"layers.#.q_a_norm", "blk.#.attn_q_a_norm.weight"},
    TensorName{"layers.#.q_b", "blk.#.attn_q_b.weight"},
    TensorName{"layers.#.kv_a", "blk.#.attn_kv_a_mqa.weight"},
    TensorName{"layers.#.kv_a_norm", "blk.#.attn_kv_a_norm.weight"},
    TensorName{"layers.#.kv_b", "blk.#.attn_kv_b.weight"},
    TensorName{"layers.#.k_b", "blk.#.attn_k_b.weight"},
    TensorName{"layers.#.v_b", "blk.#.attn_v_b.weight"},
    TensorName{"layers.#.gate", "blk.#.ffn_gate.weight"},
    TensorName{"layers.#.up", "blk.#.ffn_up.weight"},
    TensorName{"layers.#.down", "blk.#.ffn_down.weight"},
    TensorName{"layers.#.router", "blk.#.ffn_gate_inp.weight"},
    TensorName{"layers.#.router_bias", "blk.#.exp_probs_b.bias"},
    TensorName{"layers.#.experts.%.gate", "blk.#.ffn_gate_exps.weight"},
    TensorName{"layers.#.experts.%.up", "blk.#.ffn_up_exps.weight"},
    TensorName{"layers.#.experts.%.down", "blk.#.ffn_down_exps.weight"},
    TensorName{"layers.#.shared.gate", "blk.#.ffn_gate_shexp.weight"},
    TensorName{"layers.#.shared.up", "blk.#.ffn_up_shexp.weight"},
    TensorName{"layers.#.shared.down", "blk.#.ffn_down_shexp.weight"},
    TensorName{"layers.#.shared.router", "blk.#.ffn_gate_inp_shexp.weight"},
};

class Planner {
 public:
  Planner(const ModelDescription& model, const std::function<void(const PlannedTensor&)>& visit)
      : model_(model), spec_(model.spec), visit_(visit) {}

  void Run() {
    Matrix("embed", {spec_.vocab, spec_.hidden});
    for (layer_ = 0; layer_ < spec_.n_layers; ++layer_) {
      Vector("layers.#.attn_norm", spec_.hidden);
      if (spec_.attention.kind == AttentionKind::kMla) {
        Mla();
      } else {
        Gqa();
      }
      Vector("layers.#.ffn_norm", spec_.hidden);
      if (spec_.layers[layer_].moe) {
        Moe();
      } else {
        Dense();
      }
    }
    Vector("norm", spec_.hidden);
    if (!spec_.tied_embeddings) Matrix("head", {spec_.vocab, spec_.hidden});
  }

 private:
  void Emit(std::string_view name, std::vector<uint64_t> shape, bool matrix, bool bias = false,
            bool optional = false) {
    visit_(PlannedTensor{name, bias, optional, matrix, layer_, expert_, std::move(shape)});
  }
  void Vector(std::string_view name, uint64_t size) { Emit(name, {size}, false); }
  void Matrix(std::string_view name, std::vector<uint64_t> shape) {
    Emit(name, std::move(shape), true);
  }
  void Linear(std::string_view name, uint64_t out, uint64_t in, bool bias) {
    Matrix(name, {out, in});
    if (bias || model_.biases_optional) Emit(name, {out}, false, true, !bias);
  }

  void Gqa() {
    const AttentionSpec& a = spec_.attention;
    const uint64_t q = uint64_t{a.n_heads} * a.head_dim;
    const uint64_t kv = uint64_t{a.n_kv_heads} * a.head_dim;
    Linear("layers.#.q", q, spec_.hidden, model_.qkv_bias);
    Linear("layers.#.k", kv, spec_.hidden, model_.qkv_bias);
    Linear("layers.#.v", kv, spec_.hidden, model_.qkv_bias);
    if (a.qk_norm) {
      Vector("layers.#.q_norm", a.head_dim);
      Vector("layers.#.k_norm", a.head_dim);
    }
    Linear("layers.#.o", spec_.hidden, q, model_.o_bias);
  }

  void Mla() {
    const AttentionSpec& a = spec_.attention;
    const uint64_t heads = a.n_heads;
    if (a.q_lora_rank > 0) {
      Matrix("layers.#.q_a", {a.q_lora_rank, spec_.hidden});
      Vector("layers.#.q_a_norm", a.q_lora_rank);
      Matrix("layers.#.q_b", {heads * a.head_dim, a.q_lora_rank});
    } else {
      Matrix("layers.#.q", {heads * a.head_dim, spec_.hidden});
    }
    Matrix("layers.#.kv_a", {uint64_t{a.kv_lora_rank} + a.qk_rope_head_dim, spec_.hidden});
    Vector("layers.#.kv_a_norm", a.kv_lora_rank);
    if (model_.split_kv_b) {
      Matrix("layers.#.k_b", {heads, a.kv_lora_rank, a.qk_nope_head_dim});
      Matrix("layers.#.v_b", {heads, a.v_head_dim, a.kv_lora_rank});
    } else {
      Matrix("layers.#.kv_b",
             {heads * (uint64_t{a.qk_nope_head_dim} + a.v_head_dim), a.kv_lora_rank});
    }
    Matrix("layers.#.o", {spec_.hidden, heads * a.v_head_dim});
  }

  void Dense() {
    Linear("layers.#.gate", spec_.intermediate, spec_.hidden, model_.mlp_bias);
    Linear("layers.#.up", spec_.intermediate, spec_.hidden, model_.mlp_bias);
    Linear("layers.#.down", spec_.hidden, spec_.intermediate, model_.mlp_bias);
  }

  void Moe() {
    const MoeSpec& moe = *spec_.moe;
    Emit("layers.#.router", {moe.n_experts, spec_.hidden}, false);
    if (moe.choice_bias) Vector("layers.#.router_bias", moe.n_experts);
    for (expert_ = 0; expert_ < moe.n_experts; ++expert_) {
      Matrix("layers.#.experts.%.gate", {moe.intermediate, spec_.hidden});
      Matrix("layers.#.experts.%.up", {moe.intermediate, spec_.hidden});
      Matrix("layers.#.experts.%.down", {spec_.hidden, moe.intermediate});
    }
    expert_ = 0;
    if (moe.shared_intermediate == 0) return;
    Matrix("layers.#.shared.gate", {moe.shared_intermediate, spec_.hidden});
    Matrix("layers.#.shared.up", {moe.shared_intermediate, spec_.hidden});
    Matrix("layers.#.shared.down", {spec_.hidden, moe.shared_intermediate});
    if (moe.shared_gate) Emit("layers.#.shared.router", {1, spec_.hidden}, false);
  }

  const ModelDescription& model_;
  const ModelSpec& spec_;
  const std::function<void(const PlannedTensor&)>& visit_;
  uint32_t layer_ = 0;
  uint32_t expert_ = 0;
};

std::string ShapeText(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t dim : shape) text += fmt::format("{}{}", text.size() > 1 ? ", " : "", dim);
  return text + "]";
}

bool IsPlainFloat(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

bool IsWeightType(DType type) {
  return IsPlainFloat(type) || type == DType::kF8E4M3 || type >= DType::kQ8_0;
}

class Resolver {
 public:
  Resolver(const TensorIndex& tensors, const std::string& source, std::span<const TensorName> extra,
           std::span<const TensorName> common, uint64_t n_experts)
      : tensors_(tensors), source_(source), n_experts_(n_experts) {
    for (const auto names : {extra, common}) {
      for (const TensorName& name : names) files_.emplace(name.canonical, name.file);
    }
  }

  void Add(const PlannedTensor& planned) {
    const auto pattern = files_.find(planned.canonical);
    HADAL_CHECK(pattern != files_.end());
    std::string file = FillName(pattern->second, planned.layer, planned.expert);
    if (planned.bias) {
      HADAL_CHECK(file.ends_with(".weight"));
      file.replace(file.size() - 6, 6, "bias");
    }
    const auto it = tensors_.find(file);
    if (it == tensors_.end()) {
      if (planned.optional) return;
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' {} is missing", source_, file,
           ShapeText(planned.shape));
    }
    if (out_.size() == kMaxTensors) {
      Fail(ErrorKind::kBadFile, "{}: more than {} tensors", source_, kMaxTensors);
    }
    used_.insert(file);
    const bool stacked = planned.canonical.find('%') != std::string_view::npos &&
                         pattern->second.find('%') == std::string_view::npos;
    out_.push_back({planned.Name(), View(planned, it->second, stacked)});
  }

  std::vector<ResolvedTensor> Finish(const std::function<bool(std::string_view)>& ignorable) {
    for (const auto& [name, view] : tensors_) {
      if (used_.contains(name) || ignorable(name)) continue;
      Fail(ErrorKind::kBadFile,
           "{}: tensor '{}' {} has no place in this architecture; the configuration does not match "
           "the weights",
           source_, name, ShapeText(view.shape));
    }
    std::sort(out_.begin(), out_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return std::move(out_);
  }

 private:
  TensorView View(const PlannedTensor& planned, const TensorView& found, bool stacked) const {
    std::vector<uint64_t> want = planned.shape;
    if (stacked) want.insert(want.begin(), n_experts_);
    const bool one_row = want.size() == 2 && want[0] == 1 && found.shape.size() == 1;
    if (found.shape != want && !(one_row && found.shape[0] == want[1])) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' has shape {}, but the configuration needs {}",
           source_, found.name, ShapeText(found.shape), ShapeText(want));
    }
    if (planned.matrix ? !IsWeightType(found.dtype) : !IsPlainFloat(found.dtype)) {
      Fail(ErrorKind::kUnsupported, "{}: tensor '{}' has type {}, which it cannot have here",
           source_, found.name, Name(found.dtype));
    }
    TensorView view = found;
    view.shape = planned.shape;
    if (stacked) {
      const uint64_t bytes = found.data.size() / want[0];
      view.data = found.data.subspan(planned.expert * bytes, bytes);
    }
    return view;
  }

  const TensorIndex& tensors_;
  const std::string& source_;
  std::unordered_map<std::string_view, std::string_view> files_;
  std::unordered_set<std::string> used_;
  std::vector<ResolvedTensor> out_;
  uint64_t n_experts_;
};

}  // namespace

std::string FillName(std::string_view pattern, uint32_t layer, uint32_t expert) {
  std::string out;
  for (const char c : pattern) {
    if (c == '#') {
      out += std::to_string(layer);
    } else if (c == '%') {
      out += std::to_string(expert);
    } else {
      out += c;
    }
  }
  return out;
}

std::string PlannedTensor::Name() const {
  return FillName(canonical, layer, expert) + (bias ? ".bias" : "");
}

void VisitTensors(const ModelDescription& model,
                  const std::function<void(const PlannedTensor&)>& visit) {
  Planner(model, visit).Run();
}

std::span<const TensorName> CommonHfNames() {
  return kCommonHfNames;
}
std::span<const TensorName> GgufNames() {
  return kGgufNames;
}

std::vector<ResolvedTensor> ResolveTensors(const ModelDescription& model,
                                           const TensorIndex& tensors,
                                           std::span<const TensorName> extra,
                                           std::span<const TensorName> common,
                                           const std::string& source,
                                           const std::function<bool(std::string_view)>& ignorable) {
  const uint64_t n_experts = model.spec.moe ? model.spec.moe->n_experts : 0;
  Resolver resolver(tensors, source, extra, common, n_experts);
  VisitTensors(model, [&](const PlannedTensor& planned) { resolver.Add(planned); });
  return resolver.Finish(ignorable);
}

}  // namespace hadal
