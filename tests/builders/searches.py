"""Collections in BEIR's layout, and simulated evaluations: rows of any value, and logs of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.ranking import SCHEMA
from tests.builders.simulated import header_of, write_log
from tests.builders.verbs import article

Value = Callable[[str, str, int, int], float]
"""What an arm, such as "fair" or "plain/parts-all", gets under a metric at a fifth (from 1) of the
document of a cluster."""
Gains = Mapping[str, Mapping[str, float]]

WINDOW, SHORT_TOKENS, LONG_TOKENS = 512, 400, 900
"""Of simulated evaluations: documents of even clusters are short, those of odd ones long."""


def write_beir(
    folder: Path,
    documents: Sequence[Mapping[str, Any]],
    queries: Sequence[Mapping[str, Any]],
    relevant: Gains | None = None,
) -> str:
    """A folder of documents {id, text, …} and queries {id, text, document, …}; all else is
    metadata, and a gain. Queries may have several `relevant` documents instead."""
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", documents), ("queries", queries)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for row in rows:
                metadata = {key: row[key] for key in row if key not in ("id", "text", "gain")}
                line = {"_id": row["id"], "text": row["text"], "metadata": metadata}
                print(json.dumps(line), file=file)
    relevant = relevant or {row["id"]: {row["document"]: row.get("gain", 1)} for row in queries}
    judged = [f"{id}\t{one}\t{gain}" for id, own in relevant.items() for one, gain in own.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged), encoding="utf-8")
    return str(folder)


def write_articles_task(folder: Path, numbers: Sequence[int]) -> str:
    """A question about each of these articles."""
    texts = [{"id": f"d{number}", "text": article(number)} for number in numbers]
    asked = [{"id": f"q{n}", "text": f"w{n % 90}", "document": f"d{n}"} for n in numbers]
    return write_beir(folder, texts, asked)


def is_long(cluster: int) -> bool:
    return cluster % 2 == 1


def rows_of(
    value: Value,
    treatments: Sequence[str] = ("plain", "fair"),
    *,
    clusters: int = 40,
    positions: Sequence[int | None] = (1, 2, 3, 4, 5),
    metrics: Sequence[str] = ("ndcg@10",),
    indexes: Sequence[tuple[str, str]] = (),
    languages: Sequence[str] = ("",),
    tokens: Callable[[int], int] = lambda cluster: LONG_TOKENS if cluster % 2 else SHORT_TOKENS,
) -> pl.DataFrame:
    """A document for each cluster, with one query a position; `indexes` are further arms,
    (treatment, index). Clusters have the languages by turns."""
    arms = [*((treatment, "whole") for treatment in treatments), *indexes]
    rows = []
    for (treatment, index), metric in product(arms, metrics):
        name = treatment if index == "whole" else f"{treatment}/{index}"
        for cluster, position in product(range(clusters), positions):
            row = {"treatment": treatment, "measure": metric}
            row |= {"cluster": cluster, "document": f"d{cluster:03}", "index": index}
            row |= {"language": languages[cluster % len(languages)] or None, "fifth": position}
            row |= {"tokens": tokens(cluster), "query": f"q{cluster:03}-{position}"}
            row |= {"query_tokens": 9 + (cluster + (position or 0)) % 5}
            rows.append(row | {"value": float(value(name, metric, position or 0, cluster))})
    return pl.DataFrame(rows, schema=SCHEMA)


def costs_of(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """What the indexes of vectors take: of whole documents one vector, and else four."""
    documents = rows["document"].n_unique()
    first, *others = rows.select("treatment", "index").unique(maintain_order=True).rows()
    costs = []
    for treatment, index in (first, *others):
        if index in ("keywords", "fused"):
            continue
        vectors = documents if index == "whole" else 4 * documents
        moved = {"changed": documents, "distance": 0.125}
        if (treatment, index) == first or index != "whole":
            moved = {"changed": None, "distance": None}
        cost = {"documents": documents, "tokens": 20000, "seconds": 1.5, **moved}
        size = {"vectors": vectors, "bytes": vectors * 384 * 4}
        costs.append({"treatment": treatment, "index": index, **cost, **size})
    return costs


def log_of(folder: Path, rows: pl.DataFrame, **changes: Any) -> RunLog:
    """A log of these rows, whose order means nothing."""
    settings: dict[str, Any] = {
        "treatments": [name for name in dict.fromkeys(rows["treatment"]) if name != "keywords"],
        **changes.pop("spec", {}),
        "metrics": [name for name in dict.fromkeys(rows["measure"]) if name != "rank"],
    }
    task = {"source": "passages", "names": ["passages from t"], "fingerprints": ["f"]}
    task |= {"positions": "fifths"}
    counts = {"queries": "query", "documents": "document", "clusters": "cluster"}
    task |= {name: rows[column].n_unique() for name, column in counts.items()}
    study = {"window": WINDOW, "kind": "passages", "drawn_from": None, "drawn": None}
    study["costs"] = costs_of(rows)
    study = {name: changes.pop(name, value) for name, value in study.items()}
    header = header_of(EvaluateOptions(**settings), **{"task": task, "study": study, **changes})
    return write_log(folder, header, [rows.sample(fraction=1, shuffle=True, seed=3)])


def noise(scale: float = 0.05) -> Value:
    """The same for an arm's metric, position and cluster whenever it is asked for."""

    def draw(*key: Any) -> float:
        rng = np.random.default_rng(list("/".join(map(str, key)).encode()))
        return float(rng.uniform(-scale, scale))

    return draw


LEVELS = {"plain": 0.4, "fair": 0.5, "tiles-64": 0.45, "plain/parts-all": 0.7}
LEVELS |= {"keywords/keywords": 0.45, "plain/fused": 0.5, "fair/fused": 0.58}
LEVELS |= {"paper": 0.5, "retrieval": 0.45}


def usual(arm: str, metric: str, position: int, cluster: int) -> float:
    """Falls with the position, and rises with the treatment; metrics differ."""
    level = LEVELS[arm] - 0.05 * position + (0.1 if metric == "mrr" else 0.0)
    return level + noise()(arm, metric, position, cluster)


METRICS = ("ndcg@10", "mrr")
REFERENCES = (
    ("plain", "parts-all"),
    ("keywords", "keywords"),
    ("plain", "fused"),
    ("fair", "fused"),
)
"""The indexes of a usual run beside its treatments."""
