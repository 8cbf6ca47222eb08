#!/usr/bin/env bash
# Long checks: every fuzz target for SOAK_SECONDS (default 600) under ASan and UBSan, starting from
# the committed corpora; then the threaded tests under TSan. New inputs go to build/soak/.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SOAK_SECONDS:-600}

scripts/fuzz.sh "$seconds"
make test-tsan
echo "soak: clean"
