#include "tokenizer/piece_cache.h"

#include <algorithm>

#include "base/hash.h"

namespace hadal {
namespace {

constexpr size_t kMinSlots = 64;
constexpr size_t kMaxSlots = size_t{1} << 16;
// Some 16 MiB of keys and tokens; then it starts anew.
constexpr size_t kMaxKeyBytes = size_t{4} << 20;
constexpr size_t kMaxTokens = size_t{1} << 20;

}  // namespace

PieceCache::PieceCache(size_t text_bytes) {
  size_t slots = kMinSlots;
  while (slots < kMaxSlots && slots * 16 < text_bytes) slots *= 2;
  slots_.resize(slots);
}

std::span<const ModelToken> PieceCache::Find(std::string_view piece) {
  hash_ = Hash64(std::as_bytes(std::span(piece)));
  const Slot& slot = slots_[hash_ & (slots_.size() - 1)];
  if (slot.count == 0 || slot.hash != hash_ ||
      std::string_view(keys_).substr(slot.key, slot.key_size) != piece) {
    return {};
  }
  return std::span(tokens_).subspan(slot.first, slot.count);
}

void PieceCache::Put(std::string_view piece, std::span<const ModelToken> tokens) {
  if (keys_.size() + piece.size() > kMaxKeyBytes || tokens_.size() + tokens.size() > kMaxTokens) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    keys_.clear();
    tokens_.clear();
  }
  slots_[hash_ & (slots_.size() - 1)] = {
      hash_, static_cast<uint32_t>(keys_.size()), static_cast<uint32_t>(piece.size()),
      static_cast<uint32_t>(tokens_.size()), static_cast<uint32_t>(tokens.size())};
  keys_.append(piece);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

}  // namespace hadal
