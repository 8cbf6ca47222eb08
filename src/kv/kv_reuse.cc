// Sharing, finding again and moving away what is in the pages.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/kv_manager.h"

namespace hadal {

// Whether the token after n_blocks blocks finds everything its windows see.
bool KvManager::WindowCovered(const PrefixMatch& match, uint32_t n_blocks) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t b = FirstBlockSeen(g, n_blocks * layout_.block_size); b < n_blocks; ++b) {
      if (match.pages[g][b] == kNoPage) return false;
    }
  }
  return true;
}

PrefixMatch KvManager::Match(std::span<const int32_t> tokens, uint32_t max_tokens, uint32_t key,
                             std::string_view salt) {
  PrefixMatch match;
  match.pages.resize(groups_.size());
  const uint32_t block = layout_.block_size;
  const auto most = static_cast<uint32_t>(std::min<size_t>(tokens.size(), max_tokens)) / block;
  std::vector<PrefixNode> path = {PrefixCache::Root(key, salt)};
  for (uint32_t b = 0; b < most; ++b) {
    const PrefixCache::Found* found =
        prefixes_.Find(path.back(), tokens.subspan(size_t{b} * block, block));
    if (found == nullptr) {
      const bool evicted =
          prefixes_.WasEvicted(path.back(), tokens.subspan(size_t{b} * block, block));
      match.end = evicted ? MatchEnd::kEvicted : MatchEnd::kUnknown;
      break;
    }
    path.push_back(found->node);
    for (uint32_t g = 0; g < groups_.size(); ++g) match.pages[g].push_back(found->pages[g]);
  }
  auto n_blocks = static_cast<uint32_t>(path.size() - 1);
  if (n_blocks == most) match.end = MatchEnd::kAsked;
  for (; n_blocks > 0 && !WindowCovered(match, n_blocks); --n_blocks) {
    match.end = MatchEnd::kWindowPassed;
  }
  match.n_tokens = n_blocks * block;
  match.node = path[n_blocks];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    match.pages[g].resize(n_blocks);
    const uint32_t seen = FirstBlockSeen(g, match.n_tokens);
    std::fill_n(match.pages[g].begin(), std::min(seen, n_blocks), kNoPage);
  }
  return match;
}

void KvManager::Borrow(uint32_t group, PageTable& table, std::span<const uint32_t> pages) {
  PageTable::Group& own = table.groups_[group];
  own.pages.assign(pages.begin(), pages.end());
  while (own.first_live < pages.size() && pages[own.first_live] == kNoPage) ++own.first_live;
  for (size_t b = own.first_live; b < pages.size(); ++b) {
    cached_pages_ -= groups_[group].pool.references(pages[b]) == 0;
    groups_[group].pool.AddReference(pages[b]);
  }
}

void KvManager::BeginPublishing(PageTable& table, uint32_t key, std::string_view salt) {
  // A table whose first pages are gone, and that does not come from a match, has no place in the
  // tree of known texts.
  const auto starts_late = [](const PageTable::Group& g) { return g.first_live > 0; };
  if (table.n_published_ == 0) {
    if (std::any_of(table.groups_.begin(), table.groups_.end(), starts_late)) return;
    table.last_published_ = PrefixCache::Root(key, salt);
  }
  table.publishes_ = true;
}

void KvManager::Publish(PageTable& table, std::span<const int32_t> tokens) {
  HADAL_CHECK(table.publishes_);
  const uint32_t b = table.n_published_++;
  HADAL_CHECK((b + 1) * layout_.block_size <= table.n_tokens_);
  for (uint32_t g = 0; g < groups_.size(); ++g) block_pages_[g] = table.groups_[g].pages[b];
  table.last_published_ =
      prefixes_.Insert(table.last_published_, tokens, block_pages_, table.publishes_);
}

