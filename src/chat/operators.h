// Python's operators and conversions on values.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "chat/ast.h"
#include "chat/runtime.h"

namespace hadal::jinja {

Value Arithmetic(Runtime& runtime, Op op, const Value& left, const Value& right);
Value Negative(Runtime& runtime, const Value& value);

bool Equal(Runtime& runtime, const Value& a, const Value& b, int depth = 0);
// Negative, 0 or positive; raises when Python could not order the two. `op` is for the message.
int Order(Runtime& runtime, const Value& a, const Value& b, std::string_view op = "<",
          int depth = 0);
bool Compare(Runtime& runtime, Op op, const Value& a, const Value& b);
bool Contains(Runtime& runtime, const Value& container, const Value& item);

// Every item Python would iterate over; dicts give keys. Raises when not iterable.
std::vector<Value> Items(Runtime& runtime, const Value& value);
// The same as a list, which for sequences is their own.
const List& ItemList(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// len(value); raises when there is none.
size_t Length(Runtime& runtime, const Value& value);

// object.name and object[key]; undefined when absent.
Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name);
Value GetItem(Runtime& runtime, const Value& object, const Value& key);
struct SliceBounds {
  Value start, stop, step;  // none when absent
};
Value GetSlice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

int64_t ToInteger(Runtime& runtime, const Value& value, std::string_view what);
[[noreturn]] void RaiseUndefined(Runtime& runtime, const Value& undefined);

}  // namespace hadal::jinja
