#include "tokenizer/decoder.h"

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"

namespace hadal {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that a token like "<0x0A>" stands for, or -1.
int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return -1;
  const int high = HexDigit(token[3]);
  const int low = HexDigit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

std::string BytesOf(std::string_view piece) {
  std::optional<std::string> bytes = DecodeAlphabet(piece);
  return bytes ? *std::move(bytes) : std::string(piece);
}

std::string Replace(const ReplaceStep& step, std::string_view token) {
  std::vector<Span> matches;
  FindReplacements(step, token, &matches);
  std::string out;
  size_t pos = 0;
  for (const Span& match : matches) {
    out.append(token.substr(pos, match.begin - pos)).append(step.content);
    pos = match.end;
  }
  return out.append(token.substr(pos));
}

std::string DecodeMetaspace(const MetaspaceDecode& step, std::string_view token, bool first) {
  std::string out;
  for (size_t pos = 0; pos < token.size();) {
    if (token.substr(pos).starts_with(step.replacement)) {
      if (!first || !step.drop_in_first) out.push_back(' ');
      pos += step.replacement.size();
    } else {
      out.push_back(token[pos++]);
    }
  }
  return out;
}

std::string_view StripToken(const StripDecode& strip, std::string_view token) {
  for (size_t i = 0; i < strip.start && token.starts_with(strip.content); ++i) {
    token.remove_prefix(strip.content.size());
  }
  for (size_t i = 0; i < strip.stop && token.ends_with(strip.content); ++i) {
    token.remove_suffix(strip.content.size());
  }
  return token;
}

}  // namespace

void Decoder::Add(DecoderStep step) {
  bool fused = false;
  if (!stages_.empty()) {
    const Stage& last = stages_.back();
    fused = last.fused_input || std::holds_alternative<FuseDecode>(last.step) ||
            std::holds_alternative<ByteLevelDecode>(last.step);
  }
  stages_.push_back({std::move(step), fused});
}

std::string Decoder::TokenBytes(std::string_view piece, bool added) const {
  std::string bytes(piece);
  for (const Stage& stage : stages_) {
    if (stage.fused_input) break;
    if (std::holds_alternative<ByteLevelDecode>(stage.step)) return added ? bytes : BytesOf(bytes);
    if (std::holds_alternative<ByteFallbackDecode>(stage.step)) {
      const int byte = ByteOfToken(bytes);
      if (byte >= 0) return std::string(1, static_cast<char>(byte));
    }
    if (const auto* replace = std::get_if<ReplaceStep>(&stage.step)) {
      bytes = Replace(*replace, bytes);
    }
    if (const auto* metaspace = std::get_if<MetaspaceDecode>(&stage.step)) {
      bytes = DecodeMetaspace(*metaspace, bytes, false);
    }
    if (const auto* strip = std::get_if<StripDecode>(&stage.step)) {
      bytes = StripToken(*strip, bytes);
    }
  }
  return bytes;
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.stages_.size()) {}

void DecodeStream::Push(std::string_view piece, bool added, std::string* out) {
  std::string valid;
  if (FindInvalidUtf8(piece) != std::string_view::npos) piece = valid = ReplaceInvalidUtf8(piece);
  if (added && !states_.empty() &&
      std::holds_alternative<ByteLevelDecode>(decoder_->stages_[0].step)) {
    GiveBytes(0, piece, out);
  } else {
    Give(0, piece, out);
  }
}

void DecodeStream::Flush(std::string* out) {
  for (size_t stage = 0; stage < states_.size(); ++stage) Finish(stage, out);
}

void DecodeStream::Give(size_t stage, std::string_view token, std::string* out) {
  if (stage == states_.size()) {
    out->append(token);
    return;
  }
  std::visit([&](const auto& step) { Run(step, stage, token, out); },
             decoder_->stages_[stage].step);
  ++states_[stage].tokens;
}

void DecodeStream::Run(const ByteLevelDecode&, size_t stage, std::string_view token,
                       std::string* out) {
  if (decoder_->stages_[stage].fused_input) {
    states_[stage].pending.append(token);  // whether it is in the alphabet shows only at the end
  } else {
    GiveBytes(stage, BytesOf(token), out);
  }
}

void DecodeStream::GiveBytes(size_t stage, std::string_view bytes, std::string* out) {
  std::string& pending = states_[stage].pending;
  pending.append(bytes);
  const size_t complete = CompleteUtf8Prefix(pending);
  if (complete == 0) return;
  Give(stage + 1, ReplaceInvalidUtf8(std::string_view(pending).substr(0, complete)), out);
  pending.erase(0, complete);
}

