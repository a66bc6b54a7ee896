"""Cosines of vectors. Every measure uses the directions of vectors, u_i = v_i/‖v_i‖.

The mean cosine over all pairs is in O(N·d). Its interval is from the values without each document
in turn: in a bootstrap sample, documents and their copies would be pairs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats, share
from fairspan.stats.jackknife import Fit, LeftOut


def representation(document: ArrayLike, alone: ArrayLike) -> Floats:
    """[n], σ(i, D) = cos(e(D), iso(segment i)), given [d] and [n, d]."""
    return np.asarray(_unit(alone) @ _unit(document))


def cosines_of_pairs(first: ArrayLike, second: ArrayLike) -> Floats:
    """[n], given two [n, d]; of ctx(segment i, D) and iso(segment i) retention τ."""
    return np.asarray((_unit(first) * _unit(second)).sum(axis=-1))


def _unit(vectors: ArrayLike) -> Floats:
    rows = np.asarray(vectors, np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def cosines(vectors: ArrayLike) -> Floats:
    """Each document's mean cosine with the others, [N]."""
    units = _unit(vectors)
    return np.asarray((units @ units.sum(0) - 1) / (len(units) - 1))


def mean_without(values: Floats, *, of_pairs: bool) -> Floats:
    """The mean of values[N] without each document in turn; of `cosines`, NaN for two documents."""
    if of_pairs:
        # A document's pairs are counted twice in the sum, once for each of their ends.
        return share(values.sum() - 2 * values, np.full(len(values), len(values) - 2.0))
    return np.asarray((values.sum() - values) / (len(values) - 1))


def document_means(
    values: Sequence[Floats], samples: Sequence[Sequence[int]], *, of_pairs: bool
) -> Fit:
    """The means of K values[N_k] of documents, and what they are without each document.

    Args:
        samples: which of the K are of the same documents, in the same order. Other samples have
            other documents.
        of_pairs: whether the values are `cosines`.
    """
    whole = np.array([column.mean() for column in values])
    parts = []
    for places in samples:
        shape = (len(values[places[0]]), len(values))
        without = np.tile(whole, (shape[0], 1))
        present = np.zeros(shape, np.bool_)
        for place in places:
            without[:, place] = mean_without(values[place], of_pairs=of_pairs)
            present[:, place] = True
        parts.append((without, present))
    left_out = LeftOut(*(np.vstack(tables) for tables in zip(*parts, strict=True)))
    return Fit("jackknife", whole, (left_out,))


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
