#include "chat/operators.h"

#include <algorithm>
#include <cmath>

#include "chat/text_ops.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

constexpr int kMaxCompareDepth = 100;

std::string_view Symbol(Op op) {
  switch (op) {
    case Op::kAdd:
      return "+";
    case Op::kSubtract:
      return "-";
    case Op::kMultiply:
      return "*";
    case Op::kDivide:
      return "/";
    case Op::kFloorDivide:
      return "//";
    case Op::kModulo:
      return "%";
    case Op::kPower:
      return "**";
    case Op::kLess:
      return "<";
    case Op::kLessEqual:
      return "<=";
    case Op::kGreater:
      return ">";
    case Op::kGreaterEqual:
      return ">=";
    default:
      return "==";
  }
}

[[noreturn]] void RaiseOverflow(Runtime& runtime) {
  runtime.Raise("an integer does not fit into 64 bits");
}

Value IntegerPower(Runtime& runtime, int64_t base, int64_t exponent, bool data) {
  if (exponent < 0) {
    if (base == 0) runtime.Raise("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)), data);
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
      RaiseOverflow(runtime);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) RaiseOverflow(runtime);
  }
  return Value::Int(result, data);
}

Value IntegerArithmetic(Runtime& runtime, Op op, int64_t a, int64_t b, bool data) {
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Op::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Op::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Op::kPower:
      return IntegerPower(runtime, a, b, data);
    default:
      if (b == 0) runtime.Raise("division by zero");
      if (op == Op::kDivide) {
        return Value::Float(static_cast<double>(a) / static_cast<double>(b), data);
      }
      if (b == -1) {  // INT64_MIN / -1 overflows, and % traps with it
        overflow = op == Op::kFloorDivide && __builtin_sub_overflow(int64_t{0}, a, &result);
        break;
      }
      result = op == Op::kFloorDivide ? a / b : a % b;
      if (a % b != 0 && (a < 0) != (b < 0)) result += op == Op::kFloorDivide ? -1 : b;
  }
  if (overflow) RaiseOverflow(runtime);
  return Value::Int(result, data);
}

Value FloatArithmetic(Runtime& runtime, Op op, double a, double b, bool data) {
  switch (op) {
    case Op::kAdd:
      return Value::Float(a + b, data);
    case Op::kSubtract:
      return Value::Float(a - b, data);
    case Op::kMultiply:
      return Value::Float(a * b, data);
    case Op::kPower:
      if (a == 0 && b < 0) runtime.Raise("0.0 cannot be raised to a negative power");
      return Value::Float(std::pow(a, b), data);
    default:
      break;
  }
  if (b == 0) runtime.Raise("float division by zero");
  if (op == Op::kDivide) return Value::Float(a / b, data);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == Op::kModulo) return Value::Float(rest == 0 ? std::copysign(0.0, b) : rest, data);
  const double quotient = (a - rest) / b;
  const double floored = std::floor(quotient);
  return Value::Float(quotient - floored > 0.5 ? floored + 1 : floored, data);
}

Value RepeatSequence(Runtime& runtime, const Value& sequence, int64_t count) {
  const auto n = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (sequence.IsString()) {
    if (sequence.string->empty()) return sequence;
    MarkedText block;  // many copies at once when one is short
    const size_t per_block = 1 + 4096 / sequence.string->size();
    for (size_t i = 0; i < std::min(per_block, n); ++i) block.Append(*sequence.string);
    TextBuilder out(runtime);
    size_t left = n;
    for (; left >= per_block; left -= per_block) out.Append(block);
    out.Append(block, 0, left * sequence.string->size());
    return out.Finish();
  }
  std::vector<Value> items;
  const std::vector<Value> source = sequence.list->items;
  for (size_t i = 0; i < n && !source.empty(); ++i) {
    runtime.Memory(source.size() * sizeof(Value));
    runtime.Work(1 + source.size() / 4);
    items.insert(items.end(), source.begin(), source.end());
  }
  return runtime.NewList(std::move(items), sequence.type);
}

