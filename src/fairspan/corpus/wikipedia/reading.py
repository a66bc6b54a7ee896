"""Reading one language's dump: which of its pages become articles of the corpus."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairspan.corpus.wikipedia.dump import Place, parts, read_pages
from fairspan.corpus.wikipedia.page import Page
from fairspan.corpus.wikipedia.request import BuildRequest, Tokenizer
from fairspan.corpus.wikipedia.state import Article, Reading, State
from fairspan.errors import CorpusError

_TEXTS, _CHARACTERS = 64, 2_000_000
"""Texts and characters that are tokenised at once."""
_PAGES, _SECONDS = 20_000, 5.0
"""After which the place is written down even if no page was accepted."""
_WIDE = 8
"""Characters per token: nearly no text has as many."""

Report = Callable[[str, int, Reading], None]
"""Takes a language, the bytes of its dump that are read, and how far its reading is."""


def given(request: BuildRequest, language: str) -> Path | Sequence[Path]:
    """A dump as its reader takes it: one file or folder, or several files."""
    paths = request.dumps[language]
    return paths[0] if len(paths) == 1 else paths


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """A page that may be accepted, before its tokens are counted."""

    item: int
    page: Page
    text: str


class LanguageReader:
    """Reads the dump of one language, after those of `before`, page by page."""

    def __init__(
        self, state: State, request: BuildRequest, tokenizer: Tokenizer, language: str, before: tuple[str, ...]
    ) -> None:
        self.state, self.request, self.tokenizer = state, request, tokenizer
        self.language, self.before = language, before
        self._files = parts(given(request, language), language)
        self._by_item = request.alignment.kind == "items"
        base = request.limits.length_language
        self._base = base if base in before else None

    def read(self, reading: Reading, report: Report) -> None:
        """Go on where the reading is, to the end of the dump; what was read is saved every few seconds."""
        cleaned: list[_Cleaned] = []
        place: Place | None = None
        characters, last_pages, last_time = 0, reading.pages, time.monotonic()
        pages = self._pages(reading)
        while True:
            try:
                found = next(pages, None)
            except CorpusError:
                # A dump that is cut off: what was read of it is worth keeping.
                self._save(reading, cleaned, place)
                raise
            if found is None:
                break
            page, place = found
            reading.pages += 1
            item = self._item(page)
            text = None if item is None else self._text(item, page, reading)
            if item is not None and text is not None:
                cleaned.append(_Cleaned(item, page, text))
                characters += len(text)
            full = len(cleaned) >= _TEXTS or characters >= _CHARACTERS
            if full or reading.pages - last_pages >= _PAGES or time.monotonic() - last_time > _SECONDS:
                self._save(reading, cleaned, place)
                cleaned, characters = [], 0
                last_pages, last_time = reading.pages, time.monotonic()
                report(self.language, self._position(place), reading)
        reading.done = True
        self._save(reading, cleaned, place)
        report(self.language, self.request.size(self.language), reading)

    def _pages(self, reading: Reading) -> Iterator[tuple[Page, Place]]:
        after = None if reading.place is None else Place(*reading.place)
        return read_pages(given(self.request, self.language), self.language, after=after)

    def _item(self, page: Page) -> int | None:
        """The item of a page that is still possible."""
        item: int | None
        if self._by_item:
            item = int(page.item[1:]) if page.item and page.item[1:].isdecimal() else None
        else:
            is_pivot = self.language == self.request.alignment.pivot
            item = self.state.item_of(self.language, page.page_id if is_pivot else page.title)
        if item is None or (self.before and self.state.tokens(self.before[-1], item) is None):
            return None
        return item

    def _text(self, item: int, page: Page, reading: Reading) -> str | None:
        """The text of a page that may be long enough; else why not is counted."""
        if page.kind != "article":
            reading.leave_out(page.kind if page.kind != "other" else "no article")
            return None
        # A token is at least one byte.
        if page.size < self._bounds(item)[0]:
            reading.leave_out("too short")
            return None
        text = page.clean()
        if not text.strip():
            reading.leave_out("no text")
            return None
        return text

    def _bounds(self, item: int) -> tuple[float, float]:
        base = None if self._base is None else self.state.tokens(self._base, item)
        return self.request.limits.bounds(self.language, base)

    def _accepted(self, cleaned: list[_Cleaned], reading: Reading) -> Iterator[Article]:
        bounds = [self._bounds(one.item) for one in cleaned]
        counts = self._count([one.text for one in cleaned], [most for _, most in bounds])
        for one, (least, most), tokens in zip(cleaned, bounds, counts, strict=True):
            reading.measure(tokens)
            if not least <= tokens <= most:
                reading.leave_out("too short" if tokens < least else "too long")
            elif not self._suits_others(one.item, tokens):
                reading.leave_out("other length than in another language")
            else:
                page = one.page
                yield Article(one.item, page.page_id, page.revision, page.title, tokens, one.text)

    def _suits_others(self, item: int, tokens: int) -> bool:
        """Whether the languages read before have the right length beside this one, if theirs depends on it."""
        limits = self.request.limits
        if limits.length_language != self.language or limits.length_ratio is None:
            return True
        lengths = [self.state.tokens(other, item) or 0 for other in self.before]
        return all(abs(length - tokens) <= limits.length_ratio * tokens for length in lengths)

    def _count(self, texts: list[str], most: list[float]) -> list[int]:
        """The tokens of texts; of one that is far too long, only that it is."""
        begun = [
            text[: int(_WIDE * limit)] if len(text) > 2 * _WIDE * limit else text
            for text, limit in zip(texts, most, strict=True)
        ]
        counts = self._counted(begun)
        # The last word of a beginning may be cut, which makes it longer by a few tokens at most.
        unsure = [
            number
            for number, (text, start) in enumerate(zip(texts, begun, strict=True))
            if len(start) < len(text) and counts[number] <= most[number] + 100
        ]
        for number, count in zip(unsure, self._counted([texts[number] for number in unsure]), strict=True):
            counts[number] = count
        return counts

    def _counted(self, texts: list[str]) -> list[int]:
        if not texts:
            return []
        try:
            return self.tokenizer.count(texts)
        except Exception as error:  # tokenizers raise whatever they like
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise CorpusError(
                f"the tokenizer of {self.tokenizer.name} cannot count the tokens of an article in "
                f"{self.language!r}: {reason}"
            ) from error

    def _save(self, reading: Reading, cleaned: list[_Cleaned], place: Place | None) -> None:
        articles = list(self._accepted(cleaned, reading))
        if place is not None:
            reading.place = list(place)
        self.state.save(self.language, reading, articles)

    def _position(self, place: Place) -> int:
        """Bytes of the dump before a place; inside a file, only some formats know."""
        names = [file.name for file in self._files]
        before = self._files[: names.index(place.file)]
        return sum(file.stat().st_size for file in before) + place.offset
