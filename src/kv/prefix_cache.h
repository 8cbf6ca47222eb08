// Remembers what full pages hold, so that a text that begins like an earlier one reuses its KV.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hadal {

// A place in the tree of known texts: after some number of full blocks.
struct PrefixNode {
  uint64_t id = 0;    // never given twice; 0: before the first block
  uint64_t hash = 0;  // chained over all blocks up to here
  std::string root;   // before the first block: what else the values depend on
};

// Blocks are found by a chained hash and verified: the parent by its unique id, the first block's
// salt and key and every block's tokens by comparing them. Wrong KV, or KV of another salt, is
// impossible, whatever the hashes do. Used by one thread.
class PrefixCache {
 public:
  // `pages`: how many each KV group has.
  PrefixCache(uint32_t block_size, std::span<const uint32_t> pages);

  // Where texts begin whose KV depends on `key` besides the tokens (0 in the usual case) and is
  // shared only under the same `salt`.
  static PrefixNode Root(uint32_t key, std::string_view salt = {});

  // The child of `parent` with these block_size tokens, or null. `pages` (one per group; kNoPage
  // where the page is gone) stay valid until the next change.
  struct Found {
    PrefixNode node;
    std::span<const uint32_t> pages;
  };
  const Found* Find(const PrefixNode& parent, std::span<const int32_t> tokens);

  // Whether that child was known not long ago and its pages went to others. A hint: it forgets.
  bool WasEvicted(const PrefixNode& parent, std::span<const int32_t> tokens) const;

  // Remembers the child of `parent`, with its page in every group. A block that is known keeps
  // the pages it has. Returns its node; the parent's own when a hash collides (then nothing more
  // can be remembered on this path, and `stored` is false).
  PrefixNode Insert(const PrefixNode& parent, std::span<const int32_t> tokens,
                    std::span<const uint32_t> pages, bool& stored);

  // The page is about to hold something else.
  void Forget(uint32_t group, uint32_t page);

  bool knows(uint32_t group, uint32_t page) const { return keys_[group][page] != 0; }
  size_t n_blocks() const { return blocks_.size(); }
  // Pages forgotten while they held something known.
  uint64_t n_evicted() const { return n_evicted_; }

 private:
  struct Block {
    uint64_t id = 0;
    uint64_t parent_id = 0;
    std::string root;  // of a first block
    std::vector<int32_t> tokens;
    std::vector<uint32_t> pages;  // per group
  };
  uint64_t HashOf(const PrefixNode& parent, std::span<const int32_t> tokens) const;
  static bool Matches(const Block& block, const PrefixNode& parent,
                      std::span<const int32_t> tokens);

  uint32_t block_size_;
  uint64_t next_id_;
  std::unordered_map<uint64_t, Block> blocks_;  // by chained hash, never 0
  std::vector<std::vector<uint64_t>> keys_;     // [group][page]: its block's hash, 0: none
  std::vector<uint64_t> evicted_;               // [hash % size]: a hash
  uint64_t n_evicted_ = 0;
  Found found_;
};

}  // namespace hadal
