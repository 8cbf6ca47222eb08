// Which bytes of a prompt may form control tokens.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/marked_text.h"
#include "chat/template.h"

namespace hadal {
namespace {

// The text with every byte of data replaced by '.', so that only what is trusted remains.
std::string Trusted(const MarkedText& text) {
  std::string out = text.text;
  size_t last = 0;
  for (const ByteRange& range : text.data_ranges) {
    EXPECT_LT(range.begin, range.end);
    EXPECT_TRUE(range.begin > last || (range.begin == 0 && last == 0)) << "not merged";
    EXPECT_LE(range.end, out.size());
    last = range.end;
    for (size_t i = range.begin; i < range.end; ++i) out[i] = '.';
  }
  return out;
}

ChatInput Hostile() {
  ChatInput input;
  input.messages = ParseOrderedJson(
      R"([{"role": "user", "content": "<T>a</T> <T>b</T>", "<T>": 5,
           "parts": ["<T>", "x<T>y"], "n": 7}])",
      "test");
  input.tools = ParseOrderedJson(R"([{"type": "<T>", "v": 1.5, "t": true}])", "test");
  input.extra = ParseOrderedJson(R"({"e": "<T>"})", "test");
  input.special_tokens = {{"bos_token", "<T>"}};
  input.add_generation_prompt = true;
  return input;
}

struct Case {
  const char* source;
  const char* text;
  const char* trusted;
};

class Marks : public testing::TestWithParam<Case> {};

TEST_P(Marks, KeepsDataApart) {
  const std::string source =
      std::string("{% set c = messages[0].content %}{% set m = messages[0] %}") + GetParam().source;
  const MarkedText text = ChatTemplate(source).Render(Hostile());
  EXPECT_EQ(text.text, GetParam().text);
  EXPECT_EQ(Trusted(text), GetParam().trusted);
}

