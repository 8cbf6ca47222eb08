// RoPE, the KV cache and attention. Tile layout: spec/kv_layout.h.
#include <algorithm>
#include <cmath>

#include "backend/ref/ref_backend.h"
#include "base/check.h"
#include "tensor/half.h"

namespace hadal {
namespace {

// Rotates `rope_dim` elements: (a, b) -> (a cos - b sin, b cos + a sin).
void Rotate(float* x, uint32_t rope_dim, RopeLayout layout, const float* cos, const float* sin) {
  const uint32_t half = rope_dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    float& a = layout == RopeLayout::kHalfSplit ? x[i] : x[2 * i];
    float& b = layout == RopeLayout::kHalfSplit ? x[i + half] : x[2 * i + 1];
    const double a0 = a;
    const double b0 = b;
    a = static_cast<float>(a0 * cos[i] - b0 * sin[i]);
    b = static_cast<float>(b0 * cos[i] + a0 * sin[i]);
  }
}

// Index of element `d` of token `t` inside a tile.
uint64_t KIndex(DType dtype, uint32_t t, uint32_t d) {
  if (dtype == DType::kF32) return uint64_t{d} * kTileTokens + t;
  return (uint64_t{d / 2} * kTileTokens + t) * 2 + d % 2;
}
uint64_t VIndex(DType dtype, uint32_t dim, uint32_t t, uint32_t d) {
  if (dtype == DType::kF32) return uint64_t{t} * dim + d;
  return (uint64_t{t / 2} * dim + d) * 2 + t % 2;
}

float LoadElement(const Buffer& arena, DType dtype, uint64_t tile_offset, uint64_t index) {
  const char* tile = static_cast<const char*>(arena.data()) + tile_offset;
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(tile)[index];
  return Bf16ToF32(reinterpret_cast<const uint16_t*>(tile)[index]);
}

void StoreElement(Buffer& arena, DType dtype, uint64_t tile_offset, uint64_t index, float value) {
  char* tile = static_cast<char*>(arena.data()) + tile_offset;
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(tile)[index] = value;
  } else {
    reinterpret_cast<uint16_t*>(tile)[index] = F32ToBf16(value);
  }
}

}  // namespace

RefBackend::Row RefBackend::Visible(uint32_t sequence, uint32_t row, uint32_t window) const {
  const uint32_t position = step_->positions[row];
  HADAL_CHECK(position < step_->sequences[sequence].context && position < scores_.size());
  const uint32_t first = window != 0 && position + 1 > window ? position + 1 - window : 0;
  return {sequence, first, position};
}

uint32_t RefBackend::PageOf(uint32_t layer, uint32_t sequence, uint32_t token) const {
  const StepInput::KvPages& group = step_->groups[kv_->layout.group_of_layer[layer]];
  const uint32_t entry = group.page_offsets[sequence] + token / kv_->layout.block_size;
  HADAL_CHECK(entry < group.page_offsets[sequence + 1]);
  const uint32_t page = group.pages[entry];
  HADAL_CHECK(page != kNoPage);
  return page;
}

float RefBackend::LoadK(uint32_t layer, uint32_t sequence, uint32_t token, uint32_t head,
                        uint32_t d) const {
  const KvLayout& layout = kv_->layout;
  const uint32_t tile = token % layout.block_size / kTileTokens;
  return LoadElement(kv_->arenas[layout.group_of_layer[layer]], layout.dtype,
                     layout.KTileOffset(layer, PageOf(layer, sequence, token), head, tile),
                     KIndex(layout.dtype, token % kTileTokens, d));
}

float RefBackend::LoadV(uint32_t layer, uint32_t sequence, uint32_t token, uint32_t head,
                        uint32_t d) const {
  const KvLayout& layout = kv_->layout;
  const uint32_t tile = token % layout.block_size / kTileTokens;
  return LoadElement(kv_->arenas[layout.group_of_layer[layer]], layout.dtype,
                     layout.VTileOffset(layer, PageOf(layer, sequence, token), head, tile),
                     VIndex(layout.dtype, layout.v_dim, token % kTileTokens, d));
}

void RefBackend::Store(const RopeStoreArgs& args, uint32_t row) {
  const KvLayout& layout = kv_->layout;
  const uint32_t group = layout.group_of_layer[args.layer];
  Buffer& arena = kv_->arenas[group];
  const uint32_t slot = step_->groups[group].slots[row];
  const uint32_t page = slot / layout.block_size;
  const uint32_t tile = slot % layout.block_size / kTileTokens;
  const uint32_t t = slot % kTileTokens;
  HADAL_CHECK((uint64_t{page} + 1) * layout.groups[group].page_bytes <= arena.size());
  for (uint32_t head = 0; head < args.kv_heads; ++head) {
    const float* k = args.k.row(row) + head * args.k_head_dim;
    const uint64_t k_tile = layout.KTileOffset(args.layer, page, head, tile);
    for (uint32_t d = 0; d < args.k_head_dim; ++d) {
      StoreElement(arena, layout.dtype, k_tile, KIndex(layout.dtype, t, d), k[d]);
    }
    if (!args.v) continue;
    const float* v = args.v.row(row) + head * args.v_head_dim;
    const uint64_t v_tile = layout.VTileOffset(args.layer, page, head, tile);
    for (uint32_t d = 0; d < args.v_head_dim; ++d) {
      StoreElement(arena, layout.dtype, v_tile, VIndex(layout.dtype, layout.v_dim, t, d), v[d]);
    }
  }
}

