"""`Inspection`: one document under every treatment, its numbers, picture and page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from fairspan.report.chart import Chart
from fairspan.report.files import write_file
from fairspan.report.frames import frame_of, to_records
from fairspan.report.render import render, require_page
from fairspan.report.result import Result
from fairspan.report.table import Column, Table
from fairspan.report.text import model_name, number
from fairspan.report.view import Card, Section, View
from fairspan.studies.inspect.reading import InspectedSegment, Reading

PACKAGE = "fairspan.studies.inspect"
PICTURE = "shares"
FORMAT = 2
_HEADER = ("model", "document", "borders", "length", "unit", "prompt", "n", "caveat")


@dataclass(frozen=True, repr=False)
class Inspection(Result):
    """One document of n segments under one or more treatments, the first of which is "before".

    Attributes:
        document: its name.
        borders: what the segments were found by.
        length: of the whole document, prompt and special tokens included.
        unit: "tokens", or "characters" where the model shows no tokenizer.
    """

    caveat: ClassVar[str] = (
        "This is one document: content and position cannot be separated here. For a verdict on the "
        "model run fairspan audit."
    )

    model: str
    document: str
    borders: str
    readings: tuple[Reading, ...]
    length: int
    unit: str
    prompt: str
    notes: tuple[str, ...] = ()

    @cached_property
    def view(self) -> View:
        """One chart and one table of all treatments."""
        title = f"{self.document} as embedded by {model_name(self.model)}"
        size = f"{self.n} segments {self.borders}, {self.length:,} {self.unit}"
        frames = _frames(self)
        tables = (_table(self, frames["readings"]),)
        return View(
            title=title,
            heading=f"{title}: {size}",
            cards=tuple(_card(self, reading) for reading in self.readings),
            sections=(
                Section("Shares", charts=(_chart(self, frames["readings"]),), tables=tables),
            ),
            frames=frames,
            picture=PICTURE,
            remarks=(self.caveat,),
            notes=self.notes,
        )

    def save_page(self, path: Path | str) -> Path:
        """Write a page that colours the text itself by its segments' shares."""
        require_page(Path(path))
        return write_file(Path(path), inspection_page(self))

    @property
    def segments(self) -> tuple[InspectedSegment, ...]:
        """As the first treatment reads them."""
        return self.readings[0].segments

    @property
    def n(self) -> int:
        return len(self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with one list of records for each frame."""
        return {
            "format": FORMAT,
            "verb": "inspect",
            **{name: getattr(self, name) for name in _HEADER},
            "notes": list(self.notes),
            **{name: to_records(frame) for name, frame in self.view.frames.items()},
        }


def _card(inspection: Inspection, reading: Reading) -> Card:
    """How much of the document is read."""
    if not reading.unseen:
        return Card(reading.treatment, "read whole", "plain", ())
    seen = inspection.length - reading.unseen
    badge = f"{seen:,} of {inspection.length:,} {inspection.unit} read"
    return Card(reading.treatment, badge, "open", ())


def _frames(inspection: Inspection) -> dict[str, pl.DataFrame]:
    """Treatments, segments, and both together; null where a measure is not defined."""
    verdicts = []
    readings = []
    for reading in inspection.readings:
        names = ("treatment", "window", "unseen")
        verdicts.append({name: getattr(reading, name) for name in names})
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


def _chart(inspection: Inspection, readings: pl.DataFrame) -> Chart:
    """Bars of shares, one panel for each treatment, with the fair share (IRF's Figure 2)."""
    segments = [segment for reading in inspection.readings for segment in reading.segments]
    cosines = [value for reading in inspection.readings for value in reading.representation]
    notes = [
        {"seen": number(cosine), "cut": segment.read, "never seen": "unseen"}[segment.status]
        for segment, cosine in zip(segments, cosines, strict=True)
    ]
    labels = [f"{segment.number} {segment.label}" for segment in segments]
    return Chart(
        name=PICTURE,
        title=inspection.document,
        subtitle=model_name(inspection.model),
        frame=readings.with_columns(label=pl.Series(labels), note=pl.Series(notes)),
        kind="rows",
        x="label",
        y="share",
        panel="treatment",
        x_title="segment",
        y_title=f"share of the similarity (right: cosine, or {inspection.unit} read)",
        form=".1%",
        level=(inspection.readings[0].fair, "fair share"),
        note="note",
        brief=True,
    )


def _table(inspection: Inspection, readings: pl.DataFrame) -> Table:
    """All numbers, by treatment and segment."""
    segments = [segment for reading in inspection.readings for segment in reading.segments]
    columns = {
        "read": Column(f"{inspection.unit} read"),
        "share": Column("share", form=".1%"),
        "representation": Column("cosine"),
    }
    if readings["retention"].count():
        columns["retention"] = Column("retention")
    return Table(
        "numbers",
        "All numbers",
        readings.with_columns(
            label=pl.Series([f"{segment.number} {segment.label}" for segment in segments]),
            read=pl.Series([segment.read for segment in segments]),
        ),
        heads={"treatment": "treatment", "label": "segment"},
        columns=columns,
        grouped=1,
        brief=True,
    )


def inspection_page(inspection: Inspection) -> str:
    """The whole page, which needs nothing but itself."""
    shares = [share for reading in inspection.readings for share in reading.share if share]
    return render(
        "inspection.html",
        styles=("inspection.css",),
        package=PACKAGE,
        inspection=inspection,
        view=inspection.view,
        model=model_name(inspection.model),
        top=max([inspection.readings[0].fair, *shares]),  # the longest bar of all treatments
    )
