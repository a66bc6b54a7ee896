"""What only the logs of studies of length have: their rows, and entries of their headers."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "treatment": pl.String(),
    "measure": pl.String(),
    "document": pl.String(),
    "length": pl.Int32(),
    "tokens": pl.Int32(),
    "value": pl.Float64(),
}
"""The columns of rows: the length that was asked for, and how many tokens the text has."""


@dataclass(frozen=True, slots=True)
class Length:
    """The number of texts of a length, and their mean number of tokens."""

    length: int
    texts: int
    tokens: float


@dataclass(frozen=True, slots=True)
class CollapseEntries:
    """The lengths, and whether the same documents were cut to each of them."""

    lengths: tuple[Length, ...]
    paired: bool

    @property
    def names(self) -> dict[int, str]:
        """The lengths, or both ends of bins of natural lengths, in words."""
        lengths = [entry.length for entry in self.lengths]
        return {
            length: str(length) if self.paired else f"{length}–{length + 99}" for length in lengths
        }

    @property
    def documents(self) -> int:
        counts = [entry.texts for entry in self.lengths]
        return min(counts) if self.paired else sum(counts)
