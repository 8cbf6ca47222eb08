#!/usr/bin/env python3
"""Makes tests/data/generated: tiny random models of the kinds for which no other golden exists.

    python3 -m venv VENV && VENV/bin/pip install -r requirements.txt && VENV/bin/python models.py

Expected values come from reference.py (numpy, float64). Where the transformers library knows the
architecture it reads the same files and must agree; golden.json says by how much. Block types of GGUF
are packed and unpacked by the gguf package. int4.py makes the int4 folders, converted.py more GGUF
files: folders are made anew here, so it must put its files back afterwards. The format of golden.json is
that of tests/data/models.
"""
import json
import pathlib
import shutil
import sys

import gguf
import numpy as np
from safetensors.numpy import save_file

from reference import Model

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "data" / "models"
OUT = ROOT / "tests" / "data" / "generated"
VOCAB = 300
LONG_ROWS = [0, 15, 16, 63, 64, 150, 199]
MIN_MARGIN = 0.05
MIN_GAP = 1e-4
TOKENIZER = ["tokenizer.json", "tokenizer_config.json"]


def base_config(model_type, architecture, **more):
    config = {
        "architectures": [architecture], "model_type": model_type, "attention_dropout": 0.0,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "max_position_embeddings": 512, "tie_word_embeddings": False, "vocab_size": VOCAB,
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 297,
        "eos_token_id": 298, "torch_dtype": "float32",
    }
    config.update(more)
    return config


