#include "chat/parser.h"

#include <algorithm>
#include <initializer_list>

#include "chat/expression_parser.h"

namespace hadal::jinja {
namespace {

using Ends = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  StatementParser(std::string_view source, int max_depth) : parser_(Tokenize(source), max_depth) {}

  std::unique_ptr<const Program> Run() {
    auto program = std::make_unique<Program>();
    program->body = ParseBody({});
    program->names = parser_.TakeNames();
    return program;
  }

 private:
  // Reads up to `{% name` with one of `ends` and past the name; `found` says which.
  Body ParseBody(Ends ends, std::string* found = nullptr) {
    const ExpressionParser::Nest nest(parser_);
    Body body;
    while (true) {
      const Token& token = parser_.Peek();
      const int line = token.line;
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() != 0) parser_.FailHere("`{}` is missing", *(ends.end() - 1));
        return body;
      }
      if (token.kind == TokenKind::kText) {
        Node& node = Add(body, NodeKind::kText, line);
        node.text.text = parser_.Next().text;
      } else if (token.kind == TokenKind::kVariableBegin) {
        parser_.Next();
        Node node = New(NodeKind::kOutput, line);
        node.exprs.push_back(parser_.ParseTuple());
        if (parser_.Peek().kind != TokenKind::kVariableEnd) Unexpected("}}");
        parser_.Next();
        body.push_back(std::move(node));
      } else {
        parser_.Next();
        std::string name = parser_.ExpectName();
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          if (found != nullptr) *found = std::move(name);
          return body;
        }
        body.push_back(ParseStatement(name, line));
      }
    }
  }

  static Node New(NodeKind kind, int line) {
    Node node;
    node.kind = kind;
    node.line = line;
    return node;
  }

  static Node& Add(Body& body, NodeKind kind, int line) {
    body.push_back(New(kind, line));
    return body.back();
  }

  [[noreturn]] void Unexpected(std::string_view wanted) {
    parser_.FailHere("expected '{}' but found '{}'", wanted, parser_.Peek().text);
  }

  void EndTag() {
    if (parser_.Peek().kind != TokenKind::kBlockEnd) Unexpected("%}");
    parser_.Next();
  }

  Body ParseSimpleBody(std::string_view end) {
    EndTag();
    Body body = ParseBody({end});
    EndTag();
    return body;
  }

  Node ParseStatement(const std::string& name, int line) {
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "call") return ParseCallBlock(line);
    if (name == "filter") return ParseFilterBlock(line);
    if (name == "with") return ParseWith(line);
    if (name == "generation") {
      Node node = New(NodeKind::kScope, line);
      node.branches.push_back(ParseSimpleBody("endgeneration"));
      return node;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) parser_.FailHere("`{}` stands outside a loop", name);
      EndTag();
      return New(name == "break" ? NodeKind::kBreak : NodeKind::kContinue, line);
    }
    parser_.FailHere("the tag `{}` is unknown or not supported here", name);
  }

  Node ParseIf(int line) {
    Node node = New(NodeKind::kIf, line);
    std::string end = "elif";
    while (end == "elif") {
      node.exprs.push_back(parser_.ParseTuple());
      EndTag();
      node.branches.push_back(ParseBody({"elif", "else", "endif"}, &end));
    }
    if (end == "else") {
      EndTag();
      node.branches.push_back(ParseBody({"endif"}));
    }
    EndTag();
    return node;
  }

  Node ParseFor(int line) {
    Node node = New(NodeKind::kFor, line);
    node.loop = std::make_unique<ForNode>();
    ForNode& loop = *node.loop;
    loop.target = parser_.ParseTarget(false);
    if (!parser_.TakeName("in")) Unexpected("in");
    loop.iterable = parser_.ParseTuple(false);
    if (parser_.TakeName("if")) loop.condition = parser_.ParseExpression();
    loop.recursive = parser_.TakeName("recursive");
    EndTag();
    std::string end;
    ++loops_;
    loop.body = ParseBody({"else", "endfor"}, &end);
    --loops_;
    if (end == "else") {
      EndTag();
      loop.otherwise = ParseBody({"endfor"});
    }
    EndTag();
    return node;
  }

  Node ParseSet(int line) {
    Node node = New(NodeKind::kSet, line);
    node.targets.push_back(parser_.ParseTarget(true));
    if (parser_.TakeOperator("=")) {
      node.exprs.push_back(parser_.ParseTuple());
      EndTag();
      return node;
    }
    node.kind = NodeKind::kSetBlock;
    node.exprs.push_back(parser_.ParseFilters(nullptr, false));
    node.branches.push_back(ParseSimpleBody("endset"));
    return node;
  }

  void ParseSignature(MacroNode& macro) {
    parser_.ExpectOperator("(");
    while (!parser_.TakeOperator(")")) {
      if (!macro.parameters.empty()) {
        parser_.ExpectOperator(",");
        if (parser_.TakeOperator(")")) break;
      }
      const std::string name = parser_.ExpectName();
      macro.parameters.push_back(parser_.Symbol(name));
      macro.parameter_names.push_back(name);
      if (parser_.TakeOperator("=")) {
        macro.defaults.push_back(parser_.ParseExpression());
      } else if (!macro.defaults.empty()) {
        parser_.FailHere("a parameter without default follows one with a default");
      }
    }
  }

  // The body of a macro is no part of the loops around it.
  void ParseMacroBody(MacroNode& macro, std::string_view end) {
    const int symbols[3] = {parser_.Symbol("varargs"), parser_.Symbol("kwargs"),
                            parser_.Symbol("caller")};
    const size_t before[3] = {parser_.Mentions(symbols[0]), parser_.Mentions(symbols[1]),
                              parser_.Mentions(symbols[2])};
    const int outer = loops_;
    loops_ = 0;
    macro.body = ParseSimpleBody(end);
    loops_ = outer;
    macro.uses_varargs = parser_.Mentions(symbols[0]) > before[0];
    macro.uses_kwargs = parser_.Mentions(symbols[1]) > before[1];
    macro.uses_caller = parser_.Mentions(symbols[2]) > before[2];
  }

  Node ParseMacro(int line) {
    Node node = New(NodeKind::kMacro, line);
    node.macro = std::make_unique<MacroNode>();
    node.macro->name = parser_.ExpectName();
    node.macro->symbol = parser_.Symbol(node.macro->name);
    ParseSignature(*node.macro);
    ParseMacroBody(*node.macro, "endmacro");
    return node;
  }

  Node ParseCallBlock(int line) {
    Node node = New(NodeKind::kCall, line);
    node.macro = std::make_unique<MacroNode>();
    node.macro->name = "caller";
    if (parser_.AtOperator("(")) ParseSignature(*node.macro);
    node.exprs.push_back(parser_.ParseExpression());
    if (node.exprs[0]->kind != ExprKind::kCall) parser_.FailHere("`call` needs a macro call");
    ParseMacroBody(*node.macro, "endcall");
    return node;
  }

  Node ParseFilterBlock(int line) {
    Node node = New(NodeKind::kFilter, line);
    node.exprs.push_back(parser_.ParseFilters(nullptr, true));
    node.branches.push_back(ParseSimpleBody("endfilter"));
    return node;
  }

  Node ParseWith(int line) {
    Node node = New(NodeKind::kWith, line);
    while (!parser_.AtTagEnd()) {
      if (!node.targets.empty()) parser_.ExpectOperator(",");
      node.targets.push_back(parser_.ParseTarget(false));
      parser_.ExpectOperator("=");
      node.exprs.push_back(parser_.ParseExpression());
    }
    node.branches.push_back(ParseSimpleBody("endwith"));
    return node;
  }

  ExpressionParser parser_;
  int loops_ = 0;
};

}  // namespace

std::unique_ptr<const Program> ParseTemplate(std::string_view source, int max_depth) {
  return StatementParser(source, max_depth).Run();
}

}  // namespace hadal::jinja
