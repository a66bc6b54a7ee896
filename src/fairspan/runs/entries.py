"""Frozen dataclasses as the entries of a JSON object, and read from them again."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Entries = TypeVar("Entries")


def as_json(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {entry.name: as_json(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [as_json(item) for item in value]
    return str(value)


def read_entries(kind: type[Entries], entries: Any, name: str = "it") -> Entries:
    """A dataclass from the entries of a JSON object; a ValueError says what is wrong with them."""
    if not isinstance(entries, Mapping):
        raise ValueError(f"{name} is no object")
    hints = get_type_hints(kind)
    values = {}
    for entry in fields(kind):  # type: ignore[arg-type]
        if entry.name in entries:
            values[entry.name] = _read(hints[entry.name], entries[entry.name], entry.name)
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{entry.name} is missing")
    return kind(**values)


def _read(hint: Any, value: Any, name: str) -> Any:
    """A JSON value as a dataclass, a tuple, a mapping, a plain type, or one of these or None."""
    arguments = get_args(hint)
    origin = get_origin(hint)
    if hint is Any or (value is None and NoneType in arguments):
        return value
    if origin is UnionType:
        return _read(arguments[0], value, name)
    if is_dataclass(hint):
        return read_entries(hint, value, name)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(arguments[0], item, name) for item in value)
    if origin is Mapping and isinstance(value, Mapping):
        return {key: _read(arguments[1], item, f"{name}.{key}") for key, item in value.items()}
    plain = isinstance(value, (int, float) if hint is float else origin or hint)
    if plain and isinstance(value, bool) == (hint is bool):
        return value
    raise ValueError(f"{name} is {str(value)[:40]!r}")
