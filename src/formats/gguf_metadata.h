// The way back: what a GGUF file says about a model that was read from a Hugging Face folder.
#pragma once

#include "formats/gguf_writer.h"
#include "spec/model_spec.h"
#include "spec/vocabulary.h"

namespace hadal {

// GGUF's architecture for a spec's: "deepseek_v3" -> "deepseek2".
std::string GgufArchitecture(const ModelSpec& spec);

// Keys general.* and ARCHITECTURE.*. Throws Error(kUnsupported) on what GGUF cannot express.
void SetModelMetadata(const ModelSpec& spec, GgufWriter& writer);

// Keys tokenizer.*, from tokenizer.json. Throws Error(kUnsupported) unless it is a byte-level BPE
// with a pre-tokenizer that has a name in GGUF.
void SetTokenizerMetadata(const ModelSpec& spec, const Vocabulary& vocabulary, GgufWriter& writer);

// Name in GGUF of the pre-tokenizer in a tokenizer.json; throws Error(kUnsupported).
std::string PreTokenizerName(const Json& tokenizer, const std::string& source);

}  // namespace hadal
