// The part of the parser that reads expressions; parser.cc adds the statements.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/ast.h"
#include "chat/lexer.h"

namespace hadal::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)];
  }
  Token Next();
  bool AtOperator(std::string_view op, size_t ahead = 0) const;
  bool AtName(std::string_view name) const;
  bool TakeOperator(std::string_view op);
  bool TakeName(std::string_view name);
  void ExpectOperator(std::string_view op);
  std::string ExpectName();
  bool AtTagEnd() const;
  template <typename... A>
  [[noreturn]] void FailHere(fmt::format_string<A...> format, A&&... args) const {
    FailAt(Peek().line, fmt::format(format, std::forward<A>(args)...));
  }

  // Inline `if` is left to the caller when `conditional` is false (`for x in y if z`).
  ExprPtr ParseExpression(bool conditional = true);
  // One expression, or a tuple without brackets.
  ExprPtr ParseTuple(bool conditional = true);
  // A name, tuple of names, or (when `attributes`) namespace attribute to assign to.
  ExprPtr ParseTarget(bool attributes);
  // Filters behind `input` (null: the text of a block).
  ExprPtr ParseFilters(ExprPtr input, bool first_without_bar);
  std::unique_ptr<CallArgs> ParseCallArgs();

  int Symbol(const std::string& name);
  std::vector<std::string> TakeNames() { return std::move(names_); }
  // How often a symbol was mentioned so far.
  size_t Mentions(int symbol) const { return mentions_[static_cast<size_t>(symbol)]; }

  // Counts nesting while it lives.
  class Nest {
   public:
    explicit Nest(ExpressionParser& parser) : parser_(parser) { parser_.Enter(); }
    ~Nest() { --parser_.nesting_; }
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  [[noreturn]] static void FailAt(int line, std::string_view message);
  void Enter();
  ExprPtr Make(ExprKind kind, int line, std::vector<ExprPtr> children = {});
  void Adopt(Expr& parent, const ExprPtr& child);
  ExprPtr Binary(Op op, int line, ExprPtr left, ExprPtr right);

  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filters);
  ExprPtr ParsePrimary();
  ExprPtr ParseName();
  ExprPtr ParseParenthesis();
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseFilterExpr(ExprPtr expr);
  ExprPtr ParseTest(ExprPtr expr);
  ExprPtr ParseCall(ExprPtr callee);
  std::string DottedName();

  std::vector<Token> tokens_;
  size_t pos_ = 0;
  int max_depth_;
  int nesting_ = 0;
  std::map<std::string, int> symbols_;
  std::vector<std::string> names_;
  std::vector<size_t> mentions_;
};

}  // namespace hadal::jinja
