"""`Design`: which documents an audit builds, and the orders of their segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import factorial

from fairspan.errors import DesignError, require_list, require_whole

DESIGNS = ("latin", "permutations", "williams")
MOST_PERMUTATIONS = 8
TOO_LONG = ("cut", "redraw", "error")


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which documents are built from a corpus.

    Attributes:
        design: how each set is ordered: latin, permutations or williams.
        sizes: numbers of segments per document; several sizes make several families of documents.
        sets: number of sets of segments for each size. They share no segment while the corpus
            lasts; then it is reshuffled.
        documents: number of documents by size, instead of `sets`: 4:1008 makes at least 1008
            documents of size 4. In Python a mapping, {4: 1008}.
        seed: seed of the draw and of the orders.
        min_tokens: omit shorter segments, in tokens of the model.
        max_tokens: omit longer segments, in tokens of the model.
        length_language: apply these limits to this language only.
        length_ratio: with `length_language`, the allowed difference of other languages' lengths, as
            a share of its length, such as 0.7 (IRF).
        opening: number of tokens to use from the start of every segment. By default all.
        too_long: what to do if documents would not fit into the model: cut, which uses the
            beginnings of the longest segments; redraw, which skips these; or error.
    """

    design: str = "latin"
    sizes: Sequence[int] = (4,)
    sets: int = 40
    documents: Mapping[int, int] = field(default_factory=dict)
    seed: int = 0
    min_tokens: int | None = None
    max_tokens: int | None = None
    length_language: str | None = None
    length_ratio: float | None = None
    opening: int | None = None
    too_long: str = "cut"

    def __post_init__(self) -> None:
        """Raise on values that cannot be used."""
        listed = ", ".join(DESIGNS)
        _require(self.design in DESIGNS, f"there is no design {self.design!r}. Designs: {listed}.")
        wrong = f"too_long must be one of {', '.join(TOO_LONG)}, got {self.too_long!r}."
        _require(self.too_long in TOO_LONG, wrong)
        self._set_sizes()
        self._set_documents()
        require_whole("sets", self.sets, least=2)
        require_whole("seed", self.seed, least=0)
        for name in ("min_tokens", "max_tokens", "opening"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        low = self.min_tokens or 1
        high = self.max_tokens or low
        _require(low <= high, f"min_tokens={low} is above max_tokens={high}.")
        ratio = self.length_ratio
        if ratio is not None:
            missing = "length_ratio compares with one language: give length_language as well."
            _require(self.length_language is not None, missing)
            number = isinstance(ratio, int | float) and ratio > 0
            _require(number, f"length_ratio must be a number above 0, got {ratio!r}.")

    def _set_sizes(self) -> None:
        """Keep the sizes as a tuple of different numbers."""
        require_list("sizes", self.sizes, "[3, 4]")
        sizes = tuple(self.sizes)
        for n in sizes:
            require_whole("sizes", n, least=2)
            order_count(self.design, n)
        wrong = f"sizes must be different numbers, such as 3 and 4, got {list(sizes)}."
        _require(0 < len(sizes) == len(set(sizes)), wrong)
        object.__setattr__(self, "sizes", sizes)

    def _set_documents(self) -> None:
        """Keep the numbers of documents by whole sizes; JSON has the sizes as text."""
        counts = self.documents
        by_size = isinstance(counts, Mapping) and all(str(n).isdecimal() for n in counts)
        form = "documents must be numbers by size, such as {4: 1008}"
        _require(by_size, f"{form}, got {counts!r}.")
        object.__setattr__(self, "documents", {int(n): count for n, count in counts.items()})
        for n, count in self.documents.items():
            other = f"which is not among the sizes {list(self.sizes)}"
            _require(n in self.sizes, f"documents names size {n}, {other}.")
            require_whole("documents", count)

    def sets_of(self, n: int) -> int:
        """How many sets of n segments are wanted."""
        if n in self.documents:
            return max(2, -(-self.documents[n] // order_count(self.design, n)))
        return self.sets


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise DesignError(message)


def order_count(design: str, n: int) -> int:
    """How many documents a set of n segments becomes."""
    if design != "permutations":
        return n if design == "latin" or n % 2 == 0 else 2 * n
    if n > MOST_PERMUTATIONS:
        latin = f"use the latin design, which estimates the same quantity from {n} orders"
        raise DesignError(f"all {n}! = {factorial(n)} orders of a set are too many: {latin}.")
    return factorial(n)
