"""`Part` and `make_page`: the view of a run with its data, as one HTML file."""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.report.cleaning import cleaned
from fairspan.report.drawing import can_draw, page_chart, page_script
from fairspan.report.frames import to_csv
from fairspan.report.render import asset, render
from fairspan.report.text import printable
from fairspan.report.view import View

Pairs = tuple[tuple[str, str], ...]
# Rows whose compressed size is measured before all are compressed.
SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Download:
    """A file in the page: base64 of gzip, or empty and the reason why."""

    name: str
    label: str
    content: str
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A run on a page.

    Attributes:
        facts: shown under its title.
        settings: everything needed to do it again.
        spec: all settings of the run, as JSON.
    """

    view: View
    facts: Pairs = ()
    settings: Pairs = ()
    spec: str = ""
    downloads: tuple[Download, ...] = ()


def make_page(title: str, part: Part) -> str:
    """The page as text. Charts need altair; without it the page says so."""
    part = cleaned(part)
    charts = {
        chart.name: page_chart(chart, titled=len(section.charts) > 1)
        for section in part.view.sections
        for chart in section.charts
        if can_draw()
    }
    if any(part.view.charts()) and not charts:
        notes = (*part.view.notes, "charts need altair: pip install 'fairspan[report]'")
        part = replace(part, view=replace(part.view, notes=notes))
    sources = [page_script(asset("charts.js"))] if charts else []
    return render("report.html", sources=sources, title=printable(title), part=part, charts=charts)


def row_download(run: str, rows: pl.DataFrame, limit: int) -> Download:
    """The raw rows as CSV, if they take at most `limit` bytes of the page."""
    name = f"{run}-rows.csv"
    label = f"raw rows, {len(rows):,} (CSV)"
    kept = rows.select([column for column in rows.columns if rows[column].null_count() < len(rows)])
    bytes_per_row = len(_packed(to_csv(kept.head(SAMPLE)))) / max(1, min(SAMPLE, len(kept)))
    content = _packed(to_csv(kept)) if bytes_per_row * len(kept) <= 1.5 * limit else ""
    if 0 < len(content) <= limit:
        return Download(name, label, content)
    reason = f"{len(rows):,} raw rows do not fit into the page: rows.parquet in the run's folder"
    return Download(name, label, "", f"{reason} has them")


def json_download(name: str, label: str, value: Mapping[str, Any]) -> Download:
    """Statistics as JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    return Download(name, label, _packed(text))


def _packed(text: str) -> str:
    # Half of a surrogate pair, which UTF-8 cannot encode, becomes JSON's own escape of it.
    data = text.encode("utf-8", "backslashreplace")
    return b64encode(gzip.compress(data, compresslevel=6, mtime=0)).decode()
