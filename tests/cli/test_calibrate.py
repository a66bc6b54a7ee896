"""`fairspan calibrate`, run as a user runs it."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

import fairspan
from tests.builders.commands import Run
from tests.builders.tiny import words


@pytest.fixture(scope="module")
def folder(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "cls")


def test_calibrate_writes_what_the_library_makes(run: Run, folder: Path, tmp_path: Path) -> None:
    """The same vectors as `fairspan.calibrate` with the same fields, from both calls that the last
    line prints."""
    out = tmp_path / "fair"
    preset = "retrieval+basket_size=7+layers=[1,3]+temperature=0.9"
    wanted = fairspan.Calibration.preset("retrieval").but(
        basket_size=7, layers=[1, 3], temperature=0.9
    )
    done = run("calibrate", folder, tmp_path / "json", "--preset", preset, "--json").ok
    assert fairspan.Calibration.from_dict(json.loads(done.out)["calibration"]) == wanted
    last = run("calibrate", folder, out, "--preset", preset).ok.out.strip().splitlines()[-1]
    calls = re.findall(r"(?:SentenceTransformer|fairspan\.load)\(.*?\)", last)
    assert len(calls) == 2
    text = words(40)
    model = SentenceTransformer(str(folder), device="cpu")
    by_library = fairspan.calibrate(model, wanted).encode(text)
    for call in calls:
        loaded = eval(call, {"SentenceTransformer": SentenceTransformer, "fairspan": fairspan})
        assert np.array_equal(loaded.to("cpu").encode(text), by_library)


def test_nothing_is_written_over(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    run("calibrate", folder, tmp_path).is_one_line("is not an empty folder: choose another")
    averaged = run("calibrate", folder, tmp_path / "fair", "--preset", "chunk-mean")
    averaged.is_one_line("preset takes a calibration, such as fair")
    for out in ("mine.txt/a/b", "x" * 300):
        run("calibrate", folder, tmp_path / out).is_one_line("cannot be written")
    assert [file.name for file in tmp_path.rglob("*")] == ["mine.txt"]


def test_a_model_is_written_into_an_empty_folder(run: Run, folder: Path, tmp_path: Path) -> None:
    """Which may be a volume of its own: it is filled, not replaced."""
    (tmp_path / "fair").mkdir()
    identity = (tmp_path / "fair").stat().st_ino
    assert run("calibrate", folder, tmp_path / "fair", "--preset", "paper").code == 0
    assert (tmp_path / "fair").stat().st_ino == identity
    assert not [file for file in (tmp_path / "fair").iterdir() if file.name.startswith(".")]
    assert fairspan.load(tmp_path / "fair").encode("w1").shape == (32,)


@pytest.mark.parametrize(
    ("error", "there"),
    [
        (OSError(errno.EROFS, "Read-only file system"), True),
        (RuntimeError("I/O error: No space left on device (os error 28)\nand more"), False),
    ],
    ids=["read-only", "full"],
)
def test_nothing_is_left_of_a_model_that_cannot_be_written(
    run: Run,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    there: bool,
) -> None:
    """The disk is full, or turns out to be read-only, after the first files were written."""

    def fails(self: Pooling, path: str, *args: object, **options: object) -> None:
        assert Path(path).parent.joinpath("0_CalibratedTransformer", "model.safetensors").exists()
        raise error

    monkeypatch.setattr(Pooling, "save", fails)
    out = tmp_path / "new" / "fair"
    if there:
        out.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    run("calibrate", folder, out).is_one_line(f"{out} cannot be written: ")
    assert sorted(tmp_path.rglob("*")) == before


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").out.strip() == f"fairspan {fairspan.__version__}"
