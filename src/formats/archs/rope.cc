// RoPE scaling as configurations write it. The formulas are spec/rope_table's.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "formats/archs/common.h"

namespace hadal {
namespace {

// One value under up to two names; both must agree.
std::optional<std::string> ScalingType(const ConfigReader& scaling) {
  const auto type = scaling.OptionalText("type");
  const auto rope_type = scaling.OptionalText("rope_type");
  if (type && rope_type && *type != *rope_type) {
    scaling.Bad("rope_type", "is '{}', but 'type' is '{}'", *rope_type, *type);
  }
  return rope_type ? rope_type : type;
}

double Factor(const ConfigReader& scaling, std::string_view field = "factor") {
  const double factor = scaling.Positive(field);
  if (factor < 1) scaling.Bad(field, "is {}; a factor below 1 has no meaning", factor);
  return factor;
}

void ReadYarn(const ConfigReader& scaling, const RopeReading& how, RopeSpec& rope) {
  rope.scaling = how.deepseek ? RopeScaling::kYarnDeepSeek : RopeScaling::kYarn;
  rope.factor = Factor(scaling);
  rope.original_context =
      scaling.OptionalTokens("original_max_position_embeddings").value_or(how.max_context);
  rope.beta_fast = scaling.OptionalPositive("beta_fast").value_or(32.0);
  rope.beta_slow = scaling.OptionalPositive("beta_slow").value_or(1.0);
  rope.mscale = scaling.OptionalNumber("mscale").value_or(0.0);
  rope.mscale_all_dim = scaling.OptionalNumber("mscale_all_dim").value_or(0.0);
  if (how.deepseek) {
    // DeepSeek's code knows no attention_factor; its defaults are mscale 1 and mscale_all_dim 0.
    if (scaling.IsNull("mscale")) rope.mscale = 1.0;
    scaling.Expect("attention_factor", Json(), "DeepSeek's YaRN has none");
  } else {
    rope.attention_factor = scaling.OptionalPositive("attention_factor").value_or(0.0);
  }
  scaling.RejectUnknown({"type", "rope_type", "rope_theta", "partial_rotary_factor", "factor",
                         "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale",
                         "mscale_all_dim", "attention_factor"});
}

void ReadLlama3(const ConfigReader& scaling, RopeSpec& rope) {
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = Factor(scaling);
  rope.original_context = scaling.Tokens("original_max_position_embeddings");
  rope.low_freq_factor = scaling.Positive("low_freq_factor");
  rope.high_freq_factor = scaling.Positive("high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    scaling.Bad("high_freq_factor", "is {}, not above low_freq_factor {}", rope.high_freq_factor,
                rope.low_freq_factor);
  }
  scaling.RejectUnknown({"type", "rope_type", "rope_theta", "partial_rotary_factor", "factor",
                         "original_max_position_embeddings", "low_freq_factor",
                         "high_freq_factor"});
}

void ReadLongRope(const ConfigReader& config, const ConfigReader& scaling, RopeSpec& rope) {
  rope.scaling = RopeScaling::kLongRope;
  rope.short_factors = scaling.PositiveList("short_factor");
  rope.long_factors = scaling.PositiveList("long_factor");
  for (const auto& [name, factors] : {std::pair{"short_factor", &rope.short_factors},
                                      std::pair{"long_factor", &rope.long_factors}}) {
    if (factors->size() != rope.dim / 2) {
      scaling.Bad(name, "has {} numbers, but there are {} frequencies", factors->size(),
                  rope.dim / 2);
    }
  }
  // Phi-3 writes it beside rope_scaling.
  auto original = scaling.OptionalTokens("original_max_position_embeddings");
  if (!original) original = config.OptionalTokens("original_max_position_embeddings");
  if (!original) scaling.Bad("original_max_position_embeddings", "is missing");
  rope.original_context = *original;
  rope.factor = scaling.OptionalPositive("factor").value_or(1.0);
  rope.attention_factor = scaling.OptionalPositive("attention_factor").value_or(0.0);
  scaling.RejectUnknown({"type", "rope_type", "rope_theta", "partial_rotary_factor", "factor",
                         "original_max_position_embeddings", "short_factor", "long_factor",
                         "attention_factor"});
}

void ReadSimple(const ConfigReader& scaling, const std::string& type, RopeSpec& rope) {
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = Factor(scaling);
  } else if (type == "dynamic") {
    rope.scaling = RopeScaling::kDynamicNtk;
    rope.factor = Factor(scaling);
    rope.original_context =
        scaling.OptionalTokens("original_max_position_embeddings").value_or(rope.max_context);
  } else if (type != "default") {
    scaling.Unsupported(
        "rope_type", "is '{}'; supported are default, linear, dynamic, yarn, llama3 and longrope",
        type);
  }
  scaling.RejectUnknown({"type", "rope_type", "rope_theta", "partial_rotary_factor", "factor",
                         "original_max_position_embeddings"});
}

