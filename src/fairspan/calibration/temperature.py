"""`Temperature`: what divides attention scores, for all texts, by side or by length."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fairspan.errors import DesignError


def check_number(name: str, value: Any, allowed: str, is_allowed: Callable[[float], bool]) -> float:
    """The value of a field as a float; raise unless it is an allowed number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and is_allowed(value)):
        raise DesignError(f"{name} must be a number {allowed}, got {value!r}.")
    return float(value)


def _check_temperature(value: Any) -> float:
    return check_number(
        "temperature", value, "above 0 and at most 1", lambda number: 0 < number <= 1
    )


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float = 1.0
    document: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "query", _check_temperature(self.query))
        object.__setattr__(self, "document", _check_temperature(self.document))


Steps = tuple[tuple[int | None, float], ...]
"""Temperatures by length: tokens of the whole text up to which, None for any number, and values."""
Temperature = float | PerSide | Steps


def temperature_of(temperature: Temperature, side: str) -> float | Steps:
    """The part of `temperature` that acts on one side."""
    return getattr(temperature, side) if isinstance(temperature, PerSide) else temperature


def as_temperature(value: Any) -> Temperature:
    """A temperature from a number, a mapping by side as in JSON, or steps by length.

    If all numbers are equal, it is this number.
    """
    match value:
        case PerSide(query, document):
            return query if query == document else value
        case Mapping():
            if value and set(value) <= {"query", "document"}:
                return as_temperature(PerSide(**value))
            keys = sorted(map(str, value))
            sides = "the keys 'query' and 'document'"
            raise DesignError(f"temperature by side takes {sides}, got {keys}.")
        case str() | list() | tuple():
            steps = _as_steps(value)
            return steps if len({number for _, number in steps}) > 1 else steps[0][1]
    return _check_temperature(value)


def _as_steps(value: Any) -> Steps:
    """Steps from pairs, or from a text such as "1to256_0.8"."""
    pairs = value
    try:
        if isinstance(value, str):
            words = [word.partition("to") for word in value.split("_")]
            pairs = [(json.loads(end or "null"), json.loads(number)) for number, _, end in words]
        steps = tuple((end, number) for end, number in pairs)
    except (TypeError, ValueError):
        steps = ()
    ends = [end for end, _ in steps]
    last = ends.pop() if ends else 0
    are_whole = all(type(end) is int and end > 0 for end in ends)
    if last is not None or not are_whole or ends != sorted(set(ends)):
        by_length = "[(256, 1.0), (512, 0.9), (None, 0.8)] or 1to256_0.9to512_0.8"
        raise DesignError(
            f"temperature must be a number or steps such as {by_length}, got {value!r}."
        )
    return tuple((end, _check_temperature(number)) for end, number in steps)
