"""The statistics of a study of length, from the rows of its log, as tidy frames."""

from collections.abc import Mapping

import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.report.text import model_name, number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import Kind
from fairspan.studies.collapse.entries import CollapseEntries
from fairspan.studies.collapse.options import CollapseAnalysis
from fairspan.studies.collapse.slopes import Geometry, Slopes, geometry, slopes_of
from fairspan.studies.collapse.steps import with_steps

ALIKE = {
    "biased": "With {}, long texts are less alike than short ones.",
    "fair": "With {}, long texts are neither more nor less alike than short ones.",
    "inconclusive": "With {}, it is unclear whether long texts are more alike than short ones.",
}
"""What is said of a model whose long texts are not shown to be more alike than short ones."""
PREFERRED = {
    "fair": "An index neither prefers nor neglects them.",
    "inconclusive": "It is not clear yet whether an index prefers or neglects them.",
    "unknown": "Whether an index prefers or neglects them was not measured.",
}
MEASURE_FIRST = "Before you change anything, measure with fairspan evaluate what search gains."


def frames_of(log: RunLog, analysis: CollapseAnalysis) -> dict[str, pl.DataFrame]:
    """All statistics by name.

    `geometry` has a row for each treatment, measure and length. Without a length, the row is what
    each doubling of length adds; of the measure "score", to the score of a text for every query by
    its share of the common direction.
    """
    study = log.header.part(CollapseEntries)
    intervals = geometry(log.rows, log.measured, _tokens(log), paired=study.paired)
    slopes = slopes_of(intervals, analysis.margin)
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
    means = texts.group_by("length").agg(pl.col("tokens").clip(1).log(2).mean())
    return {length: 2.0**mean for length, mean in means.sort("length").rows()}


def _verdict(
    study: CollapseEntries, intervals: Geometry, treatment: str, slopes: Slopes | None
) -> tuple[Kind, str]:
    """Whether vectors depend on the length of their texts: one word, and a sentence."""
    if slopes is None:
        return "inconclusive", "one length only: nothing to compare"
    seen = evidence(study, intervals, treatment)
    if slopes.verdict == "biased":
        return "biased", f"{slopes.words}; {seen}"
    if slopes.verdict == "fair":
        return "fair", f"{seen}; within the margin of ±{slopes.margin:g}"
    return "inconclusive", f"{slopes.outlook(study.documents, paired=study.paired)}; {seen}"


def evidence(study: CollapseEntries, intervals: Geometry, treatment: str) -> str:
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
        return treatment, f"With {model}, {plain.words}. {sentence} {MEASURE_FIRST}"
    cosine = plain.kind("cosine")
    score = plain.kind("score") if "score" in plain.of else "unknown"
    sentences = [ALIKE[cosine].format(model), PREFERRED[score]]
    if cosine != "inconclusive" and score == "fair":
        sentences.append("Nothing has to be done.")
    return None, " ".join(sentences)


def enough(log: RunLog, slopes: Mapping[str, Slopes]) -> tuple[str | None, str]:
    """The first treatment that is shown to be enough, and a sentence.

    Enough is a verdict of "fair" that stays after Holm's correction over all that were tried and
    all temperatures by length that are made of them: the chance that the advice is wrong is at most
    5 %.
    """
    plain, *others = log.measured
    treatments = map(Treatment.from_dict, log.spec["treatments"])
    averaged = {treatment.name for treatment in treatments if treatment.chunks}
    tried = {name: slopes[name] for name in others if name not in averaged}
    if not tried:
        return None, "No treatment was tried that a model can be calibrated to."
    study = log.header.part(CollapseEntries)
    steps = with_steps(log, _tokens(log), slopes[plain].margin, paired=study.paired)
    # Treatments in their order, then the steps that are shown best.
    compared = tried | dict(sorted(steps.items(), key=lambda item: item[1].p))
    p_values = holm([item.p for item in compared.values()])
    for (name, item), p in zip(compared.items(), p_values, strict=True):
        if p < 0.05 and item.of.keys() >= slopes[plain].of.keys():
            how = "is shown to undo this" + (", by the length of texts" if name in steps else "")
            return name, f"{name} {how}: give this run to fairspan calibrate."
    return None, f"No treatment is shown to be enough ({', '.join(tried)})."
