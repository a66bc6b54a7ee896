"""Softmax temperatures: one for all texts, or one for each side."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from fairspan.errors import DesignError

Side = Literal["query", "document"]


def check_temperature(value: Any) -> float:
    """`value` as a temperature in (0, 1], or an error that says so."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise DesignError(
            f"temperature must be a number above 0 and at most 1, got {value!r}. "
            "1 leaves attention as it is; 0.8 is the published default."
        )
    return float(value)


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float = 1.0
    document: float = 1.0

    def __post_init__(self) -> None:
        for side in ("query", "document"):
            object.__setattr__(self, side, check_temperature(getattr(self, side)))


Temperature = float | PerSide


def parse_temperature(value: Any) -> Temperature:
    """Read any form a caller or a JSON file may use: a number, or a mapping by side."""
    if isinstance(value, PerSide):
        return value
    if isinstance(value, Mapping):
        if value and set(value) <= {"query", "document"}:
            return PerSide(**value)
        raise DesignError(
            f"temperature by side takes the keys 'query' and 'document', got {sorted(map(str, value))}."
        )
    return check_temperature(value)


def temperature_of(temperature: Temperature, side: Side) -> float:
    """The part of `temperature` that acts on one side."""
    return getattr(temperature, side) if isinstance(temperature, PerSide) else temperature


def dump_temperature(temperature: Temperature) -> Any:
    """The JSON form that `parse_temperature` reads back."""
    return asdict(temperature) if isinstance(temperature, PerSide) else temperature
