"""`call_of`: the function of a verb, whose keywords are the fields of its dataclass of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def call_of(
    options: Callable[P, T], run: Callable[[T], R], name: str, module: str
) -> Callable[P, R]:
    """A function with the signature of the dataclass `options`, which builds it and hands it to `run`.

    The keywords of a verb are so listed once: as the fields. Type checkers see them through `P`, and `help()` and
    editors through the signature, whose result is what `run` returns.

    Args:
        options: the dataclass; its docstring lists its own fields, under `Attributes:`.
        run: what the verb does; its docstring comes first.
        name: of the function, which errors about wrong keywords also use.
        module: where it is found, for `help()` and for pickling.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     left: int
    ...     right: int = 1
    >>> add = call_of(Sum, lambda asked: asked.left + asked.right, "add", __name__)
    >>> add(1), add(left=1, right=2)
    (2, 3)
    """
    accepted = inspect.signature(options)

    @wraps(run)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            accepted.bind(*args, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}(): {error}") from None
        return run(options(*args, **keywords))

    call.__name__ = call.__qualname__ = name
    call.__module__ = module
    # A dataclass lists its own fields, and those that it inherits are listed where they are defined.
    docs = [
        inspect.cleandoc(kind.__doc__ or "") for kind in getattr(options, "__mro__", (options,))
    ]
    listed = "\n".join(found for one in docs if (found := one.partition("Attributes:\n")[2]))
    doc = inspect.getdoc(run)
    call.__doc__ = f"{doc}\n\nArgs:\n{listed}" if doc and listed else doc or docs[0]
    returns = inspect.signature(run).return_annotation
    call.__signature__ = accepted.replace(return_annotation=returns)  # type: ignore[attr-defined]
    del call.__wrapped__  # it takes the dataclass, and `help()` would show that
    call.__annotations__ = {**getattr(options, "__annotations__", {}), "return": returns}
    return call
