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
        tokens: its tokens inside the document.
        seen: how many of them the model reads.
        seen_start, seen_end: the characters of it that the model reads; equal where it reads none.
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
        return "seen" if self.unseen == 0 else "cut" if self.seen else "never seen"

    @property
    def label(self) -> str:
        """Its title, or its first words."""
        return excerpt((self.title or "").strip() or self.text)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one treatment makes of the document, one value per segment.

    Attributes:
        representation: cosine of the document's vector and the segment's own (METHODS: σ).
        segments: what it reads of each.
        window: how many tokens it reads; None if nothing is known of a limit.
        unseen: how many tokens of the document are never seen.
    """

    treatment: str
    representation: tuple[float, ...]
    segments: tuple[InspectedSegment, ...]
    window: int | None
    unseen: int

    @property
    def counted(self) -> tuple[int, ...]:
        """The places of the segments that it reads to their end: the cosine of any other is not about its text."""
        return tuple(place for place, one in enumerate(self.segments) if one.status == "seen")

    @property
    def share(self) -> tuple[float | None, ...]:
        """Each counted segment's part of the sum of their cosines, negative ones counted as 0.

        None for those that do not count, and throughout if fewer than two count or no cosine is positive.
        """
        positive = {place: max(0.0, self.representation[place]) for place in self.counted}
        total = sum(positive.values()) if len(positive) > 1 else 0.0
        places = range(len(self.segments))
        return tuple(positive[one] / total if total and one in positive else None for one in places)

    @property
    def fair(self) -> float | None:
        """The share that every counted segment would have in a fair vector."""
        return 1 / len(self.counted) if len(self.counted) > 1 else None

    @property
    def ordered(self) -> list[int]:
        """The numbers of the counted segments, the worst represented first; empty if fewer than two count."""
        places = sorted(self.counted, key=self.representation.__getitem__) if len(self.counted) > 1 else []
        return [place + 1 for place in places]

    @property
    def spread(self) -> float | None:
        """Between the best and the worst represented of the counted segments; None for fewer than two."""
        cosines = [self.representation[one - 1] for one in self.ordered]
        return cosines[-1] - cosines[0] if cosines else None

    @property
    def finding(self) -> str:
        """One sentence about the segments that it reads to their end."""
        numbers = [place + 1 for place in self.counted]
        if not self.ordered:
            return f"{'only' if numbers else 'no'} {_named(numbers)} is read whole, so there is no spread"
        worst, best = self.ordered[0], self.ordered[-1]
        words = (
            f"segment {best} is represented best ({number(self.representation[best - 1])}) and segment {worst} least "
            f"({number(self.representation[worst - 1])}): a spread of {number(self.spread)}"
        )
        left_out = [one.number for one in self.segments if one.number not in numbers]
        return f"{words} over {_named(numbers)}; {_named(left_out)} not counted" if left_out else words


@dataclass(frozen=True, repr=False)
class Inspection(Result):
    """One document of n segments under one or more treatments, the first of which is "before".

    Attributes:
        document: its name.
        borders: what the segments were found by.
        length: tokens of the whole document, prompt and special tokens included.
        unit: "tokens", or "characters" where the model shows no tokenizer.
        show, write: make the view and the page of an inspection.
        notes: what a reader of the numbers should know.
    """

    caveat: ClassVar[str] = (
        "This is one document: content and position cannot be separated here. For a verdict on the model run "
        "fairspan audit."
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
        """What was never seen; and, where no treatment reads the whole document, what does."""
        if not all(reading.unseen for reading in self.readings):
            return self.cuts
        remedy = (
            f"To read all of it on this model, set max_seq_length to {self.length} and use a treatment in tiles: "
            f"tiles, or tiles+tile_size={(self.readings[0].window or 0) // 2} for longer tiles."
        )
        return (*self.cuts, remedy)

    @property
    def cuts(self) -> tuple[str, ...]:
        """What was never seen, each in one sentence, and under which treatments unless it is under all."""
        said: dict[str, list[str]] = {}
        for reading in self.readings:
            if reading.unseen:
                said.setdefault(self._never_seen(reading), []).append(reading.treatment)
        every = len(self.readings)
        return tuple(one if len(names) == every else f"{', '.join(names)}: {one}" for one, names in said.items())

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

    def _never_seen(self, reading: Reading) -> str:
        places = [
            f"segment {segment.number} in part ({segment.unseen} of its {segment.tokens} {self.unit})"
            for segment in reading.segments
            if segment.status == "cut"
        ]
        gone = [segment.number for segment in reading.segments if segment.status == "never seen"]
        if gone:
            places.append(f"{_named(gone)} wholly")
        first = next((segment for segment in reading.segments if segment.unseen), None)
        words = ""
        if first is not None:
            # A tokenizer may cut at the start.
            body = self.text[first.seen_end : first.end] or self.text[first.start : first.seen_start]
            words = f" Unseen is what begins “{excerpt(body)}”: {' and '.join(places)}."
        return (
            f"The document has {self.length:,} {self.unit} and the model reads {reading.window:,}: "
            f"{reading.unseen:,} were never seen.{words}"
        )


def excerpt(text: str) -> str:
    """The first words of a text, on one line."""
    line = " ".join(text.split())
    if len(line) <= _EXCERPT:
        return line
    cut = line[: _EXCERPT - 1]
    # Scripts without spaces are cut anywhere.
    space = cut.rfind(" ")
    return (cut[:space] if space > _EXCERPT // 2 else cut).rstrip(" ,;:.") + "…"


def _named(numbers: Sequence[int]) -> str:
    """ "segment", "segment 3", "segments 3 and 4", "segments 3 to 7"."""
    if not numbers:
        return "segment"
    if len(numbers) == 1:
        return f"segment {numbers[0]}"
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"segments {numbers[0]} to {numbers[-1]}"
    return f"segments {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
