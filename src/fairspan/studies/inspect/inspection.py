"""`Inspection`: one document, and each segment's part in its vector under every treatment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fairspan.report.files import write_file
from fairspan.report.frames import to_records
from fairspan.report.render import require_page
from fairspan.report.result import Result
from fairspan.report.text import number
from fairspan.report.view import View

FORMAT = 1
_HEADER = ("model", "document", "borders", "length", "unit", "prompt", "n", "caveat", "text")
_EXCERPT = 60


@dataclass(frozen=True, slots=True)
class InspectedSegment:
    """One segment of a document, and what a treatment reads of it.

    Attributes:
        number: its position, from 1.
        start, end: its characters in the document's text.
        seen: how many of its tokens the model reads.
        seen_start, seen_end: the characters that the model reads; equal where it reads none.
    """

    number: int
    title: str | None
    language: str | None
    text: str
    start: int
    end: int
    tokens: int
    seen: int
    seen_start: int
    seen_end: int

    @property
    def unseen(self) -> int:
        return self.tokens - self.seen

    @property
    def status(self) -> str:
        """ "seen", "cut" where the model reads a part of it, or "never seen"."""
        if self.unseen == 0:
            return "seen"
        return "cut" if self.seen else "never seen"

    @property
    def label(self) -> str:
        """Its title, or its first words."""
        return excerpt((self.title or "").strip() or self.text)


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
    def counted(self) -> tuple[int, ...]:
        """The indexes of the segments that it reads to their end."""
        return tuple(k for k, segment in enumerate(self.segments) if segment.status == "seen")

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
    def ordered(self) -> list[int]:
        """The numbers of the counted segments, the worst represented first; empty if only one."""
        ordered = sorted(self.counted, key=self.representation.__getitem__)
        return [index + 1 for index in ordered] if len(ordered) > 1 else []

    @property
    def spread(self) -> float | None:
        """Between the best and the worst represented of the counted segments."""
        cosines = [self.representation[number - 1] for number in self.ordered]
        return cosines[-1] - cosines[0] if cosines else None

    @property
    def finding(self) -> str:
        """One sentence: what the vector lacks, and what it has most and least of."""
        parts = []
        if self.missing:
            parts.append(f"the vector lacks {self.missing}")
        if self.ordered:
            worst = self.ordered[0]
            best = self.ordered[-1]
            parts.append(
                f"{'of the others, ' if parts else ''}segment {best} is represented best "
                f"({number(self.representation[best - 1])}) and segment {worst} least "
                f"({number(self.representation[worst - 1])})"
            )
        return "; ".join(parts)

    @property
    def missing(self) -> str:
        """The segments that it does not read, or not to their end; empty if it reads all."""
        unread = [part.number for part in self.segments if part.status == "never seen"]
        words = [_list_segments(unread)] if unread else []
        for part in self.segments:
            if part.status == "cut":
                tokens = f"{part.unseen:,} of the {part.tokens:,} tokens"
                words.append(f"{tokens} of segment {part.number}")
        return ", and ".join(words)


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
    text: str
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
        """What was never seen; and what reads the whole document."""
        if not self.cuts:
            return ()
        whole = ", ".join(reading.treatment for reading in self.readings if not reading.unseen)
        remedy = whole or "fair: name it as a treatment"
        return (*self.cuts, f"The whole document is read by {remedy}.")

    @property
    def cuts(self) -> tuple[str, ...]:
        """What was never seen, each in one sentence, after the treatments unless these are all."""
        treatments: dict[str, list[str]] = {}
        for reading in self.readings:
            if reading.unseen:
                treatments.setdefault(self._cut(reading), []).append(reading.treatment)
        return tuple(
            sentence if len(names) == len(self.readings) else f"{', '.join(names)}: {sentence}"
            for sentence, names in treatments.items()
        )

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

    def _cut(self, reading: Reading) -> str:
        """What a treatment does not read, in a sentence."""
        side = "last"
        words = ""
        first = next((segment for segment in reading.segments if segment.unseen), None)
        if first is not None:
            after = self.text[first.seen_end : first.end]
            unread = after or self.text[first.start : first.seen_start]
            words = f": {reading.missing}. The unread text begins “{excerpt(unread)}”"
            # A tokenizer may cut at the start.
            if not reading.segments[-1].unseen:
                side = "first"
        return (
            f"The {side} {reading.unseen:,} of {self.length:,} {self.unit} "
            f"({self.unread(reading)}) are not in the vector, because the model reads "
            f"{reading.window:,}{words}."
        )

    def unread(self, reading: Reading) -> str:
        """How much of the document a treatment does not read."""
        return number(reading.unseen / self.length, ".1%")


def excerpt(text: str) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text.split())
    if len(line) <= _EXCERPT:
        return line
    cut = line[: _EXCERPT - 1]
    # Scripts without spaces are cut anywhere.
    space = cut.rfind(" ")
    return (cut[:space] if space > _EXCERPT // 2 else cut).rstrip(" ,;:.") + "…"


def _list_segments(numbers: Sequence[int]) -> str:
    """ "segment 3", "segments 3 and 4", "segments 3 to 7"."""
    if len(numbers) == 1:
        return f"segment {numbers[0]}"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"segments {numbers[0]} to {numbers[-1]}"
    return f"segments {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
