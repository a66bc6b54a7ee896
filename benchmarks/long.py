"""Search among long documents: nDCG@10 on LongEmbed's QMSum, overall and by the fifth that holds
the evidence.

    python -m benchmarks.long --data GLOBAL --models granite=FOLDER minilm=FOLDER
    minilm256=FOLDER@256 \\
        [--only search cost] [--device cuda] [--work DIR] [--limit 8]
    python -m benchmarks.long --only memory --models minilm=FOLDER --tokens 10000 100000 1000000

197 meetings of about 13,000 tokens, 1,527 queries. Nothing is chosen on this collection: it is for
reports only. Treatments act on documents, queries are read by the plain model. Plain models read
512 tokens, or as many as follow the folder after an @; tiles read all of a document. Intervals are
clustered by meeting.

`search`: the plain model, means of chunks of 64, 128 and 256 tokens and of the window, tiles of 64,
128 and 256 tokens, `fair`, and keywords (BM25, k1 1.5, b .75, not stemmed).
`cost`: time and memory of one document and one book of random words, in one run. Chunks go through
the plain model in batches of 32, before their mean is taken. The plain model alone would read the
beginning only and is left out.
`memory`: the peak for one text of random words under `fair`, each in a process of its own, above
what a text of 4,096 tokens has left: resident memory on a CPU, tensors on a GPU. Models that take
the mean are pooled evenly; the same weights are also run with CLS pooling.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from benchmarks.measure import peak_bytes, short, time_side_by_side
from fairspan.encoding.chunks import chunk_tokens
from fairspan.encoding.tokens import ModelTokens
from fairspan.model.averages import mean_vector
from fairspan.model.loading import Loading, load_model
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import Floats
from fairspan.stats.estimates import Estimates
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.measures import (
    SearchArm,
    compare_arms,
    compared,
    groups_by,
    sorted_rows,
)

PARTS = ("search", "cost", "memory")
METRIC = "ndcg@10"
# Models read their 512 positions, and in tiles any length.
MAX_SEQ_LENGTH = 1_000_000
SIZES = (64, 128, 256)
QMSUM = "retrieval/longembed_qmsum"
FAIR = "fair"
# Each is one token to most tokenizers.
WORDS = (
    "the",
    "of",
    "and",
    "to",
    "in",
    "was",
    "for",
    "it",
    "with",
    "as",
    "on",
    "by",
    "had",
    "not",
    "are",
    "but",
)
HEAD = """\
| model, documents | all queries | fifth 1 | fifth 2 | fifth 3 | fifth 4 | fifth 5 |
|---|---|---|---|---|---|---|"""
POOLINGS = ("mean", "cls")
MEMORY_HEAD = """\
| model | pooling | tokens | seconds | peak, MiB | KiB per token |
|---|---|---|---|---|---|"""
STARTED = time.monotonic()
COST_HEAD = """\
| model | tokens | reading | seconds | time, of chunk-mean's | MiB | memory, of chunk-mean's |
|---|---|---|---|---|---|---|"""


def say(line: str) -> None:
    print(f"[{time.monotonic() - STARTED:7.1f} s] {line}", flush=True)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model in float32 under the name that tables show."""

    name: str
    model: SentenceTransformer


def open_model(given: str, device: str | None) -> NamedModel:
    """Load NAME=FOLDER or NAME=FOLDER@TOKENS, which are the tokens that the plain model reads."""
    found = re.fullmatch(r"(.+?)=(.+?)(?:@(\d+))?", given)
    if found is None:
        raise SystemExit(
            f"a model is given as NAME=FOLDER, such as granite=models/granite, got {given!r}."
        )
    name, folder, tokens = found.groups()
    model = load_model(folder, Loading(None, device, "float32"))
    model.max_seq_length = int(tokens or MAX_SEQ_LENGTH)
    say(f"{name}: loaded on {model.device}")
    return NamedModel(name, model)


