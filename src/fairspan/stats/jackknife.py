"""`Jackknife`: estimates with what they are without each document, and the contrasts between them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import Floats, as_values, require_level
from fairspan.stats.contrasts import Contrast
from fairspan.stats.distributions import t_quantile, t_ratio, t_two_sided


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """K estimates from one or more independent samples of documents.

    Attributes:
        estimates: [K].
        samples: of each sample the influences [R, K] of its documents on every estimate, 0 where they are not part
            of it. The squares of a contrast of the columns sum to its variance. Estimates from the same documents
            share a sample, so that contrasts between them are paired.
    """

    estimates: Floats
    samples: tuple[Floats, ...]

    def contrast(self, weights: ArrayLike, *, level: float = 0.95) -> Contrast:
        """Σ_k weights_k · estimate_k, with t and R − 1 degrees of freedom, or Satterthwaite's for several samples."""
        require_level(level)
        chosen = as_values(weights, "weights")
        if len(chosen) != len(self.estimates):
            raise StatisticsError(f"there are {len(self.estimates)} estimates and {len(chosen)} weights.")
        variances = np.array([((own[:, chosen != 0] @ chosen[chosen != 0]) ** 2).sum() for own in self.samples])
        freedoms = np.array([len(own) - 1 for own in self.samples], np.float64)
        total = float(variances.sum())
        if np.isnan(total):
            return Contrast(float(self.estimates @ chosen), *[np.nan] * 5)
        freedom = total**2 / float((variances**2 / freedoms).sum()) if total > 0 else float(freedoms.sum())
        estimate, error = float(self.estimates @ chosen), total**0.5
        reach = error * float(t_quantile((1 + level) / 2, freedom))
        p = float(t_two_sided(t_ratio(estimate, error), freedom))
        return Contrast(estimate, error, freedom, p, estimate - reach, estimate + reach)


def influences(without: Floats, documents: int, left_out: int = 1) -> Floats:
    """Influences [R, K] from the estimates without[R, K] some of the documents, `left_out` at a time.

    The delete-d jackknife of Shao and Wu (1989). For measures that are means over pairs the variance is too large
    rather than too small (Efron and Stein 1981).
    """
    scale = (documents - left_out) / (left_out * len(without))
    return np.asarray(scale**0.5 * (without.mean(0) - without))
