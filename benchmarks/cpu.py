"""`make bench`: calibrated against plain models on this CPU.

    python -m benchmarks.cpu [--dtype bfloat16] [--record]
    python -m benchmarks.cpu --grid [--quick] [--threads 1 2] [--dtype bfloat16]

Times are medians of ratios between forward passes that ran one after the other in this process, on
fresh random texts. Memory is the most bytes that tensors took above the weights during one pass.
Before anything is timed, the calibrated vectors of the same model are compared with those computed
by whole matrices in float64.

`--grid` prints every setting's ratio to the plain model, by mean pooling and in models of two
layers, which save time and are all alike. It measures CPU time, which other load on the machine
changes little.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from tests.attention.by_matrices import matrices_instead

import fairspan
from benchmarks.measure import peak_bytes, time_side_by_side
from benchmarks.models import BASE, SMALL, Shape, random_batch, random_model

RESULTS = Path(__file__).with_name("RESULTS.md")
# (tokens, texts, rounds): enough rounds for the median, few enough for minutes.
SIZES = [(512, 4, 21), (2048, 1, 15), (8192, 1, 3)]
CHECKED_AT = 512
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}
TREATMENTS = {
    "cls": ["paper", "retrieval", "tempscale", "tiles-64", "fair"],
    "mean": ["paper", "retrieval", "tiles-64", "fair"],
}
EVEN = "plain+pooling=even+sides=document"
SETTINGS = ["fair", "tiles-64", "tiles-128", "tiles-256", "tiles-512", EVEN, "paper", "retrieval"]
# (tokens, texts, rounds, rounds to warm up)
GRID = [(512, 8, 3, 1), (2048, 2, 2, 0), (8192, 1, 1, 0)]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    rows: str
    treatment: str
    tokens: int
    texts: int
    plain_seconds: float
    ratio: float
    spread: tuple[float, float]
    memory_ratio: float

    def __str__(self) -> str:
        low, high = self.spread
        return (
            f"| {self.rows} | {self.treatment} | {self.tokens} × {self.texts} | "
            f"{self.plain_seconds:.3f} "
            f"| {self.ratio:.3f} | {low:.2f}–{high:.2f} | {self.memory_ratio:.3f} |"
        )


HEAD = """| rows | calibration | tokens × texts | plain, s | time ratio | lowest–highest \
| memory ratio |
|---|---|---|---|---|---|---|"""


def check(model: SentenceTransformer, generator: torch.Generator) -> float:
    """The relative error of the fast path against whole matrices, on fresh texts of the shortest
    size."""
    batch = random_batch(2, CHECKED_AT, generator)
    with torch.inference_mode():
        fast = model(dict(batch))["sentence_embedding"]
        with matrices_instead():
            exact = model(dict(batch))["sentence_embedding"]
    return float((fast - exact).abs().max() / exact.abs().max())


def measure(shape: Shape, dtype: str) -> list[Row]:
    generator = torch.Generator().manual_seed(1)
    rows = []
    for pooling, treatments in TREATMENTS.items():
        plain = random_model(shape, pooling, max(tokens for tokens, _, _ in SIZES)).to(
            getattr(torch, dtype)
        )
        models = {"plain": plain, **{name: fairspan.calibrate(plain, name) for name in treatments}}
        for name in treatments:
            error = check(models[name], generator)
            print(
                f"{pooling} {name}: relative error against whole matrices {error:.1e}", flush=True
            )
            if error > TOLERANCE[dtype]:
                raise SystemExit(f"the fast path is wrong: {error:.1e} > {TOLERANCE[dtype]:.0e}")
        print(HEAD)
        for tokens, texts, rounds in SIZES:
            calls = {name: _pass(model, tokens, texts, generator) for name, model in models.items()}
            with torch.inference_mode():
                timings = time_side_by_side(calls, "plain", rounds)
                peaks = {name: peak_bytes(call) for name, call in calls.items()}
            for name in treatments:
                kind = "all" if pooling == "mean" else "pooling"
                timing = timings[name]
                row = Row(
                    kind if name in ("paper", "retrieval") else "–",
                    name,
                    tokens,
                    texts,
                    timings["plain"].median,
                    timing.ratio,
                    timing.spread,
                    peaks[name] / peaks["plain"],
                )
                rows.append(row)
                print(row, flush=True)
    return rows


def _pass(
    model: SentenceTransformer, tokens: int, texts: int, generator: torch.Generator
) -> Callable[[], object]:
    return lambda: model(random_batch(texts, tokens, generator))["sentence_embedding"]


def grid(threads: int, dtype: str, *, quick: bool) -> Iterator[str]:
    """The lines of a table: ratios of all settings to the plain model."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    yield f"| threads, dtype, model | tokens × texts | plain, s | {' | '.join(SETTINGS)} |"
    yield "|---" * (3 + len(SETTINGS)) + "|"
    longest = max(tokens for tokens, *_ in GRID)
    for shape in (SMALL,) if quick else (SMALL, BASE):
        plain = random_model(replace(shape, layers=2), "mean", longest).to(getattr(torch, dtype))
        models = {"plain": plain, **{name: fairspan.calibrate(plain, name) for name in SETTINGS}}
        for tokens, texts, rounds, warm_up in GRID[: 1 if quick else None]:
            calls = {name: _pass(model, tokens, texts, generator) for name, model in models.items()}
            with torch.inference_mode():
                timings = time_side_by_side(
                    calls, "plain", rounds, clock=time.process_time, warm_up=warm_up
                )
            ratios = " | ".join(f"{timings[name].ratio:.3f}" for name in SETTINGS)
            model = shape.name.split()[0]
            yield (
                f"| {threads}, {dtype}, {model} | {tokens} × {texts} "
                f"| {timings['plain'].median:.2f} | {ratios} |"
            )


def environment(shape: Shape, dtype: str) -> str:
    """Machine, versions and commit, as the paragraph above a table."""
    return (
        f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, commit {commit()}, "
        f"`python -m benchmarks.cpu`, {processor()} ({platform.machine()}), "
        f"{torch.get_num_threads()} threads, "
        f"{dtype}, torch {torch.__version__}, transformers {transformers.__version__}, "
        f"sentence-transformers {sentence_transformers.__version__}. "
        f"Model: {shape.name}, random weights, no padding."
    )


def commit() -> str:
    """The commit that is measured."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=RESULTS.parent,
    )
    return asked.stdout.strip() or "unknown"


def processor() -> str:
    """The CPU's name."""
    described = subprocess.run(
        ["lscpu"], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    names = [line.split(":", 1)[1].strip() for line in described if line.startswith("Model name")]
    return names[0] if names else platform.processor() or "unknown CPU"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="append the table to benchmarks/RESULTS.md"
    )
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="float32")
    parser.add_argument("--grid", action="store_true", help="one table of all settings")
    parser.add_argument("--quick", action="store_true", help="a tenth of the grid")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of the grid")
    given = parser.parse_args()
    if given.grid:
        for threads in given.threads:
            for line in grid(threads, given.dtype, quick=given.quick):
                print(line, flush=True)
        return
    described = environment(SMALL, given.dtype)
    print(described, flush=True)
    rows = measure(SMALL, given.dtype)
    if given.record:
        table = "\n".join([HEAD, *map(str, rows)])
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(f"\n## CPU\n\n{described}\n\n{table}\n")
        print(f"appended to {RESULTS}")


if __name__ == "__main__":
    main()
