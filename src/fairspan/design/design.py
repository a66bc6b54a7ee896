"""`Design`: which documents an audit builds, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fairspan.design.orders import DESIGNS, MOST_PERMUTATIONS, order_count
from fairspan.errors import DesignError

TOO_LONG = ("redraw", "error")


@dataclass(frozen=True, slots=True)
class Design:
    """Which documents are built from a corpus.

    Attributes:
        orders: "latin", "permutations" or "williams": the orders of each set.
        sizes: how many segments a document has; several sizes make several families of documents.
        sets: sets per size. Their segments are distinct while the corpus lasts; then it is shuffled anew.
        documents: documents by size, instead of `sets`: {4: 1008} means enough sets for at least 1008 documents.
        seed: of the draw and of the orders.
        min_tokens, max_tokens: limits of a segment's length, in the model's own tokens.
        length_language: the one language that the limits hold for; None holds every language to them.
        length_ratio: with `length_language`, how far the other languages' lengths may be from that one's, as a share
            of it (IRF: 0.7).
        opening: take only the first so many tokens of every segment; None takes it whole.
        too_long: "redraw" passes over segments whose documents would not fit into the model, and says so; "error"
            refuses.
    """

    orders: str = "latin"
    sizes: tuple[int, ...] = (4,)
    sets: int = 40
    documents: Mapping[int, int] = field(default_factory=dict)
    seed: int = 0
    min_tokens: int | None = None
    max_tokens: int | None = None
    length_language: str | None = None
    length_ratio: float | None = None
    opening: int | None = None
    too_long: str = "redraw"

    def __post_init__(self) -> None:
        if self.orders not in DESIGNS:
            raise DesignError(f"there is no design {self.orders!r}. Designs: {', '.join(DESIGNS)}.")
        if self.too_long not in TOO_LONG:
            raise DesignError(f"[[too_long]] must be one of {', '.join(TOO_LONG)}, got {self.too_long!r}.")
        sizes: Any = self.sizes
        if isinstance(sizes, str) or not isinstance(sizes, Iterable) or not sizes:
            raise DesignError(f"sizes must be a list of numbers of segments, such as [3, 4], got {sizes!r}.")
        object.__setattr__(self, "sizes", tuple(sizes))
        object.__setattr__(self, "documents", _by_size(self.documents))
        for n in self.sizes:
            _require_whole("sizes", n, 2)
            if self.orders == "permutations" and n > MOST_PERMUTATIONS:
                order_count(self.orders, n)
        if len(set(self.sizes)) < len(self.sizes):
            raise DesignError(f"sizes {list(self.sizes)} name one size twice.")
        _require_whole("sets", self.sets, 2)
        _require_whole("seed", self.seed, 0)
        for name in ("min_tokens", "max_tokens", "opening"):
            if getattr(self, name) is not None:
                _require_whole(f"[[{name}]]", getattr(self, name), 1)
        for n, count in self.documents.items():
            if n not in self.sizes:
                raise DesignError(f"documents names size {n}, which is not among the sizes {list(self.sizes)}.")
            _require_whole("documents", count, 1)
        if self.min_tokens and self.max_tokens and self.min_tokens > self.max_tokens:
            raise DesignError(f"[[min_tokens={self.min_tokens}]] is above [[max_tokens={self.max_tokens}]].")
        if self.length_ratio is not None and self.length_language is None:
            raise DesignError("[[length_ratio]] compares with one language: give [[length_language]] as well.")
        if self.length_ratio is not None and not (
            isinstance(self.length_ratio, int | float)
            and not isinstance(self.length_ratio, bool)
            and self.length_ratio > 0
        ):
            raise DesignError(f"[[length_ratio]] must be a number above 0, got {self.length_ratio!r}.")

    def sets_of(self, n: int) -> int:
        """How many sets of n segments are wanted."""
        if n in self.documents:
            return max(2, -(-self.documents[n] // order_count(self.orders, n)))
        return self.sets

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        values = asdict(self)
        return {**values, "sizes": list(self.sizes), "documents": {str(n): c for n, c in self.documents.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Design:
        """Read what `to_dict` wrote."""
        return cls(**values)


def _by_size(documents: Any) -> dict[int, int]:
    if not isinstance(documents, Mapping) or not all(str(n).isdecimal() for n in documents):
        raise DesignError(f"documents must be numbers by size, such as {{4: 1008}}, got {documents!r}.")
    return {int(n): count for n, count in documents.items()}


def _require_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise DesignError(f"{name} must be a whole number of at least {least}, got {value!r}.")
