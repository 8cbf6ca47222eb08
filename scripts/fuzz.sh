#!/usr/bin/env bash
# Builds every libFuzzer target and runs each for the given seconds (0: the committed corpus once).
#   scripts/fuzz.sh SECONDS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift

scripts/setup.sh build fuzz
mkdir -p build
cmake --preset fuzz -Wno-dev >build/fuzz.configure.log 2>&1 || { cat build/fuzz.configure.log; exit 1; }

mapfile -t targets < <(git ls-files 'src/**_fuzz.cc' | xargs -n1 basename -s .cc)
[ $# -gt 0 ] && targets=("$@")
cmake --build --preset fuzz -j "$(nproc)" --target "${targets[@]}"

for target in "${targets[@]}"; do
  binary=$(find build/fuzz -type f -name "$target" -perm -u+x)
  corpus=tests/corpus/${target%_fuzz}
  new=build/soak/$target
  mkdir -p "$new"
  limits=(-timeout=20 -rss_limit_mb=4096 -max_len=262144)
  if [ "$seconds" -eq 0 ]; then
    "$binary" "${limits[@]}" -runs=0 "$corpus" >"$new.log" 2>&1 || { tail -40 "$new.log"; exit 1; }
  else
    "$binary" "${limits[@]}" -max_total_time="$seconds" "$new" "$corpus" >"$new.log" 2>&1 ||
      { tail -60 "$new.log"; exit 1; }
  fi
  echo "fuzz: $target clean ($(grep -c . "$new.log") lines of log, $(find "$corpus" -type f | wc -l) seeds)"
done
