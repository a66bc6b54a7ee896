"""What an inspection shows: its numbers, and a page with the text coloured by the shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.frames import frame_of
from fairspan.report.render import render
from fairspan.report.table import Column, Table
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection, Reading

PACKAGE = "fairspan.studies.inspect"
PICTURE = "shares"
# The colour scale reaches at least this part of the fair share to both sides, so that small
# differences stay pale.
_LEAST_REACH = 0.25


def view_of(inspection: Inspection) -> View:
    """What one document's inspection has to show."""
    title = f"{inspection.document} as embedded by {model_name(inspection.model)}"
    size = f"{inspection.n} segments {inspection.borders}, {inspection.length:,} {inspection.unit}"
    frames = _frames(inspection)
    chart = _chart(inspection)
    table = _table(inspection, frames["readings"])
    return View(
        title=title,
        heading=f"{title}: {size}",
        cards=tuple(_card(inspection, reading) for reading in inspection.readings),
        sections=(Section("Shares", charts=(chart,), tables=(table,)),),
        frames=frames,
        picture=PICTURE,
        remarks=(inspection.caveat,),
        notes=(*inspection.warnings, *inspection.notes),
        switch=tuple(reading.treatment for reading in inspection.readings),
    )


def _card(inspection: Inspection, reading: Reading) -> Card:
    findings = (reading.finding,)
    if reading.unseen:
        badge = f"{inspection.unread(reading)} never seen"
        return Card(reading.treatment, badge, "open", findings)
    return Card(reading.treatment, f"spread {number(reading.spread)}", "plain", findings)


def _frames(inspection: Inspection) -> dict[str, pl.DataFrame]:
    """Treatments, segments, and both together; null where a measure is not defined."""
    verdicts = []
    readings = []
    for reading in inspection.readings:
        verdict = {
            "treatment": reading.treatment,
            "sentence": reading.finding,
            "spread": reading.spread,
            "counted": len(reading.counted),
            "window": reading.window,
            "unseen": reading.unseen,
        }
        verdicts.append(verdict)
        retained = reading.retention or (None,) * inspection.n
        measured = (reading.segments, reading.share, reading.representation, retained)
        for segment, share, cosine, kept in zip(*measured, strict=True):
            row = {
                "treatment": reading.treatment,
                "segment": segment.number,
                "tokens": segment.tokens,
                "seen": segment.seen,
                "share": share,
                "representation": cosine,
                "retention": kept,
            }
            readings.append(row)
    segments = [{**asdict(segment), "status": segment.status} for segment in inspection.segments]
    return {
        "verdicts": frame_of(verdicts),
        "segments": frame_of(segments),
        "readings": frame_of(readings).cast({"share": pl.Float64, "retention": pl.Float64}),
    }


def _chart(inspection: Inspection) -> Chart:
    """Bars of shares, one panel for each treatment, with the fair share (IRF's Figure 2)."""
    panels = []
    for place, reading in enumerate(inspection.readings):
        labels = []
        points = []
        shares = zip(reading.segments, reading.share, reading.representation, strict=True)
        for segment, share, cosine in shares:
            meta = _meta(segment, inspection.unit, whole=True)
            labels.append(f"{segment.number} {segment.label} ({meta})")
            note = number(cosine) if segment.seen else "unseen"
            point = None if share is None else Point(share, note=note, void=not segment.seen)
            points.append(point)
        series = Series(reading.treatment, place, tuple(points))
        detail = f"{inspection.unread(reading)} never seen" if reading.unseen else ""
        panel = Panel(
            reading.treatment, tuple(labels), (series,), reference=reading.fair, detail=detail
        )
        panels.append(panel)
    return Chart(
        PICTURE,
        inspection.document,
        "rows",
        "segment",
        "share of the similarity (right: cosine)",
        tuple(panels),
        subtitle=model_name(inspection.model),
        form=".1%",
        dashes="fair share",
        brief=True,
    )


def _table(inspection: Inspection, readings: pl.DataFrame) -> Table:
    """All numbers, by treatment and segment."""
    labels = {part.number: f"{part.number} {part.label}" for part in inspection.segments}
    label = pl.col("segment").replace_strict(labels, return_dtype=pl.String)
    columns = {
        "tokens": Column(inspection.unit, form=",d"),
        "seen": Column("seen", form=",d"),
        "share": Column("share", form=".1%"),
        "representation": Column("cosine"),
    }
    if readings["retention"].count():
        columns["retention"] = Column("retention")
    return Table.from_frame(
        "numbers",
        "All numbers",
        readings.with_columns(label=label),
        heads={"treatment": "treatment", "label": "segment"},
        columns=columns,
        grouped=1,
        brief=True,
    )


