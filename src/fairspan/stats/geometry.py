"""How widely vectors spread: mean pairwise cosine, distance to the centroid, effective rank (METHODS §7).

Every measure is of the vectors' directions, u_i = v_i/‖v_i‖:

- "cosine": the mean over all pairs, in O(N·d).
- "distance": the mean Euclidean distance to the centroid μ = E u. Document i's squared distance is
  1 − 2 u_i·m_i + c_i, with m_i the mean and c_i the mean pairwise cosine of the others: unbiased for ‖u_i − μ‖², so
  that bins of different size compare. In the plain mean of ‖u_i − ū‖ every document has a share of the centroid.
- "rank": Roy and Vetterli's (2007) effective rank of the centred vectors, exp of the entropy of their singular values
  as shares of their sum. It counts the directions in which texts differ, and grows with N: compare equal N only.

A sample drawn with replacement holds some documents several times, and a document's cosine with its own copy is 1.
With w_i copies of document i, only pairs of different documents count,

    c = Σ_{i≠j} w_i w_j u_i·u_j / Σ_{i≠j} w_i w_j = (‖Σ w_i u_i‖² − Σ w_i²) / ((Σ w_i)² − Σ w_i²).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag  # type: ignore[import-untyped, unused-ignore]

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, as_values, require_level
from fairspan.stats.bootstrap import Interval, bca_interval, multiples, share
from fairspan.stats.distributions import t_quantile

MEASURES = ("cosine", "distance", "rank")
# Effective ranks that one interval is made of: each needs the eigenvalues of a matrix.
RANKS = 100
# Weights held at once.
CHUNK = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """One measure of K clouds of vectors: as observed, in every bootstrap sample and without some documents.

    Clouds of the same documents share every sample, so that any contrast between them is paired.

    Attributes:
        estimates: [K].
        drawn: [draws, K] bootstrap samples, NaN where undefined; none for the effective rank.
        gaps: [R, K], mean of the values without each document (or few) in turn, less that value.
        scale: jackknife variance over the sum of squared gaps; only for the effective rank.
        freedom: degrees of freedom of that variance.
    """

    estimates: Floats
    drawn: Floats
    gaps: Floats
    scale: float = np.nan
    freedom: int = 0

    def contrast(self, weights: ArrayLike, *, level: float = 0.95) -> Interval:
        """Σ_k weights_k · estimate_k with its interval: BCa, or for the effective rank t and the jackknife."""
        require_level(level)
        chosen = as_values(weights, "weights")
        if len(chosen) != len(self.estimates):
            raise StatisticsError(f"there are {len(self.estimates)} clouds of vectors and {len(chosen)} weights.")
        estimate = float(self.estimates @ chosen)
        if not len(self.drawn):
            error = float(self.scale * ((self.gaps @ chosen) ** 2).sum()) ** 0.5
            reach = error * float(t_quantile((1 + level) / 2, self.freedom))
            return Interval(estimate, estimate - reach, estimate + reach)
        return bca_interval(estimate, self.drawn @ chosen, -self.gaps @ chosen, level)

    def intervals(self, *, level: float = 0.95) -> tuple[Interval, ...]:
        """Each cloud's own."""
        return tuple(self.contrast(row, level=level) for row in np.eye(len(self.estimates)))

    def difference(self, second: int, first: int = 0, *, level: float = 0.95) -> Interval:
        """Cloud `second` minus cloud `first`, by their numbers from 0."""
        identity = np.eye(len(self.estimates))
        if not {first, second} <= set(range(len(identity))):
            raise StatisticsError(f"clouds are numbered 0 to {len(identity) - 1}, got {second} and {first}.")
        return self.contrast(identity[second] - identity[first], level=level)


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


def replicate(
    clouds: Sequence[ArrayLike],
    measure: str = "cosine",
    *,
    rng: np.random.Generator,
    draws: int = 1999,
    paired: bool = True,
) -> Replicates:
    """Measure every cloud of vectors [N, d], and again in samples of its documents.

    The effective rank has no bootstrap samples: a sample has fewer different documents, and so a lower rank whatever
    the vectors. It is measured without each document in turn, or each of 100 random groups if documents are more.

    Args:
        paired: row i is the same document in every cloud, as in texts cut to several lengths or under several
            treatments; otherwise each cloud is resampled on its own.
    """
    if measure not in MEASURES:
        raise StatisticsError(f"measure must be one of {', '.join(map(repr, MEASURES))}, got {measure!r}.")
    units = [_units(vectors, 2 if measure == "cosine" else 3) for vectors in clouds]
    sizes = sorted({len(rows) for rows in units})
    if not units:
        raise StatisticsError("there are no vectors to measure.")
    if len(sizes) > 1 and (paired or measure == "rank"):
        why = "paired clouds hold the same documents" if paired else "effective rank grows with the documents"
        raise StatisticsError(f"{why}: give as many vectors in each, got {sizes[0]} to {sizes[-1]}.")
    if measure == "rank":
        return _replicate_ranks(units, rng, paired)
    statistic = _STATISTICS[measure]
    estimates = np.array([statistic(rows, np.ones((1, len(rows))))[0] for rows in units])
    left_out = [_over(rows, statistic, _without_each(len(rows))) for rows in units]
    return Replicates(estimates, _resample(units, statistic, rng, draws, paired), _gaps(left_out, paired))


