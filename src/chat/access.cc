// Attributes, items, slices and iteration.
#include <algorithm>

#include "base/utf8.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/text_ops.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

std::string ObjectName(const Value& object) {
  if (object.IsNone()) return "'None'";
  return fmt::format("'{} object'", TypeName(object));
}

Value Missing(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.NewUndefined(
      fmt::format("{} has no attribute '{}'", ObjectName(object), name.substr(0, 200)));
}

Value LoopAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const Loop& loop = *object.loop;
  const auto index = static_cast<int64_t>(loop.index);
  const size_t size = loop.items->items.size();
  const auto length = static_cast<int64_t>(size);
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 >= length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth + 1);
  if (name == "depth0") return Value::Int(loop.depth);
  if (name == "previtem") {
    return index > 0 && loop.index - 1 < size ? loop.items->items[loop.index - 1]
                                              : runtime.NewUndefined("there is no previous item");
  }
  if (name == "nextitem") {
    return loop.index + 1 < size ? loop.items->items[loop.index + 1]
                                 : runtime.NewUndefined("there is no next item");
  }
  if (const MethodEntry* method = FindMethod(object, name)) {
    return runtime.NewMethod(object, method);
  }
  return Missing(runtime, object, name);
}

// The item at `key` or null-like undefined type in `found`.
bool FindItem(Runtime& runtime, const Value& object, const Value& key, Value& found) {
  if (object.IsDict()) {
    runtime.Work(1 + (key.IsString() ? key.string->size() / 16 : 0));
    const Value* value = object.dict->Find(key);
    if (value == nullptr) return false;
    found = *value;
    return true;
  }
  if (!key.IsInteger()) return false;
  int64_t index = key.integer;
  if (object.IsSequence()) {
    const std::vector<Value>& items = object.list->items;
    if (index < 0) index += static_cast<int64_t>(items.size());
    if (index < 0 || index >= static_cast<int64_t>(items.size())) return false;
    found = items[static_cast<size_t>(index)];
    return true;
  }
  if (!object.IsString()) return false;
  const MarkedText& text = *object.string;
  runtime.Work(1 + text.size() / 8);
  const auto length =
      static_cast<int64_t>(IsAscii(text.text) ? text.size() : CountCodePoints(text.text));
  if (index < 0) index += length;
  if (index < 0 || index >= length) return false;
  size_t pos = 0;
  for (int64_t i = 0; i < index; ++i) pos += DecodeUtf8(text.text, pos).size;
  found = runtime.NewSubstring(text, pos, pos + DecodeUtf8(text.text, pos).size);
  return true;
}

bool FindAttribute(Runtime& runtime, const Value& object, std::string_view name, Value& found) {
  if (object.Is(Type::kNamespace)) {
    const Value* value = object.dict->Find(name);
    if (value != nullptr) found = *value;
    return value != nullptr;
  }
  if (object.Is(Type::kTuple) && object.list->items.size() == 2 &&
      (name == "grouper" || name == "list")) {  // what the filter groupby returns
    found = object.list->items[name == "list" ? 1 : 0];
    return true;
  }
  if (object.Is(Type::kCycler) && name == "current") {
    found = object.cycler->items[object.cycler->index];
    return true;
  }
  const MethodEntry* method = FindMethod(object, name);
  if (method == nullptr) return false;
  found = runtime.NewMethod(object, method);
  return true;
}

struct Span {
  int64_t start, stop, step;
};

// Python's slice.indices().
Span Resolve(Runtime& runtime, const SliceBounds& bounds, int64_t length) {
  const auto get = [&](const Value& v, int64_t otherwise) {
    return v.IsNone() ? otherwise : ToInteger(runtime, v, "a slice index");
  };
  Span span{0, 0, get(bounds.step, 1)};
  if (span.step == 0) runtime.Raise("slice step cannot be zero");
  const bool backward = span.step < 0;
  const int64_t low = backward ? -1 : 0;
  const int64_t high = backward ? length - 1 : length;
  const auto clamp = [&](int64_t i) {
    return i < 0 ? std::max(i < -length ? low : i + length, low) : std::min(i, high);
  };
  span.start = bounds.start.IsNone() ? (backward ? high : low) : clamp(get(bounds.start, 0));
  span.stop = bounds.stop.IsNone() ? (backward ? low : high) : clamp(get(bounds.stop, 0));
  return span;
}

template <typename Visit>
void ForEachIndex(Runtime& runtime, const Span& span, const Visit& visit) {
  int64_t i = span.start;
  while (span.step > 0 ? i < span.stop : i > span.stop) {
    runtime.Work(1);
    visit(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, span.step, &i)) break;
  }
}

