"""Rows of a known design for the tests of statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import default_rng

# Documents of nine sets, from one to twenty-four.
UNEVEN = (1, 1, 2, 2, 3, 4, 8, 16, 24)


@dataclass(frozen=True)
class Rows:
    values: np.ndarray
    positions: np.ndarray
    sets: np.ndarray
    segments: np.ndarray

    @property
    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.values, self.positions, self.sets

    def keep(self, rows: np.ndarray) -> Rows:
        return Rows(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def make_rows(
    rng: np.random.Generator,
    documents: tuple[int, ...] | int = 9,
    n: int = 4,
    effects: tuple[float, ...] = (),
    noise: float = 0.03,
) -> Rows:
    """Cyclic orders of n segments a set; sets, segments and set × position interactions all have
    random effects.

    `documents` are those of each set, or a number of sets that all have n: then the design is Latin
    and balanced.
    """
    per_set = np.full(documents, n) if isinstance(documents, int) else np.array(documents)
    sets = np.repeat(np.arange(len(per_set)), per_set)
    shifts = np.concatenate([np.arange(count) for count in per_set])
    position = np.tile(np.arange(n), len(sets))
    set_of = np.repeat(sets, n)
    segments = set_of * n + (position + np.repeat(shifts, n)) % n
    values = (
        0.5
        + np.array(effects or (0.0,) * n)[position]
        + rng.normal(0, 0.05, len(per_set))[set_of]
        + rng.normal(0, 0.05, len(per_set) * n)[segments]
        + rng.normal(0, noise, (len(per_set), n))[set_of, position]
        + rng.normal(0, 0.02, len(position))
    )
    return Rows(values, position + 1, set_of, segments)


def uneven_rows(rng: np.random.Generator, effects: tuple[float, ...] = ()) -> Rows:
    """Sets of very different sizes. One row in ten of the larger ones is missing."""
    rows = make_rows(rng, UNEVEN, effects=effects)
    kept = default_rng(5).random(len(rows.values)) > 0.1
    return rows.keep(np.flatnonzero(kept | (rows.sets < 4)))
