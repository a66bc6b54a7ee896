"""The orders in which the segments of one set become documents (METHODS: permutations, latin, williams)."""

from itertools import permutations
from math import factorial

import numpy as np

from fairspan.errors import DesignError

DESIGNS = ("latin", "permutations", "williams")
MOST_PERMUTATIONS = 8


def orders(design: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """[orders, n], each row the segment (0…n-1) that stands at each position.

    - "latin": the n rotations of a random order. Every segment stands once at every position.
    - "williams": as latin, and every segment directly precedes every other equally often: n orders if n is even, 2n
      if it is odd.
    - "permutations": all n! orders.
    """
    if n < 2:
        raise DesignError(f"a document needs at least 2 segments, got n={n}.")
    names = rng.permutation(n)
    match design:
        case "latin":
            return np.asarray(names[(np.arange(n)[:, None] + np.arange(n)) % n])
        case "williams":
            return np.asarray(names[_williams(n)])
        case "permutations":
            if n > MOST_PERMUTATIONS:
                raise DesignError(
                    f"all {n}! = {factorial(n)} orders of a set are too many: use the latin design, which estimates "
                    f"the same quantity from {n} orders."
                )
            return np.array(list(permutations(range(n))))
    raise DesignError(f"there is no design {design!r}. Designs: {', '.join(DESIGNS)}.")


def order_count(design: str, n: int) -> int:
    """How many documents a set of n segments becomes."""
    return len(orders(design, n, np.random.default_rng(0)))


def _williams(n: int) -> np.ndarray:
    """Williams's square: the zigzag 0, n-1, 1, n-2, … and its rotations; for odd n their mirror images as well."""
    zigzag = np.array([(k // 2) if k % 2 == 0 else (n - 1 - k // 2) for k in range(n)])
    square = (zigzag + np.arange(n)[:, None]) % n
    return square if n % 2 == 0 else np.concatenate([square, square[:, ::-1]])
