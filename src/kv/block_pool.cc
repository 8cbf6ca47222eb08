#include "kv/block_pool.h"

#include "base/check.h"

namespace hadal {

BlockPool::BlockPool(uint32_t n_pages) : n_pages_(n_pages), nodes_(size_t{n_pages} + 1) {
  nodes_[n_pages_].previous = nodes_[n_pages_].next = n_pages_;
  for (uint32_t page = 0; page < n_pages; ++page) LinkLast(page);
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

bool BlockPool::Release(uint32_t page) {
  HADAL_CHECK(page < n_pages_ && nodes_[page].references > 0);
  if (--nodes_[page].references > 0) return false;
  LinkLast(page);
  return true;
}

void BlockPool::Unlink(uint32_t page) {
  const Node& node = nodes_[page];
  nodes_[node.previous].next = node.next;
  nodes_[node.next].previous = node.previous;
  --n_free_;
}

void BlockPool::LinkLast(uint32_t page) {
  Node& head = nodes_[n_pages_];
  nodes_[page].previous = head.previous;
  nodes_[page].next = n_pages_;
  nodes_[head.previous].next = page;
  head.previous = page;
  ++n_free_;
}

}  // namespace hadal
