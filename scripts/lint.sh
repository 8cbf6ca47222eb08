#!/usr/bin/env bash
# Formatting, our own checks, then clang-tidy over every source file.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cc' '*.inc')
clang-format-14 --dry-run -Werror "${sources[@]}"
python3 tools/check_layers.py
python3 tools/check_sizes.py

# The two definitions: see src/http/CMakeLists.txt, which gives them to clang.
cmake --preset release -B build/lint -DHADAL_TESTS=OFF -Wno-dev >/dev/null
mapfile -t units < <(git ls-files 'src/*.cc' | grep -vE '_(test|fuzz|bench)\.cc$|src/kernels/isa/')
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-14 -p build/lint --quiet \
  --extra-arg=-DBOOST_ASIO_HAS_CO_AWAIT=1 --extra-arg=-DBOOST_ASIO_HAS_STD_COROUTINE=1 \
  2> >(grep -v 'warnings generated\|warning generated' >&2)
echo "lint: clean"
