// A trie over byte strings, for finding every key that starts at a position.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hadal {

// Immutable after construction; thread-safe.
class ByteTrie {
 public:
  ByteTrie() = default;
  // Keys and their values (>= 0). Empty keys are left out; of equal keys the last one counts.
  explicit ByteTrie(std::vector<std::pair<std::string, int32_t>> entries);

  bool empty() const { return nodes_.size() <= 1; }
  // Memory it takes.
  size_t bytes() const {
    return nodes_.capacity() * sizeof(Node) + edge_bytes_.capacity() +
           (first_.capacity() + edge_nodes_.capacity()) * sizeof(uint32_t);
  }
  // True when some key starts with `byte`.
  bool Starts(uint8_t byte) const { return !first_.empty() && first_[byte] != 0; }

  // Calls visit(length, value) for every key that is a prefix of text[pos..), shortest first.
  template <typename Visit>
  void Prefixes(std::string_view text, size_t pos, Visit&& visit) const {
    if (first_.empty()) return;
    uint32_t node = 0;
    for (size_t i = pos; i < text.size(); ++i) {
      node = Child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value >= 0) visit(i + 1 - pos, nodes_[node].value);
    }
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint16_t edges = 0;
    int32_t value = -1;
  };

  // The root is never a child: 0 means none.
  uint32_t Child(uint32_t node, uint8_t byte) const {
    if (node == 0) return first_[byte];
    const Node& n = nodes_[node];
    const uint8_t* bytes = edge_bytes_.data() + n.first_edge;
    uint32_t low = 0;
    uint32_t high = n.edges;
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (bytes[middle] < byte) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < n.edges && bytes[low] == byte ? edge_nodes_[n.first_edge + low] : 0;
  }

  std::vector<uint32_t> first_;  // the root's children by byte
  std::vector<Node> nodes_;
  std::vector<uint8_t> edge_bytes_;
  std::vector<uint32_t> edge_nodes_;
};

}  // namespace hadal
