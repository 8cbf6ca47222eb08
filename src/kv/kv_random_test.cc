// Random sequences of everything KvManager can do, carried out on a small model of the memory:
// every token that a table still sees must be found with the value that its own text gives it.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/hash.h"
#include "kv/kv_manager.h"
#include "kv/swap_space.h"

namespace hadal {
namespace {

constexpr uint32_t kBlock = 16;
constexpr uint32_t kChunk = 24;
constexpr uint64_t kWrong = 777;

KvLayout Layout(const std::vector<uint32_t>& windows) {
  ModelSpec spec;
  spec.n_layers = static_cast<uint32_t>(windows.size());
  for (const uint32_t window : windows) spec.layers.push_back({.window = window});
  spec.attention = {.n_heads = 1, .n_kv_heads = 1, .head_dim = 4};
  return MakeKvLayout(spec, DType::kF32, kBlock);
}

// The "KV" of position i depends on all tokens up to it and on the salt.
uint64_t ValueOf(const std::vector<int32_t>& text, uint32_t position, std::string_view salt) {
  const std::span<const int32_t> prefix(text.data(), position + 1);
  return Hash64(std::as_bytes(prefix), Hash64(std::as_bytes(std::span(salt)))) | 1;
}

class Memory {
 public:
  explicit Memory(const KvManager& kv) : layout_(kv.layout()) {
    for (uint32_t g = 0; g < layout_.groups.size(); ++g) {
      pages_.emplace_back(kv.pool(g).n_pages(), std::vector<uint64_t>(kBlock, 666));
    }
  }
  void Carry(std::span<const PageOp> ops) {
    for (const PageOp& op : ops) {
      std::vector<uint64_t>& page = pages_[op.group][op.page];
      switch (op.kind) {
        case PageOp::Kind::kZero:
          page.assign(kBlock, 0);
          break;
        case PageOp::Kind::kCopy:
          page = pages_[op.group][op.other];
          break;
        case PageOp::Kind::kSwapOut:
          swap_[op.other] = page;
          break;
        case PageOp::Kind::kSwapIn:
          ASSERT_TRUE(swap_.count(op.other));
          page = swap_[op.other];
          break;
      }
    }
  }
  uint64_t& at(uint32_t group, uint32_t page, uint32_t position) {
    return pages_[group][page][position % kBlock];
  }

 private:
  KvLayout layout_;
  std::vector<std::vector<std::vector<uint64_t>>> pages_;
  std::map<uint64_t, std::vector<uint64_t>> swap_;
};

struct Text {
  std::vector<int32_t> tokens;  // all it will ever have
  std::string salt;
  PageTable table;
  uint32_t written = 0;
  std::optional<SwappedTable> swapped;
};

class KvRandom : public testing::TestWithParam<std::tuple<std::vector<uint32_t>, uint32_t>> {
 protected:
  KvRandom()
      : random_(std::get<1>(GetParam())),
        layout_(Layout(std::get<0>(GetParam()))),
        kv_(layout_, std::vector<uint32_t>(layout_.groups.size(), 26), kChunk),
        memory_(kv_),
        swap_(layout_.groups[0].page_bytes * 20) {}

