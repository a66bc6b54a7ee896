"""Sets of distinct segments, disjoint while the corpus lasts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

# Up to _FEW sets are listed once deals bring nothing new; with more, _PATIENCE barren deals end the draw.
_FEW, _PATIENCE = 20_000, 100


@dataclass(frozen=True, slots=True)
class Draw:
    """The sets drawn, and how they came about.

    Attributes:
        sets: each a tuple of segment ids.
        disjoint: how many of them, from the first on, share no segment with each other.
        passed_over: ids that no set could take because their documents would not fit.
    """

    sets: tuple[tuple[str, ...], ...]
    disjoint: int
    passed_over: frozenset[str]

    @property
    def shared(self) -> bool:
        """Whether some segment is in more than one set."""
        return self.disjoint < len(self.sets)


def draw_sets(
    ids: Sequence[str],
    n: int,
    count: int,
    rng: np.random.Generator,
    *,
    lengths: Mapping[str, int] | None = None,
    room: int | None = None,
) -> Draw:
    """Up to `count` different sets of n segments.

    The corpus is shuffled and dealt out, and shuffled again once it is used up, so no segment is in many more sets
    than another. Of a set that does not fit into `room` the longest segment is put aside for that deal.
    """
    drawn: dict[frozenset[str], tuple[str, ...]] = {}
    lengths, barren = lengths or {}, 0
    while len(drawn) < count and barren < _PATIENCE:
        fresh = [
            members
            for members in _deal(ids, n, rng, lengths, room)
            if frozenset(members) not in drawn
        ]
        barren = 0 if fresh else barren + 1
        if not fresh and comb(len(ids), n) <= _FEW:
            fits = (
                s
                for s in combinations(ids, n)
                if room is None or sum(lengths[one] for one in s) <= room
            )
            rest = [members for members in fits if frozenset(members) not in drawn]
            fresh, barren = [rest[number] for number in rng.permutation(len(rest))], _PATIENCE
        drawn.update({frozenset(members): members for members in fresh[: count - len(drawn)]})
    used = {segment for members in drawn.values() for segment in members}
    passed_over = (
        frozenset() if room is None else frozenset(_too_long(ids, n, lengths, room) - used)
    )
    return Draw(tuple(drawn.values()), _disjoint(drawn.values()), passed_over)


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


def _deal(
    ids: Sequence[str],
    n: int,
    rng: np.random.Generator,
    lengths: Mapping[str, int],
    room: int | None,
) -> list[tuple[str, ...]]:
    sets, hand = [], []
    for number in rng.permutation(len(ids)):
        hand.append(ids[number])
        if len(hand) < n:
            continue
        if room is not None and sum(lengths[segment] for segment in hand) > room:
            hand.remove(max(hand, key=lambda segment: lengths[segment]))
            continue
        sets.append(tuple(hand))
        hand = []
    return sets


def _too_long(ids: Sequence[str], n: int, lengths: Mapping[str, int], room: int) -> set[str]:
    """Segments that do not fit even with the n-1 shortest others."""
    shortest = sorted(ids, key=lambda segment: lengths[segment])[:n]
    return {
        segment
        for segment in ids
        if lengths[segment]
        + sum(lengths[other] for other in [s for s in shortest if s != segment][: n - 1])
        > room
    }
