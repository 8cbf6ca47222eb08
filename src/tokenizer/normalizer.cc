#include "tokenizer/normalizer.h"

#include "base/utf8.h"

namespace hadal {
namespace {

AlignedText Apply(NormalForm form, AlignedText in) {
  const std::string_view text = in.text();
  // Nearly all text is in normal form already: nothing is copied until a piece changes.
  std::unique_ptr<TextBuilder> out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    bool unchanged = true;
    size_t end = pos + c.size;
    std::string normal;
    if (c.valid) {
      end = NormalizationChunk(text, pos, form, &unchanged);
      if (!unchanged) {
        normal = NormalizeChunk(text.substr(pos, end - pos), form);
        unchanged = normal == text.substr(pos, end - pos);
      }
    }
    if (!unchanged && out == nullptr) {
      out = std::make_unique<TextBuilder>(in);
      out->Copy(0, pos);
    }
    if (!unchanged) {
      out->Put(normal, pos, end);
    } else if (out != nullptr) {
      out->Copy(pos, end);
    }
    pos = end;
  }
  return out == nullptr ? std::move(in) : std::move(*out).Finish();
}

// Rewrites each well-formed character by rewrite(code, builder, begin, end).
template <typename Rewrite>
AlignedText PerCharacter(const AlignedText& in, Rewrite&& rewrite) {
  const std::string_view text = in.text();
  TextBuilder out(in);
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = DecodeUtf8(text, pos);
    if (c.valid) {
      rewrite(c.code, out, pos, pos + c.size);
    } else {
      out.Copy(pos, pos + c.size);
    }
    pos += c.size;
  }
  return std::move(out).Finish();
}

AlignedText Apply(const LowercaseStep&, const AlignedText& in) {
  std::string lower;
  return PerCharacter(in, [&lower](char32_t code, TextBuilder& out, size_t begin, size_t end) {
    lower.clear();
    AppendLowercase(code, lower);
    out.Put(lower, begin, end);
  });
}

AlignedText Apply(const StripAccentsStep&, const AlignedText& in) {
  return PerCharacter(in, [](char32_t code, TextBuilder& out, size_t begin, size_t end) {
    if (!IsMark(code)) out.Copy(begin, end);
  });
}

bool IsDroppedByNmt(char32_t code) {
  return (code >= 0x01 && code <= 0x08) || code == 0x0B || (code >= 0x0E && code <= 0x1F) ||
         code == 0x7F || code == 0x8F || code == 0x9F;
}

bool IsSpaceToNmt(char32_t code) {
  return code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D || code == 0x1680 ||
         (code >= 0x200B && code <= 0x200F) || code == 0x2028 || code == 0x2029 || code == 0x2581 ||
         code == 0xFEFF || code == 0xFFFD;
}

AlignedText Apply(const NmtStep&, const AlignedText& in) {
  return PerCharacter(in, [](char32_t code, TextBuilder& out, size_t begin, size_t end) {
    if (IsDroppedByNmt(code)) return;
    if (IsSpaceToNmt(code)) {
      out.Put(" ", begin, end);
    } else {
      out.Copy(begin, end);
    }
  });
}

AlignedText Apply(const PrependStep& step, AlignedText in) {
  if (in.text().empty()) return in;
  TextBuilder out(in);
  out.Put(step.text, 0, 0);
  out.Copy(0, in.text().size());
  return std::move(out).Finish();
}

AlignedText Apply(const StripStep& step, AlignedText in) {
  const std::string_view text = in.text();
  size_t begin = 0;
  size_t end = text.size();
  if (step.left) {
    while (begin < end) {
      const Utf8Char c = DecodeUtf8(text, begin);
      if (!c.valid || !IsWhiteSpace(c.code)) break;
      begin += c.size;
    }
  }
  if (step.right) {
    // The end of the last character that is not white space.
    size_t last = begin;
    for (size_t pos = begin; pos < end;) {
      const Utf8Char c = DecodeUtf8(text, pos);
      pos += c.size;
      if (!c.valid || !IsWhiteSpace(c.code)) last = pos;
    }
    end = last;
  }
  if (begin == 0 && end == text.size()) return in;
  TextBuilder out(in);
  out.Copy(begin, end);
  return std::move(out).Finish();
}

AlignedText Apply(const ReplaceStep& step, AlignedText in) {
  const std::string_view text = in.text();
  std::vector<Span> matches;
  FindReplacements(step, text, &matches);
  if (matches.empty()) return in;
  TextBuilder out(in);
  size_t pos = 0;
  for (const Span& match : matches) {
    out.Copy(pos, match.begin);
    out.Put(step.content, match.begin, match.end);
    pos = match.end;
  }
  out.Copy(pos, text.size());
  return std::move(out).Finish();
}

}  // namespace

void FindReplacements(const ReplaceStep& step, std::string_view text, std::vector<Span>* matches) {
  if (!step.literal.empty()) {
    for (size_t pos = text.find(step.literal); pos != std::string_view::npos;
         pos = text.find(step.literal, pos + step.literal.size())) {
      matches->push_back(
          {static_cast<uint32_t>(pos), static_cast<uint32_t>(pos + step.literal.size())});
    }
    return;
  }
  Regex::Matcher(step.pattern).FindAllInBytes(text, matches);
}

AlignedText Normalizer::Run(AlignedText text) const {
  for (const NormalizerStep& step : steps_) {
    text = std::visit([&text](const auto& s) { return Apply(s, std::move(text)); }, step);
  }
  return text;
}

}  // namespace hadal
