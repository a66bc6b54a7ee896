"""`Shown`: the frames of an evaluation as charts and tables show them; its charts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

import polars as pl

from fairspan.report.chart import Chart
from fairspan.report.drawing import COLOURS
from fairspan.report.frames import values_of
from fairspan.report.text import model_name, number
from fairspan.retrieval.indexes import FUSED
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

    def drawn_rows(self, name: str, *conditions: pl.Expr) -> pl.DataFrame:
        """The rows of a frame for the arms that charts show."""
        return self.frame(name, *conditions).filter(pl.col("arm").is_in(self.drawn))


def group_chart(shown: Shown, name: str, column: str, axis: str, title: str) -> Chart:
    """The first metric of every arm by groups of queries."""
    return Chart(
        name=f"found-by-{column}",
        title=title,
        subtitle=shown.where,
        frame=shown.drawn_rows(name),
        kind="lines" if column == "position" else "dots",
        x=column,
        by="arm",
        x_title=axis,
        y_title=shown.metrics[0],
        series=shown.drawn,
        told=[("queries", "queries")],
        brief=name == "lengths" and "depths" not in shown.frames,
    )


def depth_chart(shown: Shown) -> Chart:
    """How often documents are found, by how far into them the evidence is."""
    rows = shown.drawn_rows("depths")
    metric = rows["metric"][0]
    chance = rows["chance"][0]
    unit = shown.log.header.token_unit
    begins = pl.col("tokens_from")
    ends = pl.col("tokens_to")
    # The middle of a group; of the last one, which has no end, half as far again.
    middle = pl.when(ends.is_null()).then(1.5 * begins).otherwise((begins + ends) / 2)
    last = pl.format("≥ {}", begins)
    words = pl.when(ends.is_null()).then(last).otherwise(pl.format("{}–{}", begins, ends - 1))
    # There is such a frame only if the baseline has a window.
    window = next(
        info.window
        for info in shown.log.header.windows or ()
        if info.texts == "evidence" and info.treatment == shown.treatments[0] and info.window
    )
    return Chart(
        name="found-by-depth",
        title="Found by depth",
        subtitle=shown.where,
        frame=rows.with_columns(tokens=middle.round().cast(int), depth=words),
        kind="lines",
        x="tokens",
        by="arm",
        x_title=f"{unit} of the document before the evidence",
        y_title=found_words(metric),
        form=".0%",
        scale="linear",
        label="depth",
        series=shown.drawn,
        limits=(0.0, 1.0),
        level=None if chance is None else (chance, "by chance"),
        edge=(window, f"{shown.arms[0]} reads to here"),
        told=[("queries", "queries")],
        below=_before_and_after(shown, metric),
        brief=True,
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
    rows = shown.drawn_rows("quality", pl.col("metric") == metric)
    names = rows["arm"].to_list()
    # Only of passages every query has one document to find.
    if shown.entries.kind == PASSAGES:
        counts = [f"{round(count):,}" for count in rows["estimate"] * rows["queries"]]
        counts[0] += f" of {rows['queries'][0]:,} passages"
    else:
        counts = [number(share, ".0%") for share in rows["estimate"]]
        counts[0] += " of relevant documents"
    by_arm = ", ".join(f"{count} with {arm}" for count, arm in zip(counts, names, strict=True))
    return f"{found_words(metric)}: {by_arm}"


def overall_chart(shown: Shown) -> Chart:
    """Every metric over all queries."""
    rows = shown.drawn_rows("quality")
    return Chart(
        name="search-overall",
        title=f"What is found, over all {rows['queries'][0]:,} queries",
        subtitle=shown.where,
        frame=rows,
        x="metric",
        by="arm",
        y_title="quality",
        series=shown.drawn,
    )
