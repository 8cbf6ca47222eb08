#include "chat/value_text.h"

#include <utf8proc.h>

#include <cmath>

#include "base/utf8.h"

namespace hadal::jinja {
namespace {

constexpr int kMaxReprDepth = 100;

// How many characters from `pos` on stand for themselves in any quotes.
size_t PlainRun(std::string_view text, size_t pos) {
  size_t end = pos;
  while (end < text.size() && text[end] >= ' ' && text[end] < 0x7F && text[end] != '\\' &&
         text[end] != '\'' && text[end] != '"') {
    ++end;
  }
  return end - pos;
}

bool IsPrintable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

class ReprWriter {
 public:
  explicit ReprWriter(Runtime& runtime) : runtime_(runtime) {}

  void Write(const Value& value, int depth) {
    if (depth > kMaxReprDepth) runtime_.Raise("a value is nested too deeply to be printed");
    switch (value.type) {
      case Type::kNone:
        Put("None");
        break;
      case Type::kUndefined:
        Put("Undefined");
        break;
      case Type::kBool:
        Put(value.integer != 0 ? "True" : "False");
        break;
      case Type::kInt:
        Put(fmt::format("{}", value.integer));
        break;
      case Type::kFloat:
        Put(FloatText(value.real));
        break;
      case Type::kString:
        WriteString(value.Text());
        break;
      case Type::kList:
      case Type::kIterator:
        WriteSequence(*value.list, "[", "]", depth);
        break;
      case Type::kTuple:
        WriteSequence(*value.list, "(", value.list->items.size() == 1 ? ",)" : ")", depth);
        break;
      case Type::kNamespace:
        Put("<Namespace ");
        [[fallthrough]];
      case Type::kDict:
        WriteDict(*value.dict, depth);
        if (value.Is(Type::kNamespace)) Put(">");
        break;
      default:
        Put(fmt::format("<{}>", TypeName(value)));
        break;
    }
  }

  std::string Take() { return std::move(out_); }

 private:
  void Put(std::string_view text) {
    runtime_.Memory(text.size());
    runtime_.Work(1 + text.size() / 16);
    out_ += text;
  }

  void WriteSequence(const List& list, std::string_view open, std::string_view close, int depth) {
    Put(open);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i != 0) Put(", ");
      Write(list.items[i], depth + 1);
    }
    Put(close);
  }

  void WriteDict(const Dict& dict, int depth) {
    Put("{");
    bool first = true;
    for (const Dict::Entry& entry : dict.entries()) {
      if (!first) Put(", ");
      first = false;
      Write(entry.key, depth + 1);
      Put(": ");
      Write(entry.value, depth + 1);
    }
    Put("}");
  }

  void WriteString(std::string_view text) {
    const bool single =
        text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
    const char quote = single ? '\'' : '"';
    std::string piece(1, quote);
    for (size_t pos = 0; pos < text.size();) {
      const size_t run = PlainRun(text, pos);
      piece += text.substr(pos, run);
      pos += run;
      if (run > 4096) {
        Put(piece);
        piece.clear();
      }
      if (pos == text.size()) break;
      const Utf8Char c = DecodeUtf8(text, pos);
      if (c.code == static_cast<char32_t>(quote) || c.code == '\\') {
        piece += '\\';
        piece += static_cast<char>(c.code);
      } else if (c.code == '\n') {
        piece += "\\n";
      } else if (c.code == '\r') {
        piece += "\\r";
      } else if (c.code == '\t') {
        piece += "\\t";
      } else if (IsPrintable(c.code)) {
        piece += text.substr(pos, c.size);
      } else {
        const auto code = static_cast<uint32_t>(c.code);
        piece += code < 0x100     ? fmt::format("\\x{:02x}", code)
                 : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                  : fmt::format("\\U{:08x}", code);
      }
      pos += c.size;
      if (piece.size() > 4096) {
        Put(piece);
        piece.clear();
      }
    }
    piece += quote;
    Put(piece);
  }

  Runtime& runtime_;
  std::string out_;
};

}  // namespace

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Repr(Runtime& runtime, const Value& value) {
  ReprWriter writer(runtime);
  writer.Write(value, 0);
  return writer.Take();
}

void AppendText(Runtime& runtime, const Value& value, TextBuilder& out) {
  if (value.IsString()) {
    out.Append(*value.string);
  } else if (!value.IsUndefined()) {
    out.Append(Repr(runtime, value), CarriesData(value));
  }
}

Value ToText(Runtime& runtime, const Value& value) {
  if (value.IsString()) return value;
  TextBuilder out(runtime);
  AppendText(runtime, value, out);
  return out.Finish();
}

}  // namespace hadal::jinja
