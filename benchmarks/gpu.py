"""Calibrated against plain models on one GPU.

    python -m benchmarks.gpu [--quick] [--record]

Needs only torch, transformers, sentence-transformers and Triton. Times are medians of ratios
between calls that ran one after the other in this process, each between two device events, on
random inputs. Memory is the allocator's peak above what was there before. The kernels are compared
with whole matrices in float64 on the inputs that are timed.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers
import triton
from sentence_transformers import SentenceTransformer
from tests.builders.tiny import words
from torch import Tensor

import fairspan
from benchmarks.cpu import RESULTS, commit
from benchmarks.measure import peak_bytes, time_side_by_side
from benchmarks.models import BASE, Shape, random_batch, random_model

SIZES = [(8192, 4), (2048, 16), (512, 64)]
TILES = (64, 128, 256, 512, 2046)
LAYERS = {"float32": 4, "tf32": 4, "float16": 12, "bfloat16": 12}
"""Of the models in the grid. In half precision what a pass takes beside its layers counts; in
float32 more layers would only take longer."""
ARCHITECTURES = ("bert", "roberta", "mpnet", "modernbert", "nomic_bert", "qwen3")
# One very long and one short text besides.
MODEL_SIZES = [(32768, 1), *SIZES, (512, 1)]
TREATMENTS = ("paper", "retrieval", "tiles-64", "fair")
ROUNDS = 31
LINES: list[str] = []


def say(line: str) -> None:
    LINES.append(line)
    print(line, flush=True)


def milliseconds(call: Callable[[], object]) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def side_by_side(
    calls: dict[str, Callable[[], object]], rounds: int = ROUNDS, warm: int = 3
) -> dict[str, list[float]]:
    """Milliseconds of every callable, once a round in turning order, after rounds to warm up."""
    names = list(calls)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            spent = milliseconds(calls[name])
            if turn >= 0:
                taken[name].append(spent)
    return taken


def ratio(
    taken: dict[str, list[float]], name: str, baseline: str = "plain"
) -> tuple[float, float, float]:
    """The median of the ratios within a round, and their quartiles."""
    ratios = [a / b for a, b in zip(taken[name], taken[baseline], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, low, high


@dataclass(frozen=True)
class Setting:
    """A kind of model in the grid."""

    architecture: str
    head: int
    dtype: str

    def model(self) -> SentenceTransformer:
        """A plain model of base width on the GPU."""
        shape = Shape("grid", LAYERS[self.dtype], BASE.hidden, BASE.hidden // self.head)
        pooling = "lasttoken" if self.architecture == "qwen3" else "mean"
        plain = random_model(shape, pooling, MODEL_SIZES[0][0], self.architecture)
        dtype = torch.float32 if self.dtype == "tf32" else getattr(torch, self.dtype)
        return plain.to("cuda", dtype)


@dataclass(frozen=True)
class Ratio:
    """How long texts in tiles take, beside the plain model that reads them whole."""

    setting: Setting
    tokens: int
    texts: int
    tile: int
    plain: float
    time: float

    @property
    def limit(self) -> float:
        """What it should not exceed."""
        return 1.1 if self.tokens <= 512 else 1.0


def settings(*, quick: bool) -> list[Setting]:
    """The kinds of models in the grid."""
    if quick:
        return [Setting("bert", 64, "float32"), Setting("bert", 64, "bfloat16")]
    dtypes = ("float32", "tf32", "float16", "bfloat16")
    berts = [Setting("bert", head, dtype) for head in (32, 64, 128) for dtype in dtypes]
    others = [
        Setting(name, 64, dtype) for name in ARCHITECTURES[1:] for dtype in ("float32", "bfloat16")
    ]
    return berts + others


def ratios(setting: Setting) -> Iterator[Ratio]:
    """The times of one kind of model, in all sizes and tiles."""
    precision = "high" if setting.dtype == "tf32" else "highest"
    torch.set_float32_matmul_precision(precision)
    plain = setting.model()
    tiled = {
        str(tile): fairspan.calibrate(plain, "plain", tile_size=tile, pooling="auto")
        for tile in TILES
    }
    generator = torch.Generator().manual_seed(1)
    for tokens, texts in [*SIZES[::-1], MODEL_SIZES[0]]:
        # Plain MPNet has a bias for every pair of positions: 51 GB for so many.
        if setting.architecture == "mpnet" and tokens > 8192:
            continue
        models = {"plain": plain, **{t: model for t, model in tiled.items() if int(t) < tokens - 2}}
        calls = {name: _pass(model, tokens, texts, generator) for name, model in models.items()}
        taken = side_by_side(calls, rounds=3 if tokens < 8192 else 2, warm=1)
        plain_time = statistics.median(taken.pop("plain"))
        for tile, times in taken.items():
            slower = statistics.median(times) / plain_time
            yield Ratio(setting, tokens, texts, int(tile), plain_time, slower)
    torch.set_float32_matmul_precision("highest")


def grid(*, quick: bool = False) -> None:
    """Tiles of all sizes against plain models of base width, all without padding."""
    say(
        "\n### Tiles against plain models of base width: 12 layers, 4 in float32; random weights, "
        "mean or last-token pooling, no padding\n"
    )
    say(
        "| model | heads of | dtype | tokens × texts | plain, ms | tiles of 64 | 128 | 256 | 512 "
        "| 2,046 |"
    )
    say("|---|---|---|---|---|---|---|---|---|---|")
    started = time.perf_counter()
    over = []
    for setting in settings(quick=quick):
        by_size: dict[tuple[int, int], list[Ratio]] = {}
        for result in ratios(setting):
            by_size.setdefault((result.tokens, result.texts), []).append(result)
            over += [result] if result.time > result.limit else []
        for (tokens, texts), results in by_size.items():
            cells = [f"{result.time:.2f}" for result in results] + [""] * (5 - len(results))
            say(
                f"| {setting.architecture} | {setting.head} | {setting.dtype} | {tokens} × {texts} "
                f"| {results[0].plain:.1f} | {' | '.join(cells)} |"
            )
    spent = time.perf_counter() - started
    say(f"\n{len(over)} ratios are above 1.1 (512 tokens) or 1.0. All took {spent:.0f} s.")


def lengths() -> None:
    """What the first call costs, and calls with texts of other lengths after it."""
    plain = Setting("bert", 64, "float32").model()
    say(
        "\n### Compilation: milliseconds of the first call, and of the slowest at nine other "
        "lengths\n"
    )
    for name in ("fair", "tiles-64", "paper"):
        fair = fairspan.calibrate(plain, name)
        times = []
        for number in range(10):
            call = _pass(fair, 700 + 317 * number, 2, torch.Generator().manual_seed(number))
            times.append(milliseconds(call))
        say(f"- `{name}`: {times[0]:.0f}, then at most {max(times[1:]):.0f}")


def whole_models() -> None:
    """A base-size model in bfloat16, plain and calibrated."""
    say("\n### Whole models: base-size XLM-R, bfloat16, random weights, no padding\n")
    say(
        "| rows | calibration | tokens × texts | plain, ms | time ratio | quartiles | plain, MiB "
        "| memory | path |"
    )
    say("|---|---|---|---|---|---|---|---|---|")
    generator = torch.Generator().manual_seed(1)
    for pooling in ("cls", "mean"):
        plain = random_model(BASE, pooling, MODEL_SIZES[0][0]).to("cuda", torch.bfloat16)
        models = {"plain": plain, **{name: fairspan.calibrate(plain, name) for name in TREATMENTS}}
        for tokens, texts in MODEL_SIZES:
            calls = {name: _pass(model, tokens, texts, generator) for name, model in models.items()}
            taken = side_by_side(calls)
            memory = {name: peak_bytes(call, "cuda") / 2**20 for name, call in calls.items()}
            for name in TREATMENTS:
                middle, low, high = ratio(taken, name)
                say(
                    f"| {'all' if pooling == 'mean' else 'pooling'} | {name} | {tokens} × {texts} "
                    f"| {statistics.median(taken['plain']):.2f} | {middle:.3f} | "
                    f"{low:.3f}–{high:.3f} "
                    f"| {memory['plain']:.0f} | {memory[name] / memory['plain']:.3f} | "
                    f"{models[name][0].path} |"
                )


def _pass(
    model: SentenceTransformer, tokens: int, texts: int, generator: torch.Generator
) -> Callable[[], object]:
    batch = {name: x.to("cuda") for name, x in random_batch(texts, tokens, generator).items()}

    def run() -> object:
        with torch.inference_mode():
            return model(dict(batch))["sentence_embedding"]

    return run


def throughput() -> None:
    """`encode` on texts whose lengths are drawn evenly on a log scale from 50 to 8192 tokens."""
    say("\n### `encode` on mixed lengths (50 to 8192 tokens), CLS pooling, batches of 16\n")
    lengths = np.exp(np.random.default_rng(3).uniform(np.log(50), np.log(8190), 256)).astype(int)
    texts = [words(int(length), seed=number) for number, length in enumerate(lengths)]
    plain = random_model(BASE, "cls", SIZES[0][0]).to("cuda", torch.bfloat16)
    models = {
        "plain": plain,
        **{name: fairspan.calibrate(plain, name) for name in ("paper", "fair")},
    }
    ordered = np.sort(lengths)[::-1] + 2
    padded = sum(len(batch) * batch.max() for batch in np.array_split(ordered, len(ordered) // 16))
    calls = {
        name: partial(one.encode, texts, batch_size=16, show_progress_bar=False)
        for name, one in models.items()
    }
    rate = {
        name: ordered.sum() / one.median
        for name, one in time_side_by_side(calls, "plain", 3).items()
    }
    for name in ("paper", "fair"):
        of_plain = rate[name] / rate["plain"]
        say(
            f"- {name}: {rate[name]:,.0f} tokens/s, plain {rate['plain']:,.0f}: ratio "
            f"{of_plain:.3f}."
        )
    say(f"\nPadding is {1 - ordered.sum() / padded:.1%} of what all of them compute.")


def compiled() -> None:
    """Whole transformer modules under torch.compile without graph breaks, and under CUDA graphs."""
    say(
        "\n### `torch.compile(fullgraph=True)` of the transformer module, base-size XLM-R, "
        "bfloat16\n"
    )
    say(
        "| mode | rows | tokens × texts | plain compiled, ms | time ratio | quartiles | against "
        "not compiled |"
    )
    say("|---|---|---|---|---|---|---|")
    generator = torch.Generator().manual_seed(4)
    for mode, tokens, texts in (("default", 2048, 16), ("reduce-overhead", 512, 1)):
        for pooling, rows in (("cls", "pooling"), ("mean", "all")):
            plain = random_model(BASE, pooling, tokens).to("cuda", torch.bfloat16)
            fair = fairspan.calibrate(plain, "paper")
            batch = {
                name: x.to("cuda") for name, x in random_batch(texts, tokens, generator).items()
            }
            calls = {}
            for name, model in (("plain", plain), ("fair", fair)):
                module = torch.compile(
                    model[0], fullgraph=True, mode=None if mode == "default" else mode
                )
                calls[name] = _compiled_pass(module, model[1], batch)
            taken = side_by_side(calls, rounds=21)
            with torch.inference_mode():
                eager = fair(dict(batch))["sentence_embedding"].double()
            vectors = calls["fair"]().double()  # type: ignore[attr-defined]
            error = float((vectors - eager).norm() / eager.norm())
            middle, low, high = ratio(taken, "fair")
            say(
                f"| {mode} | {rows} | {tokens} × {texts} | "
                f"{statistics.median(taken['plain']):.2f} | {middle:.3f} "
                f"| {low:.3f}–{high:.3f} | {error:.1e} |"
            )


def _compiled_pass(module: Any, pooling: Any, batch: dict[str, Tensor]) -> Callable[[], Tensor]:
    def run() -> Tensor:
        with torch.inference_mode():
            vectors: Tensor = pooling(module(dict(batch)))["sentence_embedding"].clone()
            return vectors

    return run


PARTS = (grid, lengths, whole_models, throughput, compiled)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--record", action="store_true", help="append the tables to benchmarks/RESULTS.md"
    )
    names = [part.__name__ for part in PARTS]
    parser.add_argument(
        "--only", choices=names, action="append", help="run this part only; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the grid alone")
    given = parser.parse_args()
    say(f"\n## GPU\n\n{environment()}")
    for part in () if given.quick else PARTS:
        if given.only is None or part.__name__ in given.only:
            part()
    if given.quick:
        grid(quick=True)
    if given.record:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write("\n".join(LINES) + "\n")


def environment() -> str:
    return (
        f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}, commit {commit()}, `python -m "
        "benchmarks.gpu`, "
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, "
        f"sentence-transformers {sentence_transformers.__version__}, Triton {triton.__version__}."
    )


if __name__ == "__main__":
    main()
