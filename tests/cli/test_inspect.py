"""`fairspan inspect` through the command's own entry."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders.commands import Run
from tests.builders.tiny import words


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "page.md"
    sections = [f"# T{n}\n\n{words(20 + n, n)}" for n in range(3)]
    file.write_text("\n\n".join(sections), encoding="utf-8")
    return file


def test_it_prints_a_chart_and_says_what_it_is_not(run: Run, model: Path, page: Path) -> None:
    done = run("inspect", model, page).ok
    said = json.loads(run("inspect", model, page, "--json").out)
    assert [segment["title"] for segment in said["segments"]] == ["T0", "T1", "T2"]
    assert len(said["readings"]) == 6
    for row in said["readings"]:
        numbers = f"{row['segment']} T.* {row['share']:.1%} {row['representation']:.3f}"
        assert re.search(numbers.replace("-", "−").replace("%", "\u00a0%"), done.out)
    for part in ("This is one document", "run fairspan audit", "page.md as embedded by"):
        assert part in done.out
    assert "3 segments by headings" in done.out


def test_what_was_never_seen_is_printed(run: Run, model: Path, page: Path) -> None:
    done = run("inspect", model, page, "--max-seq-length", "40", "--treatments", "plain").ok
    assert "plain  40 of 71 tokens read" in done.out
    assert "Traceback" not in done.err


def test_stdin_may_be_text_or_json(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for content, segments in (
        (f"{words(9, 1)}\n---\n{words(9, 2)}".encode(), 2),
        (json.dumps([words(9, 1), words(9, 2), words(9, 3)]).encode(), 3),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        borders = ["--borders", "rule"] if segments == 2 else []
        done = run("inspect", model, "-", *borders, "--json", "--treatments", "plain").ok
        assert json.loads(done.out)["n"] == segments
        assert json.loads(done.out)["document"] == "stdin"


def test_a_picture_and_a_page_are_written_beside_the_json(
    run: Run, model: Path, page: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    written = "--picture a/shares.svg --html a/page.html --json"
    done = run("inspect", model, page, *written.split()).ok
    json.loads(done.out)
    assert "picture: a/shares.svg" in done.err
    assert (tmp_path / "a" / "shares.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "a" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("page.md --borders chapter", "borders must be one of auto, heading"),
        ("page.md --picture a.gif", "a picture is one of"),
        ("page.md --html a.pdf", "a page is an .html file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(
    run: Run, model: Path, page: Path, typed: str, said: str
) -> None:
    run("inspect", model, *typed.split()).is_one_line(said)
