"""What even pooling and level vectors cost, beside the reading that they follow.

    python -m benchmarks.even [--dtype bfloat16]
    python -m benchmarks.even --level [--threads 1]
    python -m benchmarks.even --picture docs/images/even.png

Random weights of real shapes, in tiles of 128 tokens, on a GPU if there is one. The time of pooling
alone, evenly and by the mean, is divided by that of the whole pass with the mean; medians of calls
that ran in turn. Memory is the peak of tensor bytes above the hidden states.

`--level`: all-MiniLM-L6-v2 under `fair`, one text at a time on a CPU. The time of making its vector
level is divided by that of the whole pass in the same round. And how long it takes, once, to find
the common direction.

`--picture`: how similar all-MiniLM-L6-v2 finds a text and its sentences, the last of which is about
something else, with both poolings.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import torch

import fairspan
from benchmarks.measure import peak_bytes, time_side_by_side, with_few_colours
from benchmarks.models import BASE, SMALL, random_batch, random_model
from fairspan.model.even import EVENLY, EvenPooling
from fairspan.model.level import find_direction
from fairspan.report.chart import Chart
from fairspan.report.drawing import draw, figure_bytes

SIZES = [(512, 1), (512, 64), (2048, 1), (8192, 1), (65536, 1)]
"""Tokens and texts; the longest only on a GPU."""
LEVEL_SIZES = {64: 201, 512: 51, 4096: 11}
"""Tokens of a text, and rounds."""
VOLCANOES = [
    "Volcanoes form where molten rock rises through the crust of the earth.",
    "Magma collects in chambers several kilometres below the surface.",
    "Dissolved gas drives it upwards as the pressure falls.",
    "Runny basalt flows for tens of kilometres before it cools.",
    "Thick, sticky lava piles up into steep domes that can collapse.",
    "Ash clouds reach the stratosphere and cool the climate for a year or two.",
    "Observatories record small earthquakes under a mountain before an eruption.",
    "Satellites measure how much the ground swells.",
    "Old lava weathers into dark, fertile soil.",
    "The town library now lends board games on Saturday mornings.",
]
POOLINGS = {"plain": "mean", "plain+pooling=even+sides=document": "even"}


def seconds(call: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--level", action="store_true", help="level vectors, on a CPU")
    parser.add_argument("--threads", type=int, help="of the CPU")
    parser.add_argument("--picture", type=Path, metavar="FILE.png")
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    if given.level:
        time_level()
        return
    if given.picture:
        given.picture.write_bytes(draw_sentences())
        return
    dtype = getattr(torch, given.dtype)
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


def draw_sentences() -> bytes:
    """A PNG with the cosine of a text and its sentences, with both poolings."""
    result = fairspan.inspect("all-MiniLM-L6-v2", VOLCANOES, treatments=[*POOLINGS])
    readings = result.frame("readings")
    cosines = readings.select(
        pl.col("representation").alias("estimate"),
        pl.col("treatment").replace(POOLINGS).alias("pooling"),
        pl.Series("sentence", VOLCANOES * len(POOLINGS)),
    )
    chart = Chart(
        name="sentences",
        title="How similar one vector is to every sentence of its text",
        subtitle="all-MiniLM-L6-v2",
        frame=cosines,
        x="sentence",
        by="pooling",
        panel="pooling",
        kind="rows",
        y_title="cosine",
    )
    return with_few_colours(figure_bytes(draw(chart), "png"))


def time_level() -> None:
    """Print what making vectors level takes of a pass, and finding the direction."""
    plain = fairspan.load("all-MiniLM-L6-v2", device="cpu")
    fair = fairspan.calibrate(plain, "fair")
    print(f"all-MiniLM-L6-v2, {torch.get_num_threads()} threads, torch {torch.__version__}")
    print("| tokens | rounds | pass, ms | level, ms | % of the pass |\n|---|---|---|---|---|")
    level = fair[-1]
    with torch.inference_mode():
        for tokens, rounds in LEVEL_SIZES.items():
            batch = random_batch(1, tokens, torch.Generator().manual_seed(0))
            vector = {"sentence_embedding": fair(dict(batch))["sentence_embedding"]}
            calls: dict[str, Callable[[], object]] = {
                "pass": lambda batch=batch: fair(dict(batch)),
                "level": lambda vector=vector: level(dict(vector)),
            }
            timings = time_side_by_side(calls, "pass", rounds)
            whole, part = timings["pass"], timings["level"]
            print(
                f"| {tokens:,} | {rounds} | {1000 * whole.median:.1f} | {1000 * part.median:.3f} "
                f"| {100 * part.ratio:.2f} |",
                flush=True,
            )
    times = [seconds(lambda: find_direction(plain, ""), "cpu") for _ in range(3)]
    shown = ", ".join(f"{spent:.2f}" for spent in times)
    print(f"finding the common direction, once per model: {shown} s")


if __name__ == "__main__":
    main()
