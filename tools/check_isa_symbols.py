#!/usr/bin/env python3
"""Proves that no code compiled for one ISA level can be called by another.

Reads the objects of src/kernels/isa/ in a build folder with nm. Each may define one global symbol,
its table getter; a weak or common symbol (an inline function or template that the linker would
share with baseline code) is an error.

  tools/check_isa_symbols.py build/release
"""

import pathlib
import subprocess
import sys

LEVELS = {
    "portable": "Portable",
    "avx2": "Avx2",
    "avx2vnni": "Avx2Vnni",
    "avx512": "Avx512",
    "avx512vnni": "Avx512Vnni",
    "avx512bf16": "Avx512Bf16",
    "avx512amx": "Avx512Amx",
}


def defined_globals(path):
    """Names of all symbols in the object that other objects could see."""
    text = subprocess.run(
        ["nm", "--demangle", "--defined-only", "--extern-only", "--format=posix", str(path)],
        check=True, capture_output=True, text=True).stdout
    names = []
    for line in text.splitlines():
        # "name type value size"; the demangled name may hold spaces.
        fields = line.rsplit(" ", 3)
        names.append(fields[0] if len(fields) == 4 else line)
    return names


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    bad = 0
    for level, name in LEVELS.items():
        objects = list(folder.glob(f"**/hadal_kernels.dir/isa/{level}.cc.o"))
        if len(objects) != 1:
            sys.exit(f"{folder}: expected one object of isa/{level}.cc, found {len(objects)};"
                     " build hadal_kernels first")
        allowed = f"hadal::internal::{name}Kernels()"
        for symbol in defined_globals(objects[0]):
            if not symbol.startswith(allowed):
                print(f"{objects[0]}: exports {symbol}")
                bad += 1
    if bad:
        sys.exit(f"{bad} symbols leak out of the ISA objects; keep them in the unnamed namespace")
    print("ISA objects export their tables alone")


if __name__ == "__main__":
    main()
