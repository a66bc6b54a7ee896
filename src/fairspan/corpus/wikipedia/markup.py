"""Removes wikitext's markup in a few passes over the text, each linear in its length.

What is balanced and usual is resolved here; what is left, the parser of `wikitext` reads. Nothing here follows the
nesting by calling itself without a limit, and an opening without an end takes no more along than its own lines.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fairspan.corpus.wikipedia.names import LANGUAGES
from fairspan.corpus.wikipedia.prose import is_sentence
from fairspan.corpus.wikipedia.templates import text_of

# Elements without prose, with all that is in them, and elements with formulas.
_DROPPED_NAMES = (
    "categorytree gallery graph hiero imagemap includeonly indicator inputbox mapframe maplink ref references "
    "score script source style syntaxhighlight templatedata templatestyles timeline"
)
DROPPED = frozenset(_DROPPED_NAMES.split())
FORMULAS = frozenset({"math", "chem", "ce"})
_BLOCKS_NAMES = "blockquote br center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p poem pre td th tr ul"
BLOCKS = frozenset(_BLOCKS_NAMES.split())
# Links to sister projects, which show only what stands behind the prefix.
_SISTERS_NAMES = "b n q s species v voy w wikibooks wikinews wikiquote wikisource wikiversity wikt wiktionary"
SISTERS = frozenset(_SISTERS_NAMES.split())


def _element(names: Iterable[str]) -> re.Pattern[str]:
    """An element without elements of these names in it; a start without an end is looked at up to the next start."""
    names = "|".join(sorted(names))
    inside = rf"([^<]*(?:<(?!/?(?:{names})\b)[^<]*)*)"
    return re.compile(rf"<(?:{names})\b[^<>]*/>|<({names})\b[^<>]*(?<!/)>{inside}</\1\s*>", re.IGNORECASE)


_DROPPED, _FORMULA, _NOWIKI = _element(DROPPED), _element(FORMULAS), _element(["nowiki"])
_SPECIAL = re.compile(r"[\[\]{}|'*#:;=<>_-]")
_BRACES = re.compile(r"\{\{|\}\}")
_TABLES = re.compile(r"\n[ \t:*#]*\{\||\n[ \t]*\|\}(?!\})")
_HTML_TABLES = re.compile(r"<table\b[^<>]*>|</table\s*>", re.IGNORECASE)
_HEADINGS = re.compile(r"\n==")
_UNCLOSED_TEMPLATE = re.compile(r"\{\{[^\s|{}\[\]]*(?:\|[^\s|{}\[\]]*)*")
_PARAMETER_LINES = re.compile(r"[^\n]*(?:\n[ \t]*[|}][^\n]*)*")
_TABLE_LINES = re.compile(r"\n?[^\n]*(?:\n\s*[|!][^\n]*)*")
# Without a colon, a link is to an article, and its text is in the sentence.
_LINK = re.compile(r"\[\[(?:[^\[\]|\n:]*\|([^\[\]|\n]*)|([^\[\]|\n:]*))\]\]")
_PREFIXED = re.compile(r"\[\[([^\[\]|\n]*)((?:\|[^\[\]]*)?)\]\]")
_EXTERNAL = re.compile(r"\[(?:(?:https?:|ftps?:)?//|mailto:|news:)[^\s\[\]<>]+[ \t]*([^\[\]\n]*)\]")
_QUOTES = re.compile(r"'{2,}")
_BREAK = re.compile(rf"</?(?:{'|'.join(sorted(BLOCKS))})\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][a-zA-Z0-9]*(?:[\s/][^<>]*)?>")
_SWITCH = re.compile(r"__[^\W\d_]\w*?__")
_VARIANTS = re.compile(r"-\{([^{}]*)\}-")
_VARIANT = re.compile(r"\s*([a-z]{2,3}(?:-[a-z]+)*)\s*:(.*)", re.DOTALL)
_PREFERRED = ("zh-hans", "zh-cn", "zh", "zh-sg", "zh-my", "zh-hant", "zh-tw", "zh-hk", "zh-mo")
_DISPLAYED = re.compile(r"\{\\(?:displaystyle|textstyle)\s+(.*)\}", re.DOTALL)
_SIMPLE_FORMULA = re.compile(r"[\w\s+\-−=.,()/*^!]{1,40}")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Prefixes:
    """In lower case: links with these show a file, or put the page into a category."""

    files: frozenset[str]
    categories: frozenset[str]


def without_markup(text: str, prefixes: Prefixes) -> str:
    """The text with `==`, `*`, `#`, `:` and `;` at the ends of lines, and what these passes did not understand."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "<" in text:
        text = without_comments(text)
        text = _NOWIKI.sub(lambda found: literal(found[2] or ""), text)
        text = _FORMULA.sub(lambda found: simple_formula(found[2] or ""), text)
        text = _until_same(_DROPPED, "", text)
    text = without_templates(text)
    if "{|" in text:
        lined = f"\n{text}"
        text = _without(lined, _TABLES, lambda start: _TABLE_LINES.match(lined, start))
    if "<" in text:
        if "<table" in text.lower():
            text = _without(text, _HTML_TABLES, lambda start: None)
        text = _TAG.sub("", _BREAK.sub("\n", text))
    if "-{" in text:
        text = _until_same(_VARIANTS, lambda found: chosen_variant(found[1]), text)
    text = _LINK.sub(r"\1\2", text)
    if "[" in text:
        text = _EXTERNAL.sub(r"\1", text)
        text = _until_same(_PREFIXED, lambda found: link_text(found[1], found[2], prefixes), text)
    if "''" in text:
        text = "\n".join(without_quotes(line) if "''" in line else line for line in text.split("\n"))
    return without_switches(text)


