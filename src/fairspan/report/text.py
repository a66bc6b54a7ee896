"""Numbers as text: one way to write a number, an interval and a p value everywhere."""

from __future__ import annotations

from math import isfinite
from typing import Any, Protocol
from unicodedata import category

UNKNOWN = "–"


class Interval(Protocol):
    """A number with the ends of its interval."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def finite(value: Any) -> float | None:
    """A number as JSON can hold it: None for NaN and infinity."""
    return None if value is None or not isfinite(value) else float(value)


def number(value: float | None, form: str = ".3f") -> str:
    """A number in a format such as ".3f", ".1%" or ",d", with a true minus sign; a dash if unknown.

    What rounds to zero has no sign.

    >>> number(-0.12345), number(-0.0001, "+.3f"), number(0.5, ".1%"), number(None)
    ('−0.123', '0.000', '50.0\\xa0%', '–')
    """
    if value is None or not isfinite(value):
        return UNKNOWN
    text = format(value, form)
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", "−").replace("%", "\u00a0%")


def bounds(low: float | None, high: float | None, form: str = ".3f") -> str:
    """The ends of an interval in brackets; a dash if they are unknown."""
    if finite(low) is None or finite(high) is None:
        return UNKNOWN
    return f"[{number(low, form)}, {number(high, form)}]"


def with_ends(
    estimate: float | None,
    low: float | None = None,
    high: float | None = None,
    form: str = ".3f",
) -> str:
    """A number, followed by its interval if that is known.

    >>> with_ends(0.5, 0.4, 0.6, ".1f"), with_ends(0.5), with_ends(None)
    ('0.5 [0.4, 0.6]', '0.500', '–')
    """
    alone = number(estimate, form)
    ends = bounds(low, high, form)
    return alone if UNKNOWN in (alone, ends) else f"{alone} {ends}"


def with_bounds(interval: Interval | None, form: str = ".3f") -> str:
    """The same of an interval."""
    if interval is None:
        return UNKNOWN
    return with_ends(interval.estimate, interval.low, interval.high, form)


def duration(seconds: float) -> str:
    """A forecast of time, in seconds, minutes or hours; no time for one that is over."""
    if seconds < 90:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(amount: int, what: str) -> str:
    """A number of things, such as "1 shard" and "1,200 shards"."""
    return f"{amount:,} {what}{'' if amount == 1 else 's'}"


def p_value(value: float | None) -> str:
    """A p value to three digits."""
    if value is None or not isfinite(value):
        return UNKNOWN
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def printable(text: str) -> str:
    """Text without control characters and lone surrogates, which break terminals and files."""
    return "".join(
        "\ufffd" if category(sign) in ("Cc", "Cs") and sign not in "\n\t" else sign for sign in text
    )


def model_name(name: str) -> str:
    """A model as titles name it: its name on the hub, or the last folder of a path.

    >>> model_name("BAAI/bge-m3"), model_name("/home/me/models/bge-m3/")
    ('BAAI/bge-m3', 'bge-m3')
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    local = len(parts) > 2 or name.startswith(("/", ".", "~")) or "\\" in name
    return parts[-1] if local and parts else name
