"""Measures of a grid of languages: means by the language of the query and that of the document.

Each takes means[..., 1 + L·L] as `query_sums` orders them: the overall mean, then one mean for every pair, by the
language of the query and then by that of the document.
"""

from math import isqrt

import numpy as np

from fairspan.stats.arrays import Floats
from fairspan.stats.bootstrap import Statistic


def as_grid(means: Floats) -> Floats:
    """[..., L, L], by query and document, without the overall mean."""
    side = isqrt(means.shape[-1] - 1)
    return means[..., 1:].reshape(*means.shape[:-1], side, side)


def of_query(language: int) -> Statistic:
    """The mean over documents in all languages for queries in one."""
    return lambda means: np.asarray(as_grid(means)[..., language, :].mean(-1))


def of_document(language: int) -> Statistic:
    """The mean over queries in all languages for documents in one."""
    return lambda means: np.asarray(as_grid(means)[..., :, language].mean(-1))


def within(means: Floats) -> Floats:
    """The mean where query and document have the same language."""
    return np.asarray(np.trace(as_grid(means), axis1=-2, axis2=-1) / isqrt(means.shape[-1] - 1))


def across(means: Floats) -> Floats:
    """The mean where query and document have different languages."""
    grid = as_grid(means)
    return np.asarray(grid[..., ~np.eye(grid.shape[-1], dtype=bool)].mean(-1))


def document_gap(means: Floats) -> Floats:
    """How much the best language of documents is above the weakest one, over queries in all languages."""
    columns = as_grid(means).mean(-2)
    return np.asarray(columns.max(-1) - columns.min(-1))


def weakest_document(means: Floats) -> Floats:
    """The smallest mean of a document language, over queries in all languages."""
    return np.asarray(as_grid(means).mean(-2).min(-1))


def lag_to_own(language: int | None = None) -> Statistic:
    """Of means of log ranks: how much later a document comes if it is not in the query's language.

    mean of m(q, d) − m(q, q) over the query languages q ≠ d, for documents in the language d or, with None, in all.
    """

    def statistic(means: Floats) -> Floats:
        grid = as_grid(means)
        side = grid.shape[-1]
        lags = grid - np.diagonal(grid, axis1=-2, axis2=-1)[..., :, None]
        chosen = ~np.eye(side, dtype=bool)
        if language is not None:
            chosen &= np.arange(side) == language
        return np.asarray(lags[..., chosen].mean(-1))

    return statistic


def lag_to(reference: int, language: int) -> Statistic:
    """Of means of log ranks: how much later a document comes in one language than in another; mean over queries."""
    first, second = of_document(reference), of_document(language)
    return lambda means: second(means) - first(means)


def share_distance(query: int | None = None) -> Statistic:
    """Of mean shares that sum to 1 by query: how far they are from equal ones, in total variation.

    ½ Σ_d |share(q, d) − 1/L|, for queries in one language or, with None, the mean over all. It is 0 where every
    language has the same share, and 1 − 1/L where one has all.
    """

    def statistic(means: Floats) -> Floats:
        grid = as_grid(means)
        distances = np.abs(grid - 1 / grid.shape[-1]).sum(-1) / 2
        return np.asarray(distances.mean(-1) if query is None else distances[..., query])

    return statistic
