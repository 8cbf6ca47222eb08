// The parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/marked_text.h"
#include "chat/value.h"

namespace hadal::jinja {

struct Expr;
struct Node;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<Node>;

enum class ExprKind : uint8_t {
  kLiteral,      // literal, or text for strings
  kName,         // symbol
  kList,         // children
  kTuple,        // children
  kDict,         // children: key, value, key, value, ...
  kAttribute,    // children[0] . text
  kItem,         // children[0] [children[1]]
  kSlice,        // children[0] [children[1] : children[2] : children[3]], absent ones null
  kCall,         // children[0] ( call )
  kFilter,       // children[0] (null: the block's text) | text ( call )
  kTest,         // children[0] is text ( call )
  kNot,          // children[0]
  kNegative,     // children[0]
  kPositive,     // children[0]
  kBinary,       // op, two children
  kCompare,      // children[0] ops[0] children[1] ops[1] ...
  kAnd,          // children
  kOr,           // children
  kConcat,       // children joined by ~
  kConditional,  // children: value, condition, otherwise (may be null)
};

enum class Op : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *list
  ExprPtr double_star;  // **dict
};

struct Expr {
  ExprKind kind;
  int line = 1;
  int depth = 1;  // of this tree
  Op op = Op::kAdd;
  int symbol = -1;
  Value literal;    // not a string
  MarkedText text;  // string literal; names of attributes, filters, tests
  std::vector<ExprPtr> children;
  std::vector<Op> ops;
  std::unique_ptr<CallArgs> call;
};

enum class NodeKind : uint8_t {
  kText,
  kOutput,
  kFor,
  kIf,
  kSet,
  kSetBlock,
  kMacro,
  kCall,
  kFilter,
  kWith,
  kScope,
  kBreak,
  kContinue,
};

struct ForNode {
  ExprPtr target;
  ExprPtr iterable;
  ExprPtr condition;  // null: none
  bool recursive = false;
  std::vector<Node> body;
  std::vector<Node> otherwise;
};

struct MacroNode {
  std::string name;
  int symbol = -1;
  std::vector<int> parameters;
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
  std::vector<Node> body;
};

struct Node {
  NodeKind kind;
  int line = 1;
  MarkedText text;  // kText
  // kOutput, kSet, kSetBlock: the value or filter (null: none); kFilter: the filter; kCall: the
  // call; kIf: one condition per branch; kWith: the values.
  std::vector<ExprPtr> exprs;
  std::vector<ExprPtr> targets;  // kSet, kSetBlock, kWith
  std::vector<Body> branches;    // kIf: one per condition, and the `else`; others: the body
  std::unique_ptr<ForNode> loop;
  std::unique_ptr<MacroNode> macro;  // kMacro; kCall: the caller
};

// Symbols are indices into `names`.
struct Program {
  Body body;
  std::vector<std::string> names;
};

}  // namespace hadal::jinja
