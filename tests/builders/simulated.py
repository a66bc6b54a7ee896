"""Logs of audits that nobody ran: rows drawn at random around known values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairspan.runs.entries import as_json, read_entries
from fairspan.runs.header import Header, Timings
from fairspan.runs.log import RunLog
from fairspan.runs.options import StudyOptions
from fairspan.runs.writer import LogWriter
from fairspan.studies.audit.options import AuditOptions
from fairspan.studies.audit.rows import SCHEMA
from fairspan.studies.logs import read_log

DEPTH = 6
TREATMENTS = ("plain", "paper", "retrieval")
PLANS = (("en", "en"), ("zh", "zh"), ("zh", "en"))

Plan = tuple[str, str]
Value = Callable[[int, int], float]
"""The expected value at a position (from 1) in a set."""


def simulated_rows(
    value: Value,
    *,
    sets: int = 8,
    n: int = 3,
    plan: Plan = ("en", "en"),
    treatment: str = "plain",
    measure: str = "representation",
    noise: float = 0.01,
    shared: bool = False,
    stream: int | None = None,
) -> pl.DataFrame:
    """A Latin design: the n rotations of every set, with noise by segment and by row.

    The noise differs by size and plan, unless they are given one `stream`.
    """
    rng = np.random.default_rng([n, *"".join(plan).encode()] if stream is None else stream)
    own = rng.normal(0, noise, (sets, n))
    same = {"treatment": treatment, "measure": measure, **_of_plan(n, plan)}
    rows = []
    for number, order, place in product(range(sets), range(n), range(n)):
        member = (order + place) % n
        # Shared: the last set is made of the segments of the first.
        segment = f"s{0 if shared and number == sets - 1 else number}-{member}"
        expected = value(place + 1, number) + own[number, member]
        row: dict[str, Any] = {"position": place + 1, "segment": segment}
        row |= {"tokens": 90 + 7 * ((3 * number + member) % 5)}
        row |= {"value": expected + rng.normal(0, noise)}
        rows.append({**same, **_document(n, plan, number, order), **row})
    return pl.DataFrame(rows, schema=SCHEMA)


def _of_plan(n: int, plan: Plan) -> dict[str, Any]:
    return {"plan": ":".join(dict.fromkeys(plan)), "n": n}


def _document(n: int, plan: Plan, number: int, order: int) -> dict[str, Any]:
    name = f"n{n}/{':'.join(plan)}/set{number}/order{order}"
    return {"set": number, "document": name}


def header(treatments: Sequence[Any], **changes: Any) -> Header:
    options = AuditOptions(treatments=treatments, **changes.pop("spec", {}))
    corpus = {"name": "c", "fingerprint": "f", "languages": ["en"]}
    return header_of(options, **{"corpus": corpus, "plans": ["en"], "documents": 24, **changes})


def header_of(options: StudyOptions, **entries: Any) -> Header:
    """The header of a run that was asked for with these options."""
    asked = {"verb": options.verb, "spec": options.asked, "analysis": as_json(options.analysis)}
    model = {"name": "m", "fingerprint": "f"}
    return read_entries(Header, {"run": "m-12345678", "model": model, **asked, **entries})


def write_log(
    folder: Path, header: Header, tables: Iterable[pl.DataFrame], status: str = "complete"
) -> RunLog:
    writer = LogWriter(folder, header)
    for table in tables:
        writer.add(table)
    writer.finish(status, Timings(seconds=1.5))
    return read_log(folder)


def with_entries(log: RunLog, **entries: Any) -> RunLog:
    """The log with other entries in its header, or in those of its study."""
    kept = log.header.to_json()
    of_study = {name: entries.pop(name) for name in list(entries) if name not in kept}
    kept["study"] = {**(kept["study"] or {}), **of_study}
    return replace(log, header=read_entries(Header, {**kept, **entries}))


def with_study(log: RunLog, **entries: Any) -> RunLog:
    """The log with other entries of its study."""
    return with_entries(log, study={**log.header.to_json()["study"], **entries})


def simulated_log(
    folder: Path,
    tables: Iterable[pl.DataFrame],
    treatments: Sequence[Any] = ("plain",),
    *,
    status: str = "complete",
    **changes: Any,
) -> RunLog:
    return write_log(folder, header(treatments, **changes), tables, status)


def attention_rows(
    treatment: str = "plain",
    *,
    n: int = 3,
    plan: Plan = ("en", "en"),
    sets: int = 4,
    orders: int = 2,
) -> pl.DataFrame:
    """Documents of one to three baskets; the parts sum to 1 in every layer."""
    rng = np.random.default_rng([n, *"".join((treatment, *plan)).encode()])
    rows: list[dict[str, Any]] = []
    for number, order in product(range(sets), range(orders)):
        baskets = 1 + (number + order) % 3
        same = {"treatment": treatment, **_of_plan(n, plan)}
        same |= _document(n, plan, number, order)
        names = ["first", *numbered("basket", baskets), "last", "other"]
        for layer in range(DEPTH):
            masses = [*rng.dirichlet(np.full(len(names) - 1, 3.0)).tolist(), 0.0]
            for name, mass in zip(names, masses, strict=True):
                row = {"measure": "attention_basket", "layer": layer, "basket": name}
                rows.append({**same, **row, "value": mass})
    return pl.DataFrame(rows, schema=SCHEMA)


def numbered(name: str, count: int) -> list[str]:
    return [f"{name} {place + 1}" for place in range(count)]


def audit_log(
    folder: Path,
    *,
    treatments: Sequence[str] = TREATMENTS,
    sizes: Sequence[int] = (2, 3),
    plans: Sequence[Plan] = PLANS,
    measures: Sequence[str] = ("representation", "retention", "attention"),
    sets: int = 6,
    **changes: Any,
) -> RunLog:
    tables = []
    for (number, treatment), n, plan in product(enumerate(treatments), sizes, plans):

        def value(position: int, _: int, number: int = number) -> float:
            return 0.8 - 0.04 * (position - 1) / (number + 1)

        same: dict[str, Any] = {"n": n, "plan": plan, "treatment": treatment}
        for measure in measures:
            if measure == "attention":
                tables.append(attention_rows(**same, sets=min(sets, 4)))
            else:
                tables.append(simulated_rows(value, **same, measure=measure, sets=sets))
    asked = changes.pop("asked", treatments)
    return simulated_log(folder, tables, list(asked), **changes)
