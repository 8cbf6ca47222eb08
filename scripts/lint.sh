#!/usr/bin/env bash
# Formatting, our own checks, then clang-tidy over every source file.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cc' '*.inc')
clang-format-14 --dry-run -Werror "${sources[@]}"
python3 tools/check_layers.py
python3 tools/check_sizes.py

cmake --preset release -Wno-dev >/dev/null
mapfile -t units < <(git ls-files 'src/*.cc' | grep -vE '_(test|fuzz|bench)\.cc$|src/kernels/isa/')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/release --quiet \
  2> >(grep -v 'warnings generated\|warning generated' >&2)
echo "lint: clean"
