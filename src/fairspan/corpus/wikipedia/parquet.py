"""Hugging Face's `wikimedia/wikipedia`: Parquet with the columns id, url, title and text."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fairspan.corpus.wikipedia.kinds import kind_of_text
from fairspan.corpus.wikipedia.page import Page, refuse_other_wiki
from fairspan.corpus.wikipedia.prose import extracted_text
from fairspan.corpus.wikipedia.records import whole
from fairspan.errors import CorpusError

NAME = "wikimedia/wikipedia Parquet"
COLUMNS = ("id", "url", "title", "text")
_ROWS = 500
_WIKI = re.compile(r"https?://([a-z-]+)(?:\.m)?\.wikipedia\.org/")


def read(path: Path, language: str, offset: int, count: int) -> Iterator[tuple[Page, int, int]]:
    """The rows, each with the place behind it: its number from 1. Rows are read some hundred at a time."""
    import polars as pl

    try:
        lazy = pl.scan_parquet(path, glob=False)
        there = lazy.collect_schema()
        missing = [column for column in COLUMNS if column not in there]
        if missing:
            raise CorpusError(
                f"{path.name} has no column {', '.join(missing)}; wikimedia/wikipedia has {', '.join(COLUMNS)}."
            )
        total, size = lazy.select(pl.len()).collect().item(), path.stat().st_size
        for start in range(count, total, _ROWS):
            rows = lazy.slice(start, _ROWS).select(pl.col(COLUMNS).cast(pl.String)).collect()
            for number, row in enumerate(rows.iter_rows(named=True), start=start + 1):
                address = _WIKI.match(row["url"] or "")
                refuse_other_wiki(path.name, f"{address[1].replace('-', '_')}wiki" if address else "", language)
                yield _page(row, language), size * number // total, number
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise CorpusError(f"{path.name} is damaged or cut off ({reason}). Download it again.") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}.") from None


def _page(row: dict[str, str | None], language: str) -> Page:
    title, text = row["title"] or "", row["text"] or ""
    return Page(
        page_id=whole(row["id"]) or 0,
        title=title,
        revision=None,
        kind=kind_of_text(title, text, language),
        item=None,
        size=len(text.encode("utf-8", "replace")),
        clean=partial(extracted_text, text, language),
    )
