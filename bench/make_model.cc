// Writes a GGUF model of a given shape with random weights: for speed measurements, where only the
// shape matters. Streams, so a model may be far larger than memory. The same options give the same
// bytes, whatever the number of threads.
#include <fmt/core.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_writer.h"
#include "formats/tensor_plan.h"
#include "quant/quantize.h"

namespace hadal {
namespace {

struct Options {
  std::string shape;
  std::string out;
  std::string type = "q8_0";
  std::string embed_type;
  uint64_t seed = 1;
  unsigned threads = 0;
  bool header_only = false;
  std::map<std::string, uint32_t> dims;  // overrides, by option name
};

struct Shape {
  ModelDescription model;
  std::string pre;  // pre-tokenizer
};

struct GqaDims {
  const char* architecture;
  const char* pre;
  uint32_t hidden, layers, heads, kv_heads, intermediate, vocab;
  bool tied;
  double theta;
  uint64_t context;
  float eps;
};

const std::map<std::string, GqaDims>& GqaShapes() {
  static const std::map<std::string, GqaDims> shapes = {
      {"smollm2-135m", {"llama", "smollm", 576, 30, 9, 3, 1536, 49152, true, 1e5, 8192, 1e-5f}},
      {"llama3-8b",
       {"llama", "llama-bpe", 4096, 32, 32, 8, 14336, 128256, false, 5e5, 8192, 1e-5f}},
      {"qwen2-1.5b", {"qwen2", "qwen2", 1536, 28, 12, 2, 8960, 151936, true, 1e6, 32768, 1e-6f}},
      {"qwen2.5-3b", {"qwen2", "qwen2", 2048, 36, 16, 2, 11008, 151936, true, 1e6, 32768, 1e-6f}},
      {"r1-distill-qwen-7b",
       {"qwen2", "qwen2", 3584, 28, 28, 4, 18944, 152064, false, 1e4, 131072, 1e-6f}},
  };
  return shapes;
}

Shape FromDims(const GqaDims& dims) {
  Shape out;
  out.pre = dims.pre;
  ModelSpec& spec = out.model.spec;
  spec.architecture = dims.architecture;
  spec.hidden = dims.hidden;
  spec.n_layers = dims.layers;
  spec.vocab = dims.vocab;
  spec.intermediate = dims.intermediate;
  spec.norm_eps = dims.eps;
  spec.tied_embeddings = dims.tied;
  spec.max_context = dims.context;
  spec.attention = {
      .n_heads = dims.heads, .n_kv_heads = dims.kv_heads, .head_dim = dims.hidden / dims.heads};
  spec.rope.theta = dims.theta;
  out.model.qkv_bias = spec.architecture == "qwen2";
  return out;
}

Shape DeepSeekV2Lite() {
  Shape out;
  out.pre = "deepseek-llm";
  ModelSpec& spec = out.model.spec;
  spec.architecture = "deepseek_v2";
  spec.hidden = 2048;
  spec.n_layers = 27;
  spec.vocab = 102400;
  spec.intermediate = 10944;
  spec.max_context = 163840;
  AttentionSpec& attention = spec.attention;
  attention.kind = AttentionKind::kMla;
  attention.n_heads = 16;
  attention.n_kv_heads = 1;
  attention.kv_lora_rank = 512;
  attention.qk_nope_head_dim = 128;
  attention.qk_rope_head_dim = 64;
  attention.v_head_dim = 128;
  attention.head_dim = 192;
  spec.rope = {.scaling = RopeScaling::kYarnDeepSeek,
               .layout = RopeLayout::kInterleaved,
               .factor = 40.0,
               .original_context = 4096,
               .mscale = 0.707,
               .mscale_all_dim = 0.707};
  spec.moe =
      MoeSpec{.n_experts = 64, .n_used = 6, .intermediate = 1408, .shared_intermediate = 2816};
  return out;
}

void Override(const std::map<std::string, uint32_t>& dims, Shape& shape) {
  ModelSpec& spec = shape.model.spec;
  const auto set = [&](const char* name, uint32_t& field) {
    if (const auto it = dims.find(name); it != dims.end()) field = it->second;
  };
  AttentionSpec& attention = spec.attention;
  set("hidden", spec.hidden);
  set("layers", spec.n_layers);
  set("vocab", spec.vocab);
  set("intermediate", spec.intermediate);
  set("heads", attention.n_heads);
  if (attention.kind == AttentionKind::kGqa) {
    set("kv-heads", attention.n_kv_heads);
    attention.head_dim = spec.hidden / attention.n_heads;
    set("head-dim", attention.head_dim);
  }
  if (spec.moe) {
    set("experts", spec.moe->n_experts);
    set("experts-used", spec.moe->n_used);
    set("moe-intermediate", spec.moe->intermediate);
  }
  uint32_t context = 0;
  set("context", context);
  if (context > 0) spec.max_context = context;
  const bool gqa = attention.kind == AttentionKind::kGqa;
  spec.rope.dim = gqa ? attention.head_dim : attention.qk_rope_head_dim;
  spec.rope.max_context = spec.max_context;
  spec.layers.assign(spec.n_layers, {});
  for (uint32_t i = 1; i < spec.n_layers && spec.moe; ++i) spec.layers[i].moe = true;
  const bool fits = spec.n_layers > 0 && spec.vocab >= 512 && attention.n_kv_heads > 0 &&
                    attention.n_heads % attention.n_kv_heads == 0 && spec.rope.dim % 2 == 0 &&
                    spec.rope.dim > 0 && (!spec.moe || spec.moe->n_used <= spec.moe->n_experts);
  if (!fits) {
    Fail(ErrorKind::kUsage,
         "these dimensions do not fit together: kv-heads must divide heads, head-dim must be even, "
         "layers at least 1, vocab at least 512, experts-used at most experts");
  }
  spec.bos_id = static_cast<int32_t>(spec.vocab - 2);
  spec.eos_ids = {static_cast<int32_t>(spec.vocab - 1)};
}

Shape MakeShape(const Options& options) {
  Shape shape;
  if (options.shape == "deepseek-v2-lite") {
    shape = DeepSeekV2Lite();
  } else if (const auto it = GqaShapes().find(options.shape); it != GqaShapes().end()) {
    shape = FromDims(it->second);
  } else {
    std::string known = "deepseek-v2-lite";
    for (const auto& [name, dims] : GqaShapes()) known += ", " + name;
    Fail(ErrorKind::kUsage, "unknown shape '{}'; known are {}", options.shape, known);
  }
  shape.model.spec.name = options.shape + " (random weights)";
  Override(options.dims, shape);
  return shape;
}

// GPT-2's byte alphabet: printable bytes stand for themselves, the others for characters from
// U+0100 on.
std::string ByteToken(uint32_t byte) {
  const auto printable = [](uint32_t b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  uint32_t code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (uint32_t b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// 256 bytes, pairs of letters as the only merges, and fillers that no text produces.
void SetTokenizer(const Shape& shape, GgufWriter& writer) {
  const ModelSpec& spec = shape.model.spec;
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (uint32_t byte = 0; byte < 256; ++byte) tokens.push_back(ByteToken(byte));
  const std::string space = ByteToken(' ');
  for (char a = 'a'; a <= 'z' && tokens.size() + 2 < spec.vocab; ++a) {
    tokens.push_back(space + a);
    merges.push_back(space + " " + a);
  }
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z' && tokens.size() + 2 < spec.vocab; ++b) {
      tokens.push_back({a, b});
      merges.push_back({a, ' ', b});
    }
  }
  std::vector<int32_t> types(spec.vocab, 1);
  while (tokens.size() + 2 < spec.vocab) tokens.push_back(fmt::format("<{}>", tokens.size()));
  tokens.push_back("<|begin|>");
  tokens.push_back("<|end|>");
  types[spec.vocab - 2] = types[spec.vocab - 1] = 3;
  writer.SetString("tokenizer.ggml.model", "gpt2");
  writer.SetString("tokenizer.ggml.pre", shape.pre);
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetI32s("tokenizer.ggml.token_type", types);
  writer.SetStrings("tokenizer.ggml.merges", merges);
  writer.SetU32("tokenizer.ggml.bos_token_id", spec.vocab - 2);
  writer.SetU32("tokenizer.ggml.eos_token_id", spec.vocab - 1);
  writer.SetBool("tokenizer.ggml.add_bos_token", false);
}

struct Tensor {
  std::string name;
  DType type;
  std::vector<uint64_t> shape;
  float constant;   // norms: 1; biases for choosing: 0
  float deviation;  // of random weights; 0: constant
};

// Uniform weights whose products keep the variance, so that logits stay near a deviation of 2. The
// embedding counts as a head, since tied models use it as one.
float Deviation(const PlannedTensor& planned) {
  if (planned.bias) return 0.1f;
  if (planned.shape.size() == 1) return 0.0f;
  const float gain = planned.canonical == "head" || planned.canonical == "embed" ? 2.0f : 1.0f;
  return gain / std::sqrt(static_cast<float>(planned.shape.back()));
}

std::vector<Tensor> PlanTensors(const Shape& shape, DType type, DType embed_type) {
  const std::span<const TensorName> names = GgufNames();
  const uint64_t n_experts = shape.model.spec.moe ? shape.model.spec.moe->n_experts : 0;
  std::vector<Tensor> tensors;
  VisitTensors(shape.model, [&](const PlannedTensor& planned) {
    if (planned.expert > 0) return;
    const auto name = std::find_if(names.begin(), names.end(), [&](const TensorName& n) {
      return n.canonical == planned.canonical;
    });
    Tensor tensor{FillName(name->file, planned.layer, 0), DType::kF32, planned.shape,
                  planned.canonical == "layers.#.router_bias" ? 0.0f : 1.0f, Deviation(planned)};
    if (planned.bias) tensor.name.replace(tensor.name.size() - 6, 6, "bias");
    if (planned.canonical.find('%') != std::string_view::npos) {
      tensor.shape.insert(tensor.shape.begin(), n_experts);
    }
    if (planned.matrix) {
      const bool outer = planned.canonical == "embed" || planned.canonical == "head";
      tensor.type = outer ? embed_type : type;
      if (planned.shape.back() % Info(tensor.type).block_elements != 0) {
        fmt::print(stderr, "{}: rows of {} do not divide into blocks of {}; written as f16\n",
                   tensor.name, planned.shape.back(), Name(tensor.type));
        tensor.type = DType::kF16;
      }
    }
    tensors.push_back(std::move(tensor));
  });
  return tensors;
}

// splitmix64; each row has its own stream, so that rows can be made in any order.
class Random {
 public:
  explicit Random(uint64_t state) : state_(state) {}
  // Uniform in [-1, 1).
  float Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-31f;
  }

 private:
  uint64_t state_;
};

void MakeRows(const Tensor& tensor, uint64_t seed, uint64_t first_row, uint64_t n_rows,
              std::span<std::byte> out) {
  const uint64_t cols = tensor.shape.back();
  const uint64_t row_bytes = RowBytes(tensor.type, cols);
  const float range = tensor.deviation * std::sqrt(3.0f);
  std::vector<float> row(cols, tensor.constant);
  for (uint64_t i = 0; i < n_rows; ++i) {
    Random random(seed + (first_row + i) * 0xD1342543DE82EF95);
    if (range > 0) {
      for (float& value : row) value = random.Next() * range;
    }
    QuantizeRow(tensor.type, row, out.subspan(i * row_bytes, row_bytes));
  }
}

void WriteTensor(const Tensor& tensor, uint64_t seed, unsigned n_threads, GgufWriter& writer) {
  const uint64_t cols = tensor.shape.back();
  uint64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  const uint64_t row_bytes = RowBytes(tensor.type, cols);
  const uint64_t tensor_seed =
      Hash64(std::as_bytes(std::span(tensor.name.data(), tensor.name.size())), seed);
  const uint64_t per_thread = std::max<uint64_t>(1, (uint64_t{1} << 20) / cols);
  std::vector<std::vector<std::byte>> buffers(n_threads);
  for (uint64_t row = 0; row < rows; row += per_thread * n_threads) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < n_threads; ++t) {
      const uint64_t begin = std::min(rows, row + t * per_thread);
      const uint64_t n = std::min(rows - begin, per_thread);
      buffers[t].resize(n * row_bytes);
      threads.emplace_back(
          [&, t, begin, n] { MakeRows(tensor, tensor_seed, begin, n, buffers[t]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& buffer : buffers) {
      if (!buffer.empty()) writer.Append(buffer);
    }
  }
}

DType TypeOption(const std::string& name) {
  DType type = DType::kF32;
  if (!ParseDType(name, type) || !CanQuantizeTo(type)) {
    Fail(ErrorKind::kUsage, "type '{}' cannot be written to GGUF", name);
  }
  return type;
}

void Run(const Options& options) {
  const Shape shape = MakeShape(options);
  const DType type = TypeOption(options.type);
  const DType embed_type = options.embed_type.empty() ? type : TypeOption(options.embed_type);
  GgufWriter writer(options.out);
  SetModelMetadata(shape.model.spec, writer);
  SetTokenizer(shape, writer);
  const std::vector<Tensor> tensors = PlanTensors(shape, type, embed_type);
  for (const Tensor& tensor : tensors) writer.AddTensor(tensor.name, tensor.type, tensor.shape);
  if (options.header_only) {
    writer.FinishHeader();
    fmt::print("{}: {} tensors without data, {} bytes\n", options.out, tensors.size(),
               writer.bytes_written());
    return;
  }
  const unsigned n_threads =
      options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  for (const Tensor& tensor : tensors) WriteTensor(tensor, options.seed, n_threads, writer);
  writer.Finish();
  fmt::print("{}: {} tensors, {} bytes\n", options.out, tensors.size(), writer.bytes_written());
}

}  // namespace
}  // namespace hadal

int main(int argc, char** argv) {
  hadal::Options options;
  CLI::App app{
      "Writes a GGUF model with random weights.\n"
      "Example: make_model qwen2-1.5b /tmp/q8.gguf --type q8_0"};
  app.add_option("shape", options.shape,
                 "smollm2-135m, llama3-8b, qwen2-1.5b, qwen2.5-3b, r1-distill-qwen-7b or "
                 "deepseek-v2-lite")
      ->required();
  app.add_option("out", options.out, "the file to write")->required();
  app.add_option("--type", options.type, "type of the matrices (default q8_0)");
  app.add_option("--embed-type", options.embed_type,
                 "type of embedding and output (default --type)");
  app.add_option("--seed", options.seed, "default 1");
  app.add_option("--threads", options.threads, "default: all; the bytes do not depend on it");
  app.add_flag("--header-only", options.header_only,
               "leave the weights out: enough for `hadal plan`");
  for (const char* dim : {"hidden", "layers", "heads", "kv-heads", "head-dim", "intermediate",
                          "vocab", "context", "experts", "experts-used", "moe-intermediate"}) {
    app.add_option_function<uint32_t>(
           std::string("--") + dim, [&options, dim](uint32_t value) { options.dims[dim] = value; },
           "instead of the shape's own")
        ->check(CLI::Range(1u, 1u << 24));
  }
  try {
    app.parse(argc, argv);
    hadal::Run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const hadal::Error& error) {
    fmt::print(stderr, "make_model: {}\n", error.message());
    return error.kind() == hadal::ErrorKind::kUsage ? 2 : 1;
  }
  return 0;
}
