"""PEER, the probability of equal expected rank: whether documents of all languages are ranked alike."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Codes, Floats
from fairspan.stats.distributions import f_above


def peer(ranking: ArrayLike, levels: ArrayLike, languages: ArrayLike, weights: Mapping[int, float]) -> float:
    """PEER of one query (Yang et al. 2024, arXiv 2405.00978): Σ_level weight · p(level).

    p is that of the Kruskal–Wallis test that the documents of one level of relevance have the same expected rank in
    all languages; 1 where they are all of one language.

    Args:
        ranking: [k], numbers of the documents that were found, best first, down to the cutoff.
        levels: [D], the relevance of every document to the query; 0 for none.
        languages: [D], a number for the language of every document.
        weights: of the levels; they sum to 1. Levels that are not named have none.
    """
    found, relevance, spoken = (np.asarray(given) for given in (ranking, levels, languages))
    if relevance.shape != spoken.shape or relevance.ndim != 1:
        raise StatisticsError(
            f"every document has a level and a language, got shapes {relevance.shape} and {spoken.shape}."
        )
    if not np.isclose(sum(weights.values()), 1.0):
        raise StatisticsError(f"the weights of the levels must sum to 1, got {sum(weights.values())}.")
    ranks = np.full(len(relevance), np.nan)
    ranks[found] = np.arange(1, len(found) + 1)
    total = 0.0
    for level, weight in weights.items():
        # What is not relevant and was not found has no rank that could be compared.
        inside = (relevance == level) & (np.isfinite(ranks) if level <= 0 else True)
        total += weight * equal_rank_p(ranks[inside], spoken[inside])
    return total


def equal_rank_p(ranks: Floats, languages: Codes) -> float:
    """The p value of the Kruskal–Wallis test of ranks[n] by languages[n].

    H = (n − 1) · Σ_g n_g (r̄_g − r̄)² / Σ_i (r_i − r̄)², against χ² with one degree of freedom fewer than languages.
    Ranks are places in the list of all documents. Those that were not found, NaN, share the rank (2n + u + 1)/2,
    where u is their number: so the authors' program has it, with whose figures ours can be compared.
    """
    lost = np.isnan(ranks)
    names, codes, sizes = np.unique(languages, return_inverse=True, return_counts=True)
    if len(names) < 2 or lost.all():
        return 1.0
    count = len(ranks)
    filled = np.where(lost, (2 * count + int(lost.sum()) + 1) / 2, ranks)
    gaps = filled - filled.mean()
    between = (np.bincount(codes, gaps) ** 2 / sizes).sum()
    freedom = len(names) - 1
    return f_above((count - 1) * between / (gaps**2).sum() / freedom, freedom, np.inf)