Value AddSequences(Runtime& runtime, const Value& left, const Value& right) {
  if (left.IsString()) {
    const bool safe = left.safe || right.safe;
    const auto part = [&](const Value& v) {
      return safe && !v.safe ? EscapeHtml(runtime, *v.string) : v;
    };
    TextBuilder out(runtime);
    out.Append(*part(left).string);
    out.Append(*part(right).string);
    Value sum = out.Finish();
    sum.safe = safe;
    return sum;
  }
  std::vector<Value> items = left.list->items;
  items.insert(items.end(), right.list->items.begin(), right.list->items.end());
  return runtime.NewList(std::move(items), left.type);
}

bool IsRepeatable(const Value& v) {
  return v.IsString() || v.Is(Type::kList) || v.Is(Type::kTuple);
}

bool EqualLists(Runtime& runtime, const List& a, const List& b, int depth) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Equal(runtime, a.items[i], b.items[i], depth + 1)) return false;
  }
  return true;
}

bool EqualDicts(Runtime& runtime, const Dict& a, const Dict& b, int depth) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const Dict::Entry& entry : a.entries()) {
    const Value* other = b.Find(entry.key);
    if (other == nullptr || !Equal(runtime, entry.value, *other, depth + 1)) return false;
  }
  return true;
}

int OrderNumbers(const Value& a, const Value& b) {
  // long double holds every int64_t and every double.
  const auto wide = [](const Value& v) {
    return v.Is(Type::kFloat) ? static_cast<long double>(v.real)
                              : static_cast<long double>(v.integer);
  };
  return wide(a) < wide(b) ? -1 : wide(a) > wide(b) ? 1 : 0;
}

bool IsNan(const Value& v) {
  return v.Is(Type::kFloat) && std::isnan(v.real);
}

}  // namespace

void RaiseUndefined(Runtime& runtime, const Value& undefined) {
  runtime.Raise("{}", undefined.string == nullptr ? "a value is undefined" : undefined.Text());
}

Value Arithmetic(Runtime& runtime, Op op, const Value& left, const Value& right) {
  if (left.IsUndefined()) RaiseUndefined(runtime, left);
  if (op == Op::kModulo && left.IsString()) return PercentFormat(runtime, *left.string, right);
  if (right.IsUndefined()) RaiseUndefined(runtime, right);
  const bool data = left.data || right.data;
  if (left.IsInteger() && right.IsInteger()) {
    return IntegerArithmetic(runtime, op, left.integer, right.integer, data);
  }
  if (left.IsNumber() && right.IsNumber()) {
    return FloatArithmetic(runtime, op, left.AsDouble(), right.AsDouble(), data);
  }
  if (op == Op::kAdd && left.type == right.type && IsRepeatable(left)) {
    return AddSequences(runtime, left, right);
  }
  if (op == Op::kMultiply && IsRepeatable(left) && right.IsInteger()) {
    return RepeatSequence(runtime, left, right.integer);
  }
  if (op == Op::kMultiply && IsRepeatable(right) && left.IsInteger()) {
    return RepeatSequence(runtime, right, left.integer);
  }
  if (op == Op::kAdd && left.IsString()) {
    runtime.Raise("can only concatenate str (not \"{}\") to str", TypeName(right));
  }
  runtime.Raise("unsupported operand type(s) for {}: '{}' and '{}'", Symbol(op), TypeName(left),
                TypeName(right));
}

Value Negative(Runtime& runtime, const Value& value) {
  if (value.IsUndefined()) RaiseUndefined(runtime, value);
  if (value.Is(Type::kFloat)) return Value::Float(-value.real, value.data);
  if (!value.IsInteger()) runtime.Raise("bad operand type for unary -: '{}'", TypeName(value));
  return IntegerArithmetic(runtime, Op::kSubtract, 0, value.integer, value.data);
}

