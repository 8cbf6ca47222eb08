#!/usr/bin/env python3
"""Fails when a file includes a folder that its own layer may not use (docs/architecture.md)."""
import pathlib
import re
import sys

# folder -> folders it uses directly; what those use comes with them. `base` is open to all.
USES = {
    "base": [],
    "metrics": [],
    "http": ["metrics"],
    "web": [],
    "config": [],
    "tensor": [],
    "spec": ["tensor"],
    "quant": ["tensor"],
    "formats": ["spec", "quant"],
    "tokenizer": ["spec"],
    "chat": ["tokenizer"],
    "kernels": ["quant"],
    "backend": ["kernels", "spec"],
    "kv": ["spec"],
    "memory": ["kv", "quant", "formats", "backend"],
    "sampling": [],
    "model": ["backend", "formats"],
    "sched": ["kv", "sampling"],
    "runner": ["model", "sched", "memory"],
    "engine": ["runner", "tokenizer", "metrics"],
    "api": ["chat", "engine", "http"],
    "insight": ["engine", "memory"],
    "cli": ["config", "insight", "api", "web"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')


def closure(folder: str) -> set[str]:
    seen = {folder, "base"}
    stack = [folder]
    while stack:
        for used in USES[stack.pop()]:
            if used not in seen:
                seen.add(used)
                stack.append(used)
    return seen


def main() -> int:
    source = pathlib.Path(__file__).resolve().parent.parent / "src"
    failures = []
    for folder in sorted(p.name for p in source.iterdir() if p.is_dir() and any(p.rglob("*.*"))):
        if folder not in USES:
            failures.append(f"src/{folder}: not in the layer table of tools/check_layers.py")
            continue
        allowed = closure(folder)
        for path in sorted((source / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".inc"}:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match and match[1] in USES and match[1] not in allowed:
                    failures.append(f"{path.relative_to(source.parent)}:{number}: "
                                    f"{folder} may not include {match[1]}")
    print("\n".join(failures) if failures else "layers: every include points down")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
