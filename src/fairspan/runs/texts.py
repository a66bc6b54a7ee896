"""`Texts`: what a study embeds, read and cut, before anything is embedded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fairspan.calibration.treatment import Treatment
from fairspan.runs.embedder import Pair
from fairspan.runs.header import Header
from fairspan.runs.options import StudyOptions
from fairspan.runs.subject import Subject
from fairspan.runs.treated import Treated


class Texts(Protocol):
    """What every study makes of its options and the model."""

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
        """What a reader of the log has to know of what was read and cut."""

    def describe(self, header: Header) -> Header:
        """The header with what was read and cut, and with the entries of this study."""

    def stages(self, under: Callable[[Treatment], Treated]) -> Mapping[str, Sequence[Pair]]:
        """What is embedded, stage by stage, by what `under` makes of a treatment."""
