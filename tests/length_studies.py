"""Logs of studies of length, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fairspan.runs.log import LogWriter
from fairspan.runs.rows import SCHEMA
from fairspan.studies.collapse.spec import make_collapse
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.logs import read_log

LENGTHS = (50, 100, 200, 400)
PLAIN, MILD, STRONG = "none", "tempscale+temperature=0.9", "tempscale+temperature=0.8"
HALF = 0.01
"""Half of the width of every interval."""

Curves = Mapping[str, Sequence[float]]


def entries_of(curves: Curves, lengths: Sequence[int], measure: str = "cosine") -> list[dict[str, Any]]:
    """What a study writes of these values: themselves, and differences, each with an interval of one width."""
    first = next(iter(curves))
    found = []
    for name, values in curves.items():

        def add(length: int | None, against: str | None, value: float, name: str = name) -> None:
            entry = {"treatment": name, "measure": measure, "length": length, "against": against}
            found.append({**entry, "estimate": value, "low": value - HALF, "high": value + HALF})

        for number, length in enumerate(lengths):
            add(length, None, values[number])
            if number:
                add(length, "shortest", values[number] - values[0])
            if name != "words":
                add(length, "short_baseline", values[number] - curves[first][0])
                if name != first:
                    add(length, first, values[number] - curves[first][number])
        if len(lengths) > 1:
            add(None, "doubling", float(np.polyfit(np.log2(np.maximum(lengths, 1)), values, 1)[0]))
    return found


def rows_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    common = {"run": "r", "model": "m", "language": "en", "tokens": 9}
    return pl.DataFrame([{**dict.fromkeys(SCHEMA), **common, **row} for row in rows], schema=SCHEMA)


def spectrum_row(
    treatment: str, measure: str, document: str, length: int, layer: int, value: float
) -> dict[str, Any]:
    given = {"treatment": treatment, "measure": measure, "document": document, "part": str(length)}
    return {**given, "layer": layer, "value": value}


def study_of(
    folder: Path,
    curves: Curves,
    *,
    lengths: Sequence[int] = LENGTHS,
    rows: Sequence[Mapping[str, Any]] = (),
    geometry: Sequence[Mapping[str, Any]] | None = None,
    treatments: Sequence[Any] | None = None,
    **changes: Any,
) -> LengthSummary:
    names = [name for name in curves if name != "words"]
    spec = make_collapse(temperatures=[], treatments=names if treatments is None else treatments).to_dict()
    header = {
        "verb": "collapse",
        "run": "m-12345678",
        "model": {"name": "m", "fingerprint": "f"},
        "corpus": {"name": "c", "fingerprint": "f", "languages": ["en"]},
        "lengths": [{"length": length, "texts": 20, "tokens": float(length)} for length in lengths],
        "paired": True,
        "token_unit": "tokens",
        "seed": 0,
        "spec": spec,
        "geometry": entries_of(curves, lengths) if geometry is None else list(geometry),
        "classification": [],
        "notes": [],
        **changes,
    }
    writer = LogWriter(folder, header)
    texts = [
        {"treatment": name, "measure": "cosine", "document": "d", "part": str(length), "value": value}
        for name, values in curves.items()
        for length, value in zip(lengths, values, strict=True)
    ]
    writer.add(rows_of([*texts, *rows]))
    writer.finish("complete", timings={"seconds": 1.5}, notes=header["notes"])
    return summarize_length(read_log(folder))


def above(*excess: float, base: float = 0.5) -> list[float]:
    """A curve by how far it lies above the shortest texts of the plain model."""
    return [base + value for value in excess]


SPECTRA = [
    spectrum_row(treatment, measure, document, length, layer, base + 0.1 * layer + 0.01 * number + length / 1000)
    for treatment, shift in ((PLAIN, 0.0), (STRONG, 0.5))
    for measure, base in (
        ("hc_dc", 1.0 + shift),
        ("filter_rate", -0.5 + shift),
        ("sigma_a", 0.3 + shift),
        ("sigma_s", 0.7 + shift),
        ("theorem_2", -0.2 + shift),
        ("theorem_3", 0.35 + shift),
    )
    for number, document in enumerate(("a", "b"))
    for length in LENGTHS
    for layer in ((0, 1, 2) if measure in ("hc_dc",) else (0, 1) if measure != "sigma_a" else (1,))
]
