"""What a paired change of search shows, in a word, and how many documents would show more."""

from typing import Literal

from fairspan.stats.equivalence import clusters_needed
from fairspan.stats.estimates import Estimates

Word = Literal["better", "not worse", "the same", "slightly worse", "inconclusive", "worse"]
FEW_CLUSTERS = 30
"""With fewer, a sample may lack the rare documents that change most."""
_LEVEL = 0.975


def word_of(change: Estimates[float], margin: float, p: float | None = None) -> Word:
    """What the interval of a change shows.

    A gain is an interval above 0, with a `p` below .05 if it is corrected for several
    treatments. A loss is an interval below 0: "slightly worse" if all of it is within the margin.
    Neither is shown by an interval around 0: "not worse" if a loss beyond the margin is ruled out.
    """
    if change.estimate == 0 and change.standard_error == 0:
        return "the same"
    if change.low > 0 and (p is None or p < 0.05):
        return "better"
    if change.high < 0:
        return "slightly worse" if change.low >= -margin else "worse"
    return "not worse" if change.low >= -margin else "inconclusive"


def combined_word(overall: Word, short: Word | None, long: Word | None) -> str:
    """The verdict on all documents, or on a group that loses, whatever the other group gains."""
    words = {"short": short, "long": long}
    losers = [name for name, word in words.items() if word == "worse"]
    if None in words.values() or len(losers) != 1:
        return "worse" if len(losers) == 2 else overall
    loser = losers[0]
    other = "long" if loser == "short" else "short"
    gain = f"better for {other}, " if words[other] == "better" else ""
    return f"{gain}worse for {loser} documents"


def is_worse(verdict: str) -> bool:
    """Whether a verdict is a loss, for all documents or for some.

    >>> is_worse("better for long, worse for short documents"), is_worse("slightly worse")
    (True, False)
    """
    return verdict == "worse" or "worse for" in verdict


def clusters_to_decide(change: Estimates[float], clusters: int, margin: float) -> int | None:
    """How many clusters in all end "inconclusive" in 80 % of cases; None if no realistic number.

    They show a loss, or rule out one beyond the margin: whichever takes fewer.
    """
    needed = [
        clusters_needed(gap, change.standard_error, clusters, _LEVEL)
        for gap in (-change.estimate, change.estimate + margin)
    ]
    return min((count for count in needed if count is not None), default=None)


def clusters_to_confirm(change: Estimates[float], clusters: int) -> int | None:
    """How many clusters in all show the gain that is estimated, in 80 % of cases; None as above."""
    return clusters_needed(change.estimate, change.standard_error, clusters, _LEVEL)
