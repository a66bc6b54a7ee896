"""The page of an inspection: the text itself, coloured by each segment's share."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairspan.report.render import render
from fairspan.report.text import model_name

if TYPE_CHECKING:
    from fairspan.studies.inspect.inspection import InspectedSegment, Inspection

# The colour scale reaches at least this part of the fair share to both sides, so that small differences stay pale.
_LEAST_REACH = 0.25


def inspection_page(inspection: Inspection) -> str:
    """The whole page, which needs nothing but itself."""
    low, high = colour_range(inspection)
    top = max([inspection.fair, *_known_shares(inspection)])
    readings = inspection.readings
    treatments = [{**asdict(reading), "finding": _sentence(inspection.finding(reading))} for reading in readings]
    segments = [
        {"number": segment.number, "label": segment.label, "status": segment.status}
        for segment in inspection.segments
    ]
    return render(
        "inspection.html",
        scripts=("inspection.js",),
        styles=("inspection.css",),
        package="fairspan.studies.inspect",
        inspection=inspection,
        model=model_name(inspection.model),
        segments=[(segment, _runs(segment, inspection.text)) for segment in inspection.segments],
        first=treatments[0],
        low=low,
        high=high,
        top=top,
        has_attention=any(reading.attention is not None for reading in readings),
        has_retention=any(reading.retention is not None for reading in readings),
        data={"low": low, "high": high, "top": top, "treatments": treatments, "segments": segments},
        heat=lambda share: 0.5 if share is None else round((share - low) / (high - low), 4),
    )


def colour_range(inspection: Inspection) -> tuple[float, float]:
    """The shares at the ends of the colour scale, the same for every treatment and as far from fair on both sides."""
    farthest = max((abs(share - inspection.fair) for share in _known_shares(inspection)), default=0.0)
    reach = max(_LEAST_REACH * inspection.fair, farthest)
    return inspection.fair - reach, inspection.fair + reach


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _known_shares(inspection: Inspection) -> list[float]:
    return [share for reading in inspection.readings for share in reading.share if share is not None]


def _runs(segment: InspectedSegment, text: str) -> list[dict[str, Any]]:
    """A segment's text in runs, each seen or never seen."""
    ends = [segment.start, segment.seen_start, segment.seen_end, segment.end]
    runs = [{"text": text[ends[place] : ends[place + 1]], "seen": place == 1} for place in range(3)]
    return [run for run in runs if run["text"]]
