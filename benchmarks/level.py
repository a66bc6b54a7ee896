"""Which reading suits an index of short and long documents? What each finds, query by query.

    python -m benchmarks.level MODEL --data FOLDER --out FILE.npz [--dtype float16] [--languages]

Every reading is a size of tiles, a temperature, a pooling, a scope and whether vectors are level.
The scope is "all" texts, or only those that exceed the window ("longer"); "alike" means that texts
of one tile have the temperature and the pooling of the others. Documents are read so, queries are
not. FILE holds nDCG@10 of every query under every reading, of which `benchmarks.measured` makes
tables.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device
from torch import Tensor
from torch.nn.functional import normalize

import fairspan
from benchmarks.level_tasks import LANGUAGES, Task, english, general_texts, multilingual
from fairspan.calibration.calibration import WIDEST_WINDOW, Calibration
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import counter_of, prompt_of, window_of
from fairspan.model.even import takes_mean
from fairspan.model.level import Level

SIZES: tuple[int | str, ...] = (64, 128, 256, "window")
PARTS = (2, 4, 8)
PARTED = ("docs", "essays", "pages16", "qmsum")
CHUNKED = ("docs", "wikipedia", "essays", "pages16", "qmsum")
REPORTED = "qmsum"
"""Chooses nothing, and is read in fewer ways: it is as long as everything else."""
BUDGET = 65536
STARTED = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - STARTED:6.1f} s] {line}", flush=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """How documents are read; a size of None stands for no tiles."""

    size: int | str | None = None
    temperature: float = 1.0
    even: bool = False

    @property
    def calibration(self) -> Calibration:
        return Calibration(
            strength=0.0,
            temperature=self.temperature,
            tile_size=self.size,
            pooling="even" if self.even else "model",
            sides="document",
        )

    def __str__(self) -> str:
        pooling = "even" if self.even else "own"
        return f"{self.size or 'plain'}/{self.temperature:g}/{pooling}"


PLAIN = Reading()


class TextSet:
    """Texts with their vectors under every reading that was asked for: [texts, d] at length 1.

    A text that is one tile has no vector in tiles, nor has one that exceeds the window any under
    a reading without tiles, but for the plain model's.
    """

    def __init__(self, model: SentenceTransformer, texts: Sequence[str]) -> None:
        self.model = model
        self.texts = list(texts)
        self.counter = counter_of(model, prompt_of(model, "document"))
        self.window = min(window_of(model) or WIDEST_WINDOW, WIDEST_WINDOW)
        self.special = self.counter.count_whole([""])[0]
        self.tokens = self.counter.count_whole(self.texts)
        self.lengths = torch.tensor(self.tokens, device=model.device)
        self._batches: dict[bool, list[tuple[list[int], dict[str, Any]]]] = {}
        self._vectors: dict[Reading, Tensor] = {}

    def whole(self, reading: Reading) -> int:
        """The most tokens of a text that is one tile."""
        return self.window if reading.size == "window" else int(reading.size or 0) + self.special

    def vectors(self, reading: Reading) -> Tensor:
        if reading not in self._vectors:
            self._vectors[reading] = self._read(reading)
        return self._vectors[reading]

    def _read(self, reading: Reading) -> Tensor:
        fair = fairspan.calibrate(self.model, reading.calibration)
        dimension = self.model.get_embedding_dimension()
        vectors = torch.zeros(len(self.texts), dimension, device=self.model.device)
        is_tiled = reading.size is not None
        with torch.inference_mode():
            for numbers, features in self._batched(fair, tiled=is_tiled):
                shortest, longest = self.tokens[numbers[0]], self.tokens[numbers[-1]]
                if is_tiled and longest <= self.whole(reading):
                    continue
                if not is_tiled and reading != PLAIN and shortest > self.window:
                    continue
                vectors[numbers] = fair(dict(features))["sentence_embedding"].float()
        return normalize(vectors, dim=1)

    def _batched(
        self, fair: SentenceTransformer, *, tiled: bool
    ) -> list[tuple[list[int], dict[str, Any]]]:
        """Texts of similar lengths together, tokenised once; the shortest first."""
        if tiled not in self._batches:
            limit = None if tiled else window_of(self.model)
            self._batches[tiled] = []
            for numbers in batched([min(count, limit or count) for count in self.tokens]):
                chosen = [self.texts[number] for number in numbers]
                prompt = self.counter.prompt or None
                features = fair.preprocess(chosen, prompt=prompt, task="document")
                self._batches[tiled].append((numbers, batch_to_device(features, fair.device)))
        return self._batches[tiled]

    def under(self, reading: Reading, scope: str, *, alike: bool) -> Tensor:
        """The vectors of an index in which only texts of a scope are read in tiles."""
        most = self.whole(reading)
        if scope == "longer":
            most = max(most, self.window)
        untiled = Reading(None, reading.temperature, reading.even) if alike else PLAIN
        is_short = (self.lengths <= most)[:, None]
        return torch.where(is_short, self.vectors(untiled), self.vectors(reading))

    def indexes(self, readings: Sequence[Reading]) -> Iterator[tuple[str, Tensor]]:
        """The vectors of every reading in every scope, by name."""
        yield "plain", self.vectors(PLAIN)
        for reading, scope, alike in product(readings, ("all", "longer"), (False, True)):
            if scope == "longer" and self.whole(reading) >= self.window:
                continue
            if alike and (reading.temperature, reading.even) == (1.0, False):
                continue
            name = f"{reading}/{scope}{'/alike' if alike else ''}"
            yield name, self.under(reading, scope, alike=alike)


def batched(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of texts, so that each batch has at most `BUDGET` tokens with its padding."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and lengths[number] * (len(batch) + 1) > BUDGET:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def cut(texts: TextSet, rule: PartRule) -> tuple[TextSet, Tensor]:
    """The parts of texts, and the number of each part's text."""
    spans_of = part_spans(texts.texts, texts.counter, rule, texts.window)
    pairs = zip(texts.texts, spans_of, strict=True)
    parts = [text[slice(*span)] for text, spans in pairs for span in spans]
    counts = torch.tensor([len(spans) for spans in spans_of])
    owner = torch.repeat_interleave(torch.arange(len(counts)), counts)
    return TextSet(texts.model, parts), owner.to(texts.model.device)


