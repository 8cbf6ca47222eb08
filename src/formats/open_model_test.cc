// What opening a model refuses, and the details it gets right.
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/gguf_writer.h"
#include "formats/quant_parts.h"
#include "formats/safetensors.h"
#include "formats/testing.h"
#include "quant/blocks.h"

namespace hadal {
namespace {

using formats_testing::Bytes;
using formats_testing::Message;
using formats_testing::Models;
using formats_testing::TempFolder;

std::string OpenError(const std::filesystem::path& path) {
  return Message([&] { Checkpoint::Open(path); });
}

// An empty `part`: the model must open.
void ExpectError(const std::filesystem::path& path, const std::string& part) {
  const std::string error = OpenError(path);
  if (part.empty()) {
    EXPECT_EQ(error, "");
    return;
  }
  EXPECT_NE(error.find(part), std::string::npos)
      << part << " <- " << (error.empty() ? "no error" : error);
}

Json Config(const TempFolder& temp) {
  return ParseJson(ReadTextFile(temp / "config.json"), "config.json");
}

void Patch(const TempFolder& temp, const std::string& patch) {
  Json config = Config(temp);
  config.merge_patch(ParseJson(patch, "patch"));
  temp.Write("config.json", config.dump());
}

TEST(OpenModel, PathsThatAreNoModel) {
  const TempFolder temp;
  ExpectError(temp / "none",
              "there is no such file or folder; a model is a .gguf file or a folder");
  ExpectError(temp.path(), "holds neither config.json (with model.safetensors), nor a .gguf file");
  temp.Write("a.bin", "hello");
  ExpectError(temp / "a.bin", "not a model: the file does not begin with \"GGUF\"");
  temp.Write("model.safetensors", "hello");
  ExpectError(temp / "model.safetensors", "a single file of a Hugging Face model; name its folder");
  temp.Write("empty.gguf", "");
  ExpectError(temp / "empty.gguf", "not a model");
  temp.Write("tokenizer.json", "{}");
  std::filesystem::remove(temp / "empty.gguf");
  ExpectError(temp.path(), "the folder holds a tokenizer, but no config.json");
  EXPECT_EQ(Checkpoint::OpenVocabulary(temp.path()).tokenizer_json, "{}");
  temp.Write("config.json", "{");
  ExpectError(temp.path(), "config.json: not valid JSON");
  temp.Write("config.json", "[]");
  std::filesystem::remove(temp / "model.safetensors");
  ExpectError(temp.path(), "neither model.safetensors nor model.safetensors.index.json");
}

TEST(OpenModel, AFolderWithOneGgufIsThatModel) {
  const TempFolder temp;
  std::filesystem::copy_file(Models() / "qwen3" / "model.gguf", temp / "a.gguf");
  EXPECT_EQ(Checkpoint::Open(temp.path()).spec().architecture, "qwen3");
  std::filesystem::copy_file(Models() / "qwen3" / "model.gguf", temp / "b.gguf");
  ExpectError(temp.path(), "holds 2 GGUF models, a.gguf and others; name one");
}

TEST(OpenModel, MissingShardAndTensorAreNamed) {
  const TempFolder temp;
  temp.CopyFrom(Models() / "llama_gqa");
  std::filesystem::remove(temp / "model-00002-of-00002.safetensors");
  ExpectError(temp.path(), "model-00002-of-00002.safetensors: missing, though");
  temp.CopyFrom(Models() / "llama_gqa");
  Json index = ParseJson(ReadTextFile(temp / "model.safetensors.index.json"), "index");
  index["weight_map"]["extra"] = "model-00001-of-00002.safetensors";
  temp.Write("model.safetensors.index.json", index.dump());
  ExpectError(temp.path(), "model-00001-of-00002.safetensors: tensor 'extra' is not there");
  index["weight_map"]["extra"] = "../../etc/passwd";
  temp.Write("model.safetensors.index.json", index.dump());
  ExpectError(temp.path(), "shard '../../etc/passwd' is not a plain file name");
  temp.Write("model.safetensors.index.json", R"({"weight_map":{}})");
  ExpectError(temp.path(), "there is no 'weight_map' object");
}

TEST(OpenModel, ConfigurationAndWeightsMustAgree) {
  const TempFolder temp;
  const auto check = [&](const std::string& patch, const std::string& error) {
    temp.CopyFrom(Models() / "deepseek_v2_group");
    Patch(temp, patch);
    ExpectError(temp.path(), error);
  };
  check(R"({"num_hidden_layers":4})",
        "tensor 'model.layers.3.input_layernorm.weight' [32] is missing");
  check(R"({"num_hidden_layers":2})", "has no place in this architecture");
  check(R"({"hidden_size":64})",
        "tensor 'model.embed_tokens.weight' has shape [300, 32], but the configuration needs "
        "[300, 64]");
  check(R"({"n_routed_experts":16})", "has shape [12, 32], but the configuration needs [16, 32]");
  check(R"({"n_routed_experts":8})", "has shape [12, 32], but the configuration needs [8, 32]");
  check(R"({"eos_token_id":300})", "the end token 300 is outside the vocabulary of 300");
  check(R"({"q_lora_rank":null})", "tensor 'model.layers.0.self_attn.q_proj.weight' [96, 32] is");
  check(R"({"tie_word_embeddings":true})", "");  // the copy of the head is ignored
  check(R"({"quantization_config":{"quant_method":"bitsandbytes"}})",
        "'quantization_config.quant_method' is 'bitsandbytes'; fp8, awq and gptq are supported");
}

TEST(OpenModel, GgufTensorsMustMatchTheirMetadata) {
  const TempFolder temp;
  const MappedFile file(Models() / "deepseek_v3" / "model.gguf");
  const GgufContents source = ParseGguf(file.bytes(), "m");
  const auto rewrite = [&](const std::string& skip, const std::string& extra) {
    GgufWriter writer(temp / "m.gguf");
    for (const auto& [key, value] : source.metadata) writer.SetValue(key, value);
    std::vector<TensorView> kept;
    for (const TensorView& view : source.tensors) {
      if (view.name != skip) kept.push_back(view);
    }
    for (const TensorView& view : kept) writer.AddTensor(view.name, view.dtype, view.shape);
    const std::vector<uint64_t> one = {1};
    if (!extra.empty()) writer.AddTensor(extra, DType::kF32, one);
    for (const TensorView& view : kept) writer.Append(view.data);
    const float zero = 0;
    if (!extra.empty()) writer.Append(std::as_bytes(std::span(&zero, 1)));
    writer.Finish();
  };
  rewrite("blk.1.ffn_up_exps.weight", "");
  ExpectError(temp / "m.gguf", "tensor 'blk.1.ffn_up_exps.weight' [8, 32] is missing");
  rewrite("", "blk.0.surprise.weight");
  ExpectError(temp / "m.gguf", "tensor 'blk.0.surprise.weight' [1] has no place");
  rewrite("blk.1.exp_probs_b.bias", "");
  ExpectError(temp / "m.gguf", "tensor 'blk.1.exp_probs_b.bias' [16] is missing");
  rewrite("", "blk.0.attn_k_b.weight");
  ExpectError(temp / "m.gguf", "");  // some converters write both forms of kv_b
}

// The same model in three files, as gguf-split makes it.
void WriteSplit(const TempFolder& temp, uint32_t claimed_count, uint32_t claimed_tensors) {
  const MappedFile file(Models() / "qwen3" / "model.gguf");
  const GgufContents source = ParseGguf(file.bytes(), "m");
  for (uint32_t part = 0; part < 3; ++part) {
    GgufWriter writer(temp / fmt::format("m-{:05}-of-00003.gguf", part + 1));
    if (part == 0) {
      for (const auto& [key, value] : source.metadata) writer.SetValue(key, value);
    }
    writer.SetU32("split.no", part);
    writer.SetU32("split.count", claimed_count);
    writer.SetU32("split.tensors.count", claimed_tensors);
    const size_t n = source.tensors.size();
    const size_t begin = n * part / 3;
    const size_t end = n * (part + 1) / 3;
    for (size_t i = begin; i < end; ++i) {
      writer.AddTensor(source.tensors[i].name, source.tensors[i].dtype, source.tensors[i].shape);
    }
    for (size_t i = begin; i < end; ++i) writer.Append(source.tensors[i].data);
    writer.Finish();
  }
}

TEST(OpenModel, SplitFiles) {
  const TempFolder temp;
  WriteSplit(temp, 3, 24);
  const Checkpoint split = Checkpoint::Open(temp / "m-00001-of-00003.gguf");
  const Checkpoint whole = Checkpoint::Open(Models() / "qwen3" / "model.gguf");
  EXPECT_EQ(split.files().size(), 3u);
  ASSERT_EQ(split.tensors().size(), whole.tensors().size());
  for (const Checkpoint::Entry& entry : whole.tensors()) {
    const TensorView& view = split.tensor(entry.name);
    EXPECT_TRUE(std::equal(view.data.begin(), view.data.end(), entry.view.data.begin()));
  }
  EXPECT_EQ(Checkpoint::Open(temp.path()).files().size(), 3u);
  ExpectError(temp / "m-00002-of-00003.gguf", "part 2 of 3 of a model; name the first part");
  std::filesystem::rename(temp / "m-00003-of-00003.gguf", temp / "hidden");
  ExpectError(temp / "m-00001-of-00003.gguf", "m-00003-of-00003.gguf: part 3 of 3 of the model is");
  std::filesystem::copy_file(temp / "m-00002-of-00003.gguf", temp / "m-00003-of-00003.gguf");
  ExpectError(temp / "m-00001-of-00003.gguf", "does not say that it is part 3 of 3");
  WriteSplit(temp, 3, 25);
  ExpectError(temp / "m-00001-of-00003.gguf", "claims 25 tensors in all parts, but they hold 24");
  WriteSplit(temp, 4, 24);
  ExpectError(temp / "m-00001-of-00003.gguf", "must be called NAME-00001-of-00004.gguf");
}

TEST(OpenModel, Fp8ScalesHangOnTheirMatrices) {
  const Checkpoint model = Checkpoint::Open(Models() / "deepseek_v3_fp8_mtp");
  const TensorView& q_b = model.tensor("layers.0.q_b");
  EXPECT_EQ(q_b.dtype, DType::kF8E4M3);
  EXPECT_EQ(q_b.scale_block, 128u);
  EXPECT_EQ(q_b.scales.size(), 4u);                           // 96 x 28: one block
  EXPECT_EQ(model.tensor("layers.0.q_a").scales.size(), 8u);  // 28 x 132: two blocks
  EXPECT_EQ(model.find("layers.2.q_a"), nullptr);
  ASSERT_EQ(model.spec().notes.size(), 1u);
  EXPECT_EQ(model.spec().notes[0].substr(0, 34), "1 multi-token-prediction layer(s) ");
  const TempFolder temp;
  temp.CopyFrom(Models() / "deepseek_v3_fp8_mtp");
  Patch(temp, R"({"num_nextn_predict_layers":0})");
  ExpectError(temp.path(), "tensor 'model.layers.2.");
  temp.CopyFrom(Models() / "deepseek_v3_fp8_mtp");
  Patch(temp, R"({"quantization_config":null})");
  ExpectError(temp.path(), "has no weight_scale_inv");
  temp.CopyFrom(Models() / "deepseek_v3_fp8_mtp");
  Patch(temp, R"({"quantization_config":{"weight_block_size":[64,64]}})");
  ExpectError(temp.path(), "weight_block_size' is not [128, 128]");
  temp.CopyFrom(Models() / "deepseek_v3_fp8_mtp");
  Patch(temp, R"({"quantization_config":{"fmt":"e5m2"}})");
  ExpectError(temp.path(), "only e4m3 is supported");
}

TEST(OpenModel, GenerationConfigGoesFirst) {
  const TempFolder temp;
  temp.CopyFrom(Models() / "qwen3");
  temp.Write(
      "generation_config.json",
      R"({"eos_token_id":[7,9],"temperature":0.6,"top_k":20,"top_p":0.95,"do_sample":true})");
  const ModelSpec spec = Checkpoint::Open(temp.path()).spec();
  EXPECT_EQ(spec.eos_ids, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(spec.bos_id, 297);  // from config.json
  EXPECT_EQ(spec.sampling.temperature, 0.6f);
  EXPECT_EQ(spec.sampling.top_k, 20);
  EXPECT_EQ(spec.sampling.do_sample, true);
  EXPECT_FALSE(spec.sampling.repetition_penalty.has_value());
  temp.Write("generation_config.json", R"({"eos_token_id":"x"})");
  ExpectError(temp.path(), "generation_config.json: field 'eos_token_id' must be an integer");
}

TEST(OpenModel, ChatTemplates) {
  const TempFolder temp;
  temp.CopyFrom(Models() / "qwen3");
  const auto chat_template = [&] { return Checkpoint::OpenVocabulary(temp.path()).chat_template; };
  temp.Write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"tool","template":"T"},{"name":"default","template":"D"}]})");
  EXPECT_EQ(chat_template(), "D");
  temp.Write("chat_template.jinja", "J");
  EXPECT_EQ(chat_template(), "J");
  std::filesystem::remove(temp / "chat_template.jinja");
  temp.Write("tokenizer_config.json", R"({"chat_template":[{"name":"tool","template":"T"}]})");
  EXPECT_NE(Message(chat_template).find("'chat_template' is neither a string nor a list with"),
            std::string::npos);
}

