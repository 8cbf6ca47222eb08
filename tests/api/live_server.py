"""A `hadal serve` to be ill-treated: started, watched, killed; its log kept."""
import http.client
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess
import threading
import time

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/reef"


def raise_descriptor_limit():
    """As many sockets as the system lets us have; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class LiveServer:
    """Ready to answer once made. `descriptors` is its own limit of open files."""

    def __init__(self, hadal, *options, model=MODEL, port=0, descriptors=None):
        limit = None
        if descriptors:
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.process = subprocess.Popen([hadal, "serve", str(model), "--port", str(port), *map(str, options)],
                                        stderr=subprocess.PIPE, text=True, preexec_fn=limit)
        self.log, self.news = [], threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.port = int(self.until(r"listening on http://[^:]+:(\d+)").group(1))
        self.until(r"is ready")

    def _read(self):
        for line in self.process.stderr:
            with self.news:
                self.log.append(line)
                self.news.notify_all()
        with self.news:
            self.log.append("")  # the end
            self.news.notify_all()

    def until(self, pattern):
        seen = 0
        while True:
            with self.news:
                self.news.wait_for(lambda: len(self.log) > seen)
                lines, seen = self.log[seen:], len(self.log)
            for line in lines:
                if found := re.search(pattern, line):
                    return found
                if not line:
                    raise RuntimeError("the server ended:\n" + "".join(self.log))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=120)
        self.reader.join()
        self.process.stderr.close()
        return self.process.returncode

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)
        self.reader.join()
        self.process.stderr.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, timeout=60):
        """(status, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {} if body is None else {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """{'hadal_name{labels}': value}"""
        _, text = self.ask("GET", "/metrics")
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
        return {name: float(value) for name, value in lines}

    def busy(self):
        """What is left of requests: nothing when all have ended. Finished pages may stay cached."""
        metrics = self.metrics()
        left = {name: metrics[name] for name in ("hadal_requests_running", "hadal_requests_waiting",
                                                 "hadal_requests_swapped", "hadal_kv_usage_ratio")}
        left["pages held"] = metrics["hadal_kv_pages"] - metrics["hadal_kv_free_pages"]
        return {name: value for name, value in left.items() if value}

    def wait_for(self, condition, seconds=30):
        """Seconds until condition(metrics) held; None when it did not."""
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            if condition(self.metrics()):
                return time.monotonic() - start
            time.sleep(0.01)
        return None

    def wait_until_idle(self, seconds=30):
        """Seconds until no request held anything. Raises when some still do."""
        start = time.monotonic()
        while left := self.busy():
            if time.monotonic() > start + seconds:
                raise AssertionError(f"still held after {seconds} s: {left}")
            time.sleep(0.01)
        return time.monotonic() - start

    def resident_mb(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def socket(self, receive_buffer=None):
        connection = socket.socket()
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(60)
        connection.connect(("127.0.0.1", self.port))
        return connection


def completion(prompt="The boat", max_tokens=16, **more):
    """The bytes of a streaming request that goes on to max_tokens."""
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0,
                       "stream": True, **more}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def load(hadal, url, folder, *options, check=True):
    """Runs `hadal bench serve`; its result file."""
    path = pathlib.Path(folder) / "load.json"
    done = subprocess.run([hadal, "bench", "serve", url, "--json", str(path), *map(str, options)],
                          capture_output=True, text=True, timeout=1200)
    if check and done.returncode != 0:
        raise AssertionError(f"bench serve: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return json.loads(path.read_text())
