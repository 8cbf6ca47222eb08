// Which page holds which token of which sequence, in every group of the KV layout, and how much
// room is left. Owns no bytes: only page ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
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
    uint32_t promised = 0;    // pages this sequence may still take
    uint32_t reserved = 0;    // live pages and promised ones
    uint32_t live() const { return static_cast<uint32_t>(pages.size()) - first_live; }
  };
  uint32_t n_tokens_ = 0;
  uint32_t max_tokens_ = 0;
  uint32_t promised_tokens_ = 0;  // whose pages are there or promised
  uint32_t opened_tokens_ = 0;    // promised from the beginning
  uint32_t n_published_ = 0;      // blocks the prefix cache knows
  PrefixNode last_published_;
  bool publishes_ = false;
  std::vector<Group> groups_;
};

// Why a match ends where it does.
enum class MatchEnd : uint8_t { kAsked, kUnknown, kEvicted, kWindowPassed };

// The longest beginning of a text whose KV is still there. Valid until the next change of the
// KvManager.
struct PrefixMatch {
  uint32_t n_tokens = 0;  // a multiple of the block size
  MatchEnd end = MatchEnd::kUnknown;
  PrefixNode node;
  std::vector<std::vector<uint32_t>> pages;  // per group: n_tokens / block_size entries or kNoPage
};

// What must happen to the pages' bytes before the next step reads or writes them. Ops are carried
// out one after the other: a later one may use a page that an earlier one has read.
struct PageOp {
  // kZero: a fresh page, so that a finished sequence's values (or NaNs) never meet a new one.
  enum class Kind : uint8_t { kZero, kCopy, kSwapOut, kSwapIn };
  Kind kind = Kind::kZero;
  uint32_t group = 0;
  uint32_t page = 0;
  uint64_t other = 0;  // kCopy: the page copied from; swaps: byte offset in the swap space
};

// A table whose pages are in the swap space: contiguous from `offset`, groups one after the other.
struct SwappedTable {
  uint32_t n_tokens = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  struct Group {
    uint32_t n_blocks = 0;
    uint32_t first_live = 0;
  };
  std::vector<Group> groups;
  uint32_t n_published = 0;
  PrefixNode last_published;
};

struct KvUsage {
  uint64_t pages = 0;            // of all groups
  uint64_t used_pages = 0;       // referenced by some sequence
  uint64_t used_bytes = 0;       // of those pages
  uint64_t promised_pages = 0;   // free, but kept for sequences that are open
  uint64_t known_blocks = 0;     // in the prefix cache, in use or not
  uint64_t cached_pages = 0;     // free, but what they hold is known
  uint64_t evicted_pages = 0;    // since the start: cached pages given up to make room
  uint64_t allocated_slots = 0;  // in used pages
  uint64_t unused_slots = 0;     // of those, without a token
  // FR = sum of unused slots / sum of allocated slots; 0 when nothing is allocated.
  double fragmentation() const {
    return allocated_slots == 0
               ? 0.0
               : static_cast<double>(unused_slots) / static_cast<double>(allocated_slots);
  }
};

