#include "chat/value_json.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "chat/operators.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

constexpr int kMaxJsonDepth = 150;

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style), out_(runtime) {}

  void Write(const Value& value, int depth) {
    if (depth > kMaxJsonDepth) runtime_.Raise("a value is nested too deeply for JSON");
    switch (value.type) {
      case Type::kNone:
        Put("null");
        break;
      case Type::kBool:
        Put(value.integer != 0 ? "true" : "false");
        break;
      case Type::kInt:
        Put(fmt::format("{}", value.integer));
        break;
      case Type::kFloat:
        Put(FloatJson(value.real));
        break;
      case Type::kString:
        WriteString(value.Text());
        break;
      case Type::kList:
      case Type::kTuple:
      case Type::kIterator:
        WriteList(*value.list, depth);
        break;
      case Type::kDict:
        WriteDict(*value.dict, depth);
        break;
      default:
        runtime_.Raise("Object of type {} is not JSON serializable", TypeName(value));
    }
  }

  Value Finish() { return out_.Finish(); }

 private:
  void Put(std::string_view text) { out_.Append(text, true); }

  static std::string FloatJson(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return FloatText(value);
  }

  void NewLine(int depth) {
    if (!style_.indent.has_value()) return;
    Put("\n");
    for (int i = 0; i < depth; ++i) Put(*style_.indent);
  }

  void WriteList(const List& list, int depth) {
    Put("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i != 0) Put(style_.item_separator);
      NewLine(depth + 1);
      Write(list.items[i], depth + 1);
    }
    if (!list.items.empty()) NewLine(depth);
    Put("]");
  }

  std::string KeyText(const Value& key) {
    if (key.IsString()) return key.string->text;
    if (key.IsNone()) return "null";
    if (key.Is(Type::kBool)) return key.integer != 0 ? "true" : "false";
    if (key.Is(Type::kInt)) return fmt::format("{}", key.integer);
    if (key.Is(Type::kFloat)) return FloatJson(key.real);
    runtime_.Raise("keys must be str, int, float, bool or None, not {}", TypeName(key));
  }

  void WriteDict(const Dict& dict, int depth) {
    std::vector<Dict::Entry> entries = dict.entries();
    runtime_.Work(entries.size());
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
        return Order(runtime_, a.key, b.key) < 0;
      });
    }
    Put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) Put(style_.item_separator);
      NewLine(depth + 1);
      WriteString(KeyText(entries[i].key));
      Put(style_.key_separator);
      Write(entries[i].value, depth + 1);
    }
    if (!entries.empty()) NewLine(depth);
    Put("}");
  }

  static void AppendEscape(char32_t code, std::string& out) {
    const auto unit = [&out](uint32_t u) { out += fmt::format("\\u{:04x}", u); };
    if (code < 0x10000) {
      unit(static_cast<uint32_t>(code));
    } else {
      unit(0xD800 + (static_cast<uint32_t>(code - 0x10000) >> 10));
      unit(0xDC00 + (static_cast<uint32_t>(code - 0x10000) & 0x3FF));
    }
  }

  void WriteString(std::string_view text) {
    std::string piece = "\"";
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      while (pos < text.size() && text[pos] >= ' ' && text[pos] < 0x7F && text[pos] != '"' &&
             text[pos] != '\\') {
        ++pos;
      }
      piece += text.substr(begin, pos - begin);
      if (piece.size() > 4096) {
        Put(piece);
        piece.clear();
      }
      if (pos == text.size()) break;
      const Utf8Char c = DecodeUtf8(text, pos);
      switch (c.code) {
        case '"':
          piece += "\\\"";
          break;
        case '\\':
          piece += "\\\\";
          break;
        case '\n':
          piece += "\\n";
          break;
        case '\r':
          piece += "\\r";
          break;
        case '\t':
          piece += "\\t";
          break;
        case '\b':
          piece += "\\b";
          break;
        case '\f':
          piece += "\\f";
          break;
        default:
          if (c.code < 0x20 || (style_.ensure_ascii && c.code >= 0x7F)) {
            AppendEscape(c.code, piece);
          } else {
            piece += text.substr(pos, c.size);
          }
      }
      pos += c.size;
      if (piece.size() > 4096) {
        Put(piece);
        piece.clear();
      }
    }
    piece += '"';
    Put(piece);
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  TextBuilder out_;
};

}  // namespace

Value FromJson(Runtime& runtime, const OrderedJson& json, const std::string& path, int depth) {
  if (depth > kMaxJsonDepth) runtime.Raise("{} is nested too deeply", path);
  switch (json.type()) {
    case OrderedJson::value_t::boolean:
      return Value::Bool(json.get<bool>(), true);
    case OrderedJson::value_t::number_integer:
      return Value::Int(json.get<int64_t>(), true);
    case OrderedJson::value_t::number_unsigned: {
      const auto number = json.get<uint64_t>();
      if (number > static_cast<uint64_t>(INT64_MAX)) {
        runtime.Raise("{}: the number {} does not fit into 64 bits", path, number);
      }
      return Value::Int(static_cast<int64_t>(number), true);
    }
    case OrderedJson::value_t::number_float:
      return Value::Float(json.get<double>(), true);
    case OrderedJson::value_t::string:
      return runtime.NewString(json.get_ref<const std::string&>(), true);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const OrderedJson& item : json)
        items.push_back(FromJson(runtime, item, path, depth + 1));
      return runtime.NewList(std::move(items));
    }
    case OrderedJson::value_t::object: {
      const Value dict = runtime.NewDict();
      for (const auto& [key, item] : json.items()) {
        runtime.SetItem(*dict.dict, runtime.NewString(key, true),
                        FromJson(runtime, item, path, depth + 1));
      }
      return dict;
    }
    default:
      return Value::None();
  }
}

Value ParseJsonText(Runtime& runtime, std::string_view text) {
  runtime.Work(1 + text.size() / 2);
  runtime.Memory(text.size() * 8);  // the parser's own tree
  OrderedJson json;
  try {
    json = ParseOrderedJson(text, "from_json", kMaxJsonDepth);
  } catch (const Error& error) {
    runtime.Raise("{}", error.message());
  }
  return FromJson(runtime, json, "from_json");
}

Value ToJson(Runtime& runtime, const Value& value, const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  writer.Write(value, 0);
  return writer.Finish();
}

}  // namespace hadal::jinja
