"""`LanguageText`: a text that carries its languages to a model whose last module asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairspan.errors import FairspanError


class LanguageText(str):
    """A text that remembers its languages, and behaves as a string.

    >>> LanguageText("Guten Tag.", "de").spoken
    (('de', 1.0),)
    """

    spoken: tuple[tuple[str, float], ...]

    def __new__(cls, text: str, languages: str | Mapping[str, float]) -> LanguageText:
        made = super().__new__(cls, text)
        shares = {languages: 1.0} if isinstance(languages, str) else languages
        whole = sum(shares.values())
        if not shares or any(share < 0 for share in shares.values()) or not whole > 0:
            raise FairspanError(
                f"the language of a text is a code such as 'de', or shares of several, got {shares!r}."
            )
        made.spoken = tuple((language, share / whole) for language, share in shares.items())
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return LanguageText, (str(self), dict(self.spoken))
