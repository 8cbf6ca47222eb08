#!/usr/bin/env python3
"""64 mixed requests at once, in a pool that is far too small, give the bytes of their solo runs.

    invariance_test.py PATH/TO/hadal [unittest arguments]

Prompts of 1 to 2,000 tokens, greedy and sampled, some with shared beginnings, several choices,
log-probabilities; clients that go away among them; preemption by swap and by recomputation.
"""
import concurrent.futures
import http.client
import json
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

from live_server import MODEL, LiveServer

HADAL = ""
CONTEXT = 4096


def long_model(folder):
    """The bundled model with a longer context: its rotary embedding has no limit of its own."""
    model = pathlib.Path(folder) / "reef-long"
    shutil.copytree(MODEL, model)
    config = json.loads((model / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT
    (model / "config.json").write_text(json.dumps(config))
    return model


def mixed_requests(count):
    draw = random.Random(7)
    prefix = [draw.randrange(1000) for _ in range(200)]
    requests = []
    for i in range(count):
        length = [1, 2, 15, 16, 17, 2000][i] if i < 6 else int(draw.lognormvariate(4.5, 1.0)) % 1500 + 1
        prompt = [draw.randrange(1000) for _ in range(length)]
        if i % 3 == 0:
            prompt = (prefix + prompt)[:2000]
        request = {"prompt": prompt, "max_tokens": draw.randrange(8, 120), "ignore_eos": True}
        if i % 2:
            request |= {"temperature": 1.3, "top_p": 0.95, "seed": i, "repetition_penalty": 1.1}
        if i % 5 == 0:
            request["logprobs"] = 2
        if i % 8 == 3:
            request["n"] = 3
        requests.append(request)
    return requests


def post(port, request, **more):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/v1/completions", json.dumps(request | more))
    reply = connection.getresponse()
    body = reply.read()
    connection.close()
    if reply.status != 200:
        raise AssertionError(f"{reply.status}: {body[:300]}")
    return json.loads(body)["choices"]


def stream(port, request):
    """The same reply, put together from a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/v1/completions", json.dumps(request | {"stream": True}))
    reply = connection.getresponse()
    texts, reasons = {}, {}
    for block in reply.read().decode().split("\n\n"):
        if block.startswith("data: {"):
            choice = json.loads(block[6:])["choices"][0]
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
            reasons[choice["index"]] = choice["finish_reason"]
    connection.close()
    return [(texts[i], reasons[i]) for i in sorted(texts)]


def leave(port, request):
    """A client that asks and goes away at once."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(request | {"stream": True, "max_tokens": 500}))
    connection.sock.recv(1)
    connection.close()


class Invariance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = long_model(cls.folder.name)
        cls.requests = mixed_requests(64)
        with LiveServer(HADAL, "--ctx", CONTEXT, "--no-prefix-cache", model=cls.model) as server:
            cls.solo = [post(server.port, request) for request in cls.requests]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def under_load(self, *options):
        # One context's worth: a twentieth of what the requests hold together. Each is let in as
        # soon as its prompt fits.
        pool = str(800 * CONTEXT)
        small = ["--ctx", str(CONTEXT), "--kv-memory", pool, "--admission", "prompt"]
        with LiveServer(HADAL, *small, *options, model=self.model) as server, \
                concurrent.futures.ThreadPoolExecutor(80) as threads:
            jobs = [threads.submit(post, server.port, request) for request in self.requests]
            gone = [threads.submit(leave, server.port, request) for request in self.requests[::6]]
            for i, job in enumerate(jobs):
                self.assertEqual(job.result(), self.solo[i], f"request {i}")
            for job in gone:
                job.result()
            metrics = server.metrics()
            return {kind: metrics[f'hadal_preemptions_total{{kind="{kind}"}}'] for kind in ("swap", "recompute")}

    def test_preempted_by_recomputation(self):
        self.assertGreater(self.under_load("--preemption", "recompute")["recompute"], 0)

    def test_preempted_by_swap(self):
        self.assertGreater(self.under_load("--preemption", "swap", "--swap-space", "64m")["swap"], 0)

    def test_streams_are_the_same(self):
        with LiveServer(HADAL, "--ctx", CONTEXT, model=self.model) as server, \
                concurrent.futures.ThreadPoolExecutor(80) as threads:
            got = list(threads.map(lambda request: stream(server.port, request), self.requests))
        for i, (streamed, solo) in enumerate(zip(got, self.solo)):
            self.assertEqual(streamed, [(c["text"], c["finish_reason"]) for c in solo], f"request {i}")


if __name__ == "__main__":
    HADAL = sys.argv.pop(1)
    unittest.main()
