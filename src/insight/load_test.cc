#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "insight/load_client.h"
#include "insight/load_prompt.h"
#include "insight/load_report.h"
#include "insight/load_stream.h"
#include "insight/load_trace.h"

namespace hadal::load {
namespace {

TEST(Lengths, AreReadAndStayWithinTheirBounds) {
  std::mt19937_64 random(1);
  const Lengths drawn = ParseLengths("lognormal:32-1024", "--input-len");
  std::vector<double> logs;
  for (int i = 0; i < 4000; ++i) {
    const uint32_t n = drawn.Draw(random);
    ASSERT_GE(n, 32U);
    ASSERT_LE(n, 1024U);
    logs.push_back(std::log(n));
  }
  std::sort(logs.begin(), logs.end());
  EXPECT_NEAR(logs[2000], std::log(std::sqrt(32.0 * 1024)), 0.06);
  // Sigma is a quarter of the span; cutting at two sigma leaves 0.88 of it.
  EXPECT_NEAR(logs[3364] - logs[2000], 0.93 * std::log(1024.0 / 32) / 4, 0.08);
  EXPECT_EQ(ParseLengths("7", "x").Draw(random), 7U);
  for (const char* wrong : {"", "0", "-1", "1-2", "uniform:9-3", "uniform:9", "normal:1-2",
                            "uniform:1-", "lognormal:0-5", "99999999999", "12 "}) {
    EXPECT_THROW(ParseLengths(wrong, "x"), Error) << wrong;
  }
}

TEST(Trace, IsPoissonSharedAndTheSameForASeed) {
  TraceSpec spec;
  spec.n = 4000;
  spec.request_rate = 20;
  spec.input = ParseLengths("uniform:100-300", "x");
  spec.output = ParseLengths("64", "x");
  spec.prefix_tokens = 200;
  spec.shared_fraction = 0.5;
  spec.seed = 3;
  const std::vector<TraceItem> trace = MakeTrace(spec);
  EXPECT_EQ(trace, MakeTrace(spec));
  double last = 0, squares = 0;
  size_t shared = 0;
  for (const TraceItem& item : trace) {
    squares += (item.arrival - last) * (item.arrival - last);
    last = item.arrival;
    shared += item.prefix.has_value();
    EXPECT_LE(item.prefix_tokens, std::min(200U, item.input_tokens));
  }
  EXPECT_NEAR(last, 200, 10);
  // An exponential interval has a mean square of twice the square of its mean.
  EXPECT_NEAR(squares / 4000, 2.0 / 400, 0.0005);
  EXPECT_NEAR(static_cast<double>(shared) / 4000, 0.5, 0.03);
  spec.output = ParseLengths("uniform:1-9", "x");
  EXPECT_EQ(MakeTrace(spec)[77].input_tokens, trace[77].input_tokens);
  spec.request_rate = std::numeric_limits<double>::infinity();
  EXPECT_EQ(MakeTrace(spec).back().arrival, 0);
}

TEST(Trace, GoesThroughAFile) {
  const std::string path = testing::TempDir() + "/trace.jsonl";
  const std::vector<TraceItem> trace = {{0, 5, 7, std::nullopt, 0}, {1.25, 300, 9, 4, 200}};
  WriteTrace(path, trace);
  EXPECT_EQ(ReadTrace(path), trace);
  const auto refused = [&path](const std::string& text) {
    std::ofstream(path) << text;
    try {
      ReadTrace(path);
    } catch (const Error& error) {
      return error.message().find(path) == 0;
    }
    return false;
  };
  EXPECT_TRUE(refused(""));
  EXPECT_TRUE(refused("[]"));
  EXPECT_TRUE(refused(R"({"arrival":-1,"input_tokens":3,"output_tokens":3})"));
  EXPECT_TRUE(refused(R"({"arrival":0,"input_tokens":0,"output_tokens":3})"));
  EXPECT_TRUE(refused(R"({"arrival":0,"input_tokens":3})"));
  EXPECT_TRUE(refused(R"({"arrival":0,"input_tokens":3,"output_tokens":3,"x":1})"));
  EXPECT_TRUE(refused(R"({"arrival":0,"input_tokens":3,"output_tokens":3,"prefix":1})"));
  std::filesystem::remove(path);
}

TEST(PromptMaker, MakesExactLengthsAndSharedBeginnings) {
  const Vocabulary vocabulary =
      Checkpoint::OpenVocabulary(std::string(HADAL_SOURCE_DIR) + "/models/reef");
  const Tokenizer tokenizer = Tokenizer::Create(vocabulary);
  const PromptMaker prompts(1, &tokenizer);
  for (const uint32_t n : {3U, 17U, 256U, 1000U}) {
    EXPECT_EQ(tokenizer.Encode(prompts.Make({0, n, 1, std::nullopt, 0}, n)).size(), n);
  }
  const TraceItem item{0, 120, 1, 0, 100};
  const std::vector<int32_t> a = tokenizer.Encode(prompts.Make(item, 1)),
                             b = tokenizer.Encode(prompts.Make(item, 2)),
                             c = tokenizer.Encode(prompts.Make({0, 120, 1, 1, 100}, 1));
  EXPECT_EQ(a.size(), 120U);
  const auto common = [](const std::vector<int32_t>& x, const std::vector<int32_t>& y) {
    return std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin();
  };
  EXPECT_NEAR(static_cast<double>(common(a, b)), 100, 3);
  EXPECT_LT(common(a, c), 8);
}

TEST(PromptMaker, FollowsWhatTheServerCounts) {
  PromptMaker prompts(1);
  prompts.Calibrate(1.5, 10);
  const std::string text = prompts.Make({0, 160, 1, std::nullopt, 0}, 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' ') + 1, 100);
}

constexpr std::string_view kStream =
    ": a comment\n\n"
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\"He\"},\"finish_reason\":null}]}\r\n\r\n"
    "event: x\ndata: {\"choices\":[{\"delta\":\ndata: {\"reasoning_content\":\"y\"}}]}\n\n"
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
    "data: [DONE]\n\n";

TEST(StreamReader, ReadsAStreamHoweverItIsSplit) {
  for (size_t step = 1; step < kStream.size(); step += 7) {
    StreamReader reader;
    for (size_t at = 0; at < kStream.size(); at += step) {
      reader.Feed(kStream.substr(at, step), static_cast<double>(at + 1));
    }
    EXPECT_EQ(reader.problem(), "");
    EXPECT_TRUE(reader.done());
    EXPECT_TRUE(reader.finished());
    ASSERT_EQ(reader.chunks().size(), 2U);
    EXPECT_LE(reader.chunks()[0].at, reader.chunks()[1].at);
    EXPECT_EQ(reader.last_event(), 1 + (kStream.size() - 1) / step * step);
    EXPECT_EQ(reader.prompt_tokens(), 9U);
    EXPECT_EQ(reader.output_tokens(), 5U);
    EXPECT_EQ(reader.cached_tokens(), 4U);
  }
}

TEST(StreamReader, NamesWhatIsWrong) {
  const auto problem = [](std::string_view text) {
    StreamReader reader;
    reader.Feed(text, 1);
    EXPECT_FALSE(reader.done() && reader.problem().empty());
    return reader.problem();
  };
  EXPECT_EQ(problem("data: {\"error\":{\"message\":\"no memory\",\"code\":500}}\n\n"), "no memory");
  EXPECT_NE(problem("data: {\"choices\":[\n\n"), "");
  EXPECT_NE(problem("data: [DONE]\n\ndata: {}\n\n"), "");
  EXPECT_EQ(problem("data: 3\n\ndata: {\"choices\":{}}\n\ndata: {\"choices\":[7]}\n\n"), "");
  EXPECT_EQ(problem(": ping\n\nsomething: else\n\n"), "");
}

RequestResult MakeResult(double start, std::vector<double> chunks, double end, uint32_t tokens) {
  RequestResult result;
  result.start = start;
  result.answer = start;
  result.end = end;
  result.outcome = Outcome::kOk;
  result.status = 200;
  for (const double at : chunks) result.chunks.push_back({at, 0});
  result.prompt_tokens = 10;
  result.output_tokens = tokens;
  return result;
}

TEST(LoadReport, ComputesWhatIsWrittenAboutIt) {
  std::vector<RequestResult> results = {MakeResult(0, {0.1, 0.3, 0.5}, 0.5, 3),
                                        MakeResult(0.2, {1.2, 1.6}, 1.6, 4)};
  RequestResult refused;
  refused.start = 0.4;
  refused.answer = refused.end = 0.45;
  refused.status = 503;
  refused.outcome = Outcome::kRefused;
  refused.problem = "busy";
  results.push_back(refused);
  const LoadReport report = MakeReport(results, {99});
  EXPECT_EQ(report.completed, 2U);
  EXPECT_EQ(report.failed, 1U);
  EXPECT_EQ(report.errors.at("503: busy"), 1U);
  EXPECT_DOUBLE_EQ(report.duration, 1.6);
  EXPECT_EQ(report.peak_concurrency, 3U);
  EXPECT_NEAR(report.ttft.mean, 550, 1e-9);
  EXPECT_NEAR(report.ttft.percentiles[0], 100 + 0.99 * 900, 1e-9);
  EXPECT_NEAR(report.tpot.mean, (200 + 400 / 3.0) / 2, 1e-9);
  EXPECT_NEAR(report.itl_chunk.mean, (200 + 200 + 400) / 3.0, 1e-9);
  // The second request's pieces have two tokens each: two samples of 200 ms.
  EXPECT_EQ(report.itl_token.n, 4U);
  EXPECT_NEAR(report.itl_token.mean, 200, 1e-9);
  EXPECT_FALSE(report.itl_token_exact);
  EXPECT_NEAR(report.refusal.mean, 50, 1e-9);
  EXPECT_DOUBLE_EQ(report.peak_output_throughput, 4);
  EXPECT_EQ(MakeReport({}, {99}).completed, 0U);
}

TEST(LoadReport, KnowsTheTokensOfAPieceWhereTheServerSays) {
  RequestResult result = MakeResult(0, {1, 2, 3}, 3, 7);
  result.chunks[0].tokens_so_far = 1;
  result.chunks[1].tokens_so_far = 5;
  result.chunks[2].tokens_so_far = 7;
  const LoadReport report = MakeReport({&result, 1}, {50});
  EXPECT_TRUE(report.itl_token_exact);
  EXPECT_EQ(report.itl_token.n, 6U);
  EXPECT_NEAR(report.itl_token.mean, (4 * 250 + 2 * 500) / 6.0, 1e-9);
}

TEST(LoadReport, HasTheFieldsOfVllmsResultFile) {
  const RequestResult result = MakeResult(0, {0.1, 0.2}, 0.3, 2);
  const LoadReport report = MakeReport({&result, 1}, {99});
  const OrderedJson json = ToJson(report, {.request_rate = 2}, {&result, 1});
  for (const char* key : {"date",
                          "endpoint_type",
                          "model_id",
                          "tokenizer_id",
                          "num_prompts",
                          "request_rate",
                          "max_concurrency",
                          "duration",
                          "completed",
                          "failed",
                          "total_input_tokens",
                          "total_output_tokens",
                          "request_throughput",
                          "output_throughput",
                          "total_token_throughput",
                          "max_output_tokens_per_s",
                          "max_concurrent_requests",
                          "input_lens",
                          "output_lens",
                          "ttfts",
                          "itls",
                          "errors"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  for (const char* name : {"ttft", "tpot", "itl", "e2el"}) {
    for (const char* of : {"mean_{}_ms", "median_{}_ms", "std_{}_ms", "p99_{}_ms"}) {
      EXPECT_TRUE(json.contains(fmt::format(fmt::runtime(of), name))) << of << name;
    }
  }
  const std::string text = ToText(report, {.request_rate = 2});
  for (const char* line : {"Successful requests:", "Request rate configured (RPS):",
                           "Peak output token throughput (tok/s):", "P99 TTFT (ms):",
                           "Time per Output Token (excl. 1st token)", "Median E2EL (ms):"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

TEST(ParseUrl, FindsHostPortAndPath) {
  const ServerUrl url = ParseUrl("http://host:81/proxy/v1/");
  EXPECT_EQ(url.host + " " + url.port + " " + url.base, "host 81 /proxy/v1");
  EXPECT_EQ(ParseUrl("http://[::1]:9").host, "::1");
  EXPECT_EQ(ParseUrl("http://[::1]:9").port, "9");
  EXPECT_EQ(ParseUrl("http://h").port + ParseUrl("http://h").base, "80/v1");
  for (const char* wrong : {"", "host:80", "https://h", "http://", "http://h:", "http://h:x"}) {
    EXPECT_THROW(ParseUrl(wrong), Error) << wrong;
  }
}

// Answers each connection with the next of its texts, then closes it.
class FakeServer {
 public:
  explicit FakeServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeServer() {
    thread_.join();
    ::close(listener_);
    for (const int socket : silent_) ::close(socket);
  }
  ClientOptions Options() const {
    ClientOptions options;
    options.server = {"127.0.0.1", std::to_string(port_), "/v1"};
    options.timeout = 0.5;
    options.max_concurrency = 1;
    return options;
  }
  const std::vector<std::string>& received() const { return received_; }

 private:
  void Serve() {
    for (const std::string& answer : answers_) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      char bytes[4096];
      const ssize_t n = ::recv(socket, bytes, sizeof bytes, 0);
      received_.emplace_back(bytes, static_cast<size_t>(std::max<ssize_t>(n, 0)));
      ::send(socket, answer.data(), answer.size(), MSG_NOSIGNAL);
      if (answer.empty() || answer.back() != '~') {
        ::close(socket);
      } else {
        silent_.push_back(socket);  // "~": says no more, but stays
      }
    }
  }

  std::vector<std::string> answers_, received_;
  std::vector<int> silent_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::thread thread_;
};

std::string Chunked(std::string_view body, bool whole = true) {
  std::string text =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < body.size(); at += 50) {
    const std::string_view piece = body.substr(at, 50);
    text += fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
  }
  return text + (whole ? "0\r\n\r\n" : "");
}

TEST(RunLoad, TellsApartHowRequestsEnd) {
  const std::string refusal = R"({"error":{"message":"busy"}})";
  const std::string_view half = kStream.substr(0, 250);
  FakeServer server(
      {Chunked(kStream),
       fmt::format("HTTP/1.1 503 Busy\r\nContent-Length: {}\r\n\r\n{}", refusal.size(), refusal),
       "", Chunked(half, false), Chunked(half, true), Chunked(half, false) + "1~",
       Chunked("data: {\"error\":{\"message\":\"bad\"}}\n\n"), "HTTP/1.1 what\r\n\r\n"});
  ClientOptions options = server.Options();
  options.api_key = "secret";
  size_t n_done = 0;
  options.on_done = [&n_done](size_t n) { n_done = n; };
  const std::vector<LoadRequest> requests(8, {0, "{}"});
  const std::vector<RequestResult> results = RunLoad(options, "/completions", requests);
  std::vector<std::string> outcomes;
  for (const RequestResult& result : results) outcomes.emplace_back(Name(result.outcome));
  const std::vector<std::string> expected = {"ok",  "refused", "lost",   "cut",
                                             "cut", "hung",    "broken", "lost"};
  EXPECT_EQ(outcomes, expected);
  EXPECT_EQ(n_done, 8U);
  EXPECT_EQ(results[0].output_tokens, 5U);
  EXPECT_EQ(results[0].cached_tokens, 4U);
  EXPECT_EQ(results[1].status, 503);
  EXPECT_EQ(results[1].problem, "busy");
  EXPECT_EQ(results[6].problem, "bad");
  EXPECT_NE(server.received()[0].find("POST /v1/completions HTTP/1.1\r\n"), std::string::npos);
  EXPECT_NE(server.received()[0].find("Authorization: Bearer secret\r\n"), std::string::npos);
}

TEST(RunLoad, NobodyListensAndStopping) {
  ClientOptions options;
  options.server = {"127.0.0.1", "1", "/v1"};
  const std::vector<LoadRequest> requests(3, {0, "{}"});
  for (const RequestResult& result : RunLoad(options, "/completions", requests)) {
    EXPECT_EQ(result.outcome, Outcome::kLost);
  }
  options.stopped = [] { return true; };
  const LoadRequest late{60, "{}"};
  EXPECT_THROW(RunLoad(options, "/completions", {&late, 1}), Error);
  EXPECT_THROW(FetchJson(options, "/models"), Error);
}

TEST(FetchJson, GivesTheDocumentOrSaysWhy) {
  FakeServer server({"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
                     "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n",
                     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{"});
  EXPECT_EQ(FetchJson(server.Options(), "/models")["a"], 1);
  EXPECT_THROW(FetchJson(server.Options(), "/models"), Error);
  EXPECT_THROW(FetchJson(server.Options(), "/models"), Error);
}

}  // namespace
}  // namespace hadal::load