void RefBackend::RopeAndStore(const RopeStoreArgs& args) {
  ++counters_.ops;
  const KvLayout& layout = kv_->layout;
  HADAL_CHECK(args.kv_heads == layout.n_kv_heads && args.v_head_dim == layout.v_dim);
  HADAL_CHECK(args.k_head_dim <= layout.k_dim && args.q.rows == step_->n_tokens());
  for (uint32_t row = 0; row < args.q.rows; ++row) {
    const float* cos = args.cos.row(row);
    const float* sin = args.sin.row(row);
    for (uint32_t head = 0; head < args.q_heads; ++head) {
      Rotate(args.q.row(row) + head * args.q_head_dim + args.q_rope_offset, args.rope_dim,
             args.rope_layout, cos, sin);
    }
    for (uint32_t head = 0; head < args.kv_heads; ++head) {
      Rotate(args.k.row(row) + head * args.k_head_dim + args.k_rope_offset, args.rope_dim,
             args.rope_layout, cos, sin);
    }
    Store(args, row);
  }
}

void RefBackend::Softmax(const Row& row) {
  const uint32_t n = row.last - row.first + 1;
  const double max = *std::max_element(scores_.begin(), scores_.begin() + n);
  double sum = 0;
  for (uint32_t j = 0; j < n; ++j) sum += scores_[j] = std::exp(scores_[j] - max);
  for (uint32_t j = 0; j < n; ++j) scores_[j] /= sum;
}

void RefBackend::AttentionGqa(const AttentionGqaArgs& args) {
  ++counters_.ops;
  const uint32_t dim = args.head_dim;
  const uint32_t heads_per_kv = args.heads / args.kv_heads;
  for (uint32_t s = 0; s < step_->sequences.size(); ++s) {
    const StepSequence& sequence = step_->sequences[s];
    for (uint32_t i = sequence.first_row; i < sequence.first_row + sequence.n_rows; ++i) {
      const Row row = Visible(s, i, args.window);
      counters_.attention_tiles +=
          uint64_t{row.last / kTileTokens - row.first / kTileTokens + 1} * args.kv_heads;
      for (uint32_t head = 0; head < args.heads; ++head) {
        const uint32_t kv_head = head / heads_per_kv;
        const float* q = args.q.row(i) + head * dim;
        for (uint32_t t = row.first; t <= row.last; ++t) {
          double score = 0;
          for (uint32_t d = 0; d < dim; ++d) {
            score += static_cast<double>(q[d]) * LoadK(args.layer, s, t, kv_head, d);
          }
          scores_[t - row.first] = score * args.scale;
        }
        Softmax(row);
        for (uint32_t d = 0; d < dim; ++d) {
          double sum = 0;
          for (uint32_t t = row.first; t <= row.last; ++t) {
            sum += scores_[t - row.first] * LoadV(args.layer, s, t, kv_head, d);
          }
          args.out.row(i)[head * dim + d] = static_cast<float>(sum);
        }
      }
    }
  }
}

// One head of one row. q: nope then rope.
void RefBackend::MlaHead(const AttentionMlaArgs& args, const Row& row, uint32_t head,
                         const float* q, float* out) {
  double* const q_latent = latent_.data();
  double* const v_latent = latent_.data() + args.kv_lora;
  for (uint32_t l = 0; l < args.kv_lora; ++l) {
    q_latent[l] = RefDot(AsRef(*args.k_up).row(uint64_t{head} * args.kv_lora + l), q, args.nope);
  }
  for (uint32_t t = row.first; t <= row.last; ++t) {
    double score = 0;
    for (uint32_t l = 0; l < args.kv_lora; ++l) {
      score += q_latent[l] * LoadK(args.layer, row.sequence, t, 0, l);
    }
    for (uint32_t d = 0; d < args.rope; ++d) {
      score += static_cast<double>(q[args.nope + d]) *
               LoadK(args.layer, row.sequence, t, 0, args.kv_lora + d);
    }
    scores_[t - row.first] = score * args.scale;
  }
  Softmax(row);
  for (uint32_t l = 0; l < args.kv_lora; ++l) {
    v_latent[l] = 0;
    for (uint32_t t = row.first; t <= row.last; ++t) {
      v_latent[l] += scores_[t - row.first] * LoadK(args.layer, row.sequence, t, 0, l);
    }
  }
  for (uint32_t i = 0; i < args.v_head_dim; ++i) {
    const float* v_up = AsRef(*args.v_up).row(uint64_t{head} * args.v_head_dim + i);
    double sum = 0;
    for (uint32_t l = 0; l < args.kv_lora; ++l) sum += v_up[l] * v_latent[l];
    out[i] = static_cast<float>(sum);
  }
}

void RefBackend::AttentionMla(const AttentionMlaArgs& args) {
  ++counters_.ops;
  for (uint32_t s = 0; s < step_->sequences.size(); ++s) {
    const StepSequence& sequence = step_->sequences[s];
    for (uint32_t i = sequence.first_row; i < sequence.first_row + sequence.n_rows; ++i) {
      const Row row = Visible(s, i, args.window);
      counters_.attention_tiles += row.last / kTileTokens - row.first / kTileTokens + 1;
      for (uint32_t head = 0; head < args.heads; ++head) {
        MlaHead(args, row, head, args.q.row(i) + head * (args.nope + args.rope),
                args.out.row(i) + head * args.v_head_dim);
      }
    }
  }
}

}  // namespace hadal
