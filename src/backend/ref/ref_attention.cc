// RoPE, the KV cache and attention. Tile layout: spec/kv_layout.h.
#include <algorithm>
#include <cmath>

#include "backend/ref/ref_backend.h"
#include "base/check.h"
#include "tensor/byte_vector.h"
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
  const uint32_t pack = KvPack(dtype);
  return (uint64_t{d / pack} * kTileTokens + t) * pack + d % pack;
}
uint64_t VIndex(DType dtype, uint32_t dim, uint32_t t, uint32_t d) {
  const uint32_t pack = KvPack(dtype);
  return (uint64_t{t / pack} * dim + d) * pack + t % pack;
}

float LoadElement(const std::byte* tile, DType dtype, uint64_t index) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(tile)[index];
  if (dtype == DType::kBF16) return Bf16ToF32(reinterpret_cast<const uint16_t*>(tile)[index]);
  return DecodeByte(static_cast<uint8_t>(tile[index]), dtype);
}

// Stores x, its element i at index(i), and where the type has them its scale. codes: scratch.
template <typename Index>
void StoreVector(std::span<const float> x, DType dtype, std::byte* tile, float* scale,
                 std::span<uint8_t> codes, Index&& index) {
  if (!IsByteVectorType(dtype)) {
    for (uint32_t i = 0; i < x.size(); ++i) {
      if (dtype == DType::kF32) {
        reinterpret_cast<float*>(tile)[index(i)] = x[i];
      } else {
        reinterpret_cast<uint16_t*>(tile)[index(i)] = F32ToBf16(x[i]);
      }
    }
    return;
  }
  HADAL_CHECK(x.size() <= codes.size());
  *scale = EncodeByteVector(x, dtype, codes.data());
  for (uint32_t i = 0; i < x.size(); ++i) tile[index(i)] = std::byte{codes[i]};
}

std::byte* At(const Buffer& arena, uint64_t offset) {
  return static_cast<std::byte*>(arena.data()) + offset;
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
                        uint32_t part, uint32_t d) const {
  const KvLayout& layout = kv_->layout;
  const uint32_t t = token % kTileTokens;
  const std::byte* tile = At(kv_->arenas[layout.group_of_layer[layer]],
                             layout.KTileOffset(layer, PageOf(layer, sequence, token), head,
                                                token % layout.block_size / kTileTokens));
  const float value =
      LoadElement(tile, layout.dtype, KIndex(layout.dtype, t, layout.k_parts[part].offset + d));
  if (!layout.scaled) return value;
  return value * reinterpret_cast<const float*>(tile + layout.k_scales_at)[part * kTileTokens + t];
}

float RefBackend::LoadV(uint32_t layer, uint32_t sequence, uint32_t token, uint32_t head,
                        uint32_t d) const {
  const KvLayout& layout = kv_->layout;
  const uint32_t t = token % kTileTokens;
  const std::byte* tile = At(kv_->arenas[layout.group_of_layer[layer]],
                             layout.VTileOffset(layer, PageOf(layer, sequence, token), head,
                                                token % layout.block_size / kTileTokens));
  const float value = LoadElement(tile, layout.dtype, VIndex(layout.dtype, layout.v_dim, t, d));
  if (!layout.scaled) return value;
  return value * reinterpret_cast<const float*>(tile + layout.v_scales_at)[t];
}

void RefBackend::Store(const RopeStoreArgs& args, uint32_t row) {
  const KvLayout& layout = kv_->layout;
  const DType dtype = layout.dtype;
  const uint32_t group = layout.group_of_layer[args.layer];
  const Buffer& arena = kv_->arenas[group];
  const uint32_t slot = step_->groups[group].slots[row];
  const uint32_t page = slot / layout.block_size;
  const uint32_t in_page = slot % layout.block_size / kTileTokens;
  const uint32_t t = slot % kTileTokens;
  HADAL_CHECK((uint64_t{page} + 1) * layout.groups[group].page_bytes <= arena.size());
  for (uint32_t head = 0; head < args.kv_heads; ++head) {
    const float* k = args.k.row(row) + head * args.k_head_dim;
    std::byte* tile = At(arena, layout.KTileOffset(args.layer, page, head, in_page));
    auto* scales = reinterpret_cast<float*>(tile + layout.k_scales_at);
    for (const KvPart& part : layout.k_parts) {
      StoreVector({k, part.dim}, dtype, tile, scales + t, codes_,
                  [&](uint32_t d) { return KIndex(dtype, t, part.offset + d); });
      k += part.dim;
      scales += kTileTokens;
    }
    if (!args.v) continue;
    const float* v = args.v.row(row) + head * args.v_head_dim;
    tile = At(arena, layout.VTileOffset(args.layer, page, head, in_page));
    scales = reinterpret_cast<float*>(tile + layout.v_scales_at);
    StoreVector({v, args.v_head_dim}, dtype, tile, scales + t, codes_,
                [&](uint32_t d) { return VIndex(dtype, layout.v_dim, t, d); });
  }
}

void RefBackend::RopeAndStore(const RopeStoreArgs& args) {
  ++counters_.ops;
  const KvLayout& layout = kv_->layout;
  HADAL_CHECK(args.kv_heads == layout.n_kv_heads && args.v_head_dim == layout.v_dim);
  HADAL_CHECK(args.k_head_dim == layout.key_dim() && args.q.rows == step_->n_tokens());
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
            score += static_cast<double>(q[d]) * LoadK(args.layer, s, t, kv_head, 0, d);
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
      score += q_latent[l] * LoadK(args.layer, row.sequence, t, 0, 0, l);
    }
    for (uint32_t d = 0; d < args.rope; ++d) {
      score += static_cast<double>(q[args.nope + d]) * LoadK(args.layer, row.sequence, t, 0, 1, d);
    }
    scores_[t - row.first] = score * args.scale;
  }
  Softmax(row);
  for (uint32_t l = 0; l < args.kv_lora; ++l) {
    v_latent[l] = 0;
    for (uint32_t t = row.first; t <= row.last; ++t) {
      v_latent[l] += scores_[t - row.first] * LoadK(args.layer, row.sequence, t, 0, 0, l);
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
