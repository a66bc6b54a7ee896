"""Whether something grows by more than a margin. That it does not has to be shown, too."""

from bisect import bisect_left
from typing import Literal

import numpy as np

from fairspan.errors import StatisticsError
from fairspan.stats.arrays import require_level
from fairspan.stats.contrasts import Contrast
from fairspan.stats.distributions import t_below, t_quantile, t_ratio
from fairspan.stats.equivalence import POWER

Growth = Literal["more", "not more", "less", "open"]
MOST_DOCUMENTS = 100_000


def growth(found: Contrast, margin: float, level: float = 0.95) -> Growth:
    """Whether a change is beyond a margin.

    more, less: it is significantly above the margin, or below its negative, in a two-sided test as the interval of
    the same level shows. not more: it is significantly below the margin, in one of the two one-sided tests of an
    equivalence. open: none of them.
    """
    require_level(level)
    if not margin > 0:
        raise StatisticsError(f"margin must be more than 0, got {margin}: no finite sample shows an exact equality.")
    if not np.isfinite(found.standard_error):
        return "open"
    floor, roof = (
        t_below(t_ratio(found.estimate - null, found.standard_error), found.degrees_of_freedom)
        for null in (-margin, margin)
    )
    if 2 * (1 - roof) < 1 - level:
        return "more"
    if 2 * floor < 1 - level:
        return "less"
    return "not more" if roof < 1 - level else "open"


def documents_needed(found: Contrast, margin: float, documents: int, level: float = 0.95) -> int | None:
    """Further documents for "more" or "not more", whichever the estimate points to, in 80 % of cases.

    If the estimate is the truth, and errors shrink with the square root of the documents. None if more than 100,000.
    """
    side = (1 + level) / 2 if found.estimate > margin else level

    def decided(total: int) -> bool:
        freedom = found.degrees_of_freedom * (total - 1) / (documents - 1)
        error = found.standard_error * np.sqrt(documents / total)
        return bool(abs(found.estimate - margin) >= (t_quantile(side, freedom) + t_quantile(POWER, freedom)) * error)

    # More documents never decide less.
    further = 1 + bisect_left(range(documents + 1, documents + MOST_DOCUMENTS + 1), True, key=decided)
    return further if further <= MOST_DOCUMENTS else None
