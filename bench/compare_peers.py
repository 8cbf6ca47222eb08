#!/usr/bin/env python3
"""Hadal against builds of llama.cpp and ik_llama.cpp, side by side on the same GGUF files.

    bench/compare_peers.py --peer PATH/TO/llama.cpp/bin --peer PATH/TO/ik_llama.cpp/bin MODEL.gguf...

A peer is a folder with llama-bench and, for cells of several sequences, llama-batched-bench. Each runs
with flash attention; ik_llama.cpp, known by its options, also with -rtr 1, and -mla 3 -fmoe 1 for
DeepSeek. They and ours run in turn, round after round; each round gives ratios, their medians count. Every
run of ours stands behind a probe of the machine (two-thread read bandwidth and int8 rate): a round in which
the probe before or after it is below --quiet of the best seen is thrown away and repeated, up to
--tries times. The peer that the ratio is taken to is the better one of each round.

Cells: prefill@N is the mean over a prompt of N tokens, decode@D the speed at depth D, decode@DxS that of S
sequences together.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from side_by_side import QuietRounds, ratios

CELLS = ["prefill@512", "decode@0", "prefill@4096", "decode@4096", "decode@0x8", "decode@0x32"]


class Cell:
    def __init__(self, text):
        found = re.fullmatch(r"(prefill|decode)@(\d+)(?:x(\d+))?", text)
        if not found or (found[1] == "prefill" and (found[3] or found[2] == "0")):
            raise argparse.ArgumentTypeError(f"{text}: a cell is prefill@N, decode@D or decode@DxS")
        self.text, self.kind, self.tokens, self.sequences = text, found[1], int(found[2]), int(found[3] or 1)


def output(command, stderr=False):
    # Elsewhere, as some leave log files where they run.
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout + (done.stderr if stderr else "")


class Hadal:
    """Its bench measures the machine first: every run is a probe as well."""

    def __init__(self, options):
        self.options = options

    def run(self, model, cell):
        """(probe, tokens/s, percent of peak)"""
        prompt = cell.tokens if cell.kind == "prefill" else 0
        decode = self.options.decode if cell.kind == "decode" else 0
        depth = cell.tokens if cell.kind == "decode" else 0
        report = json.loads(output([self.options.hadal, "bench", model, "-p", prompt, "-n", decode, "-d", depth, "-b",
                                    cell.sequences, "-r", 1, "-t", self.options.threads, "--no-pack-cache",
                                    "--json"]))
        row, = (r for r in report["results"] if r["kind"] == cell.kind)
        return report["peaks"], row["tok_s"], row["percent_of_peak"]

    def probe(self, model):
        return self.run(model, Cell("prefill@16"))[0]


class Peer:
    def __init__(self, folder, options):
        self.folder, self.options = pathlib.Path(folder).resolve(), options
        self.help = subprocess.run([self.folder / "llama-bench", "--help"], capture_output=True, text=True).stdout
        self.is_ik = "-rtr" in self.help
        self.name = "ik_llama.cpp" if self.is_ik else "llama.cpp"

    @staticmethod
    def is_deepseek(model):
        return "deepseek" in pathlib.Path(model).name

    def flags(self, model):
        flags = ["-m", model, "-t", self.options.threads]
        if self.is_ik:
            flags += ["-rtr", 1] + (["-mla", 3, "-fmoe", 1] if self.is_deepseek(model) else [])
        return flags + ["-fa", 1]

    def run(self, model, cell):
        """tokens/s"""
        if cell.sequences > 1:
            return self.run_batched(model, cell)
        n = self.options.decode
        if cell.kind == "prefill":
            test = ["-p", cell.tokens, "-n", 0]
        elif cell.tokens == 0 or not self.is_ik:
            test = ["-p", 0, "-n", n] + (["-d", cell.tokens] if cell.tokens else [])
        else:
            test = ["-p", 0, "-n", 0, "-gp", f"{cell.tokens},{n}"]
        row, = json.loads(output([self.folder / "llama-bench", *self.flags(model), *test, "-r", 1, "-o", "json"]))
        return row["avg_ts"]

    def run_batched(self, model, cell):
        depth, n, count = max(cell.tokens, 16), self.options.decode, cell.sequences
        flags = ["-m", model, "-t", self.options.threads, "-fa", "on"]
        if self.is_ik:
            flags += ["-rtr"] + (["-mla", 3] if self.is_deepseek(model) else [])
        text = output([self.folder / "llama-batched-bench", *flags, "-c", (depth + n) * count + 64, "-npp", depth,
                       "-ntg", n, "-npl", count], stderr=True)  # which of the two depends on the peer
        rows = [line.split("|")[1:-1] for line in text.splitlines() if re.match(r"\|\s*\d+ \|", line)]
        return float(rows[-1][7])


def measure(options, hadal, peers, model, cell):
    rounds, tries = QuietRounds(options.quiet), 0
    before = hadal.probe(model)
    while len(rounds.kept()) < options.rounds and tries < options.tries:
        tries += 1
        _, ours, percent = hadal.run(model, cell)
        theirs = {peer.name: peer.run(model, cell) for peer in peers}
        after = hadal.probe(model)
        rounds.add(before, after, (ours, percent, theirs))
        print(f"  {cell.text} try {tries}: {ours:.1f} : " + ", ".join(f"{v:.1f}" for v in theirs.values())
              + f"; probes read {before['read_gbs']:.0f}, {after['read_gbs']:.0f} GB/s, int8 "
              f"{before['int8_gops']:.0f}, {after['int8_gops']:.0f} GOP/s", file=sys.stderr, flush=True)
        before = after
    kept = rounds.kept()
    row = {"model": pathlib.Path(model).name, "cell": cell.text, "rounds": len(kept), "tries": tries,
           "best_probe": rounds.best}
    if kept:
        row.update(ratios([(ours, max(theirs.values())) for ours, _, theirs in kept]),
                   percent_of_peak=statistics.median(percent for _, percent, _ in kept),
                   peers={p.name: statistics.median(theirs[p.name] for _, _, theirs in kept) for p in peers})
    return row


def table(rows, peers):
    """A line a cell, in Markdown."""
    yield "| model | cell | ours, tokens/s | " + " | ".join(p.name for p in peers) + \
        " | ratio to the better | % of peak | rounds |"
    yield "|---" * (6 + len(peers)) + "|"
    for row in rows:
        if "ratio" not in row:
            yield f"| {row['model']} | {row['cell']} | the machine was never quiet for a whole round |"
            continue
        yield (f"| {row['model']} | {row['cell']} | {row['ours']:.1f} | "
               + " | ".join(f"{row['peers'][p.name]:.1f}" for p in peers)
               + f" | {row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f}) | {row['percent_of_peak']:.0f} | "
               f"{row['rounds']} of {row['tries']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--hadal", default="build/release/hadal")
    parser.add_argument("--peer", action="append", required=True, help="folder of a peer's programs; again for more")
    parser.add_argument("--cells", type=Cell, nargs="+", default=[Cell(text) for text in CELLS])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--decode", type=int, default=64, help="tokens decoded in a run")
    parser.add_argument("--rounds", type=int, default=3, help="to keep, of each cell")
    parser.add_argument("--tries", type=int, default=9)
    parser.add_argument("--quiet", type=float, default=0.9, help="share of the best probe that a round must have")
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args()
    programs = ["llama-bench"] + ["llama-batched-bench"] * any(cell.sequences > 1 for cell in options.cells)
    for path in (pathlib.Path(folder) / program for folder in options.peer for program in programs):
        if not path.exists():
            parser.error(f"{path} is not there")
    options.hadal = str(pathlib.Path(options.hadal).resolve())
    options.models = [str(pathlib.Path(model).resolve()) for model in options.models]
    hadal, peers = Hadal(options), [Peer(folder, options) for folder in options.peer]
    rows = []
    for model in options.models:
        print(model, file=sys.stderr)
        for cell in options.cells:
            rows.append(measure(options, hadal, peers, model, cell))
    print("\n".join(table(rows, peers)))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
