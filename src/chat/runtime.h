// What one rendering owns: its values, its budget and its place in the template.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "chat/template.h"
#include "chat/value.h"

namespace hadal::jinja {

struct MacroNode;
struct ForNode;
class Runtime;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

using FunctionBody = Value (*)(Runtime&, const Args&);
using MethodBody = Value (*)(Runtime&, const Value& self, const Args&);

struct Function {
  std::string_view name;
  FunctionBody body;
};

struct MethodEntry {
  std::string_view name;
  MethodBody body;
};

// A method bound to its object.
struct Method {
  Value self;
  const MethodEntry* entry;
};

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<int, Value>> variables;  // symbol -> value
  bool captured = false;                         // a macro was defined here and may outlive it
};

struct Macro {
  const MacroNode* node;
  Scope* scope;  // where it was defined
};

struct Loop {
  const ForNode* node = nullptr;
  const List* items = nullptr;
  Scope* scope = nullptr;  // of the statement, for recursive loops
  size_t index = 0;
  int depth = 0;
  std::vector<Value> last_changed;
  bool has_last_changed = false;
};

// cycler(...) and, with one item, joiner(sep).
struct Cycler {
  std::vector<Value> items;
  size_t index = 0;
};

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, std::time_t now) : limits_(limits), now_(now) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Value NewString(MarkedText text);  // charges memory and steps
  Value NewString(std::string_view text, bool data);
  Value AdoptString(MarkedText text);  // already charged by a TextBuilder
  // `begin` and `end` in bytes, with the marks of `source`.
  Value NewSubstring(const MarkedText& source, size_t begin, size_t end);
  Value NewList(std::vector<Value> items, Type type = Type::kList);
  Value NewDict(Type type = Type::kDict);
  Value NewMethod(const Value& self, const MethodEntry* entry);
  Value NewMacro(const MacroNode* node, Scope* scope);
  Value NewCycler(std::vector<Value> items, Type type);
  Value NewUndefined(std::string_view what);
  Loop* NewLoop();
  Scope* NewScope(Scope* parent);

  // dict[key] = value, charged; raises on an unhashable key.
  void SetItem(Dict& dict, const Value& key, const Value& value);
  void Push(List& list, const Value& value);

  // Every loop over something that data or template can make long must pay for it.
  void Work(size_t units) {
    if (units > limits_.steps - steps_) RaiseSteps();
    steps_ += units;
  }
  void Memory(size_t bytes) {
    if (bytes > limits_.memory_bytes - memory_) RaiseMemory();
    memory_ += bytes;
  }
  void CheckOutput(size_t bytes) {
    if (bytes > limits_.output_bytes) RaiseOutput();
  }

  void SetLine(int line) { line_ = line; }
  int line() const { return line_; }
  std::time_t now() const { return now_; }
  int max_depth() const { return limits_.depth; }

  template <typename... A>
  [[noreturn]] void Raise(fmt::format_string<A...> format, A&&... args) const {
    RaiseText(fmt::format(format, std::forward<A>(args)...));
  }

 private:
  [[noreturn]] void RaiseText(std::string message) const;
  [[noreturn]] void RaiseSteps() const;
  [[noreturn]] void RaiseMemory() const;
  [[noreturn]] void RaiseOutput() const;

  TemplateLimits limits_;
  std::time_t now_;
  int line_ = 1;
  size_t steps_ = 0;
  size_t memory_ = 0;
  std::deque<MarkedText> strings_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Method> methods_;
  std::deque<Macro> macros_;
  std::deque<Cycler> cyclers_;
  std::deque<Loop> loops_;
  std::deque<Scope> scopes_;
};

// Builds a text and pays for every byte before it is stored.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}

  void Append(std::string_view bytes, bool data) {
    Pay(bytes.size());
    out_.Append(bytes, data);
  }
  void Append(const MarkedText& text) { Append(text, 0, text.size()); }
  void Append(const MarkedText& text, size_t begin, size_t end) {
    Pay(end - begin);
    out_.Append(text, begin, end);
  }
  void Repeat(std::string_view bytes, size_t count, bool data) {
    if (bytes.empty()) return;
    std::string block;
    const size_t per_block = 1 + 4096 / bytes.size();
    for (size_t i = 0; i < std::min(per_block, count); ++i) block += bytes;
    for (; count >= per_block; count -= per_block) Append(block, data);
    Append(std::string_view(block).substr(0, count * bytes.size()), data);
  }
  size_t size() const { return out_.size(); }
  MarkedText Take() { return std::move(out_); }
  Value Finish() { return runtime_.AdoptString(std::move(out_)); }

 private:
  void Pay(size_t bytes) {
    runtime_.Memory(bytes);
    runtime_.Work(1 + bytes / 16);
  }

  Runtime& runtime_;
  MarkedText out_;
};

// Matches the arguments of a call to parameter names, as Python does; absent ones are null. Raises
// on unknown, repeated or missing arguments. The pointers live as long as `args`.
std::vector<const Value*> BindArgs(Runtime& runtime, std::string_view callee, const Args& args,
                                   std::initializer_list<std::string_view> names,
                                   size_t required = 0);

}  // namespace hadal::jinja
