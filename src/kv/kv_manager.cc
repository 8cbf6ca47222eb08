#include "kv/kv_manager.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace hadal {

KvManager::KvManager(const KvLayout& layout, std::vector<uint32_t> pages, uint32_t max_chunk)
    : layout_(layout), max_chunk_(max_chunk) {
  HADAL_CHECK(pages.size() == layout_.groups.size() && !pages.empty() && max_chunk > 0);
  groups_.reserve(pages.size());
  for (const uint32_t n : pages) {
    groups_.push_back(Group{BlockPool(n), 0, {}});
    groups_.back().fresh.reserve(n);
  }
}

uint32_t KvManager::BlocksOf(uint64_t tokens) const {
  const uint64_t blocks = tokens / layout_.block_size + (tokens % layout_.block_size != 0);
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, std::numeric_limits<uint32_t>::max()));
}

uint32_t KvManager::PagesNeeded(uint32_t group, uint64_t total_tokens) const {
  const uint32_t all = BlocksOf(total_tokens);
  const uint32_t window = layout_.groups[group].window;
  if (window == 0) return all;
  // A run of `live` tokens that starts anywhere touches at most this many pages.
  const uint64_t live = uint64_t{window} - 1 + max_chunk_;
  return static_cast<uint32_t>(
      std::min<uint64_t>(all, (live + layout_.block_size - 2) / layout_.block_size + 1));
}

bool KvManager::Fits(uint64_t total_tokens) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (PagesNeeded(g, total_tokens) > groups_[g].pool.n_pages()) return false;
  }
  return total_tokens <= std::numeric_limits<uint32_t>::max() - layout_.block_size;
}

uint64_t KvManager::MaxTokens() const {
  uint64_t low = 0, high = std::numeric_limits<uint32_t>::max() - layout_.block_size;
  while (low < high) {
    const uint64_t middle = low + (high - low + 1) / 2;
    if (Fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

bool KvManager::CanOpen(uint64_t total_tokens) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (PagesNeeded(g, total_tokens) + group.promised > group.pool.n_free()) return false;
  }
  return true;
}

PageTable KvManager::Open(uint32_t total_tokens) {
  HADAL_CHECK(CanOpen(total_tokens));
  PageTable table;
  table.max_tokens_ = total_tokens;
  table.groups_.resize(groups_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    table.groups_[g].pages.reserve(BlocksOf(total_tokens));
    SetPromise(g, table);
  }
  return table;
}

// Keeps "live pages + promise" at what the sequence can still need, and no more.
void KvManager::SetPromise(uint32_t group, PageTable& table) {
  PageTable::Group& own = table.groups_[group];
  const uint32_t to_come =
      BlocksOf(table.max_tokens_) - static_cast<uint32_t>(own.pages.size()) + own.live();
  const uint32_t most = std::min(PagesNeeded(group, table.max_tokens_), to_come);
  HADAL_CHECK(own.live() <= most);
  groups_[group].promised -= own.promised;
  own.promised = most - own.live();
  groups_[group].promised += own.promised;
}

void KvManager::ReleasePassedPages(uint32_t group, PageTable& table) {
  const uint32_t window = layout_.groups[group].window;
  if (window == 0 || table.n_tokens_ < window) return;
  // The next token, at position n_tokens, sees positions > n_tokens - window.
  const uint32_t first_seen = table.n_tokens_ - window + 1;
  PageTable::Group& own = table.groups_[group];
  const uint32_t passed =
      std::min<uint32_t>(first_seen / layout_.block_size, static_cast<uint32_t>(own.pages.size()));
  for (; own.first_live < passed; ++own.first_live) {
    groups_[group].pool.Release(std::exchange(own.pages[own.first_live], kNoPage));
  }
}

uint32_t KvManager::UnusedInLastPage(const PageTable& table) const {
  const uint32_t used = table.n_tokens_ % layout_.block_size;
  return used == 0 ? 0 : layout_.block_size - used;
}

void KvManager::Append(PageTable& table, uint32_t n) {
  HADAL_CHECK(table.open() && n > 0 && n <= max_chunk_);
  HADAL_CHECK(n <= table.max_tokens_ - table.n_tokens_);
  const uint32_t blocks = BlocksOf(table.n_tokens_ + n);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    ReleasePassedPages(g, table);
    PageTable::Group& own = table.groups_[g];
    while (own.pages.size() < blocks) {
      own.pages.push_back(groups_[g].pool.Allocate());
      groups_[g].fresh.push_back(own.pages.back());
    }
    SetPromise(g, table);
  }
  unused_slots_ -= groups_.size() * UnusedInLastPage(table);
  table.n_tokens_ += n;
  unused_slots_ += groups_.size() * UnusedInLastPage(table);
}

void KvManager::Close(PageTable& table) {
  if (!table.open()) return;
  unused_slots_ -= groups_.size() * UnusedInLastPage(table);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    PageTable::Group& own = table.groups_[g];
    groups_[g].promised -= own.promised;
    // Last page first: the beginning of a text, which others may share, is reused last.
    for (size_t i = own.pages.size(); i > own.first_live; --i) {
      groups_[g].pool.Release(own.pages[i - 1]);
    }
  }
  table = PageTable();
}

void KvManager::ForgetFresh() {
  for (Group& group : groups_) group.fresh.clear();
}

KvUsage KvManager::usage() const {
  KvUsage usage;
  for (const Group& group : groups_) {
    usage.pages += group.pool.n_pages();
    usage.used_pages += group.pool.n_used();
    usage.promised_pages += group.promised;
  }
  usage.allocated_slots = usage.used_pages * layout_.block_size;
  usage.unused_slots = unused_slots_;
  return usage;
}

}  // namespace hadal