// A safetensors file made part by part.
class SafetensorsFile {
 public:
  void Add(const std::string& name, const char* type, const Json& shape, std::string_view data) {
    header_[name] = {{"dtype", type},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + data.size()}}};
    data_ += data;
  }
  std::string Text() const {
    const std::string header = header_.dump();
    return Bytes().U64(header.size()).Raw(header).Raw(data_).text();
  }

 private:
  Json header_ = Json::object();
  std::string data_;
};

// qwen2_tied with its matrices as int4 of zeros; `gptq` also gets biases that Qwen2 does not have,
// as GPTQ's tools write them.
std::string Int4Model(bool gptq) {
  const MappedFile source(Models() / "qwen2_tied" / "model.safetensors");
  SafetensorsFile file;
  for (const TensorView& view : ParseSafetensors(source.bytes(), "m")) {
    if (!view.name.ends_with("_proj.weight")) {
      file.Add(view.name, "F32", view.shape,
               {reinterpret_cast<const char*>(view.data.data()), view.data.size()});
      continue;
    }
    const std::string stem = view.name.substr(0, view.name.size() - 7);
    const uint64_t out = view.shape[0];
    const uint64_t in = view.shape[1];
    const std::string zeros(in * out * 4, '\0');
    const auto bytes = [&](uint64_t n) { return std::string_view(zeros).substr(0, n); };
    const Json packed = gptq ? Json{in / 8, out} : Json{in, out / 8};
    file.Add(stem + ".qweight", "I32", packed, bytes(in * out / 2));
    file.Add(stem + ".qzeros", "I32", {in / 8, out / 8}, bytes(in / 8 * out / 2));
    file.Add(stem + ".scales", "F16", {in / 8, out}, bytes(in / 8 * out * 2));
    if (!gptq) continue;
    std::string index;
    for (uint64_t i = 0; i < in; ++i) {
      index += Bytes().U32(static_cast<uint32_t>(i / 8)).text();
    }
    file.Add(stem + ".g_idx", "I32", {in}, index);
    if (stem.ends_with("o_proj")) file.Add(stem + ".bias", "F32", {out}, bytes(out * 4));
  }
  return file.Text();
}

