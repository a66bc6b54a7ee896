"""Search among long documents: nDCG@10 on LongEmbed's QMSum, overall and by the fifth that holds
the evidence.

    python -m benchmarks.long --data SHARED --models granite=FOLDER minilm=FOLDER
    minilm256=FOLDER@256 \\
        [--only search bm25 cost] [--device cuda] [--work DIR] [--limit 8]
    python -m benchmarks.long --only memory --models minilm=FOLDER --tokens 10000 100000 1000000

197 meetings of about 13,000 tokens, 1,527 queries. Nothing is chosen on this collection: it is for
reports only. Treatments act on documents, queries are read by the plain model. Plain models read
512 tokens, or as many as follow the folder after an @; tiles read all of a document. Intervals are
clustered by meeting.

`search`: the plain model, means of chunks of 64, 128 and 256 tokens and of the window, tiles of 64,
128 and 256 tokens, and `fair`.
`bm25`: bm25s with its defaults (Lucene's formula, k1 1.5, b .75; lower-case words of two letters or
more, without English stop words, not stemmed). Needs no model. `cost`: time and memory of one
document and one book of random words, in one run. Chunks go through the plain model in batches of
32, before their mean is taken. The plain model alone would read the beginning only and is left out.
`memory`: the peak for one text of random words under `fair`, each in a process of its own, above
what a text of 4,096 tokens has left: resident memory on a CPU, tensors on a GPU. Models that take
the mean are pooled evenly; the same weights are also run with CLS pooling.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from benchmarks.measure import peak_bytes, time_side_by_side
from benchmarks.quality import METRIC, ONLY, SIZES, NamedModel, open_model, say, short
from fairspan.encoding.chunks import mean_vector, room_of
from fairspan.encoding.tokens import ModelTokens
from fairspan.retrieval.beir import read_beir
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.metrics import gains_of, ndcg
from fairspan.retrieval.splitting import link_queries
from fairspan.runs.log import RunLog
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import QueryChange, query_effects
from fairspan.studies.evaluate.measures import (
    EvaluateEntries,
    SearchArm,
    change_of,
    query_groups,
    results_of,
    sorted_rows,
)

PARTS = ("search", "bm25", "cost", "memory")
QMSUM = "retrieval/longembed_qmsum"
FAIR = "fair"
DEPTH = 10
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
COST_HEAD = """\
| model | tokens | reading | seconds | time, of chunk-mean's | MiB | memory, of chunk-mean's |
|---|---|---|---|---|---|---|"""


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


def cell(found: Interval, form: str = ".3f") -> str:
    """An estimate with its limits."""
    low, high = (short(end, form) for end in (found.low, found.high))
    return f"{short(found.estimate, form)} [{low}, {high}]"


def line(name: str, overall: Interval, groups: Sequence[Interval], form: str = ".3f") -> str:
    return f"| {name} | {' | '.join(cell(one, form) for one in (overall, *groups))} |"


def change_line(name: str, change: QueryChange) -> str:
    return line(f"{name} (p {short(change.p_value, '.4f')})", change.overall, change.groups, "+.3f")


def window_of(subject: NamedModel) -> int:
    """Tokens of its own that a text may have for the plain model to read it whole."""
    room = room_of(ModelTokens(subject.model))
    assert room is not None
    return room


def run(model: SentenceTransformer, folder: Path, treatments: Iterable[str], **kept: Any) -> RunLog:
    options = {"documents_only": False, "too_long": "cut", "metrics": [METRIC], "progress": False}
    return fairspan.evaluate(
        model, f"beir:{folder}", treatments=list(treatments), **options, **kept
    )


def search(subject: NamedModel, folder: Path, work: Path) -> list[str]:
    """Scores of all treatments, and what `fair` gains over the plain model and over chunks of the
    same size."""
    room = window_of(subject)
    chunks, sizes = f"chunk-mean-{room}", [size for size in SIZES if size < room]
    rows = {"plain": "plain"}
    rows |= {f"mean of chunks of {size}": f"chunk-mean-{size}" for size in sizes}
    rows |= {f"mean of chunks of the window ({room})": chunks}
    rows |= {f"tiles of {size}": f"tiles-{size}{ONLY}" for size in sizes}
    rows |= {"`fair`": FAIR}
    kept = {
        "name": subject.name,
        "out": work / "runs" / subject.name,
        "store": work / "store.sqlite",
    }
    log = run(subject.model, folder, rows.values(), **kept)
    results = {one.arm.treatment: one for one in results_of(log)}
    for cost in log.header.part(EvaluateEntries).costs:
        say(f"{subject.name}, {cost.treatment}: {cost.tokens:,} tokens, {cost.seconds or 0:.1f} s")
    lines = []
    for row, treatment in rows.items():
        found = results[treatment].effects
        lines.append(line(f"{subject.name}, {row}", found.overall, found.groups))
    from_plain = results[FAIR].change
    assert from_plain is not None
    before, after = (
        sorted_rows(log.rows.filter(measure=METRIC), SearchArm(treatment, "whole"))
        for treatment in (chunks, FAIR)
    )
    groups = query_groups(before, ())[1]
    from_chunks = change_of(before, after["value"].to_numpy(), groups, log.header.seed)
    lines.append(change_line(f"{subject.name}, `fair` − plain", from_plain))
    lines.append(change_line(f"{subject.name}, `fair` − mean of chunks of the window", from_chunks))
    return lines


def bm25(folder: Path) -> list[str]:
    """BM25 on the same queries."""
    if importlib.util.find_spec("bm25s") is None:
        say("BM25 is left out: pip install bm25s")
        return []
    import bm25s  # an extra of development

    (measured,) = link_queries([MeasuredTask(read_beir(folder), {}, {}, {})])
    task = measured.task
    place = {document.id: number for number, document in enumerate(task.documents)}
    texts, asked = ([one.text for one in own] for own in (task.documents, task.queries))
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    words = bm25s.tokenize(asked, show_progress=False)
    numbers, _ = index.retrieve(words, k=min(DEPTH, len(texts)), show_progress=False)
    relevant = [
        {place[name]: gain for name, gain in task.relevant[query.id].items()}
        for query in task.queries
    ]
    values = ndcg(gains_of(numbers, relevant), [list(one.values()) for one in relevant], DEPTH)
    fifths = [
        task.evidence[one.id].fifth if one.id in task.evidence else None for one in task.queries
    ]
    groups = [0 if fifth is None else fifth + 1 for fifth in fifths]
    clusters = [query.cluster for query in task.queries]
    found = query_effects(values, groups, clusters, rng=np.random.default_rng(0))
    say(f"BM25: {found.counts.queries} queries in {found.counts.clusters} clusters")
    return [line("BM25", found.overall, found.groups)]


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
    if "bm25" in given.only:
        found += bm25(folder)
    if found:
        print("\n".join(["", HEAD, *found]), flush=True)
    if costs:
        print("\n".join(["", COST_HEAD, *costs]), flush=True)


if __name__ == "__main__":
    main()
