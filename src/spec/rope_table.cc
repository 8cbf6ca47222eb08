#include "spec/rope_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace hadal {
namespace {

constexpr double kPi = 3.14159265358979323846;

void Require(bool ok, const char* field, double value, const char* wanted) {
  if (!ok) {
    Fail(ErrorKind::kBadFile, "RoPE: {} is {}, but must be {}; the model's configuration is broken",
         field, value, wanted);
  }
}

void RequireContext(uint64_t value, const char* field) {
  Require(value > 0, field, static_cast<double>(value), "given and positive");
}

void RequireFactor(const RopeSpec& spec, const char* field = "rope_scaling.factor") {
  Require(std::isfinite(spec.factor) && spec.factor >= 1, field, spec.factor,
          "a finite number of at least 1");
}

void RequireFactors(const std::vector<double>& factors, const char* field, uint32_t dim) {
  if (factors.size() != dim / 2) {
    Fail(ErrorKind::kBadFile,
         "RoPE: {} has {} values, but {} rotated dimensions need {}; the model's configuration is "
         "broken",
         field, factors.size(), dim, dim / 2);
  }
  for (const double factor : factors) {
    Require(std::isfinite(factor) && factor > 0, field, factor, "finite and positive");
  }
}

void RequireYarn(const RopeSpec& spec) {
  RequireFactor(spec);
  RequireContext(spec.original_context, "rope_scaling.original_max_position_embeddings");
  Require(spec.theta > 1, "rope_theta", spec.theta, "greater than 1 for YaRN");
  Require(std::isfinite(spec.beta_fast) && spec.beta_fast > 0, "rope_scaling.beta_fast",
          spec.beta_fast, "finite and positive");
  Require(std::isfinite(spec.beta_slow) && spec.beta_slow > 0, "rope_scaling.beta_slow",
          spec.beta_slow, "finite and positive");
  Require(spec.beta_slow <= spec.beta_fast, "rope_scaling.beta_slow", spec.beta_slow,
          "at most beta_fast");
  Require(std::isfinite(spec.attention_factor) && spec.attention_factor >= 0,
          "rope_scaling.attention_factor", spec.attention_factor, "finite and positive");
  Require(std::isfinite(spec.mscale) && spec.mscale >= 0, "rope_scaling.mscale", spec.mscale,
          "finite and not negative");
  Require(std::isfinite(spec.mscale_all_dim) && spec.mscale_all_dim >= 0,
          "rope_scaling.mscale_all_dim", spec.mscale_all_dim, "finite and not negative");
}

void RequireLlama3(const RopeSpec& spec) {
  RequireFactor(spec);
  RequireContext(spec.original_context, "rope_scaling.original_max_position_embeddings");
  Require(std::isfinite(spec.low_freq_factor) && spec.low_freq_factor > 0,
          "rope_scaling.low_freq_factor", spec.low_freq_factor, "finite and positive");
  Require(std::isfinite(spec.high_freq_factor) && spec.high_freq_factor > spec.low_freq_factor,
          "rope_scaling.high_freq_factor", spec.high_freq_factor,
          "finite and greater than low_freq_factor");
}

void RequireLongRope(const RopeSpec& spec) {
  RequireFactors(spec.short_factors, "rope_scaling.short_factor", spec.dim);
  RequireFactors(spec.long_factors, "rope_scaling.long_factor", spec.dim);
  Require(spec.original_context > 1, "original_max_position_embeddings",
          static_cast<double>(spec.original_context), "given and greater than 1");
  Require(std::isfinite(spec.attention_factor) && spec.attention_factor >= 0,
          "rope_scaling.attention_factor", spec.attention_factor, "finite and positive");
  if (spec.max_context == 0) RequireFactor(spec);
}

void Validate(const RopeSpec& spec) {
  Require(spec.dim > 0 && spec.dim % 2 == 0, "the number of rotated dimensions", spec.dim,
          "even and positive");
  Require(std::isfinite(spec.theta) && spec.theta > 0, "rope_theta", spec.theta,
          "finite and positive");
  switch (spec.scaling) {
    case RopeScaling::kNone:
      return;
    case RopeScaling::kLinear:
      return RequireFactor(spec);
    case RopeScaling::kDynamicNtk:
      RequireFactor(spec);
      RequireContext(spec.max_context, "max_position_embeddings");
      return Require(spec.dim > 2, "the number of rotated dimensions", spec.dim,
                     "more than 2 for NTK scaling");
    case RopeScaling::kNtkAware:
      RequireFactor(spec, "rope_scaling.alpha");
      return Require(spec.dim > 2, "the number of rotated dimensions", spec.dim,
                     "more than 2 for NTK scaling");
    case RopeScaling::kYarn:
    case RopeScaling::kYarnDeepSeek:
      return RequireYarn(spec);
    case RopeScaling::kLlama3:
      return RequireLlama3(spec);
    case RopeScaling::kLongRope:
      return RequireLongRope(spec);
    case RopeScaling::kFrequencyFactors:
      return RequireFactors(spec.long_factors, "rope_freqs.weight", spec.dim);
  }
}

// theta^(-2i/dim)
std::vector<double> PlainFrequencies(double theta, uint32_t dim) {
  std::vector<double> frequencies(dim / 2);
  for (uint32_t i = 0; i < dim / 2; ++i) frequencies[i] = std::pow(theta, -2.0 * i / dim);
  return frequencies;
}

// NTK: the base is stretched so that the slowest frequency slows by `alpha` and the fastest stays.
std::vector<double> NtkFrequencies(const RopeSpec& spec, double alpha) {
  const double dim = spec.dim;
  return PlainFrequencies(spec.theta * std::pow(alpha, dim / (dim - 2)), spec.dim);
}

// The index whose frequency turns `rotations` times within the original context.
double CorrectionIndex(const RopeSpec& spec, double rotations) {
  return spec.dim * std::log(static_cast<double>(spec.original_context) / (rotations * 2 * kPi)) /
         (2 * std::log(spec.theta));
}

std::vector<double> YarnFrequencies(const RopeSpec& spec) {
  const double low = std::max(std::floor(CorrectionIndex(spec, spec.beta_fast)), 0.0);
  double high = std::min(std::ceil(CorrectionIndex(spec, spec.beta_slow)), spec.dim - 1.0);
  if (low == high) high += 0.001;  // as published: avoids the division by zero
  std::vector<double> frequencies = PlainFrequencies(spec.theta, spec.dim);
  for (uint32_t i = 0; i < spec.dim / 2; ++i) {
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / spec.factor * ramp + frequencies[i] * (1 - ramp);
  }
  return frequencies;
}

std::vector<double> Llama3Frequencies(const RopeSpec& spec) {
  const auto original = static_cast<double>(spec.original_context);
  std::vector<double> frequencies = PlainFrequencies(spec.theta, spec.dim);
  for (double& frequency : frequencies) {
    const double wavelength = 2 * kPi / frequency;
    if (wavelength < original / spec.high_freq_factor) continue;
    if (wavelength > original / spec.low_freq_factor) {
      frequency /= spec.factor;
      continue;
    }
    const double smooth = (original / wavelength - spec.low_freq_factor) /
                          (spec.high_freq_factor - spec.low_freq_factor);
    frequency = (1 - smooth) * frequency / spec.factor + smooth * frequency;
  }
  return frequencies;
}

std::vector<double> DividedFrequencies(const RopeSpec& spec, const std::vector<double>& divisors) {
  std::vector<double> frequencies = PlainFrequencies(spec.theta, spec.dim);
  for (uint32_t i = 0; i < spec.dim / 2; ++i) frequencies[i] /= divisors[i];
  return frequencies;
}

std::vector<double> Frequencies(const RopeSpec& spec, uint64_t length) {
  switch (spec.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear: {
      std::vector<double> frequencies = PlainFrequencies(spec.theta, spec.dim);
      for (double& frequency : frequencies) frequency /= spec.factor;
      return frequencies;
    }
    case RopeScaling::kDynamicNtk: {
      const auto max = static_cast<double>(spec.max_context);
      const double ratio = std::max(static_cast<double>(length), max) / max;
      return NtkFrequencies(spec, spec.factor * ratio - (spec.factor - 1));
    }
    case RopeScaling::kNtkAware:
      return NtkFrequencies(spec, spec.factor);
    case RopeScaling::kYarn:
    case RopeScaling::kYarnDeepSeek:
      return YarnFrequencies(spec);
    case RopeScaling::kLlama3:
      return Llama3Frequencies(spec);
    case RopeScaling::kLongRope:
      return DividedFrequencies(
          spec, length > spec.original_context ? spec.long_factors : spec.short_factors);
    case RopeScaling::kFrequencyFactors:
      return DividedFrequencies(spec, spec.long_factors);
  }
  return PlainFrequencies(spec.theta, spec.dim);
}

// YaRN's growth of attention entropy with the context, m(x) = 0.1 x ln(factor) + 1.
double Mscale(double factor, double x) {
  return factor <= 1 ? 1 : 0.1 * x * std::log(factor) + 1;
}

double AttentionScaling(const RopeSpec& spec) {
  switch (spec.scaling) {
    case RopeScaling::kYarn:
      if (spec.attention_factor != 0) return spec.attention_factor;
      if (spec.mscale == 0 || spec.mscale_all_dim == 0) return Mscale(spec.factor, 1);
      [[fallthrough]];
    case RopeScaling::kYarnDeepSeek:
      return Mscale(spec.factor, spec.mscale) / Mscale(spec.factor, spec.mscale_all_dim);
    case RopeScaling::kLongRope: {
      if (spec.attention_factor != 0) return spec.attention_factor;
      const auto original = static_cast<double>(spec.original_context);
      const double stretch =
          spec.max_context == 0 ? spec.factor : static_cast<double>(spec.max_context) / original;
      return stretch <= 1 ? 1 : std::sqrt(1 + std::log(stretch) / std::log(original));
    }
    default:
      return 1;
  }
}

double SoftmaxCorrection(const RopeSpec& spec) {
  if (spec.scaling != RopeScaling::kYarnDeepSeek) return 1;
  const double mscale = Mscale(spec.factor, spec.mscale_all_dim);
  return mscale * mscale;
}

std::string DescribeYarn(const RopeSpec& spec, double attention, double softmax) {
  std::string text = fmt::format(
      "YaRN, factor {:g} over {} original tokens (to {:.0f}); frequencies that turn more than {:g} "
      "times in the original context stay, those below {:g} turns are stretched",
      spec.factor, spec.original_context, spec.factor * static_cast<double>(spec.original_context),
      spec.beta_fast, spec.beta_slow);
  if (attention != 1) text += fmt::format("; cos and sin times {:.6g}", attention);
  if (softmax != 1) text += fmt::format("; softmax scale times {:.6g}", softmax);
  return text;
}

std::string DescribeScaling(const RopeSpec& spec, double attention, double softmax) {
  switch (spec.scaling) {
    case RopeScaling::kNone:
      return "no scaling";
    case RopeScaling::kLinear:
      return fmt::format("linear scaling, positions divided by {:g}", spec.factor);
    case RopeScaling::kDynamicNtk:
      return fmt::format(
          "dynamic NTK, factor {:g}: beyond {} tokens the base grows with the length of the "
          "sequence",
          spec.factor, spec.max_context);
    case RopeScaling::kNtkAware:
      return fmt::format("NTK-aware scaling with alpha {:g}", spec.factor);
    case RopeScaling::kYarn:
    case RopeScaling::kYarnDeepSeek:
      return DescribeYarn(spec, attention, softmax);
    case RopeScaling::kLlama3:
      return fmt::format(
          "Llama 3 scaling, factor {:g} over {} original tokens (low and high frequency factors "
          "{:g} and {:g})",
          spec.factor, spec.original_context, spec.low_freq_factor, spec.high_freq_factor);
    case RopeScaling::kLongRope:
      return fmt::format(
          "LongRoPE: own divisors for each frequency, a short set up to {} tokens and a long set "
          "beyond; cos and sin times {:.6g}",
          spec.original_context, attention);
    case RopeScaling::kFrequencyFactors:
      return fmt::format("each frequency divided by the file's own factor ({:g} to {:g})",
                         *std::min_element(spec.long_factors.begin(), spec.long_factors.end()),
                         *std::max_element(spec.long_factors.begin(), spec.long_factors.end()));
  }
  return {};
}

}  // namespace