// Pages are promised to a table before it takes them: to its whole text at once, so that Append
// cannot fail, or little by little with Grow, whose failure is the scheduler's to handle.
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

  // The KV that is known for the beginning of `tokens`, at most `max_tokens` of it. `key` and
  // `salt`: see PrefixCache::Root.
  PrefixMatch Match(std::span<const int32_t> tokens, uint32_t max_tokens, uint32_t key,
                    std::string_view salt = {});

  // Whether Open(.., promised_tokens, match) has room now, with kept[g] more pages of group g left
  // for others (empty: none).
  bool CanOpen(uint64_t promised_tokens, const PrefixMatch& match = {},
               std::span<const uint64_t> kept = {}) const;

  // A table that may grow to `max_tokens`, has the pages for `promised_tokens` of them promised and
  // holds the matched tokens already. REQUIRES: CanOpen(promised_tokens, match).
  PageTable Open(uint32_t max_tokens, uint32_t promised_tokens, const PrefixMatch& match = {});
  PageTable Open(uint32_t tokens, const PrefixMatch& match = {}) {
    return Open(tokens, tokens, match);
  }

  // Promises the pages for `total_tokens` (<= the table's max_tokens); false, with nothing changed,
  // when there are not enough.
  bool Grow(PageTable& table, uint32_t total_tokens);

  // Pages of `group` that a table would still take or be promised to hold `total_tokens`, beyond
  // those it has and is promised.
  uint32_t PagesToCome(uint32_t group, const PageTable& table, uint64_t total_tokens) const;

  // The first `n_tokens` of an open table as a match, to be shared by reference: whole blocks only.
  // Null when its windows have passed something that the next token sees.
  std::optional<PrefixMatch> Share(const PageTable& table, uint32_t n_tokens) const;
  // A table with the first `n_tokens` of `parent`: whole pages shared, a partial last one copied.
  // REQUIRES: Share gives a match, and CanOpen(promised_tokens, it).
  PageTable Fork(const PageTable& parent, uint32_t n_tokens, uint32_t max_tokens,
                 uint32_t promised_tokens);

  // Bytes that SwapOut needs, and SwapOut itself: the pages are read by the ops and given back; the
  // table is closed. `offset`: where they go.
  uint64_t SwapBytes(const PageTable& table) const;
  SwappedTable SwapOut(PageTable& table, uint64_t offset);
  // The way back. REQUIRES: CanOpen(promised_tokens), promised_tokens >= swapped.n_tokens.
  PageTable SwapIn(const SwappedTable& swapped, uint32_t max_tokens, uint32_t promised_tokens);

  // Lets others find this sequence's blocks, under `key` and `salt`; see Publish. Call once after
  // Open, Fork or SwapIn.
  void BeginPublishing(PageTable& table, uint32_t key, std::string_view salt = {});
  // Blocks published so far, those of the match included; nothing more is taken when full.
  uint32_t n_published(const PageTable& table) const { return table.n_published_; }
  bool publishes(const PageTable& table) const { return table.publishes_; }
  // The next block's tokens (block_size of them), whose KV is stored by now.
  void Publish(PageTable& table, std::span<const int32_t> tokens);

  // Slots for the next `n` tokens: [n_tokens, n_tokens + n). Returns pages to the pool that lie
  // wholly outside the window of the first of them. REQUIRES: 0 < n <= max_chunk, total within
  // what is promised.
  void Append(PageTable& table, uint32_t n);

  // Takes back the slots of the last tokens, so that n_tokens are left, and gives back the pages
  // that only those had taken or were promised. REQUIRES: nothing of them is published, and they
  // came with the last Append, whose first token stays: what a window has passed is gone.
  void Truncate(PageTable& table, uint32_t n_tokens);

  // Gives everything back; the table is empty afterwards. Closing a closed table does nothing.
  void Close(PageTable& table);

  // What is to be done to the bytes, in this order, since the last call of ForgetOps.
  std::span<const PageOp> ops() const { return ops_; }
  void ForgetOps() { ops_.clear(); }

  const KvLayout& layout() const { return layout_; }
  KvUsage usage() const;
  const BlockPool& pool(uint32_t group) const { return groups_[group].pool; }

 private:
  struct Group {
    BlockPool pool;
    uint64_t promised = 0;
    uint64_t reserved = 0;  // over all tables: a shared page counts in each
  };
  uint32_t BlocksOf(uint64_t tokens) const;
  uint64_t Room(uint32_t group) const;
  uint32_t TakePage(uint32_t group, PageOp op);
  void GivePage(uint32_t group, uint32_t page);
  void Borrow(uint32_t group, PageTable& table, std::span<const uint32_t> pages);
  bool WindowCovered(const PrefixMatch& match, uint32_t n_blocks) const;
  uint32_t FirstBlockSeen(uint32_t group, uint32_t position) const;
  uint32_t PromiseFor(uint32_t group, const PageTable& table, uint64_t total_tokens) const;
  void SetPromise(uint32_t group, PageTable& table);
  void ReleasePassedPages(uint32_t group, PageTable& table);
  uint32_t UnusedInLastPage(const PageTable& table) const;

  KvLayout layout_;
  uint32_t max_chunk_;
  std::vector<Group> groups_;
  PrefixCache prefixes_;
  std::vector<PageOp> ops_;
  std::vector<uint32_t> block_pages_;  // scratch, one per group
  uint64_t cached_pages_ = 0;          // free and known
  uint64_t unused_slots_ = 0;          // over open tables and groups
};

// Pages that each group needs so that `n_sequences` texts of `context` tokens are there at once, in
// steps of at most `max_chunk` tokens per sequence: a windowed group needs only what its window
// sees.
std::vector<uint32_t> PagesPerGroup(const KvLayout& layout, uint32_t n_sequences, uint64_t context,
                                    uint32_t max_chunk);

}  // namespace hadal
