// Expressions and calls.
#include <utility>

#include "chat/filters.h"
#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/value_text.h"

namespace hadal::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
  const Depth depth(*this);
  runtime_.Work(1);
  runtime_.SetLine(expr.line);
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.literal.IsString() ? Value::String(&expr.text) : expr.literal;
    case ExprKind::kName:
      return EvaluateName(expr);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return EvaluateContainer(expr);
    case ExprKind::kAttribute:
      return GetAttribute(runtime_, Evaluate(*expr.children[0]), expr.text.text);
    case ExprKind::kItem:
      return EvaluateBinary(expr);
    case ExprKind::kSlice:
      return EvaluateSlice(expr);
    case ExprKind::kCall:
      return EvaluateCall(expr, nullptr);
    case ExprKind::kFilter:
      return EvaluateFilter(expr, nullptr);
    case ExprKind::kTest:
      return EvaluateTest(expr);
    case ExprKind::kNot:
      return Value::Bool(!Truthy(Evaluate(*expr.children[0])), true);
    case ExprKind::kNegative:
      return Negative(runtime_, Evaluate(*expr.children[0]));
    case ExprKind::kPositive: {
      const Value value = Evaluate(*expr.children[0]);
      if (!value.IsNumber()) {
        runtime_.Raise("bad operand type for unary +: '{}'", TypeName(value));
      }
      return value.Is(Type::kBool) ? Value::Int(value.integer, value.data) : value;
    }
    case ExprKind::kBinary:
      return EvaluateBinary(expr);
    case ExprKind::kCompare:
      return EvaluateCompare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr:
      return EvaluateLogic(expr);
    case ExprKind::kConcat:
      return EvaluateConcat(expr);
    case ExprKind::kConditional:
      if (Truthy(Evaluate(*expr.children[1]))) return Evaluate(*expr.children[0]);
      if (expr.children[2] != nullptr) return Evaluate(*expr.children[2]);
      return runtime_.NewUndefined("the inline `if` was false and has no `else`");
  }
  return {};
}

Value Interpreter::EvaluateName(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    runtime_.Work(1 + scope->variables.size() / 8);
    for (const auto& [symbol, value] : scope->variables) {
      if (symbol == expr.symbol) return value;
    }
  }
  return runtime_.NewUndefined(fmt::format("'{}' is undefined", expr.text.text));
}

Value Interpreter::EvaluateContainer(const Expr& expr) {
  if (expr.kind != ExprKind::kDict) {
    std::vector<Value> items;
    for (const ExprPtr& child : expr.children) items.push_back(Evaluate(*child));
    return runtime_.NewList(std::move(items),
                            expr.kind == ExprKind::kList ? Type::kList : Type::kTuple);
  }
  const Value dict = runtime_.NewDict();
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    const Value key = Evaluate(*expr.children[i]);
    runtime_.SetItem(*dict.dict, key, Evaluate(*expr.children[i + 1]));
  }
  return dict;
}

Value Interpreter::EvaluateSlice(const Expr& expr) {
  const Value object = Evaluate(*expr.children[0]);
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const ExprPtr& bound = expr.children[i + 1];
    bounds[i] = bound == nullptr ? Value::None() : Evaluate(*bound);
  }
  return GetSlice(runtime_, object, {bounds[0], bounds[1], bounds[2]});
}

Value Interpreter::EvaluateBinary(const Expr& expr) {
  const Value left = Evaluate(*expr.children[0]);
  const Value right = Evaluate(*expr.children[1]);
  runtime_.SetLine(expr.line);
  if (expr.kind == ExprKind::kItem) return GetItem(runtime_, left, right);
  return Arithmetic(runtime_, expr.op, left, right);
}

