#!/usr/bin/env python3
"""Fails on a source file over 800 lines or a function over 120 (aims: 300 and 40).

A function's length is counted between a line that ends in `{` at its own indentation and the
matching closing brace; namespaces, classes and tables are not functions.
"""
import pathlib
import re
import sys

MAX_FILE, MAX_FUNCTION = 800, 120
NOT_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|constexpr|const|static constexpr)\b")


def functions(lines: list[str]):
    stack = []
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|//.*', "", line)
        for char in code:
            if char == "{":
                is_function = ")" in code and not NOT_FUNCTION.match(line)
                stack.append((number, is_function))
            elif char == "}" and stack:
                start, is_function = stack.pop()
                enclosing = any(f for _, f in stack)
                if is_function and not enclosing:
                    yield start, number - start + 1


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    failures = []
    for folder in ("src", "tests", "bench"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cc", ".inc"} or "data" in path.parts:
                continue
            lines = path.read_text().splitlines()
            name = path.relative_to(root)
            if len(lines) > MAX_FILE:
                failures.append(f"{name}: {len(lines)} lines, more than {MAX_FILE}")
            for start, length in functions(lines):
                if length > MAX_FUNCTION:
                    failures.append(f"{name}:{start}: function of {length} lines, more than {MAX_FUNCTION}")
    print("\n".join(failures) if failures else "sizes: every file and function within limits")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
