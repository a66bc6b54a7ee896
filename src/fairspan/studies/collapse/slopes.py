"""`Slopes`: what every doubling of length adds to vectors, from the rows of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.stats.equivalence import WORST, Kind, clusters_to_judge, judge_change, p_inside
from fairspan.stats.estimates import Estimates
from fairspan.stats.geometry import document_means, slope_weights

Geometry = dict[tuple[str, str, int | None], Estimates[float]]
"""By treatment, measure and length. Without a length, what each doubling of length adds."""
EFFECTS = {
    ("cosine", 1): "are more alike than short ones",
    ("cosine", -1): "are less alike than short ones",
    ("score", 1): "score higher for every query than short ones",
    ("score", -1): "score lower for every query than short ones",
}


@dataclass(frozen=True, slots=True)
class Slopes:
    """What a doubling of length adds to the mean cosine and, if known, to scores."""

    of: Mapping[str, Estimates[float]]
    margin: float

    def kind(self, measure: str) -> Kind:
        return judge_change(self.of[measure], self.margin, len(self.of))

    @property
    def verdict(self) -> Kind:
        """The worst of them."""
        return min(map(self.kind, self.of), key=WORST.index)

    @property
    def p(self) -> float:
        """The p value against "one of them is beyond the margin"."""
        return max(float(p_inside(slope, self.margin)) for slope in self.of.values())

    @property
    def effects(self) -> list[tuple[str, int]]:
        """What is shown to be beyond the margin, 1 for a rise and −1 for a fall."""
        biased = [measure for measure in self.of if self.kind(measure) == "biased"]
        return [(measure, 1 if self.of[measure].estimate > 0 else -1) for measure in biased]

    @property
    def words(self) -> str:
        return "long texts " + " and ".join(EFFECTS[effect] for effect in self.effects)

    @property
    def harms(self) -> bool:
        """Whether an effect is harmful: long texts that are less alike are easier to tell apart."""
        return bool({*self.effects} - {("cosine", -1)})

    def outlook(self, documents: int, *, paired: bool) -> str:
        """How many documents in all would decide what is open."""
        opens = [slope for name, slope in self.of.items() if self.kind(name) == "inconclusive"]
        needed = [clusters_to_judge(slope, self.margin, documents, len(self.of)) for slope in opens]
        counts = [count for count in needed if count is not None]
        if len(counts) < len(needed):
            close = f"too close to the margin of ±{self.margin:g}"
            return f"{close} for any realistic number of documents to decide"
        count = max(counts)
        asked = f"`--documents {count}`" if paired else f"about {count} documents in all"
        return f"{documents} documents; {asked} would decide"


def geometry(
    rows: pl.DataFrame, names: Sequence[str], tokens: Mapping[int, float], *, paired: bool
) -> Geometry:
    """Every measure of the vectors by length, and what a doubling adds; see `frames_of`.

    With `paired`, differences between lengths are. The baseline is first in `names`; a measure that
    it lacks is left out.
    """
    lengths = list(tokens)
    intervals: Geometry = {}
    for measure in ("cosine", "share"):
        having = set(rows.filter(measure=measure)["treatment"])
        if names[0] not in having:
            continue
        measured = [name for name in names if name in having]
        parts = rows.filter(measure=measure).sort("document")
        by_part = parts.partition_by("treatment", "length", as_dict=True)
        keys = [(name, length) for name in measured for length in lengths]
        values = [by_part[key]["value"].to_numpy() for key in keys]
        places = np.arange(len(keys)).reshape(len(measured), len(lengths))
        # Without pairs, only the texts of one length are of the same documents everywhere.
        samples = [places.ravel().tolist()] if paired else places.T.tolist()
        fit = document_means(values, samples, of_pairs=measure == "cosine")
        for name, numbers in zip(measured, places.tolist(), strict=True):
            means = fit.contrasts(np.eye(len(keys))[numbers])
            for place, length in enumerate(lengths):
                intervals[name, measure, length] = means[place]
            if len(lengths) == 1:
                continue
            # The shortest texts of the first treatment stand for queries.
            slope = np.zeros((2, len(keys)))
            slope[:, numbers] = slope_weights(list(tokens.values()))
            slope[1] *= fit.coefficients[0]
            slopes = fit.contrasts(slope)
            intervals[name, measure, None] = slopes[0]
            if measure == "share":
                intervals[name, "score", None] = slopes[1]
    return intervals


def slopes_of(intervals: Geometry, margin: float) -> dict[str, Slopes]:
    """What each treatment is judged by; nothing if there is one length."""
    judged: dict[str, dict[str, Estimates[float]]] = {}
    for (name, measure, length), interval in intervals.items():
        if length is None and measure in ("cosine", "score"):
            judged.setdefault(name, {})[measure] = interval
    return {name: Slopes(slopes, margin) for name, slopes in judged.items()}
