"""What every result shows of itself: one line, a table in notebooks, and what there is when a name
is wrong."""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import replace

import pytest

from fairspan.errors import FairspanError
from tests.report_example import EVIL, FRAME, TREATMENTS, ExampleResult, profiles, view

matplotlib = pytest.importorskip("matplotlib")


def result(*, hostile: bool = False) -> ExampleResult:
    """With the smallest of the charts, as drawing takes time."""
    shown = view(hostile=hostile)
    first = replace(
        shown.sections[0], charts=(profiles(treatments=shown.switch, sizes=(3,), plans=("en",)),)
    )
    return ExampleResult(replace(shown, sections=(first,)))


def test_one_line() -> None:
    found = repr(result())
    assert found == (
        "<a model | a corpus | 12 documents | none: unfair; paper: fair; "
        "retrieval: needs more data>"
    )
    broken = ExampleResult(replace(view(), heading="a\nb", cards=()))
    assert repr(broken) == "<a b>"


def test_frames_and_figures_by_name() -> None:
    found = result()
    assert found.verdicts["treatment"].to_list() == list(TREATMENTS)
    assert found.frame("numbers") is FRAME
    with pytest.raises(FairspanError, match="there is no frame 'x', only verdicts, numbers"):
        found.frame("x")
    with pytest.raises(FairspanError, match=r"there is no figure 'x', only profiles\."):
        found.figure("x")


def test_in_a_notebook() -> None:
    """Every name is text, and the picture is inside."""
    html = result(hostile=True)._repr_html_()
    assert "<img src=x" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 2
    html.encode()
    [alt, picture] = re.findall(
        r"<img alt='([^']*)' src='data:image/svg\+xml;base64,([^']*)'>", html
    )[0]
    assert alt == "&lt;img src=x onerror=alert(1)&gt;"
    drawn = b64decode(picture).decode()
    assert drawn.startswith("<?xml")
    assert EVIL not in drawn


def test_in_a_notebook_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.report.result.find_spec", lambda name: None)
    html = result()._repr_html_()
    assert "<img" not in html
    assert re.findall(r"<b>(.*?)</b>", html)[:2] == ["none", "unfair"]
    assert ">none is unfair.<br>A second sentence.<" in html, (
        "sentences of a verdict have no full stop of their own"
    )
