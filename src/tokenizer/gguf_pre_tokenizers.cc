#include "tokenizer/gguf_pre_tokenizers.h"

#include <array>

#include "tokenizer/json_pipeline.h"

namespace hadal {
namespace {

using Patterns = std::span<const std::string_view>;

constexpr std::array<std::string_view, 1> kGpt2 = {kGpt2Pattern};

constexpr std::array<std::string_view, 1> kLlama3 = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::array<std::string_view, 1> kQwen2 = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::array<std::string_view, 2> kSmolLm = {R"(\p{N})", kGpt2Pattern};

constexpr std::array<std::string_view, 3> kDeepSeekV3 = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

constexpr std::string_view kCjkRuns = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";

constexpr std::array<std::string_view, 5> kDeepSeekCoder = {R"([\r\n])", R"(\s?\p{L}+)",
                                                            R"(\s?\p{P}+)", kCjkRuns, R"(\p{N})"};

// The second holds the letters of scripts with case, as the original lists them.
constexpr std::array<std::string_view, 6> kDeepSeekLlm = {
    R"([\r\n])",
    R"(\s?[)"
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA})"
    R"(\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5})"
    R"(\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B})"
    R"(\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139})"
    R"(\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B})"
    R"(\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B})"
    R"(\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2})"
    R"(\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kCjkRuns,
    R"(\p{N}+)"};

// What files from before tokenizer.ggml.pre was filled in were used with.
constexpr std::array<std::string_view, 4> kDefault = {R"([\p{P}$+<=>^~|]+)", kGpt2Pattern,
                                                      R"(\p{N}+)", "[0-9][0-9][0-9]"};

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {.name = "deepseek-coder", .patterns = kDeepSeekCoder},
    {.name = "deepseek-llm", .patterns = kDeepSeekLlm},
    {.name = "deepseek-r1-qwen", .patterns = kQwen2, .nfc = true},
    {.name = "deepseek-v3", .patterns = kDeepSeekV3},
    {.name = "default", .patterns = kDefault},
    {.name = "gpt-2", .patterns = kGpt2},
    {.name = "llama-bpe", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama-v3", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama3", .patterns = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "qwen2", .patterns = kQwen2, .nfc = true},
    {.name = "smollm", .patterns = kSmolLm},
};

}  // namespace

const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name) {
  for (const GgufPreTokenizer& candidate : kPreTokenizers) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

std::vector<std::string> GgufPreTokenizerNames() {
  std::vector<std::string> names;
  for (const GgufPreTokenizer& candidate : kPreTokenizers) names.emplace_back(candidate.name);
  return names;
}

}  // namespace hadal
