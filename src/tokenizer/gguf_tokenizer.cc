#include "base/error.h"
#include "tokenizer/tokenizer_parts.h"

namespace hadal {
TokenizerParts ReadGgufVocabulary(const Vocabulary& vocabulary) {
  Fail(ErrorKind::kUnsupported, "{}", vocabulary.model);
}
}  // namespace hadal
