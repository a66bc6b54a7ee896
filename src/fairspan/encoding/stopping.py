"""`stopping_when`: passes of a model that nobody waits for any more end early."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

from torch import nn


class Stopped(Exception):  # noqa: N818 - nothing failed
    """A pass ended early."""


@contextmanager
def stopping_when(model: nn.Module, is_over: Callable[[], bool]) -> Iterator[None]:
    """Inside this block, passes of this thread raise `Stopped` soon after `is_over()` is true.

    It is called before every leaf module, so every few milliseconds.
    """
    thread = get_ident()

    def stop(*_: object) -> None:
        # Other threads may be in the same model.
        if get_ident() == thread and is_over():
            raise Stopped

    leaves = [module for module in model.modules() if next(module.children(), None) is None]
    hooks = [module.register_forward_pre_hook(stop) for module in leaves]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
