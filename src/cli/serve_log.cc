#include "cli/serve_log.h"

#include <spdlog/sinks/stdout_sinks.h>

#include <chrono>
#include <ctime>
#include <memory>

#include "base/json.h"

namespace hadal::cli {
namespace {

std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", std::string_view(text, size), milliseconds);
}

}  // namespace

ServeLog::ServeLog(const std::string& level)
    : logger_("hadal", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
  logger_.set_pattern("%v");
  logger_.set_level(spdlog::level::from_str(level));
  logger_.flush_on(spdlog::level::info);
}

void ServeLog::Line(const std::string& json) {
  if (!logger_.should_log(spdlog::level::info)) return;
  logger_.log(spdlog::level::info, fmt::format("{{\"time\":\"{}\",{}", Now(), json.substr(1)));
}

void ServeLog::Write(spdlog::level::level_enum level, const std::string& message) {
  if (!logger_.should_log(level)) return;
  const spdlog::string_view_t name = spdlog::level::to_string_view(level);
  const OrderedJson line = {
      {"time", Now()}, {"level", std::string(name.data(), name.size())}, {"message", message}};
  logger_.log(level, line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

}  // namespace hadal::cli
