"""`Design`: which documents an audit builds, and the orders of their segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial

from fairspan.errors import DesignError, require_list, require_whole

DESIGNS = ("latin", "permutations")
MOST_PERMUTATIONS = 8


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which documents are built from a corpus.

    Attributes:
        design: how each set is ordered: latin, n documents with every segment once at every
            position; or permutations, all n! orders.
        sizes: numbers of segments per document; several sizes make several families of documents.
        sets: number of sets of segments for each size, or by size, such as 3:167,4:42. Sets share
            no segment as long as the corpus has enough. In Python a mapping, {3: 167}.
        seed: seed of the draw and of the orders.
        min_tokens: omit shorter segments, in tokens of the model.
        max_tokens: omit longer segments, in tokens of the model.
        opening: number of tokens to use from the start of every segment. By default all.
    """

    design: str = "latin"
    sizes: Sequence[int] = (4,)
    sets: int | Mapping[int, int] = 40
    seed: int = 0
    min_tokens: int | None = None
    max_tokens: int | None = None
    opening: int | None = None

    def __post_init__(self) -> None:
        """Raise on values that cannot be used."""
        listed = ", ".join(DESIGNS)
        _require(self.design in DESIGNS, f"there is no design {self.design!r}. Designs: {listed}.")
        self._set_sizes()
        self._set_sets()
        require_whole("seed", self.seed, least=0)
        for name in ("min_tokens", "max_tokens", "opening"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        low = self.min_tokens or 1
        high = self.max_tokens or low
        _require(low <= high, f"min_tokens={low} is above max_tokens={high}.")

    def _set_sizes(self) -> None:
        """Keep the sizes as a tuple of different numbers."""
        require_list("sizes", self.sizes, "[3, 4]")
        sizes = tuple(self.sizes)
        for n in sizes:
            require_whole("sizes", n, least=2)
            _require_few_orders(self.design, n)
        wrong = f"sizes must be different numbers, such as 3 and 4, got {list(sizes)}."
        _require(0 < len(sizes) == len(set(sizes)), wrong)
        object.__setattr__(self, "sizes", sizes)

    def _set_sets(self) -> None:
        """Keep numbers of sets by whole sizes; JSON has the sizes as text."""
        if not isinstance(self.sets, Mapping):
            require_whole("sets", self.sets, least=2)
            return
        form = "sets must be a number, or numbers by size, such as {3: 167}"
        _require(all(str(n).isdecimal() for n in self.sets), f"{form}, got {self.sets!r}.")
        counts = {int(n): count for n, count in self.sets.items()}
        sizes = list(self.sizes)
        wrong = f"sets has numbers for sizes {list(counts)}, and the sizes are {sizes}."
        _require(set(counts) == set(sizes), wrong)
        for count in counts.values():
            require_whole("sets", count, least=2)
        object.__setattr__(self, "sets", counts)

    def sets_of(self, n: int) -> int:
        """How many sets of n segments are wanted."""
        return self.sets[n] if isinstance(self.sets, Mapping) else self.sets


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DesignError(message)


def _require_few_orders(design: str, n: int) -> None:
    if design == "permutations" and n > MOST_PERMUTATIONS:
        latin = f"use the latin design, which estimates the same quantity from {n} orders"
        raise DesignError(f"all {n}! = {factorial(n)} orders of a set are too many: {latin}.")
