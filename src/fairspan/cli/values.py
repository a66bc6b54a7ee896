"""How values are typed: lists as one word, numbers by number, and what cyclopts reads by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import Parameter, Token

from fairspan.errors import DesignError

# Commas inside brackets belong to a value, as in paper+layers=[1,3].
_COMMA = re.compile(r",(?![^\[{]*[\]}])")


def words(text: str) -> list[str]:
    """ "en, de" as ["en", "de"]."""
    return [word.strip() for word in _COMMA.split(text) if word.strip()]


def _read_list(kind: Any, tokens: Sequence[Token]) -> list[Any]:
    """The values of the last word that was typed."""
    [element] = get_args(kind)
    text = tokens[-1].value
    try:
        values = [element(word) for word in words(text)]
    except ValueError:
        values = []
    if not values:
        form = "whole numbers such as 3,4" if element is int else "words such as en,de"
        raise DesignError(f"{tokens[-1].keyword} takes {form}, got {text!r}.")
    return values


def _read_counts(_: Any, tokens: Sequence[Token]) -> int | dict[int, int]:
    """The number, or the numbers by number, of the last word that was typed."""
    text = tokens[-1].value
    try:
        if ":" not in text:
            return int(text)
        pairs = [word.split(":") for word in words(text)]
        return {int(number): int(count) for number, count in pairs}
    except ValueError:
        form = "a number, or pairs such as 3:167,4:42"
        raise DesignError(f"{tokens[-1].keyword} takes {form}, got {text!r}.") from None


def _number_or_word(_: Any, tokens: Sequence[Token]) -> int | str:
    """The last word that was typed; cyclopts would read 6.5 as 6."""
    text = tokens[-1].value
    return int(text) if text.isdecimal() else text


_WORDS = Annotated[list[str], Parameter(converter=_read_list, n_tokens=1, metavar="A,B,…")]
_NUMBERS = Annotated[list[int], Parameter(converter=_read_list, n_tokens=1, metavar="1,2,…")]
_NUMBERS_OR_WORDS = Annotated[_WORDS, Parameter(metavar="1,2,…")]
_NUMBER_OR_WORD = Annotated[Any, Parameter(converter=_number_or_word, metavar="INT|WORD")]
_COUNTS = Annotated[Any, Parameter(converter=_read_counts, metavar="INT|1:2,…")]


def as_typed(hint: Any, *, repeated: bool) -> Any:
    """The type of a field as cyclopts reads it, in the form that is typed.

    A list that is `repeated` is typed once for each value, and all others as one word.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    lists = [kind for kind in kinds if get_origin(kind) is Sequence]
    if Mapping[int, int] in kinds:
        return _COUNTS
    if {int, str} <= {*kinds}:
        return _NUMBER_OR_WORD
    if Path in kinds:
        typed: Any = Path
    elif lists and repeated:
        typed = list[str]
    elif lists:
        special = {Sequence[int]: _NUMBERS, Sequence[str | int]: _NUMBERS_OR_WORDS}
        typed = special.get(lists[0], _WORDS)
    else:
        return hint
    # Where a default is None, cyclopts checks it against the type if pydantic is there.
    return typed | None if NoneType in kinds else typed
