"""Whether a change is a loss: a test of non-inferiority."""

from typing import Literal

LossKind = Literal["worse", "not worse", "inconclusive"]


def judge_loss(low: float, high: float, margin: float) -> LossKind:
    """Judge the interval of a loss, which is positive where things got worse.

    "not worse" is a claim that has to be shown: the interval ends before the margin. "worse" is shown where the
    interval begins above 0. Anything else, NaN included, is "inconclusive".

    >>> judge_loss(-0.01, 0.005, margin=0.01), judge_loss(0.002, 0.03, margin=0.01), judge_loss(-0.01, 0.03, 0.01)
    ('not worse', 'worse', 'inconclusive')
    """
    if high <= margin:
        return "not worse"
    return "worse" if low > 0 else "inconclusive"
