#include "api/generation_params.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "api/api_error.h"

namespace hadal::api {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxSalt = 512;

void Put(std::optional<double> value, float& to) {
  if (value) to = static_cast<float>(*value);
}

void ApplyDefaults(const ModelSpec::SamplingDefaults& defaults, SamplingParams& sampling) {
  sampling.temperature = defaults.temperature.value_or(sampling.temperature);
  sampling.top_p = defaults.top_p.value_or(sampling.top_p);
  sampling.top_k = std::max(defaults.top_k.value_or(0), 0);
  sampling.repetition_penalty = defaults.repetition_penalty.value_or(sampling.repetition_penalty);
  if (defaults.do_sample == false) sampling.temperature = 0;
}

void ReadFilters(Fields& fields, SamplingParams& sampling) {
  Put(fields.Number("temperature", 0, 100), sampling.temperature);
  Put(fields.Number("top_p", 0, 1), sampling.top_p);
  Put(fields.Number("min_p", 0, 1), sampling.min_p);
  Put(fields.Number("typical_p", 0, 1), sampling.typical_p);
  // -1 turns it off for users of vLLM, 0 for users of llama.cpp.
  if (const auto top_k = fields.Integer("top_k", -1, INT32_MAX)) {
    sampling.top_k = static_cast<int32_t>(std::max<int64_t>(*top_k, 0));
  }
}

void ReadPenalties(Fields& fields, SamplingParams& sampling) {
  Put(fields.Number("frequency_penalty", -2, 2), sampling.frequency_penalty);
  Put(fields.Number("presence_penalty", -2, 2), sampling.presence_penalty);
  Put(fields.Number("repetition_penalty", 0, 10), sampling.repetition_penalty);
  Put(fields.Number("dry_multiplier", 0, 100), sampling.dry.multiplier);
  Put(fields.Number("dry_base", 1, 8), sampling.dry.base);
  if (const auto length = fields.Integer("dry_allowed_length", 1, 1 << 20)) {
    sampling.dry.allowed_length = static_cast<uint32_t>(*length);
  }
  if (const auto range = fields.Integer("dry_penalty_last_n", -1, kMaxTokens)) {
    sampling.dry.range = static_cast<uint32_t>(std::max<int64_t>(*range, 0));
  }
}

// OpenAI's object of token ids and numbers.
void ReadLogitBias(Fields& fields, uint32_t vocab, SamplingParams& sampling) {
  const OrderedJson* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    fields.Refuse("logit_bias", "must be an object of token ids and numbers", "invalid_type");
  }
  for (const auto& [key, value] : bias->items()) {
    int32_t id = -1;
    const char* end = key.data() + key.size();
    const auto [rest, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || rest != end || id < 0 || static_cast<uint32_t>(id) >= vocab) {
      fields.Refuse(
          "logit_bias",
          fmt::format("names token \"{}\"; the vocabulary has tokens 0 to {}", key, vocab - 1));
    }
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100)) {
      fields.Refuse("logit_bias", fmt::format("of token {} must be a number in [-100, 100]", id));
    }
    sampling.logit_bias.emplace_back(id, value.get<float>());
  }
}

// Negative seeds are valid for OpenAI; each is a seed of its own.
void ReadSeed(Fields& fields, SamplingParams& sampling) {
  const OrderedJson* seed = fields.Find("seed");
  if (seed == nullptr) return;
  if (seed->is_number_unsigned()) {
    sampling.seed = seed->get<uint64_t>();
  } else if (const auto value = fields.Integer("seed", INT64_MIN, INT64_MAX)) {
    sampling.seed = static_cast<uint64_t>(*value);
  }
}

void ReadEnds(Fields& fields, uint32_t vocab, GenerationParams& params) {
  if (auto stops = fields.Strings("stop", kMaxStops)) params.stop = std::move(*stops);
  for (const std::string& stop : params.stop) {
    if (stop.empty()) fields.Refuse("stop", "holds an empty string, which would end every text");
  }
  if (const OrderedJson* ids = fields.Find("stop_token_ids")) {
    params.stop_token_ids = TokenIdsOf(*ids, vocab, "stop_token_ids");
  }
  if (const auto tokens = fields.Integer("min_tokens", 0, kMaxTokens)) {
    params.sampling.min_tokens = static_cast<uint32_t>(*tokens);
  }
  params.sampling.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  params.include_stop = fields.Bool("include_stop_str_in_output").value_or(false);
  params.skip_special = fields.Bool("skip_special_tokens").value_or(true);
}

void ReadMaxTokens(Fields& fields, GenerationParams& params, std::vector<std::string>& warnings) {
  const auto older = fields.Integer("max_tokens", 0, kMaxTokens);
  const auto newer = fields.Integer("max_completion_tokens", 0, kMaxTokens);
  if (older && newer && *older != *newer) {
    warnings.push_back(fmt::format(
        "max_tokens is {} and max_completion_tokens {}: the second is used", *older, *newer));
  }
  const auto chosen = newer ? newer : older;
  if (chosen) params.max_tokens = static_cast<uint32_t>(*chosen);
}

