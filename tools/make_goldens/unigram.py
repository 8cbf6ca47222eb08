#!/usr/bin/env python3
# Makes small tokenizers of kinds for which no real one may be stored here, and what Hugging Face's
# library gives for them. Needs: pip install tokenizers==0.22.2 (nothing else; no network).
# Training is not deterministic: a new run makes other files, as good as the stored ones.
#
#   python tools/make_goldens/unigram.py tests/data/tokenizer [SmolLM2-135M-Instruct.Q4_1.gguf]
#
# Without a GGUF it writes NAME.tokenizer.json and NAME.cases.jsonl for
#   unigram          Unigram with byte fallback, Nmt + NFKC, Metaspace before every word, </s> behind
#   unigram_unk      Unigram without byte fallback, Lowercase + StripAccents, Metaspace first, no split
#   spm_bpe          SentencePiece-style BPE: Prepend and Replace, byte fallback, <s> in front
#   added            byte-level BPE with every flag of added tokens, several splitting behaviours
# and with SmolLM2's GGUF (needs pip install gguf) smollm2.cases.jsonl for its vocabulary and the
# pre-tokenizer of SmolLM2's tokenizer.json: Digits (individual), ByteLevel.
import json
import random
import sys
from pathlib import Path

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers, processors, trainers)

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps; the fox runs.",
    "Pack my box with five dozen liquor jugs, and then pack another box with more jugs.",
    "In 1987 there were 42 ships in the harbour; by 2024 there were 1,204 of them.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío.",
    "敏捷的棕色狐狸跳过了懒狗。狐狸跑了，狗睡着了。",
    "いろはにほへと ちりぬるを わかよたれそ つねならむ",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "def main(args): return [int(a) for a in args if a.isdigit()]",
] * 3

TEXTS = CORPUS[:9] + [
    "", " ", "  ", "a", " a", "a ", "  two  spaces  ", "\ttab", "line\nline\r\n", "\n\n", "x\u00a0y",
    "the", "The the THE", "unbelievable antidisestablishmentarianism", "🦊 jumps 🦊🦊", "a\u0301 é é",
    "①②③ ﬁne ﾊﾝｶｸ", "\u200bzero\u200bwidth", "控制\u0007字符", "mixed狐狸fox狐", "▁already▁marked",
    " ▁ ", "<s>", "<unk>", "</s>", "<s>hello</s>", "text<s> text", "<0x41>", "İstanbul ISTANBUL",
    "0123456789", "1,204.56", "!!!???...", "don't can't I'll", "C++ & C#", "한국어 텍스트", "ابجد هوز",
    "नमस्ते दुनिया", "𝒳𝓎𝓏", "\u0000nul", "𓀀𓀁", "e\u0301\u0323\u0301", "trailing space ", "\ufeffbom",
]


def byte_tokens():
    return [f"<0x{b:02X}>" for b in range(256)]


def trained_unigram(vocab_size):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=vocab_size, show_progress=False,
                                      unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"])
    tokenizer.train_from_iterator(CORPUS, trainer)
    # Rounded: the scores are data here, and the file stays small.
    return [(piece, round(score, 4)) for piece, score in
            json.loads(tokenizer.to_str())["model"]["vocab"]]


def unigram():
    vocab = trained_unigram(260)
    vocab = vocab[:3] + [(piece, 0.0) for piece in byte_tokens()] + vocab[3:]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(),
                                                 normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                                       pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def unigram_unk():
    tokenizer = Tokenizer(models.Unigram(trained_unigram(220), unk_id=0, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(),
                                                 normalizers.StripAccents(),
                                                 normalizers.Strip(left=False, right=True)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def spm_bpe():
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = pre_tokenizers.Metaspace()
    base.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=330, show_progress=False))
    model = json.loads(base.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + byte_tokens() + list(model["vocab"])
    vocab = {piece: i for i, piece in enumerate(pieces)}
    merges = [tuple(m) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"),
                                                 normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


def added():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=320, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\d+(?=x)"), "removed"),
        pre_tokenizers.Split("-", "merged_with_previous"),
        pre_tokenizers.Split("+", "merged_with_next"),
        pre_tokenizers.Split(Regex(r"[=~]"), "contiguous"),
        pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated", invert=True),
        pre_tokenizers.Punctuation("isolated"),
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([
        AddedToken("<tool>", normalized=False), AddedToken("<tool_call>", normalized=False),
        AddedToken("word", single_word=True, normalized=False),
        AddedToken("<l>", lstrip=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
        AddedToken("e\u0301t\u0301", normalized=True), AddedToken("nor\u0301m", normalized=True),
    ])
    tokenizer.add_special_tokens(["<|end|>", "<|start|>"])
    return tokenizer


ADDED_TEXTS = [
    "<tool>", "<tool_call>", "<tool_cal", "<tool<tool>", "word", "a word here", "words", "sword",
    "word-word", "word_", "(word)", "wordword word", "éword wordé", "a <l> b", "a  <l>  b", "<l><l>",
    " <l> <l> ", "a <r> b", "a  <r>  b", "<r> <r>", "<r> <l>", "<r> \n\t <lr>", "a\u00a0<lr>\u3000b",
    "<lr>", " <lr> <lr> ", "<|start|>user<|end|>", "ét\u0301", "e\u0301t\u0301", "nor\u0301m noŕm", "norm",
    "12x 12y 3x4x", "a-b--c-", "-a", "a+b++c+", "+", "a==b=~~c", "==", "x=", "1-2+3=4", "--==++",
]


def smollm2(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{key}"].contents()
                             for key in ("tokens", "token_type", "merges"))
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)},
                                     [tuple(merge.split(" ")) for merge in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens([t for t, kind in zip(tokens, types) if kind == control])
    return tokenizer


def write_cases(folder, name, tokenizer, texts):
    with open(folder / f"{name}.cases.jsonl", "w") as out:
        for text in texts:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            case = {"text": text, "ids": ids,
                    "framed_ids": tokenizer.encode(text, add_special_tokens=True).ids,
                    "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                    "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True)}
            out.write(json.dumps(case) + "\n")


def write(folder, name, tokenizer, texts):
    tokenizer.save(str(folder / f"{name}.tokenizer.json"), pretty=False)
    write_cases(folder, name, tokenizer, texts)


def main():
    folder = Path(sys.argv[1])
    if len(sys.argv) > 2:
        texts = TEXTS + ["<|im_start|>user\nHi 12<|im_end|>\n", "<reponame>x<repo_name>",
                         "1,204 ½ ² Ⅳ ٣٤"]
        with open(folder / "qwen3.cases.jsonl") as cases:
            texts += [json.loads(line)["text"] for line in cases][::3]
        write_cases(folder, "smollm2", smollm2(sys.argv[2]), texts)
        return
    rng = random.Random(7)
    mixed = ["".join(rng.choice(TEXTS) for _ in range(4)) for _ in range(20)]
    write(folder, "unigram", unigram(), TEXTS + mixed)
    write(folder, "unigram_unk", unigram_unk(), TEXTS + mixed)
    write(folder, "spm_bpe", spm_bpe(), TEXTS + mixed)
    mixed = ["".join(rng.choice(ADDED_TEXTS + TEXTS) for _ in range(4)) for _ in range(40)]
    write(folder, "added", added(), ADDED_TEXTS + TEXTS + mixed)


main()
