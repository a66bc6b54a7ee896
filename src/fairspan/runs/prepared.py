"""`Prepared`: a study with everything read and built, and nothing embedded yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fairspan.calibration.treatment import Treatment
from fairspan.runs.header import Header
from fairspan.runs.options import StudyOptions
from fairspan.runs.subject import Pair, Subject, Treated


@dataclass(frozen=True, slots=True)
class Work:
    """One line of a forecast: what a treatment or a stage embeds.

    Attributes:
        pairs: texts with what embeds them. Speed is measured with the last pair that has texts.
        facts: further columns, such as the number of documents.
    """

    name: str
    pairs: tuple[Pair, ...]
    facts: Mapping[str, int | str | None] = field(default_factory=dict)


class Prepared(Protocol):
    """What every study makes of its options before it runs."""

    @property
    def subject(self) -> Subject:
        """The model, with the prompts and windows of this study."""

    @property
    def options(self) -> StudyOptions: ...

    @property
    def text_hashes(self) -> list[Any]:
        """Hashes of all that was read, as JSON holds them: texts, queries, labels."""

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the log has to know of what was read and built."""

    @property
    def scope(self) -> str:
        """What is embedded, in a few words, such as "160 documents + 40 segments alone"."""

    def describe(self, header: Header) -> Header:
        """The header with what was read and built, and with the entries of this study."""

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """What is embedded, in order, by what `under` makes of a treatment."""
