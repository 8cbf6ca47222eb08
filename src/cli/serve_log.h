// What a server says on stderr: JSON lines, so that programs can read them.
#pragma once

#include <spdlog/logger.h>

#include <string>

namespace hadal::cli {

// Thread-safe.
class ServeLog {
 public:
  // "debug", "info", "warning", "error" or "off".
  explicit ServeLog(const std::string& level);

  void Debug(const std::string& message) { Write(spdlog::level::debug, message); }
  void Info(const std::string& message) { Write(spdlog::level::info, message); }
  void Warn(const std::string& message) { Write(spdlog::level::warn, message); }
  void Fail(const std::string& message) { Write(spdlog::level::err, message); }

  // A JSON object that gets its time here. Part of the level info.
  void Line(const std::string& json);

 private:
  void Write(spdlog::level::level_enum level, const std::string& message);

  spdlog::logger logger_;
};

}  // namespace hadal::cli
