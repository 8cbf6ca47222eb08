#!/usr/bin/env python3
"""Plays the transcripts beside it against a server of its own.

    transcripts.py PATH/TO/hadal [FILE.test ...]

A transcript is a list of exchanges, each ended by a line of '=':

    # a comment
    POST /v1/chat/completions
    X-Header: value

    {"the": "body"}
    ---
    200
    X-Header: what the reply must have

    {"part": "of the reply"}

The reply may have more members than the transcript names; lists must agree in length. Strings that
are "<any>", "<string>", "<int>", "<number>" or "<re:...>" stand for what they say. A stream is
compared as a list of its events; "<more>" in a list stands for any number of entries. A first line
"@option --flag value" gives the server that option.
"""
import http.client
import json
import pathlib
import re
import sys

from live_server import LiveServer

HERE = pathlib.Path(__file__).resolve().parent


def split_head(text):
    head, _, body = text.partition("\n\n")
    first, *headers = head.strip("\n").split("\n")
    return first, [tuple(part.strip() for part in line.split(":", 1)) for line in headers], body.strip()


def exchanges(text):
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    for block in re.split(r"^=+\s*$", text, flags=re.M):
        if block.strip():
            request, _, reply = block.partition("\n---\n")
            yield split_head(request.strip()), split_head(reply.strip())


def matches(expected, got):
    """None, or where they differ."""
    if isinstance(expected, str) and expected.startswith("<") and expected.endswith(">"):
        kind = expected[1:-1]
        good = {"any": True, "string": isinstance(got, str), "int": type(got) is int,
                "number": type(got) in (int, float)}.get(kind)
        if good is None and kind.startswith("re:"):
            good = isinstance(got, str) and re.search(kind[3:], got, re.S) is not None
        if good is not None:
            return None if good else f": {str(got):.300} is not {expected}"
    if isinstance(expected, dict) and isinstance(got, dict):
        for key, value in expected.items():
            if key not in got:
                return f".{key}: missing in {str(got):.300}"
            if (difference := matches(value, got[key])) is not None:
                return f".{key}{difference}"
        return None
    if isinstance(expected, list) and isinstance(got, list):
        return match_lists(expected, got)
    return None if expected == got and type(expected) is type(got) else f": {str(got):.300} is not {expected!r}"


def match_lists(expected, got):
    if "<more>" in expected:
        cut = expected.index("<more>")
        tail = expected[cut + 1:]
        if len(got) < len(expected) - 1:
            return f": only {len(got)} entries: {str(got):.300}"
        return match_lists(expected[:cut], got[:cut]) or match_lists(tail, got[len(got) - len(tail):])
    if len(expected) != len(got):
        return f": {len(got)} entries instead of {len(expected)}: {str(got):.300}"
    for i, (a, b) in enumerate(zip(expected, got)):
        if (difference := matches(a, b)) is not None:
            return f"[{i}]{difference}"
    return None


def events_of(body):
    events = []
    for block in body.split("\n\n"):
        if block.startswith("data: "):
            data = block[len("data: "):]
            events.append(data if data == "[DONE]" else json.loads(data))
    return events


def play(port, exchange):
    (request_line, request_headers, body), (status, headers, wanted) = exchange
    method, path = request_line.split(" ", 1)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    sent = dict(request_headers)
    if body:
        sent.setdefault("Content-Type", "application/json")
    connection.request(method, path, body.encode() or None, sent)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    if reply.status != int(status):
        return f"status {reply.status} instead of {status}: {text[:500]}"
    for name, value in headers:
        got = reply.getheader(name)
        if (difference := matches(value, got)) is not None:
            return f"header {name}{difference}"
    if not wanted:
        return None
    if not wanted.startswith(("{", "[")):
        return matches(wanted, text.strip())
    streamed = (reply.getheader("Content-Type") or "").startswith("text/event-stream")
    return matches(json.loads(wanted), events_of(text) if streamed else json.loads(text))


def main():
    hadal, *files = sys.argv[1:]
    failures = count = 0
    for path in map(pathlib.Path, files or sorted(HERE.glob("*.test"))):
        text = path.read_text()
        options = []
        while found := re.match(r"@option (.*)\n", text):
            options += found.group(1).split(" ")
            text = text[found.end():]
        with LiveServer(hadal, *options) as server:
            for exchange in exchanges(text):
                count += 1
                if problem := play(server.port, exchange):
                    failures += 1
                    print(f"{path.name}: {exchange[0][0]} {exchange[0][2][:200]}\n  reply{problem}"
                          if problem[0] in ".[:" else f"{path.name}: {exchange[0][0]}\n  {problem}")
    print(f"{count} exchanges, {failures} failed")
    return failures > 0 or count == 0


if __name__ == "__main__":
    sys.exit(main())
