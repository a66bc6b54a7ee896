"""`frames_of` an evaluation's log: verdicts, quality overall and by group, and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.frames import frame_of
from fairspan.retrieval.indexes import WHOLE
from fairspan.runs.log import RunLog
from fairspan.stats.gains import word_of
from fairspan.stats.queries import shortfall
from fairspan.studies.evaluate.depths import by_depth
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.measures import (
    Columns,
    Groups,
    arms_of,
    compare_arms,
    groups_by,
    length_groups,
    metrics_of,
    sorted_rows,
)
from fairspan.studies.evaluate.options import SearchAnalysis
from fairspan.studies.evaluate.ranking import RANK
from fairspan.studies.evaluate.vectors import vector_rows
from fairspan.studies.evaluate.verdicts import Verdict, verdicts_of

# The share of queries or documents that count as shortest or longest (LC §4.2).
_FIFTH = 0.2
_VERDICTS: dict[str, Any] = {
    **dict.fromkeys(("treatment", "verdict", "sentence", "short", "long"), pl.String),
    **dict.fromkeys(("documents", "documents_needed"), pl.Int64),
}


def frames_of(log: RunLog, analysis: SearchAnalysis) -> dict[str, pl.DataFrame]:
    """All statistics of a log by name, without empty frames except for the verdicts."""
    metric = metrics_of(log)[0]
    verdicts = verdicts_of(log, analysis.margin)
    rows: dict[str, Sequence[Mapping[str, Any]]] = {
        "quality": _quality(log, verdicts),
        "lengths": _lengths(log, metric, analysis.margin),
        "positions": _by_group(log, metric, groups_by(log, metric, "fifth"), "position"),
        "languages": _by_group(log, metric, groups_by(log, metric, "language"), "language"),
        "depths": by_depth(log),
        "by_length": _by_length(log),
        "costs": [asdict(cost) for cost in log.header.part(EvaluateEntries).costs],
        "vectors": vector_rows(log, analysis.margin) if _compares_vectors(log) else [],
        "windows": [asdict(info) for info in log.header.windows or ()],
    }
    frames = {"verdicts": pl.DataFrame([item.record for item in verdicts], _VERDICTS)}
    frames |= {name: frame_of(listed) for name, listed in rows.items() if listed}
    model = pl.lit(log.model).alias("model")
    return {name: frame.select(model, pl.all()) for name, frame in frames.items()}


def _compares_vectors(log: RunLog) -> bool:
    return len(log.spec.get("vectors") or ()) > 1


def _quality(log: RunLog, verdicts: Sequence[Verdict]) -> list[Columns]:
    """Every metric of every arm over all queries; p values only where there is a verdict."""
    p_values = {verdict.treatment: verdict.p for verdict in verdicts}
    metrics = metrics_of(log)
    fifths = groups_by(log, metrics[0], "fifth")
    rows = []
    for metric in metrics:
        for result in compare_arms(log, metric, fifths):
            (row,) = result.records([{"metric": metric}], first=0)
            judged = metric == metrics[0] and result.arm.index == WHOLE
            means = result.means.estimate[1:]
            row["change_p"] = p_values.get(result.arm.treatment) if judged else None
            row["psi"] = float(shortfall(means)) if len(means) > 1 else None
            rows.append(row)
    return rows


def _lengths(log: RunLog, metric: str, margin: float) -> list[Columns]:
    """The first metric for documents that fit into the window, and for those that exceed it."""
    groups = length_groups(log, metric)
    if groups is None:
        return []
    labels = [{"metric": metric, "length": name} for name in groups.names]
    rows = []
    for result in compare_arms(log, metric, groups):
        judged = result.changes is not None and result.arm.index == WHOLE
        for place, row in enumerate(result.records(labels), start=1):
            change = result.changes[place] if judged and result.changes else None
            row["word"] = word_of(change, margin) if change and row["queries"] else None
            rows += [row] if row["queries"] else []
    return rows


def _by_group(log: RunLog, metric: str, groups: Groups | None, column: str) -> list[Columns]:
    """A row for each arm and group of queries."""
    if groups is None:
        return []
    labels = [{"metric": metric, column: name} for name in groups.names]
    return [row for item in compare_arms(log, metric, groups) for row in item.records(labels)]


def _by_length(log: RunLog) -> list[Columns]:
    """The first metric for the shortest and longest queries, and the rank of the longest documents.

    Documents count once for each query that they answer.
    """
    names = ("shortest queries", "longest queries")
    rows = _length_groups(log, metrics_of(log)[0], "query_tokens", names)
    return rows + _length_groups(log, RANK, "tokens", ("longest documents",))


def _length_groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[Columns]:
    """A row for each arm and group, the longest last; none if lengths are alike."""
    lengths = sorted_rows(log, measure, arms_of(log)[0])[column].to_numpy()
    if not len(lengths):
        return []
    low, high = np.quantile(lengths, [_FIFTH, 1 - _FIFTH])
    if low == high:
        return []
    codes = np.where(lengths >= high, len(names), np.where(lengths <= low, len(names) - 1, 0))
    labels = list[Columns]()
    for number, name in enumerate(names, start=1):
        inside = lengths[codes == number]
        tokens = {"tokens_from": int(inside.min()), "tokens_to": int(inside.max())}
        labels.append({"group": name, "measure": measure, **tokens})
    groups = Groups(names, codes)
    return [row for item in compare_arms(log, measure, groups) for row in item.records(labels)]
