"""`view_of` a study of length: what it means, verdicts, and tables and charts of the frames."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

import polars as pl

from fairspan.calibration.calibration import PRESETS
from fairspan.report.chart import Chart, Panel, Series, on_log_axis, point
from fairspan.report.frames import interval, values_of
from fairspan.report.table import VERDICTS, Column, Table
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import Card, Section, View
from fairspan.runs.folder import write_calibration
from fairspan.runs.log import RunLog
from fairspan.stats.geometry import MEASURES
from fairspan.studies.collapse.entries import CollapseEntries
from fairspan.studies.collapse.options import WORDS
from fairspan.studies.collapse.summary import LABELS, frames_of, length_name, share_change
from fairspan.studies.collapse.theory import BOUNDS

OVERVIEW = "length-overview"
# With fewer documents, intervals of skewed distributions are too narrow (tests/test_geometry.py).
FEW = 30
NAMES = {
    "cosine": "mean pairwise cosine",
    "share": "share of the common direction",
    "distance": "distance to the centre",
    "origin": "distance to the origin",
    "correct": "accuracy",
    "entropy": "entropy in nats",
    "sigma_a": "σ_a",
    "theorem_3": "Theorem 3's bound on σ_a",
    "sigma_s": "σ_s of the scores",
    "filter_rate": "log filter rate",
    "theorem_2": "Theorem 2's bound on the filter rate",
    WORDS: "raw word embeddings",
}
METHODS = """
To separate length from content, the same documents are cut at sentence borders to every length. The
mean cosine over pairs of different texts of one length shows how similar their vectors are.
Intervals are made by leaving out one document at a time (jackknife).

The vectors of a model have a direction in common, found from short general texts. A text's share of
it is the cosine of its vector with it. A larger share adds to the score for every query, by the
query's own share times the difference, and an index returns such texts more often.

The verdict is on the slope of the mean cosine over the logarithm of length. Biased: the slope is
significantly beyond the margin, above or below. Fair: it is significantly within the margin. That
is a test of its own: a slope that does not differ significantly from 0 shows nothing. Inconclusive:
neither.

The suggested temperature makes texts of every length no more similar than the shortest texts of the
first treatment, by less than the margin for each doubling of length. Whether it helps search or
classification has to be measured there."""
THEORY = """
Why it happens, after the length-collapse paper: the filter rate is the logarithm of what a layer
keeps of the differences between tokens, and σ_a, the largest singular value of an attention matrix
without its constant direction, limits what attention lets through. Dashed lines are the bounds of
the paper's theorems. Means over {} texts of each length at most."""
UNITS = {"length": "tokens", "times": "repetitions", "layer": "layer"}
"""The columns that curves go over, and what their numbers count."""


def view_of(log: RunLog) -> View:
    """What a study's log has to show."""
    frames = frames_of(log)
    shown = _Shown(log, frames)
    names = list(shown.labels.values())
    texts = frames["lengths"]["texts"].to_list()
    notes = list(log.notes)
    if min(texts) < FEW:
        few = f"{min(texts)} documents: with fewer than {FEW}, intervals may be too narrow"
        notes.append(few)
    sections = [_overview(shown), _by_length(shown)]
    if len(frames["spectra"]):
        sections.append(_theory(shown))
    several = len(names) > 1
    kind = "cut to" if shown.paired else "of"
    return View(
        title=f"What length does to {model_name(log.model)}",
        heading=f"{log.where}: {max(texts)} documents {kind} {', '.join(names)} tokens",
        cards=tuple(
            Card(name, word, VERDICTS[word], (sentence,))
            for name, word, sentence in frames["verdicts"].rows()
        ),
        sections=tuple(sections),
        frames=frames,
        meaning=_meaning(shown) if several else "",
        picture=OVERVIEW,
        remarks=(_advice(shown),) if several else (),
        notes=tuple(notes),
        switch=tuple(log.measured),
        all_first=True,
        methods=tuple(" ".join(paragraph.split()) for paragraph in METHODS.split("\n\n")),
    )


