"""Sets of distinct segments, disjoint while the corpus lasts, and their orders."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb

import numpy as np

# If a deal brings no new set, and there are at most this many possible ones, all are listed.
_FEW = 20_000
# Otherwise the draw ends after this many deals without a new set.
_PATIENCE = 100


@dataclass(frozen=True, slots=True)
class Draw:
    """The sets that were drawn, the first of which are disjoint."""

    sets: tuple[tuple[str, ...], ...]
    disjoint: int


def draw_sets(ids: Sequence[str], n: int, count: int, rng: np.random.Generator) -> Draw:
    """Up to `count` different sets of n segments.

    The corpus is shuffled and dealt out, and shuffled again once it is used up, so no segment is in
    many more sets than another.
    """
    drawn: dict[frozenset[str], tuple[str, ...]] = {}
    barren = 0
    while len(drawn) < count and barren < _PATIENCE:
        before = len(drawn)
        shuffled = [ids[number] for number in rng.permutation(len(ids))]
        for members in zip(*[iter(shuffled)] * n, strict=False):
            drawn.setdefault(frozenset(members), members)
            if len(drawn) == count:
                break
        barren = 0 if len(drawn) > before else barren + 1
        if barren and comb(len(ids), n) <= _FEW:
            rest = [members for members in combinations(ids, n) if frozenset(members) not in drawn]
            fresh = [rest[number] for number in rng.permutation(len(rest))]
            drawn.update({frozenset(members): members for members in fresh[: count - len(drawn)]})
            break
    return Draw(tuple(drawn.values()), _disjoint(drawn.values()))


def _disjoint(sets: Iterable[tuple[str, ...]]) -> int:
    """How many sets, from the first on, share no segment with one before."""
    seen: set[str] = set()
    count = 0
    for members in sets:
        if not seen.isdisjoint(members):
            break
        seen.update(members)
        count += 1
    return count


def orders(design: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """[orders, n], each row the segment (0…n-1) at each position.

    - "latin": the n rotations of a random order. Every segment is once at every position.
    - "permutations": all n! orders.
    """
    names = rng.permutation(n)
    if design == "permutations":
        return np.array(list(permutations(range(n))))
    rotations = np.arange(n)[:, None]
    return np.asarray(names[(np.arange(n) + rotations) % n])
