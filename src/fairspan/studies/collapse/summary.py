"""The statistics of a study of length, from the rows of its log, as tidy frames."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from math import log2
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import round_up
from fairspan.stats.distributions import holm
from fairspan.stats.equivalence import documents_needed
from fairspan.stats.geometry import MEASURES, cosine_without, slope_weights
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import query_change, query_effects
from fairspan.stats.resampling import Jackknife, influences
from fairspan.studies.collapse import theory
from fairspan.studies.collapse.entries import CollapseEntries
from fairspan.studies.collapse.options import WORDS, temperature_of

LABELS = ("correct", "entropy")

Key = tuple[str, str, int | None, str | None]
"""Treatment, measure, length and what it is compared with."""

Cell = tuple[str, int]
"""A treatment and a length."""

_KEYS: dict[str, Any] = {
    "treatment": pl.String,
    "measure": pl.String,
    "length": pl.Int64,
    "against": pl.String,
}


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics by name.

    `geometry` and `classification` have a row for each treatment, measure and length. `against` is null for the
    value itself, and otherwise names what it is compared with: a treatment; "shortest", the shortest texts of the
    same treatment; "short_baseline", the shortest texts of the first treatment; or "doubling", for what each doubling
    of length adds.
    """
    rows, treatments, margin = log.rows, log.measured, float(log.spec["margin"])
    controlled = [*treatments, *([WORDS] if WORDS in rows["treatment"] else [])]
    tokens = _tokens(log)
    found = geometry(rows, controlled, tokens, paired=log.header.part(CollapseEntries).paired)
    labels = classification(rows, treatments, seed=log.header.seed)
    verdicts = [(name, *_verdict(log, found, name, margin)) for name in treatments]
    suggested = suggestions(log, found, tokens, margin)
    repeated = rows.filter(measure="repeated")
    times, cosine = pl.col("part").cast(pl.Int64).alias("times"), pl.col("value").alias("cosine")
    columns = {"length": pl.Int64, "temperature": pl.Float64, "reason": pl.String}
    return {
        "verdicts": pl.DataFrame(
            verdicts, schema=["treatment", "verdict", "sentence"], orient="row"
        ),
        "lengths": _lengths(log),
        "geometry": _frame(found),
        "classification": _frame(labels),
        "spectra": theory.spectra(rows, log.treatments),
        "bounds": theory.bounds(rows),
        "repeated": repeated.select("treatment", times, cosine),
        "suggestion": pl.DataFrame(suggested, schema=columns, orient="row"),
    }


