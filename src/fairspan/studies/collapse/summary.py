"""The statistics of a study of length, from the rows of its log, as tidy frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.report.text import model_name, number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import round_up
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import Kind, documents_needed, judge_change
from fairspan.stats.geometry import jackknife_means, slope_weights
from fairspan.stats.intervals import Interval
from fairspan.studies.collapse.entries import CollapseEntries

Intervals = dict[tuple[str, str, int | None], Interval]
"""By treatment, measure and length. Without a length, what each doubling of length adds."""
EFFECTS = {
    ("cosine", 1): "are more alike than short ones",
    ("cosine", -1): "are less alike than short ones",
    ("score", 1): "score higher for every query than short ones",
    ("score", -1): "score lower for every query than short ones",
}
ALIKE = {
    "biased": "To {}, long texts are less alike than short ones.",
    "fair": "To {}, long texts are neither more nor less alike than short ones.",
    "inconclusive": "It is not clear yet whether long texts are more alike to {} than short ones.",
}
"""What is said of a model whose long texts are not shown to be more alike than short ones."""
PREFERRED = {
    "fair": "An index neither prefers nor neglects them.",
    "inconclusive": "It is not clear yet whether an index prefers or neglects them.",
    "unknown": "Whether an index prefers or neglects them was not measured.",
}
MEASURE_FIRST = "Before you change anything, measure with fairspan evaluate what search gains."
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

    def outlook(self, documents: int) -> str:
        """How many further documents would decide what is open."""
        opens = [slope for name, slope in self.of.items() if self.kind(name) == "inconclusive"]
        needed = [documents_needed(slope, self.margin, documents, len(self.of)) for slope in opens]
        counts = [count for count in needed if count is not None]
        if len(counts) < len(needed):
            close = f"too close to the margin of ±{self.margin:g}"
            return f"{close} for any realistic number of documents to decide"
        count = max(counts)
        return f"about {round_up(count)} more document{'' if count == 1 else 's'} would decide"


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name.

    `geometry` has a row for each treatment, measure and length. Without a length, the row is what
    each doubling of length adds; of the measure "score", to the score of a text for every query by
    its share of the common direction.
    """
    study = log.header.part(CollapseEntries)
    intervals = geometry(log.rows, log.measured, _tokens(log), paired=study.paired)
    slopes = slopes_of(log, intervals)
    verdicts = [
        (name, *_verdict(study, intervals, name, slopes.get(name))) for name in log.measured
    ]
    text = {"treatment": pl.String, "verdict": pl.String, "sentence": pl.String}
    keys = {"treatment": pl.String, "measure": pl.String, "length": pl.Int64}
    numbers = dict.fromkeys(("estimate", "low", "high"), pl.Float64)
    values = [(*key, value.estimate, value.low, value.high) for key, value in intervals.items()]
    lengths = pl.DataFrame(study.lengths).with_columns(name=pl.Series(study.names.values()))
    columns = {"treatment": pl.String, "sentence": pl.String}
    return {
        "verdicts": pl.DataFrame(verdicts, text, orient="row"),
        "lengths": lengths,
        "geometry": pl.DataFrame(values, {**keys, **numbers}, orient="row"),
        "suggestion": pl.DataFrame([advice(log, slopes)], columns, orient="row"),
    }


def _tokens(log: RunLog) -> dict[int, float]:
    """The geometric mean of the tokens that the texts of each length have."""
    texts = log.rows.filter(measure="cosine", treatment=log.treatments[0])
    means = texts.group_by(pl.col("part").cast(pl.Int64)).agg(
        pl.col("tokens").clip(1).log(2).mean()
    )
    return {length: 2.0**mean for length, mean in means.sort("part").rows()}


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


def slopes_of(log: RunLog, intervals: Intervals) -> dict[str, Slopes]:
    """What each treatment is judged by; nothing if there is one length."""
    judged: dict[str, dict[str, Interval]] = {}
    for (name, measure, length), interval in intervals.items():
        if length is None and measure in ("cosine", "score"):
            judged.setdefault(name, {})[measure] = interval
    return {name: Slopes(slopes, float(log.spec["margin"])) for name, slopes in judged.items()}


def _verdict(
    study: CollapseEntries, intervals: Intervals, treatment: str, slopes: Slopes | None
) -> tuple[Kind, str]:
    """Whether vectors depend on the length of their texts: one word, and a sentence."""
    if slopes is None:
        return "inconclusive", "one length only: nothing to compare"
    seen = evidence(study, intervals, treatment)
    if slopes.verdict == "biased":
        return "biased", f"{slopes.words}; {seen}"
    if slopes.verdict == "fair":
        return "fair", f"{seen}; within the margin of ±{slopes.margin:g}"
    return "inconclusive", f"{slopes.outlook(study.documents)}; {seen}"


def evidence(study: CollapseEntries, intervals: Intervals, treatment: str) -> str:
    """What is seen in cosines and, if it is known, in scores."""
    protocol = "the same documents, cut" if study.paired else "whole documents by their own length"

    def ends(measure: str) -> str:
        (short, first), *_, (long, last) = study.names.items()
        means = [number(intervals[treatment, measure, length].estimate) for length in (short, long)]
        return f"{means[0]} at {first} tokens, {means[1]} at {last}"

    def slope(measure: str) -> str:
        return f"{with_bounds(intervals[treatment, measure, None], '+.4f')} per doubling of length"

    seen = f"mean cosine {slope('cosine')} ({ends('cosine')}; {protocol})"
    if (treatment, "score", None) not in intervals:
        return seen
    shares = f"share of the common direction {ends('share')}"
    return f"{seen}; score for every query {slope('score')} ({shares})"


def advice(log: RunLog, slopes: Mapping[str, Slopes]) -> tuple[str | None, str]:
    """The treatment that is suggested, if there is one; and what length does, and what to do."""
    model = model_name(log.model)
    if log.measured[0] not in slopes:
        return None, ""
    plain = slopes[log.measured[0]]
    if plain.harms:
        treatment, sentence = enough(log, slopes)
        return treatment, f"To {model}, {plain.words}. {sentence} {MEASURE_FIRST}"
    cosine = plain.kind("cosine")
    score = plain.kind("score") if "score" in plain.of else "unknown"
    sentences = [ALIKE[cosine].format(model), PREFERRED[score]]
    if cosine != "inconclusive" and score == "fair":
        sentences.append("Nothing has to be done.")
    return None, " ".join(sentences)


def enough(log: RunLog, slopes: Mapping[str, Slopes]) -> tuple[str | None, str]:
    """The first treatment that is shown to be enough, and a sentence.

    Enough is a verdict of "fair" that stays after Holm's correction over all that were tried: the
    chance that the advice is wrong is at most 5 %.
    """
    plain, *others = log.measured
    treatments = map(Treatment.from_dict, log.spec["treatments"])
    averaged = {treatment.name for treatment in treatments if treatment.chunks}
    tried = [name for name in others if name not in averaged]
    if not tried:
        return None, "No treatment was tried that a model can be calibrated to."
    for name, p_value in zip(tried, holm([slopes[name].p_value for name in tried]), strict=True):
        if p_value < 0.05 and slopes[name].of.keys() == slopes[plain].of.keys():
            return name, f"{name} is shown to undo this: give this run to fairspan calibrate."
    return None, f"No treatment is shown to be enough ({', '.join(tried)})."
