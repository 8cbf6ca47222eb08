#include "chat/expression_parser.h"

#include <algorithm>
#include <array>

namespace hadal::jinja {
namespace {

constexpr int kMaxNesting = 200;  // brackets and blocks inside each other

std::vector<ExprPtr> One(ExprPtr a) {
  std::vector<ExprPtr> v;
  v.push_back(std::move(a));
  return v;
}

std::vector<ExprPtr> Two(ExprPtr a, ExprPtr b) {
  std::vector<ExprPtr> v = One(std::move(a));
  v.push_back(std::move(b));
  return v;
}

}  // namespace

void ExpressionParser::FailAt(int line, std::string_view message) {
  Fail(ErrorKind::kInvalid, "chat template, line {}: {}", line, message);
}

void ExpressionParser::Enter() {
  if (nesting_ >= kMaxNesting) FailHere("nested deeper than {} levels", kMaxNesting);
  ++nesting_;
}

Token ExpressionParser::Next() {
  Token token = Peek();
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return token;
}

bool ExpressionParser::AtOperator(std::string_view op, size_t ahead) const {
  return Peek(ahead).kind == TokenKind::kOperator && Peek(ahead).text == op;
}

bool ExpressionParser::AtName(std::string_view name) const {
  return Peek().kind == TokenKind::kName && Peek().text == name;
}

bool ExpressionParser::TakeOperator(std::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool ExpressionParser::TakeName(std::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

void ExpressionParser::ExpectOperator(std::string_view op) {
  if (!TakeOperator(op)) FailHere("expected '{}'", op);
}

std::string ExpressionParser::ExpectName() {
  if (Peek().kind != TokenKind::kName) FailHere("expected a name");
  return Next().text;
}

bool ExpressionParser::AtTagEnd() const {
  const TokenKind kind = Peek().kind;
  return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || kind == TokenKind::kEnd;
}

int ExpressionParser::Symbol(const std::string& name) {
  const auto [entry, added] = symbols_.emplace(name, static_cast<int>(names_.size()));
  if (added) {
    names_.push_back(name);
    mentions_.push_back(0);
  }
  ++mentions_[static_cast<size_t>(entry->second)];
  return entry->second;
}

ExprPtr ExpressionParser::Make(ExprKind kind, int line, std::vector<ExprPtr> children) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  expr->children = std::move(children);
  for (const ExprPtr& child : expr->children) Adopt(*expr, child);
  return expr;
}

void ExpressionParser::Adopt(Expr& parent, const ExprPtr& child) {
  if (child == nullptr) return;
  parent.depth = std::max(parent.depth, child->depth + 1);
  if (parent.depth > max_depth_ / 2) FailHere("an expression is longer than we can run");
}

ExprPtr ExpressionParser::Binary(Op op, int line, ExprPtr left, ExprPtr right) {
  ExprPtr expr = Make(ExprKind::kBinary, line, Two(std::move(left), std::move(right)));
  expr->op = op;
  return expr;
}

ExprPtr ExpressionParser::ParseExpression(bool conditional) {
  const Nest nest(*this);
  const int line = Peek().line;
  ExprPtr value = ParseOr();
  while (conditional && TakeName("if")) {
    std::vector<ExprPtr> parts = One(std::move(value));
    parts.push_back(ParseOr());
    parts.push_back(TakeName("else") ? ParseExpression() : nullptr);
    value = Make(ExprKind::kConditional, line, std::move(parts));
  }
  return value;
}

ExprPtr ExpressionParser::ParseTuple(bool conditional) {
  const int line = Peek().line;
  ExprPtr first = ParseExpression(conditional);
  if (!AtOperator(",")) return first;
  std::vector<ExprPtr> items = One(std::move(first));
  while (TakeOperator(",")) {
    if (AtTagEnd() || AtOperator(")") || AtOperator("]") || AtOperator("=")) break;
    items.push_back(ParseExpression(conditional));
  }
  return Make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::ParseTarget(bool attributes) {
  const Nest nest(*this);
  const int line = Peek().line;
  std::vector<ExprPtr> items;
  bool tuple = false;
  do {
    if (AtOperator("=") || AtName("in") || AtTagEnd() || AtOperator(")")) break;
    if (TakeOperator("(")) {
      items.push_back(ParseTarget(attributes));
      ExpectOperator(")");
    } else {
      ExprPtr name = ParseName();
      if (name->kind != ExprKind::kName) FailHere("cannot assign to a constant");
      if (attributes && TakeOperator(".")) {
        name = Make(ExprKind::kAttribute, line, One(std::move(name)));
        name->text.text = ExpectName();
      }
      items.push_back(std::move(name));
    }
    tuple = tuple || AtOperator(",");
  } while (TakeOperator(","));
  if (items.empty()) FailHere("expected a name to assign to");
  if (!tuple) return std::move(items.front());
  return Make(ExprKind::kTuple, line, std::move(items));
}

ExprPtr ExpressionParser::ParseOr() {
  const int line = Peek().line;
  ExprPtr first = ParseAnd();
  if (!AtName("or")) return first;
  std::vector<ExprPtr> items = One(std::move(first));
  while (TakeName("or")) items.push_back(ParseAnd());
  return Make(ExprKind::kOr, line, std::move(items));
}

ExprPtr ExpressionParser::ParseAnd() {
  const int line = Peek().line;
  ExprPtr first = ParseNot();
  if (!AtName("and")) return first;
  std::vector<ExprPtr> items = One(std::move(first));
  while (TakeName("and")) items.push_back(ParseNot());
  return Make(ExprKind::kAnd, line, std::move(items));
}

ExprPtr ExpressionParser::ParseNot() {
  const int line = Peek().line;
  if (!TakeName("not")) return ParseCompare();
  const Nest nest(*this);
  return Make(ExprKind::kNot, line, One(ParseNot()));
}

ExprPtr ExpressionParser::ParseCompare() {
  static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {{
      {"==", Op::kEqual},
      {"!=", Op::kNotEqual},
      {"<", Op::kLess},
      {"<=", Op::kLessEqual},
      {">", Op::kGreater},
      {">=", Op::kGreaterEqual},
  }};
  const int line = Peek().line;
  ExprPtr first = ParseSum();
  std::vector<ExprPtr> items = One(std::move(first));
  std::vector<Op> ops;
  while (true) {
    if (Peek().kind == TokenKind::kOperator) {
      const auto found = std::find_if(kOps.begin(), kOps.end(),
                                      [&](const auto& op) { return op.first == Peek().text; });
      if (found == kOps.end()) break;
      ops.push_back(found->second);
      Next();
    } else if (TakeName("in")) {
      ops.push_back(Op::kIn);
    } else if (AtName("not") && Peek(1).kind == TokenKind::kName && Peek(1).text == "in") {
      Next();
      Next();
      ops.push_back(Op::kNotIn);
    } else {
      break;
    }
    items.push_back(ParseSum());
  }
  if (ops.empty()) return std::move(items.front());
  ExprPtr expr = Make(ExprKind::kCompare, line, std::move(items));
  expr->ops = std::move(ops);
  return expr;
}

ExprPtr ExpressionParser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (AtOperator("+") || AtOperator("-")) {
    const Token op = Next();
    left =
        Binary(op.text == "+" ? Op::kAdd : Op::kSubtract, op.line, std::move(left), ParseConcat());
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  const int line = Peek().line;
  ExprPtr first = ParseProduct();
  if (!AtOperator("~")) return first;
  std::vector<ExprPtr> items = One(std::move(first));
  while (TakeOperator("~")) items.push_back(ParseProduct());
  return Make(ExprKind::kConcat, line, std::move(items));
}

ExprPtr ExpressionParser::ParseProduct() {
  ExprPtr left = ParsePower();
  while (true) {
    const int line = Peek().line;
    Op op;
    if (TakeOperator("*")) {
      op = Op::kMultiply;
    } else if (TakeOperator("/")) {
      op = Op::kDivide;
    } else if (TakeOperator("//")) {
      op = Op::kFloorDivide;
    } else if (TakeOperator("%")) {
      op = Op::kModulo;
    } else {
      return left;
    }
    left = Binary(op, line, std::move(left), ParsePower());
  }
}

// Jinja's `**` groups to the left, unlike Python's.
ExprPtr ExpressionParser::ParsePower() {
  ExprPtr left = ParseUnary(true);
  while (AtOperator("**")) {
    const int line = Next().line;
    left = Binary(Op::kPower, line, std::move(left), ParseUnary(true));
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filters) {
  const Nest nest(*this);
  const int line = Peek().line;
  ExprPtr expr;
  if (TakeOperator("-")) {
    expr = Make(ExprKind::kNegative, line, One(ParseUnary(false)));
  } else if (TakeOperator("+")) {
    expr = Make(ExprKind::kPositive, line, One(ParseUnary(false)));
  } else {
    expr = ParsePrimary();
  }
  expr = ParsePostfix(std::move(expr));
  return with_filters ? ParseFilterExpr(std::move(expr)) : std::move(expr);
}

ExprPtr ExpressionParser::ParseName() {
  const int line = Peek().line;
  const std::string name = ExpectName();
  ExprPtr literal = Make(ExprKind::kLiteral, line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    literal->literal = Value::Bool(name == "true" || name == "True");
    return literal;
  }
  if (name == "none" || name == "None") {
    literal->literal = Value::None();
    return literal;
  }
  ExprPtr expr = Make(ExprKind::kName, line);
  expr->symbol = Symbol(name);
  expr->text.text = name;
  return expr;
}

ExprPtr ExpressionParser::ParsePrimary() {
  const Token& token = Peek();
  const int line = token.line;
  ExprPtr expr = Make(ExprKind::kLiteral, line);
  switch (token.kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      expr->literal.type = Type::kString;
      while (Peek().kind == TokenKind::kString) expr->text.text += Next().text;
      return expr;
    case TokenKind::kInteger:
      expr->literal = Value::Int(Next().integer);
      return expr;
    case TokenKind::kFloat:
      expr->literal = Value::Float(Next().real);
      return expr;
    default:
      break;
  }
  if (AtOperator("(")) return ParseParenthesis();
  if (AtOperator("[")) return ParseList();
  if (AtOperator("{")) return ParseDict();
  if (AtTagEnd()) FailHere("an expression is missing");
  FailHere("unexpected '{}'", token.text);
}

ExprPtr ExpressionParser::ParseParenthesis() {
  const int line = Next().line;
  if (TakeOperator(")")) return Make(ExprKind::kTuple, line);
  ExprPtr expr = ParseTuple();
  ExpectOperator(")");
  return expr;
}

ExprPtr ExpressionParser::ParseList() {
  const int line = Next().line;
  std::vector<ExprPtr> items;
  while (!TakeOperator("]")) {
    if (!items.empty()) {
      ExpectOperator(",");
      if (TakeOperator("]")) break;
    }
    items.push_back(ParseExpression());
  }
  return Make(ExprKind::kList, line, std::move(items));
}

ExprPtr ExpressionParser::ParseDict() {
  const int line = Next().line;
  std::vector<ExprPtr> items;
  while (!TakeOperator("}")) {
    if (!items.empty()) {
      ExpectOperator(",");
      if (TakeOperator("}")) break;
    }
    items.push_back(ParseExpression());
    ExpectOperator(":");
    items.push_back(ParseExpression());
  }
  return Make(ExprKind::kDict, line, std::move(items));
}

ExprPtr ExpressionParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    const int line = Peek().line;
    if (TakeOperator(".")) {
      if (Peek().kind == TokenKind::kInteger) {
        ExprPtr index = Make(ExprKind::kLiteral, line);
        index->literal = Value::Int(Next().integer);
        expr = Make(ExprKind::kItem, line, Two(std::move(expr), std::move(index)));
      } else {
        expr = Make(ExprKind::kAttribute, line, One(std::move(expr)));
        expr->text.text = ExpectName();
      }
    } else if (TakeOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = Peek().line;
  std::vector<ExprPtr> parts = One(std::move(object));
  bool slice = false;
  for (int part = 0; part < 3; ++part) {
    const bool absent = AtOperator(":") || AtOperator("]");
    parts.push_back(absent ? nullptr : part == 0 ? ParseTuple() : ParseExpression());
    if (!TakeOperator(":")) break;
    slice = true;
  }
  if (!slice && parts[1] == nullptr) FailHere("an index is missing");
  ExpectOperator("]");
  if (slice) parts.resize(4);
  return Make(slice ? ExprKind::kSlice : ExprKind::kItem, line, std::move(parts));
}

ExprPtr ExpressionParser::ParseFilterExpr(ExprPtr expr) {
  while (true) {
    if (AtOperator("|")) {
      expr = ParseFilters(std::move(expr), false);
    } else if (AtName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (AtOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

std::string ExpressionParser::DottedName() {
  std::string name = ExpectName();
  while (TakeOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr input, bool first_without_bar) {
  while (first_without_bar || TakeOperator("|")) {
    first_without_bar = false;
    const int line = Peek().line;
    std::vector<ExprPtr> children = One(std::move(input));
    input = Make(ExprKind::kFilter, line, std::move(children));
    input->text.text = DottedName();
    if (AtOperator("(")) {
      input->call = ParseCallArgs();
      for (const ExprPtr& arg : input->call->positional) Adopt(*input, arg);
    }
  }
  return input;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr expr) {
  const int line = Next().line;
  const bool negated = TakeName("not");
  expr = Make(ExprKind::kTest, line, One(std::move(expr)));
  expr->text.text = DottedName();
  const TokenKind kind = Peek().kind;
  const bool literal = kind == TokenKind::kString || kind == TokenKind::kInteger ||
                       kind == TokenKind::kFloat || kind == TokenKind::kName || AtOperator("[") ||
                       AtOperator("{");
  if (AtOperator("(")) {
    expr->call = ParseCallArgs();
  } else if (literal && !AtName("else") && !AtName("or") && !AtName("and")) {
    if (AtName("is")) FailHere("tests cannot be chained with `is`");
    expr->call = std::make_unique<CallArgs>();
    expr->call->positional.push_back(ParsePostfix(ParsePrimary()));
  }
  if (expr->call != nullptr) {
    for (const ExprPtr& arg : expr->call->positional) Adopt(*expr, arg);
  }
  return negated ? Make(ExprKind::kNot, line, One(std::move(expr))) : std::move(expr);
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  const int line = Peek().line;
  ExprPtr expr = Make(ExprKind::kCall, line, One(std::move(callee)));
  expr->call = ParseCallArgs();
  for (const ExprPtr& arg : expr->call->positional) Adopt(*expr, arg);
  return expr;
}

std::unique_ptr<CallArgs> ExpressionParser::ParseCallArgs() {
  ExpectOperator("(");
  auto call = std::make_unique<CallArgs>();
  bool first = true;
  while (!TakeOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (TakeOperator(")")) break;
    }
    first = false;
    if (TakeOperator("**")) {
      call->double_star = ParseExpression();
    } else if (TakeOperator("*")) {
      call->star = ParseExpression();
    } else if (Peek().kind == TokenKind::kName && AtOperator("=", 1)) {
      std::string name = Next().text;
      Next();
      call->named.emplace_back(std::move(name), ParseExpression());
    } else {
      if (!call->named.empty()) FailHere("a positional argument follows a named one");
      call->positional.push_back(ParseExpression());
    }
  }
  return call;
}

}  // namespace hadal::jinja
