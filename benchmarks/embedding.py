"""`fairspan.embed` against the bare model, the pipeline alone, and the memory of a million rows.

    python -m benchmarks.embedding speed [--model NAME] [--texts 4000] [--device cuda] [--dtype float16] [--rounds 3]
    python -m benchmarks.embedding pipeline [--texts 100000]
    python -m benchmarks.embedding memory [--texts 1000000]
    python -m benchmarks.embedding ray [--texts 12000] [--rounds 3]

`speed`: a model on texts of mixed lengths. The bare side gets the texts as a list in memory, sorted by their
tokens, and is `model.encode_document` at the fastest of three batch sizes and of one that gives it the tokens per
batch that `embed` takes. The other side reads JSONL and writes Parquet, timed from the moment the model is ready.
They run in turn, and the figure is the median of the ratios of a round.

`pipeline`: the same, with a model that gives vectors of ones at once: what reading, tokenising and writing take.

`memory`: short rows through a model of one layer, in a process of its own; the most memory it takes above what it has
after the model has embedded its first batch.

`ray`: two actors of a local Ray cluster against two processes (`device="cpu,cpu"`) on the same rows, in turn. Both
are timed from the moment when a sixth of the shards is written, so that starting them does not count.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from sentence_transformers import SentenceTransformer
from tests.tiny import WORDS

import fairspan
from benchmarks.measure import time_side_by_side
from benchmarks.models import Shape, random_model
from fairspan.embedding.progress import SilentRows
from fairspan.embedding.shards import read_records, shard_name
from fairspan.encoding.direct import DirectEncoder
from fairspan.model.loading import Loading, load_model

BATCH_SIZES = (32, 64, 128)
ONE_LAYER = Shape("one layer, 64 wide", 1, 64, 2)
# Words of one token each in the vocabulary of all-MiniLM-L6-v2.
ENGLISH = (
    "the of and to in a was he for it with as his on be at by had not are but from or have an they which you were"
)


def mixed_texts(count: int, most: int, seed: int = 0) -> list[str]:
    """Lengths like those of passages: many short ones, few long ones."""
    rng, words = random.Random(seed), ENGLISH.split()
    return [
        " ".join(rng.choices(words, k=min(most, max(4, round(rng.lognormvariate(4.3, 0.9)))))) for _ in range(count)
    ]


def write_rows(file: Path, texts: Sequence[str]) -> None:
    with file.open("w", encoding="utf-8") as opened:
        for number, text in enumerate(texts):
            opened.write(json.dumps({"id": f"document-{number}", "text": text}) + "\n")


class Clock(SilentRows):
    """Knows when the model was ready."""

    ready = 0.0

    def start(self, total: int) -> None:
        self.ready = time.perf_counter()


def embed(model: SentenceTransformer, file: Path, **options: Any) -> tuple[float, dict[str, Any]]:
    """Seconds from the moment the model is ready, and the summary."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        result = fairspan.embed(model, file, Path(folder) / "out", progress=clock, **options)
        return time.perf_counter() - clock.ready, result.summary


