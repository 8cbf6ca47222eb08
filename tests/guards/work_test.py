#!/usr/bin/env python3
"""How much work a step is: barriers, calls of kernels and bytes moved, exactly, against work.json. They depend on
the model and the number of threads, never on the machine; every instruction set must give the same, but for those
that multiply bf16 (avx512bf16, avx512amx) and prepare rows for it: theirs are in work.json as well, and are checked
where a machine has them.

    work_test.py PATH/TO/hadal PATH/TO/make_model [--update]

--update writes work.json anew, for a change that means to alter the work.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import models

TABLE = pathlib.Path(__file__).with_name("work.json")
BF16_LEVELS = ("avx512bf16", "avx512amx")
COUNTS = ("steps", "barriers", "kernel_calls", "bytes")
BENCH = ["-p", "96", "-n", "4", "-d", "0,300", "-b", "1,4", "-r", "1", "-t", "2", "--json"]


def isa_levels(hadal):
    facts = subprocess.run([hadal, "inspect", "--machine", "--json"], check=True, capture_output=True)
    return json.loads(facts.stdout)["isa_levels"]


def measure(hadal, model, level, cache):
    """{"decode n=4 depth=300 sequences=1": {"steps": ..., ...}}"""
    done = subprocess.run([hadal, "bench", str(model), *BENCH], check=True, capture_output=True,
                          env=dict(os.environ, HADAL_ISA=level, XDG_CACHE_HOME=cache))
    return {f"{r['kind']} n={r['n']} depth={r['depth']} sequences={r['seqs']}": {key: r[key] for key in COUNTS}
            for r in json.loads(done.stdout)["results"]}


def least_decode_bytes():
    """Bytes of the 4 decode steps of gqa-q4_0 at depth 0, worked out here: each weight once, KV tiles once."""
    hidden, layers, kv, head_dim, wide, vocab = 512, 2, 2 * 64, 64, 1024, 2048
    weights = layers * (2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * wide) + vocab * hidden
    tile = 2 * 16 * head_dim * 2  # keys and values of 16 tokens in bf16
    return 4 * (weights * 9 // 16 + layers * 2 * (tile + tile // 16))


def main():
    update = "--update" in sys.argv
    hadal, make_model = [argument for argument in sys.argv[1:] if argument != "--update"]
    expected = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    levels = isa_levels(hadal)
    bf16 = [level for level in levels if level in BF16_LEVELS]
    plain = [level for level in levels if level not in BF16_LEVELS]
    levels = [plain[0], *plain[1:][-1:]]  # the plainest and the best
    measured, faults = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name in models.MODELS:
            model = models.make(make_model, name, folder)
            by_level = {level: measure(hadal, model, level, folder) for level in levels}
            measured[name] = by_level[levels[0]]
            for level in bf16:
                measured[f"{name} {level}"] = measure(hadal, model, level, folder)
            for level, cases in by_level.items():
                if cases != measured[name]:
                    faults.append(f"{name}: {level} and {levels[0]} do different work")
    if measured["gqa-q4_0"]["decode n=4 depth=0 sequences=1"]["bytes"] != least_decode_bytes():
        faults.append("gqa-q4_0: decoding reads more than each weight and each KV tile once, or counts wrongly")
    if update:
        missing = [level for level in BF16_LEVELS if level not in bf16]  # what they take stays as it was
        measured |= {name: cases for name, cases in expected.items() if name.split()[-1] in missing}
        TABLE.write_text(json.dumps(measured, indent=1) + "\n")
        print(f"wrote {TABLE}")
    else:
        for name, cases in measured.items():
            for case, counts in cases.items():
                for key, value in counts.items():
                    wanted = expected.get(name, {}).get(case, {}).get(key)
                    if value != wanted:
                        faults.append(f"{name}, {case}: {value} {key}, expected {wanted}")
        if faults:
            print("If the work was meant to change: make rebaseline (CONTRIBUTING.md)")
    print("\n".join(faults) or f"{len(measured)} models do the work that was expected, at {', '.join(levels + bf16)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
