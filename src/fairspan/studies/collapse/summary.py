"""The statistics of a study of length, from the rows of its log, as tidy frames."""

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import round_up
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import documents_needed, judge_change
from fairspan.stats.geometry import MEASURES, cosine_without, slope_weights
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import query_changes, query_means
from fairspan.stats.resampling import Jackknife, influences
from fairspan.studies.collapse import theory
from fairspan.studies.collapse.entries import CollapseEntries
from fairspan.studies.collapse.options import WORDS, temperature_of

LABELS = ("correct", "entropy")
Intervals = dict[tuple[str, str, int | None, str | None], Interval]
"""By treatment, measure, length and what it is compared with."""
# Level vectors differ by rounding.
_SAME_SHARE = 0.0005
_SCHEMA = {
    "treatment": pl.String,
    "measure": pl.String,
    "length": pl.Int64,
    "against": pl.String,
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64),
}


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name.

    `geometry` and `classification` have a row for each treatment, measure and length. `against` is
    null for the value itself, and otherwise names what it is compared with: a treatment;
    "shortest", the shortest texts of the same treatment; "short_baseline", the shortest texts of
    the first treatment; or "doubling", for what each doubling of length adds.
    """
    rows = log.rows
    margin = float(log.spec["margin"])
    paired = log.header.part(CollapseEntries).paired
    lengths = _lengths(log)
    tokens = _tokens(log)
    controls = [WORDS] if WORDS in rows["treatment"] else []
    spread = geometry(rows, [*log.measured, *controls], tokens, paired=paired)
    labels = classification(rows, log.measured, seed=log.header.seed)
    geometry_frame = _frame(spread)
    verdicts = []
    for name in log.measured:
        word, sentence = _verdict(spread, name, lengths, paired, margin)
        _, effect = share_change(geometry_frame, name, lengths)
        verdicts.append((name, word, f"{sentence}; {effect}" if effect else sentence))
    advice = suggestion(_temperatures(log), spread, tokens, margin, log.treatments[0])
    times = pl.col("part").cast(pl.Int64).alias("times")
    return {
        "verdicts": pl.DataFrame(
            verdicts, schema=["treatment", "verdict", "sentence"], orient="row"
        ),
        "lengths": lengths,
        "geometry": geometry_frame,
        "classification": _frame(labels),
        "spectra": theory.spectra(rows, log.treatments),
        "bounds": theory.bounds(rows),
        "repeated": rows.filter(measure="repeated").select("treatment", times, cosine="value"),
        "suggestion": pl.DataFrame(
            [advice],
            schema={"temperature": pl.Float64, "reason": pl.String},
            orient="row",
        ),
    }


def _frame(intervals: Intervals) -> pl.DataFrame:
    rows = [(*key, value.estimate, value.low, value.high) for key, value in intervals.items()]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _lengths(log: RunLog) -> pl.DataFrame:
    """Every length with its number of texts, mean tokens and name."""
    entries = log.header.part(CollapseEntries)
    names = [length_name(log, entry.length) for entry in entries.lengths]
    return pl.DataFrame(entries.lengths).with_columns(name=pl.Series(names))


def length_name(log: RunLog, length: int) -> str:
    """A length in tokens, or both ends of a bin of natural lengths."""
    return str(length) if log.header.part(CollapseEntries).paired else f"{length}–{length + 99}"


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
    """Every measure of the vectors, and its differences; see `frames_of`.

    Differences between treatments are paired, and with `paired` those between lengths too. The
    baseline is first in `names`, and the word control, if it was measured, last. A measure that the
    baseline lacks is left out.
    """
    lengths = list(tokens)
    intervals: Intervals = {}
    for measure in MEASURES:
        having = set(rows.filter(measure=measure)["treatment"])
        if names[0] not in having:
            continue
        measured = [name for name in names if name in having]
        count = len(measured) * len(lengths)
        # Weights [treatments, lengths, count] of contrasts that are one estimate.
        units = np.eye(count).reshape(len(measured), len(lengths), count)
        sample = _jackknife(rows, measure, measured, lengths, paired=paired)
        for name, of_name in zip(measured, units, strict=True):
            for place, length in enumerate(lengths):
                unit = of_name[place]
                contrasts: dict[str | None, np.ndarray] = {None: unit}
                if place > 0:
                    contrasts["shortest"] = unit - of_name[0]
                if name != WORDS:
                    contrasts["short_baseline"] = unit - units[0, 0]
                if name not in (WORDS, names[0]):
                    contrasts[names[0]] = unit - units[0, place]
                for against, weights in contrasts.items():
                    intervals[name, measure, length, against] = sample.contrast(weights)
            if len(lengths) > 1:
                slope = slope_weights(list(tokens.values())) @ of_name
                intervals[name, measure, None, "doubling"] = sample.contrast(slope)
    return intervals


def _jackknife(
    rows: pl.DataFrame, measure: str, names: Sequence[str], lengths: Sequence[int], *, paired: bool
) -> Jackknife:
    """A measure by treatment and length, [treatments · lengths], and every document's influence."""
    kept = rows.filter(pl.col("measure").is_in([measure, f"{measure}_without"])).sort("document")
    parts = {
        key: part["value"].to_numpy()
        for key, part in kept.partition_by("measure", "treatment", "part", as_dict=True).items()
    }
    keys = [(name, str(length)) for name in names for length in lengths]
    values = [parts[measure, *key] for key in keys]
    if measure == "cosine":
        without = [cosine_without(cosines) for cosines in values]
    elif measure in ("origin", "share"):
        # The centre of all lengths and the common direction count as fixed: one document hardly
        # moves them.
        without = [(part.sum() - part) / (len(part) - 1) for part in values]
    else:
        without = [parts[f"{measure}_without", *key] for key in keys]
    columns = np.arange(len(keys)).reshape(len(names), len(lengths))
    samples = []
    # Without pairs, only the texts of one length are of the same documents under every treatment.
    for group in [columns.ravel()] if paired else columns.T:
        sample = np.zeros((len(without[group[0]]), len(keys)))
        sample[:, group] = influences(np.stack([without[column] for column in group], axis=1))
        samples.append(sample)
    return Jackknife(np.array([part.mean() for part in values]), tuple(samples))


