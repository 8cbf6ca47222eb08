#include "tokenizer/incremental_decoder.h"

#include <algorithm>
#include <utility>

#include "tokenizer/tokenizer_impl.h"

namespace hadal {

IncrementalDecoder::IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special,
                                       std::vector<int32_t> keep)
    : tokenizer_(tokenizer.impl_.get()),
      skip_special_(skip_special),
      keep_(std::move(keep)),
      stream_(tokenizer.impl_->parts.decoder) {}

std::string IncrementalDecoder::Push(int32_t id) {
  std::string out;
  const bool left_out = skip_special_ && tokenizer_->IsSpecial(id) &&
                        std::find(keep_.begin(), keep_.end(), id) == keep_.end();
  if (tokenizer_->Has(id) && !left_out) {
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
