"""`Shown`: the frames of an evaluation as charts and tables show them; its charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series, point
from fairspan.report.frames import interval, values_of
from fairspan.report.style import COLOURS
from fairspan.report.text import model_name, number, with_bounds
from fairspan.retrieval.indexes import FUSED, WHOLE
from fairspan.retrieval.source import PASSAGES
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.measures import SearchArm


@dataclass(frozen=True)
class Shown:
    """The frames of one log."""

    log: RunLog
    frames: Mapping[str, pl.DataFrame]

    def frame(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The rows of a frame, with the name of each arm in `arm`."""
        rows = self.frames[name].filter(*conditions)
        names = [str(SearchArm(*pair)) for pair in rows.select("treatment", "index").rows()]
        return rows.with_columns(pl.Series("arm", names, pl.String))

    def of_metric(self, name: str) -> pl.DataFrame:
        """The same for the first metric."""
        return self.frame(name, pl.col("metric") == self.metrics[0])

    @cached_property
    def metrics(self) -> list[str]:
        return values_of(self.frames["quality"], "metric")

    @cached_property
    def arms(self) -> list[str]:
        return values_of(self.frame("quality"), "arm")

    @cached_property
    def treatments(self) -> list[str]:
        """Those that were measured."""
        return [name for name in self.log.measured if name in self.log.treatments]

    @cached_property
    def drawn(self) -> list[str]:
        """The arms of charts, as many as there are colours: vectors and keywords, then both for the
        last treatment."""
        alone = values_of(self.frame("quality", pl.col("index") != FUSED), "arm")
        fused = values_of(self.frame("quality", pl.col("index") == FUSED), "arm")
        return [*alone[: len(COLOURS) - 1], *fused[-1:]]

    @property
    def entries(self) -> EvaluateEntries:
        return self.log.header.part(EvaluateEntries)

    @property
    def where(self) -> str:
        """The model and the task as titles name them."""
        task = self.log.header.searched
        name = task.names[0] if self.entries.kind == PASSAGES else PurePath(task.source).name
        return f"{model_name(self.log.model)} on {name}"

    def series(
        self,
        rows: pl.DataFrame,
        column: str,
        labels: Sequence[str],
        arms: Sequence[str] | None = None,
    ) -> tuple[Series, ...]:
        """A series for each arm, with a point for each label, which is in that column.

        The arms are those that are drawn, unless some are named.
        """
        series = []
        for place, arm in enumerate(self.drawn if arms is None else arms):
            if arm in rows["arm"]:
                by_label = {row[column]: row for row in rows.filter(arm=arm).iter_rows(named=True)}
                points = tuple(self._point(by_label.get(label), label) for label in labels)
                series.append(Series(arm, place, points))
        return tuple(series)

    def _point(self, row: Mapping[str, Any] | None, label: str) -> Point | None:
        """The point of a row of a frame, if there is one, with what a reader sees on it."""
        if row is None:
            return None
        lines = [
            f"{row['arm']}, {label}",
            f"{row['metric']} {with_bounds(interval(row))}",
            f"{row['queries']:,} queries",
        ]
        if row["change_estimate"] is not None:
            before = SearchArm(self.treatments[0], FUSED if row["index"] == FUSED else WHOLE)
            change = with_bounds(interval(row, "change_"), "+.3f")
            lines.insert(2, f"against {before}: {change}")
        return point(interval(row), "\n".join(lines))


def group_chart(shown: Shown, name: str, column: str, axis: str, title: str) -> Chart:
    """The first metric of every arm by groups of queries."""
    rows = shown.frame(name)
    labels = tuple(values_of(rows, column))
    panel = Panel("all queries", labels, shown.series(rows, column, labels))
    return Chart(
        f"found-by-{column}",
        title,
        "bars",
        axis,
        shown.metrics[0],
        (panel,),
        subtitle=shown.where,
        brief=name == "lengths" and "depths" not in shown.frames,
    )


def depth_chart(shown: Shown) -> Chart:
    """How often documents are found, by how far into them the evidence is."""
    rows = shown.frame("depths")
    metric = rows["metric"][0]
    unit = shown.log.header.token_unit
    windows = {
        info.treatment: info.window
        for info in shown.log.header.windows or ()
        if info.texts == "evidence"
    }
    starts = values_of(rows, "tokens_from")
    labelled = rows.with_columns(start=pl.format("{}", "tokens_from"))
    drawn = shown.series(labelled, "start", tuple(map(str, starts)))
    legends = {
        name: f"{name} (reads {f'{window:,} {unit}' if window else 'everything'})"
        for name, window in windows.items()
    }
    # There is such a frame only if the baseline has a window.
    edge = _edge(starts, windows[shown.treatments[0]] or 0)
    panel = Panel(
        "all queries",
        (*(f"< {start:,}" for start in starts[1:]), f"≥ {starts[-1]:,}"),
        tuple(replace(arm, legend=legends.get(arm.name, arm.name)) for arm in drawn),
        detail=f"{rows.filter(arm=shown.arms[0])['queries'].sum():,} queries",
        edge=(edge, f"{shown.arms[0]} reads to here") if edge < 1 else None,
        reference=rows["chance"][0],
    )
    return Chart(
        "found-by-depth",
        "Found by depth",
        "lines",
        f"{unit} of the document before the evidence",
        found_words(metric),
        (panel,),
        subtitle=shown.where,
        form=".0%",
        dashes="by chance",
        fixed=(0.0, 1.0),
        brief=True,
        below=_before_and_after(shown, metric),
    )


def found_words(metric: str) -> str:
    """What a recall says of a document.

    >>> found_words("recall@1"), found_words("recall@10"), found_words("mrr")
    ('found first', 'found among the first 10', 'mrr')
    """
    name, _, ranks = metric.partition("@")
    if name != "recall":
        return metric
    return "found first" if ranks == "1" else f"found among the first {ranks}"


def _before_and_after(shown: Shown, metric: str) -> str:
    """How many queries each arm finds the document of."""
    rows = shown.frame("quality", pl.col("metric") == metric)
    rows = rows.filter(pl.col("arm").is_in(shown.drawn))
    names = rows["arm"].to_list()
    # Only of passages every query has one document to find.
    if shown.entries.kind == PASSAGES:
        counts = [f"{round(count):,}" for count in rows["estimate"] * rows["queries"]]
        counts[0] += f" of {rows['queries'][0]:,} passages"
    else:
        counts = [number(share, ".0%") for share in rows["estimate"]]
        counts[0] += " of what answers a query"
    by_arm = ", ".join(f"{count} with {arm}" for count, arm in zip(counts, names, strict=True))
    return f"{found_words(metric)}: {by_arm}"


def _edge(starts: Sequence[int], window: int) -> float:
    """Where a window ends, as a share of the axis that has these steps."""
    # In the step that holds the window, as far as the window is into it.
    step = max(number for number, start in enumerate(starts) if start <= window)
    width = [*starts[1:], starts[-1] + window][step] - starts[step]
    return (step - 0.5 + (window - starts[step]) / width) / max(1, len(starts) - 1)


def overall_chart(shown: Shown) -> Chart:
    """Every metric over all queries."""
    rows = shown.frame("quality")
    metrics = tuple(shown.metrics)
    detail = f"{rows['queries'][0]:,} queries"
    return Chart(
        "search-overall",
        "What is found, over all queries",
        "bars",
        "metric",
        "quality",
        (Panel("all queries", metrics, shown.series(rows, "metric", metrics), detail=detail),),
        subtitle=shown.where,
    )
