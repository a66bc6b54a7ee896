"""The charts of a study of length: how alike texts are, what attention keeps, and what a classifier still tells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import NamedTuple

import polars as pl

from fairspan.report.chart import Chart, Panel, Series, on_log_axis, point
from fairspan.report.text import with_bounds
from fairspan.stats.bootstrap import Interval
from fairspan.studies.collapse.labels import LABELS, label
from fairspan.studies.collapse.spec import WORDS
from fairspan.studies.collapse.summary import BOUNDS, LengthSummary
from fairspan.studies.collapse.tables import where

OVERVIEW = "length-overview"


class Axis(NamedTuple):
    """What a curve goes over: lengths, layers or repetitions."""

    unit: str
    labels: dict[int, str]
    places: tuple[float, ...] = ()


class Curve(NamedTuple):
    """A measure under one treatment; None where there is no number."""

    name: str
    values: Mapping[int, Interval | None]
    dashed: bool = False


def charts_of(summary: LengthSummary) -> dict[str, Chart]:
    """The charts that the study has numbers for, by name."""
    made = (overview, similarity, geometry, classification, repeated, sigma, filter_rates, token_spread)
    return {chart.name: chart for make in made if (chart := make(summary)).panels}


def overview(summary: LengthSummary) -> Chart:
    """The most important panels at a glance."""
    shown = [measure for measure in ("cosine", "rank") if measure in summary.measures]
    panels = [_by_length(summary, measure, summary.treatments) for measure in shown]
    longest = _layer_panel(summary, "filter_rate", summary.lengths[-1], title=f"{LABELS['filter_rate']}, ")
    panels += [_sigma_panel(summary), longest]
    return _lines(
        summary,
        OVERVIEW,
        "What length does to vectors",
        "Geometry of the vectors by length with 95 % intervals, and how much of the differences between tokens "
        "attention keeps.",
        panels,
        dashes="bounds of Theorems 2 and 3",
    )


def similarity(summary: LengthSummary) -> Chart:
    """The cosine alone, and with the control of raw words, which may lie far off (LC Figs. 1c, 3)."""
    control = [] if WORDS not in summary.controlled else [f"with {LABELS[WORDS]}"]
    return _lines(
        summary,
        "length-similarity",
        "How alike texts are, by length",
        "Mean pairwise cosine of texts by length, with 95 % intervals, alone and with that of raw word embeddings.",
        [
            _by_length(summary, "cosine", summary.treatments),
            *(_by_length(summary, "cosine", summary.controlled, title=title) for title in control),
        ],
    )


def geometry(summary: LengthSummary) -> Chart:
    """Distances and effective rank, with the control of raw words."""
    return _lines(
        summary,
        "length-geometry",
        "How much space the vectors use, by length",
        "Distance to the centre and effective rank of vectors by length, with 95 % intervals.",
        [_by_length(summary, one, summary.controlled) for one in summary.measures if one != "cosine"],
    )


def classification(summary: LengthSummary) -> Chart:
    """Correct labels and the entropy of the answers by length (LC Figs. 6, 8)."""
    measures = summary.classification["measure"].unique(maintain_order=True)
    return _lines(
        summary,
        "length-classification",
        "What a classifier still recognises, by length",
        "Accuracy of a classifier and the entropy of its predictions by length, with 95 % intervals.",
        [_by_length(summary, measure, summary.treatments) for measure in measures],
    )


def sigma(summary: LengthSummary) -> Chart:
    """σ_a of the last layer by length, and the bound of Theorem 3 (LC Fig. 5)."""
    return _lines(
        summary,
        "length-sigma",
        "How much of the differences between tokens attention lets through",
        "Largest singular value of the last layer's attention without its mean, with Theorem 3's bound.",
        [_sigma_panel(summary)],
        dashes="Theorem 3",
    )


def filter_rates(summary: LengthSummary) -> Chart:
    """Filter rates by layer with the bounds of Theorem 2, one panel for each length (LC Fig. 2)."""
    return _lines(
        summary,
        "length-filter-rates",
        "How much of the differences between tokens each layer keeps",
        "Logarithm of the filter rate of each layer by length, with Theorem 2's bound.",
        [_layer_panel(summary, "filter_rate", length) for length in summary.lengths],
        shared=LABELS["filter_rate"],
        dashes="Theorem 2",
    )


def token_spread(summary: LengthSummary) -> Chart:
    """How much tokens differ from their mean, before the first layer (0) and behind each."""
    return _lines(
        summary,
        "length-token-spread",
        "How much the tokens of a text differ, by layer",
        "Norm of the tokens' differences from their mean, as a share of the norm of the mean, by layer and length.",
        [_layer_panel(summary, "hc_dc", length) for length in summary.lengths],
        shared=LABELS["hc_dc"],
    )


def repeated(summary: LengthSummary) -> Chart:
    """The cosine of two words, each repeated many times (LC Fig. 12)."""
    found = summary.repeated.rename({"cosine": "estimate"})
    times = sorted(found["times"].unique())
    axis = Axis("repetitions", {count: str(count) for count in times}, on_log_axis(times))
    curves = [Curve(name, _means(found.filter(treatment=name), "times")) for name in summary.treatments]
    return _lines(
        summary,
        "length-repeated-words",
        "How alike two repeated words are",
        "Cosine of two texts, each of which repeats one word, by the number of repetitions.",
        [_panel("", axis, curves, summary, "cosine")],
    )


def _lines(
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
    return _panel(title or LABELS[measure], _length_axis(summary), curves, summary, LABELS[measure])


def _sigma_panel(summary: LengthSummary) -> Panel:
    curves = _with_bound(summary.last_layers, "sigma_a", summary, "length")
    return _panel(f"{LABELS['sigma_a']} of the last layer", _length_axis(summary), curves, summary, LABELS["sigma_a"])


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
    found = []
    for name in summary.treatments:
        own = spectra.filter(treatment=name)
        found.append(Curve(name, _means(own.filter(measure=measure), key)))
        if measure in BOUNDS:
            found.append(Curve(name, _means(own.filter(measure=BOUNDS[measure]), key), dashed=True))
    return found


def _means(frame: pl.DataFrame, key: str) -> dict[int, Interval | None]:
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
