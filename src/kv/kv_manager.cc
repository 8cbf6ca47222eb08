#include "kv/kv_manager.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/search.h"

namespace hadal {

namespace {

// A run of window - 1 + chunk tokens that starts anywhere touches at most this many pages.
uint32_t WindowPages(uint32_t window, uint32_t chunk, uint32_t block) {
  const uint64_t live = uint64_t{window} - 1 + chunk;
  return static_cast<uint32_t>((live + block - 2) / block + 1);
}

}  // namespace

KvManager::KvManager(const KvLayout& layout, std::vector<uint32_t> pages, uint32_t max_chunk)
    : layout_(layout),
      max_chunk_(max_chunk),
      prefixes_(layout.block_size, pages),
      block_pages_(pages.size(), kNoPage) {
  HADAL_CHECK(pages.size() == layout_.groups.size() && !pages.empty() && max_chunk > 0);
  groups_.reserve(pages.size());
  for (const uint32_t n : pages) {
    groups_.push_back(Group{BlockPool(n)});
  }
}

uint32_t KvManager::BlocksOf(uint64_t tokens) const {
  const uint64_t blocks = tokens / layout_.block_size + (tokens % layout_.block_size != 0);
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, std::numeric_limits<uint32_t>::max()));
}

uint32_t KvManager::PagesNeeded(uint32_t group, uint64_t total_tokens) const {
  const uint32_t all = BlocksOf(total_tokens);
  const uint32_t window = layout_.groups[group].window;
  return window == 0 ? all : std::min(all, WindowPages(window, max_chunk_, layout_.block_size));
}

bool KvManager::Fits(uint64_t total_tokens) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (PagesNeeded(g, total_tokens) > groups_[g].pool.n_pages()) return false;
  }
  return total_tokens <= std::numeric_limits<uint32_t>::max() - layout_.block_size;
}

uint64_t KvManager::MaxTokens() const {
  return Largest(0, std::numeric_limits<uint32_t>::max() - layout_.block_size,
                 [this](uint64_t n) { return Fits(n); });
}

// `op` says what the page is to be filled with; its group and page are set here.
uint32_t KvManager::TakePage(uint32_t group, PageOp op) {
  const uint32_t page = groups_[group].pool.Allocate();
  cached_pages_ -= prefixes_.knows(group, page);
  prefixes_.Forget(group, page);
  op.group = group;
  op.page = page;
  ops_.push_back(op);
  return page;
}

void KvManager::GivePage(uint32_t group, uint32_t page) {
  const bool known = prefixes_.knows(group, page);
  const bool freed = groups_[group].pool.Release(page, /*reuse_first=*/!known);
  cached_pages_ += freed && known;
}

// The first block that a token at `position` sees.
uint32_t KvManager::FirstBlockSeen(uint32_t group, uint32_t position) const {
  const uint32_t window = layout_.groups[group].window;
  if (window == 0 || position < window) return 0;
  return (position - window + 1) / layout_.block_size;
}

// Pages that can still be promised. A page of a full group stays with its sharers till the last one
// ends, so it need be there once. A windowed group's page may be let go by one sharer, who then
// takes another instead, while the others still use it: there every table's pages count in full.
uint64_t KvManager::Room(uint32_t group) const {
  const Group& g = groups_[group];
  return layout_.groups[group].window == 0 ? g.pool.n_free() - g.promised
                                           : g.pool.n_pages() - g.reserved;
}

// Pages still to be promised to a table so that it can hold `total_tokens`.
uint32_t KvManager::PromiseFor(uint32_t group, const PageTable& table,
                               uint64_t total_tokens) const {
  const PageTable::Group& own = table.groups_[group];
  const auto there = static_cast<uint32_t>(own.pages.size());
  const uint32_t all = BlocksOf(total_tokens);
  const uint32_t to_come = all - std::min(all, there);
  if (layout_.groups[group].window == 0) return to_come;
  const uint32_t bound = PagesNeeded(group, total_tokens);
  return std::min(bound - std::min(bound, own.live()), to_come);
}

uint32_t KvManager::PagesToCome(uint32_t group, const PageTable& table,
                                uint64_t total_tokens) const {
  if (total_tokens <= table.promised_tokens_) return 0;
  const uint32_t needed = PromiseFor(group, table, total_tokens);
  return needed - std::min(needed, table.groups_[group].promised);
}

bool KvManager::Grow(PageTable& table, uint32_t total_tokens) {
  HADAL_CHECK(table.open() && total_tokens <= table.max_tokens_);
  if (total_tokens <= table.promised_tokens_) return true;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    if (PagesToCome(g, table, total_tokens) > Room(g)) return false;
  }
  // A page is promised whole.
  table.promised_tokens_ = static_cast<uint32_t>(
      std::min<uint64_t>(uint64_t{BlocksOf(total_tokens)} * layout_.block_size, table.max_tokens_));
  for (uint32_t g = 0; g < groups_.size(); ++g) SetPromise(g, table);
  return true;
}