@dataclass(frozen=True)
class _Shown:
    """A study and its frames, as tables and charts; what was not measured is left out."""

    log: RunLog
    frames: Mapping[str, pl.DataFrame]

    @property
    def paired(self) -> bool:
        return self.log.header.part(CollapseEntries).paired

    @cached_property
    def labels(self) -> dict[int, str]:
        """The lengths, and what they are called."""
        return dict(self.frames["lengths"].select("length", "name").rows())

    def values(self, name: str) -> pl.DataFrame:
        """A frame without its comparisons."""
        return self.frames[name].filter(pl.col("against").is_null())

    def table(
        self, name: str, title: str, values: pl.DataFrame, notes: Sequence[str] = ()
    ) -> Table:
        """Estimates by length, and what a doubling of length adds where that is known."""
        keys = ["measure", *(["layer"] if "layer" in values.columns else []), "treatment"]
        wide = values.pivot("length", index=keys, values="estimate", maintain_order=True)
        columns = {
            str(length): Column(length_name(self.log, length), "tokens")
            for length in sorted(values["length"].unique())
        }
        if name == "geometry" and len(self.labels) > 1:
            ends = {f"doubling_{end}": end for end in ("estimate", "low", "high")}
            slopes = self.frames[name].filter(against="doubling").select(*keys, **ends)
            wide = wide.join(slopes, keys, "left", maintain_order="left")
            columns["doubling"] = Column("each doubling [95 %]", form="+.4f")
        table = Table.from_frame(
            name,
            f"{title} ({self.log.where})",
            wide.with_columns(pl.col("measure", "treatment").replace(NAMES)),
            heads=keys,
            columns=columns,
            grouped=len(keys) - 1,
            notes=notes,
            brief=name != "spectra",
        )
        return replace(table, frame=self.frames[name])

    def chart(self, name: str, title: str, panels: Iterable[Panel]) -> Chart:
        """A chart of the panels that have curves."""
        drawn = tuple(panel for panel in panels if panel.series)
        return Chart(name, title, "lines", "tokens", "", drawn, subtitle=self.log.where)

    def panel(
        self, frame: pl.DataFrame, measure: str, column: str = "length", title: str | None = None
    ) -> Panel:
        """A measure by length, layer or repetitions under every treatment; bounds are dashed."""
        numbers = sorted(frame.filter(measure=measure)[column].unique())
        labels = {count: str(count) for count in numbers}
        if column == "length":
            labels = {count: length_name(self.log, count) for count in numbers}
        drawn = [measure, BOUNDS[measure]] if measure in BOUNDS else [measure]
        frame = frame.filter(pl.col("measure").is_in(drawn))
        series = []
        for name, quantity in product(values_of(frame, "treatment"), drawn):
            rows = frame.filter(treatment=name, measure=quantity).iter_rows(named=True)
            values = {row[column]: interval(row) for row in rows}
            shown = NAMES.get(name, name)
            dashed = quantity != measure
            about = f"{shown}{', bound' if dashed else ''}\n{UNITS[column]}: "
            points = []
            for count, label in labels.items():
                value = values.get(count)
                told = f"{about}{label}\n{NAMES[measure]}: {with_bounds(value)}"
                points.append(point(value, told))
            place = -1 if name == WORDS else self.log.measured.index(name)
            if any(points):
                series.append(Series(shown, place, tuple(points), dashed))
        return Panel(
            NAMES[measure] if title is None else title,
            tuple(labels.values()),
            tuple(series),
            places=() if column == "layer" else on_log_axis(list(labels)),
            x_label=UNITS[column],
            y_label=NAMES[measure],
        )


def _meaning(shown: _Shown) -> str:
    """Whether the first treatment makes long texts alike, if a temperature helps, what to do."""
    first, word, _ = shown.frames["verdicts"].row(0)
    cosine = shown.frames["geometry"].filter(treatment=first, measure="cosine")
    means = [number(mean) for mean in cosine.filter(pl.col("against").is_null())["estimate"]]
    begin, *_, end = shown.labels.values()
    seen = (
        f"the mean cosine of two different texts is {means[0]} at {begin} tokens and {means[-1]} "
        f"at {end}"
    )
    change, effect = share_change(shown.frames["geometry"], first, shown.frames["lengths"])
    if effect:
        seen += f". {effect[0].upper()}{effect[1:]}"
    level = ""
    if change in ("more", "less"):
        level = "Level vectors (level=true) have the same share at every length. "
    alike = f"alike than short ones to {model_name(shown.log.model)}"
    if word == "inconclusive":
        return f"It is not clear yet whether long texts look more {alike}: {seen}."
    if word == "fair" or cosine.filter(against="doubling")["estimate"][0] < 0:
        how = "less" if word == "biased" else "neither more nor less"
        nothing = "Nothing has to be done."
        return f"Long texts look {how} {alike}: {seen}. {level or nothing}".rstrip()
    temperature, reason = shown.frames["suggestion"].row(0)
    helps = f"Temperature: {reason}."
    if not reason:
        helps = f"A softmax temperature of {temperature:g} is enough to undo this."
    return (
        f"Long texts look more {alike}, which makes them harder to tell apart: {seen}. {helps} "
        f"{level}Before you change anything, measure with fairspan evaluate what your search gains."
    )


def _advice(shown: _Shown) -> str:
    """The suggested temperature, and how to apply it."""
    temperature, reason = shown.frames["suggestion"].row(0)
    advice = reason
    if not reason:
        apply = "to apply it, give this run to fairspan calibrate as its calibration"
        advice = f"{temperature:g}; {apply}" if temperature < 1 else "1, as in the plain model"
    return f"suggested temperature, from the geometry of the vectors alone: {advice}"


