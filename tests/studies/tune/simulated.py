"""Tunings that nobody ran: their rows are made of values that are arguments.

The values of an arm are [documents, queries]: what each query finds, and every query is about one
document. Documents of even numbers fit into the model's window, those of odd ones exceed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import Treatment
from fairspan.runs.header import Header, ModelInfo, TaskInfo
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.entries import EvaluateEntries, IndexCost
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.ranking import SCHEMA
from fairspan.studies.evaluate.view import LOG as EVALUATION
from fairspan.studies.tune.entries import Evaluated, TuneEntries
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.view import LOG
from tests.builders.searches import LONG_TOKENS, SHORT_TOKENS, WINDOW

PLAIN = "plain"
METRIC = "ndcg@10"
CANDIDATES = [
    Treatment(f"c{number}", Calibration.preset(f"tiles-{16 + 8 * number}")) for number in range(5)
]
NAMES = [candidate.name for candidate in CANDIDATES]

Values = Mapping[str, np.ndarray]


def rows_of(values: Values) -> pl.DataFrame:
    """Rows in any order, as an evaluation measures them."""
    tables = [
        asked(*of_arm.shape).with_columns(
            treatment=pl.lit(name), value=pl.Series(of_arm.ravel(), dtype=pl.Float64)
        )
        for name, of_arm in values.items()
    ]
    return pl.concat(tables).sample(fraction=1, shuffle=True, seed=0)


@cache
def asked(documents: int, queries: int) -> pl.DataFrame:
    """What the rows of all arms share: so many queries about each document."""
    numbers, queries_of = np.indices((documents, queries)).reshape(2, -1).tolist()
    columns = {
        "index": "whole",
        "measure": METRIC,
        "cluster": numbers,
        "document": [f"d{number:04}" for number in numbers],
        "tokens": [LONG_TOKENS if number % 2 else SHORT_TOKENS for number in numbers],
        "query": [f"{number}/{query}" for number, query in zip(numbers, queries_of, strict=True)],
        "query_tokens": 9,
    }
    return pl.DataFrame({**dict.fromkeys(SCHEMA), **columns}, schema=SCHEMA)


def evaluated(
    name: str, values: Values, distances: Mapping[str, float], drawn_from: int | None
) -> Evaluated:
    """What the header of a tuning says of one of its evaluations."""
    documents, queries = values[PLAIN].shape
    counts = {"documents": documents, "queries": documents * queries, "clusters": documents}
    task = TaskInfo(source="passages", names=(name,), fingerprints=(f"texts of {name}",), **counts)
    size = {"documents": documents, "tokens": 1000, "vectors": documents, "bytes": 4 * documents}
    costs = [IndexCost(PLAIN, "whole", **size, seconds=2.0, changed=None, distance=None)]
    for arm in list(values)[1:]:
        moved = {"changed": documents, "distance": distances.get(arm, 0.1)}
        costs.append(IndexCost(arm, "whole", **size, seconds=3.0, **moved))
    drawn = None if drawn_from is None else documents
    return Evaluated(task, (), EvaluateEntries(WINDOW, "passages", drawn, drawn_from, tuple(costs)))


def tuning_log(
    values: Values,
    guards: Sequence[Values] = (),
    *,
    distances: Mapping[str, float] | None = None,
    margin: float = 0.01,
    drawn_from: int | None = None,
) -> RunLog:
    """The log of a tuning in which this was found on the task and on guards, which lack what was
    not measured there."""
    tasks = [*enumerate((values, *guards))]
    entries = [
        evaluated(f"task {number}", of_task, distances or {}, drawn_from)
        for number, of_task in tasks
    ]
    tables = [
        rows_of(of_task).with_columns(task=pl.lit(number, pl.Int32)) for number, of_task in tasks
    ]
    options = TuneOptions(
        candidates=[candidate for candidate in CANDIDATES if candidate.name in values],
        guards=[f"beir:guard{number}" for number in range(len(guards))],
        metrics=(METRIC,),
        margin=margin,
    )
    header = Header(
        verb="tune",
        run="tune-m-12345678",
        model=ModelInfo("m", "f"),
        spec=options.asked,
        task=entries[0].task,
        status="complete",
        study=TuneEntries(tuple(entries)),
    )
    return RunLog(Path("nowhere"), header, pl.concat(tables), LOG, options.analysis)


def evaluation_log(values: Values) -> RunLog:
    """The log of an evaluation in which the same was found, in rows of another order."""
    tuning = tuning_log(values)
    candidates = [candidate for candidate in CANDIDATES if candidate.name in values]
    options = EvaluateOptions(treatments=[PLAIN, *candidates], metrics=(METRIC,))
    header = replace(
        tuning.header,
        verb="evaluate",
        spec=options.asked,
        study=evaluated("task 0", values, {}, None).entries,
    )
    return RunLog(tuning.folder, header, rows_of(values)[::-1], EVALUATION, options.analysis)