std::optional<PrefixMatch> KvManager::Share(const PageTable& table, uint32_t n_tokens) const {
  HADAL_CHECK(table.open() && n_tokens <= table.n_tokens_);
  const uint32_t n_blocks = n_tokens / layout_.block_size;
  PrefixMatch match;
  match.n_tokens = n_blocks * layout_.block_size;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const PageTable::Group& own = table.groups_[g];
    const uint32_t seen = FirstBlockSeen(g, n_tokens);
    if (seen < own.first_live) return std::nullopt;
    std::vector<uint32_t>& pages =
        match.pages.emplace_back(own.pages.begin(), own.pages.begin() + n_blocks);
    std::fill_n(pages.begin(), std::min(seen, n_blocks), kNoPage);
  }
  return match;
}

PageTable KvManager::Fork(const PageTable& parent, uint32_t n_tokens, uint32_t max_tokens,
                          uint32_t promised_tokens) {
  const std::optional<PrefixMatch> shared = Share(parent, n_tokens);
  HADAL_CHECK(shared && n_tokens <= promised_tokens);
  PageTable table = Open(max_tokens, promised_tokens, *shared);
  table.n_published_ = 0;  // publishing starts anew: what is known already is merely found
  if (n_tokens == shared->n_tokens) return table;
  const uint32_t last = n_tokens / layout_.block_size;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const PageOp copy{.kind = PageOp::Kind::kCopy, .other = parent.groups_[g].pages[last]};
    table.groups_[g].pages.push_back(TakePage(g, copy));
    SetPromise(g, table);
  }
  table.n_tokens_ = n_tokens;
  unused_slots_ += groups_.size() * UnusedInLastPage(table);
  return table;
}

uint64_t KvManager::SwapBytes(const PageTable& table) const {
  uint64_t bytes = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    bytes += table.groups_[g].live() * layout_.groups[g].page_bytes;
  }
  return bytes;
}

SwappedTable KvManager::SwapOut(PageTable& table, uint64_t offset) {
  HADAL_CHECK(table.open());
  SwappedTable swapped{.n_tokens = table.n_tokens_,
                       .offset = offset,
                       .bytes = SwapBytes(table),
                       .groups = {},
                       // One that had to stop publishing must not go on with the wrong parent.
                       .n_published = table.publishes_ ? table.n_published_ : 0,
                       .last_published = table.last_published_};
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const PageTable::Group& own = table.groups_[g];
    swapped.groups.push_back({static_cast<uint32_t>(own.pages.size()), own.first_live});
    for (size_t b = own.first_live; b < own.pages.size(); ++b) {
      ops_.push_back({PageOp::Kind::kSwapOut, g, own.pages[b], offset});
      offset += layout_.groups[g].page_bytes;
    }
  }
  Close(table);
  return swapped;
}

PageTable KvManager::SwapIn(const SwappedTable& swapped, uint32_t max_tokens,
                            uint32_t promised_tokens) {
  HADAL_CHECK(swapped.n_tokens <= promised_tokens);
  PageTable table = Open(max_tokens, promised_tokens);
  uint64_t offset = swapped.offset;
  bool whole = true;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    PageTable::Group& own = table.groups_[g];
    own.first_live = swapped.groups[g].first_live;
    whole = whole && own.first_live == 0;
    own.pages.assign(own.first_live, kNoPage);
    while (own.pages.size() < swapped.groups[g].n_blocks) {
      own.pages.push_back(TakePage(g, {.kind = PageOp::Kind::kSwapIn, .other = offset}));
      offset += layout_.groups[g].page_bytes;
    }
    SetPromise(g, table);
  }
  // With all its pages it is published again from the start: parts of it may have been forgotten.
  table.n_published_ = whole ? 0 : swapped.n_published;
  table.last_published_ = swapped.last_published;
  table.n_tokens_ = swapped.n_tokens;
  unused_slots_ += groups_.size() * UnusedInLastPage(table);
  return table;
}

}  // namespace hadal
