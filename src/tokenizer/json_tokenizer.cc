#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/json_pipeline.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unigram.h"

namespace hadal {
namespace {

int32_t TokenIdIn(const TokenizerParts& parts, std::string_view content) {
  for (const AddedToken& token : parts.added_tokens) {
    if (token.content == content) return token.id;
  }
  return parts.pieces->Find(content);
}

void ReadBpeVocabulary(const Json& model, PieceTable* pieces) {
  const Json& vocab = GetMember(model, "vocab", "model");
  if (!vocab.is_object()) Fail(ErrorKind::kBadFile, "model: \"vocab\" is not an object");
  for (const auto& [piece, value] : vocab.items()) {
    const auto id = static_cast<int32_t>(
        GetIndex(value, PieceTable::kMaxIds, "the id of \"" + piece + "\" in model vocab"));
    if (pieces->Has(id)) {
      Fail(ErrorKind::kBadFile, "model vocab: \"{}\" and \"{}\" have the same id {}",
           pieces->Piece(id), piece, id);
    }
    pieces->Add(piece, id);
  }
}

// "a b", or ["a", "b"] where pieces may hold spaces.
std::pair<std::string, std::string> ReadMerge(const Json& merge) {
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
    Fail(ErrorKind::kBadFile, "model: the merge \"{}\" is not two pieces with a space between",
         text);
  }
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
    Fail(ErrorKind::kBadFile, "model: a merge is neither a string nor a pair of strings");
  }
  return {merge[0].get<std::string>(), merge[1].get<std::string>()};
}

void RefuseText(const Json& model, const std::string& key) {
  const Json* member = FindMember(model, key);
  if (member != nullptr && *member != "") {
    Fail(ErrorKind::kUnsupported, "model: {} is not supported", key);
  }
}

