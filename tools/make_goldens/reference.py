"""A decoder in numpy float64, written from the published formulas: the judge of generated goldens.

No KV cache, no batching, no code shared with the engine. Covers Llama-shaped attention (biases, norms
of q and k) and mixtures of experts with softmax routing and shared experts.
"""
import numpy as np


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def inverse_frequencies(config, dim, length):
    """Frequencies and the factor on cos and sin."""
    freq = config["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
    scaling = config.get("rope_scaling")
    if scaling is None:
        return freq, 1.0
    assert scaling["rope_type"] == "longrope"
    original = scaling["original_max_position_embeddings"]
    name = "long_factor" if length > original else "short_factor"
    stretch = config["max_position_embeddings"] / original
    return freq / np.array(scaling[name]), np.sqrt(1 + np.log(stretch) / np.log(original))


class Model:
    """`weights`: published tensor names to float64 arrays, dequantized."""

    def __init__(self, config, weights):
        self.c = config
        self.w = weights
        self.min_gap = np.inf  # between the last expert chosen and the first left out
        self.router = []  # per MoE layer of the last call: (experts, weights) of the last token

    def linear(self, x, name):
        y = x @ self.w[name + ".weight"].T
        return y + self.w[name + ".bias"] if name + ".bias" in self.w else y

    def attention(self, x, p):
        c = self.c
        n = len(x)
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        dim = c.get("head_dim") or c["hidden_size"] // heads
        q = self.linear(x, p + "q_proj").reshape(n, heads, dim)
        k = self.linear(x, p + "k_proj").reshape(n, kv, dim)
        v = self.linear(x, p + "v_proj").reshape(n, kv, dim)
        if p + "q_norm.weight" in self.w:
            q = rms_norm(q, self.w[p + "q_norm.weight"], c["rms_norm_eps"])
            k = rms_norm(k, self.w[p + "k_norm.weight"], c["rms_norm_eps"])
        freq, factor = inverse_frequencies(c, dim, n)
        angle = np.arange(n)[:, None] * freq
        cos, sin = (f(angle)[:, None, :] * factor for f in (np.cos, np.sin))

        def rotate(y):
            a, b = y[..., : dim // 2], y[..., dim // 2 :]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        q, k = rotate(q), rotate(k)
        out = np.empty((n, heads, dim))
        for h in range(heads):
            g = h // (heads // kv)
            scores = q[:, h] @ k[:, g].T / np.sqrt(dim)
            scores[np.triu_indices(n, 1)] = -np.inf
            out[:, h] = softmax(scores) @ v[:, g]
        return self.linear(out.reshape(n, -1), p + "o_proj")

    def mlp(self, x, p):
        hidden = silu(self.linear(x, p + "gate_proj")) * self.linear(x, p + "up_proj")
        return self.linear(hidden, p + "down_proj")

    def experts(self, x, p):
        used = self.c["num_experts_per_tok"]
        scores = softmax(self.linear(x, p + "gate"))
        order = np.argsort(-scores, kind="stable")
        ranked = np.take_along_axis(scores, order, 1)
        self.min_gap = min(self.min_gap, (ranked[:, used - 1] - ranked[:, used]).min())
        weights = ranked[:, :used]
        if self.c["norm_topk_prob"]:
            weights = weights / weights.sum(1, keepdims=True)
        out = np.zeros_like(x)
        for i in range(len(x)):
            for e, w in zip(order[i, :used], weights[i]):
                out[i] += w * self.mlp(x[i : i + 1], f"{p}experts.{e}.")[0]
        self.router.append((order[-1, :used].tolist(), weights[-1].tolist()))
        if p + "shared_experts.up_proj.weight" in self.w:  # DeepSeek: added as it is
            out += self.mlp(x, p + "shared_experts.")
        if p + "shared_expert.up_proj.weight" in self.w:  # Qwen: behind a gate
            gate = 1 / (1 + np.exp(-self.linear(x, p + "shared_expert_gate")))
            out += gate * self.mlp(x, p + "shared_expert.")
        return out

    def forward(self, ids):
        """Logits [len(ids), vocab] and the hidden states [layers + 2, len(ids), hidden]."""
        c = self.c
        self.router = []
        x = self.w["model.embed_tokens.weight"][ids]
        hidden = [x]
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            eps = c["rms_norm_eps"]
            x = x + self.attention(rms_norm(x, self.w[p + "input_layernorm.weight"], eps),
                                   p + "self_attn.")
            y = rms_norm(x, self.w[p + "post_attention_layernorm.weight"], eps)
            moe = p + "mlp.gate.weight" in self.w
            x = x + (self.experts(y, p + "mlp.") if moe else self.mlp(y, p + "mlp."))
            hidden.append(x)
        x = rms_norm(x, self.w["model.norm.weight"], c["rms_norm_eps"])
        hidden.append(x)
        head = "lm_head.weight" if "lm_head.weight" in self.w else "model.embed_tokens.weight"
        return x @ self.w[head].T, np.array(hidden)
