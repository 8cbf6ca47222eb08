#include "chat/value.h"

#include <fmt/core.h>

#include <cmath>

namespace hadal::jinja {
namespace {

constexpr int kMaxKeyDepth = 16;

void AppendNumberKey(const Value& key, std::string& out) {
  if (key.IsInteger()) {
    out += fmt::format("n{}", key.integer);
    return;
  }
  const double d = key.real;
  const bool integral = std::trunc(d) == d && d >= -9.2e18 && d <= 9.2e18;
  out += integral ? fmt::format("n{}", static_cast<int64_t>(d)) : fmt::format("f{}", d);
}

}  // namespace

bool CanonicalKey(const Value& key, std::string& out, int depth) {
  if (depth > kMaxKeyDepth) return false;
  switch (key.type) {
    case Type::kString:
      out += fmt::format("s{}:", key.string->size());
      out += key.string->text;
      return true;
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
      AppendNumberKey(key, out);
      return true;
    case Type::kNone:
      out += "N";
      return true;
    case Type::kTuple:
      out += fmt::format("t{}(", key.list->items.size());
      for (const Value& item : key.list->items) {
        if (!CanonicalKey(item, out, depth + 1)) return false;
      }
      return true;
    default:
      return false;
  }
}

const Value* Dict::FindCanonical(const std::string& key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &entries_[found->second].value;
  }
  std::string other;
  for (const Entry& entry : entries_) {
    if (entry.key.IsString()) continue;  // Find has another way for those
    other.clear();
    CanonicalKey(entry.key, other);
    if (other == key) return &entry.value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  if (key.IsString()) return Find(key.string->text);
  std::string canonical;
  return CanonicalKey(key, canonical) ? FindCanonical(canonical) : nullptr;
}

const Value* Dict::Find(std::string_view key) const {
  if (!index_.empty()) return FindCanonical(fmt::format("s{}:{}", key.size(), key));
  for (const Entry& entry : entries_) {
    if (entry.key.IsString() && entry.key.string->text == key) return &entry.value;
  }
  return nullptr;
}

bool Dict::Set(const Value& key, const Value& value) {
  std::string canonical;
  if (!CanonicalKey(key, canonical)) return false;
  if (Value* found = const_cast<Value*>(Find(key))) {
    *found = value;
    return true;
  }
  entries_.push_back({key, value});
  if (!index_.empty()) {
    index_.emplace(std::move(canonical), entries_.size() - 1);
  } else if (entries_.size() > kLinear) {
    Reindex();
  }
  return true;
}

bool Dict::Erase(const Value& key) {
  const Value* found = Find(key);
  if (found == nullptr) return false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (&entries_[i].value != found) continue;
    entries_.erase(entries_.begin() + static_cast<ptrdiff_t>(i));
    break;
  }
  if (!index_.empty()) Reindex();
  return true;
}

void Dict::Clear() {
  entries_.clear();
  index_.clear();
}

void Dict::Reindex() {
  index_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string canonical;
    CanonicalKey(entries_[i].key, canonical);
    index_.emplace(std::move(canonical), i);
  }
}

const char* TypeName(const Value& value) {
  switch (value.type) {
    case Type::kUndefined:
      return "Undefined";
    case Type::kNone:
      return "NoneType";
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
    case Type::kString:
      return "str";
    case Type::kList:
      return "list";
    case Type::kTuple:
      return "tuple";
    case Type::kIterator:
      return "generator";
    case Type::kDict:
      return "dict";
    case Type::kNamespace:
      return "Namespace";
    case Type::kLoop:
      return "LoopContext";
    case Type::kMacro:
      return "Macro";
    case Type::kFunction:
      return "function";
    case Type::kMethod:
      return "builtin_function_or_method";
    case Type::kCycler:
      return "Cycler";
    case Type::kJoiner:
      return "Joiner";
  }
  return "object";
}

bool Truthy(const Value& value) {
  switch (value.type) {
    case Type::kUndefined:
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
      return value.integer != 0;
    case Type::kFloat:
      return value.real != 0;
    case Type::kString:
      return !value.string->empty();
    case Type::kList:
    case Type::kTuple:
      return !value.list->items.empty();
    case Type::kDict:
      return !value.dict->entries().empty();
    default:
      return true;
  }
}

bool CarriesData(const Value& value) {
  switch (value.type) {
    case Type::kUndefined:
    case Type::kNone:
      return false;
    case Type::kBool:
    case Type::kInt:
    case Type::kFloat:
      return value.data;
    case Type::kString:
      return value.string->HasData();
    default:
      return true;
  }
}

}  // namespace hadal::jinja