Value Interpreter::EvaluateCompare(const Expr& expr) {
  Value left = Evaluate(*expr.children[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = Evaluate(*expr.children[i + 1]);
    runtime_.SetLine(expr.line);
    if (!Compare(runtime_, expr.ops[i], left, right)) return Value::Bool(false, true);
    left = right;
  }
  return Value::Bool(true, true);
}

Value Interpreter::EvaluateLogic(const Expr& expr) {
  const bool stops_at = expr.kind == ExprKind::kOr;
  Value value;
  for (const ExprPtr& child : expr.children) {
    value = Evaluate(*child);
    if (Truthy(value) == stops_at) break;
  }
  return value;
}

Value Interpreter::EvaluateConcat(const Expr& expr) {
  TextBuilder out(runtime_);
  for (const ExprPtr& child : expr.children) AppendText(runtime_, Evaluate(*child), out);
  return out.Finish();
}

Args Interpreter::EvaluateArgs(const CallArgs* call) {
  Args args;
  if (call == nullptr) return args;
  for (const ExprPtr& expr : call->positional) args.positional.push_back(Evaluate(*expr));
  for (const auto& [name, expr] : call->named) args.named.emplace_back(name, Evaluate(*expr));
  if (call->star != nullptr) {
    for (const Value& item : Items(runtime_, Evaluate(*call->star))) {
      args.positional.push_back(item);
    }
  }
  if (call->double_star != nullptr) {
    const Value more = Evaluate(*call->double_star);
    if (!more.IsDict()) runtime_.Raise("argument after ** must be a mapping");
    runtime_.Memory(more.dict->entries().size() * sizeof(args.named[0]));
    for (const Dict::Entry& entry : more.dict->entries()) {
      if (!entry.key.IsString()) runtime_.Raise("keywords must be strings");
      args.named.emplace_back(entry.key.Text(), entry.value);
    }
  }
  return args;
}

Value Interpreter::EvaluateCall(const Expr& expr, const Value* caller) {
  const Value callee = Evaluate(*expr.children[0]);
  Args args = EvaluateArgs(expr.call.get());
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  runtime_.SetLine(expr.line);
  return Call(callee, args);
}

Value Interpreter::EvaluateFilter(const Expr& expr, const Value* input) {
  const Value value = expr.children[0] != nullptr ? (expr.children[0]->kind == ExprKind::kFilter
                                                         ? EvaluateFilter(*expr.children[0], input)
                                                         : Evaluate(*expr.children[0]))
                                                  : *input;
  const Args args = EvaluateArgs(expr.call.get());
  runtime_.SetLine(expr.line);
  return ApplyFilter(runtime_, expr.text.text, value, args);
}

Value Interpreter::EvaluateTest(const Expr& expr) {
  const Value value = Evaluate(*expr.children[0]);
  const Args args = EvaluateArgs(expr.call.get());
  runtime_.SetLine(expr.line);
  return Value::Bool(ApplyTest(runtime_, expr.text.text, value, args), true);
}

Value Interpreter::Call(const Value& callee, const Args& args) {
  switch (callee.type) {
    case Type::kUndefined:
      RaiseUndefined(runtime_, callee);
    case Type::kFunction:
      return callee.function->body(runtime_, args);
    case Type::kMethod: {
      const Method& method = *callee.method;
      if (method.self.IsString()) runtime_.Work(1 + method.self.string->size() / 16);
      return method.entry->body(runtime_, method.self, args);
    }
    case Type::kMacro:
      return CallMacro(*callee.macro, args);
    case Type::kLoop:
      return CallLoop(*callee.loop, args);
    case Type::kJoiner: {
      const bool first = std::exchange(callee.cycler->index, 1) == 0;
      return first ? runtime_.NewString("", false) : callee.cycler->items[0];
    }
    default:
      runtime_.Raise("'{}' object is not callable", TypeName(callee));
  }
}

void Interpreter::BindParameters(const MacroNode& node, const Args& args) {
  const size_t count = node.parameters.size();
  std::vector<const Value*> bound(count, nullptr);
  for (size_t i = 0; i < args.positional.size() && i < count; ++i) bound[i] = &args.positional[i];
  if (args.positional.size() > count && !node.uses_varargs) {
    runtime_.Raise("macro '{}' takes not more than {} argument(s)", node.name, count);
  }
  const Value extra_named = runtime_.NewDict();
  Value caller = runtime_.NewUndefined("no caller defined");
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < count && node.parameter_names[i] != name) ++i;
    if (i < count) {
      if (bound[i] != nullptr) {
        runtime_.Raise("macro '{}' got two values for '{}'", node.name, name);
      }
      bound[i] = &value;
    } else if (name == "caller" && node.uses_caller) {
      caller = value;
    } else if (node.uses_kwargs) {
      runtime_.SetItem(*extra_named.dict, runtime_.NewString(name, false), value);
    } else {
      runtime_.Raise("macro '{}' takes no keyword argument '{}'", node.name, name);
    }
  }
  if (node.uses_caller) Set(caller_symbol_, caller);
  if (node.uses_kwargs) Set(kwargs_symbol_, extra_named);
  if (node.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    Set(varargs_symbol_, runtime_.NewList(std::move(rest), Type::kTuple));
  }
  const size_t first_default = count - node.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    if (bound[i] != nullptr) {
      Set(node.parameters[i], *bound[i]);
    } else if (i >= first_default) {
      Set(node.parameters[i], Evaluate(*node.defaults[i - first_default]));
    } else {
      Set(node.parameters[i], runtime_.NewUndefined(fmt::format("parameter '{}' was not provided",
                                                                node.parameter_names[i])));
    }
  }
}

Value Interpreter::CallMacro(const Macro& macro, const Args& args) {
  const Depth depth(*this);
  Scope* const scope = std::exchange(scope_, runtime_.NewScope(macro.scope));
  BindParameters(*macro.node, args);
  TextBuilder text(runtime_);
  TextBuilder* const outer = std::exchange(out_, &text);
  Execute(macro.node->body);
  out_ = outer;
  scope_ = scope;
  return text.Finish();
}

Value Interpreter::CallLoop(const Loop& loop, const Args& args) {
  if (!loop.node->recursive) runtime_.Raise("the loop is not `recursive`");
  if (args.positional.size() != 1) runtime_.Raise("loop() needs one argument");
  const Depth depth(*this);
  TextBuilder text(runtime_);
  TextBuilder* const outer = std::exchange(out_, &text);
  Scope* const scope = std::exchange(scope_, loop.scope);
  ExecuteFor(*loop.node, args.positional[0], loop.depth + 1);
  out_ = outer;
  scope_ = scope;
  return text.Finish();
}

}  // namespace hadal::jinja
