#include "kv/block_pool.h"

#include "base/check.h"

namespace hadal {

BlockPool::BlockPool(uint32_t n_pages) : n_pages_(n_pages), nodes_(size_t{n_pages} + 1) {
  nodes_[n_pages_].previous = nodes_[n_pages_].next = n_pages_;
  for (uint32_t page = 0; page < n_pages; ++page) LinkAfter(page, nodes_[n_pages_].previous);
}

uint32_t BlockPool::Allocate() {
  HADAL_CHECK(n_free_ > 0);
  const uint32_t page = nodes_[n_pages_].next;
  Unlink(page);
  nodes_[page].references = 1;
  return page;
}

void BlockPool::AddReference(uint32_t page) {
  HADAL_CHECK(page < n_pages_);
  if (nodes_[page].references++ == 0) Unlink(page);
}

bool BlockPool::Release(uint32_t page, bool reuse_first) {
  HADAL_CHECK(page < n_pages_ && nodes_[page].references > 0);
  if (--nodes_[page].references > 0) return false;
  LinkAfter(page, reuse_first ? n_pages_ : nodes_[n_pages_].previous);
  return true;
}

void BlockPool::Unlink(uint32_t page) {
  const Node& node = nodes_[page];
  nodes_[node.previous].next = node.next;
  nodes_[node.next].previous = node.previous;
  --n_free_;
}

void BlockPool::LinkAfter(uint32_t page, uint32_t previous) {
  const uint32_t next = nodes_[previous].next;
  nodes_[page].previous = previous;
  nodes_[page].next = next;
  nodes_[previous].next = page;
  nodes_[next].previous = page;
  ++n_free_;
}

}  // namespace hadal
