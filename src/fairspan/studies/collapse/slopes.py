"""`Slopes`: what every doubling of length adds to vectors, from the rows of a study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.stats.arrays import round_up
from fairspan.stats.equivalence import Kind, documents_needed, judge_change
from fairspan.stats.geometry import jackknife_means, slope_weights
from fairspan.stats.intervals import Interval

Intervals = dict[tuple[str, str, int | None], Interval]
"""By treatment, measure and length. Without a length, what each doubling of length adds."""
EFFECTS = {
    ("cosine", 1): "are more alike than short ones",
    ("cosine", -1): "are less alike than short ones",
    ("score", 1): "score higher for every query than short ones",
    ("score", -1): "score lower for every query than short ones",
}
_WORST: tuple[Kind, ...] = ("biased", "inconclusive", "fair")


@dataclass(frozen=True, slots=True)
class Slopes:
    """What a doubling of length adds to the mean cosine and, if known, to scores."""

    of: Mapping[str, Interval]
    margin: float

    def kind(self, measure: str) -> Kind:
        return judge_change(self.of[measure], self.margin, len(self.of))

    @property
    def verdict(self) -> Kind:
        """The worst of them."""
        return min(map(self.kind, self.of), key=_WORST.index)

    @property
    def p_value(self) -> float:
        """Against one of them being beyond the margin."""
        above = [slope.below(self.margin) for slope in self.of.values()]
        below = [1 - slope.below(-self.margin) for slope in self.of.values()]
        return max(above + below)

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
        """Long texts that are less alike than short ones are easier to tell apart."""
        return bool({*self.effects} - {("cosine", -1)})

    def outlook(self, documents: int, *, paired: bool) -> str:
        """How many documents in all would decide what is open."""
        opens = [slope for name, slope in self.of.items() if self.kind(name) == "inconclusive"]
        needed = [documents_needed(slope, self.margin, documents, len(self.of)) for slope in opens]
        counts = [count for count in needed if count is not None]
        if len(counts) < len(needed):
            close = f"too close to the margin of ±{self.margin:g}"
            return f"{close} for any realistic number of documents to decide"
        count = round_up(documents + max(counts))
        asked = f"`--documents {count}`" if paired else f"about {count} documents in all"
        return f"{documents} documents; {asked} would decide"


def geometry(
    rows: pl.DataFrame, names: Sequence[str], tokens: Mapping[int, float], *, paired: bool
) -> Intervals:
    """Every measure of the vectors by length, and what a doubling adds; see `frames_of`.

    With `paired`, differences between lengths are. The baseline is first in `names`; a measure that
    it lacks is left out.
    """
    lengths = list(tokens)
    intervals: Intervals = {}
    for measure in ("cosine", "share"):
        having = set(rows.filter(measure=measure)["treatment"])
        if names[0] not in having:
            continue
        measured = [name for name in names if name in having]
        parts = rows.filter(measure=measure).sort("document")
        by_part = parts.partition_by("treatment", "part", as_dict=True)
        keys = [(name, str(length)) for name in measured for length in lengths]
        values = [by_part[key]["value"].to_numpy() for key in keys]
        places = np.arange(len(keys)).reshape(len(measured), len(lengths))
        # Without pairs, only the texts of one length are of the same documents everywhere.
        samples = [places.ravel()] if paired else list(places.T)
        sample = jackknife_means(values, samples, of_pairs=measure == "cosine")
        # Weights [treatments, lengths, count] of contrasts that are one estimate.
        units = np.eye(len(keys))[places]
        for name, of_name in zip(measured, units, strict=True):
            for length, unit in zip(lengths, of_name, strict=True):
                intervals[name, measure, length] = sample.contrast(unit)
            if len(lengths) > 1:
                slope = slope_weights(list(tokens.values())) @ of_name
                intervals[name, measure, None] = sample.contrast(slope)
                if measure == "share":
                    # The shortest texts of the first treatment stand for queries.
                    in_scores = float(sample.estimates[0]) * slope
                    intervals[name, "score", None] = sample.contrast(in_scores)
    return intervals


def slopes_of(intervals: Intervals, margin: float) -> dict[str, Slopes]:
    """What each treatment is judged by; nothing if there is one length."""
    judged: dict[str, dict[str, Interval]] = {}
    for (name, measure, length), interval in intervals.items():
        if length is None and measure in ("cosine", "score"):
            judged.setdefault(name, {})[measure] = interval
    return {name: Slopes(slopes, margin) for name, slopes in judged.items()}
