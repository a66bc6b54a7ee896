"""What whitening is fitted on decides what it finds: nDCG@10 of one collection under several fits.

    python -m benchmarks.whitening MODEL beir:FOLDER --fit-corpus CORPUS [--documents 1000]

Of larger collections, documents that answer a query are searched among the first of the others.
"""

from __future__ import annotations

import argparse

import numpy as np

from fairspan.calibration.treatment import as_treatments
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.fill import Tally
from fairspan.encoding.store import Store, default_store
from fairspan.encoding.text import Text
from fairspan.model.baselines import fit_whitening
from fairspan.retrieval.metrics import gains_of, ndcg
from fairspan.retrieval.search import search
from fairspan.retrieval.source import TaskOptions, find_source
from fairspan.runs.fit_part import choose_fit_part
from fairspan.runs.progress import Silent
from fairspan.runs.subject import Embedder, open_subject

DEPTH = 10
FEW = 256


def whitened(
    vectors: np.ndarray, fitted_on: np.ndarray, dimensions: int | None = None
) -> np.ndarray:
    """Whitened vectors of length 1."""
    whitening = fit_whitening(fitted_on, dimensions=dimensions)
    made = (vectors - whitening.mean) @ whitening.matrix
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def main() -> None:
    """Print a row for each fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("task")
    parser.add_argument("--fit-corpus", required=True)
    parser.add_argument("--documents", type=int, default=1000)
    asked = parser.parse_args()
    subject = open_subject(asked.model)
    treatments = as_treatments(["plain", "whitening"])
    subject = subject.reading(treatments)
    (task,) = find_source(asked.task, TaskOptions()).read(subject.counter)
    judged = {id for gains in task.relevant.values() for id, gain in gains.items() if gain > 0}
    kept = sorted(task.documents, key=lambda document: document.id not in judged)[: asked.documents]
    texts = {
        "document": [document.text for document in kept],
        "query": [query.text for query in task.queries],
    }
    corpus = Corpus.read(asked.fit_corpus, None, partial=True)
    tested = [*texts["document"], *texts["query"]]
    part = choose_fit_part(treatments, subject.model, subject.counter, corpus, tested, seed=0)
    with Store(default_store()) as store:
        embedder = Embedder(store, 4096, Tally(), Silent())
        treated = subject.under(treatments[0], embed=embedder.embed)
        encoders = {"document": treated.documents, "query": treated.queries}
        vectors = {}
        for side, encoder in encoders.items():
            counted = map(Text, texts[side], subject.counters[side].count_whole(texts[side]))
            vectors[side] = embedder.embed(encoder, list(counted))
        others = embedder.embed(treated.documents, part.texts)
    documents = vectors["document"]
    queries = vectors["query"]
    numbers = {document.id: number for number, document in enumerate(kept)}
    relevant = [
        {
            numbers[id]: gain
            for id, gain in task.relevant[query.id].items()
            if id in numbers and gain
        }
        for query in task.queries
    ]
    both = np.concatenate([documents, queries])
    fits = {
        f"{len(others):,} other texts of at most 128 tokens": (others, others, None),
        f"the same, {FEW} dimensions": (others, others, FEW),
        f"the {len(documents):,} documents": (documents, documents, None),
        "documents and queries": (both, both, None),
        f"{FEW} of the documents": (documents[:FEW], documents[:FEW], None),
        f"each side on itself, {FEW} dimensions": (documents, queries, FEW),
    }
    sides = {"not whitened": (documents, queries)}
    for name, (for_documents, for_queries, kept_dimensions) in fits.items():
        sides[name] = (
            whitened(documents, for_documents, kept_dimensions),
            whitened(queries, for_queries, kept_dimensions),
        )
    print(f"{task.name}: {len(documents):,} documents, {len(queries):,} queries")
    for name, (searched, asking) in sides.items():
        ranked = search(asking, searched, DEPTH)
        scores = ndcg(
            gains_of(ranked, relevant), [list(gains.values()) for gains in relevant], DEPTH
        )
        print(f"| {name} | {scores.mean():.3f} |")


if __name__ == "__main__":
    main()
