"""`encode_document` on documents of mixed lengths, by batch size, against chunks of their tokens.

    python -m benchmarks.mixed [--documents 12] [--batch-sizes 1 4 8 32] [--rounds 3]
    python -m benchmarks.mixed --model minilm --threads 1
    python -m benchmarks.mixed --device cuda --dtype bfloat16 --documents 52

Documents have 50 to 20,000 tokens, log-uniform and in any order. Ratios are to the fastest batch
size of the preset in the same rounds. Chunks are pieces of 128 tokens, special ones included, which
the plain model encodes in batches of 32. CPU time on a CPU, which other load changes little; wall
time on a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from benchmarks.measure import time_side_by_side
from benchmarks.models import BASE, SMALL, WINDOW, random_model

SHORTEST = 50
LONGEST = 20_000
CHUNK = 128
SPECIAL = 2


def documents(count: int, tokenizer: Any) -> list[str]:
    """Documents of one token per word."""
    rng = np.random.default_rng(0)
    words = sorted(word for word in tokenizer.get_vocab() if word.isalnum())
    words = [word for word in words if len(tokenizer.tokenize(word)) == 1]
    lengths = rng.permutation(np.geomspace(SHORTEST, LONGEST, count).astype(int))
    return [" ".join(rng.choice(words, length - SPECIAL)) for length in lengths]


def chunks(texts: list[str]) -> list[str]:
    """All words of documents in pieces of `CHUNK` tokens."""
    size = CHUNK - SPECIAL
    split = [text.split() for text in texts]
    return [
        " ".join(parts[start : start + size])
        for parts in split
        for start in range(0, len(parts), size)
    ]


def model_of(name: str) -> SentenceTransformer:
    """Random weights of a size, or all-MiniLM-L6-v2 with its window of 256 tokens."""
    if name == "minilm":
        return fairspan.load("all-MiniLM-L6-v2", device="cpu")
    return random_model({"small": SMALL, "base": BASE}[name], "mean", WINDOW)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["small", "base", "minilm"], default="small")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 4, 8, 32])
    parser.add_argument("--presets", nargs="+", default=["fair", "tiles-64"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plain = model_of(options.model).to(options.device, getattr(torch, options.dtype))
    texts = documents(options.documents, plain.tokenizer)
    calls = {"chunks": partial(plain.encode_document, chunks(texts), batch_size=32)}
    for preset in options.presets:
        fair = fairspan.calibrate(plain, preset)
        for size in options.batch_sizes:
            calls[f"{preset} {size}"] = partial(fair.encode_document, texts, batch_size=size)
    clock = time.process_time if options.device == "cpu" else time.perf_counter
    timings = time_side_by_side(
        calls, "chunks", options.rounds, clock=clock, warm_up=int(options.device != "cpu")
    )
    tokens = sum(len(text.split()) + SPECIAL for text in texts)
    print(f"{len(texts)} documents, {tokens:,} tokens, chunks {timings['chunks'].median:.3f} s\n")
    print("| preset | batch_size | s | over the fastest | over chunks |\n|---|---|---|---|---|")
    for preset in options.presets:
        names = [f"{preset} {size}" for size in options.batch_sizes]
        fastest = min((timings[name] for name in names), key=lambda timing: timing.median)
        for size, name in zip(options.batch_sizes, names, strict=True):
            seconds = timings[name].seconds
            ratios = [a / b for a, b in zip(seconds, fastest.seconds, strict=True)]
            ratio = statistics.median(ratios)
            print(
                f"| {preset} | {size} | {timings[name].median:.3f} | {ratio:.3f} "
                f"| {timings[name].ratio:.3f} |"
            )


if __name__ == "__main__":
    main()
