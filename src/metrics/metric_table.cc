#include "metrics/metric_table.h"

namespace hadal {
namespace {

// From half a millisecond to the ten minutes after which client libraries give up.
constexpr double kRequestSeconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                      0.1,    0.25,  0.5,    1,     2.5,  5,     10,
                                      20,     40,    80,     160,   320,  640};
// Tokens and steps: finer between 1 and 100 ms, where targets are set.
constexpr double kTokenSeconds[] = {0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015,
                                    0.02,   0.03,  0.04,  0.05,  0.075, 0.1,    0.15, 0.2,
                                    0.3,    0.5,   0.75,  1,     2,     5,      10};
constexpr double kPreparationSeconds[] = {1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4,
                                          2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 0.1};
constexpr double kPowers[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr double kTokenPowers[] = {1,   2,    4,    8,    16,   32,    64,    128,   256,
                                   512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

constexpr LabelSpec kStage{"stage", "positions page_tables ragged_index"};
constexpr LabelSpec kCategory{"category",
                              "weights kv activations logits workspace tokenizer swap overhead"};
constexpr LabelSpec kBreaker{"state", "closed shedding probing"};
constexpr LabelSpec kRoute{"route",
                           "chat completions models tokenize template requests ops page other"};

constexpr MetricSpec kCounters[] = {
    {"hadal_requests_finished_total",
     "1",
     "Choices that ended, by finish reason.",
     {{{"reason", "stop length tool_calls cancelled error"}}}},
    {"hadal_requests_aborted_total",
     "1",
     "Accepted requests that were given up, by cause.",
     {{{"cause", "client_gone deadline shutdown error"}}}},
    {"hadal_requests_rejected_total",
     "1",
     "Requests refused before the engine saw them, by cause.",
     {{{"cause",
        "invalid unauthorized not_found context_length kv_capacity queue_full overload draining "
        "not_ready"}}}},
    {"hadal_prompt_tokens_total", "tokens", "Prompt tokens of accepted requests."},
    {"hadal_generated_tokens_total", "tokens", "Tokens sampled for requests."},
    {"hadal_reasoning_tokens_total", "tokens",
     "The part of the generated tokens that was thought."},
    {"hadal_prefix_query_tokens_total", "tokens", "Prompt tokens looked up in the prefix cache."},
    {"hadal_prefix_hit_tokens_total", "tokens", "Prompt tokens found in the prefix cache."},
    {"hadal_kv_evicted_pages_total", "pages", "Cached pages given up to make room."},
    {"hadal_preemptions_total",
     "1",
     "Running sequences put back, by how they will come back.",
     {{{"kind", "swap recompute"}}}},
    {"hadal_swapped_pages_total",
     "pages",
     "KV pages moved to and from the swap file.",
     {{{"direction", "in out"}}}},
    {"hadal_swap_failures_total", "1",
     "Preemptions that found the swap file full and became recomputations."},
    {"hadal_draft_tokens_total", "tokens",
     "Guessed tokens that were computed in advance (speculation)."},
    {"hadal_accepted_draft_tokens_total", "tokens", "Guessed tokens that came true."},
    {"hadal_steps_total",
     "1",
     "Forward passes, by what they carried.",
     {{{"kind", "prefill decode mixed"}}}},
    {"hadal_batch_preparation_failures_total",
     "1",
     "Steps whose batch could not be built, by stage.",
     {{kStage}}},
    {"hadal_expert_tokens_total",
     "tokens",
     "Tokens that the router sent to each expert.",
     {{{"layer", kNumberedLabel}, {"expert", kNumberedLabel}}}},
    {"hadal_breaker_transitions_total",
     "1",
     "Times the circuit breaker entered a state.",
     {{kBreaker}}},
    {"hadal_degraded_requests_total",
     "1",
     "Requests served with less than they asked for.",
     {{{"measure", "chunk n max_tokens"}}}},
    {"hadal_unknown_parameters_total", "1", "Request parameters that were not understood."},
    {"hadal_missing_reasoning_total", "1",
     "Assistant turns that came back without their thoughts."},
    {"hadal_http_requests_total",
     "1",
     "Answered HTTP requests.",
     {{kRoute, {"status", "1xx 2xx 3xx 4xx 5xx"}}}},
    {"hadal_http_connections_total", "1", "Connections accepted."},
    {"hadal_http_connections_cut_total",
     "1",
     "Connections that the server ended, by cause.",
     {{{"cause",
        "limit evicted header_timeout body_timeout idle slow_reader malformed drain "
        "accept_error"}}}},
};

constexpr MetricSpec kGauges[] = {
    {"hadal_ready", "1", "1 when the model can answer."},
    {"hadal_requests_running", "1", "Sequences in the batch."},
    {"hadal_requests_waiting", "1", "Sequences waiting for their first step."},
    {"hadal_requests_swapped", "1", "Preempted sequences whose pages are in the swap file."},
    {"hadal_batch_preparation_queue_length", "1",
     "Requests handed over that the scheduler has not taken yet."},
    {"hadal_predicted_queue_seconds", "seconds",
     "Waiting time predicted for a request that comes now."},
    {"hadal_kv_usage_ratio", "ratio", "Pages held by sequences over all pages."},
    {"hadal_kv_pages", "pages", "KV pages there are."},
    {"hadal_kv_free_pages", "pages", "Pages no sequence holds, cached ones included."},
    {"hadal_kv_cached_pages", "pages", "Free pages that the prefix cache could give back."},
    {"hadal_kv_promised_pages", "pages", "Free pages kept for sequences that will need them."},
    {"hadal_kv_fragmentation_ratio", "ratio", "Unused slots over all slots of allocated pages."},
    {"hadal_swap_used_bytes", "bytes", "Bytes of the swap file in use."},
    {"hadal_breaker_state", "1", "1 for the state that the circuit breaker is in.", {{kBreaker}}},
    {"hadal_degradation_level", "1", "Steps of degradation in force; 0 is none."},
    {"hadal_memory_planned_bytes",
     "bytes",
     "Bytes the memory plan gives a category.",
     {{kCategory}}},
    {"hadal_memory_reserved_bytes", "bytes", "Bytes a category has allocated.", {{kCategory}}},
    {"hadal_memory_used_bytes",
     "bytes",
     "Bytes of the reserved ones that hold something.",
     {{kCategory}}},
    {"hadal_process_resident_bytes", "bytes", "Resident set of the process."},
    {"hadal_process_start_time_seconds", "seconds", "When the process started, Unix time."},
    {"hadal_load_seconds",
     "seconds",
     "Time that loading the weights took, by where they came from.",
     {{{"from", "model pack_cache"}}}},
    {"hadal_http_connections_open", "1", "Open connections."},
    {"hadal_http_requests_in_flight", "1", "HTTP requests being answered."},
};

constexpr MetricSpec kHistograms[] = {
    {"hadal_time_to_first_token_seconds",
     "seconds",
     "From arrival to the first token.",
     {},
     kRequestSeconds},
    {"hadal_inter_token_latency_seconds",
     "seconds",
     "Between one token and the next, per token.",
     {},
     kTokenSeconds},
    {"hadal_request_seconds", "seconds", "From arrival to the last token.", {}, kRequestSeconds},
    {"hadal_request_queue_seconds",
     "seconds",
     "From arrival to the first step that carries the request.",
     {},
     kRequestSeconds},
    {"hadal_request_prefill_seconds",
     "seconds",
     "From the first step to the first token.",
     {},
     kRequestSeconds},
    {"hadal_request_decode_seconds",
     "seconds",
     "From the first token to the last.",
     {},
     kRequestSeconds},
    {"hadal_step_seconds",
     "seconds",
     "Duration of a forward pass with sampling.",
     {},
     kTokenSeconds},
    {"hadal_batch_size", "1", "Sequences in a step.", {}, kPowers},
    {"hadal_step_tokens", "tokens", "Tokens in a step.", {}, kTokenPowers},
    {"hadal_batch_preparation_seconds",
     "seconds",
     "Time to build a step's batch, by stage.",
     {{kStage}},
     kPreparationSeconds},
    {"hadal_request_prompt_tokens", "tokens", "Prompt tokens of a request.", {}, kTokenPowers},
    {"hadal_request_generated_tokens",
     "tokens",
     "Tokens generated for a choice.",
     {},
     kTokenPowers},
    {"hadal_http_first_byte_seconds",
     "seconds",
     "From the last byte of an HTTP request to the first byte of its answer.",
     {{kRoute}},
     kRequestSeconds},
};

static_assert(std::size(kCounters) == static_cast<size_t>(Counter::kHttpConnectionsCut) + 1);
static_assert(std::size(kGauges) == static_cast<size_t>(Gauge::kHttpRequestsInFlight) + 1);
static_assert(std::size(kHistograms) == static_cast<size_t>(Histogram::kHttpFirstByte) + 1);

}  // namespace

std::span<const MetricSpec> CounterTable() {
  return kCounters;
}
std::span<const MetricSpec> GaugeTable() {
  return kGauges;
}
std::span<const MetricSpec> HistogramTable() {
  return kHistograms;
}

}  // namespace hadal
