"""One document under the lens as a page that colours the text itself by each segment's share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from fairspan.report.page.render import asset, render, write_text
from fairspan.report.tables.text import model_name
from fairspan.studies.inspect.inspection import InspectedSegment, Inspection

# The colour scale reaches at least this part of the fair share to both sides, so that trifles stay pale.
_LEAST_REACH = 0.25


def inspection_page(inspection: Inspection) -> str:
    """The whole page, which needs nothing but itself."""
    low, high = colour_range(inspection)
    top = max([inspection.fair, *_known_shares(inspection)])
    data = {
        "fair": inspection.fair,
        "low": low,
        "high": high,
        "top": top,
        "treatments": [
            {
                "name": reading.treatment,
                "share": reading.share,
                "representation": reading.representation,
                "attention": reading.attention,
                "retention": reading.retention,
                "finding": inspection.finding(reading),
            }
            for reading in inspection.readings
        ],
        "segments": [
            {"number": segment.number, "label": segment.label, "status": segment.status}
            for segment in inspection.segments
        ],
    }
    return render(
        "inspection.html",
        scripts=["inspection.js"],
        own_style=Markup(asset("inspection.css")),
        inspection=inspection,
        model=model_name(inspection.model),
        segments=[_shown(segment, inspection) for segment in inspection.segments],
        first=inspection.readings[0],
        finding=_sentence(inspection.finding(inspection.readings[0])),
        low=low,
        high=high,
        top=top,
        has_attention=any(reading.attention is not None for reading in inspection.readings),
        has_retention=any(reading.retention is not None for reading in inspection.readings),
        data=data,
        percent=percent,
        decimal=decimal,
        heat=lambda share: heat(share, low, high),
    )


def save_inspection_page(inspection: Inspection, file: Path) -> None:
    """Write the page."""
    write_text(inspection_page(inspection), file)


def colour_range(inspection: Inspection) -> tuple[float, float]:
    """The shares at the ends of the colour scale, the same for every treatment and as far from fair on both sides."""
    farthest = max((abs(share - inspection.fair) for share in _known_shares(inspection)), default=0.0)
    reach = max(_LEAST_REACH * inspection.fair, farthest)
    return inspection.fair - reach, inspection.fair + reach


def heat(share: float | None, low: float, high: float) -> float:
    """Where a share lies on the colour scale, from 0 to 1."""
    return 0.5 if share is None else round((share - low) / (high - low), 4)


def percent(share: float | None, digits: int = 1) -> str:
    return "–" if share is None else f"{100 * share:.{digits}f}\u00a0%".replace("-", "−")


def decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _known_shares(inspection: Inspection) -> list[float]:
    return [share for reading in inspection.readings for share in reading.share if share is not None]


def _shown(segment: InspectedSegment, inspection: Inspection) -> dict[str, Any]:
    """A segment with its text in runs, each seen or never seen."""
    borders = [segment.start, segment.seen_start, segment.seen_end, segment.end]
    runs = [
        {"text": inspection.text[borders[number] : borders[number + 1]], "seen": number == 1} for number in range(3)
    ]
    return {
        "number": segment.number,
        "title": segment.title,
        "label": segment.label,
        "language": segment.language,
        "tokens": segment.tokens,
        "seen": segment.seen,
        "unseen": segment.unseen,
        "status": segment.status,
        "runs": [run for run in runs if run["text"]],
    }
