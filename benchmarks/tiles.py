"""Tiles against the plain model: time and memory on this machine's GPU, or without one on its CPU.

    python -m benchmarks.tiles [--record]

Times are medians of ratios between passes that ran one after the other in this process, on random texts without
padding. Both models have random weights and room for the longest text. Memory is what a pass takes above the weights.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from tests.tiny import words

import fairspan
from benchmarks.cpu import RESULTS, check, commit, processor
from benchmarks.measure import peak_bytes, time_side_by_side
from benchmarks.models import BASE, NARROW, random_batch, random_model

# (tokens, texts, rounds, most time, most memory), as ratios to the plain model.
ON_GPU = [
    (32768, 1, 15, 0.20, 1.02),
    (8192, 4, 21, 0.50, 1.02),
    (2048, 16, 31, 0.85, 1.02),
    (512, 64, 31, 1.05, 1.02),
    (512, 1, 101, 1.15, 1.02),
]
ON_CPU = [(8192, 1, 3, 0.25, 1.02), (2048, 1, 9, 0.75, 1.02), (512, 4, 21, 1.08, 1.02), (512, 1, 31, 1.08, 1.02)]
LINES: list[str] = []


def say(line: str) -> None:
    LINES.append(line)
    print(line, flush=True)


def passes() -> None:
    """Whole models, with tiles in all layers; and the pooled row of baskets, for one short text."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes, shape = (ON_GPU, BASE) if device == "cuda" else (ON_CPU, NARROW)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    say(f"\n### Whole models: {shape.name}, {str(dtype).removeprefix('torch.')}, {device}\n")
    say("| pooling | treatment | tokens × texts | plain, ms | time | lowest–highest | at most | memory | path |")
    say("|---|---|---|---|---|---|---|---|---|")
    generator = torch.Generator().manual_seed(1)
    for pooling in ("cls", "mean"):
        plain = random_model(shape, pooling, max(size[0] for size in sizes)).to(device, dtype)
        models = {"plain": plain, "tiles": fairspan.calibrate(plain, "tiles")}
        if device == "cpu":
            say(f"<!-- error against whole matrices: {check(models['tiles'], generator):.1e} -->")
        for tokens, texts, rounds, most, _ in sizes:
            measured = {**models}
            if (pooling, tokens, texts) == ("cls", 512, 1):
                measured["paper"] = fairspan.calibrate(plain, "paper")
            calls = {name: _pass(model, tokens, texts, generator) for name, model in measured.items()}
            timings = time_side_by_side(calls, "plain", rounds)
            peaks = {name: _peak(call) for name, call in calls.items()}
            for name in list(measured)[1:]:
                low, high = timings[name].spread
                say(
                    f"| {pooling} | {name} | {tokens} × {texts} | {timings['plain'].median * 1000:.2f} "
                    f"| {timings[name].ratio:.3f} | {low:.2f}–{high:.2f} | {most} "
                    f"| {peaks[name] / peaks['plain']:.3f} | {measured[name][0].path} |"
                )


def throughput() -> None:
    """`encode` on texts whose lengths are drawn evenly on a log scale."""
    on_gpu = torch.cuda.is_available()
    longest, count = (8190, 256) if on_gpu else (2046, 32)
    shape, dtype, device = (BASE, torch.bfloat16, "cuda") if on_gpu else (NARROW, torch.float32, "cpu")
    lengths = np.exp(np.random.default_rng(3).uniform(np.log(50), np.log(longest), count)).astype(int)
    texts = [words(int(length), seed=number) for number, length in enumerate(lengths)]
    plain = random_model(shape, "cls", longest + 2).to(device, dtype)
    models = {"plain": plain, "tiles": fairspan.calibrate(plain, "tiles")}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(-1, 3):
        for name, model in models.items():
            start = time.perf_counter()
            model.encode(texts, batch_size=16 if on_gpu else 4, show_progress_bar=False)
            if turn >= 0:
                seconds[name].append(time.perf_counter() - start)
    rate = {name: (lengths.sum() + 2 * count) / statistics.median(spent) for name, spent in seconds.items()}
    say(
        f"\n`encode` on {count} texts of 50 to {longest} tokens: plain {rate['plain']:,.0f} tokens/s, tiles "
        f"{rate['tiles']:,.0f}: ratio {rate['tiles'] / rate['plain']:.2f}."
    )


def _pass(model: SentenceTransformer, tokens: int, texts: int, generator: torch.Generator) -> Callable[[], object]:
    batch = {name: x.to(model.device) for name, x in random_batch(texts, tokens, generator).items()}

    def run() -> object:
        with torch.inference_mode():
            vectors = model(dict(batch))["sentence_embedding"]
            if vectors.is_cuda:
                torch.cuda.synchronize()
            return vectors

    return run


def _peak(call: Callable[[], object]) -> int:
    if not torch.cuda.is_available():
        with torch.inference_mode():
            return peak_bytes(call)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="append the tables to benchmarks/RESULTS.md")
    given = parser.parse_args()
    machine = torch.cuda.get_device_name() if torch.cuda.is_available() else processor()
    today = f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, commit {commit()}"
    say(f"\n## Tiles\n\n{today}, `python -m benchmarks.tiles`, {machine}, torch {torch.__version__}")
    passes()
    throughput()
    if given.record:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
