#!/usr/bin/env bash
# The speed table: every shape and type, random weights, against the peers whose folders are named.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "make bench-peers PEER='folder...': folders with llama-bench and llama-batched-bench" >&2; exit 2; }

folder=build/bench/models
mkdir -p "$folder"
models=()
for shape in ${SHAPES:-smollm2-135m qwen2-1.5b deepseek-v2-lite}; do
  for type in ${TYPES:-q4_0 q8_0 bf16}; do
    [ "$shape" = deepseek-v2-lite ] && [ "$type" != q4_0 ] && continue
    model=$folder/$shape-$type.gguf
    [ -f "$model" ] || build/release/bench/make_model "$shape" "$model" --type "$type"
    models+=("$model")
  done
done
bench/compare_peers.py "${models[@]}" "${@/#/--peer=}" --json build/bench/peers.json
