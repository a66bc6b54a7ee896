"""Cosines of vectors, how widely vectors spread (METHODS §7), and LC's bounds on attention.

Every measure of spread uses the directions of vectors, u_i = v_i/‖v_i‖:

- "cosine": the mean over all pairs, in O(N·d).
- "distance": the mean Euclidean distance to the centroid μ = E u. The squared distance of document
  i is 1 − 2 u_i·m_i + c_i, with m_i the mean and c_i the mean pairwise cosine of the others: it is
  unbiased for ‖u_i − μ‖², so bins of different sizes are comparable.
- "share": the mean cosine with the direction that the vectors of a model have in common.
- "origin": the mean Euclidean distance to the centre of the texts of all lengths, which is the
  origin of the map in LC Fig. 1b.

Intervals are by `resampling.Jackknife`, from these values without each document in turn: in a
bootstrap sample, documents and their copies would be pairs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats
from fairspan.stats.resampling import share

MEASURES = ("cosine", "share", "distance", "origin")
# Numbers held at once.
CHUNK = 1_000_000


def representation(document: ArrayLike, alone: ArrayLike) -> Floats:
    """[n], σ(i, D) = cos(e(D), iso(segment i)), given [d] and [n, d] (METHODS §1)."""
    return np.asarray(_unit(alone) @ _unit(document))


def cosines_of_pairs(first: ArrayLike, second: ArrayLike) -> Floats:
    """[n], given two [n, d]; of ctx(segment i, D) and iso(segment i) retention τ (METHODS §1)."""
    return np.asarray((_unit(first) * _unit(second)).sum(axis=-1))


def _unit(vectors: ArrayLike) -> Floats:
    rows = np.asarray(vectors, np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def cosines(vectors: ArrayLike) -> Floats:
    """Each document's mean cosine with the others, [N]."""
    units = _unit(vectors)
    return np.asarray((units @ units.sum(0) - 1) / (len(units) - 1))


def cosine_without(means: Floats) -> Floats:
    """The mean pairwise cosine without each document in turn, from the `cosines` [N] of all.

    NaN for two documents.
    """
    # A document's pairs are counted twice in the sum, once for each of their ends.
    return share(means.sum() - 2 * means, np.full(len(means), len(means) - 2.0))


def distances(vectors: ArrayLike) -> Floats:
    """Each document's distance to the centroid, [N]."""
    units = _unit(vectors)
    return np.asarray(_distances(units, np.ones((1, len(units))))[0])


def distance_without(vectors: ArrayLike) -> Floats:
    """The mean distance without each document in turn, [N]; NaN for three documents."""
    units = _unit(vectors)
    count = len(units)
    step = max(1, CHUNK // count)
    parts = []
    for start in range(0, count, step):
        kept = 1 - np.eye(min(step, count - start), count, start)
        parts.append((kept * _distances(units, kept)).sum(1) / (count - 1))
    return np.concatenate(parts)


def _distances(units: Floats, kept: Floats) -> Floats:
    """Distances [R, N] of units[N, d] in R samples; documents that are not kept[R, N] have 0."""
    count = kept.sum(1, keepdims=True)
    sums = kept @ units
    to_others = sums @ units.T - kept
    among_others = (sums**2).sum(1, keepdims=True) - count - 2 * kept * to_others
    others = count - kept
    squares = 1 - 2 * share(to_others, others) + share(among_others, others**2 - others)
    return np.where(kept > 0, np.sqrt(np.maximum(squares, 0)), 0.0)


def origin_distances(clouds: Sequence[ArrayLike]) -> list[Floats]:
    """Each document's distance to the mean of the centroids of all clouds, [N] for each [N, d]."""
    units = [_unit(cloud) for cloud in clouds]
    origin = np.mean([rows.mean(0) for rows in units], axis=0)
    return [np.linalg.norm(rows - origin, axis=1) for rows in units]


def common_shares(vectors: ArrayLike, direction: ArrayLike) -> Floats:
    """Each document's cosine with a common direction, [N].

    Truncated vectors are compared with the direction truncated to as many numbers.
    """
    units = _unit(vectors)
    return np.asarray(units @ _unit(np.asarray(direction)[: units.shape[1]]))


def slope_weights(lengths: ArrayLike) -> Floats:
    """The weights [K] whose contrast is the least-squares slope on log2 of lengths[K]."""
    logs = np.log2(np.asarray(lengths, np.float64))
    gaps = logs - logs.mean()
    return np.asarray(gaps / (gaps**2).sum())


def theorem_2_bound(sigma_a: ArrayLike, value_norms: ArrayLike) -> Floats:
    """LC Theorem 2 for several heads (LC §E.2): log(σ_a · σ_1 · H).

    It bounds log(‖HC[X_{l+1}]‖/‖HC[X_l]‖) of the heads alone; a whole layer may exceed it.
    σ_1 = max_h ‖W_V^h‖₂, and σ_a is the mean over heads.

    Of sigma_a[..., H] and value_norms[..., K], ‖W_V^h‖₂.
    """
    heads = np.asarray(sigma_a, np.float64).sum(-1)
    return np.asarray(np.log(heads * np.asarray(value_norms, np.float64).max(-1)))


def theorem_3_bound(lengths: ArrayLike, sigma_s: ArrayLike) -> Floats:
    """LC Theorem 3, an upper bound on σ_a: √(L / (2 √(1 + e^{−2σ_s²}) (L − 1)^{3/2} + 1)).

    The inner root ends before (L − 1), as in LC's proof (equation 21). Trained attention may exceed
    it: the bound assumes scores that are Gaussian, independent, of mean 0 and of moderate variance.
    """
    length = np.asarray(lengths, np.float64)
    inner = np.sqrt(1 + np.exp(-2 * np.asarray(sigma_s, np.float64) ** 2))
    return np.asarray(np.sqrt(length / (2 * inner * (length - 1) ** 1.5 + 1)))
