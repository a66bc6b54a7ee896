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


@dataclass(frozen=True, slots=True)
class WildTest:
    """What a wild cluster bootstrap says of one contrast.

    Attributes:
        p_value: two-sided, symmetric: the share of samples with |t*| ≥ |t|.
        p_below, p_above: one-sided, against the contrast being less, or more, than the null.
        low, high: the nulls that the two-sided test does not reject; infinite where it rejects none on that side.
    """

    p_value: float
    p_below: float
    p_above: float
    low: float
    high: float


def wild_cluster(
    clustered: Clustered,
    contrast: Floats,
    *,
    rng: np.random.Generator,
    null: float = 0.0,
    draws: int = 9999,
    level: float = 0.95,
) -> WildTest:
    """Test contrast'β = null by the restricted wild cluster bootstrap (WCR; Cameron, Gelbach and Miller 2008).

    The null is imposed on the samples and every sample has its own CR1 standard error. Weights are Rademacher's from
    12 clusters on and Webb's six-point weights below (Webb 2023). All 2^G Rademacher samples are enumerated when they
    are fewer than `draws`. Otherwise the observed sample counts as one more draw, which makes the test valid at any
    number of them.
    """
    samples = _samples(clustered, contrast, rng, draws)
    below, above, both = samples.tails(null)
    return WildTest(both, below, above, *_invert(samples, level))


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """All samples of a wild bootstrap, for every null at once.

    The restricted scores are linear in the null: u_g + δ Q_g h with h = Lᵀc and δ = (estimate − null)/h'h. So the
    numerator of each sample is linear in δ and its variance quadratic.
    """

    linear: Floats
    quadratic: Floats
    estimate: float
    error: float
    length: float
    enumerated: bool

    def tails(self, null: float) -> tuple[float, float, float]:
        """The shares of samples at or below, at or above, and at least as far from 0 as the observed statistic."""
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


def _samples(clustered: Clustered, contrast: Floats, rng: np.random.Generator, draws: int) -> _Samples:
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
    return _Samples(np.concatenate(linear), np.concatenate(quadratic), estimate, error, float(h @ h), enumerated)


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


def _invert(samples: _Samples, level: float) -> tuple[float, float]:
    """The outermost nulls that the two-sided test does not reject, found by doubling and halving."""
    if samples.error == 0:
        return samples.estimate, samples.estimate
    ends = []
    for side in (-samples.error, samples.error):
        inside, outside = 0.0, 1.0

        def rejects(step: float, side: float = side) -> bool:
            return samples.tails(samples.estimate + side * step)[2] <= 1 - level + 1e-12

        while outside < 2**20 and not rejects(outside):
            inside, outside = outside, 2 * outside
        while outside < 2**20 and outside - inside > 1e-7 * outside:
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejects(middle) else (middle, outside)
        ends.append(
            samples.estimate + side * (inside + outside) / 2 if outside < 2**20 else np.copysign(np.inf, side)
        )
    return float(ends[0]), float(ends[1])
