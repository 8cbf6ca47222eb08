#!/usr/bin/env python3
"""Writes the GGUF files of tests/data/generated that llama.cpp's own converter makes.

    VENV/bin/pip install -r requirements.txt && VENV/bin/python converted.py LLAMA_CPP [FOLDER...]

LLAMA_CPP is a source tree of llama.cpp that has conversion/ beside convert_hf_to_gguf.py (made with
commit 0c1e570 of October 2026). Names, metadata and the order of rows are the converter's; the one
thing it is told is the pre-tokenizer, which it knows by a hash that no toy vocabulary has. Expected
values are those of the folder that was converted.
"""
import pathlib
import runpy
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "data" / "models"
OUT = ROOT / "tests" / "data" / "generated"
# Folder in OUT -> where the Hugging Face files are, and a type that holds their values exactly.
SOURCES = {
    "qwen2_moe": (OUT / "qwen2_moe", "f16"),
    "qwen3_moe_uniform": (OUT / "qwen3_moe_uniform", "f16"),
    "deepseek_v1": (OUT / "deepseek_v1", "f16"),
    # With kv_b in two, which the files in tests/data/models have whole.
    "deepseek_v2_group_split": (MODELS / "deepseek_v2_group", "bf16"),
    "deepseek_v2_lite_split": (MODELS / "deepseek_v2_lite", "bf16"),
    "deepseek_v3_split": (MODELS / "deepseek_v3", "bf16"),
}


def convert(name, tree):
    source, kind = SOURCES[name]
    folder = OUT / name
    if folder != source:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for path in source.glob("golden*"):  # the same model, so the same values
            shutil.copyfile(path, folder / path.name)
    sys.argv = ["convert_hf_to_gguf.py", str(source), "--outtype", kind, "--model-name", name,
                "--outfile", str(folder / "model.gguf")]
    runpy.run_path(str(tree / "convert_hf_to_gguf.py"), run_name="__main__")


def main():
    tree = pathlib.Path(sys.argv[1])
    wanted = sys.argv[2:] or SOURCES
    sys.path[:0] = [str(tree), str(tree / "gguf-py")]
    import conversion
    conversion.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    for name in wanted:
        convert(name, tree)


if __name__ == "__main__":
    main()
