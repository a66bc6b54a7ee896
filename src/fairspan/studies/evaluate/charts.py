"""`Shown`: the frames of an evaluation as its charts and tables show them; and the charts by position and overall."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series, point
from fairspan.report.frames import interval, values_of
from fairspan.report.style import COLOURS
from fairspan.report.text import model_name, p_value, with_bounds
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.measures import Arm


@dataclass(frozen=True)
class Shown:
    """The frames of one log."""

    log: RunLog
    frames: Mapping[str, pl.DataFrame]

    def frame(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The rows of a frame, with the name of each arm in `arm`."""
        found = self.frames[name].filter(*conditions)
        names = [str(Arm(*pair)) for pair in found.select("treatment", "index").rows()]
        return found.with_columns(pl.Series("arm", names, pl.String))

    def of_metric(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The same for the first metric, over all language plans together unless the conditions name one."""
        return self.frame(
            name, pl.col("metric") == self.metrics[0], *(conditions or [pl.col("plan") == ""])
        )

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
        """What positions are."""
        return "segment" if self.log.header.searched.positions == "segments" else "fifth"

    def series(self, rows: pl.DataFrame, column: str, labels: Sequence[str]) -> tuple[Series, ...]:
        """A series for each drawn arm of the rows, with a point for each label, which is in that column."""
        found = []
        for arm in (arm for arm in self.drawn if arm in rows["arm"]):
            own = {one[column]: one for one in rows.filter(arm=arm).iter_rows(named=True)}
            points = tuple(
                self._point(own[label], label) if label in own else None for label in labels
            )
            found.append(Series(arm, self.arms.index(arm), points))
        return tuple(found)

    def _point(self, row: Mapping[str, Any], label: str) -> Point | None:
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
    """Quality by position of the evidence, of the first index under all treatments: one panel for each plan."""
    metric, first = shown.metrics[0], shown.of_metric("quality")["index"][0]
    panels = []
    for plan in ("", *shown.plans):
        rows = shown.of_metric("positions", pl.col("plan") == plan, pl.col("index") == first)
        labels, together = (
            tuple(values_of(rows, "position")),
            "all plans" if shown.plans else "all queries",
        )
        queries = shown.of_metric("quality", pl.col("plan") == plan)["queries"][0]
        drawn = shown.series(rows, "position", labels)
        panels.append(Panel(plan or together, labels, drawn, detail=f"{queries:,} queries"))
    name, title = "search-by-position", "What is found, by position of the evidence"
    caption = f"{metric} by position of the evidence, with 95 % intervals."
    axes, brief = (f"{shown.unit} with the evidence", metric), "depths" not in shown.frames
    return Chart(
        name, title, caption, "bars", *axes, tuple(panels), subtitle=shown.where, brief=brief
    )


def depth_chart(shown: Shown) -> Chart:
    """How often documents are found, by how far into them the evidence is."""
    rows, metric = shown.frame("depths"), shown.frames["depths"]["metric"][0]
    starts = values_of(rows, "tokens_from")
    read = {
        info.treatment: info.window
        for info in shown.log.header.windows or ()
        if info.texts == "evidence"
    }
    labels = *(f"< {start:,}" for start in starts[1:]), f"≥ {starts[-1]:,}"
    drawn = shown.series(
        rows.with_columns(start=pl.format("{}", "tokens_from")), "start", tuple(map(str, starts))
    )
    unit = shown.log.header.token_unit
    # There is such a frame only if the baseline has a window.
    window = read[shown.log.treatments[0]] or 0
    reads = {
        name: f"{name} (reads {f'{own:,} {unit}' if own else 'everything'})"
        for name, own in read.items()
    }
    drawn = tuple(replace(one, legend=reads.get(one.name, one.name)) for one in drawn)
    # In the step that holds the window, as far as the window is into it.
    place = max(number for number, start in enumerate(starts) if start <= window)
    width = [*starts[1:], starts[-1] + window][place] - starts[place]
    edge = (place - 0.5 + (window - starts[place]) / width) / max(1, len(starts) - 1)
    says, chance = f"{shown.arms[0]} reads to here", rows["chance"][0]
    found = f"found among the first {metric.partition('@')[2]}" if chance is not None else metric
    queries = f"{rows.filter(arm=shown.arms[0])['queries'].sum():,} queries"
    marks = (edge, says) if edge < 1 else None
    panel = Panel("all queries", labels, drawn, detail=queries, edge=marks, reference=chance)
    caption = f"{metric} by how many {unit} of the document come before the evidence, with 95 % intervals."
    axes = (f"{unit} of the document before the evidence", found)
    chart = Chart(
        "found-by-depth", "Found by depth", caption, "lines", *axes, (panel,), subtitle=shown.where
    )
    return replace(chart, form=".0%", dashes="by chance", fixed=(0.0, 1.0), brief=True)


def overall_chart(shown: Shown) -> Chart:
    """Every metric over all queries."""
    rows, metrics = shown.frame("quality", pl.col("plan") == ""), tuple(shown.metrics)
    detail = f"{rows['queries'][0]:,} queries"
    panel = Panel("all queries", metrics, shown.series(rows, "metric", metrics), detail=detail)
    title, caption = (
        "What is found, over all queries",
        "Every metric over all queries, with 95 % intervals.",
    )
    axes = ("metric", "quality")
    return Chart("search-overall", title, caption, "bars", *axes, (panel,), subtitle=shown.where)