  // Few different beginnings, so that texts share them.
  Text NewText() {
    Text text;
    const uint32_t family = random_() % 3, n = 2 + random_() % 150;
    const uint32_t differs = random_() % 150;
    for (uint32_t i = 0; i < n; ++i) {
      text.tokens.push_back(static_cast<int32_t>(i < differs ? family : random_() % 4));
    }
    if (random_() % 3 == 0) text.salt = "salt";
    return text;
  }
  void Publish(Text& text) {
    while (kv_.publishes(text.table)) {
      const uint32_t first = kv_.n_published(text.table) * kBlock;
      if (text.written - first < kBlock) return;
      kv_.Publish(text.table, std::span(text.tokens).subspan(first, kBlock));
    }
  }
  void Open() {
    Text text = NewText();
    const auto size = static_cast<uint32_t>(text.tokens.size());
    const PrefixMatch match = kv_.Match(text.tokens, size - 1, 0, text.salt);
    const uint32_t promised = std::max(match.n_tokens, 1 + static_cast<uint32_t>(random_() % size));
    if (!kv_.CanOpen(promised, match)) return;
    matched_ += match.n_tokens;
    text.table = kv_.Open(size, promised, match);
    text.written = match.n_tokens;
    kv_.BeginPublishing(text.table, 0, text.salt);
    texts_.push_back(std::move(text));
  }
  void Fork(const Text& parent) {
    if (!parent.table.open() || parent.written == 0) return;
    Text text;
    text.tokens = parent.tokens;
    text.salt = parent.salt;
    const uint32_t n = 1 + random_() % parent.written;
    for (uint32_t i = n; i < text.tokens.size(); ++i) text.tokens[i] = 9;
    const auto size = static_cast<uint32_t>(text.tokens.size());
    const auto shared = kv_.Share(parent.table, n);
    if (!shared || !kv_.CanOpen(n, *shared)) return;
    text.table = kv_.Fork(parent.table, n, size, n);
    text.written = n;
    kv_.BeginPublishing(text.table, 0, text.salt);
    texts_.push_back(std::move(text));
    ++forks_;
  }
  void Append(Text& text) {
    const auto size = static_cast<uint32_t>(text.tokens.size());
    const uint32_t n = std::min(1 + static_cast<uint32_t>(random_() % kChunk), size - text.written);
    if (n == 0 || !kv_.Grow(text.table, text.written + n)) return;
    kv_.Append(text.table, n);
    Carry();
    // Of a draft only the beginning may come true.
    const uint32_t kept = random_() % 3 == 0 ? 1 + random_() % n : n;
    // What the first new row sees must be there.
    for (uint32_t g = 0; g < layout_.groups.size(); ++g) {
      const uint32_t window = layout_.groups[g].window;
      const uint32_t seen = window == 0 || text.written < window ? 0 : text.written - window + 1;
      const auto pages = text.table.pages(g);
      for (uint32_t p = seen; p < text.written; ++p) {
        ASSERT_NE(pages[p / kBlock], kNoPage);
        ASSERT_EQ(memory_.at(g, pages[p / kBlock], p), ValueOf(text.tokens, p, text.salt))
            << "group " << g << " position " << p << " of " << text.written;
      }
      for (uint32_t p = text.written; p < text.written + n; ++p) {
        memory_.at(g, pages[p / kBlock], p) =
            p < text.written + kept ? ValueOf(text.tokens, p, text.salt) : kWrong;
      }
    }
    text.written += kept;
    if (kept < n) {
      kv_.Truncate(text.table, text.written);
      ++truncations_;
    }
    Publish(text);
  }
  void Swap(Text& text) {
    if (text.table.open()) {
      const uint64_t bytes = kv_.SwapBytes(text.table);
      if (bytes == 0) return;
      const auto offset = swap_.Allocate(bytes);
      if (!offset) return;
      text.swapped = kv_.SwapOut(text.table, *offset);
      ASSERT_EQ(text.swapped->bytes, bytes);
    } else if (kv_.CanOpen(text.written)) {
      const auto size = static_cast<uint32_t>(text.tokens.size());
      text.table = kv_.SwapIn(*text.swapped, size, text.written);
      kv_.BeginPublishing(text.table, 0, text.salt);
      Carry();
      swap_.Free(text.swapped->offset, text.swapped->bytes);
      text.swapped.reset();
      ++swaps_;
    }
  }
  void Carry() {
    memory_.Carry(kv_.ops());
    kv_.ForgetOps();
  }
  void CheckCounts() {
    uint64_t unused = 0, used = 0;
    for (uint32_t g = 0; g < layout_.groups.size(); ++g) {
      std::map<uint32_t, uint32_t> references;
      for (const Text& text : texts_) {
        if (!text.table.open()) continue;
        for (const uint32_t page : text.table.pages(g)) {
          if (page != kNoPage) ++references[page];
        }
        unused += text.table.pages(g).size() * kBlock - text.table.n_tokens();
      }
      used += references.size();
      ASSERT_EQ(references.size(), kv_.pool(g).n_used());
      for (const auto& [page, n] : references) ASSERT_EQ(kv_.pool(g).references(page), n);
    }
    const KvUsage usage = kv_.usage();
    ASSERT_EQ(usage.used_pages, used);
    ASSERT_EQ(usage.unused_slots, unused);
    ASSERT_LE(usage.used_pages + usage.promised_pages, usage.pages);
    ASSERT_LE(usage.used_pages + usage.cached_pages, usage.pages);
  }
  void Remove(size_t i) {
    if (texts_[i].swapped) swap_.Free(texts_[i].swapped->offset, texts_[i].swapped->bytes);
    kv_.Close(texts_[i].table);
    texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::mt19937 random_;
  KvLayout layout_;
  KvManager kv_;
  Memory memory_;
  SwapExtents swap_;
  std::vector<Text> texts_;
  uint64_t matched_ = 0, forks_ = 0, swaps_ = 0, truncations_ = 0;
};

TEST_P(KvRandom, EveryTextFindsItsOwnValues) {
  for (int step = 0; step < 6000; ++step) {
    const size_t i = texts_.empty() ? 0 : random_() % texts_.size();
    const uint32_t choice = random_() % 16;
    if (texts_.empty() || choice < 3) {
      Open();
    } else if (choice == 3) {
      // As in the scheduler: what a copy reads has been written before.
      Carry();
      Fork(texts_[i]);
    } else if (choice == 4) {
      Swap(texts_[i]);
    } else if (choice == 5 || texts_[i].written == texts_[i].tokens.size()) {
      Remove(i);
    } else if (texts_[i].table.open()) {
      Append(texts_[i]);
    } else {
      Swap(texts_[i]);
    }
    if (HasFatalFailure()) return;
    CheckCounts();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(matched_, 1000u);
  EXPECT_GT(forks_, 50u);
  EXPECT_GT(swaps_, 50u);
  EXPECT_GT(truncations_, 200u);
  while (!texts_.empty()) Remove(0);
  EXPECT_EQ(kv_.usage().used_pages + kv_.usage().promised_pages + kv_.usage().unused_slots, 0u);
  EXPECT_EQ(swap_.used_bytes(), 0u);
  EXPECT_GT(kv_.usage().evicted_pages, 0u);
}

INSTANTIATE_TEST_SUITE_P(Windows, KvRandom,
                         testing::Combine(testing::Values(std::vector<uint32_t>{0},
                                                          std::vector<uint32_t>{20},
                                                          std::vector<uint32_t>{0, 20, 7}),
                                          testing::Range(1u, 13u)));

}  // namespace
}  // namespace hadal
