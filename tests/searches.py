"""Collections in BEIR's layout, and simulated evaluations: rows of any value, and logs of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairspan.runs.header import Timings, parse_header
from fairspan.runs.log import LogWriter, RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.logs import read_log

ONLY = "+sides=document"
Value = Callable[[str, str, int, int], float]
"""What a treatment gets under a metric at a position (from 1) in a cluster."""


Gains = Mapping[str, Mapping[str, float]]


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


def rows_of(
    value: Value,
    treatments: Sequence[str] = ("plain", "paper", f"paper{ONLY}"),
    *,
    clusters: int = 12,
    positions: Sequence[int | None] = (1, 2, 3, 4),
    metrics: Sequence[str] = ("ndcg@10",),
    indexes: Sequence[tuple[str, str]] | None = None,
    plans: Sequence[tuple[str, str]] = (("en", "en"),),
    editions: int = 1,
) -> pl.DataFrame:
    """One query for each cluster, position, edition and plan; `indexes` are further arms,
    (treatment, index)."""
    arms = [*((treatment, "whole") for treatment in treatments), *(indexes or ())]
    rows = []
    for (treatment, index), metric, (lead, later) in product(arms, metrics, plans):
        for edition, cluster, position in product(range(editions), range(clusters), positions):
            name = treatment if index == "whole" else f"{treatment}/{index}"
            row = {"run": "r", "model": "m", "treatment": treatment, "measure": metric}
            row |= {"set": cluster, "order": edition, "document": f"d{cluster}", "part": index}
            row |= {"language": lead or None, "lead": lead or None, "later": later or None}
            row |= {"position": position, "n": None if position is None else 4, "tokens": 500}
            row |= {"query": f"q{cluster}-{position}", "query_tokens": 9}
            rows.append(row | {"value": float(value(name, metric, position or 0, cluster))})
    return pl.DataFrame(rows, schema=SCHEMA)


def log_of(folder: Path, rows: pl.DataFrame, *, shuffled: bool = True, **changes: Any) -> RunLog:
    """A log of these rows, whose order means nothing."""
    treatments = list(dict.fromkeys(rows["treatment"]))
    given = [name for name in treatments if name.removesuffix(ONLY) not in {*treatments} - {name}]
    settings = {"treatments": given, "documents_only": given != treatments}
    settings |= changes.pop("spec", {})
    settings["metrics"] = [name for name in dict.fromkeys(rows["measure"]) if name != "rank"]
    spec = EvaluateOptions(**settings).asked
    positions = changes.pop("positions", "segments" if rows["lead"][0] else "fifths")
    cost = {"documents": 40, "tokens": 20000, "seconds": 1.5, "bytes": 40 * 384 * 4}
    cost |= {"searched_documents": 40}
    costs = [
        {"treatment": treatment, "index": index, "vectors": 40 if index == "whole" else 173} | cost
        for treatment, index in rows.select("treatment", "part").unique(maintain_order=True).rows()
    ]
    task = {"source": "pages", "names": ["t"], "fingerprints": ["f"], "indexes": 3}
    task |= {"queries": 1234, "documents": 40, "positions": positions}
    header = {"verb": "evaluate", "run": "m-12345678", "token_unit": "tokens", "seed": 0}
    header |= {"model": {"name": "m", "fingerprint": "f"}, "plans": ["en:en"], "notes": []}
    header |= {"task": {**task, "clusters": rows["set"].n_unique()}, "spec": spec, "costs": costs}
    header |= changes
    writer = LogWriter(folder, parse_header(header))
    writer.add(rows.sample(fraction=1, shuffle=True, seed=3) if shuffled else rows)
    writer.finish("complete", Timings(seconds=1.5))
    return read_log(folder)


def noise(scale: float = 0.05) -> Value:
    """The same for a treatment's metric, position and cluster whenever it is asked for."""

    def draw(*key: Any) -> float:
        rng = np.random.default_rng(list("".join(map(str, key)).encode()))
        return float(rng.uniform(-scale, scale))

    return draw


LEVELS = {"plain": 0.4, "paper": 0.5, f"paper{ONLY}": 0.6, "plain/chunk-max": 0.7}
LEVELS |= {"retrieval": 0.45, "plain/parts-all": 0.7}


def usual(treatment: str, metric: str, position: int, cluster: int) -> float:
    """Falls with the position, and rises with the treatment; metrics differ."""
    level = LEVELS[treatment] - 0.05 * position + (0.1 if metric == "mrr" else 0.0)
    return level + noise()(treatment, metric, position, cluster)


METRICS = ("ndcg@10", "mrr")
PLANS = (("en", "en"), ("de", "de"), ("de", "en"))
