#include "tokenizer/json_pipeline.h"

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/json_fields.h"

namespace hadal {
namespace {

[[noreturn]] void Unsupported(const std::string& where, const std::string& type) {
  Fail(ErrorKind::kUnsupported, "{} \"{}\" is not supported", where, type);
}

// {"String": "..."} or {"Regex": "..."}. `literal` gets the string in the first case.
Regex ReadPattern(const Json& object, const std::string& where, std::string* literal) {
  const Json& pattern = GetMember(object, "pattern", where);
  if (FindMember(pattern, "Regex") != nullptr) {
    return Regex::Compile(GetString(pattern, "Regex", where + " pattern"));
  }
  *literal = GetString(pattern, "String", where + " pattern");
  if (literal->empty()) Fail(ErrorKind::kUnsupported, "{}: an empty pattern", where);
  return Regex::Compile(EscapeRegex(*literal));
}

ReplaceStep ReadReplace(const Json& json, const std::string& where) {
  std::string literal;
  Regex pattern = ReadPattern(json, where, &literal);
  return {std::move(pattern), std::move(literal), GetString(json, "content", where)};
}

// A member that must be one character.
std::string GetCharacter(const Json& json, const std::string& key, const std::string& where) {
  std::string text = GetString(json, key, where);
  if (text.empty() || DecodeUtf8(text, 0).size != text.size()) {
    Fail(ErrorKind::kBadFile, "{}: \"{}\" is not one character", where, key);
  }
  return text;
}

SplitBehavior ReadBehavior(const Json& json, const std::string& where) {
  const std::string name = GetString(json, "behavior", where);
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  Unsupported(where + " behavior", name);
}

MetaspaceStep ReadMetaspace(const Json& json, const std::string& where) {
  using Prepend = MetaspaceStep::Prepend;
  MetaspaceStep step{GetCharacter(json, "replacement", where), Prepend::kAlways,
                     GetBool(json, "split", true, where)};
  const bool prefix = GetBool(json, "add_prefix_space", true, where);
  if (FindMember(json, "prepend_scheme") == nullptr) {
    if (!prefix) step.prepend = Prepend::kNever;
    return step;
  }
  const std::string scheme = GetString(json, "prepend_scheme", where);
  if (scheme == "first") {
    step.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    step.prepend = Prepend::kNever;
  } else if (scheme != "always") {
    Unsupported(where + " prepend_scheme", scheme);
  }
  if (!prefix && step.prepend != Prepend::kNever) {
    Fail(ErrorKind::kBadFile, "{}: add_prefix_space is false but prepend_scheme is \"{}\"", where,
         scheme);
  }
  return step;
}

class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(PreTokenizer* out) : out_(out) {}

  void Read(const Json& json) {
    const std::string type = GetString(json, "type", "pre_tokenizer");
    const std::string where = "pre_tokenizer " + type;
    if (type == "Sequence") {
      for (const Json& step : GetArray(json, "pretokenizers", where)) Read(step);
      return;
    }
    // Everything behind it would have to work on the byte alphabet.
    if (byte_level_) Fail(ErrorKind::kUnsupported, "{} after ByteLevel is not supported", where);
    if (type == "Split") {
      std::string literal;
      Regex pattern = ReadPattern(json, where, &literal);
      out_->Add(SplitStep{std::move(pattern), ReadBehavior(json, where),
                          GetBool(json, "invert", false, where)});
    } else if (type == "ByteLevel") {
      ReadByteLevel(json, where);
    } else if (type == "Metaspace") {
      out_->Add(ReadMetaspace(json, where));
    } else {
      ReadClass(json, type, where);
    }
  }

  bool byte_level() const { return byte_level_; }

 private:
  void ReadByteLevel(const Json& json, const std::string& where) {
    byte_level_ = true;
    if (GetBool(json, "add_prefix_space", where)) out_->Add(PrefixSpaceStep{});
    if (GetBool(json, "use_regex", true, where)) {
      out_->Add(SplitStep{Regex::Compile(kGpt2Pattern), SplitBehavior::kIsolated, false});
    }
  }