def inspection_page(inspection: Inspection) -> str:
    """The whole page, which needs nothing but itself."""
    pieces = page_pieces(inspection)
    treatments = [
        {
            "treatment": reading.treatment,
            "fair": reading.fair,
            "share": reading.share,
            "representation": reading.representation,
            "retention": reading.retention,
            "finding": f"{reading.finding[:1].upper()}{reading.finding[1:]}.",
            "status": [segment.status for segment in reading.segments],
            "meta": list(_page_metas(reading, inspection.unit)),
        }
        for reading in inspection.readings
    ]
    segments = [
        {
            "number": segment.number,
            "label": segment.label,
            "runs": [(run.seen, run.marks) for run in runs],
        }
        for segment, runs in pieces["segments"]
    ]
    scale = {name: pieces[name] for name in ("low", "high", "top")}
    return render(
        "inspection.html",
        scripts=("inspection.js",),
        styles=("inspection.css",),
        packages=(PACKAGE,),
        **pieces,
        first=treatments[0],
        data={**scale, "treatments": treatments, "segments": segments},
    )


def page_pieces(inspection: Inspection) -> dict[str, Any]:
    """What templates draw with: the segments in runs, and one scale of bars and colours."""
    low, high = colour_range(inspection)
    shares = [share for reading in inspection.readings for share in reading.share if share]

    def heat(share: float | None, fair: float) -> float:
        return 0.5 if share is None else min(1, round((share / fair - low) / (high - low), 4))

    return {
        "inspection": inspection,
        "view": inspection.view,
        "model": model_name(inspection.model),
        "segments": [
            (segment, _runs(inspection, place)) for place, segment in enumerate(inspection.segments)
        ],
        "low": low,
        "high": high,
        "top": max([inspection.readings[0].fair, *shares]),
        "heat": heat,
        "meta": _meta,
    }


def _meta(segment: InspectedSegment, unit: str, *, whole: bool = False) -> str:
    """Its language and length, and how much of that is read unless it is about the `whole`."""
    tokens = f"{segment.tokens} {unit}"
    if segment.unseen and not whole:
        tokens = f"{segment.seen} of {tokens}"
    return " · ".join(filter(None, (segment.language, tokens)))


def _page_metas(reading: Reading, unit: str) -> Iterator[str]:
    """What a page says of each segment besides its share."""
    for place, segment in enumerate(reading.segments):
        kept = f" · retention {number(reading.retention[place])}" if reading.retention else ""
        yield _meta(segment, unit) + kept


def colour_range(inspection: Inspection) -> tuple[float, float]:
    """The ends of the colour scale around the fair share, in multiples of it: at most 0 and 2."""
    reach = _LEAST_REACH
    for reading in inspection.readings:
        for share in reading.share:
            if share is not None:
                reach = max(reach, abs(share / reading.fair - 1))
    reach = min(1.0, reach)
    return 1 - reach, 1 + reach


@dataclass(frozen=True, slots=True)
class TextRun:
    """A piece of a segment's text: for each treatment, whether it is `seen`, and a mark before it
    if what was seen ends there.
    """

    text: str
    seen: list[bool]
    marks: list[str]


def _runs(inspection: Inspection, place: int) -> list[TextRun]:
    """The text of a segment, cut where some treatment starts or stops reading."""
    segments = [reading.segments[place] for reading in inspection.readings]
    ends = {end for part in segments for end in (part.start, part.end)}
    ends |= {end for part in segments for end in (part.seen_start, part.seen_end)}
    before = [True] * len(segments)
    runs = []
    for start, end in pairwise(sorted(ends)):
        seen = [part.seen_start <= start and end <= part.seen_end for part in segments]
        marks = [
            f"{part.unseen} {inspection.unit} never seen"
            if part.status == "cut" and was and not now
            else ""
            for part, was, now in zip(segments, before, seen, strict=True)
        ]
        runs.append(TextRun(inspection.text[start:end], seen, marks))
        before = seen
    return runs
