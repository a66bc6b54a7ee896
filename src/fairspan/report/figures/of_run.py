"""`figures_of` a run: every figure that its log has numbers for, by name, drawn when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairspan.errors import LogError, StatisticsError
from fairspan.report.any_summary import AnySummary
from fairspan.report.figures import attention, length, profiles, search, temperature_grid
from fairspan.runs.log import RunLog
from fairspan.studies.audit.attention import summarize_attention
from fairspan.studies.audit.summary import POSITION_MEASURES, Summary, summarize
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.evaluate.by_length import LengthGroup, by_length
from fairspan.studies.evaluate.summary import RetrievalSummary, summarize_search
from fairspan.studies.evaluate.temperature_grid import temperature_grid as summarize_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class NamedFigure:
    """One figure of a run.

    Attributes:
        name: such as "representation-profiles"; also the name of its file.
        caption: what it shows, in one plain sentence.
        make: draws it.
    """

    name: str
    caption: str
    make: Callable[[], Figure]

    def draw(self) -> Figure:
        """The figure, drawn anew."""
        return self.make()


def figures_of(log: RunLog, *, summary: AnySummary | None = None) -> list[NamedFigure]:
    """The figures that a log has numbers for, in the order in which a report shows them.

    Args:
        summary: the statistics of this log, where they are there already.
    """
    verb = log.header.get("verb")
    if verb == "audit":
        return _of_audit(log, summary if isinstance(summary, Summary) else None)
    if verb == "evaluate":
        return _of_search(summary if isinstance(summary, RetrievalSummary) else summarize_search(log))
    if verb == "collapse":
        return _of_length(summary if isinstance(summary, LengthSummary) else summarize_length(log))
    raise LogError(f"the run {log.run} belongs to {verb}, of which there are no figures.")


def write_figures(
    log: RunLog, folder: Path, formats: Sequence[str] = ("svg",), *, summary: AnySummary | None = None
) -> list[Path]:
    """Draw every figure of a run into `folder`, as NAME.svg and so on.

    Args:
        formats: of "svg", "png" and "pdf".
        summary: the statistics of this log, where they are there already.

    Returns:
        The files, in the order of the figures.
    """
    from fairspan.report.figures.style import require_format, require_matplotlib, write_figure

    kinds = [f".{kind.removeprefix('.').lower()}" for kind in formats]
    for kind in kinds:
        require_format(kind, kind)
    require_matplotlib()
    files = []
    for named in figures_of(log, summary=summary):
        figure = named.draw()
        for kind in kinds:
            file = folder / f"{named.name}{kind}"
            write_figure(figure, file)
            files.append(file)
    return files


_PROFILE_CAPTIONS = {
    "representation": "Cosine of a document's vector with each of its segments alone, by position",
    "retention": "Cosine of each segment inside a document with the same segment alone, by position",
}
_ATTENTION_CAPTIONS = {
    "attention_basket": "Share of the pooled row's attention by basket of 128 tokens, special tokens apart",
    "attention_segment": "Share of the pooled row's attention by segment, special tokens apart",
    "attention_bin": "Share of the pooled row's attention from a document's beginning to its end",
}


def _of_audit(log: RunLog, summary: Summary | None) -> list[NamedFigure]:
    found = []
    for grid in _grids(log, summary):
        for page, plans in profiles.pages_of(grid):
            name = f"{grid.measure}-profiles" + (f"-{page}" if page else "")
            where = f", {page.replace('-', ' ')}" if page else ""
            caption = f"{_PROFILE_CAPTIONS[grid.measure]}{where}, with 95 % intervals and mean segment lengths."
            found.append(NamedFigure(name, caption, partial(profiles.draw_grid, grid, plans)))
    looked = summarize_attention(log)
    for measure in looked.measures:
        for name, n, plans in attention.pages_of(looked, measure):
            caption = f"{_ATTENTION_CAPTIONS[measure]}, in documents of {n} segments."
            found.append(NamedFigure(name, caption, partial(attention.draw_attention, looked, measure, n, plans)))
    return found


def _grids(log: RunLog, summary: Summary | None) -> list[profiles.ProfileGrid]:
    try:
        summary = summary or summarize(log)
    except StatisticsError:
        # One set has means, but nothing to tell their intervals from.
        there = log.rows["measure"].unique().to_list()
        return [profiles.bare_grid(log, measure) for measure in POSITION_MEASURES if measure in there]
    return [profiles.grid_of(summary, measure) for measure in summary.measures]


def _of_search(summary: RetrievalSummary) -> list[NamedFigure]:
    metric = summary.metrics[0]
    positions = any(result.groups for result in summary.results)
    by = "by where the evidence lies" if positions else "over all queries"
    found = []
    grid = summarize_grid(summary)
    if grid is not None:
        caption = f"{metric} at every pair of a query's and a document's softmax temperature, with 95 % intervals."
        found.append(NamedFigure("temperature-grid", caption, partial(temperature_grid.draw_grid, grid)))
    if grid is not None and len(search.arms_shown(summary)) < 2 and not positions:
        # The grid says all that there is.
        return found
    name = "search-by-position" if positions else "search-overall"
    caption = f"{metric} {by}, with 95 % intervals."
    found.append(NamedFigure(name, caption, partial(search.draw_search, summary)))
    if any(len(result.groups) > 1 for result in summary.runs):
        caption = f"{metric} by the number of tokens before the evidence, with 95 % intervals."
        found.append(NamedFigure("search-by-tokens-before", caption, partial(search.draw_runs, summary)))
    if len({arm.index for arm in summary.arms}) > 1:
        caption = f"{metric} of whole documents and of chunks, with 95 % intervals and the size of each index."
        found.append(NamedFigure("search-by-index", caption, partial(search.draw_indexes, summary)))
    groups = _length_groups(summary)
    if groups:
        caption = f"{metric} of the shortest and longest queries, and where the longest documents are found."
        found.append(NamedFigure("search-by-length", caption, partial(search.draw_by_length, summary, groups)))
    return found


def _length_groups(summary: RetrievalSummary) -> list[LengthGroup]:
    try:
        return by_length(summary.log)
    except StatisticsError:
        # Queries of one cluster have nothing to tell intervals from.
        return []


def _of_length(summary: LengthSummary) -> list[NamedFigure]:
    others = [name for name in summary.measures if name in ("distance", "rank")]
    found = [
        NamedFigure(
            "length-similarity",
            "Mean pairwise cosine of texts by length, with 95 % intervals, beside that of raw word embeddings.",
            partial(length.draw_geometry, summary, ["cosine"]),
        )
    ]
    if others:
        caption = "Distance to the centre and effective rank of vectors by length, with 95 % intervals."
        found.append(NamedFigure("length-geometry", caption, partial(length.draw_geometry, summary, others)))
    measured = summary.log.rows["measure"].unique().to_list()
    if "sigma_a" in measured:
        caption = "Largest singular value of the last layer's attention without its mean, beside Theorem 3's bound."
        found.append(NamedFigure("length-sigma", caption, partial(length.draw_sigma, summary)))
    if "filter_rate" in measured:
        caption = "How much of the differences between tokens each layer keeps (logarithm), beside Theorem 2's bound."
        found.append(NamedFigure("length-filter-rates", caption, partial(length.draw_rates, summary)))
    if "repeated" in measured:
        caption = "Cosine of two words, each said many times."
        found.append(NamedFigure("length-repeated-words", caption, partial(length.draw_repeated, summary)))
    if summary.log.header.get("classification"):
        caption = "Share of labels that a classifier tells, and the entropy of its answers, by length."
        found.append(NamedFigure("length-classification", caption, partial(length.draw_classified, summary)))
    return found
