#!/usr/bin/env bash
# Long checks: every fuzz target for SOAK_SECONDS (default 600) under ASan and UBSan, starting from
# the committed corpora (new inputs go to build/soak/); a 9 GB file loaded in a 12 GB control group;
# the threaded tests under TSan; 256 streaming clients for three minutes, overload, and every mishap
# of the chaos test with 10,000 half-open connections.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SOAK_SECONDS:-600}

make build
scripts/fuzz.sh "$seconds"
HADAL_MEMORY_SHAPE=deepseek-v2-lite HADAL_MEMORY_TYPE=q4_0 \
  python3 tests/cli/memory_test.py build/release/hadal build/release/bench/make_model
make test-tsan
python3 tests/api/load_test.py build/release/hadal --seconds 180 --overload-seconds 30
HADAL_HALF_OPEN=10000 python3 tests/api/chaos_test.py build/release/hadal
echo "soak: clean"
