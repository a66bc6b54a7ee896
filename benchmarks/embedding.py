"""`fairspan.embed` against the bare model, and its speed by size of model.

    python -m benchmarks.embedding speed [--model NAME] [--texts 4000] [--device cuda]
                                         [--dtype float16] [--rounds 3]
    python -m benchmarks.embedding sizes --device cuda [--texts 40000]

`speed`: a model on texts of mixed lengths. The bare side gets the texts as a list in memory, sorted
by their tokens, and is `model.encode_document` at the fastest of four batch sizes. The other side
reads JSONL and writes Parquet, timed from the moment the model is ready. They run in turn; the
figure is the median of the ratios.

`sizes`: tokens/s from JSONL to Parquet with random weights, which do not change the speed. Passages
have a median of 60 words and are read by the plain model; documents have one of 700, and are read
by `fair`, up to 4,096 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from sentence_transformers import SentenceTransformer
from tests.builders.tiny import WORDS

import fairspan
from benchmarks.measure import time_side_by_side
from benchmarks.models import Shape, random_model
from fairspan.encoding.direct import DirectEncoder
from fairspan.model.loading import Loading, load_model
from fairspan.runs.progress import Silent

BATCH_SIZES = (32, 64, 128)
SHAPES = [Shape("small", 6, 384, 12), Shape("base", 12, 768, 12), Shape("large", 24, 1024, 16)]
# Words of one token each in the vocabulary of all-MiniLM-L6-v2.
ENGLISH = (
    "the of and to in a was he for it with as his on be at by had not are but from or have an they "
    "which you"
)


def make_texts(count: int, median: int, most: int, words: Sequence[str]) -> Iterable[str]:
    """Lengths like those of passages: many short ones, few long ones."""
    rng = random.Random(0)
    for _ in range(count):
        yield " ".join(
            rng.choices(words, k=min(most, max(4, round(rng.lognormvariate(log(median), 0.9)))))
        )


class Clock(Silent):
    """Knows when the model was ready."""

    ready = 0.0

    def start(self, total: int) -> None:
        self.ready = time.perf_counter()


def embed(
    model: SentenceTransformer, texts: Iterable[str], **options: Any
) -> tuple[float, dict[str, Any]]:
    """Seconds from the moment the model is ready, and the summary."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        with file.open("w", encoding="utf-8") as opened:
            opened.writelines(
                json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts)
            )
        result = fairspan.embed(model, file, Path(folder) / "out", progress=clock, **options)
        return time.perf_counter() - clock.ready, result.summary


def measure_speed(given: argparse.Namespace) -> None:
    model = load_model(given.model, Loading(device=given.device, dtype=given.dtype))
    texts = list(make_texts(given.texts or 4000, 75, 500, ENGLISH.split()))
    lengths = [one.read for one in DirectEncoder(model).read(texts)]
    in_order = [
        texts[number] for number in sorted(range(len(texts)), key=lambda number: -lengths[number])
    ]
    budget = 65536 if model.device.type == "cuda" else 4096
    sizes = sorted({*BATCH_SIZES, max(1, budget // max(1, int(np.mean(lengths))))})

    def bare(batch_size: int, some: Sequence[str]) -> float:
        began = time.perf_counter()
        model.encode_document(list(some), batch_size=batch_size, show_progress_bar=False)
        return time.perf_counter() - began

    trial = in_order[:: max(1, len(in_order) // 250)]
    taken = {
        size: min(bare(size, trial) for _ in range(2)) for size in sizes
    }  # the first pass warms up
    best = min(taken, key=lambda size: taken[size])
    own: list[float] = []
    calls = {
        "bare": lambda: bare(best, in_order),
        "embed": lambda: own.append(embed(model, texts, calibration="plain")[0]),
    }
    plain = time_side_by_side(calls, "bare", given.rounds)["bare"].seconds
    ratios = sorted(one / other for one, other in zip(plain, own[1:], strict=True))
    for name, seconds in (("bare encode", plain), ("fairspan.embed", own[1:])):
        print(f"{name}: {sum(lengths) / float(np.median(seconds)):,.0f} tokens/s")
    print(
        f"ratio of speeds at {best} of {sizes}: {np.median(ratios):.3f} ({ratios[0]:.3f} to "
        f"{ratios[-1]:.3f})"
    )


def measure_sizes(given: argparse.Namespace) -> None:
    for shape in SHAPES:
        plain = random_model(shape, "mean", 512).to(given.device)
        if given.device != "cpu":
            plain = plain.bfloat16()
        for name, calibration, median, most, limit in (
            ("passages", "plain", 60, 480, None),
            ("documents", "fair", 700, 3800, 4096),
        ):
            options = {"calibration": calibration, "max_seq_length": limit}
            count = max(1, (given.texts or 40_000) * 60 // median)
            embed(plain, make_texts(count // 30 + 1, median, most, WORDS), **options)
            seconds, summary = embed(plain, make_texts(count, median, most, WORDS), **options)
            print(f"{shape.name}, {name}: {summary['tokens'] / seconds:,.0f} tokens/s", flush=True)


def main() -> None:
    measures = {"speed": measure_speed, "sizes": measure_sizes}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=measures)
    parser.add_argument("--texts", type=int, help="number of rows")
    parser.add_argument("--model", help="for speed; default: all-MiniLM-L6-v2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", help="default: float32 on a CPU, the weights' own elsewhere")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    transformers.logging.disable_progress_bar()
    measures[given.what](given)


if __name__ == "__main__":
    main()
