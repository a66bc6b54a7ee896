"""Softmax temperatures: one for all texts, one for each side, or one that depends on a text's length."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fairspan.errors import CalibrationError

Side = Literal["query", "document"]


def check_temperature(value: Any) -> float:
    """`value` as a temperature in (0, 1], or an error that says so."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise CalibrationError(
            f"temperature must be a number above 0 and at most 1, got {value!r}. "
            "1 leaves attention as it is; 0.8 is the published default."
        )
    return float(value)


@dataclass(frozen=True, slots=True, init=False)
class LengthSchedule:
    """A temperature that falls in steps as texts get longer.

    `steps` are pairs (tokens, temperature): a text takes the temperature of the last step whose token count it
    reaches, special tokens counted. Texts shorter than the first step keep temperature 1.

    >>> LengthSchedule([(400, 0.9), (800, 0.8)]).at(500)
    0.9
    """

    steps: tuple[tuple[int, float], ...]

    def __init__(self, steps: Iterable[tuple[int, float]]) -> None:
        try:
            pairs = tuple((tokens, check_temperature(value)) for tokens, value in steps)
        except (TypeError, ValueError) as error:
            if isinstance(error, CalibrationError):
                raise
            raise CalibrationError(
                f"A length schedule is a list of (tokens, temperature) pairs such as [(400, 0.9)], got {steps!r}."
            ) from None
        borders = [tokens for tokens, _ in pairs]
        whole = all(isinstance(b, int) and not isinstance(b, bool) and b >= 0 for b in borders)
        if not pairs or not whole or borders != sorted(set(borders)):
            raise CalibrationError(
                "A length schedule needs at least one step, and its token counts must be whole numbers that rise "
                f"from 0 upwards, got {borders}."
            )
        object.__setattr__(self, "steps", pairs)

    def at(self, tokens: int) -> float:
        """The temperature of a text of that many tokens."""
        reached = [value for border, value in self.steps if tokens >= border]
        return reached[-1] if reached else 1.0


PLAIN = LengthSchedule([(0, 1.0)])
"""Temperature 1 for every text."""


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float | LengthSchedule = 1.0
    document: float | LengthSchedule = 1.0


Temperature = float | LengthSchedule | PerSide


def parse_temperature(value: Any) -> Temperature:
    """Read any form a caller or a JSON file may use: a number, steps, or a mapping by side."""
    if isinstance(value, (LengthSchedule, PerSide)):
        return value
    if isinstance(value, (list, tuple)):
        return LengthSchedule(value)
    if isinstance(value, Mapping):
        if set(value) == {"steps"}:
            return LengthSchedule(value["steps"])
        if value and set(value) <= {"query", "document"}:
            return PerSide(**{side: _parse_one_side(part) for side, part in value.items()})
        raise CalibrationError(
            "temperature by side takes the keys 'query' and 'document', and a schedule the key 'steps', "
            f"got {sorted(map(str, value))}."
        )
    return check_temperature(value)


def _parse_one_side(value: Any) -> float | LengthSchedule:
    parsed = parse_temperature(value)
    if isinstance(parsed, PerSide):
        raise CalibrationError("temperature by side cannot be nested: give each side a number or a schedule.")
    return parsed


def temperature_of(temperature: Temperature, side: Side) -> float | LengthSchedule:
    """The part of `temperature` that acts on one side."""
    return getattr(temperature, side) if isinstance(temperature, PerSide) else temperature


def dump_temperature(temperature: Temperature) -> Any:
    """The JSON form that `parse_temperature` reads back."""
    if isinstance(temperature, LengthSchedule):
        return {"steps": [list(step) for step in temperature.steps]}
    if isinstance(temperature, PerSide):
        return {side: dump_temperature(getattr(temperature, side)) for side in ("query", "document")}
    return temperature
