"""A study of length on a page: how alike texts of one length are, what attention does, and what is suggested."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from fairspan.report.page.charts import Chart, Point, Series, domain_of, on_log_axis, point
from fairspan.report.page.sections import Card, Group, Section
from fairspan.report.tables.length import length_tables
from fairspan.report.tables.text import interval, number
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import Estimate, LengthSummary

GEOMETRY = {
    "cosine": "mean pairwise cosine",
    "distance": "distance to the centre",
    "rank": "effective rank",
}

CLASSIFICATION = {"correct": "share of labels told", "entropy": "entropy of the classifier"}


def switch_of(summary: LengthSummary) -> tuple[str, ...]:
    """The treatments that were measured."""
    return tuple(summary.treatments)


def cards(summary: LengthSummary) -> tuple[Card, ...]:
    """Whether long texts are more alike, and which temperature the geometry suggests."""
    found = []
    for name in summary.treatments:
        change = summary.value(name, "cosine", summary.lengths[-1], "shortest")
        alike = change is not None and change.low is not None and change.low > 0
        known = change is not None and change.low is not None
        badge = "collapses" if alike else "does not collapse" if known else "more data"
        sentence = summary.verdict(name)
        found.append(Card(name, badge, "bad" if alike else "good" if known else "open", (sentence,)))
    told = [f"by geometry alone: {summary.advice()}", summary.fitted(), summary.theory()]
    return (*found, Card("temperature", "suggested", "plain", tuple(one for one in told if one is not None)))


def geometry_section(summary: LengthSummary) -> Section:
    """Geometry and classification by length."""
    shown = {measure: label for measure, label in GEOMETRY.items() if measure in summary.measures}
    told = {
        measure: label
        for measure, label in CLASSIFICATION.items()
        if summary.classified(summary.baseline, measure, summary.lengths[0]) is not None
    }
    geometry = [_chart(summary, label, partial(_geometry, summary, measure)) for measure, label in shown.items()]
    classes = [_chart(summary, label, partial(_classified, summary, measure)) for measure, label in told.items()]
    # Raw word embeddings are so far from the rest that they need axes of their own.
    controls = [
        _chart(summary, label, partial(_geometry, summary, measure), control=WORDS)
        for measure, label in shown.items()
        if summary.value(WORDS, measure, summary.lengths[0]) is not None
    ]
    groups = (
        Group("", tuple(geometry), large=True),
        Group("Classification by length", tuple(classes), large=True),
        Group("Control: averages of the model's raw word embeddings", tuple(controls)),
    )
    paired = "the same documents cut at sentence borders" if not summary.natural else "documents of natural length"
    intro = f"Texts of each length are {paired}. Intervals are 95 %, from resampling documents."
    return Section("What length does", intro, tuple(group for group in groups if group.charts))


def spectrum_section(summary: LengthSummary) -> Section | None:
    """What attention does to the differences between tokens; None where it was not measured."""
    if summary.spectrum("sigma_a", summary.baseline).is_empty():
        return None
    charts = [
        _spectrum_chart(summary, "σ_a of the last layer by length", "sigma_a", "theorem_3", by="length"),
        _spectrum_chart(summary, "filter rate by layer, longest texts", "filter_rate", "theorem_2", by="layer"),
        _spectrum_chart(summary, "high against low frequencies by layer", "hc_dc", None, by="layer"),
    ]
    intro = (
        "Means over the texts that were looked into. Dashed lines are what the theorems bound; a line above its "
        "dashed one exceeds the bound."
    )
    return Section("What attention does", intro, (Group("", tuple(c for c in charts if c.series), large=True),))


def table_section(summary: LengthSummary) -> Section:
    tables = [named.table for named in length_tables(summary) if named.name != "verdicts"]
    return Section("Tables", tables=tuple(tables[:1]), folded=tuple(tables[1:]))


def _geometry(summary: LengthSummary, measure: str, name: str, length: int) -> Estimate | None:
    return summary.value(name, measure, length)


def _classified(summary: LengthSummary, measure: str, name: str, length: int) -> Estimate | None:
    return summary.classified(name, measure, length)


def _chart(
    summary: LengthSummary,
    label: str,
    value: Callable[[str, int], Estimate | None],
    control: str | None = None,
) -> Chart:
    """A quantity by length under every treatment, or of the control alone."""
    series = []
    for place, name in enumerate(summary.treatments if control is None else [control]):
        shown = name if control is None else "raw word embeddings"
        points = tuple(
            point(found, f"{shown}, {summary.name(length)} tokens\n{label} {interval(found)}")
            for length in summary.lengths
            for found in [value(name, length)]
        )
        series.append(Series(shown, place if control is None else -1, points))
    labels = tuple(summary.name(length) for length in summary.lengths)
    domain = domain_of([series], zero=False)
    places = on_log_axis(summary.lengths)
    return Chart("lines", label, "", "tokens", label, labels, tuple(series), domain, places)


def _spectrum_chart(summary: LengthSummary, title: str, measure: str, bound: str | None, *, by: str) -> Chart:
    series: list[Series] = []
    values: list[int] = []
    for place, name in enumerate(summary.treatments):
        for quantity in (measure, bound):
            rows = pl.DataFrame() if quantity is None else summary.spectrum(quantity, name)
            if rows.is_empty():
                continue
            other = "layer" if by == "length" else "length"
            rows = rows.filter(pl.col(other) == rows[other].max())
            values = values or rows[by].to_list()
            told = "bound" if quantity == bound else ""
            series.append(Series(name, place, _means(rows, by, f"{name} {told}".strip()), dashed=bool(told)))
    places = on_log_axis(values) if by == "length" else tuple(k / max(1, len(values) - 1) for k in range(len(values)))
    return Chart(
        "lines",
        title,
        "",
        "tokens" if by == "length" else "layer",
        title,
        tuple(str(value) for value in values),
        tuple(series),
        domain_of([series], zero=False),
        places,
    )


def _means(rows: pl.DataFrame, by: str, name: str) -> tuple[Point | None, ...]:
    return tuple(
        point(Estimate(value, None, None), f"{name}, {by} {place}\n{number(value)}, mean of {texts} texts")
        for place, value, texts in rows.select(by, "value", "texts").rows()
    )
