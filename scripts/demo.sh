#!/usr/bin/env bash
# Fetches a small model and asks it one question; then asks the bundled one.
#   scripts/demo.sh PATH/TO/hadal
set -euo pipefail
cd "$(dirname "$0")/.."
hadal=$1

ask() {
  printf '\n$ hadal'
  for word in "$@"; do
    case $word in *[!A-Za-z0-9_./~=-]*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n'
  "$hadal" "$@"
}

status=0
model=$(scripts/fetch_smollm2.py) || status=$?
if [ "$status" -eq 0 ]; then
  # On so small a model 8-bit activations can change an answer: compute exactly.
  ask generate "$model" -p "What is the capital of France?" -n 64 --dtype f32 --stats
elif [ "$status" -eq 3 ]; then
  echo "demo: no network to the Python package index, so only the bundled model runs."
  echo "demo: any GGUF file or Hugging Face folder works: hadal generate MODEL -p TEXT"
else
  exit "$status"
fi
ask generate models/reef -p "What is the capital of Japan?" --stats