def write_results(log: RunLog) -> None:
    """Write the suggested temperature as a calibration, if there is one."""
    [temperature] = log.frame("suggestion")["temperature"]
    if temperature is not None:
        write_calibration(log.folder, PRESETS["tempscale"].but(temperature=temperature))


def _overview(shown: _Shown) -> Section:
    """The picture of the study, and its numbers."""
    geometry = shown.values("geometry")
    chart = shown.chart(
        OVERVIEW,
        "What length does to vectors",
        [
            shown.panel(geometry.filter(pl.col("treatment") != WORDS), measure)
            for measure in ("cosine", "share")
        ],
    )
    notes = (
        f"{NAMES['cosine']}: how similar different texts of one length are",
        f"{NAMES['share']}: mean cosine with the direction that all vectors have in common",
        f"{NAMES['distance']}: mean over texts, each to the mean of the others of its length",
        f"{NAMES['origin']}: mean over texts, each to the mean of all lengths",
    )
    table = shown.table("geometry", "Vectors of texts by length", geometry, notes)
    return Section("At a glance", charts=(chart,), tables=(table,))


def _by_length(shown: _Shown) -> Section:
    """LC Figs. 1c and 3, Figs. 6 and 8, and Fig. 12."""
    texts = "the same documents cut at sentence borders" if shown.paired else "whole documents"
    geometry = shown.values("geometry")
    labels = shown.values("classification")
    cosines = shown.frames["repeated"].with_columns(measure=pl.lit("cosine"), estimate="cosine")
    charts = (
        shown.chart(
            "length-similarity",
            "How similar texts are, by length",
            [shown.panel(geometry, measure) for measure in MEASURES],
        ),
        shown.chart(
            "length-classification",
            "What a classifier still recognises, by length",
            [shown.panel(labels, measure) for measure in LABELS],
        ),
        shown.chart(
            "length-repeated-words",
            "How similar two repeated words are",
            [shown.panel(cosines, "cosine", "times", "")],
        ),
    )
    table = shown.table("classification", "A classifier by length", labels)
    return Section(
        "By length",
        f"Texts of each length are {texts}. Intervals are 95 %, over documents.",
        tuple(chart for chart in charts if chart.panels),
        folded=(table,) if table.rows else (),
    )


def _theory(shown: _Shown) -> Section:
    """LC Figs. 5 and 11, Figs. 2 and 10, and the filter rates, in every layer that was measured."""
    spectra = shown.frames["spectra"].with_columns(pl.col("layer") + 1)
    layers = spectra.filter(measure="sigma_a")["layer"].unique().sort().to_list()

    def by_layer(*measures: str) -> Iterable[Panel]:
        """Filter rates by layer, a panel for each length; Theorem 2's bound is dashed."""
        frame = spectra.filter(pl.col("measure").is_in(measures))
        for length, label in shown.labels.items():
            part = frame.filter(length=length)
            yield shown.panel(part, "filter_rate", "layer", f"{label} tokens")

    charts = [
        shown.chart(
            "length-attention",
            "What attention lets through, by length",
            [
                shown.panel(spectra.filter(layer=layer), "sigma_a", title=f"layer {layer}")
                for layer in layers
            ],
        ),
        shown.chart(
            "length-filter-rates",
            "How much of the differences between tokens each layer keeps",
            by_layer("filter_rate"),
        ),
    ]
    if "theorem_2" in spectra["measure"]:
        bounds = shown.chart(
            "length-theory",
            "What each layer keeps, and what Theorem 2 allows",
            by_layer("filter_rate", "theorem_2"),
        )
        charts.append(bounds)
    notes = ["σ_a: the smaller it is, the more similar attention makes the tokens"]
    counts = shown.frames["bounds"].group_by("bound", maintain_order=True)
    for bound, above, total in counts.agg(pl.col("above", "of").sum()).rows():
        holds = f"does not hold in {above:,} of" if above else "holds in all"
        notes.append(f"{NAMES[bound]} {holds} {total:,} layers of the texts that were measured")
    measures = ("sigma_a", "theorem_3", "sigma_s", "filter_rate", "theorem_2")
    measured = spectra.filter(pl.col("layer").is_in(layers)).sort("layer", maintain_order=True)
    values = pl.concat(measured.filter(measure=measure) for measure in measures)
    table = shown.table("spectra", "Attention by layer and length", values, notes)
    return Section(
        "Theory",
        " ".join(THEORY.split()).format(shown.log.spec["spectra"]),
        tuple(_on_one_axis(chart) for chart in charts if chart.panels),
        tables=(table,) if len(layers) == 1 else (),
        folded=(table,) if len(layers) > 1 else (),
        closed=True,
    )


def _on_one_axis(chart: Chart) -> Chart:
    """The chart with one vertical axis for all panels, which those without a label share."""
    panels = tuple(replace(panel, y_label="") for panel in chart.panels)
    return replace(chart, panels=panels, y_label=chart.panels[0].y_label)