def bf16(x):
    """Rounded to bfloat16, so that every format can hold it exactly."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


class Weights(dict):
    """Random weights under published names, scaled so that logits spread and attention is sharp."""

    def __init__(self, config, seed):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.c = config
        hidden = config["hidden_size"]
        self.matrix("model.embed_tokens", VOCAB, hidden, np.sqrt(hidden))
        self.matrix("lm_head", VOCAB, hidden, 2.5)
        self.norm("model.norm", hidden)
        for i in range(config["num_hidden_layers"]):
            self.layer(f"model.layers.{i}.")

    def matrix(self, name, out, inner, gain=1.0):
        self[name + ".weight"] = bf16(self.rng.normal(0, gain / np.sqrt(inner), (out, inner)))

    def norm(self, name, size):
        self[name + ".weight"] = bf16(self.rng.normal(1, 0.2, size))

    def mlp(self, p, width):
        hidden = self.c["hidden_size"]
        self.matrix(p + "gate_proj", width, hidden, 1.5)
        self.matrix(p + "up_proj", width, hidden, 1.5)
        self.matrix(p + "down_proj", hidden, width, 1.5)

    def layer(self, p):
        c = self.c
        hidden, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        dim = c.get("head_dim") or hidden // heads
        self.norm(p + "input_layernorm", hidden)
        self.norm(p + "post_attention_layernorm", hidden)
        for name, rows, gain in (("q", heads * dim, 2), ("k", kv * dim, 2), ("v", kv * dim, 1)):
            self.matrix(f"{p}self_attn.{name}_proj", rows, hidden, gain)
            if c["model_type"] == "qwen2_moe":
                self[f"{p}self_attn.{name}_proj.bias"] = bf16(self.rng.normal(0, 0.5, rows))
        self.matrix(p + "self_attn.o_proj", hidden, heads * dim)
        if c["model_type"] == "qwen3_moe":
            self.norm(p + "self_attn.q_norm", dim)
            self.norm(p + "self_attn.k_norm", dim)
        experts = c.get("num_experts") or c.get("n_routed_experts")
        index = int(p.split(".")[2])
        dense = index < c.get("first_k_dense_replace", 0) or index in c.get("mlp_only_layers", [])
        if not experts or dense:
            self.mlp(p + "mlp.", c["intermediate_size"])
            return
        self.matrix(p + "mlp.gate", experts, hidden, 2)
        for e in range(experts):
            self.mlp(f"{p}mlp.experts.{e}.", c["moe_intermediate_size"])
        if c.get("n_shared_experts"):
            self.mlp(p + "mlp.shared_experts.", c["n_shared_experts"] * c["moe_intermediate_size"])
        if c.get("shared_expert_intermediate_size"):
            self.mlp(p + "mlp.shared_expert.", c["shared_expert_intermediate_size"])
            self.matrix(p + "mlp.shared_expert_gate", 1, hidden, 2)


def greedy(model, prompt, n):
    ids, margins = list(prompt), []
    for _ in range(n):
        logits = model.forward(ids)[0][-1]
        best = np.sort(logits)[-2:]
        margins.append(best[1] - best[0])
        ids.append(int(logits.argmax()))
    return ids[len(prompt):], min(margins)


def choose_prompt(model, length, rng):
    """A random prompt whose 16 greedy tokens and expert choices no rounding can change."""
    for _ in range(100):
        model.min_gap = np.inf
        prompt = rng.integers(0, 256, length).tolist()
        ids, margin = greedy(model, prompt, 16)
        if margin >= MIN_MARGIN and model.min_gap >= MIN_GAP:
            return prompt, ids, margin
    raise SystemExit("no prompt with a safe margin found; change the seed")


def crosscheck(folder, golden, model):
    """Relative L2 of transformers' logits (float32) to the reference's, short and long."""
    import torch
    import transformers
    peer, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    errors = []
    for ids in (golden["prompt_ids"], golden["long"]["prompt_ids"]):
        with torch.no_grad():
            got = peer(torch.tensor([ids])).logits[0].double().numpy()
        want = model.forward(ids)[0]
        errors.append(float(np.linalg.norm(got - want) / np.linalg.norm(want)))
    assert max(errors) < 1e-4, (folder, errors)
    return [float(f"{e:.2g}") for e in errors]


def write_golden(folder, config, weights, seed, note, check):
    """`weights`: dequantized, for the reference."""
    model = Model(config, {k: np.asarray(v, np.float64) for k, v in weights.items()})
    rng = np.random.default_rng(seed + 1000)
    prompt, ids, margin = choose_prompt(model, 24, rng)
    gap = model.min_gap
    logits, hidden = model.forward(prompt)
    router = model.router
    long_prompt, long_ids, long_margin = choose_prompt(model, 200, rng)
    long_logits = model.forward(long_prompt)[0]
    f32 = lambda x: np.asarray(x, "<f4")
    f32(logits).tofile(folder / "golden_logits.f32")
    f32(long_logits[LONG_ROWS]).tofile(folder / "golden_long_rows.f32")
    f32(hidden).tofile(folder / "golden_hidden.f32")
    golden = {
        "prompt_ids": prompt, "logits_all_shape": list(logits.shape),
        "logits_all_file": "golden_logits.f32", "greedy_ids": ids,
        "greedy_min_margin": round(float(margin), 4),
        "long": {"prompt_ids": long_prompt, "rows": LONG_ROWS,
                 "rows_shape": [len(LONG_ROWS), VOCAB], "rows_file": "golden_long_rows.f32",
                 "greedy_ids": long_ids, "greedy_min_margin": round(float(long_margin), 4)},
        "hidden_shape": list(hidden.shape), "hidden_file": "golden_hidden.f32",
        "reference": "tools/make_goldens/reference.py, numpy float64", "notes": note,
    }
    if router:
        golden["router"] = {"first_moe_layer": config["num_hidden_layers"] - len(router),
                            "experts_last_token": [e for e, _ in router],
                            "weights_last_token": [w for _, w in router]}
        golden["min_router_gap"] = float(min(gap, model.min_gap))
    if check is not None:
        golden["crosscheck"] = {"transformers, float32": {"rel_l2": crosscheck(check, golden, model)}}
    (folder / "golden.json").write_text(json.dumps(golden) + "\n")


def new_folder(name):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def write_hf(folder, config, tensors):
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    for name in TOKENIZER:  # one toy tokenizer serves all; it has 300 tokens
        shutil.copyfile(MODELS / "qwen3" / name, folder / name)
        (folder / name).chmod(0o644)


def to_f16(weights):
    """The same values at half the size: weights are chosen to be exact in f16."""
    half = {k: v.astype(np.float16) for k, v in weights.items()}
    for k, v in half.items():
        weights[k] = v.astype(np.float32)
    return half


def plain(name, config, seed, note, peer=True):
    folder = new_folder(name)
    weights = Weights(config, seed)
    write_hf(folder, config, to_f16(weights))
    write_golden(folder, config, weights, seed, note, folder if peer else None)


def qwen_moe():
    plain("qwen2_moe", base_config(
        "qwen2_moe", "Qwen2MoeForCausalLM", hidden_size=32, intermediate_size=48, num_experts=8,
        num_experts_per_tok=3, moe_intermediate_size=12, shared_expert_intermediate_size=20,
        norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[], use_sliding_window=False,
        sliding_window=None, max_window_layers=28), 1,
        "softmax routing, weights not normalised, one shared expert behind a gate, q k v biases")
    plain("qwen3_moe", base_config(
        "qwen3_moe", "Qwen3MoeForCausalLM", hidden_size=32, intermediate_size=48, head_dim=16,
        num_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[0], num_hidden_layers=3, attention_bias=False,
        use_sliding_window=False, sliding_window=None, max_window_layers=28), 2,
        "softmax routing, normalised, norms of q and k, first layer dense")
    plain("qwen3_moe_uniform", base_config(
        "qwen3_moe", "Qwen3MoeForCausalLM", hidden_size=32, intermediate_size=48, head_dim=16,
        num_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[], attention_bias=False,
        use_sliding_window=False, sliding_window=None, max_window_layers=28), 10,
        "qwen3_moe without a dense layer, which GGUF cannot express")


def deepseek_v1():
    plain("deepseek_v1", base_config(
        "deepseek", "DeepseekForCausalLM", hidden_size=32, intermediate_size=48,
        n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, moe_intermediate_size=12,
        first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=False, scoring_func="softmax",
        aux_loss_alpha=0.001, seq_aux=True, attention_bias=False, num_hidden_layers=3,
        num_key_value_heads=4), 3,
        "no library here has this architecture; the reference's parts are those that the other "
        "models check against transformers", peer=False)


def longrope():
    rng = np.random.default_rng(40)
    factors = lambda top: sorted(round(float(x), 3) for x in rng.uniform(1, top, 8))
    plain("llama_longrope", base_config(
        "llama", "LlamaForCausalLM", attention_bias=False, mlp_bias=False, hidden_size=32,
        intermediate_size=48, head_dim=16, rope_scaling={
            "rope_type": "longrope", "short_factor": factors(1.5), "long_factor": factors(6),
            "original_max_position_embeddings": 64}), 4,
        "LongRoPE: the short prompt and its continuation stay within 64 tokens, the long prompt "
        "does not", peer=True)


# --- GGUF ---

GGUF_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    stem = name.removesuffix(".weight")
    fixed = {"model.embed_tokens": "token_embd", "lm_head": "output", "model.norm": "output_norm"}
    if stem in fixed:
        return fixed[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}.weight"


def reorder_rope(weight, heads):
    """The rows that architecture llama reorders: half-split pairs become neighbours."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def undo_reorder(weight, heads):
    rows, cols = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def copy_tokenizer(writer, source):
    """The vocabulary of another GGUF file."""
    for key, field in gguf.GGUFReader(source).fields.items():
        if not key.startswith("tokenizer."):
            continue
        kind, value = field.types[0], field.contents()
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, kind)