def measure_speed(given: argparse.Namespace) -> None:
    model = load_model(given.model, Loading(device=given.device, dtype=given.dtype))
    texts = mixed_texts(given.texts, 500)
    lengths = [one.read for one in DirectEncoder(model).read(texts)]
    order = sorted(range(len(texts)), key=lambda number: -lengths[number])
    in_order = [texts[number] for number in order]
    budget = given.batch_tokens or (65536 if model.device.type == "cuda" else 4096)
    trial = in_order[:: max(1, len(in_order) // 250)]
    sizes = sorted({*BATCH_SIZES, max(1, budget // max(1, int(np.mean(lengths))))})

    def bare(batch_size: int, some: Sequence[str] = in_order) -> None:
        model.encode_document(list(some), batch_size=batch_size, show_progress_bar=False)

    taken = {}
    for size in sizes:
        bare(size, trial)
        began = time.perf_counter()
        bare(size, trial)
        taken[size] = time.perf_counter() - began
    best = min(taken, key=lambda size: taken[size])
    print(
        f"{model.device}, {len(texts):,} texts, {sum(lengths):,} tokens; bare encode is fastest at {best} of {sizes}"
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        write_rows(file, texts)
        seconds: list[float] = []
        calls = {
            "bare": lambda: bare(best),
            "embed": lambda: seconds.append(embed(model, file, batch_tokens=budget)[0]),
        }
        timed = time_side_by_side(calls, "bare", given.rounds)
    plain = timed["bare"].seconds
    ratios = sorted(bare_one / own for bare_one, own in zip(plain, seconds[1:], strict=True))
    middle = float(np.median(ratios))
    print(f"bare encode: {sum(lengths) / float(np.median(plain)):,.0f} tokens/s")
    print(f"fairspan.embed: {sum(lengths) / float(np.median(seconds[1:])):,.0f} tokens/s")
    print(
        f"ratio of speeds: {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}); with the start, "
        f"{1 / timed['embed'].ratio:.3f}"
    )


def measure_pipeline(given: argparse.Namespace) -> None:
    model = load_model(None, Loading(device="cpu"))
    encoder = DirectEncoder(model)
    DirectEncoder.vectors = (  # type: ignore[method-assign]
        lambda self, batch: np.ones((len(batch), self.dimension), dtype=np.float32)
    )
    for name, most in (("short", 12), ("mixed", 500)):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.jsonl"
            texts = mixed_texts(given.texts, most)
            write_rows(file, texts)
            began = time.perf_counter()
            encoder.read(texts)
            tokenising = time.perf_counter() - began
            seconds, summary = embed(model, file)
        print(
            f"pipeline alone, {name} texts: {summary['rows'] / seconds:,.0f} rows/s, "
            f"{summary['tokens'] / seconds:,.0f} tokens/s; tokenising takes {tokenising / seconds:.0%} of it"
        )


def measure_memory(given: argparse.Namespace) -> None:
    model = random_model(ONE_LAYER, "mean", 128)
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        with file.open("w", encoding="utf-8") as opened:
            for number in range(given.texts):
                text = " ".join(rng.choices(WORDS, k=rng.randint(4, 16)))
                opened.write(json.dumps({"id": f"document-{number}", "text": text}) + "\n")
        model.encode_document([" ".join(WORDS[:16])] * 64, show_progress_bar=False)
        before = most = _resident()
        over = threading.Event()

        def watch() -> None:
            nonlocal most
            while not over.wait(0.05):
                most = max(most, _resident())

        watching = threading.Thread(target=watch)
        watching.start()
        seconds, summary = embed(model, file)
        over.set()
        watching.join()
    print(
        f"{summary['rows']:,} rows in {seconds:.0f} s ({summary['rows'] / seconds:,.0f} rows/s): "
        f"{(most - before) / 2**20:,.0f} MiB above the {before / 2**20:,.0f} MiB with the model"
    )


def measure_ray(given: argparse.Namespace) -> None:
    engines: dict[str, dict[str, Any]] = {
        "two processes": {"device": "cpu,cpu"},
        "two actors of Ray": {"engine": "ray", "actors": 2, "device": "cpu"},
    }
    speeds: dict[str, list[float]] = {name: [] for name in engines}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        write_rows(file, mixed_texts(given.texts, 500))
        for number in range(given.rounds):
            for name, options in engines.items():
                out = Path(folder) / f"{name} {number}"
                fairspan.embed(None, file, out, rows_per_shard=max(1, given.texts // 60), progress=False, **options)
                speeds[name].append(_speed_once_started(out))
    for name, found in speeds.items():
        print(f"{name}: {float(np.median(found)):,.0f} tokens/s")
    ratios = sorted(ray / plain for plain, ray in zip(*speeds.values(), strict=True))
    print(f"ratio of speeds: {float(np.median(ratios)):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")


def _speed_once_started(out: Path) -> float:
    """Tokens per second from when a sixth of the shards was written to when the last one was."""
    written = sorted(
        ((out / shard_name(number)).stat().st_mtime, record.tokens) for number, record in read_records(out).items()
    )
    first = len(written) // 6
    return sum(tokens for _, tokens in written[first + 1 :]) / (written[-1][0] - written[first][0])


def _resident() -> int:
    """Bytes in memory of this process."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "pipeline", "memory", "ray"])
    parser.add_argument("--texts", type=int, help="number of rows")
    parser.add_argument("--model", help="for speed; default: all-MiniLM-L6-v2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", help="default: float32 on a CPU, the weights' own elsewhere")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    transformers.logging.disable_progress_bar()
    texts, measure = {
        "speed": (4000, measure_speed),
        "pipeline": (100_000, measure_pipeline),
        "memory": (1_000_000, measure_memory),
        "ray": (12_000, measure_ray),
    }[given.what]
    given.texts = given.texts or texts
    measure(given)


if __name__ == "__main__":
    main()
