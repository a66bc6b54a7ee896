"""Search across languages: measures of a grid of query and document languages, and PEER.

A measure of a grid takes means[..., 1 + L·L] as `query_sums` orders them: the overall mean, then
one mean for every pair, by the language of the query and then by that of the document.
"""

from math import isqrt

import numpy as np

from fairspan.stats.arrays import Codes, Floats
from fairspan.stats.distributions import f_above
from fairspan.stats.resampling import Statistic


def as_grid(means: Floats) -> Floats:
    """[..., L, L], by query and document."""
    side = isqrt(means.shape[-1] - 1)
    return means[..., 1:].reshape(*means.shape[:-1], side, side)


def of_documents(measure: Statistic) -> Statistic:
    """A measure of means [..., L] by the language of the document, over all queries."""
    return lambda means: measure(as_grid(means).mean(-2))


def within(means: Floats) -> Floats:
    """The mean where query and document have the same language."""
    return np.asarray(np.diagonal(as_grid(means), axis1=-2, axis2=-1).mean(-1))


def across(means: Floats) -> Floats:
    """The mean where query and document have different languages."""
    grid = as_grid(means)
    return np.asarray(grid[..., ~np.eye(grid.shape[-1], dtype=bool)].mean(-1))


def lag_to_own(language: int | None = None) -> Statistic:
    """Of mean log ranks: how much later a document comes if it is not in the query's language.

    The mean of m(q, d) − m(q, q) over q ≠ d, for documents in one language d, or in all.
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
    """Of mean log ranks: how much later documents come in one language than in the reference."""
    return of_documents(lambda means: np.asarray(means[..., language] - means[..., reference]))


def share_distance(means: Floats) -> Floats:
    """Of mean shares that sum to 1 by query: their total variation distance from equal shares.

    The mean over q of ½ Σ_d |share(q, d) − 1/L|, from 0 to 1 − 1/L.
    """
    grid = as_grid(means)
    return np.asarray((np.abs(grid - 1 / grid.shape[-1]).sum(-1) / 2).mean(-1))


def peer(ranks: Floats, languages: Codes) -> float:
    """PEER, the probability of equal expected rank, of documents at ranks[n] (arXiv 2405.00978).

    The p-value for one query of the Kruskal–Wallis test of the ranks by languages[n]; 1 if there is
    one language. Ranks are places in the list of all documents, as in the authors' program.
    """
    _, codes, sizes = np.unique(languages, return_inverse=True, return_counts=True)
    freedom = len(sizes) - 1
    if not freedom:
        return 1.0
    gaps = ranks - ranks.mean()
    between = (np.bincount(codes, gaps) ** 2 / sizes).sum()
    return f_above((len(ranks) - 1) * between / (gaps**2).sum() / freedom, freedom, np.inf)
