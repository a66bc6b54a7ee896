"""What vectors add to keywords: nDCG@10 of BM25, of vectors, and of both together.

    python -m benchmarks.keywords MODEL --data FOLDER [--dtype float16] [--out FILE.json]

The tasks and the half of the queries are those of `benchmarks.level`. FILE has the means by task
and by what is asked for: all documents, long and short ones. `benchmarks.measured FILE.json` puts
them beside the other figures of the model.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn.functional import normalize

import fairspan
from benchmarks.level import PLAIN, REPORTED, TextSet, batched, say
from benchmarks.level_tasks import Task, english
from fairspan.model.loading import Loading, load_model
from fairspan.retrieval.keywords import NOTHING, KeywordIndex, Numbers, fuse

DEPTH = 100
"""Ranks that are fused."""
FEWEST = 20
"""Queries of a group that has a mean."""


def gains(ranks: Numbers, relevant: list[list[int]]) -> np.ndarray:
    """[queries], nDCG@10 of rankings [queries, k]."""
    discount = 1 / np.log2(np.arange(2, 12))
    scores = np.zeros(len(ranks))
    for number, (row, answers) in enumerate(zip(ranks[:, :10], relevant, strict=True)):
        hits = np.isin(row, answers) & (row != NOTHING)
        scores[number] = discount[: len(row)] @ hits / discount[: min(10, len(answers))].sum()
    return scores


def ranked(queries: Tensor, documents: Tensor) -> Numbers:
    """[queries, k], the documents with the best vectors."""
    depth = min(DEPTH, len(documents))
    return np.asarray((queries @ documents.T).topk(depth, dim=1).indices.cpu().numpy())


def fair_vectors(texts: TextSet) -> Tensor:
    """[texts, d], by the default."""
    fair = fairspan.calibrate(texts.model)
    vectors = torch.zeros(len(texts.texts), texts.model.get_embedding_dimension() or 0)
    for numbers in batched(texts.tokens):
        batch = [texts.texts[number] for number in numbers]
        encoded = fair.encode_document(batch, batch_size=len(batch), convert_to_tensor=True)
        vectors[numbers] = encoded.float().cpu()
    return normalize(vectors, dim=1).to(texts.model.device)


def measured(
    model: SentenceTransformer, tasks: Mapping[str, Task]
) -> Iterator[tuple[str, dict[str, list[float | None]]]]:
    """The means of every task, by what searched."""
    listed = [text for task in tasks.values() for text in task.documents]
    unique = {text: number for number, text in enumerate(dict.fromkeys(listed))}
    texts = TextSet(model, list(unique))
    say(f"{len(unique)} texts, {sum(texts.tokens):,} tokens, window {texts.window}")
    indexes = {"plain": texts.vectors(PLAIN), "fair": fair_vectors(texts)}
    say("read")
    for name, task in tasks.items():
        rows = [unique[text] for text in task.documents]
        encoded = model.encode_query(task.queries, convert_to_tensor=True, batch_size=512)
        queries = normalize(encoded.float(), dim=1)
        keywords = KeywordIndex(task.documents).search(task.queries, DEPTH)
        rankings = {"keywords": keywords}
        for reading, vectors in indexes.items():
            rankings[reading] = ranked(queries, vectors[rows])
            rankings[f"{reading} and keywords"] = fuse(rankings[reading], keywords)
        is_long = (texts.lengths[rows].cpu().numpy() > texts.window)[
            [numbers[0] for numbers in task.relevant]
        ]
        is_reported = np.asarray(task.half) == 1
        groups = (is_reported, is_reported & is_long, is_reported & ~is_long)
        means = {}
        for searched, ranking in rankings.items():
            scores = gains(ranking, task.relevant)
            means[searched] = [
                round(float(scores[group].mean()), 4) if group.sum() >= FEWEST else None
                for group in groups
            ]
        say(f"{name}: " + ", ".join(f"{key} {value[0]}" for key, value in means.items()))
        yield name, means


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--data", type=Path, required=True, help="folder of corpora and tasks")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--only", action="append", metavar="TASK", help="repeatable")
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(asked.model, Loading(device=device, dtype=asked.dtype))
    tasks = {name: task for name, task in english(asked.data).items() if name != REPORTED}
    if asked.only:
        tasks = {name: tasks[name] for name in asked.only}
    means = dict(measured(model, tasks))
    if asked.out:
        asked.out.write_text(json.dumps(means), "utf-8")


if __name__ == "__main__":
    main()
