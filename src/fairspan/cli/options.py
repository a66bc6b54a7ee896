"""Reading what was typed."""

from __future__ import annotations

from fairspan.errors import DesignError


def words(text: str | None) -> list[str] | None:
    """ "en, de" as ["en", "de"]; None stays None."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def numbers(name: str, text: str | None) -> list[int] | None:
    """ "3,4" as [3, 4]; None stays None."""
    found = words(text)
    if found is None:
        return None
    bad = [word for word in found if not word.isdigit()]
    if bad or not found:
        raise DesignError(f"--{name} takes whole numbers such as 3,4,5, got {text!r}.")
    return [int(word) for word in found]
