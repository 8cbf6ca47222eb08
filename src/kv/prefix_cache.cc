#include "kv/prefix_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "spec/kv_layout.h"

namespace hadal {
namespace {

constexpr size_t kEvictedRemembered = 4096;

}  // namespace

PrefixCache::PrefixCache(uint32_t block_size, std::span<const uint32_t> pages)
    : block_size_(block_size), next_id_(1), evicted_(kEvictedRemembered, 0) {
  size_t total = 0;
  for (const uint32_t n : pages) {
    keys_.emplace_back(n, 0);
    total += n;
  }
  blocks_.reserve(total);
}

PrefixNode PrefixCache::Root(uint32_t key, std::string_view salt) {
  PrefixNode node;
  // The key ends at the first colon, so no salt can look like another key.
  node.root = std::to_string(key) + ":";
  node.root += salt;
  node.hash = Hash64(std::as_bytes(std::span(node.root)));
  return node;
}

uint64_t PrefixCache::HashOf(const PrefixNode& parent, std::span<const int32_t> tokens) const {
  HADAL_CHECK(tokens.size() == block_size_);
  return std::max<uint64_t>(Hash64(std::as_bytes(tokens), parent.hash), 1);
}

bool PrefixCache::Matches(const Block& block, const PrefixNode& parent,
                          std::span<const int32_t> tokens) {
  return block.parent_id == parent.id && block.root == parent.root &&
         std::equal(block.tokens.begin(), block.tokens.end(), tokens.begin(), tokens.end());
}

const PrefixCache::Found* PrefixCache::Find(const PrefixNode& parent,
                                            std::span<const int32_t> tokens) {
  const uint64_t hash = HashOf(parent, tokens);
  const auto it = blocks_.find(hash);
  if (it == blocks_.end() || !Matches(it->second, parent, tokens)) return nullptr;
  found_ = {{it->second.id, hash, {}}, it->second.pages};
  return &found_;
}

bool PrefixCache::WasEvicted(const PrefixNode& parent, std::span<const int32_t> tokens) const {
  const uint64_t hash = HashOf(parent, tokens);
  return evicted_[hash % evicted_.size()] == hash;
}

PrefixNode PrefixCache::Insert(const PrefixNode& parent, std::span<const int32_t> tokens,
                               std::span<const uint32_t> pages, bool& stored) {
  HADAL_CHECK(pages.size() == keys_.size());
  const uint64_t hash = HashOf(parent, tokens);
  const auto [it, is_new] = blocks_.try_emplace(hash);
  Block& block = it->second;
  if (is_new) {
    block = {next_id_++,
             parent.id,
             parent.root,
             {tokens.begin(), tokens.end()},
             std::vector<uint32_t>(pages.size(), kNoPage)};
  }
  stored = Matches(block, parent, tokens);
  if (!stored) return parent;
  for (uint32_t g = 0; g < pages.size(); ++g) {
    if (block.pages[g] != kNoPage || pages[g] == kNoPage) continue;
    HADAL_CHECK(keys_[g][pages[g]] == 0);
    block.pages[g] = pages[g];
    keys_[g][pages[g]] = hash;
  }
  return {block.id, hash, {}};
}

void PrefixCache::Forget(uint32_t group, uint32_t page) {
  const uint64_t hash = std::exchange(keys_[group][page], 0);
  if (hash == 0) return;
  ++n_evicted_;
  const auto it = blocks_.find(hash);
  HADAL_CHECK(it != blocks_.end() && it->second.pages[group] == page);
  it->second.pages[group] = kNoPage;
  const auto gone = [](uint32_t p) { return p == kNoPage; };
  if (!std::all_of(it->second.pages.begin(), it->second.pages.end(), gone)) return;
  evicted_[hash % evicted_.size()] = hash;
  blocks_.erase(it);
}

}  // namespace hadal
