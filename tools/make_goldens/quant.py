#!/usr/bin/env python3
"""Makes tests/data/quant: blocks of every weight type with the values others give them.

    python3 -m venv /tmp/goldens
    /tmp/goldens/bin/pip install gguf==0.19.0 numpy==2.4.6 ml_dtypes==0.6.0
    /tmp/goldens/bin/python tools/make_goldens/quant.py

GGUF types come from the gguf package, FP8 and the 16-bit floats from ml_dtypes and numpy. AWQ and
GPTQ are packed and unpacked here, from the published descriptions of the formats: AWQ interleaves
the eight output features of a word as 0,2,4,6,1,3,5,7 (AutoAWQ); GPTQ packs eight input features
in plain order, with zero points stored less one in format version 1 (AutoGPTQ, GPTQModel).

Every case is an entry of quant.json; its parts lie in quant.bin, at the given offset and size.
"""

import json
import pathlib

import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "quant"
BLOCK_TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
               "IQ4_NL", "IQ4_XS", "MXFP4"]
# Byte offsets of the f16 scales in a block, which random bytes would often make NaN or huge.
F16_AT = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0],
          "IQ4_XS": [0], "MXFP4": []}

rng = np.random.default_rng(20240607)
blob = bytearray()
cases = []


def put(array):
    """Appends an array to the data file; returns where it lies."""
    data = np.ascontiguousarray(array).tobytes()
    at = {"offset": len(blob), "size": len(data)}
    blob.extend(data)
    return at


def block_cases():
    for name in BLOCK_TYPES:
        columns, size = GGML_QUANT_SIZES[T[name]]
        rows, blocks = (3, 2) if columns == 256 else (3, 6)
        raw = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
        for at in F16_AT[name]:
            scale = (rng.standard_normal((rows, blocks)) * 0.05).astype(np.float16)
            scale[0, 0] = np.float16(2.0 ** -24)  # a subnormal
            scale[0, 1] = np.float16(0)
            raw[:, :, at:at + 2] = scale[..., None].view(np.uint8)
        if name == "MXFP4":
            raw[:, :, 0] = rng.integers(110, 135, (rows, blocks))
            raw[0, :4, 0] = [0, 1, 2, 3]
        raw = raw.reshape(rows, blocks * size)
        values = dequantize(raw, T[name])
        assert np.isfinite(values).all()
        cases.append({"kind": "dequantize", "type": name.lower(), "rows": rows,
                      "cols": columns * blocks, "data": put(raw), "values": put(values)})


def quantizer_rows():
    """Rows of 256 columns that also meet the corners: zeros, ties, one value, extremes."""
    x = (rng.standard_normal((8, 256)) * rng.uniform(0.01, 3, (8, 1))).astype(np.float32)
    x[1, :32] = 0
    x[1, 32:64] = 0.7
    x[1, 64:96] = -0.7
    x[1, 96:128] = np.arange(-16, 16)  # equal magnitudes, ties
    x[1, 128:160] = np.linspace(-1, 1, 32)
    x[1, 160:192] = 1e-7
    x[1, 192:224] = 3e4 * rng.standard_normal(32)
    x[2, ::2] = np.abs(x[2, ::2])
    x[3] = np.round(x[3] * 4) / 4
    return x


def quantize_cases():
    x = quantizer_rows()
    at = put(x)
    for name in ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4", "F16", "BF16"]:
        with np.errstate(all="ignore"):
            data = quantize(x, T[name])
        cases.append({"kind": "quantize", "type": name.lower(), "rows": x.shape[0],
                      "cols": x.shape[1], "values": at, "data": put(data)})


