"""`fairspan collapse`, run through the command's own entry, with a tiny model on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairspan import load
from fairspan.calibration.calibration import Calibration
from fairspan.model.transformer import calibrated_transformers
from fairspan.studies.logs import read_log
from tests.commands import Run
from tests.length_studies import PLAIN

Words = list[str | Path]

TREATMENTS = [PLAIN, "tempscale+temperature=0.5", "fair"]


@pytest.fixture
def usual(place: Path) -> Words:
    """Two lengths and two temperatures; the articles have 70 words."""
    asked = "--lengths 10,40 --temperatures 1.0,0.5 --documents 6"
    return ["collapse", place / "model", "--corpus", place / "corpus", *asked.split()]


def test_a_study_tells_its_verdicts_and_where_the_log_lies(
    run: Run, usual: Words, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    done = run(*usual, "--out", "here", "--picture", "p.svg").ok
    log = read_log(tmp_path / "here")
    assert (log.status, log.treatments) == ("complete", TREATMENTS)
    assert log.frame("lengths")["length"].to_list() == [10, 40]
    assert set(log.rows["measure"]) >= {"cosine", "sigma_a", "filter_rate", "repeated"}
    printed = " ".join(done.out.split())
    for name, verdict, sentence in log.verdicts.rows():
        assert f"{name} {verdict}: {sentence}" in printed
    assert all(remark in done.out for remark in log.view.remarks)
    assert "6 documents cut to 10, 40 tokens" in done.out
    assert "log: here" in done.out
    assert "loading" in done.err
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    again = run(*usual, "--out", "here", "--json")
    said = json.loads(again.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert {**said, "folder": ""} == {**json.loads(json.dumps(log.to_dict())), "folder": ""}
    assert "loading" not in again.err, "the log is the answer"


def test_calibrate_applies_what_was_advised(run: Run, usual: Words, tmp_path: Path) -> None:
    """With a margin within which everything is, the only temperature is enough."""
    done = run(*usual, "--temperatures", "0.5", "--margin", "0.9", "--out", "here").ok
    assert "vectors alone: 0.5; to apply it, give this run to fairspan calibrate" in done.out
    assert f"calibration: {Path('here', 'calibration.json')}" in done.out
    assert run("calibrate", usual[1], "fair", "--calibration", "here").code == 0
    tempered = Calibration(strength=0.0, temperature=0.5)
    assert next(calibrated_transformers(load(tmp_path / "fair"))).calibration == tempered


def test_spectra_of_all_layers_and_more_texts(run: Run, usual: Words, tmp_path: Path) -> None:
    """Both theorems at every layer of the six documents of each length."""
    asked = "--spectra 6 --layers all --start beginning --seed 3 --out here"
    assert run(*usual, *asked.split()).code == 0
    spectra = read_log(tmp_path / "here").frame("spectra")
    for measure in ("sigma_a", "theorem_2", "theorem_3"):
        rows = spectra.filter(measure=measure)
        assert rows.select("length", "layer").n_unique() == 2 * 4
        assert set(rows["texts"]) == {6}


def test_natural_lengths_and_treatments(run: Run, usual: Words) -> None:
    """Spectra are on by default."""
    named = "paper+basket_size=4+layers=[1,3],tempscale+temperature=0.7"
    asked = ["--natural", "--temperatures", "1", "--treatments", named]
    done = run(*usual[:4], *asked, "--json").ok
    said = json.loads(done.out)
    assert [one["length"] for one in said["lengths"]] == [0]
    assert [one["treatment"] for one in said["verdicts"]] == [
        PLAIN,
        "paper+basket_size=4+layers=[1,3]",
        "tempscale+temperature=0.7",
    ]


def test_a_dry_run_counts_and_writes_nothing(run: Run, usual: Words, tmp_path: Path) -> None:
    done = run(*usual, "--dry-run", "--json").ok
    said = json.loads(done.out)
    assert [row["name"] for row in said["rows"]] == TREATMENTS
    assert said["seconds"] == pytest.approx(sum(row["seconds"] for row in said["rows"]))
    assert said["seconds"] > 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--temperatures ,", "temperatures takes numbers such as 1.0,0.9, got ','"),
        ("--lengths 10,600", "600 tokens do not fit: the model reads 512, of which 510 are text"),
        ("--max-seq-length 20", "40 tokens do not fit: the model reads 20, of which 18 are text"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, usual: Words, options: str, said: str
) -> None:
    """The last option counts, so that each is added to a command that works. Progress may come
    before the line."""
    run(*usual, *options.split()).is_one_line(said)
