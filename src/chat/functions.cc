#include "chat/functions.h"

#include <algorithm>
#include <array>

#include "chat/operators.h"
#include "chat/value_text.h"

namespace hadal::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // Jinja's sandbox has the same bound

Value Range(Runtime& runtime, const Args& args) {
  const size_t n = args.positional.size();
  if (n < 1 || n > 3 || !args.named.empty()) runtime.Raise("range expects 1 to 3 arguments");
  int64_t numbers[3] = {0, 0, 1};
  for (size_t i = 0; i < n; ++i) {
    numbers[n == 1 ? 1 : i] = ToInteger(runtime, args.positional[i], "a bound of range");
  }
  const auto [start, stop, step] = numbers;
  if (step == 0) runtime.Raise("range() arg 3 must not be zero");
  std::vector<Value> items;
  const bool data = std::any_of(args.positional.begin(), args.positional.end(),
                                [](const Value& v) { return v.data; });
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) == kMaxRange) {
      runtime.Raise("a range may have at most {} items", kMaxRange);
    }
    items.push_back(Value::Int(i, data));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  runtime.Work(items.size());
  return runtime.NewList(std::move(items));
}

// dict(mapping or pairs, **more); namespace likewise.
Value FillDict(Runtime& runtime, const Args& args, Type type) {
  if (args.positional.size() > 1) runtime.Raise("dict expects at most 1 argument");
  const Value made = runtime.NewDict(type);
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.IsDict()) {
      const std::vector<Dict::Entry> entries = source.dict->entries();
      for (const auto& entry : entries) runtime.SetItem(*made.dict, entry.key, entry.value);
    } else {
      for (const Value& pair : Items(runtime, source)) {
        const std::vector<Value> two = Items(runtime, pair);
        if (two.size() != 2) runtime.Raise("dict needs pairs");
        runtime.SetItem(*made.dict, two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) {
    runtime.SetItem(*made.dict, runtime.NewString(name, false), value);
  }
  return made;
}

Value MakeDict(Runtime& r, const Args& args) {
  return FillDict(r, args, Type::kDict);
}
Value MakeNamespace(Runtime& r, const Args& args) {
  return FillDict(r, args, Type::kNamespace);
}

Value MakeCycler(Runtime& runtime, const Args& args) {
  if (args.positional.empty()) runtime.Raise("at least one item has to be provided");
  return runtime.NewCycler(args.positional, Type::kCycler);
}

Value MakeJoiner(Runtime& runtime, const Args& args) {
  const auto bound = BindArgs(runtime, "joiner", args, {"sep"});
  return runtime.NewCycler({bound[0] == nullptr ? runtime.NewString(", ", false) : *bound[0]},
                           Type::kJoiner);
}

Value RaiseException(Runtime& runtime, const Args& args) {
  const auto bound = BindArgs(runtime, "raise_exception", args, {"message"}, 1);
  throw Error(ErrorKind::kInvalid, ToText(runtime, *bound[0]).string->text);
}

Value StrftimeNow(Runtime& runtime, const Args& args) {
  const auto bound = BindArgs(runtime, "strftime_now", args, {"format"}, 1);
  if (!bound[0]->IsString()) runtime.Raise("strftime_now needs a string");
  const std::string& format = bound[0]->string->text;
  if (format.empty()) return *bound[0];
  const std::time_t now = runtime.now();
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) runtime.Raise("the current time is out of range");
  char text[1024];
  const size_t size = std::strftime(text, sizeof text, format.c_str(), &local);
  if (size == 0) runtime.Raise("strftime_now: the format gives no text, or too much");
  return runtime.NewString(std::string_view(text, size), CarriesData(*bound[0]));
}

constexpr auto kFunctions = std::to_array<Function>({
    {"cycler", MakeCycler},
    {"dict", MakeDict},
    {"joiner", MakeJoiner},
    {"namespace", MakeNamespace},
    {"raise_exception", RaiseException},
    {"range", Range},
    {"strftime_now", StrftimeNow},
});

}  // namespace

const Function* FindFunction(std::string_view name) {
  const auto found = std::find_if(kFunctions.begin(), kFunctions.end(),
                                  [&](const Function& f) { return f.name == name; });
  return found == kFunctions.end() ? nullptr : &*found;
}

}  // namespace hadal::jinja
