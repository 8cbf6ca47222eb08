// The part of an output parser that reads one ToolFormat.
#pragma once

#include <memory>

#include "chat/output_sink.h"
#include "chat/tool_call_format.h"

namespace hadal {

// Reads an answer without its thought, byte by byte, so that the result cannot depend on how the
// text was cut. Never throws for what a model wrote.
class ToolCallParser {
 public:
  virtual ~ToolCallParser() = default;

  virtual void Push(char c, OutputSink& sink) = 0;
  // The answer ends here. False when it ends inside a call.
  virtual bool Finish(OutputSink& sink) = 0;
};

std::unique_ptr<ToolCallParser> MakeToolCallParser(ToolFormat format);

// One for each format.
std::unique_ptr<ToolCallParser> MakeDeepSeekToolParser();
std::unique_ptr<ToolCallParser> MakeHermesToolParser();
std::unique_ptr<ToolCallParser> MakeLlamaToolParser();

}  // namespace hadal