// Newer files write rope_parameters instead of rope_scaling and rope_theta.
std::optional<ConfigReader> ScalingObject(const ConfigReader& config, RopeSpec& rope) {
  auto scaling = config.OptionalObject("rope_scaling");
  const auto parameters = config.OptionalObject("rope_parameters");
  if (scaling && parameters) {
    config.Bad("rope_parameters", "stands beside 'rope_scaling'; only one can hold");
  }
  const auto theta = config.OptionalPositive("rope_theta");
  // Llama's first configurations had no rope_theta; it was 10000 by definition.
  rope.theta = theta.value_or(10000.0);
  if (!parameters) return scaling;
  if (const auto inner = parameters->OptionalPositive("rope_theta")) {
    if (theta && *theta != *inner) {
      config.Bad("rope_theta", "is {}, but rope_parameters.rope_theta is {}", *theta, *inner);
    }
    rope.theta = *inner;
  }
  return parameters;
}

// The divisors of rope_freqs.weight and its relatives.
std::vector<double> FactorTensor(const GgufInput& input, std::string_view name, uint32_t dim) {
  const auto it = input.tensors.find(name);
  if (it == input.tensors.end()) return {};
  const TensorView& view = it->second;
  const std::string& source = input.metadata.source();
  if (view.dtype != DType::kF32 || view.elements() != dim / 2) {
    Fail(ErrorKind::kBadFile, "{}: tensor '{}' must hold {} numbers of type f32", source, name,
         dim / 2);
  }
  std::vector<double> factors;
  for (uint64_t i = 0; i < view.elements(); ++i) {
    float value = 0;
    std::memcpy(&value, view.data.data() + i * sizeof(float), sizeof(float));
    if (!std::isfinite(value) || value <= 0) {
      Fail(ErrorKind::kBadFile, "{}: tensor '{}' holds {}, but its numbers must be positive",
           source, name, value);
    }
    factors.push_back(double{value});
  }
  return factors;
}

void ReadGgufYarn(const ConfigReader& meta, const RopeReading& how, RopeSpec& rope) {
  rope.scaling = how.deepseek ? RopeScaling::kYarnDeepSeek : RopeScaling::kYarn;
  rope.factor = Factor(meta, "rope.scaling.factor");
  rope.original_context = meta.Tokens("rope.scaling.original_context_length");
  rope.beta_fast = meta.OptionalPositive("rope.scaling.yarn_beta_fast").value_or(32.0);
  rope.beta_slow = meta.OptionalPositive("rope.scaling.yarn_beta_slow").value_or(1.0);
  if (meta.OptionalNumber("rope.scaling.yarn_ext_factor").value_or(1.0) != 1.0) {
    meta.Unsupported("rope.scaling.yarn_ext_factor", "is not 1");
  }
  const double attention = meta.OptionalPositive("rope.scaling.attn_factor").value_or(1.0);
  if (how.deepseek) {
    if (attention != 1.0) meta.Unsupported("rope.scaling.attn_factor", "is {}", attention);
    // 0.1 * mscale_all_dim, rounded to f32 by the converter. cos and sin stay as they are.
    const double log_multiplier =
        meta.OptionalNumber("rope.scaling.yarn_log_multiplier").value_or(0.0);
    rope.mscale = rope.mscale_all_dim = std::round(log_multiplier * 10 * 1e6) / 1e6;
  } else if (attention != 1.0) {
    rope.attention_factor = attention * (0.1 * std::log(rope.factor) + 1.0);
  }
}

