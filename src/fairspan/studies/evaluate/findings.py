"""`Findings`: everything that an evaluation's log says, and the same as tidy frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.report.text import model_name
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import QueryChange
from fairspan.studies.evaluate.advice import Advice, advice_of
from fairspan.studies.evaluate.by_length import LengthGroup, by_length
from fairspan.studies.evaluate.summary import Arm, Result, RetrievalSummary, summarize_search
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid, temperature_grid

Record = dict[str, Any]
TEMPERATURES = "temperatures"
"""What the advice on a grid of temperatures is called."""


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What one evaluation found.

    Attributes:
        summary: of all arms but those of a grid of temperatures, which are shown in the grid alone.
        advice: on its treatments, and on the grid.
        lengths: its search by length; empty where lengths are not known, or there is one cluster of queries only.
        frames: all statistics, also those of the grid's arms.
    """

    summary: RetrievalSummary
    advice: tuple[Advice, ...]
    lengths: tuple[LengthGroup, ...]
    grid: TemperatureGrid | None
    frames: Mapping[str, pl.DataFrame]

    @property
    def log(self) -> RunLog:
        return self.summary.log

    @property
    def task(self) -> str:
        """The task as titles name it."""
        task = self.log.header["task"]
        names = task.get("names") or []
        return str(names[0]) if len(names) == 1 else PurePath(str(task["source"])).name

    @property
    def where(self) -> str:
        return f"{model_name(self.log.model)} on {self.task}"

    def frame(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The part of a frame that belongs to the arms of the summary, further conditions aside."""
        shown = [arm.treatment for arm in self.summary.arms]
        return self.frames[name].filter(pl.col("treatment").is_in(shown), *conditions)


def findings_of(log: RunLog, *, lengths: bool = False) -> Findings:
    """Read a log. With `lengths`, a search by length that cannot be had is an error."""
    full = summarize_search(log)
    grid = temperature_grid(full)
    shown = full if grid is None else full.without(grid.treatments)
    advice = advice_of(shown)
    if grid is not None:
        advice = (*advice, Advice(TEMPERATURES, *grid.verdict()))
    groups = _lengths(log, required=lengths)
    kept = tuple(group for group in groups if group.arm in shown.arms)
    return Findings(shown, advice, kept, grid, _frames(full, advice, groups, grid))


def _lengths(log: RunLog, *, required: bool) -> list[LengthGroup]:
    try:
        return by_length(log)
    except StatisticsError:
        if required:
            raise
        return []


def _frames(
    summary: RetrievalSummary, advice: Sequence[Advice], lengths: Sequence[LengthGroup], grid: TemperatureGrid | None
) -> dict[str, pl.DataFrame]:
    """By name; those without rows are left out, but for the verdicts."""
    texts = dict.fromkeys(("treatment", "verdict", "sentence"), pl.String)
    verdicts = pl.DataFrame([(one.treatment, one.kind, one.sentence) for one in advice], texts, orient="row")
    records: dict[str, list[Record]] = {
        "quality": [_quality(result) for result in summary.results],
        "positions": [record for result in summary.results for record in _groups(result, "position")],
        "tokens_before": [record for result in summary.tokens_before for record in _groups(result, "tokens")],
        "by_length": [_length(group) for group in lengths],
        "costs": [_cost(summary, arm) for arm in summary.arms] if summary.log.header.get("costs") else [],
        "temperature_grid": _grid(grid) if grid is not None else [],
    }
    found = {name: pl.DataFrame(own, infer_schema_length=None) for name, own in records.items() if own}
    model = pl.lit(summary.log.model).alias("model")
    return {name: frame.select(model, pl.all()) for name, frame in {"verdicts": verdicts, **found}.items()}


def _quality(result: Result) -> Record:
    effects, change = result.effects, result.change
    return {
        **_named(result),
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **ends("", effects.overall),
        **ends("psi_", effects.psi),
        **ends("harmonic_", effects.harmonic),
        "p_value": result.p_value,
        "p_value_alone": np.nan if change is None else change.p_value,
        "p_psi": result.p_psi,
        "p_psi_alone": np.nan if change is None else change.p_psi,
        **change_ends(change),
    }


def _groups(result: Result, name: str) -> list[Record]:
    counts, means = result.effects.counts.group_queries, result.effects.groups
    changes = [None] * len(means) if result.change is None else result.change.groups
    return [
        {**_named(result), name: group, "queries": count, **ends("", mean), **ends("change_", change)}
        for group, count, mean, change in zip(result.groups, counts, means, changes, strict=True)
    ]


def _length(one: LengthGroup) -> Record:
    return {
        "treatment": one.arm.treatment,
        "index": one.arm.index,
        "group": one.group,
        "measure": one.measure,
        "count": one.count,
        "tokens_from": one.tokens[0],
        "tokens_to": one.tokens[1],
        **ends("", one.value),
        **ends("change_", one.change),
    }


def _cost(summary: RetrievalSummary, arm: Arm) -> Record:
    result = summary.result(arm)
    return {**summary.cost(arm), "metric": result.metric, "estimate": result.effects.overall.estimate}


def _grid(grid: TemperatureGrid) -> list[Record]:
    return [
        {
            "treatment": cell.arm.treatment,
            "metric": grid.metric,
            "query": cell.query,
            "document": cell.document,
            **ends("", cell.value),
            **ends("change_", cell.change),
            "p_value": cell.p_value,
        }
        for cell in grid.cells
    ]


def _named(result: Result) -> Record:
    arm = result.arm
    return {"treatment": arm.treatment, "index": arm.index, "metric": result.metric, "plan": result.plan}


def change_ends(change: QueryChange | None) -> dict[str, float]:
    """The columns of a change over all queries, and of what it does to the measures of the position means."""
    found: dict[str, float] = {}
    for prefix in ("", "psi_", "harmonic_", "spread_", "worst_"):
        own = None if change is None else getattr(change, prefix.removesuffix("_") or "overall")
        found |= ends(f"{prefix}change_", own)
    return found


def ends(prefix: str, found: Interval | None) -> dict[str, float]:
    """The columns of an interval; NaN where there is none."""
    names = ("estimate", "low", "high")
    return {f"{prefix}{name}": np.nan if found is None else float(getattr(found, name)) for name in names}
