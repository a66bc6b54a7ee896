"""Reading one language's dump: which of its pages become articles of the corpus."""

import json
import os
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from fairspan.corpus.processes import end_with_parent
from fairspan.corpus.wikipedia.downloads import prefix_of
from fairspan.corpus.wikipedia.dump import XML, Page, read_pages, recognise
from fairspan.corpus.wikipedia.request import BuildRequest, Tokenizer
from fairspan.corpus.wikipedia.sitelinks import item_of
from fairspan.errors import CorpusError

# Texts that are cleaned and tokenised at once, and pages between two reports of progress.
_TEXTS = 64
_PAGES = 1_000
# Bytes of an XML dump that one process cleans in less time than others need to start.
_SMALL = 20_000_000

Progress = Callable[[int, str], None]
"""Takes the number of bytes read so far, and a count of what they contain."""
Wanted = tuple[int, Page]
"""A page with its item."""


class Article(NamedTuple):
    """An accepted article, and where its line begins."""

    tokens: int
    file: Path
    start: int


@dataclass(slots=True)
class Articles:
    """The accepted articles of a language, and counts of "pages" and of others by reason."""

    by_item: dict[int, Article] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, file: Path) -> None:
        """Add those of a file of `LanguageReader`, but no second page of one item."""
        start = 0
        with file.open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                if "id" in row:
                    self.by_item.setdefault(int(row["id"][1:]), Article(row["tokens"], file, start))
                else:
                    self.counts.update(row)
                start += len(line)

    def lines(self, items: Iterable[int]) -> Iterator[bytes]:
        """The lines of these items, as they were written."""
        for item in items:
            article = self.by_item[item]
            with article.file.open("rb") as file:
                file.seek(article.start)
                yield file.readline()


@dataclass(frozen=True, slots=True)
class LanguageReader:
    """Reads the dump of one language; `common` are the items of the languages before.

    `links` are Wikidata's, or None if the dump names the items of its pages.
    """

    request: BuildRequest
    tokenizer: Tokenizer
    language: str
    common: Container[int] | None
    links: sqlite3.Connection | None

    def lines(self, path: Path, reached: Progress) -> Iterator[bytes]:
        """A line for every page of a file that is accepted, and one with counts at the end."""
        small = path.stat().st_size < _SMALL or recognise(path) != XML
        processes = 1 if small else os.cpu_count() or 1
        least, most = self.request.bounds(self.language)
        counts: Counter[str] = Counter()
        for wanted, texts in _cleaned(self._wanted(path, counts, reached), processes):
            lengths = self.tokenizer.count(texts)
            for (item, page), text, tokens in zip(wanted, texts, lengths, strict=True):
                if least <= tokens <= most:
                    yield self._line(item, page, text, tokens)
                else:
                    counts["too short" if tokens < least else "too long"] += 1
        yield json.dumps(counts).encode() + b"\n"

    def _wanted(self, path: Path, counts: Counter[str], reached: Progress) -> Iterator[Wanted]:
        """Pages that may be accepted."""
        least, _ = self.request.bounds(self.language)
        for page, position in read_pages(path, self.language):
            counts["pages"] += 1
            if counts["pages"] % _PAGES == 0:
                reached(position, f"{counts['pages']:,} pages")
            item = item_of(self.links, self.language, page.title) if self.links else page.item
            if item is None or (self.common is not None and item not in self.common):
                continue
            # A token is at least one byte.
            fault = page.fault or ("too short" if page.size < least else None)
            if fault is None:
                yield item, page
            else:
                counts[fault] += 1

    def _line(self, item: int, page: Page, text: str, tokens: int) -> bytes:
        """The record of an article."""
        address = quote(page.title.replace(" ", "_"))
        row = {
            "id": f"Q{item}",
            "title": page.title,
            "text": text,
            "page_id": page.page_id,
            "revision": page.revision,
            "url": f"https://{prefix_of(self.language)}.wikipedia.org/wiki/{address}",
            "tokens": tokens,
        }
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _cleaned(pages: Iterator[Wanted], processes: int) -> Iterator[tuple[list[Wanted], list[str]]]:
    """Pages with their texts, in order, cleaned in that many processes."""
    batches = iter(lambda: list(islice(pages, _TEXTS)), [])
    if processes == 1:
        yield from ((batch, _clean(batch)) for batch in batches)
        return
    waiting: deque[tuple[list[Wanted], Future[list[str]]]] = deque()
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(_clean, batch)))
                if len(waiting) > 2 * processes:
                    first, texts = waiting.popleft()
                    yield first, texts.result()
            yield from ((first, texts.result()) for first, texts in waiting)
        except BrokenProcessPool:
            lost = "a worker process was killed, possibly because memory ran out."
            raise CorpusError(lost) from None


def _clean(wanted: list[Wanted]) -> list[str]:
    return [page.clean() for _, page in wanted]
