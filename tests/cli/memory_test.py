#!/usr/bin/env python3
"""What loading costs: peak anonymous memory, and loading in a control group smaller than file plus packed
weights together.

    memory_test.py PATH/TO/hadal PATH/TO/make_model
HADAL_MEMORY_SHAPE (default smollm2-135m) names the shape; `make soak` takes a 9 GB one.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HADAL = MAKE_MODEL = ""
SHAPE = os.environ.get("HADAL_MEMORY_SHAPE", "smollm2-135m")
TYPE = os.environ.get("HADAL_MEMORY_TYPE", "q8_0")


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

    def test_peak_is_packed_weights_and_a_tenth(self):
        process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous_bytes(process.pid))
            time.sleep(0.002)
        self.assertEqual(process.returncode, 0)
        packed = self.facts["packed_bytes"]
        # Small models: the fixed costs of a process and of the tokenizer do not shrink with them.
        self.assertLess(peak, 1.1 * packed + (64 << 20), f"packed {packed}, peak {peak}")
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

            done = subprocess.run(self.command(), preexec_fn=enter, capture_output=True)
            self.assertNotEqual(done.returncode, -signal.SIGKILL, "killed for memory")
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        finally:
            folder.rmdir()


if __name__ == "__main__":
    MAKE_MODEL = str(pathlib.Path(sys.argv.pop(2)).resolve())
    HADAL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