def classification(rows: pl.DataFrame, names: Sequence[str], *, seed: int) -> Intervals:
    """Accuracy and entropy of the tested texts by length; their change from the first treatment."""
    intervals: Intervals = {}
    for measure in LABELS:
        first = rows.filter(measure=measure, treatment=names[0])
        if first.is_empty():
            continue
        lengths, groups = np.unique(first["part"].cast(pl.Int64), return_inverse=True)
        clusters = first["document"].to_numpy()
        before = first["value"].to_numpy()
        for name in names:
            values = rows.filter(measure=measure, treatment=name)["value"].to_numpy()
            compared: dict[str | None, Sequence[Interval]] = {}
            compared[None] = query_means(values, groups + 1, clusters)[1:]
            if name != names[0]:
                compared[names[0]] = query_changes(before, values, groups + 1, clusters)[1:]
            for against, by_length in compared.items():
                for length, interval in zip(lengths.tolist(), by_length, strict=True):
                    intervals[name, measure, length, against] = interval
    return intervals


def _verdict(
    intervals: Intervals, treatment: str, lengths: pl.DataFrame, paired: bool, margin: float
) -> tuple[str, str]:
    """Whether the similarity of texts depends on their length: one word, and a sentence."""
    if len(lengths) == 1:
        return "inconclusive", "one length only: nothing to compare"
    slope = intervals[treatment, "cosine", None, "doubling"]
    means = [intervals[treatment, "cosine", length, None].estimate for length in lengths["length"]]
    begin, *_, end = lengths["name"]
    protocol = "the same documents, cut" if paired else "whole documents by their own length"
    seen = (
        f"mean cosine {with_bounds(slope, '+.4f')} per doubling of length "
        f"({number(means[0])} at {begin} tokens, {number(means[-1])} at {end}; {protocol})"
    )
    kind = judge_change(slope, margin)
    if kind == "biased":
        how = "more" if slope.estimate > 0 else "less"
        return kind, f"long texts are {how} alike than short ones; {seen}"
    if kind == "fair":
        return kind, f"{seen}; within the margin of ±{margin:g}"
    texts = lengths["texts"].to_list()
    documents = min(texts) if paired else sum(texts)
    needed = documents_needed(slope, margin, documents)
    outlook = (
        f"too close to the margin of ±{margin:g} for any realistic number of documents to decide"
    )
    if needed is not None:
        plural = "" if needed == 1 else "s"
        outlook = f"about {round_up(needed)} more document{plural} would decide"
    return kind, f"{outlook}; {seen}"


