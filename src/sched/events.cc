#include "sched/events.h"

#include "base/check.h"

namespace hadal {

std::string_view Name(FinishReason value) {
  switch (value) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  HADAL_CHECK(false);
  return {};
}

std::string_view Name(ReuseStop value) {
  switch (value) {
    case ReuseStop::kWholePrompt:
      return "whole_prompt";
    case ReuseStop::kUnknownBlock:
      return "unknown_block";
    case ReuseStop::kEvicted:
      return "evicted";
    case ReuseStop::kOtherLength:
      return "other_length";
    case ReuseStop::kWindowPassed:
      return "window_passed";
    case ReuseStop::kDisabled:
      return "disabled";
    case ReuseStop::kPromptLogprobs:
      return "prompt_logprobs";
  }
  HADAL_CHECK(false);
  return {};
}

std::string_view Name(AdmissionWait value) {
  switch (value) {
    case AdmissionWait::kNone:
      return "none";
    case AdmissionWait::kSequences:
      return "sequences";
    case AdmissionWait::kPages:
      return "pages";
    case AdmissionWait::kTurn:
      return "turn";
    case AdmissionWait::kPrompt:
      return "prompt";
    case AdmissionWait::kBatch:
      return "batch";
  }
  HADAL_CHECK(false);
  return {};
}

}  // namespace hadal
