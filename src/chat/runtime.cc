#include "chat/runtime.h"

namespace hadal::jinja {
namespace {

// What a heap object costs beside its contents; rough, but never too low by much.
constexpr size_t kObjectBytes = 96;

}  // namespace

void Runtime::RaiseText(std::string message) const {
  throw Error(ErrorKind::kInvalid, fmt::format("chat template, line {}: {}", line_, message));
}

void Runtime::RaiseSteps() const {
  Raise("stopped after {} steps: the template loops too long for this conversation", limits_.steps);
}

void Runtime::RaiseMemory() const {
  Raise("stopped: its values need more than {} bytes", limits_.memory_bytes);
}

void Runtime::RaiseOutput() const {
  Raise("stopped: it writes more than {} bytes", limits_.output_bytes);
}

Value Runtime::AdoptString(MarkedText text) {
  Memory(kObjectBytes + text.data_ranges.size() * sizeof(ByteRange));
  strings_.push_back(std::move(text));
  return Value::String(&strings_.back());
}

Value Runtime::NewString(MarkedText text) {
  Memory(text.size());
  Work(1 + text.size() / 16);
  return AdoptString(std::move(text));
}

Value Runtime::NewString(std::string_view text, bool data) {
  TextBuilder builder(*this);
  builder.Append(text, data);
  return builder.Finish();
}

Value Runtime::NewSubstring(const MarkedText& source, size_t begin, size_t end) {
  TextBuilder builder(*this);
  builder.Append(source, begin, end);
  return builder.Finish();
}

Value Runtime::NewList(std::vector<Value> items, Type type) {
  Memory(kObjectBytes + items.size() * sizeof(Value));
  Work(1 + items.size() / 4);
  lists_.push_back({std::move(items)});
  Value v = Value::Of(type);
  v.list = &lists_.back();
  return v;
}

Value Runtime::NewDict(Type type) {
  Memory(kObjectBytes);
  Value v = Value::Of(type);
  v.dict = &dicts_.emplace_back();
  return v;
}

Value Runtime::NewMethod(const Value& self, const MethodEntry* entry) {
  Memory(kObjectBytes);
  methods_.push_back({self, entry});
  Value v = Value::Of(Type::kMethod);
  v.method = &methods_.back();
  return v;
}

Value Runtime::NewMacro(const MacroNode* node, Scope* scope) {
  Memory(kObjectBytes);
  for (Scope* s = scope; s != nullptr && !s->captured; s = s->parent) s->captured = true;
  macros_.push_back({node, scope});
  Value v = Value::Of(Type::kMacro);
  v.macro = &macros_.back();
  return v;
}

Value Runtime::NewCycler(std::vector<Value> items, Type type) {
  Memory(kObjectBytes + items.size() * sizeof(Value));
  Value v = Value::Of(type);
  v.cycler = &cyclers_.emplace_back();
  v.cycler->items = std::move(items);
  return v;
}

Value Runtime::NewUndefined(std::string_view what) {
  Value v = NewString(what, true);
  v.type = Type::kUndefined;
  return v;
}

Loop* Runtime::NewLoop() {
  Memory(sizeof(Loop) + kObjectBytes);
  return &loops_.emplace_back();
}

Scope* Runtime::NewScope(Scope* parent) {
  Memory(sizeof(Scope) + kObjectBytes);
  Scope* scope = &scopes_.emplace_back();
  scope->parent = parent;
  return scope;
}

void Runtime::SetItem(Dict& dict, const Value& key, const Value& value) {
  const size_t key_bytes = key.IsString() ? key.string->size() : 16;
  Memory(kObjectBytes + 2 * key_bytes);
  Work(1 + key_bytes / 16);
  if (!dict.Set(key, value)) Raise("unhashable type: '{}'", TypeName(key));
}

void Runtime::Push(List& list, const Value& value) {
  Memory(2 * sizeof(Value));
  list.items.push_back(value);
}

std::vector<const Value*> BindArgs(Runtime& runtime, std::string_view callee, const Args& args,
                                   std::initializer_list<std::string_view> names, size_t required) {
  std::vector<const Value*> bound(names.size(), nullptr);
  if (args.positional.size() > names.size()) {
    runtime.Raise("{}() takes at most {} arguments ({} given)", callee, names.size(),
                  args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) bound[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != name) ++i;
    if (i == names.size()) {
      runtime.Raise("{}() got an unexpected keyword argument '{}'", callee, name);
    }
    if (bound[i] != nullptr) {
      runtime.Raise("{}() got multiple values for argument '{}'", callee, name);
    }
    bound[i] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (bound[i] == nullptr) {
      runtime.Raise("{}() missing required argument '{}'", callee, names.begin()[i]);
    }
  }
  return bound;
}

}  // namespace hadal::jinja