void ReadStream(Fields& fields, GenerationParams& params) {
  params.stream = fields.Bool("stream").value_or(false);
  const OrderedJson* options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!params.stream) fields.Refuse("stream_options", "is only allowed with \"stream\": true");
  Fields inner(*options, "stream_options.");
  params.include_usage = inner.Bool("include_usage").value_or(false);
  inner.Bool("include_obfuscation");
}

// DeepSeek's user_id isolates the cache as vLLM's cache_salt does; both together are one salt.
void ReadSalt(Fields& fields, GenerationParams& params) {
  for (const char* key : {"cache_salt", "user_id"}) {
    const auto salt = fields.String(key);
    if (!salt) continue;
    if (salt->size() > kMaxSalt) {
      fields.Refuse(key,
                    fmt::format("has {} bytes; at most {} are allowed", salt->size(), kMaxSalt));
    }
    params.cache_salt += fmt::format("{}:{}:{};", key, salt->size(), *salt);
  }
}

// Parameters that change what an answer may be: to leave them out in silence would be wrong.
void RefuseConstraints(Fields& fields) {
  constexpr const char* kWhy = "needs constrained decoding, which this server does not have yet";
  for (const char* key : {"guided_json", "guided_regex", "guided_choice", "guided_grammar",
                          "structured_outputs", "grammar", "json_schema"}) {
    if (fields.Has(key)) fields.Refuse(key, kWhy, "unsupported_value");
  }
  const OrderedJson* format = fields.Find("response_format");
  if (format == nullptr) return;
  Fields inner(*format, "response_format.");
  if (inner.String("type").value_or("") != "text") {
    inner.Refuse("type", std::string("can only be \"text\": JSON output ") + kWhy,
                 "unsupported_value");
  }
}

void CheckSampling(const SamplingParams& sampling, uint32_t vocab) {
  try {
    Validate(sampling, vocab);
  } catch (const Error& error) {
    const std::string& message = error.message();
    throw ApiError(400, message, message.substr(0, message.find(' ')), "invalid_value");
  }
}

}  // namespace

GenerationParams ReadGenerationParams(Fields& fields, const ParamContext& context,
                                      std::vector<std::string>& warnings) {
  GenerationParams params;
  ApplyDefaults(context.defaults, params.sampling);
  ReadFilters(fields, params.sampling);
  ReadPenalties(fields, params.sampling);
  if (params.sampling.dry.multiplier > 0) params.sampling.dry.breakers = context.dry_breakers;
  ReadLogitBias(fields, context.vocab, params.sampling);
  ReadSeed(fields, params.sampling);
  ReadEnds(fields, context.vocab, params);
  ReadMaxTokens(fields, params, warnings);
  ReadStream(fields, params);
  ReadSalt(fields, params);
  params.n = static_cast<uint32_t>(fields.Integer("n", 1, kMaxChoices).value_or(1));
  params.priority =
      static_cast<int32_t>(fields.Integer("priority", INT32_MIN, INT32_MAX).value_or(0));
  if (const auto count = fields.Integer("prompt_logprobs", 0, kMaxLogprobs)) {
    if (params.stream) fields.Refuse("prompt_logprobs", "is not available with \"stream\": true");
    params.prompt_logprobs = static_cast<int32_t>(*count);
  }
  RefuseConstraints(fields);
  if (params.max_tokens && params.sampling.min_tokens > *params.max_tokens) {
    fields.Refuse("min_tokens", fmt::format("is {}, more than max_tokens ({})",
                                            params.sampling.min_tokens, *params.max_tokens));
  }
  CheckSampling(params.sampling, context.vocab);
  return params;
}

OrderedJson EffectiveValues(const GenerationParams& params) {
  const SamplingParams& sampling = params.sampling;
  OrderedJson json = {{"max_tokens", nullptr},
                      {"n", params.n},
                      {"temperature", sampling.temperature},
                      {"top_p", sampling.top_p},
                      {"top_k", sampling.top_k},
                      {"min_p", sampling.min_p},
                      {"typical_p", sampling.typical_p},
                      {"repetition_penalty", sampling.repetition_penalty},
                      {"presence_penalty", sampling.presence_penalty},
                      {"frequency_penalty", sampling.frequency_penalty},
                      {"dry_multiplier", sampling.dry.multiplier},
                      {"dry_base", sampling.dry.base},
                      {"dry_allowed_length", sampling.dry.allowed_length},
                      {"dry_penalty_last_n", sampling.dry.range},
                      {"min_tokens", sampling.min_tokens},
                      {"ignore_eos", sampling.ignore_eos},
                      {"stop", params.stop},
                      {"stop_token_ids", params.stop_token_ids},
                      {"include_stop_str_in_output", params.include_stop},
                      {"skip_special_tokens", params.skip_special},
                      {"priority", params.priority},
                      {"stream", params.stream}};
  if (params.max_tokens) json["max_tokens"] = *params.max_tokens;
  if (sampling.seed) json["seed"] = *sampling.seed;
  OrderedJson bias = OrderedJson::object();
  for (const auto& [token, value] : sampling.logit_bias) bias[std::to_string(token)] = value;
  json["logit_bias"] = std::move(bias);
  return json;
}

}  // namespace hadal::api
