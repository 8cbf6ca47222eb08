#!/usr/bin/env bash
# Long checks: every fuzz target for SOAK_SECONDS (default 600) under ASan and UBSan, starting from
# the committed corpora (new inputs go to build/soak/); a 9 GB file loaded in a 12 GB control group;
# the threaded tests under TSan.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SOAK_SECONDS:-600}

make build
scripts/fuzz.sh "$seconds"
HADAL_MEMORY_SHAPE=deepseek-v2-lite HADAL_MEMORY_TYPE=q4_0 \
  python3 tests/cli/memory_test.py build/release/hadal build/release/bench/make_model
make test-tsan
echo "soak: clean"
