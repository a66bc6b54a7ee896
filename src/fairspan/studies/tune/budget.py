"""`Budget`: the minutes that a tuning may take."""

import time
from dataclasses import dataclass, field
from typing import Any

from fairspan.errors import DesignError


@dataclass(frozen=True, slots=True)
class Budget:
    """Minutes since it was made; None for no limit."""

    minutes: float | None = None
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        given: Any = self.minutes
        wrong = isinstance(given, bool) or not isinstance(given, int | float | None)
        if wrong or (given is not None and not 0 < given < float("inf")):
            raise DesignError(f"[[budget]] is the number of minutes that the run may take, got {given!r}.")

    def needed(self, tokens: int, speed: float) -> float:
        """Seconds from the start until so many more tokens are embedded."""
        return time.monotonic() - self.started + tokens / speed

    def fits(self, seconds: float) -> bool:
        return self.minutes is None or seconds <= 60 * self.minutes
