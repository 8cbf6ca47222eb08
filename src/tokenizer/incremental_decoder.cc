#include "tokenizer/incremental_decoder.h"

#include "tokenizer/tokenizer_impl.h"

namespace hadal {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer.impl_.get()),
      skip_special_(skip_special),
      stream_(tokenizer.impl_->parts.decoder) {}

std::string IncrementalDecoder::Push(int32_t id) {
  std::string out;
  if (tokenizer_->Has(id) && !(skip_special_ && tokenizer_->IsSpecial(id))) {
    stream_.Push(tokenizer_->Piece(id), tokenizer_->added.Find(id) != nullptr, &out);
  }
  return out;
}

std::string IncrementalDecoder::Flush() {
  std::string out;
  stream_.Flush(&out);
  return out;
}

}  // namespace hadal
