#!/usr/bin/env bash
# Speed on this machine: kernels, then whole steps of a 1.5B shape with random weights.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -DHADAL_BENCH=ON -DHADAL_TESTS=OFF -B build/bench -Wno-dev >build/bench.configure.log 2>&1 ||
  { cat build/bench.configure.log; exit 1; }
cmake --build build/bench -j "$(nproc)"

for binary in $(find build/bench/src -type f -name '*_bench' -perm -u+x | sort); do
  "$binary" --benchmark_min_time=0.2
done

folder=build/bench/models
mkdir -p "$folder"
for type in q4_0 q8_0; do
  model=$folder/qwen2-1.5b-$type.gguf
  [ -f "$model" ] || build/bench/bench/make_model qwen2-1.5b "$model" --type "$type"
  build/bench/hadal bench "$model" -p 512 -n 64 -d 0,4096 -r 3
done
