"""`StudyOptions`: what the call, the log and the key of a study follow from."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

import pytest

from fairspan.calibration.treatment import Treatment, as_treatments
from fairspan.encoding.calling import call_of
from fairspan.runs.key import key_of
from fairspan.runs.options import StudyOptions, as_json, default_treatments, named, source


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
    def measured(self) -> tuple[Treatment, ...]:
        return as_treatments(["plain", "tiles"])


class Remote:
    model = "theirs"
    identity = "http://localhost theirs"


def test_only_own_fields_are_what_was_asked() -> None:
    asked = Options(model="m", out="o", fresh=True, device="cpu", seed=3).asked
    assert list(asked) == ["corpus", "tasks", "seed", "treatments"]
    assert asked["seed"] == 3
    assert [one["name"] for one in asked["treatments"]] == ["plain", "tiles"]


def test_sources_are_what_is_read() -> None:
    assert Options().sources == ["sample"]
    assert Options(corpus=str(Path("a")), tasks=("beir:b", "c")).sources == ["a", "beir:b", "c"]


def test_the_call_has_every_field_once() -> None:
    call = call_of(Options, lambda options: options, "study", __name__)
    assert list(inspect.signature(call).parameters) == [one.name for one in fields(Options)]
    assert call("m", seed=2) == Options("m", seed=2)
    with pytest.raises(TypeError, match=r"study\(\): .*'sead'"):
        call(sead=1)
    assert call.__doc__ is not None


def test_a_key_is_of_everything_that_decides(tmp_path: Path) -> None:
    file = tmp_path / "en.jsonl"
    file.write_text('{"id": "a", "text": "b"}')
    first = Options(Remote(), corpus=str(tmp_path))
    key = key_of(first)
    assert key is not None
    assert key_of(replace(first, out="elsewhere", progress=False, batch_tokens=7)) == key
    for changed in (replace(first, seed=1), replace(first, name="other"), replace(first, dtype="float16")):
        assert key_of(changed) != key
    os.utime(file, ns=(1, 1))
    assert key_of(first) != key
    assert key_of(replace(first, corpus=str(tmp_path / "absent"))) is None
    assert key_of(replace(first, model=object())) is None
    assert key_of(replace(first, trust_remote_code=True)) is None


def test_names_and_defaults_of_models() -> None:
    assert named(None) == "all-MiniLM-L6-v2"
    assert (named("a/b"), named(Remote()), named(object())) == ("a/b", "theirs", "object")
    assert default_treatments("a/b") == ("plain", "tiles")
    assert default_treatments(Remote()) == ("plain", "chunk-mean")


def test_values_as_json() -> None:
    assert as_json({3: (Path("a"), 1.5, None)}) == {"3": ["a", 1.5, None]}
