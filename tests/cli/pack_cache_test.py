#!/usr/bin/env python3
"""Packed weights that are kept from one start to the next, as a user meets them: what the second start says and
answers, damage, crashes, several processes at once, and places where nothing can be kept.

    pack_cache_test.py PATH/TO/hadal PATH/TO/make_model
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HADAL = MAKE_MODEL = ""


class PackCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = tempfile.TemporaryDirectory()
        cls.model = str(pathlib.Path(cls.models.name) / "model.gguf")
        subprocess.run([MAKE_MODEL, "smollm2-135m", cls.model, "--type", "q4_0"], check=True,
                       stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        cls.models.cleanup()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name)
        self.packed = self.cache / "hadal/packed"

    def environment(self, **changes):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache), **changes}
        return {name: value for name, value in environment.items() if value is not None}

    def start(self, *options, environment=None):
        command = [HADAL, "generate", self.model, "--raw", "-p", "Hello", "-n", "3", "--ctx", "64", "--ignore-eos",
                   *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment or self.environment())

    def generate(self, *options, environment=None):
        """(standard output, standard error) of a run that succeeds."""
        process = self.start(*options, environment=environment)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        return out, err

    def stats(self, *options, environment=None):
        return self.generate("--stats", *options, environment=environment)[1]

    def files(self):
        return sorted(path.name for path in self.packed.iterdir()) if self.packed.exists() else []

    def file(self):
        names = self.files()
        self.assertEqual(len(names), 1, names)
        return self.packed / names[0]

    def test_the_second_start_reads_and_answers_the_same(self):
        first = json.loads(self.generate("--json")[0])
        second = json.loads(self.generate("--json")[0])
        without = json.loads(self.generate("--json", "--no-pack-cache")[0])
        self.assertEqual([r["figures"]["load_from_cache"] for r in (first, second, without)], [False, True, False])
        self.assertEqual(first["ids"], second["ids"])
        self.assertEqual(first["ids"], without["ids"])
        self.assertRegex(self.file().name, r"^model-[0-9a-f]{16}\.packed$")
        self.assertIn(f"weights read from {self.file()} in ", self.stats())
        inspected = subprocess.run([HADAL, "inspect", self.model], capture_output=True, text=True, check=True,
                                   env=self.environment()).stdout
        self.assertIn(f"packed copy    {self.file()}\n", inspected)

    def test_logits_are_the_same_bytes(self):
        for weights in ("as-stored", "q8"):
            found = []
            for name in ("packed", "read"):
                out = self.cache / name
                subprocess.run([HADAL, "logits", self.model, "--ids", "1 2 3 4 5 6 7", "--out", str(out),
                                "--weights", weights], check=True, env=self.environment(), stdout=subprocess.DEVNULL)
                found.append(out.read_bytes())
            self.assertEqual(found[0], found[1])
        self.assertEqual(len(self.files()), 2)

    def test_without_a_cache_nothing_is_left(self):
        self.assertNotIn("kept", self.stats("--no-pack-cache"))
        self.assertIn("more than --pack-cache-size", self.stats("--pack-cache-size", "50m"))
        self.assertNotIn("kept", self.stats("--pack-cache-size", "0"))
        self.assertNotIn("kept", self.stats(environment=self.environment(XDG_CACHE_HOME=None, HOME=None)))
        self.assertEqual(self.files(), [])

    def test_home_is_the_second_choice(self):
        for relative in (None, "relative/folder"):
            environment = self.environment(XDG_CACHE_HOME=relative, HOME=str(self.cache / "home"))
            self.assertIn(str(self.cache / "home/.cache/hadal/packed"), self.stats(environment=environment))

    def test_damage_is_one_warning(self):
        whole, _ = self.generate()
        path = self.file()
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        out, err = self.generate()
        self.assertEqual(out, whole)
        self.assertEqual(len(re.findall(re.escape(str(path)), err)), 1, err)
        self.assertIn("is damaged; ignored, the weights are packed anew", err)
        out, err = self.generate()
        self.assertEqual(out, whole)
        self.assertNotIn("damaged", err)
        os.truncate(path, 1000)
        self.assertIn("ignored", self.generate()[1])
        self.assertIn("weights read", self.stats())

    def test_processes_that_start_at_once(self):
        processes = [self.start("--stats") for _ in range(4)]
        results = [process.communicate(timeout=300) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * 4, results)
        self.assertEqual(len({out for out, _ in results}), 1)
        for _, err in results:
            self.assertRegex(err, r"kept in |another process|weights read from ")
        self.file()
        self.assertIn("weights read", self.stats())

    def test_a_killed_start_is_cleared_away(self):
        whole, _ = self.generate("--no-pack-cache")
        process = self.start()
        deadline = time.monotonic() + 60
        while not any(name.endswith(".tmp") for name in self.files()) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left = self.files()
        out, _ = self.generate()
        self.assertEqual(out, whole)
        self.assertFalse(self.file().name.endswith(".tmp"), left)
        self.assertIn("weights read", self.stats())

    def test_a_place_that_cannot_be_written_is_told_with_the_figures_only(self):
        for place in ("/proc/hadal", "/dev/null/x"):
            environment = self.environment(XDG_CACHE_HOME=place)
            self.assertIn("not kept: ", self.stats(environment=environment))
            self.assertEqual(self.generate(environment=environment)[1], "(stopped after 3 tokens, -n)\n")

    def test_a_disk_that_would_be_full_is_left_alone(self):
        script = 'mount -t tmpfs -o size=70m none "$0" && exec "$@"'
        command = [HADAL, "generate", self.model, "--raw", "-p", "Hello", "-n", "1", "--stats"]
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, str(self.cache), *command], capture_output=True,
                              text=True, env=self.environment())
        if "mount" in done.stderr or "unshare" in done.stderr:
            self.skipTest("file systems cannot be mounted here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"not kept: .* has only \d+ MiB free")

    def test_the_server_says_where_its_weights_came_from(self):
        for expected in ("weights packed in ", "weights read from "):
            server = subprocess.Popen([HADAL, "serve", self.model, "--port", "0", "--kv-memory", "64m"],
                                      stderr=subprocess.PIPE, text=True, env=self.environment())
            log = ""
            for line in server.stderr:
                log += line
                if "is ready" in line:
                    break
            server.terminate()
            server.communicate(timeout=60)
            self.assertIn(expected, log)


if __name__ == "__main__":
    MAKE_MODEL = str(pathlib.Path(sys.argv.pop(2)).resolve())
    HADAL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
