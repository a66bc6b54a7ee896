"""`Split`: documents in a part to fit on and a part to test on."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from fairspan.errors import StatisticsError


@dataclass(frozen=True, slots=True)
class Split:
    """Ids in two parts, each in the order they were given, without repetitions."""

    fit: tuple[str, ...]
    test: tuple[str, ...]

    def in_fit(self, documents: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows belong to the fit part, given the document of each."""
        parts = dict.fromkeys(self.fit, True) | dict.fromkeys(self.test, False)
        listed = list(documents)
        unknown = [name for name in listed if name not in parts]
        if unknown:
            raise StatisticsError(f"the document {unknown[0]!r} is in neither part: split all documents first.")
        return np.array([parts[name] for name in listed], dtype=np.bool_)


def split(ids: Iterable[str], seed: int = 0, share: float = 0.5, *, purpose: str = "schedule") -> Split:
    """A part to fit on, of about `share`, and a part to test on.

    An id's part depends on the id, `seed` and `share` alone: it stays when other ids come or go, and a smaller share
    only takes ids out of the fit part. Splits for different purposes are independent of each other. Give the id of
    the document, so that all of its texts fall together.
    """
    if not 0 < share < 1:
        raise StatisticsError(f"share must lie between 0 and 1, got {share}.")
    names = list(dict.fromkeys(ids))
    drawn = [_draw(name, seed, purpose) < share for name in names]
    fit, test = ([name for name, taken in zip(names, drawn, strict=True) if taken is part] for part in (True, False))
    if not fit or not test:
        raise StatisticsError(
            f"{len(names)} documents fall into one part at share={share} and seed={seed}: give more of them."
        )
    return Split(tuple(fit), tuple(test))


def _draw(name: str, seed: int, purpose: str) -> float:
    """A number in [0, 1) that looks random."""
    digest = blake2b(f"{purpose}\0{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