void ReadGgufLinear(const ConfigReader& meta, std::optional<double> factor,
                    std::optional<double> linear, RopeSpec& rope) {
  if (factor && linear && *factor != *linear) {
    meta.Bad("rope.scale_linear", "is {}, but rope.scaling.factor is {}", *linear, *factor);
  }
  if (!factor && !linear) meta.Bad("rope.scaling.factor", "is missing");
  rope.factor = factor ? *factor : *linear;
  if (rope.factor < 1) meta.Bad("rope.scaling.factor", "is {}, below 1", rope.factor);
  if (rope.factor != 1) rope.scaling = RopeScaling::kLinear;
}

void ReadGgufLongRope(const GgufInput& input, RopeSpec& rope) {
  const ConfigReader& meta = input.metadata;
  rope.scaling = RopeScaling::kLongRope;
  rope.original_context = meta.Tokens("rope.scaling.original_context_length");
  rope.attention_factor = meta.OptionalPositive("rope.scaling.attn_factor").value_or(0.0);
  rope.short_factors = FactorTensor(input, "rope_factors_short.weight", rope.dim);
  rope.long_factors = FactorTensor(input, "rope_factors_long.weight", rope.dim);
  if (rope.short_factors.empty() || rope.long_factors.empty()) {
    meta.Bad("rope.scaling.type",
             "is 'longrope', but the tensors rope_factors_short.weight and "
             "rope_factors_long.weight are not there");
  }
}

// Bounds what RopeTable allocates; its own checks do the rest.
void CheckDim(const std::string& source, uint32_t dim) {
  if (dim > 65536) {
    Fail(ErrorKind::kBadFile, "{}: heads of {} rotated dimensions; 65536 are possible", source,
         dim);
  }
}

}  // namespace

RopeSpec RopeFromHf(const ConfigReader& config, const RopeReading& how) {
  CheckDim(config.source(), how.dim);
  RopeSpec rope;
  rope.dim = how.dim;
  rope.layout = how.layout;
  rope.max_context = how.max_context;
  const auto scaling = ScalingObject(config, rope);
  config.Expect("partial_rotary_factor", 1.0, "only 1 is supported");
  if (!scaling) return rope;
  scaling->Expect("partial_rotary_factor", 1.0, "only 1 is supported");
  const auto type = ScalingType(*scaling);
  if (!type) scaling->Bad("rope_type", "is missing");
  if (*type == "yarn") {
    ReadYarn(*scaling, how, rope);
  } else if (*type == "llama3") {
    ReadLlama3(*scaling, rope);
  } else if (*type == "longrope") {
    ReadLongRope(config, *scaling, rope);
  } else {
    ReadSimple(*scaling, *type, rope);
  }
  return rope;
}

RopeSpec RopeFromGguf(const GgufInput& input, const RopeReading& how) {
  const ConfigReader& meta = input.metadata;
  CheckDim(meta.source(), how.dim);
  RopeSpec rope;
  rope.dim = how.dim;
  rope.layout = how.layout;
  rope.max_context = how.max_context;
  // Without the key, the format means 10000.
  rope.theta = meta.OptionalPositive("rope.freq_base").value_or(10000.0);
  const auto linear = meta.OptionalPositive("rope.scale_linear");
  const auto factor = meta.OptionalPositive("rope.scaling.factor");
  const std::string type =
      meta.OptionalText("rope.scaling.type").value_or(factor || linear ? "linear" : "none");
  if (type == "yarn") {
    ReadGgufYarn(meta, how, rope);
  } else if (type == "linear") {
    ReadGgufLinear(meta, factor, linear, rope);
  } else if (type == "longrope") {
    ReadGgufLongRope(input, rope);
  } else if (type != "none") {
    meta.Unsupported("rope.scaling.type", "is '{}'; supported are none, linear, yarn and longrope",
                     type);
  }
  if (auto factors = FactorTensor(input, "rope_freqs.weight", how.dim); !factors.empty()) {
    if (rope.scaling != RopeScaling::kNone) {
      meta.Unsupported("rope.scaling.type", "is '{}' beside the tensor rope_freqs.weight", type);
    }
    rope.scaling = RopeScaling::kFrequencyFactors;
    rope.long_factors = std::move(factors);
  }
  return rope;
}

}  // namespace hadal
