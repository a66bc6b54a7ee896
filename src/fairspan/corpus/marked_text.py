"""`MarkedText`: one document with its segments marked, and how their borders are found."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from markdown_it import MarkdownIt

from fairspan.corpus.rows import text_of
from fairspan.corpus.segment import UNKNOWN, Segment, describe
from fairspan.corpus.sentences import stripped
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
# Between blank lines or at an end of the text: others may underline a title.
_RULES_ALONE = re.compile(rf"(?:\A|(?:\A|\n)[^\S\n]*\n){_RULE}(?=\n[^\S\n]*(?:\n|\Z)|\Z)")


@dataclass(frozen=True, slots=True)
class Piece:
    """The characters of one segment, and what is known of it."""

    start: int
    end: int
    title: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A document's text as it is to be embedded, and its segments.

    Attributes:
        pieces: in the order of the text; what is between them is in no segment. None where no border is known.
        borders: what they were found by, one of `NAMES`; "parts" where no border is known.
    """

    text: str
    pieces: tuple[Piece, ...] = ()
    borders: str = "parts"


def join_segments(segments: Sequence[str | Mapping[str, Any]]) -> MarkedText:
    """Segments that are given one by one, joined by one space as in an audit.

    Args:
        segments: texts, or tables with `text` and perhaps `title` and `language`.
    """
    if isinstance(segments, str | bytes) or not isinstance(segments, Sequence):
        raise CorpusError(f"segments are a list, got {describe(segments)}.")
    if not segments:
        raise CorpusError("there are no segments.")
    found = [_segment(number, given) for number, given in enumerate(segments, start=1)]
    pieces, place = [], 0
    for segment in found:
        language = None if segment.language == UNKNOWN else segment.language
        pieces.append(Piece(place, place + len(segment.text), segment.title or None, language))
        place = pieces[-1].end + len(SEPARATOR)
    return MarkedText(SEPARATOR.join(segment.text for segment in found), tuple(pieces), "segment")


def mark(text: str, borders: str = "auto", *, markdown: bool = False) -> MarkedText:
    """A text with its segments, found by what is in it.

    Args:
        borders: "heading", "rule", "blank", "line"; "parts" marks nothing. "auto" takes the headings of a Markdown
            text and the rules of any other that are between blank lines, and marks nothing where there are none.
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
            found = mark(text, "heading") if markdown else _without_rules(_RULES_ALONE.split(text))
            if len(found.pieces) > 1:
                return found
    return MarkedText(text)


def paragraphs(text: str) -> list[tuple[int, int]]:
    """The characters of each run of lines between blank ones, without the white space around it.

    >>> paragraphs("One.\\nStill one.\\n\\n  Two.")
    [(0, 15), (19, 23)]
    """
    return [stripped(text, *found.span()) for found in _PARAGRAPH.finditer(text)]


def _segment(number: int, given: object) -> Segment:
    fields = {"text": given} if isinstance(given, str) else given
    try:
        if not isinstance(fields, Mapping):
            raise CorpusError(
                f"a text or an object with 'text' is expected, got {describe(given)}."
            )
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

    Borders are the headings of the highest level that occurs twice, or all where none does. What is before the
    first border is a section if it has text of its own, and goes with the first otherwise.
    """
    found = list(_headings(text))
    levels = Counter(level for _, _, level, _ in found)
    top = min((level for level, times in levels.items() if times > 1), default=None)
    borders = [heading for heading in found if top in (None, heading[2])]
    starts, titles = [start for start, *_ in borders], [title for *_, title in borders]
    before = found[: found.index(borders[0])] if borders else []
    opening = text[: starts[0]] if borders else text
    own = opening
    for start, end, *_ in reversed(before):
        own = own[:start] + own[end:]
    if own.strip():
        is_titled = before and not opening[: before[0][0]].strip()
        starts, titles = [0, *starts], [before[0][3] if is_titled else "", *titles]
    else:
        starts[0] = 0
    for start, end, title in zip(starts, [*starts[1:], len(text)], titles, strict=True):
        yield Piece(*stripped(text, start, end), title or None)


def _headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Where each heading begins and ends, its level, and its words. Code blocks and front matter have none."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    skipped = 0
    if lines[0].rstrip() == "---":
        skipped = next(
            (place for place, line in enumerate(lines[1:], start=2) if line.rstrip() == "---"), 0
        )
    body = "\n".join(
        line.replace("\r", " ") for line in lines[skipped:]
    )  # "\r" would begin a line of its own
    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open" and opening.level == 0 and opening.map is not None:
            first, last = (skipped + number for number in opening.map)
            yield (
                starts[first],
                starts[last] - 1,
                int(opening.tag[1]),
                " ".join(words.content.split()),
            )
