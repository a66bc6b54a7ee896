"""`Inspection`: one document, and each segment's part in its vector under every treatment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fairspan.report.files import write_file
from fairspan.report.frames import to_records
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.view import View

FORMAT = 2
_HEADER = ("model", "document", "borders", "length", "unit", "prompt", "n", "caveat")
_LABEL = 60


@dataclass(frozen=True, slots=True)
class InspectedSegment:
    """One segment of a document, and what a treatment reads of it.

    Attributes:
        number: its position, from 1.
        seen: how many of its tokens the model reads.
        first, last: the characters of its text that the model reads; equal where it reads none.
    """

    number: int
    title: str | None
    language: str | None
    text: str
    tokens: int
    seen: int
    first: int
    last: int

    @property
    def status(self) -> str:
        """ "seen", "cut" where the model reads a part of it, or "never seen"."""
        if self.seen == self.tokens:
            return "seen"
        return "cut" if self.seen else "never seen"

    @property
    def read(self) -> str:
        """Its tokens, such as "328"; where not all of them are read, such as "74 of 328"."""
        return f"{self.tokens}" if self.status == "seen" else f"{self.seen} of {self.tokens}"

    @property
    def label(self) -> str:
        """Its title, or its first words."""
        line = " ".join(((self.title or "").strip() or self.text).split())
        return line if len(line) <= _LABEL else f"{line[: _LABEL - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one treatment makes of the document, one value per segment.

    Attributes:
        representation: cosine of the document's vector and the segment's own (METHODS: σ).
        window: how many tokens it reads; None if nothing is known of a limit.
        unseen: how many tokens of the document are never seen.
        retention: cosine of the segment inside the document and its own vector (METHODS: τ); empty
            unless the model takes the mean of tokens and reads the whole document.
    """

    treatment: str
    representation: tuple[float, ...]
    segments: tuple[InspectedSegment, ...]
    window: int | None
    unseen: int
    retention: tuple[float, ...] = ()

    @property
    def share(self) -> tuple[float | None, ...]:
        """Each segment's part of the sum of the cosines, weighted by how much of it is read.

        Negative cosines count as 0; all shares are None if no cosine is positive.
        """
        weighted = [
            max(0.0, cosine) * (segment.seen / segment.tokens if segment.tokens else 1.0)
            for cosine, segment in zip(self.representation, self.segments, strict=True)
        ]
        total = sum(weighted)
        return tuple(value / total if total else None for value in weighted)

    @property
    def fair(self) -> float:
        """The share that every segment would have in a fair vector."""
        return 1 / len(self.segments)

    @property
    def spread(self) -> float | None:
        """Between the cosines of the segments that are read to their end; None for fewer than 2."""
        pairs = zip(self.representation, self.segments, strict=True)
        cosines = [cosine for cosine, segment in pairs if segment.status == "seen"]
        return max(cosines) - min(cosines) if len(cosines) > 1 else None


@dataclass(frozen=True, repr=False)
class Inspection(Result):
    """One document of n segments under one or more treatments, the first of which is "before".

    Attributes:
        document: its name.
        borders: what the segments were found by.
        length: of the whole document, prompt and special tokens included.
        unit: "tokens", or "characters" where the model shows no tokenizer.
        show, write: make the view and the page of an inspection.
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
    show: Callable[[Inspection], View]
    write: Callable[[Inspection], str]
    notes: tuple[str, ...] = ()

    @cached_property
    def view(self) -> View:
        return self.show(self)

    def save_page(self, path: Path | str) -> Path:
        """Write a page that colours the text itself by its segments' shares."""
        require_page(Path(path))
        return write_file(Path(path), self.write(self))

    @property
    def segments(self) -> tuple[InspectedSegment, ...]:
        """As the first treatment reads them."""
        return self.readings[0].segments

    @property
    def n(self) -> int:
        return len(self.segments)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which treatments do not read all of it, and which do."""
        cuts = []
        for reading in self.readings:
            if reading.unseen:
                unread = f"{reading.unseen:,} of {self.length:,} {self.unit} are not in the vector"
                why = f"because the model reads {reading.window:,}"
                cuts.append(f"{reading.treatment}: {unread}, {why}")
        whole = ", ".join(reading.treatment for reading in self.readings if not reading.unseen)
        remedy = whole or "fair: name it as a treatment"
        return (*cuts, f"The whole document is read by {remedy}") if cuts else ()

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it, with one list of records for each frame."""
        return {
            "format": FORMAT,
            "verb": "inspect",
            **{name: getattr(self, name) for name in _HEADER},
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            **{name: to_records(frame) for name, frame in self.view.frames.items()},
        }
