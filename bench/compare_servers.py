#!/usr/bin/env python3
"""Hadal's server against a build of llama.cpp's llama-server, under the same load.

    bench/compare_servers.py --hadal build/release/hadal --peer PATH/TO/llama-server MODEL.gguf

Both get as many slots as there are clients, the same threads, flash attention and the same prompts:
about 256 tokens, of which half of the requests share the first 200, and 64 tokens to answer. They run in
turn, A B A B ..., each time a fresh process; each pair has prompts of its own. The medians of the ratios
are printed. As in compare_peers.py each pair stands between two probes of the machine, and one in which
a probe is below 90 % of the best seen is repeated, up to --tries times.
"""
import argparse
import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import compare_peers
from side_by_side import QuietRounds, describe, ratios

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/api"))
from live_server import LiveServer, load  # noqa: E402

# Field of the result, and what it is.
FIELDS = (("output_throughput", "output tokens/s"), ("request_throughput", "requests/s"),
          ("median_ttft_ms", "TTFT median ms"), ("p95_ttft_ms", "TTFT p95 ms"),
          ("mean_tpot_ms", "TPOT mean ms"), ("p95_itl_ms", "ITL p95 ms"), ("p95_e2el_ms", "E2EL p95 ms"))


@contextlib.contextmanager
def hadal_server(options, clients):
    with LiveServer(options.hadal, "--max-num-seqs", clients, "--ctx", options.context, "-t", options.threads,
                    "--max-queue-seconds", 0, model=options.model) as server:
        yield server.url


@contextlib.contextmanager
def peer_server(options, clients):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [options.peer, "-m", options.model, "-np", clients, "-t", options.threads, "-tb", options.threads,
               "-fa", "on", "-c", clients * options.context, "--port", port, *options.peer_flags.split()]
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               cwd=tempfile.gettempdir())  # some leave log files where they run
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(url + "/health", timeout=5).status == 200:
                    break
            if process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {process.returncode}: {' '.join(map(str, command))}")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def measure(server, options, clients, seed, folder):
    with server(options, clients) as url:
        return load(options.hadal, url, folder, "--model-path", options.model, "--max-concurrency", clients,
                    "--num-prompts", options.requests * clients, "--input-len", options.input_len, "--shared-prefix",
                    200, "--shared-fraction", 0.5, "--output-len", options.output_len, "--ignore-eos", "--seed", seed,
                    "--percentiles", "50,95,99")


def compare(options, clients, folder):
    machine, pairs = compare_peers.Hadal(options), QuietRounds(options.quiet)
    for seed in range(options.tries):
        before = machine.probe(options.model)
        ours = measure(hadal_server, options, clients, seed, folder)
        theirs = measure(peer_server, options, clients, seed, folder)
        after = machine.probe(options.model)
        pairs.add(before, after, (ours, theirs))
        print(f"  {clients} clients, try {seed + 1}: {ours['output_throughput']:.1f} : "
              f"{theirs['output_throughput']:.1f} output tokens/s; probes read {before['read_gbs']:.0f}, "
              f"{after['read_gbs']:.0f} GB/s", file=sys.stderr)
        if len(pairs.kept()) == options.pairs:
            break
    kept = pairs.kept()
    rows = [{"what": name, **ratios([(ours[field], theirs[field]) for ours, theirs in kept])}
            for field, name in (FIELDS if kept else ())]
    return {"clients": clients, "pairs": len(kept), "tries": seed + 1, "best_probe": pairs.best, "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--hadal", default="build/release/hadal")
    parser.add_argument("--peer", required=True, help="llama-server of llama.cpp or ik_llama.cpp")
    parser.add_argument("--peer-flags", default="", help="more for the peer, e.g. --peer-flags=-rtr")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=512, help="tokens of each slot")
    parser.add_argument("--clients", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--requests", type=int, default=4, help="of each client")
    parser.add_argument("--input-len", default="uniform:240-272")
    parser.add_argument("--output-len", default="64")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tries", type=int, default=9)
    parser.add_argument("--quiet", type=float, default=0.9, help="share of the best probe that a pair must have")
    parser.add_argument("--json", help="also write the results here")
    options = parser.parse_args()
    options.hadal, options.peer, options.model = (
        str(pathlib.Path(path).resolve()) for path in (options.hadal, options.peer, options.model))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for clients in options.clients:
            results.append(compare(options, clients, folder))
            if not results[-1]["rows"]:
                print(f"{clients} clients: the machine was never quiet for a whole pair", flush=True)
            for row in results[-1]["rows"]:
                print(f"{clients:>3} clients, {describe(row['what'], row)}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
