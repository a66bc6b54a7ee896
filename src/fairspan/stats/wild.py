"""The wild cluster bootstrap: the test of a contrast and the interval that it gives."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, require_level, require_some
from fairspan.stats.bootstrap import CHUNK, TIE
from fairspan.stats.covariance import Clustered, cr1, leverages_of
from fairspan.stats.distributions import t_ratio

WEIGHTS = ("auto", "rademacher", "webb")
WEBB = np.sqrt(np.array([1.5, 1.0, 0.5, 0.5, 1.0, 1.5])) * np.array([-1, -1, -1, 1, 1, 1])
# From this many clusters on, two-point weights give enough different samples.
RADEMACHER_FROM = 12


@dataclass(frozen=True, slots=True, eq=False)
class WildTest:
    """What a wild cluster bootstrap says of one contrast.

    Attributes:
        statistic: (estimate − null) / CR1 standard error.
        p_value: two-sided, symmetric: the share of samples with |t*| ≥ |t|.
        p_below, p_above: one-sided, against the contrast being less, or more, than the null.
        low, high: the nulls that the two-sided test does not reject; infinite where it rejects none on that side.
        draws: samples drawn, or 2^G where all were enumerated.
        weights: "rademacher" or "webb".
    """

    statistic: float
    p_value: float
    p_below: float
    p_above: float
    low: float
    high: float
    draws: int
    weights: str


def wild_cluster(
    clustered: Clustered,
    contrast: ArrayLike,
    *,
    rng: np.random.Generator,
    null: float = 0.0,
    draws: int = 9999,
    weights: str = "auto",
    level: float = 0.95,
) -> WildTest:
    """Test contrast'β = null by the restricted wild cluster bootstrap (WCR; Cameron, Gelbach and Miller 2008).

    The null is imposed on the samples and every sample has its own CR1 standard error. "auto" takes Rademacher
    weights from 12 clusters on and Webb's six-point weights below (Webb 2023). All 2^G Rademacher samples are
    enumerated when they are fewer than `draws`. Otherwise the observed sample counts as one more draw, which makes
    the test valid at any number of them.
    """
    samples = _samples(clustered, np.asarray(contrast, np.float64), rng, draws, weights)
    low, high = _invert(samples, level)
    below, above, both = samples.tails(null)
    return WildTest(samples.statistic(null), both, below, above, low, high, len(samples.quadratic), samples.weights)


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
    weights: str

    def statistic(self, null: float) -> float:
        return float(t_ratio(self.estimate - null, self.error))

    def tails(self, null: float) -> tuple[float, float, float]:
        """The shares of samples at or below, at or above, and at least as far from 0 as the observed statistic."""
        delta = (self.estimate - null) / self.length
        numerator = self.linear[:, 0] + delta * self.linear[:, 1]
        variance = self.quadratic[:, 0] + delta * self.quadratic[:, 1] + delta**2 * self.quadratic[:, 2]
        drawn = t_ratio(numerator, np.sqrt(np.maximum(variance, 0)))
        observed = self.statistic(null)
        slack = TIE * abs(observed) if np.isfinite(observed) else 0.0
        extra = 0 if self.enumerated else 1
        shares = [drawn <= observed + slack, drawn >= observed - slack, np.abs(drawn) >= abs(observed) - slack]
        below, above, both = ((int(share.sum()) + extra) / (len(drawn) + extra) for share in shares)
        return below, above, both


def _samples(clustered: Clustered, contrast: Floats, rng: np.random.Generator, draws: int, weights: str) -> _Samples:
    if weights not in WEIGHTS:
        raise StatisticsError(f"weights must be one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}.")
    require_some(draws=draws)
    h = clustered.root.T @ contrast
    pulls = leverages_of(clustered) @ h
    kind = weights if weights != "auto" else "rademacher" if clustered.clusters >= RADEMACHER_FROM else "webb"
    enumerated = kind == "rademacher" and clustered.clusters < 60 and 2**clustered.clusters < draws
    linear, quadratic = [], []
    for drawn in draw_weights(clustered.clusters, rng, draws, kind, enumerated):
        sums = [drawn @ clustered.scores, drawn @ pulls]
        parts = [
            drawn * (scores @ h) - total @ pulls.T
            for scores, total in zip((clustered.scores, pulls), sums, strict=True)
        ]
        linear.append(np.stack([total @ h for total in sums], axis=1))
        quadratic.append(
            clustered.factor
            * np.stack([(parts[0] ** 2).sum(1), 2 * (parts[0] * parts[1]).sum(1), (parts[1] ** 2).sum(1)], axis=1)
        )
    error = max(0.0, float(contrast @ cr1(clustered) @ contrast)) ** 0.5
    estimate = float(contrast @ clustered.coefficients)
    return _Samples(
        np.concatenate(linear), np.concatenate(quadratic), estimate, error, float(h @ h), enumerated, kind
    )


def draw_weights(
    clusters: int, rng: np.random.Generator, draws: int, kind: str, enumerated: bool
) -> Iterator[Floats]:
    """Weights [some, G], a chunk at a time."""
    total = 2**clusters if enumerated else draws
    step = max(1, CHUNK // clusters)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if enumerated:
            bits = np.arange(start, start + rows)[:, None] >> np.arange(clusters) & 1
            yield (1 - 2 * bits).astype(np.float64)
        elif kind == "rademacher":
            yield (1 - 2 * rng.integers(0, 2, (rows, clusters))).astype(np.float64)
        else:
            yield WEBB[rng.integers(0, 6, (rows, clusters))]


def _invert(samples: _Samples, level: float) -> tuple[float, float]:
    """The outermost nulls that the two-sided test does not reject, found by doubling and halving."""
    require_level(level)
    rejects = 1 - level + 1e-12
    if samples.error == 0:
        return samples.estimate, samples.estimate
    ends = []
    for side in (-1.0, 1.0):
        inside, step = 0.0, 1.0
        while step < 2**20 and samples.tails(samples.estimate + side * step * samples.error)[2] > rejects:
            inside, step = step, 2 * step
        outside = step
        if outside >= 2**20:
            ends.append(side * np.inf)
            continue
        while outside - inside > 1e-7 * outside:
            middle = (inside + outside) / 2
            rejected = samples.tails(samples.estimate + side * middle * samples.error)[2] <= rejects
            inside, outside = (inside, middle) if rejected else (middle, outside)
        ends.append(samples.estimate + side * (inside + outside) / 2 * samples.error)
    return float(ends[0]), float(ends[1])
