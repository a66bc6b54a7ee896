"""`changed`: a view, its frames included, in which every text is changed; `cleaned`: printable."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

import polars as pl

from fairspan.report.text import printable

Shown = TypeVar("Shown")


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
    elif isinstance(value, pl.DataFrame):
        texts = [column for column in value if column.dtype == pl.String]
        result = value.with_columns(
            pl.Series(column.name, [text and change(text) for text in column], pl.String)
            for column in texts
        )
    elif is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        result = replace(value, **{name: changed(getattr(value, name), change) for name in names})
    return cast(Shown, result)
