#include <array>

#include "config/options.h"

namespace hadal {
namespace {

using enum OptionType;

constexpr std::string_view kRunning = "generate chat";
constexpr std::string_view kModels = "generate chat logits eval bench serve";

constexpr OptionSpec kTable[] = {
    {"-p,--prompt", kText, "", "generate tokenize", "Input", "the text itself"},
    {"-f,--file", kText, "", "generate tokenize eval", "Input",
     "read the text from this file, byte for byte"},
    {"--chat", kFlag, "", "generate", "Input",
     "put the text through the model's chat template (default where the model has one)"},
    {"--raw", kFlag, "", "generate", "Input", "give the text to the model as it is"},
    {"--system", kText, "", kRunning, "Input", "system message of the chat"},
    {"--chat-template", kText, "", "generate chat tokenize serve", "Input",
     "Jinja file to use instead of the model's template"},
    {"--thinking", kFlag, "", kRunning, "Input",
     "let the model think first (sets `thinking` and `enable_thinking` for the template)"},

    {"-n,--max-tokens", kInteger, "512", kRunning, "Generation",
     "stop after this many tokens; 0: until the context is full", 0, 1 << 30},
    {"--stop", kTextList, "", kRunning, "Generation", "stop before this text; may be repeated"},
    {"--ignore-eos", kFlag, "", "generate", "Generation", "go on after the model's end token"},
    {"--min-tokens", kInteger, "0", kRunning, "Generation", "no end token before this many", 0,
     1 << 30},

    {"--temp,--temperature", kNumber, "0", kRunning, "Sampling", "0: greedy", 0, 100},
    {"--top-k", kInteger, "0", kRunning, "Sampling", "keep the k most likely; 0: all", 0, 1 << 30},
    {"--top-p", kNumber, "1", kRunning, "Sampling", "keep the smallest set with this probability",
     0, 1},
    {"--min-p", kNumber, "0", kRunning, "Sampling",
     "drop tokens below this share of the most likely one", 0, 1},
    {"--typical-p", kNumber, "1", kRunning, "Sampling", "locally typical sampling", 0, 1},
    {"--repetition-penalty", kNumber, "1", kRunning, "Sampling",
     "divide the logits of tokens seen before", 0.01, 10},
    {"--presence-penalty", kNumber, "0", kRunning, "Sampling",
     "take this off the logits of generated tokens", -2, 2},
    {"--frequency-penalty", kNumber, "0", kRunning, "Sampling", "the same for each occurrence", -2,
     2},
    {"--dry-multiplier", kNumber, "0", kRunning, "Sampling",
     "strength of the DRY repetition penalty; 0: off", 0, 100},
    {"--dry-base", kNumber, "1.75", kRunning, "Sampling", "base of DRY's exponent", 1, 8},
    {"--dry-allowed-length", kInteger, "2", kRunning, "Sampling",
     "repeated tokens that DRY lets pass", 1, 1 << 20},
    {"--logit-bias", kTextList, "", kRunning, "Sampling", "ID=BIAS, added to a token's logit"},
    {"--seed", kUnsigned, "", kRunning, "Sampling", "same seed, same text; drawn when not given"},
    {"--logprobs", kInteger, "", "generate", "Sampling",
     "with --json: log probabilities of this many alternatives", 0, 20},

    {"--ctx", kInteger, "", kModels, "Engine",
     "context in tokens (4k, 32768); default: what fits, up to the model's own", 1, 1 << 30},
    {"-t,--threads", kInteger, "", kModels, "Engine", "compute threads; default: the CPUs at hand",
     1, 256},
    {"--dtype", kText, "auto", kModels, "Engine",
     "auto: weights as stored; f32: everything exact in f32; bf16: weights rounded to bf16", -1, 1,
     "auto|f32|bf16"},
    {"--weights", kText, "as-stored", kModels, "Engine",
     "requantize at load: q8 or q4 in groups of 32", -1, 1, "as-stored|q8|q4"},
    {"--kv-dtype", kText, "bf16", kModels, "Engine",
     "type of the KV cache; int8 and fp8 take about half of bf16", -1, 1, "bf16|f32|int8|fp8"},
    {"--block-size", kInteger, "16", kModels, "Engine", "tokens in a KV page, a multiple of 16", 16,
     4096},
    {"--chunk", kInteger, "512", kModels, "Engine", "most prompt tokens in one step", 1, 65536},
    {"--backend", kText, "cpu", kModels, "Engine",
     "cpu, or ref: the slow definition of every operation", -1, 1, "cpu|ref"},

    {"--ids", kText, "", "logits", "Input", "token ids, separated by spaces or commas"},
    {"--out", kText, "", "logits", "Output",
     "file for the logits: little-endian f32 [tokens, vocab]"},
    {"--greedy", kInteger, "0", "logits", "Input", "append this many greedy tokens", 0, 1 << 20},
    {"--hidden", kText, "", "logits", "Output",
     "file for the residual stream: f32 [layers + 2, tokens, hidden]"},
    {"--router", kText, "", "logits", "Output", "JSON file for the experts that each token chose"},

    {"--bos", kFlag, "", "tokenize", "Input", "begin with the BOS token"},
    {"--no-bos", kFlag, "", "tokenize", "Input", "no BOS token even where the model adds one"},
    {"--no-parse-special", kFlag, "", "tokenize", "Input",
     "special tokens in the text are plain text"},
    {"--decode", kText, "", "tokenize", "Input", "turn token ids into text"},
    {"--chat", kText, "", "tokenize", "Input",
     "JSON file {messages, tools, add_generation_prompt, extra} for the chat template"},
    {"--now", kText, "", "tokenize generate", "Input", "ISO time that the template sees"},
    {"--render", kFlag, "", "tokenize", "Output", "print the rendered template instead of tokens"},

    {"--type", kText, "", "quantize", "Output", "type of the matrices", -1, 1,
     "q8_0|q4_0|q4_1|bf16|f16"},

    {"--stride", kInteger, "0", "eval", "Input",
     "tokens that each window moves on; 0: half the window", 0, 1 << 30},
    {"--window", kInteger, "2048", "eval", "Input", "tokens in a window", 2, 1 << 30},

    {"-p,--prompt", kText, "512", "bench", "Input", "prompt lengths to measure, e.g. 128,512"},
    {"-n,--max-tokens", kText, "128", "bench", "Input", "decoded tokens, e.g. 64,128"},
    {"-d,--depth", kText, "0", "bench", "Input", "context already in the cache, e.g. 0,4096"},
    {"-b,--sequences", kText, "1", "bench", "Input", "sequences at a time, e.g. 1,8"},
    {"-r,--repeat", kInteger, "5", "bench", "Input", "runs of each; the median counts", 1, 1000},
    {"--csv", kFlag, "", "bench", "Output", "comma-separated values"},

    {"--model", kText, "", "serve", "Server", "the model, where no MODEL is on the command line"},
    {"--config", kText, "", "serve", "Server",
     "YAML or JSON file with any of these options; the command line wins"},
    {"--host", kText, "127.0.0.1", "serve", "Server", "address to listen on"},
    {"--port", kInteger, "8000", "serve", "Server", "0: any free one", 0, 65535},
    {"--api-key", kTextList, "", "serve", "Server",
     "key that clients must send; may be repeated. /health and /ready need none"},
    {"--api-key-file", kText, "", "serve", "Server", "file with one key per line"},
    {"--served-model-name", kTextList, "", "serve", "Server",
     "name that requests use; may be repeated. Default: the file's or folder's name"},
    {"--no-aliases", kFlag, "", "serve", "Server",
     "do not answer to deepseek-chat, deepseek-reasoner and the like"},
    {"--strict-params", kFlag, "", "serve", "Server",
     "refuse unknown parameters instead of reporting them in a header"},
    {"--reasoning-field", kText, "reasoning_content", "serve", "Server",
     "both: thoughts also as `reasoning`", -1, 1, "reasoning_content|both"},
    {"--tool-parser", kText, "auto", "serve", "Server",
     "how the model writes tool calls: auto (from its template), none, deepseek_v3, deepseek_r1, "
     "deepseek_v31, hermes, qwen, llama3_json"},
    {"--cors-origin", kText, "", "serve", "Server", "origin that browsers may call from; *: any"},
    {"--max-body", kInteger, "16m", "serve", "Server", "most bytes of a request", 1024,
     int64_t{1} << 32},
    {"--max-connections", kInteger, "1024", "serve", "Server", "open at once", 1, 1 << 20},
    {"--io-threads", kInteger, "2", "serve", "Server", "threads for connections", 1, 64},
    {"--idle-timeout", kNumber, "75", "serve", "Server", "seconds between two requests", 1, 86400},
    {"--write-timeout", kNumber, "30", "serve", "Server",
     "seconds that a client may leave a full buffer unread", 1, 86400},
    {"--drain-timeout", kNumber, "30", "serve", "Server",
     "seconds that running requests may take to end after SIGTERM", 0, 86400},
    {"--log-level", kText, "info", "serve", "Server", "what goes to stderr, as JSON lines", -1, 1,
     "debug|info|warning|error|off"},

    {"--stats", kFlag, "", "generate", "Output", "end with a line of figures"},
    {"--json", kFlag, "", "generate inspect tokenize logits eval bench", "Output",
     "print one JSON document"},
};

}  // namespace

std::span<const OptionSpec> OptionTable() {
  return kTable;
}

}  // namespace hadal
