"""What a study of length found, as entries of its log: geometry, classification by length, a fitted schedule."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import Treatment
from fairspan.design.cuts import Cuts
from fairspan.stats.bootstrap import Interval
from fairspan.stats.geometry import replicate, slope_weights
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.collapse.schedules import fit_schedule, split
from fairspan.studies.collapse.spec import WORDS, temperature_of

GEOMETRY = ("cosine", "distance", "rank")


def geometry(clouds: Mapping[str, Sequence[np.ndarray]], cuts: Cuts, *, seed: int) -> list[dict[str, Any]]:
    """Every measure of every cloud of vectors with its interval, and what is compared with what.

    Where the same documents were cut to every length, differences are paired. Each entry has `against`: None for the
    value itself; a treatment for the change from it; "shortest" for the difference from the shortest texts of the
    same treatment, "short_baseline" for that from the first treatment's shortest texts, and "doubling" for what each
    doubling of length adds.
    """
    lengths = list(cuts.lengths)
    entries: list[dict[str, Any]] = []
    names = list(clouds)
    for measure in GEOMETRY:
        for name in names:
            paired = cuts.paired
            rng = np.random.default_rng(seed)
            own = list(clouds[name])
            if measure == "rank" and len({len(cloud) for cloud in own}) > 1:
                continue
            first = list(clouds[names[0]])
            both = own if name in (names[0], WORDS) else [*own, *first]
            drawn = replicate(both, measure, rng=rng, paired=paired)
            label = {"treatment": name, "measure": measure}
            intervals = drawn.intervals()
            for number, length in enumerate(lengths):
                entries.append({**label, "length": length, "against": None, **_plain(intervals[number])})
                if number:
                    change = drawn.difference(number, 0)
                    entries.append({**label, "length": length, "against": "shortest", **_plain(change)})
                if name != WORDS:
                    start = len(both) - len(first)
                    change = drawn.difference(number, start) if number + start else Interval(0.0, 0.0, 0.0)
                    entries.append({**label, "length": length, "against": "short_baseline", **_plain(change)})
                if len(both) > len(own):
                    change = drawn.difference(number, len(own) + number)
                    if not paired:
                        # The documents of one length are the same under both treatments, whatever those of another.
                        pair = [own[number], first[number]]
                        change = replicate(pair, measure, rng=np.random.default_rng(seed)).difference(0, 1)
                    entries.append({**label, "length": length, "against": names[0], **_plain(change)})
            if len(lengths) > 1:
                weights = np.zeros(len(both))
                weights[: len(own)] = _slope(lengths)
                slope = drawn.contrast(weights)
                entries.append({**label, "length": None, "against": "doubling", **_plain(slope)})
    return entries


def by_bin(rows: pl.DataFrame, treatments: Sequence[str], *, seed: int) -> list[dict[str, Any]]:
    """Accuracy and entropy of the tested texts by length, and their change from the first treatment."""
    entries: list[dict[str, Any]] = []
    for measure in ("correct", "entropy"):
        tables = {
            name: rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == name)) for name in treatments
        }
        first = tables[treatments[0]]
        lengths, groups = np.unique([int(part) for part in first["part"]], return_inverse=True)
        clusters, before = first["document"].to_numpy(), first["value"].to_numpy()
        for name, own in tables.items():
            values = own["value"].to_numpy()
            effects = query_effects(values, groups + 1, clusters, rng=np.random.default_rng(seed))
            label = {"treatment": name, "measure": measure}
            for length, one in zip(lengths.tolist(), effects.groups, strict=True):
                entries.append({**label, "length": length, "against": None, **_plain(one)})
            if name == treatments[0]:
                continue
            change = query_change(before, values, groups + 1, clusters, rng=np.random.default_rng(seed))
            for length, one in zip(lengths.tolist(), change.groups, strict=True):
                entries.append({**label, "length": length, "against": treatments[0], **_plain(one)})
    return entries


def fitted(
    rows: pl.DataFrame, treatments: Sequence[Treatment], lengths: Sequence[int], *, added: int = 0, seed: int
) -> dict[str, Any] | None:
    """A schedule of temperatures fitted on half of the classified documents, and what it does to the other half.

    None where fewer than two temperatures were tried, 1 among them.

    Args:
        added: the prompt's and special tokens of every text, which lengths leave out and schedules count.
    """
    tried = {one.name: value for one in treatments if (value := temperature_of(one)) is not None}
    if len(tried) < 2 or 1.0 not in tried.values():
        return None
    tables = {name: rows.filter((pl.col("measure") == "correct") & (pl.col("treatment") == name)) for name in tried}
    first = next(iter(tables.values()))
    scores = np.stack([table["value"].to_numpy() for table in tables.values()], axis=1)
    bins = np.array([int(part) for part in first["part"]])
    documents = first["document"].to_list()
    parts = split(documents, seed=seed)
    values = list(tried.values())
    found = fit_schedule(
        scores, bins, values, list(lengths), rng=np.random.default_rng(seed), documents=documents, split=parts
    )
    test = ~parts.in_fit(documents)
    chosen = np.array([values.index(one.temperature) for one in found.bins])
    taken = scores[np.arange(len(bins)), chosen[np.searchsorted(list(lengths), bins)]]
    clusters = np.array(documents)[test]
    change = query_change(
        scores[test, values.index(1.0)],
        taken[test],
        np.searchsorted(list(lengths), bins[test]) + 1,
        clusters,
        rng=np.random.default_rng(seed),
    )
    return {
        "acts": found.acts,
        "steps": [{"length": one.begin, "temperature": one.temperature} for one in found.bins],
        "schedule": [[begin + added, value] for begin, value in found.schedule.steps] if found.acts else [],
        "fitted_documents": len(set(documents)) - len(set(clusters.tolist())),
        "tested_documents": len(set(clusters.tolist())),
        "tested_change": _plain(change.overall),
        "notes": list(found.notes),
    }


def _slope(lengths: Sequence[int]) -> np.ndarray:
    # A bin of natural lengths that begins at 0 has its middle, not its beginning, as its length.
    return slope_weights([length or 50 for length in lengths])


def _plain(interval: Interval) -> dict[str, float | None]:
    values = {name: float(getattr(interval, name)) for name in ("estimate", "low", "high")}
    return {name: value if np.isfinite(value) else None for name, value in values.items()}
