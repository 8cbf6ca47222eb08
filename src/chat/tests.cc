// Jinja's tests: what may follow `is`.
#include <algorithm>
#include <array>

#include "chat/filters.h"
#include "chat/methods.h"
#include "chat/operators.h"

namespace hadal::jinja {
namespace {

using TestBody = bool (*)(Runtime&, const Value&, const Args&);

const Value& Argument(Runtime& runtime, const Args& args) {
  if (args.positional.size() != 1) runtime.Raise("this test needs one argument");
  return args.positional[0];
}

template <Op kOp>
bool CompareTest(Runtime& runtime, const Value& value, const Args& args) {
  return Compare(runtime, kOp, value, Argument(runtime, args));
}

template <Type kType>
bool TypeTest(Runtime&, const Value& value, const Args&) {
  return value.Is(kType);
}

template <bool kWanted>
bool BoolTest(Runtime&, const Value& value, const Args&) {
  return value.Is(Type::kBool) && (value.integer != 0) == kWanted;
}

bool Defined(Runtime&, const Value& value, const Args&) {
  return !value.IsUndefined();
}
bool Number(Runtime&, const Value& value, const Args&) {
  return value.IsNumber();
}
bool Iterable(Runtime&, const Value& value, const Args&) {
  return IsIterable(value);
}
bool Sequence(Runtime&, const Value& value, const Args&) {
  return IsIterable(value) && !value.Is(Type::kIterator) && !value.Is(Type::kLoop);
}

bool Callable(Runtime&, const Value& value, const Args&) {
  return value.IsUndefined() || value.Is(Type::kFunction) || value.Is(Type::kMacro) ||
         value.Is(Type::kMethod) || value.Is(Type::kLoop) || value.Is(Type::kJoiner);
}

bool Remainder(Runtime& runtime, const Value& value, const Value& divisor, int64_t rest) {
  return Equal(runtime, Arithmetic(runtime, Op::kModulo, value, divisor), Value::Int(rest));
}
bool Divisibleby(Runtime& r, const Value& v, const Args& a) {
  return Remainder(r, v, Argument(r, a), 0);
}
bool Even(Runtime& r, const Value& v, const Args&) {
  return Remainder(r, v, Value::Int(2), 0);
}
bool Odd(Runtime& r, const Value& v, const Args&) {
  return Remainder(r, v, Value::Int(2), 1);
}

bool Sameas(Runtime& runtime, const Value& value, const Args& args) {
  const Value& other = Argument(runtime, args);
  if (value.type != other.type) return false;
  if (value.IsNone() || value.IsUndefined()) return true;
  if (value.IsString()) return value.string == other.string || value.Text() == other.Text();
  if (value.Is(Type::kFloat)) return value.real == other.real;
  return value.integer == other.integer;
}

bool CaseTest(Runtime& runtime, const Value& value, const char* method) {
  if (!value.IsString()) return false;
  return Truthy(FindStringMethod(method)->body(runtime, value, {}));
}
bool Lower(Runtime& r, const Value& v, const Args&) {
  return CaseTest(r, v, "islower");
}
bool Upper(Runtime& r, const Value& v, const Args&) {
  return CaseTest(r, v, "isupper");
}

bool FilterTest(Runtime&, const Value& value, const Args&) {
  return value.IsString() && HasFilter(value.Text());
}
bool TestTest(Runtime&, const Value& value, const Args&) {
  return value.IsString() && HasTest(value.Text());
}
bool Escaped(Runtime&, const Value&, const Args&) {
  return false;
}

struct Entry {
  std::string_view name;
  TestBody body;
};

constexpr auto kTests = std::to_array<Entry>({
    {"!=", CompareTest<Op::kNotEqual>},
    {"<", CompareTest<Op::kLess>},
    {"<=", CompareTest<Op::kLessEqual>},
    {"==", CompareTest<Op::kEqual>},
    {">", CompareTest<Op::kGreater>},
    {">=", CompareTest<Op::kGreaterEqual>},
    {"boolean", TypeTest<Type::kBool>},
    {"callable", Callable},
    {"defined", Defined},
    {"divisibleby", Divisibleby},
    {"eq", CompareTest<Op::kEqual>},
    {"equalto", CompareTest<Op::kEqual>},
    {"escaped", Escaped},
    {"even", Even},
    {"false", BoolTest<false>},
    {"filter", FilterTest},
    {"float", TypeTest<Type::kFloat>},
    {"ge", CompareTest<Op::kGreaterEqual>},
    {"greaterthan", CompareTest<Op::kGreater>},
    {"gt", CompareTest<Op::kGreater>},
    {"in", CompareTest<Op::kIn>},
    {"integer", TypeTest<Type::kInt>},
    {"iterable", Iterable},
    {"le", CompareTest<Op::kLessEqual>},
    {"lessthan", CompareTest<Op::kLess>},
    {"lower", Lower},
    {"lt", CompareTest<Op::kLess>},
    {"mapping", TypeTest<Type::kDict>},
    {"ne", CompareTest<Op::kNotEqual>},
    {"none", TypeTest<Type::kNone>},
    {"number", Number},
    {"odd", Odd},
    {"sameas", Sameas},
    {"sequence", Sequence},
    {"string", TypeTest<Type::kString>},
    {"test", TestTest},
    {"true", BoolTest<true>},
    {"undefined", TypeTest<Type::kUndefined>},
    {"upper", Upper},
});

const Entry* FindTest(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace

bool HasTest(std::string_view name) {
  return FindTest(name) != nullptr;
}

bool ApplyTest(Runtime& runtime, std::string_view name, const Value& input, const Args& args) {
  const Entry* test = FindTest(name);
  if (test == nullptr) runtime.Raise("No test named '{}'.", name);
  runtime.Work(1 + (input.IsString() ? input.string->size() / 16 : 0));
  return test->body(runtime, input, args);
}

}  // namespace hadal::jinja