def ndcg(
    queries: Tensor, documents: Tensor, relevant: Tensor, owner: Tensor | None = None
) -> Tensor:
    """[queries]: nDCG@10; `owner` is [parts], the document of each, of which the best counts."""
    scores = queries @ documents.T
    if owner is not None:
        best = scores.new_full((len(queries), relevant.shape[1]), -torch.inf)
        scores = best.scatter_reduce(1, owner.expand_as(scores), scores, "amax")
    depth = min(10, relevant.shape[1])
    discount = 1 / torch.log2(torch.arange(2, depth + 2, device=scores.device).float())
    gains = relevant.gather(1, scores.topk(depth, dim=1).indices).float() @ discount
    count = relevant.sum(dim=1).clamp(max=depth)
    return gains / discount.cumsum(0)[count - 1]


class Measured:
    """The scores of one task under every reading."""

    def __init__(self, task: Task, queries: Tensor, levels: Mapping[str, Level]) -> None:
        self.queries = queries
        relevant = torch.zeros(len(task.queries), len(task.documents), dtype=torch.bool)
        for number, documents in enumerate(task.relevant):
            relevant[number, documents] = True
        self.relevant = relevant.to(queries.device)
        self.levels = levels
        self.scores: dict[str, np.ndarray] = {}

    def add(self, name: str, vectors: Tensor, owner: Tensor | None = None) -> None:
        """Score an index as it is and level."""
        for kind, level in {"": None, **self.levels}.items():
            made = vectors if level is None else level.level(vectors)
            scores = ndcg(self.queries, made, self.relevant, owner)
            self.scores[f"{name}{kind}"] = scores.cpu().numpy()


