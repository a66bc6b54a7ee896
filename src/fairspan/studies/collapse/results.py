"""What a study of length found, as entries of its log: geometry, classification by length, a fitted schedule."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.design.cuts import Cuts
from fairspan.stats.bootstrap import Interval
from fairspan.stats.geometry import MEASURES, replicate, slope_weights
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.collapse.schedules import fit_schedule, split
from fairspan.studies.collapse.spec import WORDS, temperature_of


def geometry(clouds: Mapping[str, Sequence[np.ndarray]], cuts: Cuts, *, seed: int) -> list[dict[str, Any]]:
    """Every measure of every cloud of vectors with its interval, and what is compared with what.

    Where the same documents were cut to every length, differences are paired. Each entry has `against`: None for the
    value itself; a treatment for the change from it; "shortest" for the difference from the shortest texts of the
    same treatment, "short_baseline" for that from the first treatment's shortest texts, and "doubling" for what each
    doubling of length adds.
    """
    lengths, names = cuts.lengths, list(clouds)
    first = list(clouds[names[0]])
    entries: list[dict[str, Any]] = []
    for measure, name in product(MEASURES, names):
        own = list(clouds[name])
        if measure == "rank" and len({len(cloud) for cloud in own}) > 1:
            continue
        both = own if name in (names[0], WORDS) else [*own, *first]
        start = len(both) - len(first)
        drawn = replicate(both, measure, rng=np.random.default_rng(seed), paired=cuts.paired)
        for number, (length, value) in enumerate(zip(lengths, drawn.intervals(), strict=False)):
            entries.append(_entry(name, measure, length, None, value))
            if number:
                entries.append(_entry(name, measure, length, "shortest", drawn.difference(number, 0)))
            if name != WORDS:
                change = drawn.difference(number, start) if number + start else Interval(0.0, 0.0, 0.0)
                entries.append(_entry(name, measure, length, "short_baseline", change))
            if start:
                change = drawn.difference(number, start + number)
                if not cuts.paired:
                    # The documents of one length are the same under both treatments, whatever those of another.
                    pair = replicate([own[number], first[number]], measure, rng=np.random.default_rng(seed))
                    change = pair.difference(0, 1)
                entries.append(_entry(name, measure, length, names[0], change))
        if len(lengths) > 1:
            # A bin of natural lengths that begins at 0 has its middle, not its beginning, as its length.
            slope = slope_weights([length or 50 for length in lengths])
            weights = np.concatenate([slope, np.zeros(start)])
            entries.append(_entry(name, measure, None, "doubling", drawn.contrast(weights)))
    return entries


def by_bin(rows: pl.DataFrame, treatments: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Accuracy and entropy of the tested texts by length, and their change from the first treatment."""
    entries: list[dict[str, Any]] = []
    for measure in ("correct", "entropy"):
        tables = {name: rows.filter(measure=measure, treatment=name) for name in treatments}
        first = tables[treatments[0]]
        lengths, groups = np.unique([int(part) for part in first["part"]], return_inverse=True)
        clusters, before = first["document"].to_numpy(), first["value"].to_numpy()
        for name, own in tables.items():
            values = own["value"].to_numpy()
            rng = np.random.default_rng(seed)
            found = query_effects(values, groups + 1, clusters, rng=rng).groups
            entries += [
                _entry(name, measure, length, None, one) for length, one in zip(lengths.tolist(), found, strict=True)
            ]
            if name != treatments[0]:
                rng = np.random.default_rng(seed)
                found = query_change(before, values, groups + 1, clusters, rng=rng).groups
                pairs = zip(lengths.tolist(), found, strict=True)
                entries += [_entry(name, measure, length, treatments[0], one) for length, one in pairs]
    return entries


def fitted(
    rows: pl.DataFrame, treatments: Sequence[Treatment], lengths: Sequence[int], *, added: int = 0, seed: int
) -> dict[str, Any] | None:
    """A schedule of temperatures fitted on half of the classified documents, and what it does to the other half.

    None where fewer than two temperatures were tried, 1 among them.

    Args:
        added: the prompt's and special tokens of every text, which schedules count and lengths do not.
    """
    tried = {one.name: value for one in treatments if (value := temperature_of(one)) is not None}
    if len(tried) < 2 or 1.0 not in tried.values():
        return None
    tables = {name: rows.filter(measure="correct", treatment=name) for name in tried}
    first = next(iter(tables.values()))
    scores = np.stack([table["value"].to_numpy() for table in tables.values()], axis=1)
    bins = np.array([int(part) for part in first["part"]])
    documents, edges, values = first["document"].to_list(), list(lengths), list(tried.values())
    parts, rng = split(documents, seed=seed), np.random.default_rng(seed)
    found = fit_schedule(scores, bins, values, edges, rng=rng, documents=documents, split=parts)
    test, places = ~parts.in_fit(documents), np.searchsorted(edges, bins)
    chosen = np.array([values.index(one.temperature) for one in found.bins])[places]
    before, after = scores[test, values.index(1.0)], scores[test, chosen[test]]
    clusters, rng = np.array(documents)[test], np.random.default_rng(seed)
    change = query_change(before, after, places[test] + 1, clusters, rng=rng)
    tested = len(set(clusters.tolist()))
    return {
        "acts": found.acts,
        "steps": [{"length": one.begin, "temperature": one.temperature} for one in found.bins],
        "schedule": [[begin + added, value] for begin, value in found.schedule.steps] if found.acts else [],
        "fitted_documents": len(set(documents)) - tested,
        "tested_documents": tested,
        "tested_change": _plain(change.overall),
        "notes": list(found.notes),
    }


def _entry(treatment: str, measure: str, length: int | None, against: str | None, found: Interval) -> dict[str, Any]:
    return {"treatment": treatment, "measure": measure, "length": length, "against": against, **_plain(found)}


def _plain(interval: Interval) -> dict[str, float | None]:
    values = {name: float(getattr(interval, name)) for name in ("estimate", "low", "high")}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
