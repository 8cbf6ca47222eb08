#include "step_driver.h"

#include <algorithm>

#include "base/check.h"

namespace hadal::testing {

int32_t ArgMax(const float* logits, uint32_t n) {
  return static_cast<int32_t>(std::max_element(logits, logits + n) - logits);
}

StepDriver::StepDriver(Model& model, const DriverOptions& options) : model_(model) {
  model.Reserve(options.limits);
  const KvLayout layout = MakeKvLayout(model.spec(), options.kv_dtype, options.block_size);
  const auto per_sequence =
      static_cast<uint32_t>(options.limits.max_context / options.block_size + 1);
  const uint32_t pages = per_sequence * options.limits.max_sequences;
  kv_ = AllocateKvCache(model.backend(), layout, pages);
  free_pages_.resize(layout.groups.size());
  for (std::vector<uint32_t>& free : free_pages_) {
    // Neighbours in a sequence shall not be neighbours in memory: stride 7 through the pages.
    for (uint32_t start = 0; start < 7; ++start) {
      for (uint32_t page = start; page < pages; page += 7) free.push_back(page);
    }
  }
  groups_.resize(layout.groups.size());
  group_views_.resize(layout.groups.size());
}

StepDriver::Sequence& StepDriver::At(uint32_t sequence) {
  if (sequence >= sequences_.size()) sequences_.resize(sequence + 1);
  sequences_[sequence].pages.resize(groups_.size());
  return sequences_[sequence];
}

uint32_t StepDriver::TakePage(uint32_t group) {
  HADAL_CHECK(!free_pages_[group].empty());
  const uint32_t page = free_pages_[group].back();
  free_pages_[group].pop_back();
  const uint64_t bytes = kv_.layout.groups[group].page_bytes;
  model_.backend().Zero(kv_.arenas[group], page * bytes, bytes);
  return page;
}

void StepDriver::Forget(uint32_t sequence) {
  Sequence& old = At(sequence);
  for (size_t g = 0; g < old.pages.size(); ++g) {
    for (const uint32_t page : old.pages[g]) {
      if (page != kNoPage) free_pages_[g].push_back(page);
    }
  }
  old = {};
}

void StepDriver::AddGroup(const Piece& piece, uint32_t group) {
  const uint32_t block = kv_.layout.block_size;
  const uint32_t window = kv_.layout.groups[group].window;
  const Sequence& sequence = At(piece.sequence);
  std::vector<uint32_t>& pages = sequences_[piece.sequence].pages[group];
  const uint32_t context = sequence.length + static_cast<uint32_t>(piece.tokens.size());
  while (pages.size() * block < context) pages.push_back(TakePage(group));
  // Pages that this step's first token cannot see any more go back to the pool.
  const uint32_t visible =
      window != 0 && sequence.length + 1 > window ? sequence.length + 1 - window : 0;
  for (uint32_t entry = 0; entry < visible / block; ++entry) {
    if (pages[entry] != kNoPage) free_pages_[group].push_back(pages[entry]);
    pages[entry] = kNoPage;
  }
  GroupArrays& arrays = groups_[group];
  for (uint32_t t = sequence.length; t < context; ++t) {
    arrays.slots.push_back(pages[t / block] * block + t % block);
  }
  arrays.pages.insert(arrays.pages.end(), pages.begin(), pages.end());
  arrays.page_offsets.push_back(static_cast<uint32_t>(arrays.pages.size()));
}

void StepDriver::AddTokens(const Piece& piece) {
  Sequence& sequence = At(piece.sequence);
  const auto n = static_cast<uint32_t>(piece.tokens.size());
  step_sequences_.push_back({static_cast<uint32_t>(tokens_.size()), n, sequence.length + n});
  for (uint32_t i = 0; i < n; ++i) {
    logit_rows_.push_back(static_cast<uint32_t>(tokens_.size()));
    tokens_.push_back(piece.tokens[i]);
    positions_.push_back(sequence.length + i);
    if (model_.rope().length_dependent()) rope_lengths_.push_back(piece.rope_length);
  }
  sequence.length += n;
}

StepInput StepDriver::Prepare(std::span<const Piece> pieces) {
  tokens_.clear();
  positions_.clear();
  rope_lengths_.clear();
  logit_rows_.clear();
  step_sequences_.clear();
  for (GroupArrays& arrays : groups_) arrays = {{}, {}, {0}};
  for (const Piece& piece : pieces) {
    for (uint32_t group = 0; group < groups_.size(); ++group) AddGroup(piece, group);
    AddTokens(piece);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    group_views_[g] = {groups_[g].slots, groups_[g].pages, groups_[g].page_offsets};
  }
  return {tokens_, positions_, step_sequences_, rope_lengths_, group_views_, logit_rows_};
}

Rows StepDriver::Step(std::span<const Piece> pieces, const Taps* taps) {
  const StepInput step = Prepare(pieces);
  const Tensor logits = model_.Forward(step, kv_, taps);
  Rows rows{logits.rows, logits.cols, {}};
  for (uint32_t r = 0; r < logits.rows; ++r) {
    rows.values.insert(rows.values.end(), logits.row(r), logits.row(r) + logits.cols);
  }
  return rows;
}

Rows StepDriver::Feed(uint32_t sequence, std::span<const int32_t> prompt, uint32_t chunk,
                      const Taps* taps) {
  const auto n = static_cast<uint32_t>(prompt.size());
  Rows all{n, model_.spec().vocab, {}};
  for (uint32_t at = 0; at < n;) {
    const uint32_t take = chunk == 0 ? n : std::min(chunk, n - at);
    const Piece piece{sequence, prompt.subspan(at, take), n};
    const Rows rows = Step(std::span(&piece, 1), taps);
    all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
    at += take;
  }
  return all;
}

std::vector<int32_t> StepDriver::Greedy(uint32_t sequence, const float* logits, uint32_t n) {
  std::vector<int32_t> tokens = {ArgMax(logits, model_.spec().vocab)};
  while (tokens.size() < n) {
    const Piece piece{sequence, std::span(&tokens.back(), 1), At(sequence).length + 1};
    const Rows rows = Step(std::span(&piece, 1));
    tokens.push_back(ArgMax(rows.row(0), rows.cols));
  }
  return tokens;
}

}  // namespace hadal::testing
