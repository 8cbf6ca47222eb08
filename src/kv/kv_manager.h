// Which page holds which token of which sequence, in every group of the KV layout, and how much
// room is left. Owns no bytes: only page ids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "spec/kv_layout.h"

namespace hadal {

// The pages of one sequence. Made by KvManager::Open, given back by KvManager::Close.
class PageTable {
 public:
  // Tokens that have a slot; the next one goes to this position.
  uint32_t n_tokens() const { return n_tokens_; }

  // Entry i holds tokens [i*block_size, (i+1)*block_size); kNoPage where the group's window has
  // passed it.
  std::span<const uint32_t> pages(uint32_t group) const { return groups_[group].pages; }

  bool open() const { return !groups_.empty(); }

 private:
  friend class KvManager;
  struct Group {
    std::vector<uint32_t> pages;
    uint32_t first_live = 0;  // entries before it are kNoPage
    uint32_t borrowed = 0;    // entries [first_live, borrowed) were found in the prefix cache
    uint32_t promised = 0;    // pages this sequence may still take
    uint32_t live() const { return static_cast<uint32_t>(pages.size()) - first_live; }
  };
  uint32_t n_tokens_ = 0;
  uint32_t max_tokens_ = 0;
  uint32_t n_published_ = 0;  // blocks the prefix cache knows
  PrefixNode last_published_;
  bool publishes_ = false;
  std::vector<Group> groups_;
};

// The longest beginning of a text whose KV is still there. Valid until the next change of the
// KvManager.
struct PrefixMatch {
  uint32_t n_tokens = 0;  // a multiple of the block size
  PrefixNode node;
  std::vector<std::vector<uint32_t>> pages;  // per group: n_tokens / block_size entries or kNoPage
};

struct KvUsage {
  uint64_t pages = 0;            // of all groups
  uint64_t used_pages = 0;       // referenced by some sequence
  uint64_t promised_pages = 0;   // free, but kept for sequences that are open
  uint64_t known_blocks = 0;     // in the prefix cache, in use or not
  uint64_t allocated_slots = 0;  // in used pages
  uint64_t unused_slots = 0;     // of those, without a token
  // FR = sum of unused slots / sum of allocated slots; 0 when nothing is allocated.
  double fragmentation() const {
    return allocated_slots == 0
               ? 0.0
               : static_cast<double>(unused_slots) / static_cast<double>(allocated_slots);
  }
};

// Every open sequence has all the pages it can ever need promised to it, so Append cannot fail.
// Used by one thread.
class KvManager {
 public:
  // `pages` per group of the layout; `max_chunk`: the most tokens one Append may add.
  KvManager(const KvLayout& layout, std::vector<uint32_t> pages, uint32_t max_chunk);

  // Pages a sequence of `total_tokens` holds at most at any one time in `group`. A window needs
  // the tokens that the first row of a chunk still sees, and the chunk itself.
  uint32_t PagesNeeded(uint32_t group, uint64_t total_tokens) const;

  // Whether `total_tokens` fit at all, with every other sequence gone.
  bool Fits(uint64_t total_tokens) const;
  // The largest number of tokens that Fits.
  uint64_t MaxTokens() const;

  // The KV that is known for the beginning of `tokens`, at most `max_tokens` of it. `key`: what
  // else the values depend on (see PrefixCache::Root).
  PrefixMatch Match(std::span<const int32_t> tokens, uint32_t max_tokens, uint32_t key);

  // Whether Open(total_tokens, match) has room now.
  bool CanOpen(uint64_t total_tokens, const PrefixMatch& match = {}) const;

  // A table that may grow to `total_tokens` and holds the matched tokens already.
  // REQUIRES: CanOpen(total_tokens, match).
  PageTable Open(uint32_t total_tokens, const PrefixMatch& match = {});

  // Lets others find this sequence's blocks, under `key`; see Publish. Call once after Open.
  void BeginPublishing(PageTable& table, uint32_t key);
  // Blocks published so far, those of the match included; nothing more is taken when full.
  uint32_t n_published(const PageTable& table) const { return table.n_published_; }
  bool publishes(const PageTable& table) const { return table.publishes_; }
  // The next block's tokens (block_size of them), whose KV is stored by now.
  void Publish(PageTable& table, std::span<const int32_t> tokens);

  // Slots for the next `n` tokens: [n_tokens, n_tokens + n). Returns pages to the pool that lie
  // wholly outside the window of the first of them. REQUIRES: 0 < n <= max_chunk, total within
  // Open's promise. Does not allocate memory.
  void Append(PageTable& table, uint32_t n);

  // Gives everything back; the table is empty afterwards. Closing a closed table does nothing.
  void Close(PageTable& table);

  // Pages handed out since the last call of ForgetFresh, per group: whoever owns the bytes zeroes
  // them before use, so that a finished sequence's values (or NaNs) never meet a new one.
  std::span<const uint32_t> fresh_pages(uint32_t group) const { return groups_[group].fresh; }
  void ForgetFresh();

  const KvLayout& layout() const { return layout_; }
  KvUsage usage() const;
  const BlockPool& pool(uint32_t group) const { return groups_[group].pool; }

 private:
  struct Group {
    BlockPool pool;
    uint64_t promised = 0;
    std::vector<uint32_t> fresh;
  };
  uint32_t BlocksOf(uint64_t tokens) const;
  uint32_t TakePage(uint32_t group);
  void GivePage(uint32_t group, uint32_t page);
  void Borrow(uint32_t group, PageTable& table, std::span<const uint32_t> pages);
  bool WindowCovered(const PrefixMatch& match, uint32_t n_blocks) const;
  uint32_t FirstBlockSeen(uint32_t group, uint32_t position) const;
  uint32_t PromiseFor(uint32_t group, const PageTable& table) const;
  void SetPromise(uint32_t group, PageTable& table);
  void ReleasePassedPages(uint32_t group, PageTable& table);
  uint32_t UnusedInLastPage(const PageTable& table) const;

  KvLayout layout_;
  uint32_t max_chunk_;
  std::vector<Group> groups_;
  PrefixCache prefixes_;
  std::vector<uint32_t> block_pages_;  // scratch, one per group
  uint64_t unused_slots_ = 0;          // over open tables and groups
};

}  // namespace hadal
