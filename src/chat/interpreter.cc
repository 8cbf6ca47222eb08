#include "chat/interpreter.h"

#include <utility>

#include "chat/functions.h"
#include "chat/operators.h"
#include "chat/value_text.h"

namespace hadal::jinja {

Interpreter::Interpreter(Runtime& runtime, const Program& program)
    : runtime_(runtime), program_(program), scope_(runtime.NewScope(nullptr)) {
  for (size_t i = 0; i < program.names.size(); ++i) {
    symbols_.emplace(program.names[i], static_cast<int>(i));
    if (const Function* function = FindFunction(program.names[i])) {
      Value value = Value::Of(Type::kFunction);
      value.function = function;
      Set(static_cast<int>(i), value);
    }
  }
  const auto find = [&](std::string_view name) {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? -1 : found->second;
  };
  loop_symbol_ = find("loop");
  caller_symbol_ = find("caller");
  varargs_symbol_ = find("varargs");
  kwargs_symbol_ = find("kwargs");
}

void Interpreter::Define(std::string_view name, const Value& value) {
  if (const auto found = symbols_.find(name); found != symbols_.end()) Set(found->second, value);
}

MarkedText Interpreter::Run() {
  TextBuilder out(runtime_);
  out_ = &out;
  scope_ = runtime_.NewScope(scope_);
  Execute(program_.body);
  return out.Take();
}

void Interpreter::Set(int symbol, const Value& value) {
  if (symbol < 0) return;
  runtime_.Work(1 + scope_->variables.size() / 8);
  for (auto& [other, old] : scope_->variables) {
    if (other == symbol) {
      old = value;
      return;
    }
  }
  const size_t capacity = scope_->variables.capacity();
  if (scope_->variables.size() == capacity) {
    runtime_.Memory((1 + capacity) * sizeof(std::pair<int, Value>));
  }
  scope_->variables.emplace_back(symbol, value);
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  const Depth depth(*this);
  for (const Node& node : body) {
    runtime_.Work(1);
    runtime_.SetLine(node.line);
    const Flow flow = ExecuteNode(node);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteNode(const Node& node) {
  switch (node.kind) {
    case NodeKind::kText:
      out_->Append(node.text);
      CheckOutput();
      break;
    case NodeKind::kOutput:
      Output(node);
      break;
    case NodeKind::kFor:
      ExecuteFor(*node.loop, Evaluate(*node.loop->iterable), 0);
      break;
    case NodeKind::kIf:
      return ExecuteIf(node);
    case NodeKind::kSet:
    case NodeKind::kSetBlock:
      ExecuteSet(node);
      break;
    case NodeKind::kMacro:
      Set(node.macro->symbol, runtime_.NewMacro(node.macro.get(), scope_));
      break;
    case NodeKind::kCall:
      ExecuteCallBlock(node);
      break;
    case NodeKind::kFilter: {
      const Value text = Capture(node.branches[0]);
      AppendText(runtime_, EvaluateFilter(*node.exprs[0], &text), *out_);
      CheckOutput();
      break;
    }
    case NodeKind::kWith:
    case NodeKind::kScope:
      return ExecuteWith(node);
    case NodeKind::kBreak:
      return Flow::kBreak;
    case NodeKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteIf(const Node& node) {
  for (size_t i = 0; i < node.exprs.size(); ++i) {
    if (Truthy(Evaluate(*node.exprs[i]))) return Execute(node.branches[i]);
  }
  return node.branches.size() > node.exprs.size() ? Execute(node.branches.back()) : Flow::kNext;
}

void Interpreter::Output(const Node& node) {
  AppendText(runtime_, Evaluate(*node.exprs[0]), *out_);
  CheckOutput();
}

Value Interpreter::Capture(const Body& body) {
  TextBuilder text(runtime_);
  TextBuilder* const outer = std::exchange(out_, &text);
  Scope* const scope = std::exchange(scope_, runtime_.NewScope(scope_));
  Execute(body);
  out_ = outer;
  scope_ = scope;
  return text.Finish();
}

void Interpreter::ExecuteSet(const Node& node) {
  Value value;
  if (node.kind == NodeKind::kSet) {
    value = Evaluate(*node.exprs[0]);
  } else {
    value = Capture(node.branches[0]);
    if (node.exprs[0] != nullptr) value = EvaluateFilter(*node.exprs[0], &value);
  }
  Assign(*node.targets[0], value);
}

void Interpreter::ExecuteCallBlock(const Node& node) {
  const Value caller = runtime_.NewMacro(node.macro.get(), scope_);
  AppendText(runtime_, EvaluateCall(*node.exprs[0], &caller), *out_);
  CheckOutput();
}

Interpreter::Flow Interpreter::ExecuteWith(const Node& node) {
  std::vector<Value> values;
  for (const ExprPtr& expr : node.exprs) values.push_back(Evaluate(*expr));
  Scope* const scope = std::exchange(scope_, runtime_.NewScope(scope_));
  for (size_t i = 0; i < values.size(); ++i) Assign(*node.targets[i], values[i]);
  const Flow flow = Execute(node.branches[0]);
  scope_ = scope;
  return flow;
}

void Interpreter::Assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) {
    Set(target.symbol, value);
    return;
  }
  if (target.kind == ExprKind::kAttribute) {
    const Value object = Evaluate(*target.children[0]);
    if (!object.Is(Type::kNamespace)) {
      runtime_.Raise("cannot assign attribute on non-namespace object");
    }
    runtime_.SetItem(*object.dict, Value::String(&target.text), value);
    return;
  }
  const std::vector<Value> items = Items(runtime_, value);
  if (items.size() != target.children.size()) {
    runtime_.Raise("{} values to unpack, {} expected", items.size(), target.children.size());
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(*target.children[i], items[i]);
}

const List& Interpreter::FilterItems(const ForNode& node, const List& items) {
  Scope* const scope = std::exchange(scope_, runtime_.NewScope(scope_));
  std::vector<Value> kept;
  for (size_t i = 0; i < items.items.size(); ++i) {
    const Value item = items.items[i];
    Assign(*node.target, item);
    if (Truthy(Evaluate(*node.condition))) kept.push_back(item);
  }
  scope_ = scope;
  return *runtime_.NewList(std::move(kept)).list;
}

void Interpreter::ExecuteFor(const ForNode& node, const Value& iterable, int depth) {
  const List* items = &ItemList(runtime_, iterable);
  if (node.condition != nullptr) items = &FilterItems(node, *items);
  if (items->items.empty()) {
    Scope* const scope = std::exchange(scope_, runtime_.NewScope(scope_));
    Execute(node.otherwise);
    scope_ = scope;
    return;
  }
  Loop* const loop = runtime_.NewLoop();
  loop->node = &node;
  loop->items = items;
  loop->scope = scope_;
  loop->depth = depth;
  ExecuteIterations(node, *loop);
}

void Interpreter::ExecuteIterations(const ForNode& node, Loop& loop) {
  Scope* const outer = scope_;
  Value loop_value = Value::Of(Type::kLoop);
  loop_value.loop = &loop;
  // The body may change the list it walks over, so its size is asked for each time.
  for (; loop.index < loop.items->items.size(); ++loop.index) {
    if (scope_ == outer || scope_->captured) {
      scope_ = runtime_.NewScope(outer);
    } else {
      scope_->variables.clear();
    }
    Set(loop_symbol_, loop_value);
    const Value item = loop.items->items[loop.index];
    Assign(*node.target, item);
    if (Execute(node.body) == Flow::kBreak) break;
  }
  scope_ = outer;
}

}  // namespace hadal::jinja
