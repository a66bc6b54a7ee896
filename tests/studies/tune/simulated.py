"""Tunings that nobody ran: their rows are made of values that are arguments.

The values of an arm are [documents, queries]: what each query finds, and every query is about one
document. Documents of even numbers fit into the model's window, those of odd ones exceed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

PLAIN = "plain"
WINDOW, SHORT_TOKENS, LONG_TOKENS = 512, 400, 900
METRIC = "ndcg@10"

Values = Mapping[str, np.ndarray]


def candidate(number: int) -> Treatment:
    """A treatment like no other, called c0, c1, …"""
    return Treatment(f"c{number}", Calibration.preset(f"tiles-{16 + 8 * number}"))


NAMES = [candidate(number).name for number in range(5)]


def rows_of(values: Values, shuffled: int = 0) -> pl.DataFrame:
    """Rows in any order, as an evaluation measures them."""
    tables = [
        asked(*found.shape).with_columns(
            treatment=pl.lit(name), value=pl.Series(found.ravel(), dtype=pl.Float64)
        )
        for name, found in values.items()
    ]
    return pl.concat(tables).sample(fraction=1, shuffle=True, seed=shuffled)


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
    name: str, values: Values, distances: Mapping[str, float], drawn_from: int | None = None
) -> Evaluated:
    """What the header of a tuning says of one of its evaluations."""
    documents, queries = values[PLAIN].shape
    task = TaskInfo(
        source="passages",
        names=(name,),
        fingerprints=(f"texts of {name}",),
        queries=documents * queries,
        documents=documents,
        clusters=documents,
    )
    costs = tuple(
        IndexCost(
            treatment=arm,
            index="whole",
            documents=documents,
            tokens=1000,
            seconds=2.0 if arm == PLAIN else 3.0,
            vectors=documents,
            bytes=4 * documents,
            changed=None if arm == PLAIN else documents,
            distance=None if arm == PLAIN else distances.get(arm, 0.1),
        )
        for arm in values
    )
    drawn = None if drawn_from is None else documents
    return Evaluated(task, (), EvaluateEntries(WINDOW, "passages", drawn, drawn_from, costs))


def tuning_log(
    values: Values,
    guards: Sequence[Values] = (),
    *,
    distances: Mapping[str, float] | None = None,
    margin: float = 0.01,
    drawn_from: int | None = None,
    folder: Path = Path("nowhere"),
) -> RunLog:
    """The log of a tuning in which this was found on the task and on guards, which lack what was
    not measured there."""
    names = [name for name in values if name != PLAIN]
    entries = [
        evaluated(f"task {number}", found, distances or {}, drawn_from)
        for number, found in enumerate((values, *guards))
    ]
    tables = [
        rows_of(found).with_columns(task=pl.lit(number, pl.Int32))
        for number, found in enumerate((values, *guards))
    ]
    options = TuneOptions(
        candidates=[candidate(NAMES.index(name)) for name in names],
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
    return RunLog(folder, header, pl.concat(tables), LOG, options.analysis)


def evaluation_log(values: Values, margin: float = 0.01) -> RunLog:
    """The log of an evaluation in which the same was found, in rows of another order."""
    names = [name for name in values if name != PLAIN]
    entries = evaluated("task 0", values, {})
    options = EvaluateOptions(
        treatments=[PLAIN, *(candidate(NAMES.index(name)) for name in names)],
        metrics=(METRIC,),
        margin=margin,
    )
    header = Header(
        verb="evaluate",
        run="evaluate-m-12345678",
        model=ModelInfo("m", "f"),
        spec=options.asked,
        task=entries.task,
        status="complete",
        study=entries.entries,
    )
    rows = rows_of(values, shuffled=1)
    return RunLog(Path("nowhere"), header, rows, EVALUATION, options.analysis)
