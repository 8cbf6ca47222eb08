#!/usr/bin/env bash
# build/test-venv: the Python packages of tests/api/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/test-venv
cmp -s tests/api/requirements.txt "$venv/requirements.txt" && exit 0
rm -rf "$venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r tests/api/requirements.txt
cp tests/api/requirements.txt "$venv/"
