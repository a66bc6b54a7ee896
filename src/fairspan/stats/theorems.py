"""The bounds of LC's Theorems 2 and 3 on how strongly attention filters token signals."""

import numpy as np
from numpy.typing import ArrayLike

from fairspan.stats.arrays import Floats


def theorem_2_bound(sigma_a: ArrayLike, value_norms: ArrayLike) -> Floats:
    """LC Theorem 2 for several heads (LC §E.2): log(σ_a · σ_1 · H), to compare with log(‖HC[X_{l+1}]‖/‖HC[X_l]‖).

    σ_1 = max_h ‖W_V^h‖₂, and σ_a is the mean over heads, so that σ_a · σ_1 · H ≥ Σ_h σ_a^h ‖W_V^h‖₂. It bounds what
    the heads make of X, and leaves out the output projection, the residual connection, the feed-forward part and
    normalisation, so that a layer as a whole may exceed it.

    Args:
        sigma_a: [..., H]. value_norms: [..., K], ‖W_V^h‖₂.
    """
    heads, values = np.asarray(sigma_a, np.float64), np.asarray(value_norms, np.float64)
    return np.asarray(np.log(heads.sum(-1) * values.max(-1)))


def theorem_3_bound(lengths: ArrayLike, sigma_s: ArrayLike) -> Floats:
    """LC Theorem 3: √(L / (2 √(1 + e^{−2σ_s²}) (L − 1)^{3/2} + 1)), above which σ_a should not lie.

    The inner root ends before (L − 1), as LC's proof has it (equation 21). It holds under assumptions that trained
    attention does not meet: scores Gaussian, of mean 0 and independent, of moderate variance, and sums of their
    exponentials replaced by Fenton's approximation. σ_a may well exceed it.
    """
    length, s = np.asarray(lengths, np.float64), np.asarray(sigma_s, np.float64)
    return np.asarray(np.sqrt(length / (2 * np.sqrt(1 + np.exp(-2 * s**2)) * (length - 1) ** 1.5 + 1)))