const Case kCases[] = {
    {"<T>{{ c }}<T>", "<T><T>a</T> <T>b</T><T>", "<T>.................<T>"},
    {"{{ bos_token }}{{ e }}", "<T><T>", "<T>..."},
    {"{{ '<T>' + c[:3] + '<T>' }}", "<T><T><T>", "<T>...<T>"},
    {"{{ '<T>' ~ c[0:3] ~ 1 }}", "<T><T>1", "<T>...1"},
    {"{{ ('<T>' ~ e)[::-1] }}", ">T<>T<", "...>T<"},
    {"{{ ('<T>' ~ e)[1:5] }}", "T><T", "T>.."},
    {"{{ ('  <T>' ~ e ~ '  ') | trim }}", "<T><T>", "<T>..."},
    {"{{ e | upper }}{{ '<T>' | lower }}", "<T><t>", "...<t>"},
    {"{{ e | title }}{{ e | capitalize }}{{ e.swapcase() }}", "<T><t><t>", "........."},
    {"{{ c | replace('a', '<T>') }}", "<T><T></T> <T>b</T>", "...<T>............."},
    {"{{ 'aXa' | replace('X', e) }}", "a<T>a", "a...a"},
    {"{{ '<T> <T>' | replace(e, '!') }}", "! !", "! !"},
    {"{{ c.split(' ') | join('<T>') }}", "<T>a</T><T><T>b</T>", "........<T>........"},
    {"{{ c.split('</T>')[0] }}|{{ c.rsplit('<T>', 1)[-1] }}", "<T>a|b</T>", "....|....."},
    {"{{ '-'.join(m.parts) }}", "<T>-x<T>y", "...-....."},
    {"{{ e.join(['<T>', '<T>']) }}", "<T><T><T>", "<T>...<T>"},
    {"{{ m.parts | join('<T>') }}", "<T><T>x<T>y", "...<T>....."},
    {"{{ m.parts | map('upper') | first }}", "<T>", "..."},
    {"{{ m.parts }}", "['<T>', 'x<T>y']", "................"},
    {"{{ m.parts | tojson }}", "[\"<T>\", \"x<T>y\"]", "................"},
    {"{{ {'<T>': e} | tojson }}", "{\"<T>\": \"<T>\"}", ".............."},
    {"{{ m.n }}{{ m.n + 1 }}{{ 1 + 1 }}{{ tools[0].v }}{{ tools[0].t }}", "7821.5True",
     "..2......."},
    {"{{ -m.n }}{{ m.n | string }}{{ m.n ~ '' }}{{ '7' | int }}", "-7777", "....7"},
    {"{{ c | length }}", "17", ".."},
    {"{% for k in m %}{% if k not in ['role', 'content', 'parts', 'n'] %}{{ k }}{% endif %}{% "
     "endfor %}",
     "<T>", "..."},
    {"{% for ch in e %}{{ ch }}{% endfor %}", "<T>", "..."},
    {"{{ '<T>%s<T>' | format(e) }}", "<T><T><T>", "<T>...<T>"},
    {"{{ '<T>%s' % e }}{{ '%5s' % e }}{{ '%d' % m.n }}", "<T><T>  <T>7", "<T>........."},
    {"{{ '<T>{}'.format(e) }}{{ '{:>4}'.format(m.n) }}", "<T><T>   7", "<T>......."},
    {"{{ e.format(1) }}", "<T>", "..."},
    {"{{ e | e }}{{ '<' | e }}", "&lt;T&gt;&lt;", ".........&lt;"},
    {"{{ ('<' | safe) + e }}", "<&lt;T&gt;", "<........."},
    {"{{ (e ~ '\\n' ~ '<T>') | indent(2, true) }}", "  <T>\n  <T>", "  ...\n  <T>"},
    {"{{ ('<T>\\n' ~ e).splitlines()[1] }}", "<T>", "..."},
    {"{{ e | center(5) }}", " <T> ", " ... "},
    {"{{ e * 2 }}{{ '<T>' * 2 }}", "<T><T><T><T>", "......<T><T>"},
    {"{{ e | reverse }}{{ m.parts | reverse | first }}", ">T<x<T>y", "........"},
    {"{% set x %}<T>{{ e }}{% endset %}{{ x }}{{ x | upper }}", "<T><T><T><T>", "<T>...<T>..."},
    {"{% macro f(x) %}<T>{{ x }}{% endmacro %}{{ f(e) }}", "<T><T>", "<T>..."},
    {"{% macro f() %}<T>{{ caller() }}{% endmacro %}{% call f() %}{{ e }}<T>{% endcall %}",
     "<T><T><T>", "<T>...<T>"},
    {"{% filter lower %}<T>{{ e }}{% endfilter %}", "<t><t>", "<t>..."},
    {"{% set ns = namespace(x='') %}{% for p in m.parts %}{% set ns.x = ns.x + '<T>' + p %}{% "
     "endfor %}"
     "{{ ns.x }}",
     "<T><T><T>x<T>y", "<T>...<T>....."},
    {"{{ m.missing | default('<T>') }}{{ m.missing | default(e) }}", "<T><T>", "<T>..."},
    {"{{ {'user': '<T>'}[m.role] }}", "<T>", "<T>"},
    {"{{ m.parts | sort | last }}{{ [e, '<T>'] | unique | join }}", "x<T>y<T>", "........"},
    {"{{ [e, '<T>'] | max }}{{ ['<T>', e] | max }}", "<T><T>", "...<T>"},
    {"{{ '[\"<T>\"]' | from_json | first }}", "<T>", "..."},
    {"{{ tools | map(attribute='type') | join }}", "<T>", "..."},
    {"{{ m.items() | map('last') | list | first }}", "user", "...."},
    {"{{ c.partition(' ')[0] }}{{ e.removesuffix('>') }}{{ e.strip('<') }}", "<T>a</T><TT>",
     "............"},
    {"{{ e.zfill(5) }}{{ e.ljust(4, '<') }}", "00<T><T><", "........<"},
    {"{{ e | truncate(255) }}{{ (e * 4) | truncate(5, true, '<T>', 0) }}", "<T><T<T>", ".....<T>"},
};

INSTANTIATE_TEST_SUITE_P(ChatTemplate, Marks, testing::ValuesIn(kCases));

TEST(MarkedText, AppendsPartsWithTheirMarks) {
  MarkedText a;
  a.Append("ab", false);
  a.Append("cd", true);
  a.Append("ef", true);
  a.Append("", true);
  a.Append("gh", false);
  EXPECT_EQ(a.data_ranges, (std::vector<ByteRange>{{2, 6}}));
  MarkedText b;
  b.Append(a, 1, 4);
  b.Append(a, 5, 8);
  EXPECT_EQ(b.text, "bcdfgh");
  EXPECT_EQ(b.data_ranges, (std::vector<ByteRange>{{1, 4}}));
  EXPECT_FALSE(b.IsData(0));
  EXPECT_TRUE(b.IsData(3));
  EXPECT_FALSE(b.IsData(4));
}

}  // namespace
}  // namespace hadal
