// Values as text: Python's str() and repr(), printf-style and str.format formatting.
#pragma once

#include <string>
#include <string_view>

#include "chat/runtime.h"

namespace hadal::jinja {

// repr(float): "1.0", "1e+20", "nan".
std::string FloatText(double value);

// str(value), appended with marks: strings keep theirs, a container is data as a whole.
void AppendText(Runtime& runtime, const Value& value, TextBuilder& out);
// str(value) as a string; strings are returned as they are.
Value ToText(Runtime& runtime, const Value& value);
// repr(value), unmarked. Charges as it grows.
std::string Repr(Runtime& runtime, const Value& value);

// `format % values`, where `values` is a tuple, a dict (for "%(name)s") or a single value.
Value PercentFormat(Runtime& runtime, const MarkedText& format, const Value& values);
// format.format(*args, **kwargs): fields by position and name, attributes, items, and the usual
// format specifications.
Value BraceFormat(Runtime& runtime, const MarkedText& format, const Args& args);

}  // namespace hadal::jinja