def first_meetings(folder: Path, into: Path, limit: int | None) -> Path:
    """The collection, or a copy of its first documents with the queries that only they answer."""
    if limit is None:
        return folder
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    corpus = (folder / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)[:limit]
    names = {json.loads(line)["_id"] for line in corpus}
    head, *lines = (folder / "qrels/test.tsv").read_text("utf-8").splitlines(keepends=True)
    gone = {line.split("\t")[0] for line in lines if line.split("\t")[1] not in names}
    kept = [line for line in lines if line.split("\t")[0] not in gone]
    (into / "corpus.jsonl").write_text("".join(corpus), "utf-8")
    (into / "queries.jsonl").write_bytes((folder / "queries.jsonl").read_bytes())
    (into / "qrels/test.tsv").write_text("".join([head, *kept]), "utf-8")
    return into


def cell(found: Estimates[float], form: str = ".3f") -> str:
    """An estimate with its limits."""
    low, high = (short(end, form) for end in (found.low, found.high))
    return f"{short(found.estimate, form)} [{low}, {high}]"


def line(name: str, results: Estimates[Floats], form: str = ".3f") -> str:
    cells = [cell(results[place], form) for place in range(len(results.estimate))]
    return f"| {name} | {' | '.join(cells)} |"


def change_line(name: str, changes: Estimates[Floats] | None) -> str:
    assert changes is not None
    return line(f"{name} (p {short(changes.p[0], '.4f')})", changes, "+.3f")


def window_of(subject: NamedModel) -> int:
    """Tokens of its own that a text may have for the plain model to read it whole."""
    return chunk_tokens("window", ModelTokens(subject.model))


def run(model: SentenceTransformer, folder: Path, treatments: Iterable[str], **kept: Any) -> RunLog:
    options: dict[str, Any] = {"vectors": ["1"], "metrics": [METRIC], "progress": False}
    return fairspan.evaluate(model, str(folder), treatments=list(treatments), **options, **kept)


def search(subject: NamedModel, folder: Path, work: Path) -> list[str]:
    """Scores of all treatments, and what `fair` gains over the plain model and over chunks of the
    same size."""
    room = window_of(subject)
    chunks, sizes = f"chunk-mean-{room}", [size for size in SIZES if size < room]
    rows = {"plain": "plain"}
    rows |= {f"mean of chunks of {size}": f"chunk-mean-{size}" for size in sizes}
    rows |= {f"mean of chunks of the window ({room})": chunks}
    rows |= {f"tiles of {size}": f"tiles-{size}+sides=document" for size in sizes}
    rows |= {"`fair`": FAIR}
    kept = {
        "name": subject.name,
        "out": work / "runs" / subject.name,
        "store": work / "store.sqlite",
    }
    log = run(subject.model, folder, rows.values(), **kept)
    groups = groups_by(log, METRIC, "position")
    results = {result.arm: result for result in compare_arms(log, METRIC, groups)}
    for cost in log.header.part(EvaluateEntries).costs:
        say(f"{subject.name}, {cost.treatment}: {cost.tokens:,} tokens, {cost.seconds or 0:.1f} s")
    lines = []
    for row, treatment in rows.items():
        lines.append(line(f"{subject.name}, {row}", results[SearchArm(treatment, "whole")].means))
    lines.append(line("keywords", results[SearchArm("keywords", "keywords")].means))
    fair = SearchArm(FAIR, "whole")
    before = results[SearchArm(chunks, "whole")].values
    from_chunks = compared(fair, sorted_rows(log, METRIC, fair), groups, before)
    lines.append(change_line(f"{subject.name}, `fair` − plain", results[fair].changes))
    name = f"{subject.name}, `fair` − mean of chunks of the window"
    lines.append(change_line(name, from_chunks.changes))
    return lines