bool KvManager::CanOpen(uint64_t promised_tokens, const PrefixMatch& match,
                        std::span<const uint64_t> kept) const {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    uint64_t needed = PagesNeeded(g, promised_tokens);
    if (match.n_tokens > 0 && layout_.groups[g].window == 0) {
      const std::vector<uint32_t>& pages = match.pages[g];
      needed = BlocksOf(promised_tokens) - pages.size();
      for (const uint32_t page : pages) needed += groups_[g].pool.references(page) == 0;
    }
    if (!kept.empty()) needed += kept[g];
    if (needed > Room(g)) return false;
  }
  return true;
}

PageTable KvManager::Open(uint32_t max_tokens, uint32_t promised_tokens, const PrefixMatch& match) {
  HADAL_CHECK(promised_tokens <= max_tokens && match.n_tokens <= promised_tokens &&
              CanOpen(promised_tokens, match));
  PageTable table;
  table.max_tokens_ = max_tokens;
  table.promised_tokens_ = table.opened_tokens_ = promised_tokens;
  table.n_tokens_ = match.n_tokens;
  table.n_published_ = match.n_tokens / layout_.block_size;
  table.last_published_ = match.node;
  table.groups_.resize(groups_.size());
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    table.groups_[g].pages.reserve(BlocksOf(max_tokens));
    if (match.n_tokens > 0) Borrow(g, table, match.pages[g]);
    SetPromise(g, table);
  }
  return table;
}

// Call after every change of a table's pages.
void KvManager::SetPromise(uint32_t group, PageTable& table) {
  PageTable::Group& own = table.groups_[group];
  Group& all = groups_[group];
  all.promised -= own.promised;
  all.reserved -= own.reserved;
  own.promised = PromiseFor(group, table, table.promised_tokens_);
  own.reserved = own.live() + own.promised;
  all.promised += own.promised;
  all.reserved += own.reserved;
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
  HADAL_CHECK(n <= table.promised_tokens_ - table.n_tokens_);
  const uint32_t blocks = BlocksOf(table.n_tokens_ + n);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    ReleasePassedPages(g, table);
    PageTable::Group& own = table.groups_[g];
    while (own.pages.size() < blocks) own.pages.push_back(TakePage(g, {}));
    SetPromise(g, table);
  }
  unused_slots_ -= groups_.size() * UnusedInLastPage(table);
  table.n_tokens_ += n;
  unused_slots_ += groups_.size() * UnusedInLastPage(table);
}

void KvManager::Truncate(PageTable& table, uint32_t n_tokens) {
  HADAL_CHECK(table.open() && n_tokens <= table.n_tokens_);
  HADAL_CHECK(table.n_published_ <= n_tokens / layout_.block_size);
  unused_slots_ -= groups_.size() * UnusedInLastPage(table);
  table.n_tokens_ = n_tokens;
  unused_slots_ += groups_.size() * UnusedInLastPage(table);
  const uint32_t blocks = BlocksOf(n_tokens);
  // As if Grow had not been asked for more.
  const uint64_t needed = uint64_t{BlocksOf(std::max(n_tokens, table.opened_tokens_))};
  table.promised_tokens_ = static_cast<uint32_t>(
      std::min<uint64_t>(needed * layout_.block_size, table.promised_tokens_));
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    PageTable::Group& own = table.groups_[g];
    HADAL_CHECK(own.first_live <= blocks);
    while (own.pages.size() > blocks) {
      GivePage(g, own.pages.back());
      own.pages.pop_back();
    }
    SetPromise(g, table);
  }
}

void KvManager::Close(PageTable& table) {
  if (!table.open()) return;
  unused_slots_ -= groups_.size() * UnusedInLastPage(table);
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    PageTable::Group& own = table.groups_[g];
    groups_[g].promised -= own.promised;
    groups_[g].reserved -= own.reserved;
    // Last page first: the beginning of a text, which others may share, is reused last.
    for (size_t i = own.pages.size(); i > own.first_live; --i) {
      GivePage(g, own.pages[i - 1]);
    }
  }
  table = PageTable();
}

KvUsage KvManager::usage() const {
  KvUsage usage;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    usage.pages += group.pool.n_pages();
    usage.used_pages += group.pool.n_used();
    usage.used_bytes += group.pool.n_used() * layout_.groups[g].page_bytes;
    usage.promised_pages += group.promised;
  }
  usage.allocated_slots = usage.used_pages * layout_.block_size;
  usage.unused_slots = unused_slots_;
  usage.known_blocks = prefixes_.n_blocks();
  usage.cached_pages = cached_pages_;
  usage.evicted_pages = prefixes_.n_evicted();
  return usage;
}

std::vector<uint32_t> PagesPerGroup(const KvLayout& layout, uint32_t n_sequences, uint64_t context,
                                    uint32_t max_chunk) {
  const uint64_t all = (context + layout.block_size - 1) / layout.block_size;
  std::vector<uint32_t> pages;
  for (const KvGroup& group : layout.groups) {
    uint64_t each = all;
    if (group.window != 0) {
      each = std::min<uint64_t>(all, WindowPages(group.window, max_chunk, layout.block_size));
    }
    pages.push_back(static_cast<uint32_t>(
        std::min<uint64_t>(each * n_sequences, std::numeric_limits<uint32_t>::max())));
  }
  return pages;
}

}  // namespace hadal
