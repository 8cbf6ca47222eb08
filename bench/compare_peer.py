#!/usr/bin/env python3
"""Hadal against a build of llama.cpp's llama-bench, side by side on the same GGUF files.

    bench/compare_peer.py --hadal build/release/hadal --peer PATH/TO/llama-bench MODEL.gguf...

The two run in turn, A B A B ...; each pair gives a ratio, the medians of the ratios are printed. Every
run stands between two probes of the machine (`hadal bench` measures read bandwidth and the int8
rate before each run): a pair in which a probe is below 90 % of the best seen is thrown away and
repeated, up to --tries times.
"""
import argparse
import json
import statistics
import subprocess
import sys


def hadal(options, model):
    command = [options.hadal, "bench", model, "-p", str(options.prompt), "-n", str(options.decode), "-d",
               str(options.depth), "-r", "1", "-t", str(options.threads), "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    rates = {r["kind"]: r for r in report["results"]}
    return report["peaks"], rates


def peer(options, model):
    command = [options.peer, "-m", model, "-p", str(options.prompt), "-n", str(options.decode), "-d",
               str(options.depth), "-r", "1", "-t", str(options.threads), "-fa", "1", "-o", "json"]
    rows = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {"prefill" if r["n_prompt"] else "decode": r["avg_ts"] for r in rows}


def compare(options, model):
    best = {"read_gbs": 0.0, "int8_gops": 0.0}
    kept, tries = [], 0
    while len(kept) < options.pairs and tries < options.tries:
        tries += 1
        before, ours = hadal(options, model)
        theirs = peer(options, model)
        after, _ = hadal(options, model) if options.bracket else (before, None)
        for key in best:
            best[key] = max(best[key], before[key], after[key])
        kept.append((before, after, ours, theirs))
        kept = [pair for pair in kept
                if all(probe[key] >= 0.9 * best[key] for probe in pair[:2] for key in best)]
        print(f"  try {tries}: " + ", ".join(f"{kind} {ours[kind]['tok_s']:.1f} : {theirs[kind]:.1f}" for kind in ours)
              + f"; probe read {before['read_gbs']:.0f} GB/s, int8 {before['int8_gops']:.0f} GOP/s",
              file=sys.stderr)
    result = {"model": model, "pairs": len(kept), "tries": tries, "best_probe": best, "rows": []}
    for kind in ("prefill", "decode"):
        if not kept:
            break
        ratios = [ours[kind]["tok_s"] / theirs[kind] for _, _, ours, theirs in kept]
        result["rows"].append({
            "kind": kind, "ours": statistics.median(o[kind]["tok_s"] for _, _, o, _ in kept),
            "peer": statistics.median(t[kind] for _, _, _, t in kept),
            "ratio": statistics.median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
            "percent_of_peak": statistics.median(o[kind]["percent_of_peak"] for _, _, o, _ in kept)})
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--hadal", default="build/release/hadal")
    parser.add_argument("--peer", required=True, help="llama-bench of llama.cpp or ik_llama.cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tries", type=int, default=15)
    parser.add_argument("--bracket", action="store_true", help="probe after each pair as well")
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args()
    results = []
    for model in options.models:
        print(model, file=sys.stderr)
        results.append(compare(options, model))
        for row in results[-1]["rows"]:
            print(f"{model}: {row['kind']:<8} ours {row['ours']:9.1f}  peer {row['peer']:9.1f} tokens/s  "
                  f"ratio {row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})  "
                  f"{row['percent_of_peak']:.0f} % of peak", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
