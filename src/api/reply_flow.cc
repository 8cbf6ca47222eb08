#include "api/reply_flow.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api_error.h"
#include "http/sse.h"

namespace hadal::api {
namespace {

// Clients look for a thought first and, where a chunk has one, at nothing else in it.
ChoiceDelta TakeThought(ChoiceDelta& delta) {
  ChoiceDelta thought;
  if (delta.output.content.empty() && delta.output.tool_calls.empty()) {
    std::swap(thought, delta);
    return thought;
  }
  if (delta.output.reasoning.empty()) return thought;
  thought.output.reasoning = std::exchange(delta.output.reasoning, {});
  const auto rest = std::stable_partition(delta.tokens.begin(), delta.tokens.end(),
                                          [](const TokenEntry& token) { return token.in_thought; });
  thought.tokens.assign(std::make_move_iterator(delta.tokens.begin()),
                        std::make_move_iterator(rest));
  delta.tokens.erase(delta.tokens.begin(), rest);
  return thought;
}

std::string Events(const Generation& generation, std::vector<Generation::Update> updates,
                   ReplyFormat& format) {
  std::string events;
  for (Generation::Update& update : updates) {
    const ChoiceDelta thought = TakeThought(update.delta);
    if (!thought.empty()) events += SseData(Dump(format.Delta(update.choice, thought)));
    if (!update.delta.empty()) {
      events += SseData(Dump(format.Delta(update.choice, update.delta)));
    }
    if (update.ended) {
      events += SseData(Dump(format.End(update.choice, generation.choice(update.choice))));
    }
  }
  return events;
}

std::string FirstEvents(const Generation& generation, ReplyFormat& format) {
  std::string events;
  for (uint32_t i = 0; i < generation.n_choices(); ++i) {
    if (const std::optional<OrderedJson> begin = format.Begin(generation, i))
      events += SseData(Dump(*begin));
  }
  return events;
}

Awaitable<void> Stream(Exchange& exchange, Generation& generation, ReplyFormat& format,
                       const StreamOptions& options) {
  co_await exchange.Write(FirstEvents(generation, format));
  while (!generation.ended()) {
    std::string events = Events(generation, generation.Poll(), format);
    if (!events.empty()) {
      co_await exchange.Write(std::move(events));
      continue;
    }
    if (co_await exchange.Wait(options.keep_alive) == Exchange::Wake::kTimeout) {
      co_await exchange.Write(SseComment("keep-alive"));
    }
  }
  std::string end;
  if (options.include_usage) end += SseData(Dump(format.Usage(generation.usage())));
  co_await exchange.Write(end + SseData("[DONE]"));
}

}  // namespace

Awaitable<void> SendWhole(Exchange& exchange, Generation& generation, const ReplyFormat& format,
                          Headers headers) {
  std::vector<ChoiceDelta> choices(generation.n_choices());
  while (!generation.ended()) {
    for (Generation::Update& update : generation.Poll()) {
      choices[update.choice].Append(std::move(update.delta));
    }
    if (!generation.ended()) co_await exchange.Wait(std::chrono::minutes(1));
  }
  headers.Add("Content-Type", "application/json");
  Reply reply{200, std::move(headers), Dump(format.Whole(generation, choices))};
  co_await exchange.Respond(std::move(reply));
}

Awaitable<void> SendStream(Exchange& exchange, Generation& generation, ReplyFormat& format,
                           Headers headers, StreamOptions options) {
  headers.Add("Content-Type", "text/event-stream");
  headers.Add("Cache-Control", "no-cache");
  headers.Add("X-Accel-Buffering", "no");  // nginx passes each event on at once
  co_await exchange.StartStream(200, std::move(headers));
  std::optional<ApiError> failure;
  try {
    co_await Stream(exchange, generation, format, options);
  } catch (const Error& error) {
    failure = ToApiError(error);
  }
  if (failure) co_await exchange.Write(SseData(Dump(ErrorBody(*failure))));
  co_await exchange.FinishStream();
}

}  // namespace hadal::api
