"""Tokens/s of `fairspan.embed` from JSONL to Parquet on one device, for models of several sizes with random weights.

    python -m benchmarks.scale --device cuda [--words 12000000] [--tokenizer FOLDER]

Weights do not change the speed. Texts are random English words; the tokenizer is that of all-MiniLM-L6-v2, or the one
of a folder. Passages have a median of 60 words and are read by the plain model; documents have a median of 700 and up
to 3,800, and are read in tiles with a limit of 4,096 tokens. A short run goes before each one that counts.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from math import log
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from transformers import AutoTokenizer, BertConfig, BertModel

import fairspan
from fairspan.embedding.progress import SilentRows
from fairspan.model.source import find_model

# Layers, width, heads: those of MiniLM-L6, of base and of large models.
SIZES = {"small": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
TEXTS = {"passages": (60, 480, None), "documents": (700, 3800, 4096)}
TRIAL = 400_000


def make_model(size: str, tokenizer: str, device: str) -> SentenceTransformer:
    layers, width, heads = SIZES[size]
    words = AutoTokenizer.from_pretrained(tokenizer)
    config = BertConfig(
        vocab_size=len(words),
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        BertModel(config).to(torch.bfloat16).save_pretrained(folder)
        words.save_pretrained(folder)
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        transformer = Transformer(folder, model_kwargs={"dtype": dtype})
    transformer.max_seq_length = 512
    return SentenceTransformer(modules=[transformer, Pooling(width, "mean"), Normalize()], device=device)


def make_texts(vocabulary: Sequence[str], words: int, median: int, most: int) -> list[str]:
    rng, texts = random.Random(0), []
    while words > 0:
        count = max(5, min(most, round(rng.lognormvariate(log(median), 0.8))))
        texts.append(" ".join(rng.choices(vocabulary, k=count)))
        words -= count
    return texts


class Clock(SilentRows):
    ready = 0.0

    def start(self, total: int) -> None:
        self.ready = time.perf_counter()


def tokens_per_second(model: SentenceTransformer, texts: Sequence[str], budget: int | None) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        rows, clock = Path(folder) / "rows.jsonl", Clock()
        with rows.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
        made = fairspan.embed(model, rows, Path(folder) / "out", batch_tokens=budget, progress=clock)
        return made.summary["tokens"] / (time.perf_counter() - clock.ready), made.summary["tokens"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--words", type=int, default=12_000_000)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--tokenizer")
    given = parser.parse_args()
    tokenizer = given.tokenizer or find_model(None).place
    every = AutoTokenizer.from_pretrained(tokenizer).get_vocab()
    vocabulary = sorted(word for word in every if word.isascii() and word.isalpha() and len(word) > 2)
    for size in given.sizes:
        plain = make_model(size, tokenizer, given.device)
        for name, (median, most, limit) in TEXTS.items():
            model = plain if limit is None else fairspan.calibrate(plain, "tiles", max_seq_length=limit)
            tokens_per_second(model, make_texts(vocabulary, TRIAL, median, most), given.batch_tokens)
            texts = make_texts(vocabulary, given.words, median, most)
            speed, tokens = tokens_per_second(model, texts, given.batch_tokens)
            print(f"{size}, {name}: {speed:,.0f} tokens/s over {tokens:,} tokens", flush=True)


if __name__ == "__main__":
    main()