TEST(OpenModel, Int4FoldersHaveLogicalShapes) {
  for (const bool gptq : {false, true}) {
    const TempFolder temp;
    temp.CopyFrom(Models() / "qwen2_tied");
    temp.Write("model.safetensors", Int4Model(gptq));
    Json quantization = {{"quant_method", gptq ? "gptq" : "awq"}, {"bits", 4}, {"group_size", 8}};
    Json config = Config(temp);
    config["quantization_config"] = quantization;
    temp.Write("config.json", config.dump());
    const Checkpoint model = Checkpoint::Open(temp.path());
    const TensorView& k = model.tensor("layers.1.k");
    EXPECT_EQ(k.dtype, gptq ? DType::kGptq4 : DType::kAwq4);
    EXPECT_EQ(k.shape, (std::vector<uint64_t>{16, 48}));
    EXPECT_EQ(k.group_size, 8u);
    EXPECT_NO_THROW(CheckTensorParts(k));
    EXPECT_EQ(model.tensor("layers.0.q.bias").dtype, DType::kF32);
    EXPECT_EQ(model.find("layers.0.o.bias") != nullptr, gptq);
    EXPECT_EQ(model.tensor("embed").dtype, DType::kF32);
  }
}

// A GPTQ matrix of 64 inputs and 8 outputs in two groups.
TensorIndex Gptq(const std::vector<int32_t>& index, std::vector<std::byte>& storage) {
  storage.resize(64 * 4 + 64 * 4);
  std::memcpy(storage.data() + 256, index.data(), 256);
  const std::span<const std::byte> all(storage);
  const auto view = [&](const char* name, DType type, std::vector<uint64_t> shape, size_t offset,
                        size_t size) {
    TensorView out;
    out.name = name;
    out.dtype = type;
    out.shape = std::move(shape);
    out.data = all.subspan(offset, size);
    return std::pair{std::string(name), out};
  };
  return {view("a.qweight", DType::kI32, {8, 8}, 0, 256),
          view("a.qzeros", DType::kI32, {2, 1}, 0, 8), view("a.scales", DType::kF16, {2, 8}, 0, 32),
          view("a.g_idx", DType::kI32, {64}, 256, 256)};
}

