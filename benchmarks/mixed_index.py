"""May plain and treated vectors of one model stand in one index? Half of the documents of each, on
real tasks.

    python -m benchmarks.mixed_index --models all-MiniLM-L6-v2 FOLDER --tasks beir:FOLDER pages
    [--store FILE]

Queries are embedded as the plain model does. A mixed index has a random half of the documents
treated and the rest plain; every draw is searched twice, the second time with the halves exchanged,
so that each document is plain in one and treated in the other. "Treated in the top 10" is then 0.5
where neither kind is favoured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairspan.calibration.treatment import as_treatments
from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store, default_store
from fairspan.report.text import model_name
from fairspan.retrieval.metrics import gains_of, ndcg
from fairspan.retrieval.search import search
from fairspan.retrieval.source import TaskOptions, find_source
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.progress import Silent
from fairspan.runs.subject import Embed, Embedder, Subject, open_subject

DEPTH = 10
DRAWS = 5
HEAD = """| model | task | treatment | documents | queries | nDCG@10 all plain | mixed \
| all treated | treated in the top 10 | found when plain | found when treated \
| cosine, plain and treated |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def unit(vectors: np.ndarray) -> np.ndarray:
    made: np.ndarray = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return made


def vectors_of(
    subject: Subject, encoder: Encoder, texts: Sequence[str], side: str, embed: Embed
) -> np.ndarray:
    lengths = subject.counters[side].count_whole(texts)
    return unit(embed(encoder, [Text(*one) for one in zip(texts, lengths, strict=True)]))


def shortened(task: RetrievalTask, most: int | None) -> RetrievalTask:
    """All documents that answer a query, and the first others."""
    wanted = {document for query in task.queries for document in task.relevant[query.id]}
    first = [one.id for one in task.documents if one.id not in wanted]
    kept = wanted | set(first if most is None else first[: max(0, most - len(wanted))])
    return replace(task, documents=tuple(one for one in task.documents if one.id in kept))


def row(subject: Subject, tasks: Sequence[RetrievalTask], name: str, embed: Embed) -> str:
    """The means over all queries of all editions of a task, and over the draws of a mixed index."""
    plain, treated = as_treatments(["none", name])
    subject = subject.reading([plain, treated])
    under = [subject.under(one, embed=embed) for one in (plain, treated)]
    scores: dict[str, list[float]] = {
        key: [] for key in ("plain", "treated", "mixed", "share", "cosine")
    }
    found: dict[bool, list[float]] = {True: [], False: []}
    rng = np.random.default_rng(0)
    for task in tasks:
        texts = [document.text for document in task.documents]
        place = {document.id: number for number, document in enumerate(task.documents)}
        relevant = [
            {place[one]: gain for one, gain in task.relevant[query.id].items() if gain > 0}
            for query in task.queries
        ]
        kinds = [vectors_of(subject, one.documents, texts, "document", embed) for one in under]
        asked = vectors_of(
            subject, under[0].queries, [query.text for query in task.queries], "query", embed
        )
        scores["cosine"].append(float((kinds[0] * kinds[1]).sum(axis=1).mean()))

        def measured(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            numbers = search(asked, index, DEPTH)  # noqa: B023 - called within the loop
            gains = gains_of(numbers, relevant)  # noqa: B023
            return numbers, ndcg(gains, [list(one.values()) for one in relevant], DEPTH)  # noqa: B023

        for key, index in zip(("plain", "treated"), kinds, strict=True):
            scores[key] += measured(index)[1].tolist()
        for _ in range(DRAWS):
            half = np.zeros(len(texts), dtype=bool)
            half[rng.permutation(len(texts))[: len(texts) // 2]] = True
            for chosen in (half, ~half):
                numbers, values = measured(np.where(chosen[:, None], kinds[1], kinds[0]))
                scores["mixed"] += values.tolist()
                scores["share"].append(float(chosen[numbers].mean()))
                for ranking, wanted in zip(numbers, relevant, strict=True):
                    for document in wanted:
                        found[bool(chosen[document])].append(float(document in ranking))
    documents = len({document.id for task in tasks for document in task.documents})
    queries = sum(len(task.queries) for task in tasks)
    means = {key: float(np.mean(values)) for key, values in scores.items()}
    return (
        f"| {model_name(subject.name)} | {tasks[0].name} | {name} | {documents:,} | {queries:,} "
        f"| {means['plain']:.3f} | {means['mixed']:.3f} | {means['treated']:.3f} | "
        f"{means['share']:.3f} "
        f"| {np.mean(found[False]):.3f} | {np.mean(found[True]):.3f} | {means['cosine']:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--corpus", default="sample", help="of pages")
    parser.add_argument("--sets", type=int, default=100, help="number of pages")
    parser.add_argument("--most", type=int, help="documents of a collection")
    parser.add_argument("--treatments", nargs="+", default=["fair", "chunk-mean"])
    parser.add_argument("--store", type=Path, default=default_store())
    given = parser.parse_args()
    print(HEAD, flush=True)
    with Store(given.store) as store:
        embed = Embedder(store, 4096, Tally(), Silent()).embed
        for model in given.models:
            subject = open_subject(model)
            for task in given.tasks:
                if task == "pages":
                    drawn = {
                        "corpus": given.corpus,
                        "languages": ["en"],
                        "sets": given.sets,
                        "editions": 1,
                    }
                    tasks = find_source(task, TaskOptions(**drawn)).read(subject.counter)
                else:
                    tasks = [
                        shortened(one, given.most)
                        for one in find_source(task, TaskOptions()).read(subject.counter)
                    ]
                for name in given.treatments:
                    print(row(subject, tasks, name, embed), flush=True)


if __name__ == "__main__":
    main()
