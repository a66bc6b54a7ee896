"""Logs of studies of length, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from fairspan.calibration.treatment import as_treatment
from fairspan.runs.header import Timings, parse_header
from fairspan.runs.log import LogWriter, RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.collapse.options import CollapseOptions
from fairspan.studies.logs import read_log

LENGTHS = (50, 100, 200, 400)
PLAIN = as_treatment("none").name
MILD = "tempscale+temperature=0.9"
STRONG = "tempscale+temperature=0.8"
DOCUMENTS = 40
HALF = 0.002
"""Half of the width of every interval of a value."""

Curves = Mapping[str, Sequence[float]]


def half_of(weights: Sequence[float]) -> float:
    """Half of the width of the interval of a contrast of values with uncorrelated errors."""
    return HALF * float(np.sqrt(np.square(weights).sum()))


def slope_of(values: Sequence[float], tokens: Sequence[float]) -> tuple[float, float]:
    """What a doubling adds, by numpy, and half of the width of its interval."""
    logs = np.log2(tokens) - np.log2(tokens).mean()
    return float(np.polyfit(np.log2(tokens), values, 1)[0]), half_of(logs / (logs**2).sum())


def text_rows_of(
    curves: Curves, lengths: Sequence[int], tokens: Sequence[int]
) -> list[dict[str, Any]]:
    """Rows whose mean cosines are the curves and mean distances twice them, all ± HALF.

    Documents deviate from the mean of a treatment and length in directions that are orthogonal to
    those of all others.
    """
    cells = [(name, place) for name in curves for place in range(len(lengths))]
    noise = np.random.default_rng(0).normal(size=(DOCUMENTS, len(cells)))
    apart = np.linalg.qr(np.hstack([np.ones((DOCUMENTS, 1)), noise]))[0][:, 1:].T
    error = HALF / stats.t.ppf(0.975, DOCUMENTS - 1)
    gaps = apart * error / np.sqrt((DOCUMENTS - 1) / DOCUMENTS)
    rows = []
    for (name, place), gap in zip(cells, gaps, strict=True):
        value = curves[name][place]
        own = {"treatment": name, "part": str(lengths[place]), "tokens": tokens[place]}
        # Without document i the mean cosine is (Σ a − 2 a_i) / (N − 2).
        cosines = value + gap * (DOCUMENTS - 2) / 2
        measured = {
            "cosine": cosines,
            "distance": np.full(DOCUMENTS, 2 * value),
            "distance_without": 2 * value - gap,
        }
        for measure, values in measured.items():
            rows += [
                {**own, "measure": measure, "document": f"d{i:02}", "value": one}
                for i, one in enumerate(values)
            ]
    return rows


def label_rows_of(curves: Curves, measure: str) -> list[dict[str, Any]]:
    """Tested texts that all have the value of their curve."""
    return [
        {"treatment": name, "measure": measure, "part": str(length), "value": value}
        | {"document": f"t{i}"}
        for name, values in curves.items()
        for length, value in zip(LENGTHS, values, strict=True)
        for i in range(6)
    ]


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
    tokens: Sequence[int] | None = None,
    rows: Sequence[Mapping[str, Any]] = (),
    treatments: Sequence[Any] | None = None,
    texts: int = DOCUMENTS,
    **changes: Any,
) -> RunLog:
    """A study whose mean cosines are `curves`."""
    names = [name for name in curves if name != "words"]
    options = CollapseOptions(
        temperatures=[], treatments=names if treatments is None else treatments
    )
    header = {
        "verb": "collapse",
        "run": "m-12345678",
        "model": {"name": "m", "fingerprint": "f"},
        "corpus": {"name": "c", "fingerprint": "f", "languages": ["en"]},
        "lengths": [
            {"length": length, "texts": texts, "tokens": float(length)} for length in lengths
        ],
        "paired": True,
        "token_unit": "tokens",
        "seed": 0,
        "spec": options.asked,
        "notes": [],
        **changes,
    }
    writer = LogWriter(folder, parse_header(header))
    writer.add(rows_of([*text_rows_of(curves, lengths, tokens or lengths), *rows]))
    writer.finish("complete", Timings(seconds=1.5))
    return read_log(folder)


def above(*excess: float, base: float = 0.5) -> list[float]:
    """A curve by how far it lies above the shortest texts of the plain model."""
    return [base + value for value in excess]


_BASES = {"hc_dc": 1, "filter_rate": -0.5, "sigma_a": 0.3, "sigma_s": 0.7}
_BASES |= {"theorem_2": -0.2, "theorem_3": 0.35}
_LAYERS = {"hc_dc": (0, 1, 2), "sigma_a": (1,)}
SPECTRA = [
    spectrum_row(treatment, measure, document, length, layer, value + length / 1000)
    for treatment, shift in ((PLAIN, 0.0), (STRONG, 0.5))
    for measure, base in _BASES.items()
    for number, document in enumerate(("a", "b"))
    for length in LENGTHS
    for layer in _LAYERS.get(measure, (0, 1))
    for value in [base + shift + 0.1 * layer + 0.01 * number]
]