# Offsets of the f16 scales within a block, for the types that the package can only unpack.
SCALES_AT = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
             "IQ4_XS": (0,)}


def random_blocks(kind, rng, rows, cols, std):
    """Random valid blocks whose values have about the given spread."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = rng.integers(0, 256, (rows, cols // block, size), dtype=np.uint8)

    def scaled(d):
        for at in SCALES_AT[kind.name]:
            data[:, :, at : at + 2] = np.frombuffer(np.float16(d).tobytes(), np.uint8)
        return data.reshape(rows, -1)

    # The spread is linear in d; 2^-9 keeps the trial in range, a power of two the result exact.
    trial = gguf.quants.dequantize(scaled(2.0**-9), kind).std()
    return scaled(2.0 ** np.round(np.log2(2.0**-9 * std / trial))).copy()


def quantized_gguf(name, seed, config, type_of, note):
    """type_of(layer index, gguf name) -> GGMLQuantizationType."""
    folder = new_folder(name)
    weights = Weights(config, seed)
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
    writer.add_name(name)
    writer.add_vocab_size(VOCAB)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    copy_tokenizer(writer, MODELS / "qwen3" / "model.gguf")
    exact = {}
    for key, value in weights.items():
        target = gguf_name(key)
        heads = {"attn_q": config["num_attention_heads"],
                 "attn_k": config["num_key_value_heads"]}.get(target.split(".")[-2])
        kind = gguf.GGMLQuantizationType.F32 if value.ndim == 1 else type_of(target)
        if kind.name in SCALES_AT:
            data = random_blocks(kind, rng, *value.shape, value.std())
        else:
            data = gguf.quants.quantize(reorder_rope(value, heads) if heads else value, kind)
        writer.add_tensor(target, data, raw_dtype=kind)
        values = gguf.quants.dequantize(data, kind)
        exact[key] = undo_reorder(values, heads) if heads else values
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    peer = folder / "dequantized"
    peer.mkdir()
    write_hf(peer, config, {k: np.asarray(v, np.float32) for k, v in exact.items()})
    write_golden(folder, config, exact, seed, note, peer)
    shutil.rmtree(peer)


def gguf_models():
    kinds = gguf.GGMLQuantizationType
    llama = lambda **more: base_config("llama", "LlamaForCausalLM", attention_bias=False,
                                       mlp_bias=False, head_dim=16, **more)
    simple = {"attn_q": kinds.Q8_0, "attn_k": kinds.Q4_0, "attn_v": kinds.Q4_1,
              "attn_output": kinds.Q5_0, "ffn_gate": kinds.Q5_1, "ffn_up": kinds.Q8_0,
              "ffn_down": kinds.Q4_0, "token_embd": kinds.Q8_0, "output": kinds.F16}
    quantized_gguf("gguf_blocks_of_32", 8, llama(), lambda name: simple[name.split(".")[-2]],
                   "one block type of 32 per kind of matrix")
    large = [{"attn_q": kinds.Q4_K, "attn_k": kinds.Q6_K, "attn_v": kinds.Q3_K,
              "ffn_gate": kinds.Q2_K, "ffn_up": kinds.Q5_K},
             {"attn_q": kinds.Q5_K, "attn_k": kinds.Q4_K, "attn_v": kinds.Q6_K,
              "ffn_gate": kinds.IQ4_XS, "ffn_up": kinds.Q3_K}]

    def type_of(name):
        parts = name.split(".")
        fallback = kinds.Q4_0 if parts[0] != "blk" else kinds.Q8_0
        return large[int(parts[1])].get(parts[2], fallback) if parts[0] == "blk" else fallback

    quantized_gguf("gguf_blocks_of_256", 9, llama(hidden_size=256, intermediate_size=32), type_of,
                   "one block type of 256 per kind of matrix, random blocks")


def main():
    makers = [qwen_moe, deepseek_v1, longrope, gguf_models]
    wanted = sys.argv[1:]
    for maker in makers:
        if not wanted or maker.__name__ in wanted:
            maker()
            print(maker.__name__, "done", flush=True)


if __name__ == "__main__":
    main()
