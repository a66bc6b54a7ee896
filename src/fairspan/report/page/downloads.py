"""Rows and statistics inside the page, so that whoever gets it by mail has the data as well."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from fairspan.runs.log import RunLog

# Rows of which the compressed share is measured before all are compressed.
SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Download:
    """A file in the page: compressed, and unpacked by the browser when it is asked for.

    Attributes:
        content: base64 of gzip; empty where the file would make the page too large, and `reason` says where it lies.
    """

    name: str
    label: str
    content: str
    reason: str = ""


def row_download(log: RunLog, limit: int) -> Download:
    """The raw rows as CSV, if they take at most `limit` bytes of the page."""
    label = f"raw rows, {len(log.rows):,} (CSV)"
    name = f"{log.run}-rows.csv"
    rows = log.rows.select([column for column in log.rows.columns if log.rows[column].null_count() < len(log.rows)])
    told = f"{len(log.rows):,} raw rows are too many for a page: they are in rows.parquet in the run's folder"
    sample = len(_packed(rows.head(SAMPLE)))
    if sample * len(rows) / max(1, min(SAMPLE, len(rows))) > 1.5 * limit:
        return Download(name, label, "", told)
    content = _packed(rows)
    return Download(name, label, content) if len(content) <= limit else Download(name, label, "", told)


def json_download(name: str, label: str, value: Mapping[str, Any]) -> Download:
    """Statistics as JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    return Download(name, label, b64encode(gzip.compress(text.encode(), mtime=0)).decode())


def _packed(rows: pl.DataFrame) -> str:
    return b64encode(gzip.compress(rows.write_csv().encode(), compresslevel=6, mtime=0)).decode()
