"""Numbers as tables print them: with a minus sign, a dash for what is not known, and intervals in brackets."""

from __future__ import annotations

from math import isfinite
from typing import Protocol

UNKNOWN = "–"


class Interval(Protocol):
    """A number with the ends of its interval."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def number(value: float | None, digits: int = 3, *, sign: bool = False) -> str:
    """A number, or a dash."""
    if value is None or not isfinite(value):
        return UNKNOWN
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def bounds(interval: Interval | None, digits: int = 3, *, sign: bool = False) -> str:
    """The ends alone."""
    if interval is None or number(interval.low) == UNKNOWN or number(interval.high) == UNKNOWN:
        return UNKNOWN
    return f"[{number(interval.low, digits, sign=sign)}, {number(interval.high, digits, sign=sign)}]"


def interval(found: Interval | None, digits: int = 3, *, sign: bool = False) -> str:
    """A number with its ends where they are known."""
    if found is None:
        return UNKNOWN
    ends = bounds(found, digits, sign=sign)
    alone = number(found.estimate, digits, sign=sign)
    return alone if UNKNOWN in (alone, ends) else f"{alone} {ends}"


def p_value(value: float | None) -> str:
    """A p value to three digits."""
    if value is None or not isfinite(value):
        return UNKNOWN
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def model_name(name: str) -> str:
    """A model as titles have it: its name on the hub, or the last folder of a path.

    >>> model_name("BAAI/bge-m3"), model_name("/home/me/models/bge-m3/")
    ('BAAI/bge-m3', 'bge-m3')
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    local = len(parts) > 2 or name.startswith(("/", ".", "~")) or "\\" in name
    return parts[-1] if local and parts else name
