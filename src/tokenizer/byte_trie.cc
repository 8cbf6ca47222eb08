#include "tokenizer/byte_trie.h"

#include <algorithm>

namespace hadal {

ByteTrie::ByteTrie(std::vector<std::pair<std::string, int32_t>> entries) {
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  if (entries.empty()) return;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });

  // Level by level: the entries of a node are neighbours, and so become its edges.
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, 0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t next = 0; next < ranges.size(); ++next) {
    const Range range = ranges[next];
    Node node;
    node.first_edge = static_cast<uint32_t>(edge_bytes_.size());
    size_t i = range.begin;
    for (; i < range.end && entries[i].first.size() == range.depth; ++i) {
      node.value = entries[i].second;
    }
    while (i < range.end) {
      const char byte = entries[i].first[range.depth];
      size_t end = i + 1;
      while (end < range.end && entries[end].first[range.depth] == byte) ++end;
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      edge_bytes_.push_back(static_cast<uint8_t>(byte));
      edge_nodes_.push_back(child);
      ranges.push_back({child, i, end, range.depth + 1});
      i = end;
    }
    node.edges = static_cast<uint16_t>(edge_bytes_.size() - node.first_edge);
    nodes_[range.node] = node;
  }
  first_.assign(256, 0);
  for (uint32_t edge = 0; edge < nodes_[0].edges; ++edge) {
    first_[edge_bytes_[edge]] = edge_nodes_[edge];
  }
}

}  // namespace hadal
