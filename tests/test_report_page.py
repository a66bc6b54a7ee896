"""The page of any view: its text, its numbers, and what it carries. A browser opens it in
test_page_browser."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairspan.report.frames import to_csv
from fairspan.report.page import Part, json_download, make_page, row_download
from fairspan.report.render import as_json
from tests.report_example import FRAME, HOSTILE, page, part, rows, table, view
from tests.runs.test_logs import Page


def test_charts_are_the_view_s() -> None:
    """Every point with its interval and its text, panel by panel; folded panels are for files."""
    shown, charts = view(), Page(page()).charts
    panels = [
        (chart, panel)
        for section in shown.sections
        for chart in section.charts
        for panel in chart.shown
    ]
    assert len(charts) == len(panels) == 4 + 4 + 2
    for found, (chart, panel) in zip(charts, panels, strict=True):
        assert (found["kind"], found["title"], found["labels"]) == (
            chart.kind,
            panel.title,
            list(panel.labels),
        )
        assert found["y_label"] == (panel.y_label or chart.y_label)
        assert (found["domain"], found["reference"]) == (list(chart.domain(panel)), panel.reference)
        assert [size["v"] for size in found["strip"]] == list(panel.strip)
        for drawn, series in zip(found["series"], panel.series, strict=True):
            assert (drawn["name"], drawn["number"], drawn["dashed"]) == (
                series.name,
                series.number,
                series.dashed,
            )
            for one, expected in zip(drawn["points"], series.points, strict=True):
                if expected is None:
                    assert one is None
                    continue
                assert (one["v"], one["lo"], one["hi"]) == (
                    expected.estimate,
                    expected.low,
                    expected.high,
                )
                assert one["shown"] == f"{expected.estimate:.3f}".replace("-", "−")
                assert one["told"] == expected.told


def test_rows_are_compared_with_the_first_treatment() -> None:
    chart = rows()
    first, second = (chart.page_data(panel) for panel in chart.panels)
    assert first["before"] == []
    assert second["before"] == first["series"][0]["points"]
    assert second["first"] == "none"


def test_texts_and_tables_are_there() -> None:
    text = Page(page()).text
    for card in view().cards:
        assert f"{card.name} {card.badge} {' '.join(card.sentences)}" in text
    facts = ("seed 7", "margin ±0.02", "n = 3", "36 documents")
    for words in ("One remark.", "A note.", "How it was measured.", *facts):
        assert words in text
    for one in table().rows:
        for cell in one.cells:
            assert " ".join(cell.text.split()) in text
    assert '<td class=" bad">−0.20 [−0.31, −0.10]*</td>' in page()


def test_the_switch() -> None:
    assert Page(page()).switch(0) == (["0", "1", "2", "all"], ["0"])
    last = make_page("t", [Part("p", replace(view(), all_first=True))])
    assert Page(last).switch(0)[1] == ["all"]
    alone = make_page("t", [Part("p", replace(view(), switch=("none",)))])
    assert "<fieldset" not in alone


def test_a_download_is_the_same_each_time_and_takes_any_name() -> None:
    raw = row_download("r", FRAME, 10**6)
    assert raw == row_download("r", FRAME, 10**6)
    assert gzip.decompress(b64decode(raw.content)).decode() == to_csv(FRAME)
    packed = json_download("n", "l", {"name": "half\ud800"}).content
    assert json.loads(gzip.decompress(b64decode(packed))) == {"name": "half\ud800"}


def test_rows_that_are_too_many_are_named() -> None:
    """Also where a sample says so before all are packed."""
    many = pl.DataFrame({"a": range(100_000)})
    for frame, limit in ((FRAME, 100), (many, 1000)):
        download = row_download("r", frame, limit)
        assert not download.content
        assert f"{len(frame):,} raw rows do not fit into the page" in download.reason
    text = make_page("t", [part(rows_limit=10)])
    assert "4 raw rows do not fit into the page" in text
    assert len(Page(text).files) == 1


def test_nothing_is_fetched() -> None:
    for tag, attributes in Page(page(hostile=True)).elements:
        assert tag not in ("img", "iframe", "object", "embed", "video", "audio"), tag
        source = attributes.get("src") or attributes.get("href") or ""
        assert source.startswith(("#", "data:,")) or not source
    assert "@import" not in page()
    assert "url(" not in page()


def test_the_policy_names_the_page_s_own_scripts() -> None:
    text = page(hostile=True)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == 3
    hashes = [
        f"&#39;sha256-{b64encode(sha256(one.encode()).digest()).decode()}&#39;" for one in scripts
    ]
    assert policy.startswith(f"default-src &#39;none&#39;; script-src {' '.join(hashes)}; ")
    assert "unsafe-eval" not in policy
    assert policy.count("unsafe-inline") == 1, "for styles only"


def test_markup_stays_text() -> None:
    clean, hostile = Page(page()), Page(page(hostile=True))
    assert {tag for tag, _ in hostile.elements} == {tag for tag, _ in clean.elements}
    assert not [
        name for _, attributes in hostile.elements for name in attributes if name.startswith("on")
    ]
    for text in HOSTILE:
        assert " ".join(re.sub(r"[\x00\x07\ud800]", "\ufffd", text).split()) in hostile.text
    page(hostile=True).encode()


@given(st.text())
def test_json_in_a_script_stays_in_it(text: str) -> None:
    made = str(as_json({"a": text}))
    assert json.loads(made) == {"a": text}
    assert not set("<>&\u2028\u2029") & set(made)


def test_numbers_that_are_none_of_json_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(float("nan"))
