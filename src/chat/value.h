// The values a template computes with. Python's semantics over plain, trivially copyable handles:
// everything on the heap belongs to the Runtime of one rendering and dies with it, so aliasing and
// cycles need no counting.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chat/marked_text.h"

namespace hadal::jinja {

class Dict;
struct Cycler;
struct Function;
struct List;
struct Loop;
struct Macro;
struct Method;

enum class Type : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kIterator,  // what lazy filters return: a list that is always true
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
  kCycler,
  kJoiner,
};

struct Value {
  Type type = Type::kUndefined;
  bool data = false;  // numbers and booleans: computed from data
  bool safe = false;  // strings: made by `safe` or `escape`; what is added to them gets escaped
  union {
    int64_t integer = 0;       // kBool, kInt
    double real;               // kFloat
    const MarkedText* string;  // kString; kUndefined: what is missing, or null
    List* list;                // kList, kTuple, kIterator
    Dict* dict;                // kDict, kNamespace
    Loop* loop;
    const Macro* macro;
    const Function* function;
    const Method* method;
    Cycler* cycler;  // kCycler, kJoiner
  };

  static Value None() { return Of(Type::kNone); }
  static Value Bool(bool b, bool is_data = false) {
    Value v = Of(Type::kBool, is_data);
    v.integer = b ? 1 : 0;
    return v;
  }
  static Value Int(int64_t i, bool is_data = false) {
    Value v = Of(Type::kInt, is_data);
    v.integer = i;
    return v;
  }
  static Value Float(double d, bool is_data = false) {
    Value v = Of(Type::kFloat, is_data);
    v.real = d;
    return v;
  }
  static Value String(const MarkedText* s) {
    Value v = Of(Type::kString);
    v.string = s;
    return v;
  }
  static Value Of(Type type, bool is_data = false) {
    Value v;
    v.type = type;
    v.data = is_data;
    return v;
  }

  bool Is(Type t) const { return type == t; }
  bool IsUndefined() const { return type == Type::kUndefined; }
  bool IsNone() const { return type == Type::kNone; }
  bool IsString() const { return type == Type::kString; }
  bool IsDict() const { return type == Type::kDict; }
  // Python's bool is an int.
  bool IsInteger() const { return type == Type::kInt || type == Type::kBool; }
  bool IsNumber() const { return IsInteger() || type == Type::kFloat; }
  bool IsSequence() const {
    return type == Type::kList || type == Type::kTuple || type == Type::kIterator;
  }
  double AsDouble() const { return type == Type::kFloat ? real : static_cast<double>(integer); }
  std::string_view Text() const { return string->text; }
};

struct List {
  std::vector<Value> items;
};

// Insertion-ordered, keyed by any hashable value.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  // The pointers stay valid until the next change. An unhashable key is never found.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // False when the key is not hashable.
  bool Set(const Value& key, const Value& value);
  bool Erase(const Value& key);
  void Clear();
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static constexpr size_t kLinear = 8;  // up to here a scan is cheaper than the index

  const Value* FindCanonical(const std::string& key) const;
  void Reindex();

  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // canonical key -> entry; empty while small
};

// Equal keys (1, 1.0 and True among them) have equal canonical forms. False when not hashable.
bool CanonicalKey(const Value& key, std::string& out, int depth = 0);

// Python's name of the type, for messages: "str", "NoneType", ...
const char* TypeName(const Value& value);

// Python's bool(value).
bool Truthy(const Value& value);

// Whether a value that is printed or turned into text carries data.
bool CarriesData(const Value& value);

}  // namespace hadal::jinja
