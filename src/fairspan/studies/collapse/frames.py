"""All statistics of a study of length, as tidy frames."""

from typing import Any

import polars as pl

from fairspan.studies.collapse.advice import remarks, schedule, suggestion
from fairspan.studies.collapse.summary import LengthSummary

_SUGGESTION: dict[str, Any] = {"length": pl.Int64, "temperature": pl.Float64, "reason": pl.String}
_STEP: dict[str, Any] = {"source": pl.String, "tokens": pl.Int64, "temperature": pl.Float64}


def frames_of(summary: LengthSummary) -> dict[str, pl.DataFrame]:
    """All statistics by name.

    `schedule` has the suggested steps (`source` "geometry") and those fitted on labels ("labels"), in tokens with the
    special ones.
    """
    fit = summary.fitted
    steps = [("geometry", *step) for step in schedule(summary)]
    steps += [("labels", *step) for step in (fit.schedule if fit else ())]
    found = {
        "verdicts": summary.verdicts,
        "lengths": pl.DataFrame(list(summary.log.header["lengths"])),
        "geometry": summary.geometry,
        "classification": summary.classification,
        "spectra": summary.spectra,
        "bounds": summary.bounds,
        "repeated": summary.repeated,
        "advice": remarks(summary),
        "suggestion": pl.DataFrame(suggestion(summary), schema=_SUGGESTION, orient="row"),
        "schedule": pl.DataFrame(steps, schema=_STEP, orient="row"),
    }
    if fit:
        change = {f"change_{name}": getattr(fit.change, name) for name in ("estimate", "low", "high")}
        counts = {"fitted_documents": fit.fitted_documents, "tested_documents": fit.tested_documents}
        found["fitted"] = pl.DataFrame([{**counts, **change}])
    return found
