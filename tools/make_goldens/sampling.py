#!/usr/bin/env python3
"""Makes tests/data/sampling/sampling.json: distributions after every sampling step.

    python3 -m venv /tmp/goldens
    /tmp/goldens/bin/pip install numpy scipy
    /tmp/goldens/bin/python tools/make_goldens/sampling.py

Written in the plainest way from the published formulas (nucleus, typical and min-p sampling, the
penalties as vLLM documents them, DRY as first described), with numpy and scipy.
"""

import json
import pathlib

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

VOCAB = 48
OUT = pathlib.Path(__file__).parents[2] / "tests/data/sampling/sampling.json"
DEFAULTS = dict(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0,
                repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0,
                dry_multiplier=0.0, dry_base=1.75, dry_allowed_length=2, dry_range=0,
                dry_breakers=[], logit_bias={}, banned=[])


def f32(value):
    return float(np.float32(value))


def dry_penalties(text, p):
    """For every earlier place where the text's last token stands: how long is the agreement?"""
    if p["dry_range"]:
        text = text[-p["dry_range"]:]
    breakers = set(p["dry_breakers"])
    longest = {}
    if not text or text[-1] in breakers:
        return {}
    last = len(text) - 1
    for end in range(last):
        length = 0
        while end - length >= 0 and text[end - length] == text[last - length] \
                and text[end - length] not in breakers:
            length += 1
        follower = text[end + 1]
        if follower not in breakers:
            longest[follower] = max(longest.get(follower, 0), length)
    return {t: f32(p["dry_multiplier"]) * f32(p["dry_base"]) ** (n - p["dry_allowed_length"])
            for t, n in longest.items() if n >= p["dry_allowed_length"]}


def changed_logits(logits, prompt, generated, p):
    x = logits.astype(np.float64)
    for token, bias in p["logit_bias"].items():
        x[int(token)] += f32(bias)
    x[p["banned"]] = -np.inf
    for token in set(prompt) | set(generated):
        r = f32(p["repetition_penalty"])
        x[token] = x[token] / r if x[token] > 0 else x[token] * r
    for token in set(generated):
        x[token] -= generated.count(token) * f32(p["frequency_penalty"]) + f32(p["presence_penalty"])
    if p["dry_multiplier"]:
        for token, penalty in dry_penalties(prompt + generated, p).items():
            x[token] -= penalty
    return x


def shortest_beginning(probabilities, order, mass):
    total = np.cumsum(probabilities[order])
    return order[:int(np.searchsorted(total, mass, side="left")) + 1]


def distribution(x, p):
    """Probabilities over the vocabulary after temperature and filters."""
    ids = np.arange(VOCAB)
    x = x / f32(p["temperature"])
    keep = np.ones(VOCAB, bool)
    renormalised = lambda: softmax(np.where(keep, x, -np.inf))
    if p["top_k"]:
        keep = np.isin(ids, np.lexsort((ids, -x))[:p["top_k"]])
    if p["typical_p"] < 1:
        q = renormalised()
        with np.errstate(divide="ignore"):
            distance = np.abs(-np.log(q) - entropy(q))
        keep &= np.isin(ids, shortest_beginning(q, np.lexsort((ids, distance)), f32(p["typical_p"])))
    if p["top_p"] < 1:
        q = renormalised()
        keep &= np.isin(ids, shortest_beginning(q, np.lexsort((ids, -q)), f32(p["top_p"])))
    if p["min_p"] > 0:
        q = renormalised()
        keep &= q >= f32(p["min_p"]) * q.max()
    return renormalised()


def main():
    rng = np.random.default_rng(20250115)
    text = [5, 9, 3, 7, 5, 9, 3, 11, 2, 5, 9]
    variants = [
        dict(), dict(temperature=0.6), dict(temperature=1.7), dict(top_k=1), dict(top_k=7),
        dict(top_p=0.5), dict(top_p=0.95, temperature=0.8), dict(min_p=0.1), dict(typical_p=0.3),
        dict(typical_p=0.9), dict(top_k=20, typical_p=0.95, top_p=0.9, min_p=0.02, temperature=0.7),
        dict(repetition_penalty=1.3), dict(repetition_penalty=0.8), dict(presence_penalty=1.5),
        dict(frequency_penalty=0.7), dict(frequency_penalty=-0.5, presence_penalty=-0.25),
        dict(repetition_penalty=1.2, presence_penalty=0.5, frequency_penalty=0.5, top_k=30),
        dict(logit_bias={"0": 5.0, "13": -100.0}), dict(banned=[1, 4, 30], top_p=0.8),
        dict(dry_multiplier=0.8), dict(dry_multiplier=2.5, dry_allowed_length=1, dry_base=1.5),
        dict(dry_multiplier=0.8, dry_breakers=[5]), dict(dry_multiplier=0.8, dry_range=4),
        dict(dry_multiplier=1.0, dry_allowed_length=1, dry_breakers=[3]),
    ]
    cases = []
    for i, variant in enumerate(variants):
        p = {**DEFAULTS, **variant}
        logits = rng.normal(0, 2.5, VOCAB).astype(np.float32)
        split = [6, 11, 0][i % 3]
        x = changed_logits(logits, text[:split], text[split:], p)
        logprobs = log_softmax(logits.astype(np.float64))
        cases.append(dict(
            params={**variant}, logits=[float(v) for v in logits], prompt=text[:split],
            generated=text[split:], greedy=int(np.argmax(x)), probabilities=distribution(x, p).tolist(),
            logprobs=logprobs.tolist()))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
