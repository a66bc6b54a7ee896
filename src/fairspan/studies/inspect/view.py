"""What an inspection shows: `view_of` its numbers, and a page with the text coloured by the segments' shares."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Any

import polars as pl

from fairspan.report.chart import Chart, Panel, Point, Series
from fairspan.report.frames import frame_of
from fairspan.report.render import render
from fairspan.report.table import Column, Table
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection

PACKAGE = "fairspan.studies.inspect"
PICTURE = "shares"
# The colour scale reaches at least this part of the fair share to both sides, so that small differences stay pale.
_LEAST_REACH = 0.25


def view_of(inspection: Inspection) -> View:
    """What one document's inspection has to show."""
    title = f"{inspection.document} through {model_name(inspection.model)}"
    frames = {
        "verdicts": _verdicts(inspection),
        "segments": pl.DataFrame(
            [{**asdict(one), "status": one.status} for one in inspection.segments]
        ),
        "readings": _readings(inspection),
    }
    return View(
        title=title,
        heading=f"{title}: {inspection.n} segments {inspection.borders}, {inspection.length:,} {inspection.unit}",
        cards=tuple(
            Card(one.treatment, f"{inspection.unread(one)} never seen", "open", (one.finding,))
            if one.unseen
            else Card(one.treatment, f"spread {number(one.spread)}", "plain", (one.finding,))
            for one in inspection.readings
        ),
        sections=(
            Section(
                "Shares",
                charts=(_chart(inspection),),
                tables=(_table(inspection, frames["readings"]),),
            ),
        ),
        frames=frames,
        picture=PICTURE,
        remarks=(inspection.caveat,),
        notes=(*inspection.warnings, *inspection.notes),
        switch=tuple(one.treatment for one in inspection.readings),
    )


def _verdicts(inspection: Inspection) -> pl.DataFrame:
    """Each treatment in one sentence, with its numbers. One document allows no verdict on a model."""
    return frame_of(
        {
            "treatment": reading.treatment,
            "sentence": reading.finding,
            "spread": reading.spread,
            "counted": len(reading.counted),
            "window": reading.window,
            "unseen": reading.unseen,
        }
        for reading in inspection.readings
    )


def _readings(inspection: Inspection) -> pl.DataFrame:
    """One row for each treatment and segment; null where a measure is not defined."""
    return frame_of(
        {
            "treatment": reading.treatment,
            "segment": segment.number,
            "tokens": segment.tokens,
            "seen": segment.seen,
            "share": share,
            "representation": cosine,
        }
        for reading in inspection.readings
        for segment, share, cosine in zip(
            reading.segments, reading.share, reading.representation, strict=True
        )
    ).cast({"share": pl.Float64})


def _chart(inspection: Inspection) -> Chart:
    """Bars are shares, one panel for each treatment, and a dashed line the fair share (IRF's Figure 2)."""
    panels = []
    for place, reading in enumerate(inspection.readings):
        labels = tuple(
            f"{one.number} {one.label} ({_meta(one, inspection.unit, whole=True)})"
            for one in reading.segments
        )
        points = tuple(
            None
            if share is None
            else Point(share, note=number(cosine) if one.seen else "unseen", void=not one.seen)
            for share, cosine, one in zip(
                reading.share, reading.representation, reading.segments, strict=True
            )
        )
        series = Series(reading.treatment, place, points)
        detail = f"{inspection.unread(reading)} never seen" if reading.unseen else ""
        panels.append(
            Panel(reading.treatment, labels, (series,), reference=reading.fair, detail=detail)
        )
    return Chart(
        PICTURE,
        inspection.document,
        "Each segment's share of the similarity of the document and its segments, and the cosine.",
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
    labels = {one.number: f"{one.number} {one.label}" for one in inspection.segments}
    shown = readings.with_columns(
        pl.col("segment").replace_strict(labels, return_dtype=pl.String).alias("label")
    )
    columns = {
        "tokens": Column(inspection.unit, form=",d"),
        "seen": Column("seen", form=",d"),
        "share": Column("share", form=".1%"),
        "representation": Column("cosine"),
    }
    heads = {"treatment": "treatment", "label": "segment"}
    return Table.from_frame(
        "numbers", "All numbers", shown, heads=heads, columns=columns, grouped=1, brief=True
    )


def inspection_page(inspection: Inspection) -> str:
    """The whole page, which needs nothing but itself."""
    pieces, readings = page_pieces(inspection), inspection.readings
    findings = [f"{one.finding[:1].upper()}{one.finding[1:]}." for one in readings]
    treatments = [
        {
            **{
                name: getattr(one, name)
                for name in ("treatment", "fair", "share", "representation")
            },
            "finding": said,
            "status": [segment.status for segment in one.segments],
            "meta": [_meta(segment, inspection.unit) for segment in one.segments],
        }
        for one, said in zip(readings, findings, strict=True)
    ]
    segments = [
        {
            "number": one.number,
            "label": one.label,
            "runs": [(run["seen"], run["marks"]) for run in own],
        }
        for one, own in pieces["segments"]
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
    """What the templates of an inspection draw with: the segments in runs, and one scale of bars and colours."""
    low, high = colour_range(inspection)
    shares = [
        share
        for one in inspection.readings
        for share in (one.fair, *one.share)
        if share is not None
    ]
    runs = [_runs(inspection, place) for place in range(inspection.n)]
    return {
        "inspection": inspection,
        "view": inspection.view,
        "model": model_name(inspection.model),
        "segments": list(zip(inspection.segments, runs, strict=True)),
        "low": low,
        "high": high,
        "top": max(shares, default=1.0),
        "heat": lambda share, fair: (
            0.5 if share is None else min(1, round((share / fair - low) / (high - low), 4))
        ),
        "meta": _meta,
    }


def _meta(segment: InspectedSegment, unit: str, *, whole: bool = False) -> str:
    """Its language and its length, with how much of that is read unless it is about the `whole` segment."""
    tokens = (
        f"{'' if whole or not segment.unseen else f'{segment.seen} of '}{segment.tokens} {unit}"
    )
    return " · ".join(filter(None, (segment.language, tokens)))


def colour_range(inspection: Inspection) -> tuple[float, float]:
    """The ends of the colour scale, in multiples of the fair share, which is in the middle: at most from 0 to 2."""
    ratios = [
        share / one.fair for one in inspection.readings for share in one.share if share is not None
    ]
    reach = min(1.0, max([_LEAST_REACH, *(abs(ratio - 1) for ratio in ratios)]))
    return 1 - reach, 1 + reach


def _runs(inspection: Inspection, place: int) -> list[dict[str, Any]]:
    """A segment's text in runs. For each treatment: whether a run is seen, and what marks the end of what is."""
    own = [reading.segments[place] for reading in inspection.readings]
    ends = sorted(
        {end for one in own for end in (one.start, one.seen_start, one.seen_end, one.end)}
    )
    runs: list[dict[str, Any]] = []
    for start, end in pairwise(ends):
        seen = [one.seen_start <= start and end <= one.seen_end for one in own]
        before = runs[-1]["seen"] if runs else [True] * len(own)
        marks = [
            f"{one.unseen} {inspection.unit} never seen"
            if one.status == "cut" and was and not now
            else ""
            for one, was, now in zip(own, before, seen, strict=True)
        ]
        runs.append({"text": inspection.text[start:end], "seen": seen, "marks": marks})
    return runs