def cost(subject: NamedModel, tokens: int) -> list[str]:
    """Time and memory of one text, side by side."""
    model, room = subject.model, window_of(subject)
    words = random.Random(0).choices(WORDS, k=tokens)
    text, count = " ".join(words), -(-tokens // room)
    chunks = [" ".join(own) for own in np.array_split(words, count)]
    options = {"show_progress_bar": False}

    def mean_of_chunks() -> object:
        return mean_vector(np.asarray(model.encode_document(chunks, **options)), normalise=True)

    calls: dict[str, Callable[[], object]] = {f"mean of {count} chunks": mean_of_chunks}
    for preset in ("fair", "tiles-64"):
        fair = fairspan.calibrate(model, preset)
        calls[f"`{preset}`"] = lambda fair=fair: fair.encode_document(text, **options)
    baseline, device = next(iter(calls)), model.device.type
    timings = time_side_by_side(calls, baseline, 5 if device == "cuda" else 1)
    peaks = {name: peak_bytes(call, device) / 2**20 for name, call in calls.items()}
    return [
        f"| {subject.name} | {tokens:,} | {name} | {one.median:.3f} | {one.ratio:.2f} | "
        f"{peaks[name]:,.0f} "
        f"| {peaks[name] / peaks[baseline]:.2f} |"
        for name, one in timings.items()
    ]


def memory(named: str, device: str | None, tokens: Iterable[int]) -> Iterator[str]:
    """The peak for one text of each length and pooling."""
    fresh = multiprocessing.get_context("spawn")
    for count in tokens:
        for pooling in POOLINGS:
            with ProcessPoolExecutor(1, mp_context=fresh) as process:
                yield process.submit(peak_of, named, device, pooling, count).result()


def peak_of(named: str, device: str | None, pooling: str, tokens: int) -> str:
    """What one text needs, as a line."""
    subject = open_model(named, device)
    subject.model[1].pooling_mode = pooling
    fair = fairspan.calibrate(subject.model, "fair")
    words = random.Random(0).choices(WORDS, k=tokens)
    on_gpu = fair.device.type == "cuda"

    def held() -> int:
        if on_gpu:
            return torch.cuda.max_memory_allocated()
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    fair.encode_document(" ".join(words[:4096]), show_progress_bar=False)
    text = " ".join(words)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if on_gpu else held()
    start = time.perf_counter()
    fair.encode_document(text, show_progress_bar=False)
    peak = held() - before
    return (
        f"| {subject.name} | {pooling} | {tokens:,} | {time.perf_counter() - start:.1f} | "
        f"{peak / 2**20:,.0f} | {peak / 2**10 / tokens:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=[], metavar="NAME=FOLDER[@TOKENS]")
    parser.add_argument("--data", type=Path, help=f"the folder with {QMSUM}")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "long", help="runs and vectors"
    )
    parser.add_argument("--device", help="cpu or cuda; by default the fastest that is there")
    parser.add_argument("--limit", type=int, help="number of meetings, for a quick check")
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[13_000, 200_000], help="of texts for cost, memory"
    )
    given = parser.parse_args()
    if given.only == ["memory"]:
        print(MEMORY_HEAD, flush=True)
        for named in given.models:
            for row in memory(named, given.device, given.tokens):
                print(row, flush=True)
        return
    if given.data is None:
        raise SystemExit("all parts but memory need --data.")
    work = given.work / str(given.limit)
    folder = first_meetings(given.data / QMSUM, work / "longembed_qmsum", given.limit)
    found, costs = list[str](), list[str]()
    for subject in (open_model(one, given.device) for one in given.models):
        if "search" in given.only:
            found += search(subject, folder, work)
        if "cost" in given.only:
            costs += [row for tokens in given.tokens for row in cost(subject, tokens)]
    if found:
        print("\n".join(["", HEAD, *found]), flush=True)
    if costs:
        print("\n".join(["", COST_HEAD, *costs]), flush=True)


if __name__ == "__main__":
    main()
