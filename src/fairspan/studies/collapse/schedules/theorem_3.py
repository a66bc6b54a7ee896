"""Temperatures by LC Theorem 3: what would keep the predicted σ_a of a reference length in longer texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.calibration.temperature import check_temperature
from fairspan.errors import CalibrationError
from fairspan.stats.theorems import theorem_3_bound

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def keeping_temperature(lengths: ArrayLike, sigma_s: ArrayLike, target: float) -> Floats:
    """The temperature τ at which LC Theorem 3 predicts the σ_a `target` of texts of more than one token.

    Scores are divided by τ (LC eq. 6), and with them their standard deviation: σ_s becomes σ_s/τ. So

        √(1 + e^{−2(σ_s/τ)²}) = c        c = (L/target² − 1) / (2 (L − 1)^{3/2})
        τ = σ_s / √(−½ ln(c² − 1))

    1 where the prediction is no lower than the target already, and 0 where no temperature above 0 gets there: however
    sharp attention is, the root on the left stays above 1.
    """
    length, s = np.asarray(lengths, np.float64), np.asarray(sigma_s, np.float64)
    c = (length / target**2 - 1) / (2 * (length - 1) ** 1.5)
    rest = np.where(c > 1, c**2 - 1, 0.0)
    solved = (rest > 0) & (rest < np.exp(-2 * s**2))
    tau = s / np.sqrt(-np.log(np.where(solved, rest, 0.5)) / 2)
    return np.where(solved, tau, np.where(rest > 0, 1.0, 0.0))


@dataclass(frozen=True, slots=True)
class Reach:
    """How far Theorem 3 can make up for length.

    Attributes:
        reference: the length whose predicted σ_a is to be kept.
        least: the lowest temperature allowed.
        reach: the longest text that keeps it; `reference` if no longer one does.
        limit: the longest text that would at any temperature above 0.
    """

    reference: int
    least: float
    reach: int
    limit: int

    @property
    def note(self) -> str:
        """What a reader of the schedule should know."""
        kept = f"up to {self.reach} tokens" if self.reach > self.reference else "in no longer text"
        return (
            f"by LC Theorem 3, temperatures from {self.least:g} keep the σ_a of {self.reference} tokens {kept}, and "
            f"none does beyond {self.limit}: texts from {self.reach + 1} tokens on take {self.least:g}, which does "
            "not keep it"
        )


def reference_reach(lengths: Sequence[int], sigma_s: ArrayLike, reference: int, *, least: float = 0.5) -> Reach:
    """Up to which length a temperature keeps the σ_a that LC Theorem 3 predicts of `reference` tokens.

    **The equation has a solution for slightly longer texts only**: a lower temperature takes √(1 + e^{−2σ_s²}) from
    at most √2 to no less than 1, whereas the prediction falls with ⁴√L. So a text can be at most about 1 + e^{−2σ_s²}
    times as long as the reference, with σ_s of the reference: 1.6 times for 0.5, 1.14 times for 1, 1.0003 times for
    2, and never twice.

    The theorem bounds σ_a of independent Gaussian scores, and that of trained attention may lie elsewhere. It is
    about one layer: a temperature in every layer also changes the inputs of later ones, and so their σ_s.

    Args:
        lengths: where σ_s was measured. In between it is interpolated along log L, and beyond held.
        sigma_s: [lengths], at temperature 1, or one number for all.
        least: the lowest temperature allowed, above 0 and at most 1.
    """
    longer, wanted = _wanted(lengths, sigma_s, reference, least)
    reach, limit = (int(longer[kept].max(initial=reference)) for kept in (wanted >= least, wanted > 0))
    return Reach(reference, float(least), reach, limit)


def _wanted(lengths: Sequence[int], sigma_s: ArrayLike, reference: int, least: float) -> tuple[Numbers, Floats]:
    """Every whole length above the reference up to twice that, which nothing keeps, and the temperature it wants."""
    check_temperature(least)
    knots = np.asarray(lengths, np.float64)
    if knots.ndim != 1 or not len(knots) or knots[0] < 1 or (np.diff(knots) <= 0).any():
        raise CalibrationError(f"lengths are token counts from 1 that rise, got {list(lengths)}.")
    spread = np.asarray(sigma_s, np.float64)
    if spread.shape not in ((), knots.shape) or not (np.isfinite(spread) & (spread > 0)).all():
        raise CalibrationError(
            f"sigma_s must be one number above 0, or one for each of {len(knots)} lengths, got {spread.tolist()}."
        )
    if isinstance(reference, bool) or not isinstance(reference, int) or reference < 2:
        raise CalibrationError(f"reference must be a whole number of at least 2 tokens, got {reference!r}.")
    if spread.ndim and not knots[0] <= reference <= knots[-1]:
        raise CalibrationError(
            f"sigma_s is known from {knots[0]:g} to {knots[-1]:g} tokens, which leaves out the reference of "
            f"{reference}: choose one in between, or measure texts of that length."
        )
    values = np.broadcast_to(spread, knots.shape)
    longer = np.arange(reference + 1, 2 * reference + 1)
    target = theorem_3_bound(reference, np.interp(np.log(reference), np.log(knots), values))
    return longer, keeping_temperature(longer, np.interp(np.log(longer), np.log(knots), values), float(target))
