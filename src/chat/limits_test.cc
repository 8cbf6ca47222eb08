// No template and no message may hang, overflow the stack or eat memory.
#include <gtest/gtest.h>

#include "base/error.h"
#include "chat/template.h"

namespace hadal {
namespace {

std::string ErrorOf(const std::string& source, const TemplateLimits& limits = {}) {
  try {
    ChatInput input;
    input.extra["text"] = std::string(1 << 20, 'x');
    ChatTemplate(source, limits).Render(input);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.message();
  }
}

std::string Repeat(std::string_view piece, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += piece;
  return out;
}

constexpr size_t kDeep = 20'000;

TEST(TemplateLimits, BoundsNestingOfTheSource) {
  EXPECT_NE(ErrorOf("{{ " + Repeat("(", kDeep) + "1" + Repeat(")", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf("{{ " + Repeat("[", kDeep) + Repeat("]", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf("{{ " + Repeat("-", kDeep) + "1 }}"), "");
  EXPECT_NE(ErrorOf("{{ " + Repeat("not ", kDeep) + "1 }}"), "");
  EXPECT_NE(ErrorOf("{{ 1" + Repeat(" + 1", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf("{{ x" + Repeat(".x", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf("{{ x" + Repeat("|e", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf("{{ f" + Repeat("(1)", kDeep) + " }}"), "");
  EXPECT_NE(ErrorOf(Repeat("{% if 1 %}", kDeep)), "");
  EXPECT_NE(ErrorOf("{{ 1" + Repeat(" if 1 else 1", kDeep) + " }}"), "");
  EXPECT_EQ(ErrorOf("{{ 1" + Repeat(" ~ 1", 10'000) + Repeat(" or 1", 10'000) + " }}"), "");
  EXPECT_EQ(ErrorOf("{% if 0 %}" + Repeat("{% elif 0 %}", 10'000) + "{% endif %}"), "");
  EXPECT_EQ(ErrorOf("{{ 'a'" + Repeat(" + 'a'", 400) + " }}"), "");
}

TEST(TemplateLimits, BoundsRecursion) {
  EXPECT_NE(ErrorOf("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "");
  EXPECT_NE(ErrorOf("{% macro f(x=f()) %}{% endmacro %}{{ f() }}"), "");
  EXPECT_NE(ErrorOf("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"), "");
  EXPECT_NE(ErrorOf("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}"), "");
  EXPECT_NE(ErrorOf("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}"), "");
  EXPECT_NE(
      ErrorOf("{% set l = [] %}{% set m = [] %}{% set _ = l.append(m) %}{% set _ = m.append(l) %}"
              "{{ l == m }}"),
      "");
  EXPECT_NE(
      ErrorOf("{% set ns = namespace(t=()) %}{% for i in range(300) %}{% set ns.t = (ns.t,) %}"
              "{% endfor %}{{ {ns.t: 1} }}"),
      "");
}

TEST(TemplateLimits, BoundsWork) {
  TemplateLimits limits;
  limits.steps = 200'000;
  const char* nested =
      "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}"
      "{% endfor %}{% endfor %}{% endfor %}";
  EXPECT_NE(ErrorOf(nested, limits), "");
  EXPECT_NE(
      ErrorOf("{% set l = [1] %}{% for x in l %}{% set _ = l.append(1) %}{% endfor %}", limits),
      "");
  EXPECT_NE(ErrorOf("{% for i in range(9999) %}{{ 'y' in text }}{% endfor %}", limits), "");
  EXPECT_NE(ErrorOf("{% for i in range(9999) %}{{ text[i] is none }}{% endfor %}", limits), "");
  EXPECT_NE(ErrorOf("{% for i in range(9999) %}{{ text == text ~ '' }}{% endfor %}", limits), "");
}

TEST(TemplateLimits, BoundsMemory) {
  TemplateLimits limits;
  limits.memory_bytes = 16 << 20;
  EXPECT_NE(ErrorOf("{{ ('x' * 1000000000000) | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ ([0] * 1000000000000) | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ text.replace('x', text) | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ text | list | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ text.split('x') | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ text | center(1000000000) | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ text.rjust(9223372036854775807) | length }}", limits), "");
  EXPECT_NE(ErrorOf("{{ 'a\n' | indent(1000000000) | length }}", limits), "");
  EXPECT_NE(
      ErrorOf("{% set ns = namespace(x='x') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}"
              "{% endfor %}",
              limits),
      "");
  EXPECT_NE(ErrorOf("{% set ns = namespace(x=[text]) %}{% for i in range(40) %}"
                    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | string | length }}",
                    limits),
            "");
  EXPECT_NE(ErrorOf("{{ '%1000000d' % 1 }}", limits), "");
  EXPECT_NE(ErrorOf("{{ '{:1000000}'.format(1) }}", limits), "");
  EXPECT_NE(ErrorOf("{{ [1] | batch(1000000000000, 0) | list }}", limits), "");
}

TEST(TemplateLimits, BoundsOutput) {
  TemplateLimits limits;
  limits.output_bytes = 5 << 20;
  EXPECT_EQ(ErrorOf("{% for i in range(5) %}{{ text }}{% endfor %}", limits), "");
  EXPECT_EQ(ErrorOf("\n{% for i in range(6) %}{{ text }}{% endfor %}", limits),
            "chat template, line 2: stopped: it writes more than 5242880 bytes");
}

TEST(TemplateLimits, NumbersNeverOverflowSilently) {
  for (const char* source :
       {"9223372036854775807 + 1", "-9223372036854775807 - 2", "9223372036854775807 * 2",
        "-(-9223372036854775807 - 1)", "(-9223372036854775807 - 1) // -1", "3 ** 99", "1 // 0",
        "1 % 0", "1 / 0", "1.0 // 0", "0 ** -1", "1e300 | int",
        "(-9223372036854775807 - 1) | abs"}) {
    EXPECT_NE(ErrorOf(std::string("{{ ") + source + " }}"), "") << source;
  }
  EXPECT_EQ(ErrorOf("{{ (-9223372036854775807 - 1) % -1 }}"), "");
  EXPECT_EQ(ErrorOf("{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}"),
            "");
  EXPECT_EQ(ErrorOf("{{ 'abc'[::9223372036854775807] }}{{ [1][-9223372036854775807:] }}"), "");
}

// A long, ordinary conversation stays far below the default limits.
TEST(TemplateLimits, AllowLongConversations) {
  ChatInput input;
  for (int i = 0; i < 2000; ++i) {
    input.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                              {"content", "<think>" + std::string(5000, 'x') + "</think>y"}});
  }
  const ChatTemplate program(
      "{% for m in messages %}{% set c = m.content.split('</think>')[-1].lstrip('\\n') %}"
      "{% for n in messages[-3:] %}{% endfor %}{{ m.role ~ m.content.strip() + c }}{% endfor %}");
  EXPECT_GT(program.Render(input).size(), 10'000'000u);
}

}  // namespace
}  // namespace hadal
