#!/usr/bin/env python3
"""Golden values for SmolLM2-135M-Instruct Q4_1: another engine, in f32, on the same file.

transformers reads the GGUF, dequantizes it with gguf-py and runs its own Llama in float32.
    pip install -r tools/make_goldens/requirements.txt
    python tools/make_goldens/smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf
"""
import json
import pathlib
import sys

import gguf
import torch
import transformers

N_TOKENS = 500


def main() -> None:
    model_path = pathlib.Path(sys.argv[1]).resolve()
    folder = pathlib.Path(__file__).resolve().parents[2] / "tests/data/smollm2"
    text = (folder / "text.txt").read_text()
    source = dict(pretrained_model_name_or_path=str(model_path.parent), gguf_file=model_path.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"][:N_TOKENS]
    assert len(ids) == N_TOKENS, len(ids)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    nll = -torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), ids[1:]]
    json.dump({
        "made_by": f"tools/make_goldens/smollm2.py, transformers {transformers.__version__}, "
                   f"torch {torch.__version__}, gguf gguf-py, float32",
        "model": model_path.name,
        "ids": ids,
        "top1": logits.argmax(-1).tolist(),
        "nll": [round(x, 6) for x in nll.tolist()],
        "perplexity": float(nll.mean().exp()),
        "logits_last_head": [round(x, 5) for x in logits[-1, :64].tolist()],
    }, (folder / "golden.json").open("w"))
    print(len(ids), float(nll.mean().exp()))


if __name__ == "__main__":
    main()
