#!/usr/bin/env python3
"""What loading and serving cost: peak anonymous memory against the plan, and loading in a control group
smaller than file plus packed weights together.

    memory_test.py PATH/TO/hadal PATH/TO/make_model
HADAL_MEMORY_SHAPE (default smollm2-135m) names the shape; `make soak` takes a 9 GB one. Serving fills its KV
pool, so a few layers of the shape are enough unless it is named.
"""
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

HADAL = MAKE_MODEL = ""
SHAPE = os.environ.get("HADAL_MEMORY_SHAPE", "smollm2-135m")
TYPE = os.environ.get("HADAL_MEMORY_TYPE", "q8_0")
MIB = 1 << 20


def anonymous_bytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def make_control_group():
    """A fresh memory control group, or None: (folder, name of its limit file)."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(root) / f"hadal-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / limit).exists():
            return folder, limit
        folder.rmdir()
    return None


class Cache:
    """A fresh place for packed weights."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = self.folder.name
        return self

    def files(self):
        return list(pathlib.Path(self.folder.name).rglob("*.packed"))

    def __exit__(self, *_):
        del os.environ["XDG_CACHE_HOME"]
        if self.before is not None:
            os.environ["XDG_CACHE_HOME"] = self.before
        self.folder.cleanup()


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = str(pathlib.Path(cls.folder.name) / "model.gguf")
        subprocess.run([MAKE_MODEL, SHAPE, cls.model, "--type", TYPE], check=True, stdout=subprocess.DEVNULL)
        facts = subprocess.run([HADAL, "inspect", cls.model, "--json"], check=True, capture_output=True)
        cls.facts = json.loads(facts.stdout)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def command(self):
        return [HADAL, "generate", self.model, "--raw", "-p", "Hello", "-n", "4", "--ctx", "64", "--chunk", "64",
                "--ignore-eos"]

    def peak(self):
        process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.002)
        self.assertEqual(process.returncode, 0)
        return peak

    def test_peak_is_packed_weights_and_a_tenth(self):
        packed = self.facts["packed_bytes"]
        with Cache() as cache:
            for kept in (False, True):
                self.assertEqual(cache.files() != [], kept)
                peak = self.peak()
                # Small models: the fixed costs of a process and of the tokenizer do not shrink with them.
                self.assertLess(peak, 1.1 * packed + (64 << 20), f"packed {packed}, peak {peak}, kept {kept}")
                self.assertGreater(peak, 0.9 * packed)

    def test_loads_where_file_and_weights_together_do_not_fit(self):
        group = make_control_group()
        if group is None:
            self.skipTest("control groups are not writable here")
        folder, limit = group
        try:
            bytes_ = int(self.facts["packed_bytes"] * 4 / 3) + (48 << 20)
            self.assertLess(bytes_, self.facts["packed_bytes"] + self.facts["file_bytes"])
            (folder / limit).write_text(str(bytes_))

            def enter():
                (folder / "cgroup.procs").write_text("0")

            with Cache() as cache:
                for kept in (False, True):
                    self.assertEqual(cache.files() != [], kept)
                    done = subprocess.run(self.command(), preexec_fn=enter, capture_output=True)
                    self.assertNotEqual(done.returncode, -signal.SIGKILL, "killed for memory")
                    self.assertEqual(done.returncode, 0, done.stderr.decode())
        finally:
            folder.rmdir()


class Server:
    """A `hadal serve` whose anonymous memory is watched."""

    def __init__(self, model, options):
        self.process = subprocess.Popen([HADAL, "serve", model, "--port", "0", "--served-model-name", "m", *options],
                                        stderr=subprocess.PIPE, text=True)
        self.log, self.peak = "", 0
        threading.Thread(target=self.watch, daemon=True).start()
        port = self.until(r"listening on http://[^:]+:(\d+)").group(1)
        self.url = f"http://127.0.0.1:{port}"
        self.until("is ready")
        self.reader = threading.Thread(target=lambda: [None for _ in self.process.stderr])
        self.reader.start()

    def watch(self):
        while self.process.poll() is None:
            self.peak = max(self.peak, anonymous_bytes(self.process.pid))
            time.sleep(0.005)

    def until(self, pattern):
        for line in self.process.stderr:
            self.log += line
            if found := re.search(pattern, line):
                return found
        raise RuntimeError("the server ended:\n" + self.log)

    def gauges(self, name):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        found = re.findall(rf'^{name}{{category="(\w+)"}} (\S+)$', text, re.M)
        return {category: int(float(value)) for category, value in found}

    def complete(self, prompt):
        # With top-p, as samplers sort their candidates in memory that the plan counts.
        body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": 2, "ignore_eos": True, "temperature": 1,
                           "top_p": 0.9, "seed": 1}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.reader.join()
        self.process.stderr.close()


