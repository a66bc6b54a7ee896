"""Sets of distinct segments, disjoint while the corpus lasts, and their orders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb

import numpy as np

# Up to this many possible sets, the rest is listed once a deal brings nothing new.
_FEW = 20_000
# With more, this many deals without a new set end the draw.
_PATIENCE = 100


@dataclass(frozen=True, slots=True)
class Draw:
    """The sets that were drawn, the first of which are disjoint.

    `passed_over` are ids that are in no set because they are too long for the others of it.
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

    The corpus is shuffled and dealt out, and shuffled again once it is used up, so no segment is in
    many more sets than another.
    """
    drawn: dict[frozenset[str], tuple[str, ...]] = {}
    lengths = lengths or {}
    long = _too_long(ids, n, lengths, room)
    barren = 0
    while len(drawn) < count and barren < _PATIENCE:
        before = len(drawn)
        for members in _deal(ids, n, rng, lengths, room, long):
            drawn.setdefault(frozenset(members), members)
            if len(drawn) == count:
                break
        barren = 0 if len(drawn) > before else barren + 1
        if barren and comb(len(ids), n) <= _FEW:
            fitting = [members for members in combinations(ids, n) if _fits(members, lengths, room)]
            rest = [members for members in fitting if frozenset(members) not in drawn]
            fresh = [rest[number] for number in rng.permutation(len(rest))]
            drawn.update({frozenset(members): members for members in fresh[: count - len(drawn)]})
            break
    used = {segment for members in drawn.values() for segment in members}
    return Draw(tuple(drawn.values()), _disjoint(drawn.values()), frozenset(long - used))


def _fits(members: Iterable[str], lengths: Mapping[str, int], room: int | None) -> bool:
    return room is None or sum(lengths[segment] for segment in members) <= room


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
    long: set[str],
) -> Iterator[tuple[str, ...]]:
    """Sets of neighbours in a random order of the ids; those without room are added to `long`."""
    hand: list[str] = []
    for number in rng.permutation(len(ids)):
        hand.append(ids[number])
        if len(hand) < n:
            continue
        if _fits(hand, lengths, room):
            yield tuple(hand)
            hand = []
        else:
            longest = max(hand, key=lambda segment: lengths[segment])
            hand.remove(longest)
            long.add(longest)


def _too_long(ids: Sequence[str], n: int, lengths: Mapping[str, int], room: int | None) -> set[str]:
    """Segments that do not fit even with the n-1 shortest others."""
    if room is None:
        return set()
    shortest = sorted(ids, key=lambda segment: lengths[segment])[:n]
    long = set()
    for segment in ids:
        others = [other for other in shortest if other != segment][: n - 1]
        if not _fits([segment, *others], lengths, room):
            long.add(segment)
    return long


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
