"""`view_of` a study of length: what it means, verdicts, and tables and charts of the frames."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import polars as pl

from fairspan.report.chart import Chart, Panel, Series, on_log_axis, point
from fairspan.report.frames import interval, values_of
from fairspan.report.table import VERDICTS, Column, Table
from fairspan.report.text import model_name, number, with_bounds
from fairspan.report.view import Card, Section, View
from fairspan.runs.log import RunLog
from fairspan.stats.geometry import MEASURES
from fairspan.studies.collapse.entries import CollapseEntries
from fairspan.studies.collapse.options import WORDS
from fairspan.studies.collapse.summary import LABELS, frames_of
from fairspan.studies.collapse.theory import BOUNDS

OVERVIEW = "length-overview"
# With fewer documents, intervals of skewed distributions are too narrow (tests/test_geometry.py).
FEW = 30
NAMES = {
    "cosine": "mean pairwise cosine",
    "distance": "distance to the centre",
    "correct": "accuracy",
    "entropy": "entropy in nats",
    "sigma_a": "σ_a",
    "theorem_3": "Theorem 3's bound on σ_a",
    "sigma_s": "σ_s of the scores",
    "filter_rate": "log filter rate",
    "theorem_2": "Theorem 2's bound on the filter rate",
    WORDS: "raw word embeddings",
}
METHODS = (
    """To separate length from content, the same documents are cut at sentence borders to every length. The mean
    cosine over pairs of different texts of one length shows how similar their vectors are. Intervals are made by
    leaving out one document at a time (jackknife).""",
    """The verdict is on the slope of the mean cosine over the logarithm of length. Biased: the slope is significantly
    beyond the margin, above or below. Fair: it is significantly within the margin. That is a test of its own: a
    slope that does not differ significantly from 0 shows nothing. Inconclusive: neither.""",
    """The suggested temperature makes long texts no more similar than the shortest texts of the first treatment, by
    less than the margin for each doubling of length. Whether it helps search or classification has to be measured
    there.""",
)
THEORY = (
    "Why it happens, after the length-collapse paper: the filter rate is the logarithm of what a layer keeps of the "
    "differences between tokens, and σ_a, the largest singular value of an attention matrix without its constant "
    "direction, limits what attention lets through. Dashed lines are the bounds of the paper's theorems."
)


def view_of(log: RunLog) -> View:
    """What a study's log has to show."""
    frames = frames_of(log)
    shown = _Shown(log, frames)
    lengths = frames["lengths"]
    kind = "cut to" if log.header.part(CollapseEntries).paired else "of"
    counts = lengths["texts"].to_list()
    few = f"{min(counts)} documents: with fewer than {FEW}, intervals may be too narrow"
    return View(
        title=f"What length does to {model_name(log.model)}",
        heading=f"{shown.where}: {max(counts)} documents {kind} {', '.join(lengths['name'])} tokens",
        cards=tuple(
            Card(name, word, VERDICTS[word], (said,))
            for name, word, said in frames["verdicts"].rows()
        ),
        sections=shown.sections(),
        frames=frames,
        meaning=meaning(log, frames) if len(lengths) > 1 else "",
        picture=OVERVIEW,
        remarks=(f"temperature that is enough, by geometry alone: {advice(frames)}",)
        if len(lengths) > 1
        else (),
        notes=(*log.notes, *([few] if min(counts) < FEW else [])),
        switch=tuple(log.measured),
        all_first=True,
        methods=tuple(" ".join(paragraph.split()) for paragraph in METHODS),
    )


def meaning(log: RunLog, frames: Mapping[str, pl.DataFrame]) -> str:
    """Whether the first treatment makes long texts alike, by how much, whether a temperature helps; what to do."""
    first, word, _ = frames["verdicts"].row(0)
    cosine = frames["geometry"].filter(treatment=first, measure="cosine")
    short, *_, long = (
        number(one) for one in cosine.filter(pl.col("against").is_null())["estimate"]
    )
    begin, *_, end = frames["lengths"]["name"]
    seen = (
        f"the mean cosine of two different texts is {short} at {begin} tokens and {long} at {end}"
    )
    model, (_, value, reason) = model_name(log.model), frames["suggestion"].row(-1)
    if word == "inconclusive":
        return f"It is open whether long texts look more alike than short ones to {model}: {seen}."
    if word == "fair" or cosine.filter(against="doubling")["estimate"][0] < 0:
        how = "less" if word == "biased" else "neither more nor less"
        return f"Long texts look {how} alike than short ones to {model}: {seen}. Nothing has to be done."
    found = f"Long texts look more alike than short ones to {model}, which makes them harder to tell apart: {seen}."
    helps = (
        f"Temperature: {reason}."
        if reason
        else f"A softmax temperature of {value:g} is enough to undo this."
    )
    return f"{found} {helps} Before you change anything, measure with fairspan evaluate what your search gains."


