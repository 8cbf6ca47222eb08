// The pages of one KV arena: who uses them, and in which order free ones are given out again.
#pragma once

#include <cstdint>
#include <vector>

namespace hadal {

// Page ids and reference counts; touches no page's bytes. All operations are O(1) and none
// allocates. Used by one thread.
class BlockPool {
 public:
  explicit BlockPool(uint32_t n_pages);

  // The page that has been free longest, now with one reference. REQUIRES: n_free() > 0.
  uint32_t Allocate();

  // One more user of `page`. A free page leaves the free list: its content is wanted again.
  void AddReference(uint32_t page);

  // One user less; the last one's page goes to the end of the free list (returns true then), or,
  // when nobody will want its content again, to the front.
  // CHECKs that the page is in use: a double free would give it to two sequences.
  bool Release(uint32_t page, bool reuse_first = false);

  uint32_t references(uint32_t page) const { return nodes_[page].references; }
  uint32_t n_pages() const { return n_pages_; }
  uint32_t n_free() const { return n_free_; }
  uint32_t n_used() const { return n_pages_ - n_free_; }

 private:
  struct Node {
    uint32_t references = 0;
    uint32_t previous = 0, next = 0;  // in the free list, while references == 0
  };
  void Unlink(uint32_t page);
  void LinkAfter(uint32_t page, uint32_t previous);

  uint32_t n_pages_;
  uint32_t n_free_ = 0;
  std::vector<Node> nodes_;  // [n_pages + 1]; the last is the list's head
};

}  // namespace hadal