RopeTable::RopeTable(RopeSpec spec) : spec_(std::move(spec)) {
  Validate(spec_);
  attention_scaling_ = AttentionScaling(spec_);
  softmax_correction_ = SoftmaxCorrection(spec_);
  if (!length_dependent()) fixed_ = Frequencies(spec_, 0);
}

bool RopeTable::length_dependent() const {
  return spec_.scaling == RopeScaling::kDynamicNtk || spec_.scaling == RopeScaling::kLongRope;
}

std::vector<double> RopeTable::InverseFrequencies(uint64_t length) const {
  return length_dependent() ? Frequencies(spec_, length) : fixed_;
}

void RopeTable::CosSin(uint64_t position, uint64_t length, std::span<float> cos,
                       std::span<float> sin) const {
  if (length_dependent()) {
    CosSin(position, Frequencies(spec_, length), cos, sin);
  } else {
    CosSin(position, fixed_, cos, sin);
  }
}

void RopeTable::CosSin(uint64_t position, std::span<const double> frequencies, std::span<float> cos,
                       std::span<float> sin) const {
  HADAL_CHECK(frequencies.size() == spec_.dim / 2 && cos.size() == frequencies.size() &&
              sin.size() == frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle) * attention_scaling_);
    sin[i] = static_cast<float>(std::sin(angle) * attention_scaling_);
  }
}

std::string RopeTable::Describe() const {
  return fmt::format("{} dimensions, {}, base {:.12g}, {}", spec_.dim,
                     spec_.layout == RopeLayout::kHalfSplit ? "first half paired with second half"
                                                            : "neighbours paired",
                     spec_.theta, DescribeScaling(spec_, attention_scaling_, softmax_correction_));
}

}  // namespace hadal
