// Bodies of requests: whatever the bytes, a request or an ApiError.
#include <cstdint>
#include <string>

#include "api/api_error.h"
#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hadal;
  if (size == 0) return 0;
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  api::ParamContext context;
  context.vocab = 100;
  HistoryStyle style;
  style.argument_objects = (data[0] & 2) != 0;
  style.null_content = (data[0] & 4) != 0;
  style.split_text_and_calls = (data[0] & 8) != 0;
  try {
    const OrderedJson json = api::ParseBody(body);
    if ((data[0] & 1) != 0) {
      api::ReadChatRequest(json, context, style);
    } else {
      api::ReadCompletionRequest(json, context);
    }
  } catch (const api::ApiError& error) {
    api::Dump(api::ErrorBody(error));
  }
  return 0;
}
