"""`call_of`: the function of a verb, whose keywords are the fields of its dataclass of options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from textwrap import fill
from typing import Any, ParamSpec, TypeVar

from docstring_parser import DocstringStyle, parse

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def described(documented: Any) -> dict[str, str]:
    """What docstrings say of each argument of a function, or field of a dataclass and its bases."""
    texts: dict[str, str] = {}
    for kind in getattr(documented, "__mro__", (documented,)):
        for entry in parse(kind.__doc__ or "", DocstringStyle.GOOGLE).params:
            texts.setdefault(entry.arg_name, " ".join((entry.description or "").split()))
    return texts


def call_of(options: Callable[P, T]) -> Callable[[Callable[[T], R]], Callable[P, R]]:
    """Turn a function of a dataclass into one of its fields, which are the verb's keywords.

    Type checkers see them through `P`, editors and `help()` in the signature and the docstring.
    """
    accepted = inspect.signature(options)

    def decorate(run: Callable[[T], R]) -> Callable[P, R]:
        """The function of the fields."""

        @wraps(run)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                accepted.bind(*args, **keywords)
            except TypeError as error:
                raise TypeError(f"{run.__name__}(): {error}") from None
            return run(options(*args, **keywords))

        listed = [
            fill(f"{name}: {text}", 96, initial_indent=" " * 4, subsequent_indent=" " * 8)
            for name, text in described(options).items()
        ]
        call.__doc__ = "\n".join([f"{inspect.getdoc(run)}\n\nArgs:", *listed])
        signature = accepted.replace(return_annotation=run.__annotations__["return"])
        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate
