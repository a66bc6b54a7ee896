"""What even pooling costs, beside the reading that it follows.

    python -m benchmarks.even [--dtype bfloat16]

Random weights of real shapes, in tiles of 128 tokens, on a GPU if there is one. The time of pooling
alone, evenly and by the mean, is divided by that of the whole pass with the mean; medians of calls
that ran in turn. Memory is the peak of tensor bytes above the hidden states.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

import fairspan
from benchmarks.measure import peak_bytes
from benchmarks.models import BASE, SMALL, random_batch, random_model
from fairspan.model.even import EVENLY, EvenPooling

SIZES = [(512, 1), (512, 64), (2048, 1), (8192, 1), (65536, 1)]
"""Tokens and texts; the longest only on a GPU."""


def seconds(call: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    dtype = getattr(torch, parser.parse_args().dtype)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{device}, {dtype}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print("| width | tokens × texts | reading, ms | mean, ms | even, ms | more, % of reading |")
    print("|---|---|---|---|---|---|")
    for shape in (SMALL, BASE):
        plain = random_model(shape, "mean", 512).to(device, dtype)
        fair = fairspan.calibrate(plain, "plain", tile_size=128, pooling="even")
        for length, texts in SIZES if device == "cuda" else SIZES[:-1]:
            time_pooling(fair, length, texts, device)
    print("| width | tokens | peak of pooling, MiB |")
    print("|---|---|---|")
    for tokens in (10_000, 1_000_000):
        pool = EvenPooling(SMALL.hidden, ridge=0.2)
        states = torch.randn(1, tokens, SMALL.hidden, device=device, dtype=dtype)

        def run(pool: EvenPooling = pool, states: torch.Tensor = states) -> None:
            with torch.inference_mode():
                pool({"token_embeddings": states})

        print(f"| {SMALL.hidden} | {tokens:,} | {peak_bytes(run, device) / 2**20:.1f} |")


def time_pooling(fair: torch.nn.Sequential, length: int, texts: int, device: str) -> None:
    """Print the times of one shape of a batch."""
    transformer, pool = fair[0], fair[1]
    batch = random_batch(texts, length, torch.Generator().manual_seed(0))
    inputs = {name: value.to(device) for name, value in batch.items()}

    def read() -> object:
        return transformer(dict(inputs))

    def pooled(evenly: bool) -> Callable[[], object]:
        return lambda: pool({**features, EVENLY: evenly})

    taken: dict[str, list[float]] = {"reading": [], "mean": [], "even": []}
    with torch.inference_mode():
        features = dict(transformer(dict(inputs)))
        calls = {"reading": read, "mean": pooled(False), "even": pooled(True)}
        first = seconds(read, device)
        rounds = 25 if device == "cuda" else max(2, min(25, int(20 / first)))
        for turn in range(-1, rounds):
            for name, call in calls.items():
                spent = seconds(call, device)
                if turn >= 0:
                    taken[name].append(1000 * spent)
    reading, mean, even = (statistics.median(times) for times in taken.values())
    share = 100 * (even - mean) / reading
    width = pool.embedding_dimension
    print(
        f"| {width} | {length} × {texts} | {reading:.2f} | {mean:.2f} | {even:.2f} | {share:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
