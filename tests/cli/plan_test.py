#!/usr/bin/env python3
"""`hadal plan` against sums that are worked out here, from published dimensions and the layout of panels.

    plan_test.py PATH/TO/hadal PATH/TO/make_model
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HADAL = MAKE_MODEL = ""
MODELS = pathlib.Path(__file__).resolve().parent.parent / "data" / "models"

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Bytes of a chunk of 64 columns of 16 rows: scales and integers (q8_0, q4_0), and of two columns in bf16.
CHUNK = {"q8_0": (64, 1088), "q4_0": (64, 576), "bf16": (2, 64), "f32": (1, 64)}


def panels(rows, cols, kind):
    width, size = CHUNK[kind]
    return -(-rows // 16) * -(-cols // width) * size


class Gqa:
    def __init__(self, hidden, layers, heads, kv_heads, feed, vocab, tied, bias, head_dim=None):
        self.hidden, self.layers, self.vocab = hidden, layers, vocab
        self.heads, self.kv_heads, self.feed, self.tied, self.bias = heads, kv_heads, feed, tied, bias
        self.head_dim = head_dim or hidden // heads

    def weights(self, kind):
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        matrices = [(q, self.hidden), (kv, self.hidden), (kv, self.hidden), (self.hidden, q),
                    (self.feed, self.hidden), (self.feed, self.hidden), (self.hidden, self.feed)]
        vectors = 2 * self.hidden + (q + 2 * kv if self.bias else 0)
        layer = sum(panels(rows, cols, kind) for rows, cols in matrices) + 4 * vectors
        outer = panels(self.vocab, self.hidden, kind) * (1 if self.tied else 2)
        return self.layers * layer + outer + 4 * self.hidden

    def kv_token(self, dtype):
        # Key and value of each head; 8 bits have one scale of four bytes each.
        one = {"bf16": 2 * self.head_dim, "f32": 4 * self.head_dim}.get(dtype, self.head_dim + 4)
        return self.layers * self.kv_heads * 2 * one


class V2Lite:
    """DeepSeek-V2-Lite: 27 layers, the first dense; 64 experts, two shared; MLA with 16 heads."""
    layers, vocab, hidden = 27, 102400, 2048

    def weights(self, kind):
        attention = (panels(16 * 192, 2048, kind) + panels(512 + 64, 2048, kind) + panels(2048, 16 * 128, kind) +
                     # Each head's two halves of kv_b are computed from and kept in bf16.
                     16 * (panels(512, 128, "bf16") + panels(128, 512, "bf16")) + 4 * (2048 + 2048 + 512))

        def mlp(width):
            return 2 * panels(width, 2048, kind) + panels(2048, width, kind)

        moe = 64 * mlp(1408) + mlp(2 * 1408) + panels(64, 2048, "f32")
        return 27 * attention + mlp(10944) + 26 * moe + 2 * panels(102400, 2048, kind) + 4 * 2048

    def kv_token(self, dtype):
        # Latent and rope part have a scale each in 8 bits.
        return 27 * {"bf16": 2 * 576, "f32": 4 * 576}.get(dtype, 576 + 8)


SHAPES = {
    "smollm2-135m": ("q8_0", Gqa(576, 30, 9, 3, 1536, 49152, True, False)),
    "qwen2-1.5b": ("q4_0", Gqa(1536, 28, 12, 2, 8960, 151936, True, True)),
    "qwen2.5-3b": ("q8_0", Gqa(2048, 36, 16, 2, 11008, 151936, True, True)),
    "r1-distill-qwen-7b": ("q4_0", Gqa(3584, 28, 28, 4, 18944, 152064, False, True)),
    "deepseek-v2-lite": ("q4_0", V2Lite()),
}


def run(*arguments):
    done = subprocess.run([HADAL, "plan", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class PlanTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.owned = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.owned.name)

    @classmethod
    def tearDownClass(cls):
        cls.owned.cleanup()

    def plan(self, *arguments, code=0):
        got, out, err = run(*arguments, "--json")
        self.assertEqual(got, code, err)
        return json.loads(out)

    def header(self, shape, kind):
        """A GGUF file whose weights were never fetched."""
        path = self.folder / f"{shape}-{kind}.gguf"
        if not path.exists():
            subprocess.run([MAKE_MODEL, shape, path, "--type", kind, "--header-only"], check=True,
                           stdout=subprocess.DEVNULL)
        return path

    def test_published_shapes_in_three_kv_types(self):
        for name, (kind, shape) in SHAPES.items():
            path = self.header(name, kind)
            self.assertLess(path.stat().st_size, 16 * MIB)
            for dtype in ("bf16", "int8", "f32"):
                plan = self.plan(path, "--kv-dtype", dtype, "--memory", "200g", "--max-num-seqs", "4",
                                 "--max-model-len", "2048", "-t", "2")
                with self.subTest(shape=name, kv=dtype):
                    self.assertEqual(plan["bytes"]["weights"], shape.weights(kind))
                    self.assertEqual(plan["kv"]["bytes_per_token"], shape.kv_token(dtype))
                    # Four whole contexts fit, and more is not reserved.
                    self.assertEqual(plan["bytes"]["kv"], 4 * 2048 * shape.kv_token(dtype))
                    # A row for each sequence, and eight draft tokens of four.
                    self.assertEqual(plan["bytes"]["logits"], (4 + 4 * 8) * shape.vocab * 4)
                    self.assertEqual(plan["total_bytes"], sum(plan["bytes"].values()))
                    self.assertIn("not there: part of the weights", plan["notes"])

    def test_numbers_that_others_published(self):
        lite = self.plan(self.header("deepseek-v2-lite", "q4_0"), "--memory", "64g", "--max-model-len", "32k",
                         "--max-num-seqs", "1")
        self.assertEqual(lite["kv"]["bytes_per_token"], 31104)
        self.assertEqual(lite["bytes"]["kv"], 972 * MIB)
        qwen = self.plan(self.header("r1-distill-qwen-7b", "q4_0"), "--memory", "64g")
        self.assertEqual(qwen["kv"]["bytes_per_token"], 57344)

    def test_a_configuration_alone(self):
        folder = self.folder / "v3"
        folder.mkdir()
        config = {
            "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "attention_bias": False,
            "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3, "hidden_act": "silu",
            "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
            "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
            "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 128,
            "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
            "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "rms_norm_eps": 1e-06, "rope_scaling": {
                "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096, "type": "yarn"},
            "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
            "tie_word_embeddings": False, "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
            "v_head_dim": 128, "vocab_size": 129280}
        (folder / "config.json").write_text(json.dumps(config))
        plan = self.plan(folder, "--memory", "2t", "--max-model-len", "2048", "--max-num-seqs", "1")
        self.assertEqual(plan["kv"]["bytes_per_token"], 70272)
        self.assertEqual(plan["bytes"]["kv"], 137 * MIB + 256 * KIB)
        # 671 billion parameters in two bytes; a little is padding and f32.
        self.assertAlmostEqual(plan["bytes"]["weights"] / (2 * 671.0e9), 1, delta=0.005)
        self.assertTrue(any("config.json alone" in note for note in plan["notes"]), plan["notes"])

    def test_what_is_cut_short_plans_like_the_whole(self):
        whole = self.plan(MODELS / "llama_gqa")
        folder = self.folder / "cut"
        folder.mkdir()
        for file in (MODELS / "llama_gqa").iterdir():
            data = file.read_bytes()
            if file.suffix == ".safetensors":
                data = data[:8 + int.from_bytes(data[:8], "little") + 100]
            (folder / file.name).write_bytes(data)
        cut = self.plan(folder)
        self.assertEqual(cut["bytes"]["weights"], whole["bytes"]["weights"])
        self.assertEqual(cut["kv"]["bytes_per_token"], whole["kv"]["bytes_per_token"])
        self.assertFalse(any("not there" in note for note in whole["notes"]))
        self.assertIn("not there: part of the weights", cut["notes"])
        # Anything but a plan still refuses such a file.
        done = subprocess.run([HADAL, "inspect", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("truncated", done.stderr)

    def test_a_window_takes_no_more_than_it_sees(self):
        plan = self.plan(MODELS / "qwen2_swa_mixed", "--max-num-seqs", "2", "--max-num-batched-tokens", "32")
        windowed = [g for g in plan["kv"]["groups"] if g["window"] > 0]
        full = [g for g in plan["kv"]["groups"] if g["window"] == 0]
        self.assertEqual([g["window"] for g in windowed], [16])
        # 15 earlier tokens and a chunk of 32 touch four pages at most.
        self.assertEqual(windowed[0]["pages"], 2 * 4)
        self.assertEqual(full[0]["pages"], 2 * plan["max_model_len"] // 16)

    def test_refusals_name_what_fits(self):
        path = self.header("qwen2-1.5b", "q4_0")
        options = ("--max-model-len", "32768", "--max-num-seqs", "64", "-t", "2")
        room = self.plan(path, *options, "--memory", "64g")
        need = room["total_bytes"] - room["bytes"]["kv"]
        memory = need + 256 * MIB
        code, _, err = run(path, *options, "--memory", memory)
        self.assertEqual(code, 1)
        for word in ("32768 tokens", "weights", "KV 896.0 MiB", "it would fit with", "--max-model-len"):
            self.assertIn(word, err)
        fits = int(err.split("--max-model-len ")[1].split(",")[0])
        shorter = (path, "--max-num-seqs", "64", "-t", "2", "--memory", memory, "--max-model-len")
        self.assertEqual(run(*shorter, fits)[0], 0)
        self.assertEqual(run(*shorter, fits + 16)[0], 1)
        # Without a wish, the context becomes what fits, and says so.
        free = self.plan(path, "--max-num-seqs", "64", "-t", "2", "--memory", memory)
        self.assertEqual(free["max_model_len"], fits)
        self.assertTrue(any("32768" in note for note in free["notes"]), free["notes"])

    def test_options_that_change_bytes_change_them(self):
        path = self.header("qwen2-1.5b", "q4_0")
        base = ("--memory", "16g", "-t", "2", "--max-model-len", "4096")
        plain = self.plan(path, *base)["bytes"]
        for options, category in ((("--weights", "q8"), "weights"), (("--kv-dtype", "f32"), "kv"),
                                  (("--max-num-seqs", "33"), "logits"),
                                  (("--speculate", "off"), "logits"), (("--draft-max", "9"), "logits"),
                                  (("--max-num-batched-tokens", "1024"), "activations"),
                                  (("--swap-space", "1g"), "swap"), (("--kv-memory", "1g"), "kv")):
            with self.subTest(options=options):
                self.assertNotEqual(self.plan(path, *base, *options)["bytes"][category], plain[category])
        more_threads = self.plan(path, "--memory", "16g", "-t", "3", "--max-model-len", "4096")["bytes"]
        self.assertGreater(more_threads["workspace"], plain["workspace"])

    def test_text(self):
        code, out, _ = run(self.header("smollm2-135m", "q8_0"), "--memory", "2g")
        self.assertEqual(code, 0)
        for word in ("weights", "tokenizer", "together", "bytes per token", "fit at once", "it fits"):
            self.assertIn(word, out)


if __name__ == "__main__":
    MAKE_MODEL = str(pathlib.Path(sys.argv.pop(2)).resolve())
    HADAL = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
