"""The charts of a study of length: how similar texts are, what attention keeps, and what a classifier predicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import NamedTuple

import polars as pl

from fairspan.report import text
from fairspan.report.chart import Chart, Panel, Series, on_log_axis, point
from fairspan.report.text import with_bounds
from fairspan.stats.bootstrap import Interval
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import BOUNDS, LengthSummary
from fairspan.studies.collapse.tables import LABELS, caution, label, where

OVERVIEW = "length-overview"


class Axis(NamedTuple):
    """What a curve goes over: lengths, layers or repetitions."""

    unit: str
    labels: dict[int, str]
    places: tuple[float, ...] = ()


class Curve(NamedTuple):
    """A measure under one treatment; None where there is no number."""

    name: str
    values: Mapping[int, text.Interval | None]
    dashed: bool = False


def charts_of(summary: LengthSummary) -> dict[str, Chart]:
    """The charts that the study has numbers for, by name."""
    lengths, plain, controlled = summary.lengths, summary.treatments, summary.controlled
    level, others = summary.percent, [one for one in summary.measures if one != "cosine"]
    described = " and ".join(LABELS[one] for one in others).capitalize()
    at_a_glance = [_by_length(summary, one, plain) for one in ("cosine", "rank") if one in summary.measures]
    longest = _layer_panel(summary, "filter_rate", lengths[-1], title=f"{LABELS['filter_rate']}, ")
    # Raw words may be far off, so the treatments are also shown without them (LC Figs. 1c, 3).
    similarity = [_by_length(summary, "cosine", plain)]
    if WORDS in controlled:
        similarity.append(_by_length(summary, "cosine", controlled, title=f"with {LABELS[WORDS]}"))
    made = (
        _chart(
            summary,
            OVERVIEW,
            "What length does to vectors",
            f"Geometry of the vectors by length with {level} intervals, and how much of the differences between "
            "tokens attention keeps.",
            [*at_a_glance, _sigma_panel(summary), longest],
            dashes="bounds of Theorems 2 and 3",
        ),
        _chart(
            summary,
            "length-similarity",
            "How similar texts are, by length",
            f"Mean pairwise cosine of texts by length with {level} intervals, without and with raw word embeddings.",
            similarity,
        ),
        _chart(
            summary,
            "length-geometry",
            "How much space the vectors use, by length",
            f"{described} of vectors by length, with {level} intervals.",
            [_by_length(summary, one, controlled) for one in others],
        ),
        # LC Figs. 6 and 8.
        _chart(
            summary,
            "length-classification",
            "What a classifier still recognises, by length",
            f"Accuracy of a classifier and the entropy of its predictions by length, with {level} intervals.",
            [
                _by_length(summary, one, plain)
                for one in summary.classification["measure"].unique(maintain_order=True)
            ],
        ),
        # LC Fig. 12.
        _chart(
            summary,
            "length-repeated-words",
            "How similar two repeated words are",
            "Cosine of two texts, each of which repeats one word, by the number of repetitions.",
            [_repeated_panel(summary)],
        ),
        # LC Fig. 5.
        _chart(
            summary,
            "length-sigma",
            "How much of the differences between tokens attention lets through",
            "Largest singular value of the last layer's attention without its mean, with Theorem 3's bound.",
            [_sigma_panel(summary)],
            dashes="Theorem 3",
        ),
        # LC Fig. 2.
        _chart(
            summary,
            "length-filter-rates",
            "How much of the differences between tokens each layer keeps",
            "Logarithm of the filter rate of each layer by length, with Theorem 2's bound.",
            [_layer_panel(summary, "filter_rate", length) for length in lengths],
            shared=LABELS["filter_rate"],
            dashes="Theorem 2",
        ),
        _chart(
            summary,
            "length-token-spread",
            "How much the tokens of a text differ, by layer",
            "Norm of the tokens' differences from their mean, divided by the norm of the mean, by layer and length.",
            [_layer_panel(summary, "hc_dc", length) for length in lengths],
            shared=LABELS["hc_dc"],
        ),
    )
    return {chart.name: chart for chart in made if chart.panels}


def _chart(
    summary: LengthSummary,
    name: str,
    title: str,
    caption: str,
    panels: Sequence[Panel],
    *,
    shared: str = "",
    dashes: str = "bound",
) -> Chart:
    """A chart of the panels that have curves, each with an axis of its own unless `shared` names one for all."""
    shown = tuple(replace(panel, y_label="") if shared else panel for panel in panels if panel.series)
    return Chart(name, title, caption, "lines", "tokens", shared, shown, subtitle=where(summary), dashes=dashes)


def _by_length(summary: LengthSummary, measure: str, names: Sequence[str], title: str = "") -> Panel:
    """A measure of vectors or labels with its intervals."""
    curves = [
        Curve(name, {length: summary.value(name, measure, length) for length in summary.lengths}) for name in names
    ]
    return _panel(title or _title(summary, measure), _length_axis(summary), curves, summary, LABELS[measure])


def _title(summary: LengthSummary, measure: str) -> str:
    """A measure, and what an effective rank cannot exceed if documents are fewer than dimensions."""
    limit = f", at most {summary.documents - 1}" if caution(summary, measure) else ""
    return LABELS[measure] + limit


def _sigma_panel(summary: LengthSummary) -> Panel:
    curves = _with_bound(summary.last_layers, "sigma_a", summary, "length")
    return _panel(f"{LABELS['sigma_a']} of the last layer", _length_axis(summary), curves, summary, LABELS["sigma_a"])


def _repeated_panel(summary: LengthSummary) -> Panel:
    found = summary.repeated.rename({"cosine": "estimate"})
    times = sorted(found["times"].unique())
    axis = Axis("repetitions", {count: str(count) for count in times}, on_log_axis(times))
    curves = [Curve(name, _means(found.filter(treatment=name), "times")) for name in summary.treatments]
    return _panel("", axis, curves, summary, "cosine")


def _layer_panel(summary: LengthSummary, measure: str, length: int, title: str = "") -> Panel:
    """A quantity of the texts of one length by layer."""
    found = summary.spectra.filter(length=length)
    # Layers are counted from 1; what is measured between them as well begins before the first, at 0.
    first = 0 if measure == "hc_dc" else 1
    layers = sorted(found.filter(measure=measure)["layer"].unique())
    axis = Axis("layer", {layer: str(layer + first) for layer in layers})
    curves = _with_bound(found, measure, summary, "layer")
    return _panel(f"{title}{summary.name(length)} tokens", axis, curves, summary, LABELS[measure])


def _length_axis(summary: LengthSummary) -> Axis:
    lengths = summary.lengths
    spread = lengths[-1] - lengths[0]
    evenly = tuple((length - lengths[0]) / spread for length in lengths) if spread else ()
    labels = {length: summary.name(length) for length in lengths}
    return Axis("tokens", labels, evenly if summary.natural else on_log_axis(lengths))


def _with_bound(spectra: pl.DataFrame, measure: str, summary: LengthSummary, key: str) -> list[Curve]:
    """A quantity under every treatment, and its bound dashed."""
    drawn = [(measure, False), *([(BOUNDS[measure], True)] if measure in BOUNDS else [])]
    return [
        Curve(name, _means(spectra.filter(treatment=name, measure=one), key), dashed)
        for name in summary.treatments
        for one, dashed in drawn
    ]


def _means(frame: pl.DataFrame, key: str) -> dict[int, text.Interval | None]:
    return {place: Interval(value, nan, nan) for place, value in frame.select(key, "estimate").rows()}


def _panel(title: str, axis: Axis, curves: Sequence[Curve], summary: LengthSummary, y_label: str) -> Panel:
    series = []
    for name, values, dashed in curves:
        told = f"{label(name)}{', bound' if dashed else ''}\n{axis.unit}: "
        points = tuple(
            point(values.get(key), f"{told}{shown}\n{y_label}: {with_bounds(values.get(key))}")
            for key, shown in axis.labels.items()
        )
        number = -1 if name == WORDS else summary.treatments.index(name)
        if any(points):
            series.append(Series(label(name), number, points, dashed))
    labels = tuple(axis.labels.values())
    return Panel(title, labels, tuple(series), places=axis.places, x_label=axis.unit, y_label=y_label)
