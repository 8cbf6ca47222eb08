#!/usr/bin/env bash
# Installs the Debian packages that a target needs, and only those that are missing.
#   scripts/setup.sh build|test|lint|fuzz|bench|demo|clients
set -euo pipefail

build=(g++ cmake ninja-build pkg-config nlohmann-json3-dev libcli11-dev libspdlog-dev libfmt-dev
       libpcre2-dev libutf8proc-dev libxxhash-dev libhwloc-dev libedit-dev prometheus-cpp-dev libboost-dev libyaml-cpp-dev)
test=(libgtest-dev libzstd-dev python3 valgrind zstd)
lint=(clang-format-14 clang-tidy-14 python3)
fuzz=(clang-14 libclang-rt-14-dev)
bench=(libbenchmark-dev)
demo=(python3 python3-pip)
clients=(python3-venv chromium chromium-driver)

wanted=()
for set_name in "$@"; do
  declare -n packages="$set_name"
  wanted+=("${packages[@]}")
done

missing=()
for package in "${wanted[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
    missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ]; then
  as_root=(env DEBIAN_FRONTEND=noninteractive)
elif command -v sudo >/dev/null; then
  as_root=(sudo env DEBIAN_FRONTEND=noninteractive)
else
  echo "setup: these packages are missing and neither root nor sudo is at hand:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