TEST(QuantParts, GptqBecomesOneLogicalMatrix) {
  std::vector<int32_t> ordered(64);
  for (size_t i = 0; i < ordered.size(); ++i) ordered[i] = static_cast<int32_t>(i / 32);
  const Json config = {
      {"quantization_config",
       {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}, {"desc_act", true}}}};
  std::vector<std::byte> storage;
  TensorIndex tensors = Gptq(ordered, storage);
  EXPECT_TRUE(JoinQuantizedParts(config, "c", tensors));
  ASSERT_EQ(tensors.size(), 1u);
  const TensorView& view = tensors.at("a.weight");
  EXPECT_EQ(view.dtype, DType::kGptq4);
  EXPECT_EQ(view.shape, (std::vector<uint64_t>{8, 64}));
  EXPECT_EQ(view.group_size, 32u);
  EXPECT_TRUE(view.zeros_minus_one);
  EXPECT_TRUE(view.group_index.empty());

  std::swap(ordered[0], ordered[63]);
  tensors = Gptq(ordered, storage);
  JoinQuantizedParts(config, "c", tensors);
  EXPECT_EQ(tensors.at("a.weight").group_index.size(), 256u);

  ordered[5] = 2;
  tensors = Gptq(ordered, storage);
  EXPECT_NE(Message([&] {
              JoinQuantizedParts(config, "c", tensors);
            }).find("tensor 'a.g_idx' names group 2 of 2"),
            std::string::npos);
  tensors = Gptq(ordered, storage);
  tensors.erase("a.qzeros");
  EXPECT_NE(Message([&] {
              JoinQuantizedParts(config, "c", tensors);
            }).find("tensor 'a.qzeros' is missing beside its qweight"),
            std::string::npos);
}

TEST(QuantParts, VariantsThatWeDoNotHaveAreNamed) {
  const auto error = [](Json quantization) {
    TensorIndex none;
    const Json config = {{"quantization_config", std::move(quantization)}};
    return Message([&] { JoinQuantizedParts(config, "c", none); });
  };
  const auto expect = [&](Json quantization, const std::string& part) {
    const std::string message = error(std::move(quantization));
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect({{"quant_method", "awq"}, {"bits", 8}, {"group_size", 128}},
         "'quantization_config.bits' is 8");
  expect({{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}, {"version", "gemv"}},
         "only 'gemm' is supported");
  expect({{"quant_method", "gptq"}, {"bits", 4}}, "'quantization_config.group_size' is missing");
  expect(
      {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"checkpoint_format", "marlin"}},
      "is 'marlin'; gptq and gptq_v2");
  expect({{"quant_method", "compressed-tensors"}}, "is 'compressed-tensors'; fp8, awq and gptq");
  expect({{"bits", 4}}, "'quantization_config.quant_method' is missing");
}

}  // namespace
}  // namespace hadal
