// The streamed answer of an OpenAI-compatible server, as a client sees it arrive.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hadal::load {

// A piece of text that arrived, and when: seconds on the caller's clock.
struct Chunk {
  double at = 0;
  uint32_t tokens_so_far = 0;  // 0: the server does not say (only some do in every chunk)
};

// Reads server-sent events of /completions and /chat/completions. No clock, no sockets; any bytes
// in any pieces.
class StreamReader {
 public:
  void Feed(std::string_view bytes, double now);

  bool done() const { return done_; }                      // "[DONE]" has come
  bool finished() const { return finished_; }              // a finish_reason has come
  const std::string& problem() const { return problem_; }  // error event or malformed; else empty
  const std::vector<Chunk>& chunks() const { return chunks_; }
  double last_event() const { return last_event_; }  // comments are no events; 0 before the first

  // As the server's usage says; 0 when it says nothing.
  uint32_t prompt_tokens() const { return prompt_tokens_; }
  uint32_t output_tokens() const { return output_tokens_; }
  uint32_t cached_tokens() const { return cached_tokens_; }
  bool has_usage() const { return has_usage_; }
  bool has_cached() const { return has_cached_; }

 private:
  void Line(std::string_view line, double now);
  void Event(double now);

  std::string rest_;  // an unfinished line
  std::string data_;  // of the event that is being read
  bool has_data_ = false;
  bool done_ = false, finished_ = false, has_usage_ = false, has_cached_ = false;
  double last_event_ = 0;
  std::string problem_;
  std::vector<Chunk> chunks_;
  uint32_t prompt_tokens_ = 0, output_tokens_ = 0, cached_tokens_ = 0;
};

// "error.message" of an error's body, or its beginning where it has none.
std::string ErrorMessageOf(std::string_view body);

}  // namespace hadal::load
