"""`fairspan collapse`, run through the command's own entry, with a tiny model on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairspan import load
from fairspan.calibration.calibration import Calibration
from fairspan.model.transformer import calibrated_transformers
from fairspan.studies.collapse.view import write_results
from fairspan.studies.logs import read_log
from tests.builders.commands import Run
from tests.builders.length_studies import PLAIN, above, study_of

Words = list[str | Path]

STRONG = "tempscale+temperature=0.5"
TREATMENTS = [PLAIN, STRONG, "fair"]


@pytest.fixture
def usual(place: Path) -> Words:
    """Two lengths and three treatments; the articles have 70 words."""
    asked = f"--lengths 10,40 --treatments {','.join(TREATMENTS)} --documents 6"
    return ["collapse", place / "model", "--corpus", place / "corpus", *asked.split()]


def test_calibrate_applies_what_was_advised(run: Run, place: Path, tmp_path: Path) -> None:
    """A log by hand, with a treatment that is shown to be enough."""
    study_of(tmp_path / "here", {PLAIN: above(0, 0.05, 0.1, 0.15), STRONG: above(0, 0, 0, 0)})
    write_results(read_log(tmp_path / "here"))
    assert run("calibrate", place / "model", "fair", "--calibration", "here").code == 0
    tempered = Calibration(strength=0.0, temperature=0.5)
    assert next(calibrated_transformers(load(tmp_path / "fair"))).calibration == tempered


def test_natural_lengths_and_treatments(run: Run, usual: Words) -> None:
    names = [PLAIN, "paper+basket_size=4+layers=[1,3]", "tempscale+temperature=0.7"]
    done = run(*usual[:4], "--natural", "--treatments", ",".join(names), "--json").ok
    said = json.loads(done.out)
    assert [row["length"] for row in said["lengths"]] == [0]
    assert [row["treatment"] for row in said["verdicts"]] == names


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--temperatures 1.0,0.5", "Unknown option"),
        ("--lengths ,", "--lengths takes whole numbers such as 3,4, got ','"),
        ("--lengths 10,600", "600 tokens do not fit: the model reads 512, of which 510 are text"),
        ("--max-seq-length 20", "40 tokens do not fit: the model reads 20, of which 18 are text"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: Words, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works."""
    run(*usual, *options.split()).is_one_line(said)