bool Equal(Runtime& runtime, const Value& a, const Value& b, int depth) {
  runtime.Work(1);
  if (depth > kMaxCompareDepth) runtime.Raise("values are nested too deeply to be compared");
  if (a.IsNumber() && b.IsNumber()) {
    return !IsNan(a) && !IsNan(b) && OrderNumbers(a, b) == 0;
  }
  if (a.type != b.type) return false;
  switch (a.type) {
    case Type::kUndefined:
    case Type::kNone:
      return true;
    case Type::kString:
      if (a.string->size() != b.string->size()) return false;
      runtime.Work(a.string->size() / 64);
      return a.string->text == b.string->text;
    case Type::kList:
    case Type::kTuple:
      return EqualLists(runtime, *a.list, *b.list, depth);
    case Type::kDict:
      return EqualDicts(runtime, *a.dict, *b.dict, depth);
    case Type::kMethod:
      return a.method == b.method;
    default:
      return a.integer == b.integer;
  }
}

int Order(Runtime& runtime, const Value& a, const Value& b, std::string_view op, int depth) {
  runtime.Work(1);
  if (a.IsUndefined()) RaiseUndefined(runtime, a);
  if (b.IsUndefined()) RaiseUndefined(runtime, b);
  if (depth > kMaxCompareDepth) runtime.Raise("values are nested too deeply to be compared");
  if (a.IsNumber() && b.IsNumber()) return OrderNumbers(a, b);
  if (a.IsString() && b.IsString()) {
    runtime.Work(std::min(a.string->size(), b.string->size()) / 64);
    return a.string->text.compare(b.string->text);
  }
  if (a.type == b.type && (a.Is(Type::kList) || a.Is(Type::kTuple))) {
    const size_t common = std::min(a.list->items.size(), b.list->items.size());
    for (size_t i = 0; i < common; ++i) {
      const Value& x = a.list->items[i];
      const Value& y = b.list->items[i];
      if (!Equal(runtime, x, y, depth + 1)) return Order(runtime, x, y, op, depth + 1);
    }
    return a.list->items.size() < b.list->items.size()   ? -1
           : a.list->items.size() > b.list->items.size() ? 1
                                                         : 0;
  }
  runtime.Raise("'{}' not supported between instances of '{}' and '{}'", op, TypeName(a),
                TypeName(b));
}

bool Compare(Runtime& runtime, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEqual:
      return Equal(runtime, a, b);
    case Op::kNotEqual:
      return !Equal(runtime, a, b);
    case Op::kIn:
      return Contains(runtime, b, a);
    case Op::kNotIn:
      return !Contains(runtime, b, a);
    default:
      break;
  }
  const int order = Order(runtime, a, b, Symbol(op));
  if (IsNan(a) || IsNan(b)) return false;
  switch (op) {
    case Op::kLess:
      return order < 0;
    case Op::kLessEqual:
      return order <= 0;
    case Op::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  if (container.IsString()) {
    if (item.IsUndefined()) RaiseUndefined(runtime, item);
    if (!item.IsString()) {
      runtime.Raise("'in <string>' requires string as left operand, not {}", TypeName(item));
    }
    runtime.Work(1 + container.string->size() / 16);
    return container.string->text.find(item.string->text) != std::string::npos;
  }
  if (container.IsDict()) {
    std::string key;
    if (!item.IsUndefined() && !item.IsString() && !CanonicalKey(item, key)) {
      runtime.Raise("unhashable type: '{}'", TypeName(item));
    }
    return container.dict->Find(item) != nullptr;
  }
  if (!container.IsSequence() && !container.IsUndefined()) {
    runtime.Raise("argument of type '{}' is not iterable", TypeName(container));
  }
  if (container.IsUndefined()) return false;
  for (const Value& other : container.list->items) {
    if (Equal(runtime, other, item)) return true;
  }
  return false;
}

int64_t ToInteger(Runtime& runtime, const Value& value, std::string_view what) {
  if (value.IsUndefined()) RaiseUndefined(runtime, value);
  if (!value.IsInteger()) runtime.Raise("{} must be an integer, not {}", what, TypeName(value));
  return value.integer;
}

}  // namespace hadal::jinja
