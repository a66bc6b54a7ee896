"""Softmax temperatures: one for all texts, one for each side, or one that depends on a text's length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairspan.errors import DesignError, require_whole

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
class LengthSchedule:
    """A temperature that falls in steps as texts get longer.

    `steps` are pairs (tokens, temperature): a text takes the temperature of the last step whose token count it
    reaches, special tokens counted. Texts shorter than the first step keep temperature 1.

    >>> LengthSchedule([(400, 0.9), (800, 0.8)]).at(500)
    0.9
    """

    steps: Sequence[tuple[int, float]]

    def __post_init__(self) -> None:
        try:
            pairs = tuple((tokens, value) for tokens, value in self.steps)
        except (TypeError, ValueError):
            raise DesignError(
                f"a length schedule is a list of (tokens, temperature) pairs, [(400, 0.9)], got {self.steps!r}."
            ) from None
        borders = [tokens for tokens, _ in pairs]
        for border in borders:
            require_whole("a token count of a length schedule", border, least=0)
        if not pairs or borders != sorted(set(borders)):
            raise DesignError(f"a length schedule needs at least one step, and rising token counts, got {borders}.")
        object.__setattr__(self, "steps", tuple((tokens, check_temperature(value)) for tokens, value in pairs))

    def at(self, tokens: int) -> float:
        """The temperature of a text of that many tokens."""
        reached = [value for border, value in self.steps if tokens >= border]
        return reached[-1] if reached else 1.0


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float | LengthSchedule = 1.0
    document: float | LengthSchedule = 1.0

    def __post_init__(self) -> None:
        for side in ("query", "document"):
            own = parse_temperature(getattr(self, side))
            if isinstance(own, PerSide):
                raise DesignError("temperature by side cannot be nested: give each side a number or a schedule.")
            object.__setattr__(self, side, own)


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
            return PerSide(**value)
        raise DesignError(
            "temperature by side takes the keys 'query' and 'document', and a schedule the key 'steps', "
            f"got {sorted(map(str, value))}."
        )
    return check_temperature(value)


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
