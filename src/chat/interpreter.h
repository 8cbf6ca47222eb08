// Walks the tree. One Interpreter renders once.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "chat/ast.h"
#include "chat/runtime.h"

namespace hadal::jinja {

class Interpreter {
 public:
  // Both must outlive the interpreter.
  Interpreter(Runtime& runtime, const Program& program);

  // Gives the template a variable; names it never mentions are ignored.
  void Define(std::string_view name, const Value& value);
  bool Mentions(std::string_view name) const { return symbols_.find(name) != symbols_.end(); }

  MarkedText Run();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Depth;

  // Statements (interpreter.cc).
  Flow Execute(const Body& body);
  Flow ExecuteNode(const Node& node);
  Flow ExecuteIf(const Node& node);
  void Output(const Node& node);
  void CheckOutput() { runtime_.CheckOutput(out_->size()); }
  void ExecuteSet(const Node& node);
  void ExecuteCallBlock(const Node& node);
  Flow ExecuteWith(const Node& node);
  void ExecuteFor(const ForNode& node, const Value& iterable, int depth);
  void ExecuteIterations(const ForNode& node, Loop& loop);
  const List& FilterItems(const ForNode& node, const List& items);
  // The body's text, run in a scope of its own.
  Value Capture(const Body& body);
  void Assign(const Expr& target, const Value& value);
  void Set(int symbol, const Value& value);

  // Expressions (evaluate.cc).
  Value Evaluate(const Expr& expr);
  Value EvaluateName(const Expr& expr);
  Value EvaluateContainer(const Expr& expr);
  Value EvaluateSlice(const Expr& expr);
  Value EvaluateBinary(const Expr& expr);
  Value EvaluateCompare(const Expr& expr);
  Value EvaluateLogic(const Expr& expr);
  Value EvaluateConcat(const Expr& expr);
  Value EvaluateCall(const Expr& expr, const Value* caller);
  Value EvaluateFilter(const Expr& expr, const Value* input);
  Value EvaluateTest(const Expr& expr);
  Args EvaluateArgs(const CallArgs* call);
  Value Call(const Value& callee, const Args& args);
  Value CallMacro(const Macro& macro, const Args& args);
  void BindParameters(const MacroNode& node, const Args& args);
  Value CallLoop(const Loop& loop, const Args& args);

  Runtime& runtime_;
  const Program& program_;
  std::map<std::string_view, int> symbols_;
  int loop_symbol_;
  int caller_symbol_;
  int varargs_symbol_;
  int kwargs_symbol_;
  Scope* scope_;
  TextBuilder* out_ = nullptr;
  int depth_ = 0;
};

// Counts the interpreter's own nesting while it lives.
class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= interpreter.runtime_.max_depth()) {
      interpreter.runtime_.Raise("stopped at {} nested calls and expressions",
                                 interpreter.runtime_.max_depth());
    }
    ++interpreter.depth_;
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Interpreter& interpreter_;
};

}  // namespace hadal::jinja