def share_change(frame: pl.DataFrame, treatment: str, lengths: pl.DataFrame) -> tuple[str, str]:
    """How the share of the common direction changes with length, and what that does to scores.

    The first is "same", "more", "less" or "unclear", of the longest texts compared with the
    shortest. Both are empty if it is not known. The shortest texts of the first treatment stand for
    queries.
    """
    shares = frame.filter(measure="share")
    changes = shares.filter(treatment=treatment, against="shortest")
    if changes.is_empty():
        return "", ""
    common = "share of the direction that all vectors have in common"
    if (changes["estimate"].abs() < _SAME_SHARE).all():
        share = number(shares.filter(treatment=treatment)["estimate"][0])
        return "same", f"texts of every length have the same {common}, {share}"
    begin, *_, end = lengths["name"]
    change = Interval(*changes.select("estimate", "low", "high").row(-1))
    texts = f"texts of {end} tokens have a"
    than = f"{common} than texts of {begin} ({with_bounds(change, '+.3f')})"
    gain = number(shares["estimate"][0] * change.estimate, "+.3f")
    scores = f"all else equal, this is about {gain} in their score for every query"
    if change.low > 0:
        return "more", f"{texts} larger {than}: {scores}"
    if change.high < 0:
        return "less", f"{texts} smaller {than}: {scores}"
    return "unclear", f"it is not clear whether {texts} larger or a smaller {than}"


def _temperatures(log: RunLog) -> list[tuple[float, str]]:
    """The measured treatments that only set a temperature, the highest temperature first."""
    treatments = [Treatment.from_dict(entry) for entry in log.spec["treatments"]]
    measured = [treatment for treatment in treatments if treatment.name in log.measured]
    pairs = [(temperature_of(treatment), treatment.name) for treatment in measured]
    return sorted(((value, name) for value, name in pairs if value is not None), reverse=True)


def suggestion(
    temperatures: Sequence[tuple[float, str]],
    intervals: Intervals,
    tokens: Mapping[int, float],
    margin: float,
    baseline: str,
) -> tuple[float | None, str]:
    """The highest of the `temperatures` that is shown to be enough, or why none is.

    Enough makes texts of every length no more alike than the shortest ones of the baseline, by less
    than the margin for each doubling of length. By Holm's correction over the temperatures, the
    chance that the advice is wrong is at most 5 %.
    """
    shortest, *longer = tokens
    if not temperatures or not longer:
        return None, "no temperature was tried" if longer else "there is one length only"
    limits = {length: margin * log2(tokens[length] / tokens[shortest]) for length in longer}
    excess = {
        name: {length: intervals[name, "cosine", length, "short_baseline"] for length in longer}
        for _, name in temperatures
    }
    # That all lengths are below their limits is as sure as the least sure of them.
    p = [
        max(excess[name][length].below(limit) for length, limit in limits.items())
        for _, name in temperatures
    ]
    for (temperature, _), corrected in zip(temperatures, holm(p), strict=True):
        if corrected < 0.05:
            return temperature, ""
    highest = excess[temperatures[0][1]]
    if all(highest[length].lower(0.975) <= limit for length, limit in limits.items()):
        return None, "too few documents to tell whether long texts are more alike than the shortest"
    helping = []
    for temperature, name in temperatures:
        if temperature < 1 and name != baseline:
            changes = [intervals[name, "cosine", length, baseline] for length in longer]
            helping += [(change.estimate, temperature) for change in changes if change.high < 0]
    if helping:
        return None, f"{min(helping)[1]:g} helps most, but is not shown to be enough"
    return None, "no temperature below 1 is shown to make long texts less alike"
