"""Sentences of a text in any language."""

import sentencex

Span = tuple[int, int]


def sentences(text: str, language: str) -> list[Span]:
    """The characters of each sentence, without the white space around it, in order.

    >>> sentences("Dr. Li came. She left.", "en")
    [(0, 12), (13, 22)]
    """
    found = []
    # A language that has no rules of its own is read by those of English.
    for one in sentencex.get_sentence_boundaries(language or "en", text):
        start, end = one["start_index"], one["end_index"]
        if text[start:end].strip():
            found.append(stripped(text, start, end))
    return found


def stripped(text: str, start: int, end: int) -> Span:
    """A span without the white space at its ends."""
    body = text[start:end]
    return start + len(body) - len(body.lstrip()), start + len(body.rstrip())
