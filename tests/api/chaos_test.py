#!/usr/bin/env python3
"""The server among clients and machines that misbehave: /health stays 200, the right status comes back,
and what a client held is free again.

    chaos_test.py PATH/TO/hadal [unittest arguments]

HADAL_HALF_OPEN sets the number of half-open connections (default 2000).
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from live_server import MODEL, LiveServer, completion, load, raise_descriptor_limit

HADAL = ""
DESCRIPTORS = 1024


def status_of(connection):
    """Of the next answer; None when the connection closed without one."""
    reply = http.client.HTTPResponse(connection)
    try:
        reply.begin()
    except (http.client.HTTPException, OSError):
        return None
    reply.read()
    return reply.status


def reset(connection):
    """Gone at once, with nothing said."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class ChaosTest(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer(HADAL, *cls.options)
        cls.addClassCleanup(cls.server.stop)

    def tearDown(self):
        self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        status, text = self.server.ask("POST", "/v1/completions", {"prompt": "The", "max_tokens": 2})
        self.assertEqual(status, 200, text)
        self.server.wait_until_idle()


class Requests(ChaosTest):
    def post(self, body, headers=b""):
        with self.server.socket() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: test\r\n" + headers + b"\r\n" + body)
            return status_of(connection)

    def test_malformed_chunks(self):
        chunked = b"Transfer-Encoding: chunked\r\n"
        for body in (b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n\r\n", b"ffffffffffffffffff\r\n", b"1\r\n{}\r\n0\r\n\r\n",
                     b"2\r\n{}xx0\r\n\r\n", b"0x2\r\n{}\r\n0\r\n\r\n"):
            self.assertEqual(self.post(body, chunked), 400, body)
        self.assertEqual(self.post(b"2;" + b"x" * 100_000 + b"\r\n{}\r\n0\r\n\r\n", chunked), 431)
        self.assertEqual(self.post(b"2\r\n{}\r\n0\r\n\r\n", chunked + b"Content-Length: 2\r\n"), 400)
        self.assertEqual(self.post(b"{}", b"Content-Length: 2\r\nContent-Length: 3\r\n"), 400)

    def test_deeply_nested_json(self):
        for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
            for depth in (129, 100_000):
                body = b'{"prompt":' + opening * depth + b"1" + closing * depth + b"}"
                self.assertEqual(self.post(body, b"Content-Length: %d\r\n" % len(body)), 400, depth)
        body = b'{"messages":[{"role":"user","content":' + b"[" * 50_000
        self.assertEqual(self.post(body, b"Content-Length: %d\r\n" % len(body)), 400)

    def test_huge_bodies(self):
        size = 100 << 20
        before = self.server.resident_mb()
        self.assertEqual(self.post(b"", b"Content-Length: %d\r\n" % size), 413)
        self.assertEqual(self.post(b"", b"Content-Length: 99999999999999999999999\r\n"), 400)
        with self.server.socket() as connection:  # in chunks, so that nothing announces it
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n")
            piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for _ in range(size >> 20):
                    connection.sendall(piece)
            self.assertIn(status_of(connection), (413, None))
        self.assertLess(self.server.resident_mb() - before, 64)

    def test_bodies_that_are_no_requests(self):
        for body in (b"", b"\x00", b"\xff\xfe", b"null", b"[]", b'"x"', b'{"prompt":"\xff"}', b'{"prompt":1e999}',
                     b'{"prompt":"x","max_tokens":-1}', b'{"prompt":"x","prompt":"y"}'):
            self.assertEqual(self.post(body, b"Content-Length: %d\r\n" % len(body)), 400, body)