Weighted = Callable[[Floats, Floats], Floats]
"""A measure of units[N, d] in samples that hold document i weights[R, N] times, [R]; NaN where undefined."""


def _cosine(units: Floats, weights: Floats) -> Floats:
    own = (weights**2).sum(1)
    return share(((weights @ units) ** 2).sum(1) - own, weights.sum(1) ** 2 - own)


def _distance(units: Floats, weights: Floats) -> Floats:
    own, total = (weights**2).sum(1, keepdims=True), weights.sum(1, keepdims=True)
    sums = weights @ units
    to_others = sums @ units.T - weights
    others = total - weights
    pairs = others**2 - (own - weights**2)
    among_others = (sums**2).sum(1, keepdims=True) - own - 2 * weights * to_others
    squares = 1 - 2 * share(to_others, others) + share(among_others, pairs)
    # A document that is not in the sample has no distance to add, not even an undefined one.
    distances = np.where(weights > 0, np.sqrt(np.maximum(squares, 0)), 0.0)
    return np.asarray((weights * distances).sum(1) / total[:, 0])


_STATISTICS: dict[str, Weighted] = {"cosine": _cosine, "distance": _distance}


def _rank(units: Floats) -> float:
    """0 where nothing is left after centring."""
    rows = units - units.mean(0)
    products = rows @ rows.T if rows.shape[0] <= rows.shape[1] else rows.T @ rows
    # Unit vectors have squares that sum to N: eigenvalues below N times the rounding error are zeros.
    squares = np.linalg.eigvalsh(products)
    values = np.sqrt(squares[squares > len(rows) * 8 * np.finfo(np.float64).eps])
    if not len(values):
        return 0.0
    shares = values / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _replicate_ranks(units: list[Floats], rng: np.random.Generator, paired: bool) -> Replicates:
    count = len(units[0])
    # Groups of one size: ranks without unequal numbers of documents would differ for that reason alone.
    size = -(-count // RANKS)
    groups = count // size
    chosen = None
    left_out = []
    for rows in units:
        if chosen is None or not paired:
            chosen = rng.permutation(count)[: groups * size].reshape(groups, size)
        left_out.append(np.array([_rank(np.delete(rows, few, axis=0)) for few in chosen]))
    estimates = np.array([_rank(rows) for rows in units])
    # The delete-d jackknife of Shao and Wu (1989).
    scale = (count - size) / (size * groups)
    return Replicates(estimates, np.empty((0, len(units))), _gaps(left_out, paired), scale, groups - 1)


def _resample(units: list[Floats], statistic: Weighted, rng: np.random.Generator, draws: int, paired: bool) -> Floats:
    if not paired:
        return np.stack([_over(rows, statistic, multiples(len(rows), rng, draws, CHUNK)) for rows in units], axis=1)
    parts = [
        np.stack([statistic(rows, weights) for rows in units], axis=1)
        for weights in multiples(len(units[0]), rng, draws, CHUNK)
    ]
    return np.concatenate(parts)


def _over(units: Floats, statistic: Weighted, chunks: Iterator[Floats]) -> Floats:
    return np.concatenate([statistic(units, weights) for weights in chunks])


def _without_each(count: int) -> Iterator[Floats]:
    step = max(1, CHUNK // count)
    for start in range(0, count, step):
        yield 1 - np.eye(min(step, count - start), count, start)


def _gaps(left_out: list[Floats], paired: bool) -> Floats:
    """[R, K]: clouds side by side where the same documents were left out of them, otherwise one after another."""
    gaps = [values.mean() - values if np.isfinite(values).all() else np.zeros(len(values)) for values in left_out]
    if paired:
        return np.stack(gaps, axis=1)
    return np.asarray(block_diag(*(values[:, None] for values in gaps)))


def _units(vectors: ArrayLike, least: int = 2) -> Floats:
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
