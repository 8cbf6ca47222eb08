// What a checkpoint says about its tokenizer, as plain data: formats/ fills it, tokenizer/ obeys
// it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hadal {

struct Vocabulary {
  // Where it came from, for messages.
  std::string source;

  // Hugging Face: the files' texts; empty when there is no such file.
  std::string tokenizer_json;
  std::string tokenizer_config_json;

  // GGUF: tokenizer.ggml.*; used when tokenizer_json is empty.
  std::string model;  // "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (unigram)
  std::string pre;    // name of the pre-tokenizer, "deepseek-v3", "qwen2", "llama-bpe", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;
  int32_t bos_id = -1;  // -1: none
  int32_t eos_id = -1;
  int32_t unk_id = -1;
  int32_t pad_id = -1;
  // -1: the file does not say (the tokenizer's kind decides).
  int add_bos = -1;
  int add_eos = -1;
  int add_space_prefix = -1;

  // The Jinja source from tokenizer_config.json, chat_template.jinja or GGUF; empty when absent.
  std::string chat_template;
};

}  // namespace hadal
