"""`frames_of` an evaluation's log: verdicts, quality overall and by group, by length, and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from fairspan.report.frames import columns_of, frame_of
from fairspan.report.text import number, with_bounds
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.intervals import Interval
from fairspan.stats.queries import FEW_CLUSTERS, clusters_to_decide
from fairspan.studies.evaluate import measures
from fairspan.studies.evaluate.entries import EvaluateEntries
from fairspan.studies.evaluate.languages import language_records
from fairspan.studies.evaluate.measures import (
    RANK,
    Arm,
    Record,
    Result,
    arms_of,
    languages_of,
    metrics_of,
)
from fairspan.studies.evaluate.options import DOCUMENTS_ONLY

_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("treatment", "verdict", "sentence"), pl.String),
    **dict.fromkeys(("clusters", "more_clusters"), pl.Int64),
}
# From the least wanted to the best.
_ORDER = ("worse", "inconclusive", "not worse", "better")
_MOST_STEPS, _FEW_DOCUMENTS = 12, 30
SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""


def frames_of(log: RunLog) -> dict[str, pl.DataFrame]:
    """All statistics of a log by name, without empty frames except for the verdicts."""
    results, across = measures.results_of(log), languages_of(log)
    groups = [one for result in results for one in _groups(result, across)]
    records: dict[str, Sequence[Mapping[str, Any]]] = {
        "quality": [_quality(result) for result in results],
        "language_pairs" if across else "positions": groups,
        "languages": language_records(log, metrics_of(log)),
        "depths": _by_depth(log),
        "by_length": _by_length(log),
        "costs": _costs(log, results),
        "windows": [asdict(info) for info in log.header.windows or ()],
    }
    found = {name: frame_of(own) for name, own in records.items() if own}
    model = pl.lit(log.model).alias("model")
    return {
        name: own.select(model, pl.all())
        for name, own in {"verdicts": verdicts_of(log, results), **found}.items()
    }


def _quality(result: Result) -> Record:
    effects = result.effects
    return {
        **result.named,
        "queries": effects.counts.queries,
        "clusters": effects.counts.clusters,
        **columns_of(effects.overall),
        **columns_of(effects.psi, "psi_"),
        **columns_of(effects.harmonic, "harmonic_"),
        "p_value": result.p_value,
        "p_psi": result.p_psi,
        **measures.change_columns(result.change),
    }


def _groups(result: Result, languages: Sequence[str]) -> list[Record]:
    """One for each position of the evidence, or for each language of queries and of documents, in this order."""
    pairs = {measures.pair_name(pair): pair for pair in product(languages, repeat=2)}
    changes = [None] * len(result.groups) if result.change is None else result.change.groups
    counts, means = result.effects.counts.group_queries, result.effects.groups
    found = []
    for group, count, mean, change in zip(result.groups, counts, means, changes, strict=True):
        named = {"position": group}
        if languages:
            named = dict(zip(("query_language", "document_language"), pairs[group], strict=True))
        found.append(
            {
                **result.named,
                **named,
                "queries": count,
                **columns_of(mean),
                **columns_of(change, "change_"),
            }
        )
    return found


def _costs(log: RunLog, results: Sequence[Result]) -> list[Record]:
    """What each index takes: tokens to read, seconds, vectors and bytes, and what it finds.

    The seconds are None where all vectors were stored already.
    """
    entries = log.header.part(EvaluateEntries)
    costs = {Arm(cost.treatment, cost.index): asdict(cost) for cost in entries.costs}
    first = [one for one in results if (one.metric, one.plan) == (results[0].metric, "")]
    return [
        {**costs[one.arm], "metric": one.metric, "estimate": one.effects.overall.estimate}
        for one in first
    ]


def _by_depth(log: RunLog) -> list[Record]:
    """How often evidence is found by how many tokens come before it, where not every treatment reads so far."""
    metric, read = (
        _found(log),
        [info for info in log.header.windows or () if info.texts == "evidence"],
    )
    baseline = arms_of(log)[0]
    depths = measures.sorted_rows(log.rows.filter(measure=metric), baseline)["depth"]
    window = next((info.window for info in read if info.treatment == baseline.treatment), None)
    if not window or not any(info.cut for info in read) or depths.null_count() == len(depths):
        return []
    deep = depths.fill_null(-1).to_numpy()
    starts = _steps(deep[deep >= 0], window)
    groups = np.where(deep < 0, 0, np.searchsorted(starts, deep, side="right"))
    named = {"metric": metric, "plan": ""}
    steps = [
        {
            **named,
            "tokens_from": start,
            "tokens_to": end,
            "chance": _chance(log, metric),
            "queries": int(count),
        }
        for start, end, count in zip(
            starts, [*starts[1:], None], np.bincount(groups)[1:], strict=True
        )
    ]
    return _grouped(log, metric, groups, steps)


def _grouped(
    log: RunLog, measure: str, groups: np.ndarray, named: Sequence[Record]
) -> list[Record]:
    """The mean of every arm in each group of queries, which are `named`, and its change from the baseline."""
    tables = {
        arm: measures.sorted_rows(log.rows.filter(measure=measure), arm) for arm in arms_of(log)
    }
    (baseline, first), found, seed = (
        next(iter(tables.items())),
        list[Record](),
        log.header.seed,
    )
    for arm, table in tables.items():
        means = measures.effects_of(table, groups, seed).groups
        changes: Sequence[Interval | None] = [None] * len(named)
        if arm != baseline:
            changes = measures.change_of(first, table["value"].to_numpy(), groups, seed).groups
        for own, mean, change in zip(named, means, changes, strict=True):
            found.append(
                {**asdict(arm), **own, **columns_of(mean), **columns_of(change, "change_")}
            )
    return found


def _chance(log: RunLog, metric: str) -> float | None:
    """What a random ranking has of a recall."""
    name, _, first = metric.partition("@")
    task = log.header.searched
    return min(1.0, int(first) * (task.indexes or 1) / task.documents) if name == "recall" else None


def _found(log: RunLog) -> str:
    """The metric that says how often a document is found; among few documents, as the first one."""
    metrics, task = metrics_of(log), log.header.searched
    wanted = "recall@10" if task.documents / (task.indexes or 1) >= _FEW_DOCUMENTS else "recall@1"
    return wanted if wanted in metrics else metrics[0]


def _steps(depths: np.ndarray, window: int) -> list[int]:
    """Where a dozen steps at most begin, whose width is the window, or halves or doubles of it."""
    # The deepest few are in the last step, however deep they are.
    width, deepest = float(window), np.sort(depths)[-measures.LEAST_QUERIES :][0]
    while deepest >= _MOST_STEPS * width:
        width *= 2
    while deepest < _MOST_STEPS * width / 2 and width >= 2:
        width /= 2
    counts, read = np.bincount((depths // width).astype(np.int64)), round(window / width)
    numbers = measures.merged(counts)
    if min(counts[:read].sum(), counts[read:].sum()) >= measures.LEAST_QUERIES:
        # What the baseline reads and what it does not are never counted together.
        seen = measures.merged(counts[:read])
        numbers = [*seen, *(seen[-1] + number for number in measures.merged(counts[read:]))]
    starts = [round(width * numbers.index(number)) for number in dict.fromkeys(numbers)]
    inside = (depths >= window) & (depths < [*starts, np.inf][1])
    if (
        window < [*starts, np.inf][1]
        and min((depths < window).sum(), inside.sum()) >= measures.LEAST_QUERIES
    ):
        starts.insert(1, window)
    return starts


def _by_length(log: RunLog) -> list[Record]:
    """The first metric for the shortest and longest fifth of queries, and the mean rank of the longest documents.

    These are the longest fifth of those that answer a query, counted once for each query that they answer.
    """
    found = _length_groups(
        log, metrics_of(log)[0], "query_tokens", ("shortest queries", "longest queries")
    )
    if RANK in log.rows["measure"]:
        found += _length_groups(log, RANK, "tokens", ("longest documents",))
    return found


def _length_groups(log: RunLog, measure: str, column: str, names: tuple[str, ...]) -> list[Record]:
    """The last of `names` is for the longest, the one before it for the shortest; none where lengths are alike."""
    lengths = measures.sorted_rows(log.rows.filter(measure=measure), arms_of(log)[0])[
        column
    ].to_numpy()
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    if low == high:
        return []
    groups = np.where(lengths >= high, len(names), np.where(lengths <= low, len(names) - 1, 0))
    named = list[Record]()
    for place, name in enumerate(names, start=1):
        inside = lengths[groups == place]
        counted = {
            "count": len(inside),
            "tokens_from": int(inside.min()),
            "tokens_to": int(inside.max()),
        }
        named.append({"group": name, "measure": measure, **counted})
    return _grouped(log, measure, groups, named)


def verdicts_of(log: RunLog, results: Sequence[Result]) -> pl.DataFrame:
    """One row for each treatment of whole documents but the first.

    `clusters` are those of queries that it rests on; `more_clusters` about how many more would decide, or make sure
    where there are few; 0 if these are enough.
    """
    found, margin = [], float(log.spec["margin"])
    first = {one.arm: one for one in results if (one.metric, one.plan) == (results[0].metric, "")}
    for arm, one in first.items():
        # Documents-only forms belong to the verdict on the treatment itself, where that was measured.
        own = arm.name == arm.treatment or arm.name not in log.treatments
        if not own or arm.index != "whole" or one.change is None:
            continue
        chosen = _better_form(
            one, first.get(Arm(arm.treatment + DOCUMENTS_ONLY, arm.index)), margin
        )
        only = "documents only: " if chosen is not one else ""
        sentence = (
            f"{only}{_sentence(log, results[0], chosen)}{_cuts(log, results[0].arm, chosen.arm)}"
        )
        found.append(_row(arm.treatment, _judge(chosen, margin), sentence, chosen, margin))
    return pl.DataFrame(found, _SCHEMA, orient="row")


def _judge(result: Result, margin: float) -> str:
    """A loss is shown by its interval alone; a gain also has to pass the correction for several treatments."""
    assert result.change is not None
    overall, psi, worst = result.change.overall, result.change.psi, result.change.worst
    gains = overall.low > 0 and result.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and result.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "worse"
    if overall.low < -margin:
        return "inconclusive"
    return "better" if gains or fairer else "not worse"


def _better_form(both: Result, only: Result | None, margin: float) -> Result:
    """The treatment, or the same on documents only where that has the better verdict, or finds more and is better."""
    if only is None:
        return both
    ranks = [_ORDER.index(_judge(one, margin)) for one in (both, only)]
    finds_more = only.effects.overall.estimate > both.effects.overall.estimate
    return only if ranks[1] > ranks[0] or (ranks[0] == ranks[1] == 3 and finds_more) else both


def _row(name: str, verdict: str, sentence: str, result: Result, margin: float) -> tuple[Any, ...]:
    """A verdict that says how many clusters it rests on where more are needed."""
    assert result.change is not None
    clusters, change = result.effects.counts.clusters, result.change.overall
    settled = verdict in ("better", "worse") or (verdict == "not worse" and change.high <= margin)
    more = (
        0 if settled and clusters >= FEW_CLUSTERS else clusters_to_decide(change, clusters, margin)
    )
    few = f"; only {clusters} clusters of queries" if clusters < FEW_CLUSTERS else ""
    if more:
        sentence += (
            f"{few}: about {more:,} more" if few else f"; about {more:,} more clusters of queries"
        )
        sentence += " would confirm it" if settled else " would decide"
    else:
        sentence += few
    return name, verdict, sentence, clusters, more


def _sentence(log: RunLog, before: Result, after: Result) -> str:
    assert after.change is not None
    sides = before.effects, after.effects
    means = " → ".join(number(side.overall.estimate) for side in sides)
    words = f"{after.metric} {means} ({with_bounds(after.change.overall, '+.3f')})"
    if all(np.isfinite(side.psi.estimate) for side in sides):
        weakest = " → ".join(number(min(one.estimate for one in side.groups)) for side in sides)
        psi = " → ".join(number(side.psi.estimate, ".2f") for side in sides)
        words += f", {_weakest(log, before, after)} {weakest}, PSI {psi}"
    return words


def _weakest(log: RunLog, *sides: Result) -> str:
    """What the group is called in which least is found."""
    if not languages_of(log):
        return "weakest position"
    least = [int(np.argmin([one.estimate for one in side.effects.groups])) for side in sides]
    names = dict.fromkeys(side.groups[place] for side, place in zip(sides, least, strict=True))
    return f"weakest languages ({'; then '.join(names)})"


def _cuts(log: RunLog, *arms: Arm) -> str:
    """How many documents each of the two treatments did not read whole, if any."""
    unit = log.header.token_unit
    documents = {
        info.treatment: info for info in log.header.windows or () if info.texts == "documents"
    }
    read = [documents[arm.treatment] for arm in arms if arm.treatment in documents]
    if not any(info.cut for info in read):
        return ""
    cuts = [cut_words(info, unit) or "no document was cut" for info in read]
    if len(set(cuts)) == 1:
        return f"; {cuts[0]} under both"
    return "".join(f"; {info.treatment}: {cut}" for info, cut in zip(read, cuts, strict=True))