void ReadBpe(const Json& model, TokenizerParts* parts) {
  RefuseText(model, "continuing_subword_prefix");
  RefuseText(model, "end_of_word_suffix");
  const Json* dropout = FindMember(model, "dropout");
  if (dropout != nullptr && *dropout != 0) {
    Fail(ErrorKind::kUnsupported, "model: dropout makes tokens random and is not supported");
  }
  ReadBpeVocabulary(model, parts->pieces.get());

  BpeOptions options;
  options.byte_level = parts->byte_level;
  options.byte_fallback = GetBool(model, "byte_fallback", false, "model");
  options.ignore_merges = GetBool(model, "ignore_merges", false, "model");
  options.fuse_unk = GetBool(model, "fuse_unk", false, "model");
  if (FindMember(model, "unk_token") != nullptr) {
    const std::string unk = GetString(model, "unk_token", "model");
    options.unk_id = parts->pieces->Find(unk);
    if (options.unk_id < 0 && !options.byte_level) {
      Fail(ErrorKind::kBadFile, "model: unk_token \"{}\" is not in the vocabulary", unk);
    }
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (const Json& merge : GetArray(model, "merges", "model")) {
    merges.push_back(ReadMerge(merge));
  }
  std::unique_ptr<Bpe> bpe = Bpe::FromMerges(*parts->pieces, merges, options);
  parts->facts.kind = options.byte_level ? "byte-level BPE" : "SentencePiece BPE";
  parts->facts.merges = bpe->merge_count();
  parts->model = std::move(bpe);
}

void ReadUnigram(const Json& model, TokenizerParts* parts) {
  if (parts->byte_level) {
    Fail(ErrorKind::kUnsupported, "model Unigram after a ByteLevel pre_tokenizer");
  }
  const Json& vocab = GetArray(model, "vocab", "model");
  if (vocab.size() >= static_cast<size_t>(PieceTable::kMaxIds)) {
    Fail(ErrorKind::kBadFile, "model: {} pieces are too many", vocab.size());
  }
  std::vector<double> scores;
  for (const Json& entry : vocab) {
    const bool well_formed = entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                             entry[1].is_number() && std::isfinite(entry[1].get<double>());
    if (!well_formed) {
      Fail(ErrorKind::kBadFile, "model: piece {} of vocab is not a string and a finite score",
           scores.size());
    }
    parts->pieces->Add(entry[0].get_ref<const std::string&>(), static_cast<int32_t>(scores.size()));
    scores.push_back(entry[1].get<double>());
  }
  UnigramOptions options;
  options.byte_fallback = GetBool(model, "byte_fallback", false, "model");
  if (const Json* unk = FindMember(model, "unk_id")) {
    options.unk_id =
        static_cast<int32_t>(GetIndex(*unk, static_cast<int64_t>(scores.size()), "model unk_id"));
  }
  const std::vector<bool> usable(scores.size(), true);
  parts->facts.kind = "unigram";
  parts->model = std::make_unique<Unigram>(*parts->pieces, std::move(scores), usable, options);
}

void ReadModel(const Json& root, TokenizerParts* parts) {
  const Json& model = GetMember(root, "model", "tokenizer.json");
  // Old files do not name the type.
  const bool old_bpe = FindMember(model, "type") == nullptr && FindMember(model, "merges");
  const std::string type = old_bpe ? "BPE" : GetString(model, "type", "model");
  if (type == "BPE") {
    ReadBpe(model, parts);
  } else if (type == "Unigram") {
    ReadUnigram(model, parts);
  } else {
    Fail(ErrorKind::kUnsupported, "the tokenizer model \"{}\" is not supported", type);
  }
}

AddedToken ReadAddedToken(const Json& json) {
  const std::string where = "added_tokens";
  AddedToken token;
  token.content = GetString(json, "content", where);
  token.id = static_cast<int32_t>(GetIndex(GetMember(json, "id", where), PieceTable::kMaxIds,
                                           "the id of added token \"" + token.content + "\""));
  token.single_word = GetBool(json, "single_word", where);
  token.lstrip = GetBool(json, "lstrip", where);
  token.rstrip = GetBool(json, "rstrip", where);
  token.normalized = GetBool(json, "normalized", where);
  token.special = GetBool(json, "special", where);
  return token;
}

void ReadAddedTokens(const Json& root, TokenizerParts* parts) {
  const Json* list = FindMember(root, "added_tokens");
  if (list == nullptr) return;
  if (!list->is_array()) Fail(ErrorKind::kBadFile, "\"added_tokens\" is not a list");
  std::set<int32_t> ids;
  std::set<std::string> contents;
  for (const Json& json : *list) {
    AddedToken token = ReadAddedToken(json);
    if (token.content.empty()) continue;  // as Hugging Face's library does
    const int32_t known = parts->pieces->Find(token.content);
    if (known >= 0 && known != token.id) {
      Fail(ErrorKind::kBadFile, "added token \"{}\" has id {}, but {} in the vocabulary",
           token.content, token.id, known);
    }
    if (known < 0 && parts->pieces->Has(token.id)) {
      Fail(ErrorKind::kBadFile, "added token \"{}\" has id {}, which is \"{}\" in the vocabulary",
           token.content, token.id, parts->pieces->Piece(token.id));
    }
    if (!ids.insert(token.id).second || !contents.insert(token.content).second) {
      Fail(ErrorKind::kBadFile, "added token \"{}\" (id {}): its text or id is there twice",
           token.content, token.id);
    }
    parts->added_tokens.push_back(std::move(token));
  }
}

// One side of a template.
void AppendTemplateToken(const Json& special, const Json& known, std::vector<int32_t>* side) {
  const std::string where = "post_processor TemplateProcessing";
  const std::string name = GetString(special, "id", where);
  const Json& token = GetMember(known, name, where + " special_tokens");
  for (const Json& id : GetArray(token, "ids", where + " special_tokens")) {
    side->push_back(static_cast<int32_t>(GetIndex(id, PieceTable::kMaxIds, where)));
  }
}

void ReadTemplate(const Json& json, TokenizerParts* parts) {
  const std::string where = "post_processor TemplateProcessing";
  bool behind = false;
  for (const Json& item : GetArray(json, "single", where)) {
    if (FindMember(item, "Sequence") != nullptr) {
      if (behind) Fail(ErrorKind::kUnsupported, "{} that repeats the text", where);
      behind = true;
    } else {
      AppendTemplateToken(GetMember(item, "SpecialToken", where),
                          GetMember(json, "special_tokens", where),
                          behind ? &parts->suffix : &parts->prefix);
    }
  }
  if (!behind) Fail(ErrorKind::kBadFile, "{} that leaves out the text", where);
}

// ["<s>", 0]
int32_t ReadFrameToken(const Json& json, const std::string& key, const std::string& where) {
  const Json& pair = GetArray(json, key, where);
  if (pair.size() != 2) Fail(ErrorKind::kBadFile, "{}: \"{}\" is not a pair", where, key);
  return static_cast<int32_t>(GetIndex(pair[1], PieceTable::kMaxIds, where + " " + key));
}

void ReadPostProcessor(const Json* json, TokenizerParts* parts) {
  if (json == nullptr) return;
  const std::string type = GetString(*json, "type", "post_processor");
  const std::string where = "post_processor " + type;
  if (type == "Sequence") {
    for (const Json& step : GetArray(*json, "processors", where)) ReadPostProcessor(&step, parts);
  } else if (type == "TemplateProcessing") {
    ReadTemplate(*json, parts);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    parts->prefix.push_back(ReadFrameToken(*json, "cls", where));
    parts->suffix.push_back(ReadFrameToken(*json, "sep", where));
  } else if (type != "ByteLevel") {  // which only trims offsets
    Fail(ErrorKind::kUnsupported, "post_processor \"{}\" is not supported", type);
  }
}

// tokenizer_config.json: a string, an object with "content", or null.
int32_t ReadNamedToken(const Json& config, const std::string& key, const TokenizerParts& parts) {
  const Json* member = FindMember(config, key);
  if (member == nullptr) return -1;
  const std::string content = member->is_object()
                                  ? GetString(*member, "content", "tokenizer_config.json " + key)
                                  : GetString(config, key, "tokenizer_config.json");
  const int32_t id = TokenIdIn(parts, content);
  if (id < 0) {
    Fail(ErrorKind::kBadFile, "tokenizer_config.json: {} \"{}\" is not a token of tokenizer.json",
         key, content);
  }
  return id;
}

// transformers' LlamaTokenizerFast builds the frame anew from add_bos_token (true when missing)
// and add_eos_token; other classes do so only where the file says it.
void ApplyFlag(const Json& config, const std::string& key, bool llama_default, bool is_llama,
               int32_t id, std::vector<int32_t>* side) {
  const bool given = FindMember(config, key) != nullptr;
  if (!given && !is_llama) return;
  side->clear();
  if (!GetBool(config, key, llama_default, "tokenizer_config.json")) return;
  if (id < 0) {
    Fail(ErrorKind::kBadFile, "tokenizer_config.json: {} is {}, but there is no such token", key,
         given ? "true" : "true by default");
  }
  side->push_back(id);
}

void ReadConfig(const Vocabulary& vocabulary, TokenizerParts* parts) {
  const bool present = !vocabulary.tokenizer_config_json.empty();
  const Json config = present ? ParseJson(vocabulary.tokenizer_config_json, "tokenizer_config.json")
                              : Json::object();
  if (!config.is_object()) Fail(ErrorKind::kBadFile, "tokenizer_config.json is not an object");
  parts->bos_id = ReadNamedToken(config, "bos_token", *parts);
  parts->eos_id = ReadNamedToken(config, "eos_token", *parts);
  // What the model's other files say counts where this one is silent.
  const auto fall_back = [&](const char* key, int32_t other, int32_t* id) {
    if (!config.contains(key) && other >= 0) *id = other;
  };
  fall_back("bos_token", vocabulary.bos_id, &parts->bos_id);
  fall_back("eos_token", vocabulary.eos_id, &parts->eos_id);
  const Json* name = FindMember(config, "tokenizer_class");
  const bool is_llama =
      name != nullptr && (*name == "LlamaTokenizerFast" || *name == "LlamaTokenizer");
  // The class's own defaults.
  if (is_llama && !config.contains("bos_token") && parts->bos_id < 0) {
    parts->bos_id = TokenIdIn(*parts, "<s>");
  }
  if (is_llama && !config.contains("eos_token") && parts->eos_id < 0) {
    parts->eos_id = TokenIdIn(*parts, "</s>");
  }
  ApplyFlag(config, "add_bos_token", true, is_llama, parts->bos_id, &parts->prefix);
  ApplyFlag(config, "add_eos_token", false, is_llama, parts->eos_id, &parts->suffix);
  if (!config.contains("bos_token") && parts->bos_id < 0 && !parts->prefix.empty()) {
    parts->bos_id = parts->prefix.front();
  }
  if (!config.contains("eos_token") && parts->eos_id < 0 && !parts->suffix.empty()) {
    parts->eos_id = parts->suffix.back();
  }
}

}  // namespace

TokenizerParts ReadTokenizerJson(const Json& root, const Vocabulary& vocabulary) {
  if (!root.is_object()) Fail(ErrorKind::kBadFile, "the file is not an object");
  const Json* version = FindMember(root, "version");
  if (version != nullptr && *version != "1.0") {
    Fail(ErrorKind::kUnsupported, "only version \"1.0\" is supported");
  }
  TokenizerParts parts;
  ReadNormalizer(FindMember(root, "normalizer"), &parts.normalizer);
  ReadPreTokenizer(FindMember(root, "pre_tokenizer"), &parts.pre_tokenizer, &parts.byte_level);
  ReadDecoder(FindMember(root, "decoder"), &parts.decoder);
  ReadModel(root, &parts);
  ReadAddedTokens(root, &parts);
  ReadPostProcessor(FindMember(root, "post_processor"), &parts);
  ReadConfig(vocabulary, &parts);
  parts.facts.pre_tokenizer = "tokenizer.json";
  return parts;
}

}  // namespace hadal
