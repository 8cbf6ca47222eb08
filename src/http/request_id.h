// Names for requests, for logs and support.
#pragma once

#include <string>
#include <string_view>

namespace hadal {

// True for 1 to 128 printable ASCII characters without spaces: safe in a header and in a log line.
bool IsValidRequestId(std::string_view id);

// "req-" and 32 hexadecimal digits, random. Thread-safe.
std::string NewRequestId();

}  // namespace hadal