Value SliceText(Runtime& runtime, const MarkedText& text, const SliceBounds& bounds) {
  const bool ascii = IsAscii(text.text);
  const std::vector<size_t> offsets =
      ascii ? std::vector<size_t>() : CharacterOffsets(runtime, text.text);
  const size_t length = ascii ? text.size() : offsets.size() - 1;
  const auto offset = [&](size_t i) { return ascii ? i : offsets[i]; };
  const Span span = Resolve(runtime, bounds, static_cast<int64_t>(length));
  if (span.step == 1) {
    const auto start = static_cast<size_t>(span.start);
    const auto stop = static_cast<size_t>(std::max(span.start, span.stop));
    return runtime.NewSubstring(text, offset(start), offset(stop));
  }
  TextBuilder out(runtime);
  ForEachIndex(runtime, span, [&](size_t i) { out.Append(text, offset(i), offset(i + 1)); });
  return out.Finish();
}

}  // namespace

Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.IsUndefined()) RaiseUndefined(runtime, object);
  if (object.Is(Type::kLoop)) return LoopAttribute(runtime, object, name);
  Value found;
  if (FindAttribute(runtime, object, name, found)) return found;
  if (object.IsDict()) {
    if (const Value* value = object.dict->Find(name)) return *value;
  }
  return Missing(runtime, object, name);
}

Value GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.IsUndefined()) RaiseUndefined(runtime, object);
  Value found;
  if (FindItem(runtime, object, key, found)) return found;
  if (!key.IsString()) {
    return runtime.NewUndefined(
        fmt::format("{} has no element {}", ObjectName(object),
                    key.IsNumber() || key.IsNone() ? Repr(runtime, key) : TypeName(key)));
  }
  if (object.Is(Type::kLoop)) return LoopAttribute(runtime, object, key.Text());
  if (FindAttribute(runtime, object, key.Text(), found)) return found;
  return Missing(runtime, object, key.Text());
}

Value GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  if (object.IsUndefined()) RaiseUndefined(runtime, object);
  if (object.IsString()) return SliceText(runtime, *object.string, bounds);
  if (!object.IsSequence()) runtime.Raise("'{}' object cannot be sliced", TypeName(object));
  const std::vector<Value>& items = object.list->items;
  const Span span = Resolve(runtime, bounds, static_cast<int64_t>(items.size()));
  std::vector<Value> slice;
  ForEachIndex(runtime, span, [&](size_t i) { slice.push_back(items[i]); });
  return runtime.NewList(std::move(slice), object.type);
}

bool IsIterable(const Value& value) {
  return value.IsUndefined() || value.IsString() || value.IsSequence() || value.IsDict() ||
         value.Is(Type::kLoop);
}

std::vector<Value> Items(Runtime& runtime, const Value& value) {
  std::vector<Value> items;
  if (value.IsUndefined()) return items;
  if (value.IsSequence()) {
    runtime.Memory(value.list->items.size() * sizeof(Value));
    runtime.Work(1 + value.list->items.size() / 4);
    return value.list->items;
  }
  if (value.IsDict()) {
    runtime.Memory(value.dict->entries().size() * sizeof(Value));
    runtime.Work(1 + value.dict->entries().size() / 4);
    for (const Dict::Entry& entry : value.dict->entries()) items.push_back(entry.key);
    return items;
  }
  if (!value.IsString()) runtime.Raise("'{}' object is not iterable", TypeName(value));
  const MarkedText& text = *value.string;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos + DecodeUtf8(text.text, pos).size;
    runtime.Memory(sizeof(Value));
    items.push_back(runtime.NewSubstring(text, pos, end));
    pos = end;
  }
  return items;
}

const List& ItemList(Runtime& runtime, const Value& value) {
  if (value.IsSequence()) return *value.list;
  return *runtime.NewList(Items(runtime, value)).list;
}

size_t Length(Runtime& runtime, const Value& value) {
  switch (value.type) {
    case Type::kUndefined:
      return 0;
    case Type::kString:
      runtime.Work(1 + value.string->size() / 16);
      return CountCodePoints(value.Text());
    case Type::kList:
    case Type::kTuple:
    case Type::kIterator:
      return value.list->items.size();
    case Type::kDict:
      return value.dict->entries().size();
    case Type::kLoop:
      return value.loop->items->items.size();
    default:
      runtime.Raise("object of type '{}' has no len()", TypeName(value));
  }
}

}  // namespace hadal::jinja
