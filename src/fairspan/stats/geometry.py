"""Cosines of vectors. Every measure uses the directions of vectors, u_i = v_i/‖v_i‖.

The mean cosine over all pairs is in O(N·d). Its interval is by `resampling.Jackknife`, from the
values without each document in turn: in a bootstrap sample, documents and their copies would be
pairs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Codes, Floats
from fairspan.stats.resampling import Jackknife, influences, share


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


def cosine_without(means: Floats) -> Floats:
    """The mean pairwise cosine without each document in turn, from the `cosines` [N] of all.

    NaN for two documents.
    """
    # A document's pairs are counted twice in the sum, once for each of their ends.
    return share(means.sum() - 2 * means, np.full(len(means), len(means) - 2.0))


def jackknife_means(
    values: Sequence[Floats], samples: Sequence[Codes], *, of_pairs: bool
) -> Jackknife:
    """The means of K values[N_k] of documents, with the influence of each document.

    Args:
        samples: which of the K are of the same documents, in the same order: their errors are
            correlated, and those of other samples are not.
        of_pairs: whether the values are `cosines`.
    """
    if of_pairs:
        without = [cosine_without(column) for column in values]
    else:
        without = [(column.sum() - column) / (len(column) - 1) for column in values]
    tables = []
    for places in samples:
        table = np.zeros((len(values[places[0]]), len(values)))
        table[:, places] = influences(np.stack([without[place] for place in places], axis=1))
        tables.append(table)
    return Jackknife(np.array([column.mean() for column in values]), tuple(tables))


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
