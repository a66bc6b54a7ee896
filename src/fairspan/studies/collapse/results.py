"""The statistics of a study of length, from its rows: geometry, classification by length, a fitted schedule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.stats.bootstrap import Interval
from fairspan.stats.contrasts import Contrast
from fairspan.stats.geometry import MEASURES, cosine_without, left_out, slope_weights
from fairspan.stats.jackknife import Jackknife, influences
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.collapse.schedules import FittedBin, fit_schedule, split
from fairspan.studies.collapse.spec import WORDS, temperature_of

Key = tuple[str, str, int | None, str | None]
"""Treatment, measure, length and what it is compared with."""

Cell = tuple[str, int]
"""A treatment and a length."""


def geometry(
    rows: pl.DataFrame, names: Sequence[str], tokens: Mapping[int, float], *, paired: bool, level: float = 0.95
) -> dict[Key, Contrast]:
    """Every measure of the vectors with its interval, and what is compared with what.

    Where the same documents were cut to every length, all differences are paired; otherwise those between treatments.
    The last entry of a key is None for the value itself; a treatment for the change from it; "shortest" for the
    difference from the shortest texts of the same treatment, "short_baseline" for that from the first treatment's
    shortest texts, and "doubling" for what each doubling of length adds.

    Args:
        names: the treatments that were measured, the baseline first, and the word control if there is one.
        tokens: the geometric mean of the tokens that the texts of each length have.
    """
    found: dict[Key, Contrast] = {}
    lengths, cells = list(tokens), list(product(names, tokens))
    unit = dict(zip(cells, np.eye(len(cells)), strict=True))
    slope = slope_weights(list(tokens.values())) if len(lengths) > 1 else None
    for measure in MEASURES:
        sample = _jackknife(rows, measure, cells, paired=paired)
        if sample is None:
            continue
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
                    found[name, measure, length, against] = sample.contrast(weights, level=level)
            if slope is not None:
                weights = np.sum([k * unit[name, length] for k, length in zip(slope, lengths, strict=True)], axis=0)
                found[name, measure, None, "doubling"] = sample.contrast(weights, level=level)
    return found


def _jackknife(rows: pl.DataFrame, measure: str, cells: Sequence[Cell], *, paired: bool) -> Jackknife | None:
    """A measure of every cell, and the same without each document; None if it was not measured."""
    kept = rows.filter(pl.col("measure").is_in([measure, f"{measure}_without"])).sort("document", "set")
    parts = {
        (one["measure"][0], one["treatment"][0], int(one["part"][0])): one["value"].to_numpy()
        for one in kept.partition_by("measure", "treatment", "part")
    }
    if not all((measure, *cell) in parts for cell in cells):
        return None
    own = [parts[measure, *cell] for cell in cells]
    if measure == "cosine":
        without = [cosine_without(values) for values in own]
        counts = [len(values) for values in own]
    elif all((f"{measure}_without", *cell) in parts for cell in cells):
        without = [parts[f"{measure}_without", *cell] for cell in cells]
        counts = [_documents(rows, *cell) for cell in cells]
    else:
        return None
    sizes = [left_out(count) if measure == "rank" else 1 for count in counts]
    samples = []
    for group in [list(range(len(cells)))] if paired else _by_length(cells):
        table = np.zeros((len(without[group[0]]), len(cells)))
        table[:, group] = influences(
            np.stack([without[place] for place in group], axis=1), counts[group[0]], sizes[group[0]]
        )
        samples.append(table)
    return Jackknife(np.array([values.mean() for values in own]), tuple(samples))


def _by_length(cells: Sequence[Cell]) -> Iterator[list[int]]:
    """The cells of each length, whose documents are the same under every treatment."""
    for length in dict.fromkeys(length for _, length in cells):
        yield [place for place, (_, other) in enumerate(cells) if other == length]


def _documents(rows: pl.DataFrame, treatment: str, length: int) -> int:
    return len(rows.filter(measure="cosine", treatment=treatment, part=str(length)))


def classification(
    rows: pl.DataFrame, names: Sequence[str], *, seed: int, level: float = 0.95
) -> dict[Key, Interval]:
    """Accuracy and entropy of the tested texts by length, and their change from the first treatment."""
    found: dict[Key, Interval] = {}
    for measure in ("correct", "entropy"):
        tables = {name: rows.filter(measure=measure, treatment=name) for name in names}
        first = tables[names[0]]
        if first.is_empty():
            continue
        lengths, groups = np.unique([int(part) for part in first["part"]], return_inverse=True)
        clusters, before = first["document"].to_numpy(), first["value"].to_numpy()
        for name, own in tables.items():
            values, rng = own["value"].to_numpy(), np.random.default_rng(seed)
            means = query_effects(values, groups + 1, clusters, rng=rng, level=level).groups
            found |= {(name, measure, n, None): one for n, one in zip(lengths.tolist(), means, strict=True)}
            if name != names[0]:
                rng = np.random.default_rng(seed)
                changes = query_change(before, values, groups + 1, clusters, rng=rng, level=level).groups
                found |= {(name, measure, n, names[0]): one for n, one in zip(lengths.tolist(), changes, strict=True)}
    return found


@dataclass(frozen=True, slots=True)
class Fitted:
    """A schedule of temperatures that was fitted on half of the classified documents.

    Attributes:
        bins: what each length got.
        schedule: its steps in tokens, special ones counted; empty if no text gets a temperature.
        change: of accuracy, on the other half.
    """

    bins: tuple[FittedBin, ...]
    schedule: tuple[tuple[int, float], ...]
    fitted_documents: int
    tested_documents: int
    change: Interval


def fitted(
    rows: pl.DataFrame,
    treatments: Sequence[Treatment],
    lengths: Sequence[int],
    *,
    added: int = 0,
    seed: int,
    level: float = 0.95,
) -> Fitted | None:
    """A schedule fitted on half of the classified documents, and what it does to the other half.

    None where nothing was classified, or fewer than two temperatures were measured, 1 among them.

    Args:
        added: the prompt's and special tokens of every text, which schedules count and lengths do not.
    """
    correct = rows.filter(measure="correct")
    measured = set(correct["treatment"])
    tried = {one.name: value for one in treatments if (value := temperature_of(one)) and one.name in measured}
    if len(tried) < 2 or 1.0 not in tried.values():
        return None
    tables = {name: correct.filter(treatment=name) for name in tried}
    first = next(iter(tables.values()))
    scores = np.stack([table["value"].to_numpy() for table in tables.values()], axis=1)
    bins = np.array([int(part) for part in first["part"]])
    documents, edges, values = first["document"].to_list(), list(lengths), list(tried.values())
    parts, rng = split(documents, seed=seed), np.random.default_rng(seed)
    found = fit_schedule(scores, bins, values, edges, rng=rng, documents=documents, split=parts, level=level)
    test, places = ~parts.in_fit(documents), np.searchsorted(edges, bins)
    chosen = np.array([values.index(one.temperature) for one in found.bins])[places]
    before, after = scores[test, values.index(1.0)], scores[test, chosen[test]]
    clusters, rng = np.array(documents)[test], np.random.default_rng(seed)
    change = query_change(before, after, places[test] + 1, clusters, rng=rng, level=level)
    tested = len(set(clusters.tolist()))
    steps = tuple((begin + added, value) for begin, value in found.schedule.steps) if found.acts else ()
    return Fitted(found.bins, steps, len(set(documents)) - tested, tested, change.overall)
