#!/usr/bin/env python3
"""Makes the int4 folders of tests/data/generated with the tools that publish such checkpoints.

    VENV/bin/pip install -r requirements.txt -r requirements-int4.txt
    VENV/bin/pip install --no-deps autoawq==0.2.9 auto-gptq==0.7.1 gptqmodel==7.7.0
    TORCHDYNAMO_DISABLE=1 GPTQ_TORCH_TRITON_DEQUANT=0 VENV/bin/python int4.py [FOLDER...]

AutoAWQ packs and unpacks AWQ. AutoGPTQ quantizes (its order of activations gives g_idx), packs and
unpacks version 1 of GPTQ; GPTQModel packs and unpacks version 2. None of the layout is ours: what
the packages unpack goes to reference.py, and to transformers as a plain model, for the expected values.
"""
import importlib
import importlib.util
import shutil
import sys
import types

import numpy as np
import torch

from models import Weights, base_config, new_folder, to_f16, write_golden, write_hf

GROUP = 32


def without_init(*packages):
    """Makes submodules importable without what the packages import for whole models and GPUs."""
    for name in packages:
        package = types.ModuleType(name)
        package.__path__ = list(importlib.util.find_spec(name).submodule_search_locations)
        sys.modules[name] = package


without_init("awq", "auto_gptq")
awq_gemm = importlib.import_module("awq.modules.linear.gemm")
awq_packing = importlib.import_module("awq.utils.packing_utils")
autogptq = importlib.import_module("auto_gptq.quantization.gptq")
gptq_v1 = importlib.import_module("auto_gptq.nn_modules.qlinear.qlinear_cuda")
gptq_v2 = importlib.import_module("gptqmodel.nn_modules.qlinear.torch")
torch.cuda.synchronize = lambda: None  # AutoGPTQ calls it wherever it runs


def linear_of(weight):
    out, inner = weight.shape
    linear = torch.nn.Linear(inner, out, bias=False)
    linear.weight.data = torch.tensor(weight, dtype=torch.float32)
    return linear


def awq(weight, rng):
    """Tensors by suffix, and the [out, in] weight that they mean."""
    out, inner = weight.shape
    groups = weight.reshape(out, inner // GROUP, GROUP)
    scale = ((groups.max(-1) - groups.min(-1)) / 15).astype(np.float16)
    zero = np.clip(np.round(-groups.min(-1) / scale.astype(np.float32)), 0, 15)
    low, high = -zero * scale, (15 - zero) * scale  # AutoAWQ clips before it packs
    clipped = np.clip(groups, low[..., None], high[..., None]).reshape(out, inner)
    packed = awq_gemm.WQLinear_GEMM.from_linear(
        linear_of(clipped), 4, GROUP, scales=torch.tensor(scale.T.copy()),
        zeros=torch.tensor(zero.T.copy()))
    means = awq_packing.dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.double(), 4,
                                        GROUP)
    return {k: getattr(packed, k) for k in ("qweight", "qzeros", "scales")}, means.T


def quantize_gptq(weight, rng, group, desc_act):
    """The layer with rounded weights, scales, zeros and g_idx."""
    linear = linear_of(weight)
    gptq = autogptq.GPTQ(linear)
    gptq.quantizer.configure(4, perchannel=True, sym=False)
    spread = rng.uniform(0.3, 3, weight.shape[1])
    gptq.add_batch(torch.tensor(rng.normal(0, 1, (512, weight.shape[1])) * spread), None)
    return linear.half(), *gptq.fasterquant(group_size=group, actorder=desc_act)


PARTS = ("qweight", "qzeros", "scales", "g_idx")


def version_1(weight, rng, desc_act):
    linear, scale, zero, g_idx = quantize_gptq(weight, rng, GROUP, desc_act)
    assert zero.min() >= 1  # version 1 cannot express 0
    packed = gptq_v1.QuantLinear(4, GROUP, linear.in_features, linear.out_features, bias=False)
    packed.pack(linear, scale, zero, g_idx)
    parts = {k: getattr(packed, k).clone() for k in PARTS}
    packed.scales = packed.scales.double()
    return parts, packed(torch.eye(linear.in_features, dtype=torch.float64)).T


def version_2(weight, rng):
    inner = weight.shape[1]
    linear, scale, zero, g_idx = quantize_gptq(weight, rng, -1, False)
    packed = gptq_v2.TorchLinear(bits=4, group_size=-1, sym=False, desc_act=False,
                                 in_features=inner, out_features=weight.shape[0])
    packed.pack_original(linear, scale, zero, g_idx)
    packed.qzero_format(format=2)
    parts = {k: getattr(packed, k).clone() for k in PARTS}
    packed.scales = packed.scales.double()
    return parts, packed.dequantize_weight().T


def model(name, seed, quantization, quantize, note):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    config = base_config("llama", "LlamaForCausalLM", attention_bias=False, mlp_bias=False,
                         torch_dtype="float16")
    weights = Weights(config, seed)
    half = to_f16(weights)
    rng = np.random.default_rng(seed)
    tensors, exact = {}, {}
    for key, value in half.items():
        exact[key] = weights[key]
        if not key.endswith("_proj.weight"):
            tensors[key] = value
            continue
        parts, means = quantize(weights[key], rng)
        exact[key] = means.numpy()
        for part, data in parts.items():
            tensors[f"{key.removesuffix('weight')}{part}"] = data.numpy()
    folder = new_folder(name)
    peer = folder / "dequantized"  # what transformers reads
    peer.mkdir()
    write_hf(peer, config, {k: np.asarray(v, np.float32) for k, v in exact.items()})
    write_hf(folder, dict(config, quantization_config=quantization), tensors)
    write_golden(folder, config, exact, seed, note, peer)
    shutil.rmtree(peer)


def main():
    model("llama_awq", 5, {"quant_method": "awq", "bits": 4, "group_size": GROUP,
                           "version": "gemm", "zero_point": True}, awq,
          "AWQ int4, groups of 32, packed and unpacked by AutoAWQ 0.2.9")
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": GROUP}
    model("llama_gptq", 6, dict(gptq, sym=False, desc_act=False),
          lambda weight, rng: version_1(weight, rng, False),
          "GPTQ int4 version 1, groups of 32, by AutoGPTQ 0.7.1")
    model("llama_gptq_desc_act", 7, dict(gptq, sym=False, desc_act=True),
          lambda weight, rng: version_1(weight, rng, True),
          "GPTQ int4 version 1, columns in the order of activations, by AutoGPTQ 0.7.1")
    model("llama_gptq_v2", 11, dict(gptq, group_size=-1, sym=False, desc_act=False,
                                    checkpoint_format="gptq_v2"), version_2,
          "GPTQ int4 version 2, whole rows, rounded by AutoGPTQ 0.7.1, packed by GPTQModel 7.7.0")


if __name__ == "__main__":
    main()
