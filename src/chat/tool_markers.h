// The markers of each tool-call format.
#pragma once

#include <string_view>

namespace hadal::tool_markers {

inline constexpr std::string_view kDeepSeekCallsBegin = "<｜tool▁calls▁begin｜>";
inline constexpr std::string_view kDeepSeekCallsEnd = "<｜tool▁calls▁end｜>";
inline constexpr std::string_view kDeepSeekCallBegin = "<｜tool▁call▁begin｜>";
inline constexpr std::string_view kDeepSeekCallEnd = "<｜tool▁call▁end｜>";
inline constexpr std::string_view kDeepSeekSep = "<｜tool▁sep｜>";
inline constexpr std::string_view kDeepSeek[] = {
    kDeepSeekCallsBegin, kDeepSeekCallsEnd, kDeepSeekCallBegin, kDeepSeekCallEnd, kDeepSeekSep,
};

inline constexpr std::string_view kHermesBegin = "<tool_call>";
inline constexpr std::string_view kHermesEnd = "</tool_call>";
inline constexpr std::string_view kHermes[] = {kHermesBegin, kHermesEnd};

inline constexpr std::string_view kPythonTag = "<|python_tag|>";
inline constexpr std::string_view kLlama[] = {kPythonTag};

}  // namespace hadal::tool_markers