def advice(frames: Mapping[str, pl.DataFrame]) -> str:
    """The suggested temperature by length. Whether it helps is for search and classification to say."""
    found = zip(frames["lengths"]["name"], frames["suggestion"].rows(), strict=True)
    return "; ".join(
        f"{name} tokens: {reason or f'{value:g}'}" for name, (_, value, reason) in found
    )


class _Axis(NamedTuple):
    """What a curve goes over: the column, its values with their labels, and their places between 0 and 1."""

    column: str
    unit: str
    labels: dict[int, str]
    places: tuple[float, ...] = ()


class _Shown:
    """The frames of one study, as sections of a page; what was not measured is left out."""

    def __init__(self, log: RunLog, frames: Mapping[str, pl.DataFrame]) -> None:
        self.log, self.frames, self.treatments = log, frames, log.measured
        self.where = log.where
        self.labels = dict(frames["lengths"].select("length", "name").rows())
        self.lengths = _Axis("length", "tokens", self.labels, on_log_axis(list(self.labels)))
        self.longest = max(self.labels)
        latest = pl.col("layer") == pl.col("layer").max().over("treatment", "measure")
        self.spectra, self.last_layer = frames["spectra"], frames["spectra"].filter(latest)
        self.geometry = frames["geometry"].filter(pl.col("against").is_null())

    def sections(self) -> tuple[Section, ...]:
        made = (self._overview(), self._by_length(), self._theory())
        return tuple(section for section in made if section.charts or section.tables)

    def _overview(self) -> Section:
        vectors = self.geometry.filter(pl.col("treatment") != WORDS)
        chart = self._chart(
            OVERVIEW,
            "What length does to vectors",
            "How similar texts of one length are, with 95 % intervals.",
            [self._panel(NAMES["cosine"], vectors, "cosine", self.lengths)],
        )
        whole, key = self.frames["geometry"], ["measure", "treatment"]
        ends = {f"doubling_{end}": end for end in ("estimate", "low", "high")}
        slopes = whole.filter(against="doubling").select(*key, **ends)
        notes = (
            f"{NAMES['cosine']}: how similar different texts of one length are",
            f"{NAMES['distance']}: mean over texts, each to the mean of the others",
        )
        values = self.geometry.join(slopes, key, "left", maintain_order="left")
        table = self._table(
            "geometry", "Vectors of texts by length", values, whole, notes, brief=True
        )
        return Section("At a glance", charts=(chart,), tables=(table,))

    def _by_length(self) -> Section:
        """LC Figs. 1c and 3, Figs. 6 and 8, and Fig. 12."""
        texts = (
            "the same documents cut at sentence borders"
            if self.log.header.part(CollapseEntries).paired
            else "whole documents"
        )
        whole = self.frames["classification"]
        labels = whole.filter(pl.col("against").is_null())
        repeated = self.frames["repeated"].select(
            "treatment", "times", measure=pl.lit("cosine"), estimate="cosine"
        )
        times = sorted(repeated["times"].unique())
        repetitions = _Axis(
            "times", "repetitions", {one: str(one) for one in times}, on_log_axis(times)
        )
        charts = (
            self._chart(
                "length-similarity",
                "How similar texts are, by length",
                "Mean pairwise cosine of texts, and their distance to the centre of the others, with 95 % intervals.",
                [self._panel(NAMES[one], self.geometry, one, self.lengths) for one in MEASURES],
            ),
            self._chart(
                "length-classification",
                "What a classifier still recognises, by length",
                "Accuracy of a classifier and the entropy of its predictions by length, with 95 % intervals.",
                [self._panel(NAMES[one], labels, one, self.lengths) for one in LABELS],
            ),
            self._chart(
                "length-repeated-words",
                "How similar two repeated words are",
                "Cosine of “dog dog …” and “cat cat …” by the number of repetitions.",
                [self._panel("", repeated, "cosine", repetitions)],
            ),
        )
        table = self._table(
            "classification", "A classifier by length", labels, whole, (), brief=True
        )
        return Section(
            "By length",
            f"Texts of each length are {texts}. Intervals are 95 %, over documents.",
            tuple(chart for chart in charts if chart.panels),
            folded=(table,) if len(labels) else (),
        )

    def _theory(self) -> Section:
        """LC Figs. 5 and 2, and the filter rates at every length."""
        rates = self._chart(
            "length-filter-rates",
            "How much of the differences between tokens each layer keeps",
            "Logarithm of the filter rate of each layer, by length.",
            [self._rates(length) for length in self.labels],
            NAMES["filter_rate"],
        )
        chart = self._chart(
            "length-theory",
            "What attention does, and what the theorems say",
            "Largest singular value of the last layer's attention without its mean, with Theorem 3's bound, and the "
            "filter rates of the longest texts with Theorem 2's.",
            [
                self._panel(
                    f"{NAMES['sigma_a']} of the last layer",
                    self.last_layer,
                    "sigma_a",
                    self.lengths,
                    True,
                ),
                self._rates(self.longest, f"{NAMES['filter_rate']}, ", True),
            ],
        )
        counts = (
            self.frames["bounds"]
            .group_by("bound", maintain_order=True)
            .agg(pl.col("above", "of").sum())
        )
        notes = [
            f"{NAMES['sigma_a']}: the smaller it is, the more similar attention makes the tokens"
        ] + [
            f"{NAMES[bound]} {f'does not hold in {above:,} of' if above else 'holds in all'} {total:,} layers of the "
            "texts that were measured"
            for bound, above, total in counts.rows()
        ]
        sigma = pl.concat(
            [self.last_layer.filter(measure=one) for one in ("sigma_a", "theorem_3", "sigma_s")]
        )
        table = self._table(
            "spectra", "Attention of the last layer by length", sigma, self.spectra, notes
        )
        return Section(
            "Theory",
            f"{THEORY} Means over {self.log.spec['spectra']} texts of each length at most.",
            tuple(one for one in (rates, chart) if one.panels),
            tables=(table,) if len(sigma) else (),
            closed=True,
        )

    def _table(
        self,
        name: str,
        title: str,
        values: pl.DataFrame,
        frame: pl.DataFrame,
        notes: Sequence[str],
        brief: bool = False,
    ) -> Table:
        """A table with a column for each length, and one for what a doubling of length adds where that is known."""
        slopes = [one for one in values.columns if one.startswith("doubling")]
        wide = values.pivot(
            "length",
            index=["measure", "treatment", *slopes],
            values="estimate",
            maintain_order=True,
        )
        known = {
            str(length): label
            for length, label in self.labels.items()
            if str(length) in wide.columns
        }
        columns = {length: Column(label, "tokens") for length, label in known.items()}
        if slopes and len(self.labels) > 1:
            columns["doubling"] = Column("each doubling [95 %]", form="+.4f")
        table = Table.from_frame(
            name,
            f"{title} ({self.where})",
            wide.with_columns(pl.col("measure", "treatment").replace(NAMES)),
            heads=("measure", "treatment"),
            columns=columns,
            grouped=1,
            notes=notes,
            brief=brief,
        )
        return replace(table, frame=frame)

    def _chart(
        self, name: str, title: str, caption: str, panels: Sequence[Panel], shared: str = ""
    ) -> Chart:
        """A chart of the panels that have curves, each with an axis of its own unless `shared` names one for all."""
        shown = tuple(
            replace(panel, y_label="") if shared else panel for panel in panels if panel.series
        )
        return Chart(name, title, caption, "lines", "tokens", shared, shown, subtitle=self.where)

    def _rates(self, length: int, title: str = "", bounded: bool = False) -> Panel:
        """The filter rates of the texts of one length by layer."""
        own = self.spectra.filter(length=length)
        layers = sorted(own.filter(measure="filter_rate")["layer"].unique())
        axis = _Axis("layer", "layer", {layer: str(layer + 1) for layer in layers})
        return self._panel(
            f"{title}{self.labels[length]} tokens", own, "filter_rate", axis, bounded
        )

    def _panel(
        self, title: str, frame: pl.DataFrame, measure: str, axis: _Axis, bounded: bool = False
    ) -> Panel:
        """A measure under every treatment, with its theorem's bound dashed."""
        series = []
        drawn = [measure, *([BOUNDS[measure]] if bounded else [])]
        own = frame.filter(pl.col("measure").is_in(drawn))
        for name, one in product(values_of(own, "treatment"), drawn):
            rows = own.filter(treatment=name, measure=one).iter_rows(named=True)
            values = {row[axis.column]: interval(row) for row in rows}
            told = f"{NAMES.get(name, name)}{', bound' if one != measure else ''}\n{axis.unit}: "
            points = tuple(
                point(
                    values.get(key),
                    f"{told}{shown}\n{NAMES[measure]}: {with_bounds(values.get(key))}",
                )
                for key, shown in axis.labels.items()
            )
            place = -1 if name == WORDS else self.treatments.index(name)
            if any(points):
                series.append(Series(NAMES.get(name, name), place, points, one != measure))
        labels = tuple(axis.labels.values())
        return Panel(
            title,
            labels,
            tuple(series),
            places=axis.places,
            x_label=axis.unit,
            y_label=NAMES[measure],
        )
