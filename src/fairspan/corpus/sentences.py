"""Sentences of a text in any language."""

import sentencex

Span = tuple[int, int]
"""The first character of a part of a text, and the first one after it."""


def sentences(text: str, language: str) -> list[Span]:
    """The characters of each sentence, without the white space around it, in order."""
    # Languages without rules of their own use those of English.
    boundaries = sentencex.get_sentence_boundaries(language or "en", text)
    spans = [stripped(text, part["start_index"], part["end_index"]) for part in boundaries]
    return [(start, end) for start, end in spans if start < end]


def stripped(text: str, start: int, end: int) -> Span:
    """A span without the white space at its ends."""
    body = text[start:end]
    return start + len(body) - len(body.lstrip()), start + len(body.rstrip())
