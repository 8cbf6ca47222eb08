#!/usr/bin/env python3
"""What the scheduler is worth: the same engine, the same trace, with a part of it switched off.

    bench/compare_modes.py --hadal build/release/hadal MODEL [--against static|whole]

The trace comes faster than either can serve it. `static` collects --batch requests, computes them to the
end of the last and reserves whole contexts (`hadal serve --batching static`). `whole` computes every prompt
in one step instead of in chunks of --chunk tokens. The two run in turn, each time a fresh process. Printed:
the ratios of requests per second, of latencies, of the KV pages reserved (held or promised, on average
while requests were there) and of the memory for activations.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import threading

from side_by_side import describe, ratios

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
    flags = ["--max-num-seqs", options.batch, "--chunk", options.context if mode == "whole" else options.chunk]
    if mode == "static":
        flags += ["--batching", "static", "--batch", options.batch]
    with LiveServer(options.hadal, *flags, "--ctx", options.context, "-t", options.threads,
                    "--max-queue", 0, "--max-queue-seconds", 0, model=options.model) as server:
        watch = PageWatch(server)
        watch.start()
        result = load(options.hadal, server.url, folder, "--model-path", options.model, "--trace", options.trace,
                      "--ignore-eos", "--timeout", 3600)
        watch.ended.set()
        watch.join()
        reserved = server.metrics()
    return {"requests/s": result["request_throughput"], "P99 latency ms": result["p99_e2el_ms"],
            "output tokens/s": result["output_throughput"], "P99 TTFT ms": result["p99_ttft_ms"],
            "P99 ITL ms": result["p99_itl_ms"],
            "activations MB": reserved['hadal_memory_reserved_bytes{category="activations"}'] / 1e6,
            "KV pages, mean": statistics.mean(watch.reserved or [0]), "KV pages, most": max(watch.reserved or [0])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--hadal", default="build/release/hadal")
    parser.add_argument("--trace", default=str(pathlib.Path(__file__).resolve().parent / "traces/saturating.jsonl"))
    parser.add_argument("--against", choices=["static", "whole"], default="static")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--chunk", type=int, default=512)
    parser.add_argument("--context", type=int, default=1536)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.pairs):
            pairs.append({mode: measure(options, mode, folder) for mode in ("ours", options.against)})
            print(pairs[-1], file=sys.stderr)
    for name in pairs[0]["ours"]:
        values = [(p["ours"][name], p[options.against][name]) for p in pairs if p[options.against][name]]
        print(describe(name, ratios(values), options.against) if values else f"{name:<16} was zero", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(pairs, file, indent=1)


if __name__ == "__main__":
    main()
