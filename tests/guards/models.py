"""Small models with random weights that the guards run; the same bytes on every machine."""
import pathlib
import subprocess

SMALL = ["--hidden", "512", "--layers", "2", "--heads", "8", "--intermediate", "1024", "--vocab", "2048"]
MODELS = {
    "gqa-q4_0": ["qwen2-1.5b", "--type", "q4_0", "--kv-heads", "2", *SMALL],
    "gqa-bf16": ["qwen2-1.5b", "--type", "bf16", "--kv-heads", "2", *SMALL],
    "mla-moe-q8_0": ["deepseek-v2-lite", "--type", "q8_0", "--hidden", "256", "--layers", "3", "--heads", "4",
                     "--intermediate", "512", "--vocab", "1024", "--experts", "8", "--experts-used", "2",
                     "--moe-intermediate", "128"],
}


def make(make_model, name, folder):
    """The path of the model `name` in `folder`, which is written where it is not there."""
    path = pathlib.Path(folder) / f"{name}.gguf"
    if not path.exists():
        shape, *options = MODELS[name]
        subprocess.run([make_model, shape, str(path), *options], check=True, stdout=subprocess.DEVNULL)
    return path