class Connections(ChaosTest):
    def test_half_open(self):
        n = min(int(os.environ.get("HADAL_HALF_OPEN", 2000)), DESCRIPTORS - 100)
        halves = []
        try:
            for i in range(n):
                connection = self.server.socket()
                # Some say nothing, some half a head, some a head without its body.
                connection.sendall((b"", b"POST /v1/comp", b"POST /v1/completions HTTP/1.1\r\nHost: test\r\n"
                                    b"Content-Length: 50\r\n\r\n{")[i % 3])
                halves.append(connection)
                if i % (n // 4) == 0:
                    self.assertEqual(self.server.ask("GET", "/health")[0], 200)
            self.assertEqual(self.server.ask("GET", "/health")[0], 200)
            status, text = self.server.ask("POST", "/v1/completions", {"prompt": "The", "max_tokens": 2})
            self.assertEqual(status, 200, text)
        finally:
            for connection in halves:
                connection.close()

    def expect_given_back(self, what, before, at_least):
        gone = 'hadal_requests_aborted_total{cause="client_gone"}'
        waited = self.server.wait_for(lambda m: m[gone] >= before[gone] + at_least)
        self.assertIsNotNone(waited, f"{what}: not noticed")
        waited += self.server.wait_until_idle()
        print(f"{what} left: all given back after {waited:.2f} s")

    def test_clients_vanish(self):
        """In the queue, at the prompt, while streaming, by reset and by close."""
        for leave in (reset, socket.socket.close):
            # While streaming.
            crowd = [self.server.socket() for _ in range(8)]
            for i, connection in enumerate(crowd):
                connection.sendall(completion(f"{i} boats", 900))
            for connection in crowd:
                self.assertIn(b"data:", connection.recv(4096) + connection.recv(4096))
            before = self.server.metrics()
            for connection in crowd:
                leave(connection)
            self.expect_given_back("streams", before, 8)
            # At the prompt.
            crowd = [self.server.socket() for _ in range(8)]
            for i, connection in enumerate(crowd):
                connection.sendall(completion(f"{i}" + " boat" * 400, 400))
            self.assertIsNotNone(self.server.wait_for(lambda m: m["hadal_requests_running"] > 0))
            before = self.server.metrics()
            for connection in crowd:
                leave(connection)
            self.expect_given_back("prompts", before, 1)
            # Waiting behind more streams than run at once, streamed or not.
            crowd = [self.server.socket() for _ in range(32)]
            for i, connection in enumerate(crowd):
                connection.sendall(completion(f"{i} boats", 900))
            self.assertIsNotNone(self.server.wait_for(lambda m: m["hadal_requests_running"] == 32))
            late = [self.server.socket() for _ in range(8)]
            for i, connection in enumerate(late):
                connection.sendall(completion("late", 10, stream=i % 2 == 0))
            self.assertIsNotNone(self.server.wait_for(lambda m: m["hadal_requests_waiting"] == 8))
            before = self.server.metrics()
            for connection in late:
                leave(connection)
            self.assertIsNotNone(self.server.wait_for(lambda m: m["hadal_requests_waiting"] == 0))
            for connection in crowd:
                leave(connection)
            self.expect_given_back("queue", before, 40)


class SlowReader(ChaosTest):
    options = ("--write-timeout", "1")

    def test_is_cut_and_holds_nothing(self):
        with self.server.socket(receive_buffer=2048) as connection:
            # Pipelined answers that nobody reads, far more than the kernel's buffers hold.
            one = (b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
            with contextlib.suppress(OSError):
                connection.settimeout(1)
                for _ in range(2000):
                    connection.sendall(one)
            self.assertIsNotNone(self.server.wait_for(
                lambda m: m['hadal_http_connections_cut_total{cause="slow_reader"}'] > 0))


class FewDescriptors(ChaosTest):
    @classmethod
    def setUpClass(cls):
        cls.server = LiveServer(HADAL, descriptors=64)
        cls.addClassCleanup(cls.server.stop)

    def test_run_out(self):
        crowd = [self.server.socket() for _ in range(300)]
        try:
            for connection in crowd:
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET /hea")
            self.assertEqual(self.server.ask("GET", "/health")[0], 200)
        finally:
            for connection in crowd:
                connection.close()


class Death(unittest.TestCase):
    def test_kill_and_restart_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            server = LiveServer(HADAL)
            path = pathlib.Path(folder) / "load.json"
            clients = subprocess.Popen(
                [HADAL, "bench", "serve", server.url, "--model", "reef", "--model-path", str(MODEL), "--max-concurrency",
                 "32", "--num-prompts", "64", "--input-len", "32", "--output-len", "900", "--ignore-eos", "--timeout",
                 "30", "--json", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertIsNotNone(server.wait_for(lambda m: m["hadal_requests_running"] >= 16))
            server.kill()
            out, _ = clients.communicate(timeout=60)
            self.assertEqual(clients.returncode, 1, out)
            counts = json.loads(path.read_text())["outcome_counts"]
            self.assertGreater(counts["cut"], 0, counts)
            self.assertEqual(counts["hung"] + counts["broken"] + counts["refused"], 0, counts)
            self.assertEqual(sum(counts.values()), 64)
            with LiveServer(HADAL, port=server.port) as again:
                self.assertEqual(again.port, server.port)
                result = load(HADAL, again.url, folder, "--num-prompts", 8, "--input-len", 16, "--output-len", 8)
                self.assertEqual(result["completed"], 8)
                again.wait_until_idle()

    def test_drain_under_load(self):
        with tempfile.TemporaryDirectory() as folder:
            server = LiveServer(HADAL)
            clients = subprocess.Popen(
                [HADAL, "bench", "serve", server.url, "--model", "reef", "--model-path", str(MODEL), "--num-prompts",
                 "16", "--input-len", "32", "--output-len", "400", "--ignore-eos", "--json", f"{folder}/load.json"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertIsNotNone(server.wait_for(lambda m: m["hadal_requests_running"] == 16))
            self.assertEqual(server.stop(), 0)
            out, _ = clients.communicate(timeout=60)
            self.assertEqual(clients.returncode, 0, out)


    def test_what_the_deadline_ends_is_told_so(self):
        server = LiveServer(HADAL, "--drain-timeout", 0)
        crowd = [server.socket() for _ in range(8)]
        for i, connection in enumerate(crowd):
            connection.sendall(completion(f"{i} boats", 900, stream=i % 2 == 0))
        self.assertIsNotNone(server.wait_for(lambda m: m["hadal_requests_running"] == 8))
        server.process.terminate()
        for i, connection in enumerate(crowd):
            with contextlib.closing(http.client.HTTPResponse(connection)) as reply:
                reply.begin()
                text = reply.read().decode()  # raises when it is cut
            self.assertEqual(reply.status, 200 if i % 2 == 0 else 503)
            last = text.strip().rsplit("data: ", 1)[-1]
            self.assertEqual(json.loads(last)["error"]["code"], "draining", last)
            connection.close()
        self.assertEqual(server.stop(), 0)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", self.folder], capture_output=True).returncode:
            self.skipTest("a small disk can be mounted by root only")
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder])

    def squeeze(self, *options):
        """(the result of a load that cannot be served without preemptions, the metrics after it)"""
        scratch = self.enterContext(tempfile.TemporaryDirectory())
        with LiveServer(HADAL, "--swap-path", self.folder, "--kv-memory", "1m", "--max-model-len", "512", "--admission",
                        "prompt", "--preemption", "swap", *options) as server:
            with open(f"{self.folder}/junk", "wb") as junk, self.assertRaises(OSError):
                while True:
                    junk.write(b"x" * 65536)
                    junk.flush()
            result = load(HADAL, server.url, scratch, "--model-path", MODEL, "--num-prompts", 24, "--input-len", 32,
                          "--output-len", 200, "--ignore-eos")
            self.assertEqual(server.ask("GET", "/health")[0], 200)
            server.wait_until_idle()
            self.assertEqual(result["completed"], 24)
            return server.metrics(), "".join(server.log)

    def test_without_room_for_the_swap_file_sequences_are_computed_again(self):
        metrics, log = self.squeeze("--swap-space", "64m")
        self.assertIn("--swap-path", log)
        self.assertEqual(metrics['hadal_preemptions_total{kind="swap"}'], 0)
        self.assertGreater(metrics['hadal_preemptions_total{kind="recompute"}'], 0)

    def test_a_disk_that_fills_up_later_does_no_harm(self):
        metrics, _ = self.squeeze("--swap-space", "16m")
        self.assertGreater(metrics['hadal_preemptions_total{kind="swap"}'], 0)


if __name__ == "__main__":
    HADAL = sys.argv.pop(1)
    DESCRIPTORS = raise_descriptor_limit()
    unittest.main()
