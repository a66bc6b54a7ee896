"""The wild cluster bootstrap: the test of a contrast and the interval that it gives."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairspan.stats.arrays import Floats
from fairspan.stats.distributions import t_ratio
from fairspan.stats.least_squares import Clustered, cr1

WEBB = np.sqrt(np.array([1.5, 1.0, 0.5, 0.5, 1.0, 1.5])) * np.array([-1, -1, -1, 1, 1, 1])
# From this many clusters on, two-point weights give enough different samples.
RADEMACHER_FROM = 12
# Random numbers held at once.
CHUNK = 4_000_000
# Two statistics that differ by less than this share are the same sample up to rounding.
TIE = 1e-9
# Standard errors from the estimate, beyond which an interval has no end.
MOST_STEPS = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class WildSamples:
    """The samples of a restricted wild cluster bootstrap of one contrast (WCR; Cameron, Gelbach and Miller 2008).

    The null is imposed on the samples, and every sample has its own CR1 standard error. The restricted scores are
    linear in the null: u_g + δ Q_g h with h = Lᵀc and δ = (estimate − null)/h'h. So the numerator of each sample is
    linear in δ and its variance quadratic, and the samples are drawn once for every null.
    """

    linear: Floats
    quadratic: Floats
    estimate: float
    error: float
    length: float
    enumerated: bool

    def tails(self, null: float) -> tuple[float, float, float]:
        """p values of the null: the shares of samples at or below, at or above, and at least as far from 0.

        The first two are one-sided, against the contrast being less, or more; the third is two-sided.
        """
        delta = (self.estimate - null) / self.length
        numerator = self.linear[:, 0] + delta * self.linear[:, 1]
        variance = self.quadratic[:, 0] + delta * self.quadratic[:, 1] + delta**2 * self.quadratic[:, 2]
        drawn = t_ratio(numerator, np.sqrt(np.maximum(variance, 0)))
        observed = float(t_ratio(self.estimate - null, self.error))
        slack = TIE * abs(observed) if np.isfinite(observed) else 0.0
        extra = 0 if self.enumerated else 1
        shares = [drawn <= observed + slack, drawn >= observed - slack, np.abs(drawn) >= abs(observed) - slack]
        below, above, both = ((int(share.sum()) + extra) / (len(drawn) + extra) for share in shares)
        return below, above, both

    def interval(self, level: float) -> tuple[float, float]:
        """The outermost nulls that the two-sided test does not reject, found by doubling and halving.

        Infinite where it rejects none on that side.
        """
        if self.error == 0:
            return self.estimate, self.estimate
        low, high = (self.estimate + side * self._reach(side, level) for side in (-self.error, self.error))
        return low, high

    def _reach(self, side: float, level: float) -> float:
        """How many steps of `side` from the estimate the test first rejects."""

        def rejects(step: float) -> bool:
            return self.tails(self.estimate + side * step)[2] <= 1 - level + 1e-12

        inside, outside = 0.0, 1.0
        while not rejects(outside):
            inside, outside = outside, 2 * outside
            if outside >= MOST_STEPS:
                return np.inf
        while outside - inside > 1e-7 * outside:
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejects(middle) else (middle, outside)
        return (inside + outside) / 2


def wild_samples(clustered: Clustered, contrast: Floats, rng: np.random.Generator, draws: int = 9999) -> WildSamples:
    """Draw the samples of contrast'β.

    Weights are Rademacher's from 12 clusters on and Webb's six-point weights below (Webb 2023). All 2^G Rademacher
    samples are enumerated when they are fewer than `draws`. Otherwise the observed sample counts as one more draw,
    which makes the test valid at any number of them.
    """
    h = clustered.root.T @ contrast
    pulls = clustered.leverages @ h
    linear, quadratic = [], []
    rademacher = clustered.clusters >= RADEMACHER_FROM
    enumerated = rademacher and can_enumerate(clustered.clusters, draws - 1)
    if rademacher:
        weights = draw_signs(clustered.clusters, rng, draws, enumerated=enumerated)
    else:
        weights = iter([WEBB[rng.integers(0, 6, (draws, clustered.clusters))]])
    for drawn in weights:
        sums = [drawn @ clustered.scores, drawn @ pulls]
        own, pulled = (
            drawn * (scores @ h) - total @ pulls.T
            for scores, total in zip((clustered.scores, pulls), sums, strict=True)
        )
        linear.append(np.stack([total @ h for total in sums], axis=1))
        squares = np.stack([(own**2).sum(1), 2 * (own * pulled).sum(1), (pulled**2).sum(1)], axis=1)
        quadratic.append(clustered.factor * squares)
    error = max(0.0, float(contrast @ cr1(clustered) @ contrast)) ** 0.5
    estimate = float(contrast @ clustered.coefficients)
    return WildSamples(np.concatenate(linear), np.concatenate(quadratic), estimate, error, float(h @ h), enumerated)


def can_enumerate(clusters: int, most: int) -> bool:
    """Whether all 2^clusters patterns of signs are at most so many."""
    return clusters < 60 and 2**clusters <= most


def draw_signs(clusters: int, rng: np.random.Generator, draws: int, *, enumerated: bool) -> Iterator[Floats]:
    """Signs [some, clusters], a chunk at a time: so many at random, or all 2^clusters patterns."""
    total = 2**clusters if enumerated else draws
    step = max(1, CHUNK // clusters)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if enumerated:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
        else:
            bits = rng.integers(0, 2, (rows, clusters))
        yield (1 - 2 * bits).astype(np.float64)