def float_cases():
    corners = np.array([0, -0.0, 1, -1, 65504, 65519, 65520, 1e-8, 2**-25, 2**-24, 3e-5, 6.1e-5,
                        1e38, -1e38, np.inf, -np.inf, 3.0e38, 1 + 2**-8, 1 + 3 * 2**-8,
                        1 + 2**-11, 1 + 3 * 2**-11, 1e-40, -1e-45], dtype=np.float32)
    x = np.concatenate([corners, (rng.standard_normal(233) * 10.0 ** rng.integers(-8, 6, 233))
                        .astype(np.float32)])[None, :]
    with np.errstate(all="ignore"):
        for name, kind in [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)]:
            y = x.astype(kind)
            cases.append({"kind": "quantize", "type": name, "rows": 1, "cols": x.shape[1],
                          "values": put(x), "data": put(y.view(np.uint16))})
            cases.append({"kind": "dequantize", "type": name, "rows": 1, "cols": x.shape[1],
                          "data": put(y.view(np.uint16)), "values": put(y.astype(np.float32))})
    every = np.arange(256, dtype=np.uint8)
    every = every[(every & 0x7F) != 0x7F]  # without the two NaN
    cases.append({"kind": "dequantize", "type": "f8_e4m3", "rows": 1, "cols": len(every),
                  "data": put(every),
                  "values": put(every.view(ml_dtypes.float8_e4m3fn).astype(np.float32))})


def fp8_block_case():
    rows, cols, side = 40, 150, 32
    x = (rng.standard_normal((rows, cols)) * 20).astype(ml_dtypes.float8_e4m3fn)
    scales = rng.uniform(1e-4, 1e-2, (-(-rows // side), -(-cols // side))).astype(np.float32)
    full = np.kron(scales, np.ones((side, side), np.float32))[:rows, :cols]
    cases.append({"kind": "dequantize", "type": "f8_e4m3", "rows": rows, "cols": cols,
                  "scale_block": side, "data": put(x.view(np.uint8)), "scales": put(scales),
                  "values": put(x.astype(np.float32) * full)})


def pack_nibbles(q, order):
    """[n, m] integers -> [n, m/8] int32; nibble i of a word takes member order[i]."""
    q = q.reshape(q.shape[0], -1, 8)
    word = np.zeros(q.shape[:2], np.uint32)
    for i, member in enumerate(order):
        word |= q[:, :, member].astype(np.uint32) << np.uint32(4 * i)
    return word


def int4_case(kind, rows, cols, group, v1=False, act_order=False):
    groups = -(-cols // group)
    q = rng.integers(0, 16, (cols, rows))  # [in, out], as both formats think
    zeros = rng.integers(0, 16, (groups, rows))
    scales = rng.uniform(1e-3, 1e-1, (groups, rows)).astype(np.float16)
    index = np.arange(cols) // group
    if act_order:
        index = rng.permutation(index)
    values = (q - zeros[index]).astype(np.float32) * scales[index].astype(np.float32)
    plain = list(range(8))
    case = {"kind": "dequantize", "type": kind, "rows": rows, "cols": cols, "group_size": group,
            "zeros_minus_one": v1}
    if kind == "awq4":
        awq = [0, 2, 4, 6, 1, 3, 5, 7]
        case["data"] = put(pack_nibbles(q, awq))
        case["zeros"] = put(pack_nibbles(zeros, awq))
    else:
        case["data"] = put(pack_nibbles(q.T.copy(), plain).T.copy())
        # Version 1 takes 1 from every nibble, borrowing across them as GPTQModel does.
        case["zeros"] = put(pack_nibbles(zeros, plain) - np.uint32(0x11111111 if v1 else 0))
    case["group_scales"] = put(scales)
    if act_order:
        case["group_index"] = put(index.astype(np.int32))
    case["values"] = put(values.T)
    cases.append(case)


block_cases()
quantize_cases()
float_cases()
fp8_block_case()
int4_case("awq4", 24, 128, 32)
int4_case("awq4", 8, 256, 128)
int4_case("gptq4", 24, 96, 32, v1=True)
int4_case("gptq4", 8, 256, 128)
int4_case("gptq4", 16, 160, 64, v1=True)
int4_case("gptq4", 24, 128, 32, v1=True, act_order=True)

OUT.mkdir(parents=True, exist_ok=True)
(OUT / "quant.bin").write_bytes(blob)
(OUT / "quant.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
print(f"{len(cases)} cases, {len(blob)} bytes")
