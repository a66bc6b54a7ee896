"""`StudyOptions`: what the call, the log and the key of a study follow from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairspan.calibration.treatment import Treatment, as_treatments
from fairspan.retrieval.source import TaskOptions
from fairspan.runs.options import StudyOptions, source
from fairspan.studies.evaluate.options import EvaluateOptions


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions):
    """A study.

    Attributes:
        corpus: what is read.
        tasks: what else is read.
        seed: of the draw.
    """

    verb: ClassVar[str] = "study"
    corpus: str = source("sample")
    tasks: tuple[str, ...] = source()
    seed: int = 0

    @property
    def all_treatments(self) -> tuple[Treatment, ...]:
        return as_treatments(["plain", "tiles-64"])


def test_sources_are_what_is_read() -> None:
    assert Options().sources == ["sample"]
    assert Options(corpus=Path("a"), tasks=("beir:b", "c")).sources == ["a", "beir:b", "c"]


@pytest.mark.parametrize(
    ("asked", "used", "sources"),
    [
        ({}, "corpus languages sets query_words", ["long-sample", "passages"]),
        ({"task": "mteb:SciFact"}, "languages", ["mteb:SciFact"]),
        ({"task": "mine", "languages": ["de"]}, "languages", ["mine"]),
    ],
    ids=["passages", "mteb", "languages"],
)
def test_a_search_has_the_options_of_its_task(
    asked: dict[str, Any], used: str, sources: list[str]
) -> None:
    """What other kinds of task take is neither in the log nor in the identity."""
    options = EvaluateOptions(**asked)
    of_task = {option.name for option in fields(TaskOptions)} & {*options.asked}
    assert of_task == {*used.split(), "seed"}
    assert {*options.asked} < {*options.decisive}
    assert options.sources == sources
