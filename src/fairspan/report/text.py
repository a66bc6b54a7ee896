"""Numbers as text: one way to write a number, an interval and a p value everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from typing import Any, Protocol, TypeVar, cast
from unicodedata import category

UNKNOWN = "–"

Shown = TypeVar("Shown")


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


def bounds(interval: Interval | None, form: str = ".3f") -> str:
    """The ends of an interval in brackets; a dash if they are unknown."""
    if interval is None or finite(interval.low) is None or finite(interval.high) is None:
        return UNKNOWN
    return f"[{number(interval.low, form)}, {number(interval.high, form)}]"


def with_bounds(interval: Interval | None, form: str = ".3f") -> str:
    """A number, followed by its interval if that is known."""
    if interval is None:
        return UNKNOWN
    ends = bounds(interval, form)
    alone = number(interval.estimate, form)
    return alone if UNKNOWN in (alone, ends) else f"{alone} {ends}"


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


def cleaned(value: Shown) -> Shown:
    """A view or a part of it in which every text is printable."""
    return changed(value, lambda text: text if text.isprintable() else printable(text))


def changed(value: Shown, change: Callable[[str], str]) -> Shown:
    """A view, a part of it or JSON in which every text is changed."""
    result: Any = value
    if isinstance(value, str):
        result = change(value)
    elif isinstance(value, list | tuple):
        parts = [changed(part, change) for part in value]
        result = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    elif isinstance(value, Mapping):
        result = {key: changed(part, change) for key, part in value.items()}
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        result = replace(value, **{name: changed(getattr(value, name), change) for name in names})
    return cast(Shown, result)


def size_text(size: float) -> str:
    """A size in a few characters.

    >>> size_text(4.32), size_text(113.2), size_text(61_400_000)
    ('4.32', '113', '61.4M')
    """
    for least, unit, sign in ((9.995e8, 1e9, "G"), (9.995e5, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= least:
            return f"{size / unit:.3g}{sign}"
    return f"{size:.0f}" if size >= 10 else f"{size:.3g}"


def model_name(name: str) -> str:
    """A model as titles name it: its name on the hub, or the last folder of a path.

    >>> model_name("BAAI/bge-m3"), model_name("/home/me/models/bge-m3/")
    ('BAAI/bge-m3', 'bge-m3')
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    local = len(parts) > 2 or name.startswith(("/", ".", "~")) or "\\" in name
    return parts[-1] if local and parts else name
