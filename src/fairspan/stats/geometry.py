"""How widely vectors spread: mean pairwise cosine, distance to the centroid, effective rank (METHODS §7).

Every measure is of the vectors' directions, u_i = v_i/‖v_i‖:

- "cosine": the mean over all pairs, in O(N·d). Document i's own value is its mean cosine with the others.
- "distance": the mean Euclidean distance to the centroid μ = E u. Document i's squared distance is
  1 − 2 u_i·m_i + c_i, with m_i the mean and c_i the mean pairwise cosine of the others: unbiased for ‖u_i − μ‖², so
  that bins of different size compare. In the plain mean of ‖u_i − ū‖ every document has a share of the centroid.
- "rank": Roy and Vetterli's (2007) effective rank of the centred vectors, exp of the entropy of their singular values
  as shares of their sum. It counts the directions in which texts differ, is less than N, and grows with N: compare
  equal N only.

`stats.jackknife` makes intervals of the same values without each document. Bootstrap samples would hold documents
twice: their copies are no pairs, and fewer different documents have a lower rank, whatever the vectors.
"""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, as_values
from fairspan.stats.bootstrap import share

MEASURES = ("cosine", "distance", "rank")
# Effective ranks that one interval is made of: each needs the eigenvalues of a matrix.
RANKS = 100
# Numbers held at once.
CHUNK = 1_000_000


def cosines(vectors: ArrayLike) -> Floats:
    """Each document's mean cosine with the others, [N]."""
    units = _units(vectors, 2)
    return np.asarray((units @ units.sum(0) - 1) / (len(units) - 1))


def cosine_without(own: Floats) -> Floats:
    """The mean pairwise cosine without each document in turn, from the cosines[N] of all.

    The pairs of document i are counted twice in Σ_j (N − 1) a_j, once for each of their ends.
    """
    count = len(own)
    if count < 3:
        return np.full(count, np.nan)
    return np.asarray((own.sum() - 2 * own) / (count - 2))


def distances(vectors: ArrayLike) -> Floats:
    """Each document's distance to the centroid, [N]."""
    units = _units(vectors, 3)
    return np.asarray(_distances(units, np.ones((1, len(units))))[0])


def distance_without(vectors: ArrayLike) -> Floats:
    """The mean distance without each document in turn, [N]; NaN for three documents, which leave two."""
    units = _units(vectors, 3)
    count = len(units)
    step = max(1, CHUNK // count)
    parts = []
    for start in range(0, count, step):
        kept = 1 - np.eye(min(step, count - start), count, start)
        parts.append((kept * _distances(units, kept)).sum(1) / (count - 1))
    return np.concatenate(parts)


def _distances(units: Floats, kept: Floats) -> Floats:
    """Distances [R, N] of units[N, d] in samples that hold the documents kept[R, N], 1 or 0; 0 for the others."""
    count = kept.sum(1, keepdims=True)
    sums = kept @ units
    to_others = sums @ units.T - kept
    among_others = (sums**2).sum(1, keepdims=True) - count - 2 * kept * to_others
    others = count - kept
    squares = 1 - 2 * share(to_others, others) + share(among_others, others**2 - others)
    return np.where(kept > 0, np.sqrt(np.maximum(squares, 0)), 0.0)


def effective_rank(vectors: ArrayLike) -> float:
    """At least 1; 0 where nothing is left after centring."""
    return _rank(_units(vectors, 3))


def ranks_without(vectors: ArrayLike) -> Floats:
    """The effective rank without each document in turn, or each of at most 100 groups of `left_out` documents.

    Groups are of one size: ranks without unequal numbers of documents would differ for that reason alone. A few
    documents may be in no group.
    """
    units = _units(vectors, 3)
    size = left_out(len(units))
    groups = np.arange(len(units) // size * size).reshape(size, -1).T
    return np.array([_rank(np.delete(units, few, axis=0)) for few in groups])


def left_out(count: int) -> int:
    """How many of `count` documents `ranks_without` leaves out at a time."""
    return -(-count // RANKS)


def _rank(units: Floats) -> float:
    rows = units - units.mean(0)
    products = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    # Unit vectors have squares that sum to N: eigenvalues below N times the rounding error are zeros.
    squares = np.linalg.eigvalsh(products)
    values = np.sqrt(squares[squares > len(rows) * 8 * np.finfo(np.float64).eps])
    if not len(values):
        return 0.0
    shares = values / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def slope_weights(lengths: ArrayLike) -> Floats:
    """The weights [K] whose contrast is the least-squares slope on log2 of lengths[K]."""
    column = as_values(lengths, "lengths")
    if (column <= 0).any():
        raise StatisticsError(f"lengths must be positive to have a logarithm, got {column.min():g}.")
    logs = np.log2(column)
    gaps = logs - logs.mean()
    if np.ptp(logs) == 0:
        raise StatisticsError(f"a slope needs at least 2 different lengths, got only {column[0]:g}.")
    return np.asarray(gaps / (gaps**2).sum())


def _units(vectors: ArrayLike, least: int) -> Floats:
    rows = np.asarray(vectors, np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise StatisticsError(f"vectors must be [documents, dimensions], got shape {rows.shape}.")
    if len(rows) < least:
        raise StatisticsError(f"this spread needs the vectors of at least {least} documents, got {len(rows)}.")
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        raise StatisticsError(
            f"{len(wrong)} of {len(rows)} vectors are not finite, the first in row {wrong[0]}: omit those documents "
            "or embed them again."
        )
    # Scaled first, so that squares neither overflow nor vanish.
    largest = np.abs(rows).max(1, keepdims=True)
    zero = np.flatnonzero(largest == 0)
    if len(zero):
        raise StatisticsError(
            f"{len(zero)} of {len(rows)} vectors are zero and have no direction, the first in row {zero[0]}: omit "
            "those documents or embed them again."
        )
    scaled = rows / largest
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
