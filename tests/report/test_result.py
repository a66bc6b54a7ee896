"""What every result shows of itself: one line, a table in notebooks, and what there is when a name
is wrong."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace
from html import escape

import pytest

from tests.builders.saying import said_by
from tests.report.example import EVIL, FRAME, TREATMENTS, ExampleResult, profiles, view

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def result(*, hostile: bool = False) -> ExampleResult:
    """With one chart."""
    shown = view(hostile=hostile)
    names = [card.name for card in shown.cards]
    first = replace(shown.sections[0], charts=(profiles(names, plans=("en",)),))
    return ExampleResult(replace(shown, sections=(first,)))


def test_one_line() -> None:
    assert repr(result()) == (
        "<a model | a corpus | 12 documents | none: unfair; paper: fair; "
        "retrieval: needs more data>"
    )
    broken = ExampleResult(replace(view(), heading="a\nb", cards=()))
    assert repr(broken) == "<a b>"


def test_frames_and_figures_by_name() -> None:
    shown = result()
    assert shown.verdicts["treatment"].to_list() == list(TREATMENTS)
    assert shown.frame("numbers") is FRAME
    assert shown.figure("profiles").to_dict() == shown.figure().to_dict()
    assert "there is no frame 'x', only verdicts, numbers" in said_by(shown.frame, "x")
    assert "there is no figure 'x', only profiles." in said_by(shown.figure, "x")


def test_in_a_notebook() -> None:
    """Every name is text, and the picture is inside."""
    html = result(hostile=True)._repr_html_()
    assert "<img src=x" not in html
    html.encode()
    [(alt, picture)] = re.findall(
        r"<img alt='([^']*)' src='data:image/svg\+xml;base64,([^']*)'>", html
    )
    assert alt == escape(EVIL)
    assert html.count(alt) >= 2
    drawn = b64decode(picture).decode()
    assert drawn.startswith("<svg")
    assert EVIL not in drawn


def test_in_a_notebook_without_altair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.report.drawing.find_spec", lambda name: None)
    html = result()._repr_html_()
    assert "<img" not in html
    assert re.findall(r"<b>(.*?)</b>", html)[:2] == ["none", "unfair"]
    assert ">none is unfair.<br>A second sentence.<" in html
