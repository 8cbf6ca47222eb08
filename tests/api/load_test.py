#!/usr/bin/env python3
"""Many streaming clients at once, and more than there is capacity for.

    load_test.py PATH/TO/hadal [--seconds 10] [--clients 256] [--overload-seconds 6]

Fails when a stream is lost, cut or hangs, when memory grows, when pages stay held, or when a request
beyond capacity gets anything but an answer or a 503. Speeds are printed, not judged: a busy machine
is no fault of the server's.
"""
import argparse
import json
import sys
import tempfile
import time

from live_server import MODEL, LiveServer, load, raise_descriptor_limit

TTFT_MS, ITL_MS = 500, 50  # targets under overload
MOST_GROWTH_MB = 48  # of resident memory after the first round: allocator slack, not a leak per request


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def only(result, *allowed):
    """Every request ended in one of these ways."""
    bad = {name: n for name, n in result["outcome_counts"].items() if n and name not in allowed}
    check(not bad, f"{bad} of {result['num_prompts']} requests; {result['error_counts']}")


def lengths(*more):
    return ["--model-path", MODEL, "--input-len", "uniform:16-200", "--shared-prefix", 64,
            "--output-len", "uniform:16-48", "--ignore-eos", *more]


def crowd(options, folder):
    """All clients stream all the time; memory and pages are watched."""
    with LiveServer(options.hadal, "--max-queue-seconds", 0) as server:
        start, rounds, resident = time.monotonic(), [], []
        while len(rounds) < 2 or time.monotonic() < start + options.seconds:
            result = load(options.hadal, server.url, folder, "--max-concurrency", options.clients,
                          "--num-prompts", 2 * options.clients, "--seed", len(rounds), *lengths())
            only(result, "ok")
            rounds.append(result)
            server.wait_until_idle()
            resident.append(server.resident_mb())
        check(server.ask("GET", "/health")[0] == 200, "/health")
        growth = resident[-1] - resident[0]
        check(growth < MOST_GROWTH_MB, f"memory grew by {growth:.0f} MB: {resident}")
        check(server.stop() == 0, "the server did not stop in good order")
    n = sum(r["completed"] for r in rounds)
    peak = max(r["max_concurrent_requests"] for r in rounds)
    check(peak == options.clients, f"only {peak} of {options.clients} clients at once")
    print(f"{options.clients} clients, {len(rounds)} rounds: {n} streams whole, none lost, cut or hung; "
          f"{sum(r['output_throughput'] for r in rounds) / len(rounds):.0f} tokens/s; p99 ITL per chunk "
          f"{max(r['p99_itl_ms'] for r in rounds):.1f} ms, per token "
          f"{max(r['p99_itl_per_token_ms'] for r in rounds):.1f} ms; resident {resident[0]:.0f} to "
          f"{resident[-1]:.0f} MB; pages back to zero", flush=True)


def first_byte_of_refusals(server):
    """Milliseconds from the last byte of each refused request to the first of its answer, as the server
    stamps them."""
    stamps = []
    for line in server.log:
        if '"status":503' in line:
            stamps.append(json.loads(line)["first_byte_ms"])
    return sorted(stamps)


def overload(options, folder):
    """Three times what it can do, at random moments."""
    flags = ["--max-num-seqs", 16, "--max-queue", 64, "--ttft-target-ms", TTFT_MS, "--itl-target-ms", ITL_MS]
    with LiveServer(options.hadal, *flags) as server:
        full = load(options.hadal, server.url, folder, "--max-concurrency", 16, "--num-prompts", 200, *lengths())
        only(full, "ok", "refused")  # a very slow machine misses the targets with 16 clients
        rate = full["request_throughput"]
        server.wait_until_idle()
        server.log.clear()
        result = load(options.hadal, server.url, folder, "--request-rate", 3 * rate, "--num-prompts",
                      max(64, int(3 * rate * options.overload_seconds)), *lengths())
        only(result, "ok", "refused")
        codes = {error.split(":")[0] for error in result["error_counts"]}
        check(codes <= {"503"}, f"refused with {result['error_counts']}")
        check(result["completed"] > 0, "nobody was served")
        server.wait_until_idle()
        for _ in range(100):  # the log's last lines may be on their way
            if len(stamps := first_byte_of_refusals(server)) >= result["failed"]:
                break
            time.sleep(0.05)
    check(len(stamps) == result["failed"], "the access log misses refusals")
    p99 = stamps[int(0.99 * (len(stamps) - 1))] if stamps else 0
    print(f"3 x {rate:.0f} requests/s: {result['completed']} served at {result['request_throughput']:.0f}/s, "
          f"{result['failed']} refused with 503, first byte p99 {p99:.1f} ms (aim: 50); served: TTFT p99 "
          f"{result['p99_ttft_ms']:.0f} ms (target {TTFT_MS}, at capacity {full['p99_ttft_ms']:.0f}), ITL per token "
          f"p99 {result['p99_itl_per_token_ms']:.1f} ms (target {ITL_MS}, at capacity "
          f"{full['p99_itl_per_token_ms']:.1f}), TPOT "
          f"mean {result['mean_tpot_ms']:.1f} ms ({full['mean_tpot_ms']:.1f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hadal")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--overload-seconds", type=float, default=4)
    options = parser.parse_args()
    raise_descriptor_limit()
    with tempfile.TemporaryDirectory() as folder:
        crowd(options, folder)
        overload(options, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
