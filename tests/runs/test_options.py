"""`StudyOptions`: what the call, the log and the key of a study follow from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairspan.calibration.treatment import Treatment, as_treatments
from fairspan.retrieval.source import TaskOptions
from fairspan.runs.options import StudyOptions, as_json, default_treatments, named, source
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


class Remote:
    model = "theirs"
    identity = "http://localhost theirs"


def test_only_own_fields_are_what_was_asked() -> None:
    asked = Options(model="m", out="o", fresh=True, device="cpu", seed=3).asked
    assert list(asked) == ["corpus", "tasks", "seed", "treatments"]
    assert asked["seed"] == 3
    assert [one["name"] for one in asked["treatments"]] == ["plain", "tiles-64"]


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


def test_names_and_defaults_of_models() -> None:
    assert named(None) == "all-MiniLM-L6-v2"
    assert (named("a/b"), named(Remote()), named(object())) == ("a/b", "theirs", "object")
    assert default_treatments("a/b") == ("plain", "fair")
    assert default_treatments(Remote()) == ("plain", "chunk-mean")


def test_values_as_json() -> None:
    assert as_json({3: (Path("a"), 1.5, None)}) == {"3": ["a", 1.5, None]}
