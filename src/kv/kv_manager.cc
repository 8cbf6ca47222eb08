#include "kv/kv_manager.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace hadal {

KvManager::KvManager(const KvLayout& layout, std::vector<uint32_t> pages, uint32_t max_chunk)
    : layout_(layout),
      max_chunk_(max_chunk),
      prefixes_(layout.block_size, pages),
      block_pages_(pages.size(), kNoPage) {
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

uint32_t KvManager::TakePage(uint32_t group) {
  const uint32_t page = groups_[group].pool.Allocate();
  prefixes_.Forget(group, page);
  groups_[group].fresh.push_back(page);
  return page;
}

void KvManager::GivePage(uint32_t group, uint32_t page) {
  groups_[group].pool.Release(page, /*reuse_first=*/!prefixes_.knows(group, page));
}

// The first block that a token at `position` sees.
uint32_t KvManager::FirstBlockSeen(uint32_t group, uint32_t position) const {
  const uint32_t window = layout_.groups[group].window;
  if (window == 0 || position < window) return 0;
  return (position - window + 1) / layout_.block_size;
}

// Whether the token after n_blocks blocks finds everything its windows see.
bool KvManager::WindowCovered(const PrefixMatch& match, uint32_t n_blocks) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    for (uint32_t b = FirstBlockSeen(g, n_blocks * layout_.block_size); b < n_blocks; ++b) {
      if (match.pages[g][b] == kNoPage) return false;
    }
  }
  return true;
}

PrefixMatch KvManager::Match(std::span<const int32_t> tokens, uint32_t max_tokens, uint32_t key) {
  PrefixMatch match;
  match.pages.resize(groups_.size());
  const uint32_t block = layout_.block_size;
  const auto most = static_cast<uint32_t>(std::min<size_t>(tokens.size(), max_tokens)) / block;
  std::vector<PrefixNode> path = {PrefixCache::Root(key)};
  for (uint32_t b = 0; b < most; ++b) {
    const PrefixCache::Found* found =
        prefixes_.Find(path.back(), tokens.subspan(size_t{b} * block, block));
    if (found == nullptr) break;
    path.push_back(found->node);
    for (uint32_t g = 0; g < groups_.size(); ++g) match.pages[g].push_back(found->pages[g]);
  }
  auto n_blocks = static_cast<uint32_t>(path.size() - 1);
  while (n_blocks > 0 && !WindowCovered(match, n_blocks)) --n_blocks;
  match.n_tokens = n_blocks * block;
  match.node = path[n_blocks];
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    match.pages[g].resize(n_blocks);
    const uint32_t seen = FirstBlockSeen(g, match.n_tokens);
    std::fill_n(match.pages[g].begin(), std::min(seen, n_blocks), kNoPage);
  }
  return match;
}

// Pages still to be promised to a table with these pages. Pages of a windowed group that were
// borrowed do not count towards its bound: when their first owner lets go of one, its own promise
// grows although the page stays in use here.
uint32_t KvManager::PromiseFor(uint32_t group, const PageTable& table) const {
  const PageTable::Group& own = table.groups_[group];
  const uint32_t to_come = BlocksOf(table.max_tokens_) - static_cast<uint32_t>(own.pages.size());
  if (layout_.groups[group].window == 0) return to_come;
  const uint32_t held =
      static_cast<uint32_t>(own.pages.size()) - std::max(own.first_live, own.borrowed);
  const uint32_t bound = PagesNeeded(group, table.max_tokens_);
  HADAL_CHECK(held <= bound);
  return std::min(bound - held, to_come);
}

bool KvManager::CanOpen(uint64_t total_tokens, const PrefixMatch& match) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    uint64_t needed = PagesNeeded(g, total_tokens);
    if (match.n_tokens > 0) {
      const std::vector<uint32_t>& pages = match.pages[g];
      const uint64_t to_come = BlocksOf(total_tokens) - pages.size();
      needed = layout_.groups[g].window == 0 ? to_come : std::min(needed, to_come);
      for (const uint32_t page : pages) {
        needed += page != kNoPage && group.pool.references(page) == 0;  // leaves the free list
      }
    }
    if (needed + group.promised > group.pool.n_free()) return false;
  }
  return true;
}

PageTable KvManager::Open(uint32_t total_tokens, const PrefixMatch& match) {
  HADAL_CHECK(CanOpen(total_tokens, match) && match.n_tokens <= total_tokens);
  PageTable table;
  table.max_tokens_ = total_tokens;
  table.n_tokens_ = match.n_tokens;
  table.n_published_ = match.n_tokens / layout_.block_size;
  table.last_published_ = match.node;
  table.groups_.resize(groups_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    table.groups_[g].pages.reserve(BlocksOf(total_tokens));
    if (match.n_tokens > 0) Borrow(g, table, match.pages[g]);
    SetPromise(g, table);
  }
  return table;
}

void KvManager::Borrow(uint32_t group, PageTable& table, std::span<const uint32_t> pages) {
  PageTable::Group& own = table.groups_[group];
  own.pages.assign(pages.begin(), pages.end());
  own.borrowed = static_cast<uint32_t>(pages.size());
  while (own.first_live < own.borrowed && pages[own.first_live] == kNoPage) ++own.first_live;
  for (uint32_t b = own.first_live; b < own.borrowed; ++b) {
    groups_[group].pool.AddReference(pages[b]);
  }
}

void KvManager::BeginPublishing(PageTable& table, uint32_t key) {
  if (table.n_published_ == 0) table.last_published_ = PrefixCache::Root(key);
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

void KvManager::SetPromise(uint32_t group, PageTable& table) {
  PageTable::Group& own = table.groups_[group];
  groups_[group].promised -= own.promised;
  own.promised = PromiseFor(group, table);
  groups_[group].promised += own.promised;
}

void KvManager::ReleasePassedPages(uint32_t group, PageTable& table) {
  PageTable::Group& own = table.groups_[group];
  const uint32_t passed = std::min<uint32_t>(FirstBlockSeen(group, table.n_tokens_),
                                             static_cast<uint32_t>(own.pages.size()));
  for (; own.first_live < passed; ++own.first_live) {
    GivePage(group, std::exchange(own.pages[own.first_live], kNoPage));
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
    while (own.pages.size() < blocks) own.pages.push_back(TakePage(g));
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
      GivePage(g, own.pages[i - 1]);
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
  usage.known_blocks = prefixes_.n_blocks();
  return usage;
}

}  // namespace hadal
