"""`CollapseEntries`: what only the headers of studies of length say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Length:
    """The number of texts of a length, and their mean number of tokens."""

    length: int
    texts: int
    tokens: float


@dataclass(frozen=True, slots=True)
class CollapseEntries:
    """The lengths, and whether the same documents were cut to each of them."""

    lengths: list[Length]
    paired: bool