  void ReadClass(const Json& json, const std::string& type, const std::string& where) {
    if (type == "Digits") {
      const bool single = GetBool(json, "individual_digits", where);
      out_->Add(SplitClassStep{IsNumeric,
                               single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
    } else if (type == "Punctuation") {
      const bool given = FindMember(json, "behavior") != nullptr;
      out_->Add(SplitClassStep{IsPunctuation,
                               given ? ReadBehavior(json, where) : SplitBehavior::kIsolated});
    } else if (type == "WhitespaceSplit") {
      out_->Add(SplitClassStep{IsWhiteSpace, SplitBehavior::kRemoved});
    } else if (type == "Whitespace") {
      // Rust's \w also holds the two joiners.
      out_->Add(SplitStep{Regex::Compile(R"([\w\x{200C}\x{200D}]+|[^\w\s\x{200C}\x{200D}]+)"),
                          SplitBehavior::kRemoved, true});
    } else if (type == "BertPreTokenizer") {
      out_->Add(SplitClassStep{IsWhiteSpace, SplitBehavior::kRemoved});
      out_->Add(SplitClassStep{IsPunctuation, SplitBehavior::kIsolated});
    } else if (type == "CharDelimiterSplit") {
      const std::string delimiter = GetCharacter(json, "delimiter", where);
      out_->Add(SplitCharStep{DecodeUtf8(delimiter, 0).code, SplitBehavior::kRemoved});
    } else {
      Unsupported("pre_tokenizer", type);
    }
  }

  PreTokenizer* out_;
  bool byte_level_ = false;
};

}  // namespace

void ReadNormalizer(const Json* json, Normalizer* normalizer) {
  if (json == nullptr) return;
  const std::string type = GetString(*json, "type", "normalizer");
  const std::string where = "normalizer " + type;
  if (type == "Sequence") {
    for (const Json& step : GetArray(*json, "normalizers", where)) {
      ReadNormalizer(&step, normalizer);
    }
  } else if (type == "NFC") {
    normalizer->Add(NormalForm::kNfc);
  } else if (type == "NFD") {
    normalizer->Add(NormalForm::kNfd);
  } else if (type == "NFKC") {
    normalizer->Add(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    normalizer->Add(NormalForm::kNfkd);
  } else if (type == "Lowercase") {
    normalizer->Add(LowercaseStep{});
  } else if (type == "StripAccents") {
    normalizer->Add(StripAccentsStep{});
  } else if (type == "Nmt") {
    normalizer->Add(NmtStep{});
  } else if (type == "Prepend") {
    normalizer->Add(PrependStep{GetString(*json, "prepend", where)});
  } else if (type == "Strip") {
    normalizer->Add(
        StripStep{GetBool(*json, "strip_left", where), GetBool(*json, "strip_right", where)});
  } else if (type == "Replace") {
    normalizer->Add(ReadReplace(*json, where));
  } else {
    Unsupported("normalizer", type);
  }
}

void ReadPreTokenizer(const Json* json, PreTokenizer* pre_tokenizer, bool* byte_level) {
  PreTokenizerReader reader(pre_tokenizer);
  if (json != nullptr) reader.Read(*json);
  *byte_level = reader.byte_level();
}

namespace {

void ReadDecoderStep(const Json& json, Decoder* decoder) {
  const std::string type = GetString(json, "type", "decoder");
  const std::string where = "decoder " + type;
  if (type == "Sequence") {
    for (const Json& step : GetArray(json, "decoders", where)) ReadDecoderStep(step, decoder);
  } else if (type == "ByteLevel") {
    decoder->Add(ByteLevelDecode{});
  } else if (type == "ByteFallback") {
    decoder->Add(ByteFallbackDecode{});
  } else if (type == "Fuse") {
    decoder->Add(FuseDecode{});
  } else if (type == "Replace") {
    decoder->Add(ReadReplace(json, where));
  } else if (type == "Strip") {
    const auto start = GetIndex(GetMember(json, "start", where), 1 << 20, where + " start");
    const auto stop = GetIndex(GetMember(json, "stop", where), 1 << 20, where + " stop");
    decoder->Add(StripDecode{GetCharacter(json, "content", where), static_cast<size_t>(start),
                             static_cast<size_t>(stop)});
  } else if (type == "Metaspace") {
    const MetaspaceStep step = ReadMetaspace(json, where);
    decoder->Add(MetaspaceDecode{step.replacement, step.prepend != MetaspaceStep::Prepend::kNever});
  } else {
    Unsupported("decoder", type);
  }
}

}  // namespace

void ReadDecoder(const Json* json, Decoder* decoder) {
  if (json == nullptr) {
    decoder->Add(JoinDecode{});
  } else {
    ReadDecoderStep(*json, decoder);
  }
}

}  // namespace hadal