void DecodeStream::Run(const ByteFallbackDecode&, size_t stage, std::string_view token,
                       std::string* out) {
  if (decoder_->stages_[stage].fused_input) {
    states_[stage].pending.append(token);
    return;
  }
  const int byte = ByteOfToken(token);
  if (byte >= 0) {
    // Whether the run is text shows only at its end.
    states_[stage].pending.push_back(static_cast<char>(byte));
    return;
  }
  EndByteRun(stage, out);
  Give(stage + 1, token, out);
}

void DecodeStream::EndByteRun(size_t stage, std::string* out) {
  const std::string run = std::move(states_[stage].pending);
  states_[stage].pending.clear();
  if (run.empty()) return;
  if (FindInvalidUtf8(run) == std::string_view::npos) {
    Give(stage + 1, run, out);
    return;
  }
  for (size_t i = 0; i < run.size(); ++i) Give(stage + 1, kReplacement, out);
}

void DecodeStream::Run(const FuseDecode&, size_t stage, std::string_view token, std::string* out) {
  Give(stage + 1, token, out);
}

void DecodeStream::Run(const StripDecode& strip, size_t stage, std::string_view token,
                       std::string* out) {
  if (decoder_->stages_[stage].fused_input) {
    StripFused(strip, stage, token, out);
  } else {
    Give(stage + 1, StripToken(strip, token), out);
  }
}

void DecodeStream::StripFused(const StripDecode& strip, size_t stage, std::string_view text,
                              std::string* out) {
  State& state = states_[stage];
  while (!state.started && !text.empty()) {
    if (state.stripped < strip.start && text.starts_with(strip.content)) {
      text.remove_prefix(strip.content.size());
      ++state.stripped;
    } else {
      state.started = true;
    }
  }
  if (strip.stop == 0) {
    if (!text.empty()) Give(stage + 1, text, out);
    return;
  }
  // A run of the character at the end may be the end: it waits.
  state.pending.append(text);
  std::string_view certain = state.pending;
  while (certain.ends_with(strip.content)) certain.remove_suffix(strip.content.size());
  if (certain.empty()) return;
  const std::string ready(certain);
  state.pending.erase(0, ready.size());
  Give(stage + 1, ready, out);
}

void DecodeStream::Run(const MetaspaceDecode& metaspace, size_t stage, std::string_view token,
                       std::string* out) {
  const bool first = decoder_->stages_[stage].fused_input || states_[stage].tokens == 0;
  Give(stage + 1, DecodeMetaspace(metaspace, token, first), out);
}

void DecodeStream::Run(const JoinDecode&, size_t stage, std::string_view token, std::string* out) {
  if (states_[stage].tokens > 0) out->push_back(' ');
  Give(stage + 1, token, out);
}

void DecodeStream::Run(const ReplaceStep& replace, size_t stage, std::string_view token,
                       std::string* out) {
  if (decoder_->stages_[stage].fused_input) {
    states_[stage].pending.append(token);  // a match may lie across two pushes
    return;
  }
  Give(stage + 1, Replace(replace, token), out);
}

void DecodeStream::Finish(size_t stage, std::string* out) {
  const Decoder::Stage& what = decoder_->stages_[stage];
  const std::string pending = states_[stage].pending;
  if (std::holds_alternative<ByteFallbackDecode>(what.step) && !what.fused_input) {
    EndByteRun(stage, out);
    return;
  }
  if (pending.empty()) return;
  states_[stage].pending.clear();
  if (std::holds_alternative<ByteLevelDecode>(what.step)) {
    Give(stage + 1, ReplaceInvalidUtf8(what.fused_input ? BytesOf(pending) : pending), out);
  } else if (std::holds_alternative<ByteFallbackDecode>(what.step)) {
    const int byte = ByteOfToken(pending);
    const std::string text = byte < 0 ? pending : std::string(1, static_cast<char>(byte));
    Give(stage + 1, ReplaceInvalidUtf8(text), out);
  } else if (const auto* strip = std::get_if<StripDecode>(&what.step)) {
    const StripDecode at_end = {strip->content, 0, strip->stop};
    Give(stage + 1, StripToken(at_end, pending), out);
  } else if (const auto* replace = std::get_if<ReplaceStep>(&what.step)) {
    Give(stage + 1, Replace(*replace, pending), out);
  }
}

}  // namespace hadal
