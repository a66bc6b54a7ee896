"""Long work in steps, between which its thread is free for other work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from greenlet import getcurrent, greenlet

Result = TypeVar("Result")


class _Stepwise(greenlet):
    """Work that stops wherever it calls `give_way`."""


def in_steps(work: Callable[[], Result]) -> Iterator[Result | None]:
    """None for every call of `give_way` during `work`, then what it returns.

    All steps have to be taken in one thread. An iterator that is closed ends the work where it is.
    """
    stepwise = _Stepwise(work)
    try:
        result = stepwise.switch()
        while not stepwise.dead:
            yield None
            result = stepwise.switch()
        yield result
    finally:
        if not stepwise.dead:
            stepwise.throw()


def give_way() -> None:
    """End a step if `in_steps` runs the caller."""
    current = getcurrent()
    if isinstance(current, _Stepwise) and current.parent is not None:
        current.parent.switch()
