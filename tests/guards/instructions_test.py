#!/usr/bin/env python3
"""Instructions that parts of the program take under HADAL_ISA=avx2, counted by callgrind against instructions.json.

    instructions_test.py PATH/TO/hadal PATH/TO/make_model COMPILER BUILD_TYPE [--update] [--only NAME]

Only code of the program itself counts, below the functions that a scenario names: what the C library does depends
on the processor. One thread, so that nobody spins. COMPILER is "GNU 12.2.0". The numbers hold for one compiler
series and for Release; elsewhere the test is skipped and says so. --update writes instructions.json anew.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("instructions.json")
TOLERANCE = 0.03
SKIPPED = 77

IDS = ",".join(str(i) for i in range(1, 65))
FORWARD = ["hadal::Model::Forward(*"]
# name -> (functions below which instructions count, model, arguments of hadal)
LOGITS = ["logits", "MODEL", "--out", "/dev/null", "-t", "1", "--ids"]
SCENARIOS = {
    f"{kind} {name}": (FORWARD, name, [*LOGITS, ids, "--greedy", greedy])
    for name in models.MODELS for kind, ids, greedy in (("prefill", IDS, "0"), ("decode", "5", "24"))
}
SCENARIOS |= {
    "load gqa-q4_0": (["hadal::Model::Load(*"], "gqa-q4_0", [*LOGITS, "5"]),
    "load mla-moe-q8_0": (["hadal::Model::Load(*"], "mla-moe-q8_0", [*LOGITS, "5"]),
    "schedule and sample": (["hadal::Scheduler::Plan(*", "hadal::Scheduler::Commit(*", "hadal::Sampler::Sample(*"],
                            "gqa-q4_0", ["generate", "MODEL", "--raw", "-p", "some words", "-n", "48", "-t", "1",
                                         "--ignore-eos", "--temp", "0.8", "--top-k", "40", "--seed", "1"]),
    "tokenize": (["hadal::Tokenizer::EncodeWithOffsets(*"], None,
                 ["tokenize", str(ROOT / "models/reef"), "-f", "TEXT", "--json"]),
    "render a template": (["hadal::ChatTemplate::Render(*"], None,
                          ["tokenize", str(ROOT / "models/reef"), "--chat", "CHAT", "--render",
                           "--now", "2026-01-01T00:00:00"]),
}


def write_inputs(folder):
    words = "the a river light was of stone 2048 (however) naïve 海 it's running, compiled; twice".split()
    chooser = random.Random(1)
    text = [" ".join(chooser.choice(words) for _ in range(12)) for _ in range(300)]
    (folder / "text").write_text("\n".join(text), encoding="utf-8")
    turns = [{"role": ("user", "assistant")[i % 2], "content": line} for i, line in enumerate(text[:39])]
    (folder / "chat").write_text(json.dumps({"messages": turns, "add_generation_prompt": True}), encoding="utf-8")


def own_instructions(profile, program):
    """Instructions by function, of those that lie in `program`. The format: valgrind's manual, "Callgrind Format"."""
    names, counts = {"ob": {}, "fn": {}}, {}
    inside, function, skip_next = False, "", False
    everything = total = 0
    for line in profile.read_text(errors="replace").splitlines():
        if match := re.match(r"(ob|fn)=\((\d+)\)(?: (.*))?", line):
            kind, number, name = match.groups()
            if name is not None:
                names[kind][number] = name
            if kind == "ob":
                inside = pathlib.Path(names[kind][number]).name == program
            else:
                function = names[kind][number]
        elif match := re.match(r"c(ob|fn)=\((\d+)\) (.*)", line):
            names[match[1]][match[2]] = match[3]
        elif line.startswith("calls="):
            skip_next = True  # the next line holds what the call cost in all
        elif line[:1] in "0123456789+-*" and line:
            if not skip_next:
                cost = int(line.split()[1])
                everything += cost
                if inside:
                    counts[function] = counts.get(function, 0) + cost
            skip_next = False
        elif line.startswith("totals:"):
            total = int(line.split()[1])
    if everything != total:
        sys.exit(f"{profile}: {everything} instructions found of {total}: the format is not understood")
    return counts


def count(options, folder, name):
    toggles, model, arguments = SCENARIOS[name]
    replaced = {"TEXT": str(folder / "text"), "CHAT": str(folder / "chat")}
    if model is not None:
        replaced["MODEL"] = str(models.make(options.make_model, model, folder))
    profile = folder / "callgrind.out"
    profile.unlink(missing_ok=True)
    cache = tempfile.mkdtemp(dir=folder)  # nothing that an earlier run has kept
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}",
                    *[f"--toggle-collect={toggle}" for toggle in toggles], options.hadal,
                    *[replaced.get(argument, argument) for argument in arguments]],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300,
                   env=dict(os.environ, HADAL_ISA="avx2", XDG_CACHE_HOME=cache))
    counts = own_instructions(profile, pathlib.Path(options.hadal).name)
    if not counts:
        sys.exit(f"{name}: nothing ran below {', '.join(toggles)}; if a function has a new name, tell SCENARIOS")
    return counts


def main_ones(counts):
    """Those that take a hundredth and more, the largest first."""
    least = sum(counts.values()) / 100
    return {name: c for name, c in sorted(counts.items(), key=lambda item: -item[1]) if c >= least}


def largest_changes(now, before):
    changes = {name: now.get(name, 0) - before.get(name, 0) for name in {*main_ones(now), *before}}
    for name in sorted(changes, key=lambda n: -abs(changes[n]))[:5]:
        if changes[name]:
            print(f"    {changes[name]:+,} {name[:150]}")


def judge(name, counts, before):
    """True when the scenario holds; prints what it took."""
    total, expected = sum(counts.values()), before.get("instructions", 0)
    change = total / expected - 1 if expected else float("inf")
    print(f"{name}: {total:,} instructions, {change:+.2%} of {expected:,}")
    if abs(change) <= TOLERANCE:
        return True
    largest_changes(counts, before.get("functions", {}))
    if change < 0:
        print("    fewer: well done; keep it so with `make rebaseline` (CONTRIBUTING.md)")
    else:
        print("    more: a slow-down, unless it buys something; then `make rebaseline` (CONTRIBUTING.md)")
    return change < 0


def why_not(options, table):
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if options.build_type != "Release":
        return f"a {options.build_type or 'nameless'} build, not Release"
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    if not {"avx2", "fma", "f16c"} <= set(flags):
        return "this processor has no AVX2"
    series = options.compiler.split(".")[0]
    if table and not options.update and table["compiler"] != series:
        return f"the numbers are {table['compiler']}'s, this build is {series}'s"
    return None


def main():
    parser = argparse.ArgumentParser()
    for name in ("hadal", "make_model", "compiler", "build_type"):
        parser.add_argument(name)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", help="scenarios whose name holds this")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if reason := why_not(options, table):
        print(f"instructions: skipped, {reason}")
        return SKIPPED
    scenarios, holds = dict(table.get("scenarios", {})), True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_inputs(folder)
        for name in SCENARIOS:
            if options.only and options.only not in name:
                continue
            counts = count(options, folder, name)
            if not options.update:
                holds = judge(name, counts, scenarios.get(name, {})) and holds
            scenarios[name] = {"instructions": sum(counts.values()), "functions": main_ones(counts)}
    if options.update:
        scenarios = {name: scenarios[name] for name in SCENARIOS if name in scenarios}
        TABLE.write_text(json.dumps({"compiler": options.compiler.split(".")[0], "scenarios": scenarios}, indent=1)
                         + "\n")
        print(f"wrote {TABLE}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
