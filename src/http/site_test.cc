// Router, keys, events, ids, heads: the parts without a socket.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "http/access_log.h"
#include "http/api_keys.h"
#include "http/request_id.h"
#include "http/router.h"
#include "http/sse.h"
#include "http/target.h"

namespace hadal {
namespace {

Router::Match Find(const Router& router, std::string_view method, std::string_view target) {
  return router.Find(method, ParseTarget(target)->segments);
}

TEST(Router, FindsRoutesAndParameters) {
  Router router;
  router.Add("GET", "/", nullptr);
  router.Add("GET", "/v1/models", nullptr);
  router.Add("GET", "/v1/models/{id*}", nullptr);
  router.Add("GET", "/v1/requests/{id}", nullptr);
  router.Add("DELETE", "/v1/requests/{id}", nullptr);
  EXPECT_EQ(Find(router, "GET", "/").route, &router.routes()[0]);
  EXPECT_EQ(Find(router, "GET", "/v1/models/").route, &router.routes()[1]);
  const auto model = Find(router, "GET", "/v1/models/a/b%2fc");
  EXPECT_EQ(model.route, &router.routes()[2]);
  ASSERT_EQ(model.parameters.size(), 1u);
  EXPECT_EQ(model.parameters[0].first, "id");
  EXPECT_EQ(model.parameters[0].second, "a/b/c");
  EXPECT_EQ(Find(router, "DELETE", "/v1/requests/7").route, &router.routes()[4]);
  EXPECT_EQ(Find(router, "HEAD", "/v1/requests/7").route, &router.routes()[3]);
  EXPECT_EQ(Find(router, "POST", "/v1/requests/7").allow, "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(Find(router, "GET", "/v1/requests/7/8").allow, "");
  EXPECT_EQ(Find(router, "GET", "/v1/requests").allow, "");
  EXPECT_EQ(Find(router, "GET", "/V1/models").allow, "");
}

TEST(ApiKeys, FindsTheTenant) {
  const ApiKeys keys({"alpha", "alphabet", "beta"});
  EXPECT_EQ(keys.Find(Headers("Authorization", "Bearer alphabet")), 1u);
  EXPECT_EQ(keys.Find(Headers("x-api-key", "beta")), 2u);
  for (const char* wrong : {"", "a", "alph", "alphaalpha", "alphabe", "ALPHA", "alpha,beta"}) {
    EXPECT_EQ(keys.Find(Headers("x-api-key", wrong)), std::nullopt) << wrong;
  }
  EXPECT_EQ(keys.Find(Headers("Authorization", "Basic alpha")), std::nullopt);
  EXPECT_EQ(keys.Find(Headers()), std::nullopt);
}

TEST(ApiKeys, RefusesKeysThatCannotWork) {
  EXPECT_THROW(ApiKeys({"a", ""}), Error);
  EXPECT_THROW(ApiKeys({"a b"}), Error);
  EXPECT_THROW(ApiKeys({"schl\xc3\xbcssel"}), Error);
  try {
    ApiKeys({"secret", "secret"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message().find("secret"), std::string::npos);
  }
}

TEST(ApiKeys, ReadsFiles) {
  const std::string path = testing::TempDir() + "/hadal_keys.txt";
  std::ofstream(path) << "# team A\nfirst\n\n  second \r\n#third\nlast";
  EXPECT_EQ(ApiKeys::ReadFile(path), (std::vector<std::string>{"first", "second", "last"}));
  std::ofstream(path) << "# nobody\n";
  EXPECT_THROW(ApiKeys::ReadFile(path), Error);
  std::remove(path.c_str());
  EXPECT_THROW(ApiKeys::ReadFile(path), Error);
}

TEST(Sse, FramesEveryLine) {
  EXPECT_EQ(SseData("{}"), "data: {}\n\n");
  EXPECT_EQ(SseData(""), "data: \n\n");
  EXPECT_EQ(SseData("a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
  EXPECT_EQ(SseComment("keep-alive"), ": keep-alive\n\n");
  EXPECT_EQ(SseComment("a\ndata: x"), ": a data: x\n\n");
}

TEST(SerializeHead, LetsNoValueBeginAHeaderOfItsOwn) {
  EXPECT_EQ(SerializeHead(404, Headers("x-warning", "a\r\nset-cookie: b")),
            "HTTP/1.1 404 Not Found\r\nx-warning: a??set-cookie: b\r\n\r\n");
}

TEST(RequestId, ChecksWhatClientsSend) {
  EXPECT_TRUE(IsValidRequestId("a-B_7:{}"));
  EXPECT_TRUE(IsValidRequestId(std::string(128, 'x')));
  for (const std::string& bad : {std::string(), std::string(129, 'x'), std::string("a b"),
                                 std::string("a\n"), std::string("\xc3\xa9")}) {
    EXPECT_FALSE(IsValidRequestId(bad));
  }
  EXPECT_TRUE(IsValidRequestId(NewRequestId()));
}

TEST(AccessLog, IsJsonWhateverThePathHolds) {
  AccessRecord record;
  record.method = "GET";
  record.path = "/\xff\"\n</script>";
  record.status = 404;
  record.total = std::chrono::microseconds(1500);
  const std::string line = ToJsonLine(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Json json = ParseJson(line, "line");
  EXPECT_EQ(json["ms"], 1.5);
  EXPECT_EQ(json["status"], 404);
}

}  // namespace
}  // namespace hadal
