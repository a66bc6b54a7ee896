"""`MarkedText`: one document with its segments marked, and how their borders are found."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from markdown_it import MarkdownIt

from fairspan.corpus.record import text_of
from fairspan.corpus.segment import UNKNOWN, Segment, describe
from fairspan.corpus.sentences import Span, stripped
from fairspan.errors import CorpusError

BORDERS = ("auto", "heading", "rule", "blank", "line", "parts")
NAMES = {
    "segment": "as given",
    "heading": "by headings",
    "rule": "by rules",
    "blank": "by blank lines",
    "line": "by lines",
    "parts": "in parts of about equal length",
}
SEPARATOR = " "
_PARAGRAPH = re.compile(r"\S.*(?:\n[^\S\n]*\S.*)*")
# A line of three or more of the same sign, or a page break.
_RULE = r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|(?:=[ \t]*){3,}|\f[ \t]*)"
_RULES = re.compile(rf"^{_RULE}$", re.MULTILINE)
# Only between blank lines or at either end of the text: other lines may underline a title.
_RULES_ALONE = re.compile(rf"(?:\A|(?:\A|\n)[^\S\n]*\n){_RULE}(?=\n[^\S\n]*(?:\n|\Z)|\Z)")


@dataclass(frozen=True, slots=True)
class Piece:
    """The characters of one segment, with its title and language if known."""

    start: int
    end: int
    title: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A document's text as it is to be embedded, and its segments, if borders are known.

    What is between the pieces is in no segment. `borders` is a key of `NAMES`.
    """

    text: str
    pieces: tuple[Piece, ...] = ()
    borders: str = "parts"


def join_segments(segments: Sequence[str | Mapping[str, Any]]) -> MarkedText:
    """Texts, or mappings with `text`, `title` and `language`, joined as in an audit."""
    if isinstance(segments, str | bytes) or not isinstance(segments, Sequence):
        raise CorpusError(f"segments are a list, got {describe(segments)}.")
    if not segments:
        raise CorpusError("there are no segments.")
    checked = [_segment(number, segment) for number, segment in enumerate(segments, start=1)]
    pieces = []
    start = 0
    for segment in checked:
        language = None if segment.language == UNKNOWN else segment.language
        pieces.append(Piece(start, start + len(segment.text), segment.title or None, language))
        start = pieces[-1].end + len(SEPARATOR)
    text = SEPARATOR.join(segment.text for segment in checked)
    return MarkedText(text, tuple(pieces), "segment")


def mark(text: str, borders: str = "auto", *, markdown: bool = False) -> MarkedText:
    """A text with its segments.

    "parts" marks nothing. "auto" uses the headings of a Markdown text, and in any other text the
    rules between blank lines, if there are any.
    """
    if borders not in BORDERS:
        raise CorpusError(f"borders must be one of {', '.join(BORDERS)}, got {borders!r}.")
    if not text.strip():
        raise CorpusError("the text is empty.")
    match borders:
        case "heading":
            return MarkedText(text, tuple(_sections(text)), "heading")
        case "rule":
            return _without_rules(_RULES.split(text))
        case "blank":
            return MarkedText(text, tuple(Piece(*span) for span in paragraphs(text)), "blank")
        case "line":
            spans = [stripped(text, *line.span()) for line in re.finditer(r"\S.*", text)]
            return MarkedText(text, tuple(Piece(*span) for span in spans), "line")
        case "auto":
            marked = mark(text, "heading") if markdown else _without_rules(_RULES_ALONE.split(text))
            if len(marked.pieces) > 1:
                return marked
    return MarkedText(text)


def paragraphs(text: str) -> list[Span]:
    """The characters of each run of lines between blank ones, without white space at its ends."""
    return [stripped(text, *match.span()) for match in _PARAGRAPH.finditer(text)]


def _segment(number: int, value: object) -> Segment:
    """A text or a mapping as a segment; errors name its number."""
    fields = {"text": value} if isinstance(value, str) else value
    try:
        if not isinstance(fields, Mapping):
            expected = "a text or an object with 'text' is expected"
            raise CorpusError(f"{expected}, got {describe(value)}.")
        language = UNKNOWN if fields.get("language") is None else fields["language"]
        segment = Segment(str(number), language, text_of(fields, "text"), fields.get("title"))
    except CorpusError as error:
        raise CorpusError(f"segment {number}: {error!s}") from None
    return replace(segment, text=segment.text.strip())


def _without_rules(runs: Sequence[str]) -> MarkedText:
    """The runs between rules, joined: a rule is a mark and no part of the text."""
    kept = [run.strip() for run in runs if run.strip()]
    if not kept:
        raise CorpusError("the text is empty: it contains only separator lines.")
    return replace(join_segments(kept), borders="rule")


def _sections(text: str) -> Iterator[Piece]:
    """The sections of a Markdown text, each with its heading.

    Borders are the headings of the highest level that occurs twice, or all if none does. The text
    before the first one is a section only if it has words outside headings.
    """
    levels, headings = _headings(text)
    top = min((level for level, times in Counter(levels).items() if times > 1), default=None)
    numbers = [number for number, level in enumerate(levels) if top in (None, level)]
    borders = [headings[number] for number in numbers]
    starts = [heading.start for heading in borders]
    titles = [heading.title for heading in borders]
    before = headings[: numbers[0]] if borders else []
    opening = text[: starts[0]] if borders else text
    words = opening
    for heading in reversed(before):
        words = words[: heading.start] + words[heading.end :]
    if words.strip():
        begins_titled = before and not opening[: before[0].start].strip()
        starts.insert(0, 0)
        titles.insert(0, before[0].title if begins_titled else "")
    else:
        starts[0] = 0
    for start, end, title in zip(starts, [*starts[1:], len(text)], titles, strict=True):
        yield Piece(*stripped(text, start, end), title or None)


def _headings(text: str) -> tuple[list[int], list[Piece]]:
    """The levels and the headings of a Markdown text outside code blocks and front matter."""
    levels = []
    headings = []
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    skipped = 0
    if lines[0].rstrip() == "---":
        ends = (number for number, line in enumerate(lines) if number and line.rstrip() == "---")
        skipped = next(ends, -1) + 1
    # "\r" would begin a line of its own.
    body = "\n".join(line.replace("\r", " ") for line in lines[skipped:])
    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map is not None:
            first, last = opening.map
            title = " ".join(words.content.split())
            end = starts[skipped + last] - 1
            levels.append(int(opening.tag[1]))
            headings.append(Piece(starts[skipped + first], end, title))
    return levels, headings
