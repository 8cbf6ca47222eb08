#!/usr/bin/env python3
"""Continuous batching against static batches: the same engine, the same trace.

    bench/compare_static.py --hadal build/release/hadal MODEL [--trace bench/traces/saturating.jsonl]

The trace comes faster than either can serve it. Static mode collects --batch requests, computes them to
the end of the last and reserves whole contexts; see `hadal serve --batching`. The two run in turn, each
time a fresh process. Printed: the ratios of requests per second, of P99 latency and of the KV pages
reserved (held or promised), on average while requests were there.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/api"))
from live_server import LiveServer, load  # noqa: E402


class PageWatch(threading.Thread):
    """Samples how many KV pages are taken from others, held or promised, while there are requests."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.ended, self.reserved = server, threading.Event(), []

    def run(self):
        while not self.ended.wait(0.2):
            metrics = self.server.metrics()
            if metrics["hadal_requests_running"] > 0:
                self.reserved.append(metrics["hadal_kv_pages"] - metrics["hadal_kv_free_pages"]
                                     + metrics["hadal_kv_promised_pages"])


def measure(options, mode, folder):
    flags = ["--batching", mode, "--max-num-seqs", options.batch]
    if mode == "static":
        flags += ["--batch", options.batch]
    with LiveServer(options.hadal, *flags, "--ctx", options.context, "-t", options.threads,
                    "--max-queue", 0, "--max-queue-seconds", 0, model=options.model) as server:
        watch = PageWatch(server)
        watch.start()
        result = load(options.hadal, server.url, folder, "--model-path", options.model, "--trace", options.trace,
                      "--ignore-eos", "--timeout", 3600)
        watch.ended.set()
        watch.join()
    return {"requests/s": result["request_throughput"], "P99 latency ms": result["p99_e2el_ms"],
            "P99 TTFT ms": result["p99_ttft_ms"], "KV pages, mean": statistics.mean(watch.reserved or [0]),
            "KV pages, most": max(watch.reserved or [0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--hadal", default="build/release/hadal")
    parser.add_argument("--trace", default=str(pathlib.Path(__file__).resolve().parent / "traces/saturating.jsonl"))
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--context", type=int, default=1536)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.pairs):
            pairs.append({mode: measure(options, mode, folder) for mode in ("continuous", "static")})
            print(pairs[-1], file=sys.stderr)
    for name in pairs[0]["static"]:
        ratios = [p["continuous"][name] / p["static"][name] for p in pairs if p["static"][name]]
        if not ratios:
            print(f"{name:<20} was zero")
            continue
        print(f"{name:<20} continuous {statistics.median(p['continuous'][name] for p in pairs):9.1f}  static "
              f"{statistics.median(p['static'][name] for p in pairs):9.1f}  ratio {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(pairs, file, indent=1)


if __name__ == "__main__":
    main()
