#include "cli/sampling.h"

#include <algorithm>

#include "base/error.h"

namespace hadal::cli {
namespace {

std::vector<std::pair<int32_t, float>> ReadBias(const OptionValues& options, int32_t vocab) {
  std::vector<std::pair<int32_t, float>> bias;
  for (const std::string& entry : options.List("logit-bias")) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      Fail(ErrorKind::kUsage, "--logit-bias: '{}' is not ID=BIAS", entry);
    }
    const int64_t id = ParseInteger(std::string_view(entry).substr(0, equals), "--logit-bias");
    if (id < 0 || id >= vocab) {
      Fail(ErrorKind::kUsage, "--logit-bias: token id {} is outside the vocabulary of {}", id,
           vocab);
    }
    bias.emplace_back(static_cast<int32_t>(id),
                      static_cast<float>(
                          ParseNumber(std::string_view(entry).substr(equals + 1), "--logit-bias")));
  }
  return bias;
}

// The sampler's own check, in terms of flags: "top_p is 0" becomes "--top-p is 0".
void CheckFlags(const SamplingParams& params, const Tokenizer& tokenizer) {
  try {
    Validate(params, static_cast<uint32_t>(tokenizer.vocab_size()));
  } catch (const Error& error) {
    std::string message = "--" + error.message();
    const auto end = message.begin() + static_cast<std::ptrdiff_t>(message.find(' '));
    std::replace(message.begin(), end, '_', '-');
    throw Error(ErrorKind::kUsage, message);
  }
}

}  // namespace

std::vector<int32_t> DryBreakers(const Tokenizer& tokenizer) {
  std::vector<int32_t> breakers;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.TokenBytes(id).find_first_of("\n:\"*") != std::string::npos) {
      breakers.push_back(id);
    }
  }
  return breakers;
}

SamplingParams ReadSampling(const OptionValues& options, const Tokenizer& tokenizer) {
  const auto number = [&options](const char* key) {
    return static_cast<float>(options.Number(key));
  };
  SamplingParams params;
  params.temperature = number("temp");
  params.top_k = static_cast<int32_t>(options.Integer("top-k"));
  params.top_p = number("top-p");
  params.min_p = number("min-p");
  params.typical_p = number("typical-p");
  params.repetition_penalty = number("repetition-penalty");
  params.presence_penalty = number("presence-penalty");
  params.frequency_penalty = number("frequency-penalty");
  params.dry.multiplier = number("dry-multiplier");
  params.dry.base = number("dry-base");
  params.dry.allowed_length = static_cast<uint32_t>(options.Integer("dry-allowed-length"));
  if (params.dry.multiplier > 0) params.dry.breakers = DryBreakers(tokenizer);
  params.logit_bias = ReadBias(options, tokenizer.vocab_size());
  params.min_tokens = static_cast<uint32_t>(options.Integer("min-tokens"));
  if (options.Given("seed")) params.seed = ParseUnsigned(options.Text("seed"), "--seed");
  CheckFlags(params, tokenizer);
  return params;
}

}  // namespace hadal::cli
