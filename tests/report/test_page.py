"""The page of any view: its text, its numbers, and what it carries. A browser opens it in
test_page_browser."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape

import polars as pl
import pytest

from fairspan.report.frames import to_csv
from fairspan.report.page import json_download, make_page, row_download
from fairspan.report.render import as_json
from tests.report.example import FRAME, HOSTILE, page, part, table, view
from tests.runs.test_logs import Page

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def test_charts_are_the_view_s() -> None:
    """Every chart is there, in the ink of the page."""
    charts = Page(page()).charts
    for drawn, chart in zip(charts, view().charts(), strict=True):
        assert len(drawn["concat"]) == len(chart.panels())
        assert drawn["config"]["axis"]["labelColor"] == "currentColor"
        values = [value for values in drawn["datasets"].values() for value in values]
        estimates = [value["estimate"] for value in values if "estimate" in value]
        assert sorted(filter(None, estimates)) == sorted(filter(None, chart.frame[chart.y]))
    # A section of one chart has its name.
    assert ["title" in drawn for drawn in charts] == [False, True, True, False]


def test_without_altair_the_page_has_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.report.drawing.find_spec", lambda name: None)
    made = Page(make_page("title", part()))
    assert not made.charts
    assert made.notes[-1] == "charts need altair: pip install 'fairspan[report]'"
    assert "none unfair none is unfair." in made.text


def test_texts_and_tables_are_there() -> None:
    text = Page(page()).text
    for card in view().cards:
        assert f"{card.name} {card.badge} {' '.join(card.sentences)}" in text
    for words in ("One remark.", "A note.", "How it was measured.", "seed 7", "margin ±0.02"):
        assert words in text
    for row in table().rows:
        for cell in row:
            assert " ".join(cell.split()) in text
    assert '<td class=" plain">−0.20 [−0.31, −0.10]*</td>' in page()
    assert '<td class="text bad">biased</td>' in page()


def test_a_download_is_the_same_each_time_and_takes_any_name() -> None:
    raw = row_download("r", FRAME, 10**6)
    assert raw == row_download("r", FRAME, 10**6)
    assert gzip.decompress(b64decode(raw.content)).decode() == to_csv(FRAME)
    packed = json_download("n", "l", {"name": "half\ud800"}).content
    assert json.loads(gzip.decompress(b64decode(packed))) == {"name": "half\ud800"}


def test_rows_that_are_too_many_are_named() -> None:
    """Also where a sample says so before all are packed."""
    for frame, limit in ((FRAME, 100), (pl.DataFrame({"a": range(100_000)}), 1000)):
        download = row_download("r", frame, limit)
        assert not download.content
        assert f"{len(frame):,} raw rows do not fit into the page" in download.reason
    text = make_page("t", replace(part(rows_limit=10), view=replace(view(), sections=())))
    assert "4 raw rows do not fit into the page" in text
    assert len(Page(text).files) == 1


def test_nothing_is_fetched_and_markup_stays_text() -> None:
    clean, hostile = Page(page()), Page(page(hostile=True))
    assert {tag for tag, _ in hostile.elements} == {tag for tag, _ in clean.elements}
    for tag, attributes in hostile.elements:
        assert tag not in ("img", "iframe", "object", "embed", "video", "audio"), tag
        assert not [name for name in attributes if name.startswith("on")]
        source = attributes.get("src") or attributes.get("href") or ""
        assert source.startswith(("#", "data:,")) or not source
    [style] = re.findall(r"<style>(.*?)</style>", clean.source, re.S)
    assert "@import" not in style
    assert "url(" not in style
    for text in HOSTILE:
        assert " ".join(re.sub(r"[\x00\x07]", "\ufffd", text).split()) in hostile.text
    hostile.source.encode()


def test_the_policy_names_the_page_s_own_scripts() -> None:
    text = page(hostile=True)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == 2
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    assert unescape(policy).startswith(f"default-src 'none'; script-src {hashes}; ")
    assert "unsafe-eval" not in policy
    assert policy.count("unsafe-inline") == 1, "for styles only"


def test_json_in_a_script_stays_in_it() -> None:
    text = "".join(HOSTILE) + "<>&\u2028\u2029"
    made = str(as_json({"a": text}))
    assert json.loads(made) == {"a": text}
    assert not set("<>&\u2028\u2029") & set(made)


def test_numbers_that_are_none_of_json_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json(float("nan"))