def _until_same(pattern: re.Pattern[str], said: str | Callable[[re.Match[str]], str], text: str) -> str:
    """From the inside out, as deep as articles are nested."""
    for _ in range(_DEEPEST):
        text, changes = pattern.subn(said, text)
        if not changes:
            break
    return text


def without_comments(text: str) -> str:
    """A comment without an end goes as far as its paragraph."""
    if "<!--" not in text:
        return text
    first, *rest = text.split("<!--")
    kept = [first]
    waiting: list[str] = []
    for piece in rest:
        _, end, after = piece.partition("-->")
        if end:
            kept.append(after)
            waiting = []
        else:
            waiting.append(piece)
    if waiting:
        _, blank, after = "".join(waiting).partition("\n\n")
        kept.append(blank + after)
    return "".join(kept)


def literal(text: str) -> str:
    """Signs of markup as entities, which are resolved when no markup is looked for any more."""
    return _SPECIAL.sub(lambda sign: f"&#{ord(sign[0])};", text)


def simple_formula(source: str) -> str:
    """A formula that reads as text, such as `x` or `E = mc^2`; nothing for one with commands of TeX."""
    source = source.strip()
    shown = _DISPLAYED.fullmatch(source)
    source = shown[1].strip() if shown else source
    return source if _SIMPLE_FORMULA.fullmatch(source) else ""


def without_templates(text: str, depth: int = 0) -> str:
    """Templates replaced by the text that they put into the sentence, if any."""
    if "{{" not in text:
        return text

    def inner(argument: str) -> str:
        return without_templates(argument, depth + 1) if depth < _DEEPEST else ""

    def end_of(start: int) -> re.Match[str] | None:
        lines = _PARAMETER_LINES.match(text, start) if start == 0 or text[start - 1] == "\n" else None
        if lines and ("\n" in lines[0] or not is_sentence(lines[0])):
            return lines
        return _UNCLOSED_TEMPLATE.match(text, start)

    return _without(text, _BRACES, end_of, lambda start, end: text_of(text[start + 2 : end - 2], inner))