def _frame(found: Mapping[Key, Interval]) -> pl.DataFrame:
    rows = [(*key, one.estimate, one.low, one.high) for key, one in found.items()]
    numbers = dict.fromkeys(("estimate", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema={**_KEYS, **numbers}, orient="row")


def _lengths(log: RunLog) -> pl.DataFrame:
    """The number and the mean length of the texts of each length; bins of natural lengths are named by both ends."""
    entries = log.header.part(CollapseEntries)
    frame = pl.DataFrame([asdict(length) for length in entries.lengths])
    begin = pl.col("length").cast(pl.String)
    ends = pl.format("{}–{}", begin, pl.col("length") + 99)
    return frame.with_columns((begin if entries.paired else ends).alias("name"))


def _tokens(log: RunLog) -> dict[int, float]:
    """The geometric mean of the tokens that the texts of each length have."""
    own = log.rows.filter(measure="cosine", treatment=log.treatments[0])
    found = {}
    for length in (entry.length for entry in log.header.part(CollapseEntries).lengths):
        tokens = own.filter(part=str(length))["tokens"].to_numpy()
        found[length] = float(2 ** np.log2(np.maximum(tokens, 1)).mean())
    return found


def geometry(
    rows: pl.DataFrame, names: Sequence[str], tokens: Mapping[int, float], *, paired: bool
) -> dict[Key, Interval]:
    """Every measure of the vectors with its interval, and what is compared with what; see `frames_of`.

    Where the same documents were cut to every length, all differences are paired; otherwise those between treatments.

    Args:
        names: the treatments that were measured, the baseline first, and the word control if there is one.
        tokens: the geometric mean of the tokens that the texts of each length have.
    """
    found: dict[Key, Interval] = {}
    lengths, cells = list(tokens), list(product(names, tokens))
    unit = dict(zip(cells, np.eye(len(cells)), strict=True))
    slope = slope_weights(list(tokens.values())) if len(lengths) > 1 else None
    for measure in MEASURES:
        sample = _jackknife(rows, measure, cells, paired=paired)
        for name in names:
            for length in lengths:
                own, short = unit[name, length], lengths[0]
                compared: dict[str | None, np.ndarray] = {None: own}
                if length != short:
                    compared["shortest"] = own - unit[name, short]
                if name != WORDS:
                    compared["short_baseline"] = own - unit[names[0], short]
                    if name != names[0]:
                        compared[names[0]] = own - unit[names[0], length]
                for against, weights in compared.items():
                    found[name, measure, length, against] = sample.contrast(weights)
            if slope is not None:
                weights = np.sum(
                    [k * unit[name, length] for k, length in zip(slope, lengths, strict=True)],
                    axis=0,
                )
                found[name, measure, None, "doubling"] = sample.contrast(weights)
    return found


def _jackknife(
    rows: pl.DataFrame, measure: str, cells: Sequence[Cell], *, paired: bool
) -> Jackknife:
    """A measure of every cell, and the same without each document."""
    kept = rows.filter(pl.col("measure").is_in([measure, f"{measure}_without"])).sort("document")
    parts = {
        (one["measure"][0], one["treatment"][0], int(one["part"][0])): one["value"].to_numpy()
        for one in kept.partition_by("measure", "treatment", "part")
    }
    own = [parts[measure, *cell] for cell in cells]
    if measure == "cosine":
        without = [cosine_without(values) for values in own]
    else:
        without = [parts[f"{measure}_without", *cell] for cell in cells]
    samples = []
    # Without pairs, the documents of one length are the same under every treatment only.
    places = {
        length: [place for place, cell in enumerate(cells) if cell[1] == length]
        for _, length in cells
    }
    for group in [list(range(len(cells)))] if paired else places.values():
        table = np.zeros((len(without[group[0]]), len(cells)))
        table[:, group] = influences(np.stack([without[place] for place in group], axis=1))
        samples.append(table)
    return Jackknife(np.array([values.mean() for values in own]), tuple(samples))


def classification(rows: pl.DataFrame, names: Sequence[str], *, seed: int) -> dict[Key, Interval]:
    """Accuracy and entropy of the tested texts by length, and their change from the first treatment."""
    found: dict[Key, Interval] = {}
    for measure in LABELS:
        tables = {name: rows.filter(measure=measure, treatment=name) for name in names}
        first = tables[names[0]]
        if first.is_empty():
            continue
        lengths, groups = np.unique([int(part) for part in first["part"]], return_inverse=True)
        clusters, before = first["document"].to_numpy(), first["value"].to_numpy()
        for name, own in tables.items():
            values, rng = own["value"].to_numpy(), np.random.default_rng(seed)
            means = query_effects(values, groups + 1, clusters, rng=rng).groups
            found |= {
                (name, measure, n, None): one
                for n, one in zip(lengths.tolist(), means, strict=True)
            }
            if name != names[0]:
                rng = np.random.default_rng(seed)
                changes = query_change(before, values, groups + 1, clusters, rng=rng).groups
                found |= {
                    (name, measure, n, names[0]): one
                    for n, one in zip(lengths.tolist(), changes, strict=True)
                }
    return found


def _verdict(
    log: RunLog, found: Mapping[Key, Interval], treatment: str, margin: float
) -> tuple[str, str]:
    """Whether the similarity of texts depends on their length: one word, and a sentence."""
    ends = [_lengths(log).row(place, named=True) for place in (0, -1)]
    if ends[0] == ends[1]:
        return "inconclusive", "one length only: nothing to compare"
    slope = found[treatment, "cosine", None, "doubling"]
    word = judge(slope, margin)
    short, long = (number(found[treatment, "cosine", end["length"], None].estimate) for end in ends)
    seen = f"mean cosine {with_bounds(slope, '+.4f')} per doubling of length"
    seen += f" ({short} at {ends[0]['name']} tokens, {long} at {ends[1]['name']})"
    if word == "biased":
        return (
            word,
            f"long texts are {'more' if slope.estimate > 0 else 'less'} alike than short ones; {seen}",
        )
    if word == "fair":
        return word, f"{seen}; within the margin of ±{margin:g}"
    entries = log.header.part(CollapseEntries)
    texts = [length.texts for length in entries.lengths]
    documents = min(texts) if entries.paired else sum(texts)
    needed = documents_needed(replace(slope, estimate=abs(slope.estimate)), margin, documents)
    outlook = (
        f"too close to the margin of ±{margin:g} for any realistic number of documents to decide"
    )
    if needed is not None:
        outlook = f"about {round_up(needed)} more document{'' if needed == 1 else 's'} would decide"
    return word, f"{outlook}; {seen}"


def judge(slope: Interval, margin: float) -> str:
    """Biased if the slope is significantly beyond the margin on either side, fair if significantly within both."""
    if slope.lower(0.975) > margin or slope.upper(0.975) < -margin:
        return "biased"
    return "fair" if -margin < slope.lower() and slope.upper() < margin else "inconclusive"


def suggestions(
    log: RunLog, found: Mapping[Key, Interval], tokens: Mapping[int, float], margin: float
) -> list[tuple[int, float | None, str]]:
    """Each length, the highest temperature that is shown to be enough for it, and if there is none, why.

    Enough is what makes texts no more alike than the shortest ones of the plain model, by less than the margin for
    each doubling of length. By Holm's correction over all temperatures and lengths, the chance that any advice is
    wrong is at most 5 %.
    """
    asked = [Treatment.from_dict(one) for one in log.spec["treatments"]]
    known = [(temperature_of(one), one.name) for one in asked if one.name in log.measured]
    tried = sorted(((value, name) for value, name in known if value is not None), reverse=True)
    (shortest, few), *longer = tokens.items()
    baseline = log.treatments[0]
    if not tried:
        return [
            (shortest, 1.0, ""),
            *((length, None, "no temperature was tried") for length, _ in longer),
        ]
    reach = {length: margin * log2(count / few) for length, count in longer}
    cells = {
        (length, name): found[name, "cosine", length, "short_baseline"]
        for length in reach
        for _, name in tried
    }
    tests = [one.below(reach[length]) for (length, _), one in cells.items()]
    enough = dict(zip(cells, holm(tests) < 0.05, strict=True))
    advised: list[tuple[int, float | None, str]] = [(shortest, 1.0, "")]
    for length in reach:
        best = next((value for value, name in tried if enough[length, name]), None)
        changes = [
            (found[name, "cosine", length, baseline], one)
            for one, name in tried
            if one < 1 and name != baseline
        ]
        helping = [(change.estimate, value) for change, value in changes if change.high < 0]
        why = "no temperature below 1 is shown to make them less alike"
        if cells[length, tried[0][1]].lower(0.975) <= reach[length]:
            why = "too few documents to tell whether they are more alike than the shortest"
        elif helping:
            why = f"{min(helping)[1]:g} helps most, and is not shown to be enough"
        advised.append((length, best, why if best is None else ""))
    return advised
