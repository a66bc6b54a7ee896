"""`Shown`: the frames of an evaluation as charts and tables show them; charts by position."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series, point
from fairspan.report.frames import interval, values_of
from fairspan.report.style import COLOURS
from fairspan.report.text import model_name, number, p_value, with_bounds
from fairspan.retrieval.source import PAGES, PASSAGES
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.depths import recalls_of
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

    def of_metric(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The same for the first metric, of all plans together unless the conditions name one."""
        chosen = conditions or (pl.col("plan") == "",)
        return self.frame(name, pl.col("metric") == self.metrics[0], *chosen)

    @cached_property
    def metrics(self) -> list[str]:
        return values_of(self.frames["quality"], "metric")

    @cached_property
    def plans(self) -> list[str]:
        """The language plans, where there are several."""
        return [plan for plan in values_of(self.frames["quality"], "plan") if plan]

    @cached_property
    def arms(self) -> list[str]:
        return values_of(self.frame("quality"), "arm")

    @cached_property
    def treatments(self) -> list[str]:
        return values_of(self.frames["quality"], "treatment")

    @property
    def drawn(self) -> list[str]:
        """As many arms as there are colours, those of whole documents first."""
        return self.arms[: len(COLOURS)]

    @property
    def where(self) -> str:
        """The model and the task as titles name them."""
        task = self.log.header.searched
        name = task.names[0] if len(task.names) == 1 else PurePath(task.source).name
        return f"{model_name(self.log.model)} on {name}"

    @property
    def unit(self) -> str:
        return "segment" if self.log.header.searched.positions == "segments" else "fifth"

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
        numbers = self.arms if arms is None else arms
        for arm in (arm for arm in arms or self.drawn if arm in rows["arm"]):
            by_label = {row[column]: row for row in rows.filter(arm=arm).iter_rows(named=True)}
            points = tuple(self._point(by_label.get(label), label) for label in labels)
            series.append(Series(arm, numbers.index(arm), points))
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
            tested = f", p {p_value(row['p_value'])}" if "p_value" in row else ""
            change = with_bounds(interval(row, "change_"), "+.3f")
            lines.insert(2, f"against {self.arms[0]}: {change}{tested}")
        return point(interval(row), "\n".join(lines))


def position_chart(shown: Shown) -> Chart:
    """Quality by position of the evidence, of the first index: one panel for each plan."""
    metric = shown.metrics[0]
    first = shown.of_metric("quality")["index"][0]
    together = "all plans" if shown.plans else "all queries"
    panels = []
    for plan in ("", *shown.plans):
        rows = shown.of_metric("positions", pl.col("plan") == plan, pl.col("index") == first)
        labels = tuple(values_of(rows, "position"))
        queries = shown.of_metric("quality", pl.col("plan") == plan)["queries"][0]
        drawn = shown.series(rows, "position", labels)
        panels.append(Panel(plan or together, labels, drawn, detail=f"{queries:,} queries"))
    return Chart(
        "search-by-position",
        "What is found, by position of the evidence",
        "bars",
        f"{shown.unit} with the evidence",
        metric,
        tuple(panels),
        subtitle=shown.where,
        brief="depths" not in shown.frames,
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
    edge = _edge(starts, windows[shown.log.treatments[0]] or 0)
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
    """How many queries each arm finds the document of, and why this cut-off is shown."""
    rows = shown.frame("quality", pl.col("metric") == metric, pl.col("plan") == "")
    names = rows["arm"].to_list()
    # Only of these tasks every query has one document to find.
    if shown.log.header.searched.source in (PASSAGES, PAGES):
        counts = [f"{round(count):,}" for count in rows["estimate"] * rows["queries"]]
        what = "passages" if shown.log.header.searched.source == PASSAGES else "queries"
        counts[0] += f" of {rows['queries'][0]:,} {what}"
    else:
        counts = [number(share, ".0%") for share in rows["estimate"]]
        counts[0] += " of what answers a query"
    separator = "; " if any("," in name for name in names) else ", "
    by_arm = separator.join(f"{count} with {arm}" for count, arm in zip(counts, names, strict=True))
    words = f"{found_words(metric)}: {by_arm}"
    cuts = [name.partition("@")[2] for name in recalls_of(shown.log)]
    if len(cuts) > 1:
        words += (
            f" (of the cut-offs {', '.join(cuts)}, the one at which {names[0]} is closest to 60 %)"
        )
    return words


def _edge(starts: Sequence[int], window: int) -> float:
    """Where a window ends, as a share of the axis that has these steps."""
    # In the step that holds the window, as far as the window is into it.
    step = max(number for number, start in enumerate(starts) if start <= window)
    width = [*starts[1:], starts[-1] + window][step] - starts[step]
    return (step - 0.5 + (window - starts[step]) / width) / max(1, len(starts) - 1)


def overall_chart(shown: Shown) -> Chart:
    """Every metric over all queries."""
    rows = shown.frame("quality", pl.col("plan") == "")
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