def _without(
    text: str,
    tokens: re.Pattern[str],
    end_of: Callable[[int], re.Match[str] | None],
    said: Callable[[int, int], str] = lambda start, end: "",
) -> str:
    """Outermost spans replaced by what they say; of an opening without an end, what `end_of` matches is removed."""
    spans, unclosed = _spans(text, tokens)
    kept, at = [], 0
    for start, end in sorted([*spans, *((start, -1) for start in unclosed)]):
        if start < at:
            at = max(at, end)
            continue
        kept += [text[at:start], said(start, end) if end >= 0 else ""]
        broken = None if end >= 0 else end_of(start)
        at = broken.end() if broken else max(start, end)
    return "".join([*kept, text[at:]])


def _spans(text: str, tokens: re.Pattern[str]) -> tuple[list[tuple[int, int]], list[int]]:
    """The outermost balanced spans, and openings without an end.

    No span reaches over a heading: one that would has lost its end.
    """
    headings = [found.start() for found in _HEADINGS.finditer(text)]
    spans: list[tuple[int, int]] = []
    opened: list[int] = []
    unclosed: list[int] = []
    for token in tokens.finditer(text):
        if not (token[0].endswith(("}}", "|}")) or token[0].startswith("</")):
            opened.append(token.start())
        elif opened:
            place = bisect_left(headings, opened[-1])
            if place < len(headings) and headings[place] < token.start():
                unclosed += opened
                opened = []
                continue
            start = opened.pop()
            while spans and spans[-1][0] > start:
                spans.pop()
            spans.append((start, token.end()))
    return spans, [*unclosed, *opened]


def link_text(target: str, label: str, prefixes: Prefixes) -> str:
    """What a link shows; `label` is empty or begins with its bar."""
    prefix, colon, rest = target.partition(":")
    prefix = prefix.strip().replace("_", " ")
    if prefix.lower() in prefixes.files or prefix.lower() in prefixes.categories or (colon and prefix in LANGUAGES):
        return ""
    if label:
        return label[1:]
    if not prefix and colon:
        return rest
    return rest.strip() if colon and prefix.lower() in SISTERS else target


def without_quotes(line: str) -> str:
    """A line without the quotes of bold and italic; apostrophes before them stay, as in l'''amour''."""
    if "'''" not in line:
        return line.replace("''", "")
    runs = list(_QUOTES.finditer(line))
    sizes = [3 if len(run[0]) == 4 else min(len(run[0]), 5) for run in runs]
    apostrophe = None
    if sum(size in (3, 5) for size in sizes) % 2 and sum(size in (2, 5) for size in sizes) % 2:
        bold = [run.start() for run in runs if len(run[0]) == 3]
        single = [start for start in bold if start > 1 and line[start - 1] != " " and line[start - 2] == " "]
        inside = [start for start in bold if start > 0 and line[start - 1] != " "]
        apostrophe = next(iter([*single, *inside, *bold]), None)

    def left(run: re.Match[str]) -> str:
        size = len(run[0])
        return "'" if size == 4 or run.start() == apostrophe else "'" * (size - 5)

    return _QUOTES.sub(left, line)


def without_switches(text: str) -> str:
    """Without __NOTOC__ and its kind in any language; Python's __init__ stays."""
    if "__" not in text:
        return text
    return _SWITCH.sub(lambda found: "" if found[0] == found[0].upper() else found[0], text)


def chosen_variant(body: str) -> str:
    """One of the variants of a word, of Chinese the simplified one: `-{zh-hans:计算机; zh-hant:電腦}-`."""
    flags, bar, rules = body.rpartition("|")
    if bar and {"H", "T", "-", "N", "D"} & {flag.strip() for flag in flags.split(";")}:
        return ""
    found = [match for match in map(_VARIANT.match, rules.split(";")) if match]
    variants = {match[1]: match[2].strip() for match in found}
    chosen = next((variants[one] for one in _PREFERRED if one in variants), None)
    return chosen if chosen is not None else next(iter(variants.values()), rules)