def measure(model: SentenceTransformer, tasks: Mapping[str, Task], out: Path, few: bool) -> None:
    """Write nDCG@10 of every query by task and reading, with what is known of the query."""
    is_mean = takes_mean(model)
    how = [(0.8, is_mean), (1.0, is_mean), (1.0, False)]
    how = list(dict.fromkeys(how))
    readings = [Reading(size, *one) for size, one in product(SIZES, how)]
    levels, shares = {}, {}
    for kind, languages in {"+en": LANGUAGES[:1], "+six": LANGUAGES}.items():
        vectors = TextSet(model, general_texts(languages)).vectors(PLAIN)
        common = fairspan.fit_level(vectors.cpu().numpy())
        levels[kind] = Level(common).to(model.device)
        shares[kind] = common.share
    say(f"shares {shares}")
    results: dict[str, np.ndarray] = {"share": np.array(list(shares.values()))}
    documents = [t for name, task in tasks.items() if name != REPORTED for t in task.documents]
    unique = {text: number for number, text in enumerate(dict.fromkeys(documents))}
    everything = TextSet(model, list(unique))
    say(f"{len(unique)} texts, {sum(everything.tokens):,} tokens, window {everything.window}")
    results["window"] = np.array(everything.window)
    for reading in readings:
        everything.vectors(reading)
        say(f"read under {reading}")
    indexes = dict(everything.indexes(readings))
    for name, task in tasks.items():
        encoded = model.encode_query(task.queries, convert_to_tensor=True, batch_size=512)
        measured = Measured(task, normalize(encoded.float(), dim=1), levels)
        texts = everything
        rows = torch.tensor([unique.get(text, 0) for text in task.documents])
        if name == REPORTED:
            texts = TextSet(model, task.documents)
            rows = torch.arange(len(task.documents))
            reported = readings[:: len(how)]
            indexes = dict(texts.indexes(reported))
        rows = rows.to(model.device)
        for index, vectors in indexes.items():
            measured.add(index, vectors[rows])
        if name in CHUNKED:
            own = TextSet(model, task.documents)
            chunks, owner = cut(own, PartRule(tokens=own.window - own.special))
            vectors = chunks.vectors(PLAIN)
            mean = torch.zeros(len(own.texts), vectors.shape[1], device=model.device)
            measured.add("chunks", normalize(mean.index_add(0, owner, vectors), dim=1))
            measured.add("one per chunk", vectors, owner)
            results[f"{name}|chunks"] = np.array(len(owner) / len(own.texts))
        for count in PARTS if name in PARTED else ():
            parts, owner = cut(TextSet(model, task.documents), PartRule(count))
            sizes = SIZES[1:2] if few or name == REPORTED else SIZES[:3]
            ways = how[:1] if few or name == REPORTED else how[:2]
            parted = [Reading(size, *way) for size, way in product(sizes, ways)]
            for index, vectors in parts.indexes(parted):
                if index == "plain" or index.endswith(("all", "all/alike")):
                    measured.add(f"{index}, {count} parts", vectors, owner)
        lengths = texts.lengths[rows].cpu().numpy()
        is_long = lengths > texts.window
        mu = levels["+en"].direction
        shown = [key for key in indexes if key == "plain" or "128/0.8" in key]
        results |= {
            f"{name}|scores": np.array([*measured.scores.values()]).astype(np.float16),
            f"{name}|readings": np.array([*measured.scores]),
            f"{name}|half": np.array(task.half, dtype=np.int8),
            f"{name}|cluster": np.array(task.cluster, dtype=np.int32),
            f"{name}|fifth": np.array(task.fifth, dtype=np.int8),
            f"{name}|long": np.array([is_long[numbers[0]] for numbers in task.relevant]),
            f"{name}|lengths": lengths.astype(np.int32),
            f"{name}|shares": np.array([(indexes[key][rows] @ mu).cpu().numpy() for key in shown]),
            f"{name}|share readings": np.array(shown),
        }
        np.savez_compressed(out, **results)
        means = {key: measured.scores[key].mean() for key in ("plain", "plain+en")}
        means |= {
            k: s.mean()
            for k, s in measured.scores.items()
            if k.startswith("128/0.8") and k.endswith("all+en")
        }
        say(f"{name}: " + ", ".join(f"{key} {value:.3f}" for key, value in means.items()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True, help="folder of corpora and tasks")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--only", action="append", metavar="TASK", help="repeatable")
    parser.add_argument("--languages", action="store_true", help="also tasks in other languages")
    parser.add_argument("--few", action="store_true", help="one reading of parts")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, asked.dtype)
    model = SentenceTransformer(asked.model, device=device, model_kwargs={"dtype": dtype})
    tasks = english(asked.data)
    if asked.languages:
        tasks |= multilingual(asked.data)
    if asked.only:
        tasks = {name: tasks[name] for name in asked.only}
    say(f"{asked.model}: {len(tasks)} tasks")
    measure(model, tasks, asked.out, asked.few)
    say("done")


if __name__ == "__main__":
    main()
