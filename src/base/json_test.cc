#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hadal {
namespace {

std::string MessageOf(std::string_view text) {
  try {
    ParseJson(text, "a.json", 4);
    ParseOrderedJson(text, "a.json", 4);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Json, NamesTheSourceOfEveryFault) {
  EXPECT_EQ(MessageOf(R"({"a": [1, {"a": 2}], "b": {"a": 1}})"), "");
  EXPECT_NE(MessageOf("{").find("a.json"), std::string::npos);
  EXPECT_NE(MessageOf("\"\xff\"").find("a.json"), std::string::npos);
  EXPECT_EQ(MessageOf(R"({"x": 1, "y": {"z": 1, "z": 2}})"),
            "a.json: the member \"z\" stands twice in one object");
  EXPECT_EQ(MessageOf("[[[[[1]]]]]"), "a.json: JSON nested deeper than 4 levels at byte 4");
  EXPECT_EQ(MessageOf(R"(["[[[[[[[", "\"[[[["])"), "");  // brackets in strings
}

}  // namespace
}  // namespace hadal
