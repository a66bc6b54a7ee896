"""Logs of studies of length, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from fairspan.calibration.treatment import as_treatment
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.entries import SCHEMA
from fairspan.studies.collapse.options import CollapseOptions
from tests.builders.simulated import header_of, write_log

LENGTHS = (50, 100, 200, 400)
PLAIN = as_treatment("plain").name
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
    """Rows whose mean cosines are the curves, all ± HALF.

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
        own = {"treatment": name, "length": lengths[place], "tokens": tokens[place]}
        # Without document i the mean cosine is (Σ a − 2 a_i) / (N − 2).
        cosines = value + gap * (DOCUMENTS - 2) / 2
        rows += [
            {**own, "measure": "cosine", "document": f"d{i:02}", "value": one}
            for i, one in enumerate(cosines)
        ]
    return rows


def share_rows_of(curves: Curves, half: float = 1e-7) -> list[dict[str, Any]]:
    """Rows with these mean shares, whose differences from the shortest texts are ± half."""
    rng = np.random.default_rng(0)
    rows = []
    for treatment, curve in curves.items():
        for place, (length, value) in enumerate(zip(LENGTHS, curve, strict=True)):
            gaps = rng.normal(size=DOCUMENTS)
            gaps -= gaps.mean()
            gaps *= half / stats.t.ppf(0.975, DOCUMENTS - 1) * DOCUMENTS**0.5 / gaps.std(ddof=1)
            # The shortest texts are all alike, so that a difference is as wide as one length.
            values = value + gaps * (place > 0)
            rows += [
                {"treatment": treatment, "measure": "share", "length": length}
                | {"document": f"d{number:02}", "value": float(one)}
                for number, one in enumerate(values)
            ]
    return rows


def rows_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    common = {"tokens": 9}
    return pl.DataFrame([{**dict.fromkeys(SCHEMA), **common, **row} for row in rows], schema=SCHEMA)


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
    options = CollapseOptions(treatments=list(curves) if treatments is None else treatments)
    entries = [{"length": length, "texts": texts, "tokens": float(length)} for length in lengths]
    header = {
        "corpus": {"name": "c", "fingerprint": "f", "languages": ["en"]},
        "study": {"lengths": entries, "paired": changes.pop("paired", True)},
    }
    table = rows_of([*text_rows_of(curves, lengths, tokens or lengths), *rows])
    return write_log(folder, header_of(options, **{**header, **changes}), [table])


def above(*excess: float, base: float = 0.5) -> list[float]:
    """A curve by how far it lies above the shortest texts of the plain model."""
    return [base + value for value in excess]