class Serve(unittest.TestCase):
    N = 8  # sequences

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def make(self, shape, *few):
        if "HADAL_MEMORY_SHAPE" in os.environ:
            shape, few = SHAPE, ()
        model = pathlib.Path(self.folder.name) / f"{shape}.gguf"
        if not model.exists():
            subprocess.run([MAKE_MODEL, shape, model, "--type", TYPE, *few], check=True, stdout=subprocess.DEVNULL)
        return str(model)

    def small_gqa(self):
        return self.make("smollm2-135m", "--layers", "6")

    def fill(self, server, tokens, seed):
        """Texts that have nothing in common, a quarter more tokens than the pool holds."""
        draw = random.Random(seed)
        length = tokens // self.N - 8
        prompts = [[draw.randrange(300) for _ in range(length)] for _ in range(self.N * 5 // 4)]
        with concurrent.futures.ThreadPoolExecutor(self.N) as pool:
            for answer in pool.map(server.complete, prompts):
                self.assertEqual(answer["usage"]["completion_tokens"], 2)

    def check(self, model, dtype):
        options = ["--kv-dtype", dtype, "--kv-memory", "8m", "--max-num-seqs", str(self.N), "-t", "2",
                   "--max-num-batched-tokens", "256", "--swap-space", "8m"]
        done = subprocess.run([HADAL, "plan", model, *options, "--json"], capture_output=True, check=True)
        plan = json.loads(done.stdout)
        tokens = plan["kv"]["groups"][0]["pages"] * plan["kv"]["block_size"]
        total = plan["total_bytes"]
        # These texts never repeat themselves: rows of logits for drafts are reserved, not touched.
        done = subprocess.run([HADAL, "plan", model, *options, "--speculate", "off", "--json"], capture_output=True,
                              check=True)
        touched = json.loads(done.stdout)["total_bytes"]
        slack = max(4 * MIB, total // 50)
        with Server(model, options) as server:
            self.assertEqual(server.gauges("hadal_memory_planned_bytes"), plan["bytes"])
            reserved = server.gauges("hadal_memory_reserved_bytes")
            for category, planned in plan["bytes"].items():
                allowed = slack if category in ("workspace", "overhead") else 0
                self.assertLessEqual(abs(reserved[category] - planned), allowed, (category, reserved, plan["bytes"]))
            self.fill(server, tokens, 1)
            full = anonymous_bytes(server.process.pid)
            self.fill(server, tokens, 2)
            again = anonymous_bytes(server.process.pid)
            used = server.gauges("hadal_memory_used_bytes")
        self.assertEqual(used["kv"], 0, "sequences that ended hold no pages")
        facts = f"{dtype}: planned {total}, peak {server.peak}, {plan['bytes']}, ready {reserved['overhead']}"
        print(facts, file=sys.stderr)
        self.assertLessEqual(server.peak, 1.03 * total, facts)
        self.assertGreaterEqual(server.peak, 0.95 * touched, facts)
        self.assertLessEqual(again - full, slack // 2, "memory grows while serving")

    def test_gqa_bf16(self):
        self.check(self.small_gqa(), "bf16")

    def test_gqa_int8(self):
        self.check(self.small_gqa(), "int8")

    def test_mla_fp8(self):
        self.check(self.make("deepseek-v2-lite", "--layers", "4", "--experts", "8", "--vocab", "16384",
                             "--intermediate", "2048", "--moe-intermediate", "256"), "fp8")

    @unittest.skipIf("HADAL_MEMORY_SHAPE" in os.environ, "its numbers are a small model's")
    def test_what_does_not_fit_is_refused_before_loading(self):
        done = subprocess.run([HADAL, "serve", self.small_gqa(), "--port", "0", "--memory", "90m",
                               "--max-model-len", "8192"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not enough memory for a context of 8192 tokens", done.stderr)
        self.assertIn("it would fit with --max-model-len", done.stderr)
        everything = 1 << 50
        done = subprocess.run([HADAL, "serve", self.small_gqa(), "--port", "0", "--memory", str(everything)],
                              capture_output=True, text=True, timeout=60)
        self.assertIn("is more than", done.stderr)
        self.assertEqual(done.returncode, 1)

    @unittest.skipIf("HADAL_MEMORY_SHAPE" in os.environ, "its numbers are a small model's")
    def test_a_control_group_bounds_the_plan(self):
        group = make_control_group()
        if group is None:
            self.skipTest("control groups are not writable here")
        folder, limit = group
        try:
            (folder / limit).write_text(str(256 * MIB))
            done = subprocess.run([HADAL, "plan", self.small_gqa(), "--json"], capture_output=True,
                                  preexec_fn=lambda: (folder / "cgroup.procs").write_text("0"))
            plan = json.loads(done.stdout)
            self.assertIn("control group", plan["budget"])
            self.assertLessEqual(plan["budget_bytes"], 0.9 * 256 * MIB)
            self.assertLessEqual(plan["total_bytes"], plan["budget_bytes"])
            # The pool takes all that is left.
            self.assertGreater(plan["total_bytes"], 0.97 * plan["budget_bytes"])
        finally:
            folder.rmdir()


if __name__ == "__main__":
    MAKE_MODEL = str(pathlib.Path(sys.argv.pop(2)).resolve())
    HADAL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    with Cache():
        unittest.main(verbosity=2)
