"""`RetrievalSummary`: what an evaluation's log says of each treatment and index, in numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.distributions import holm
from fairspan.stats.queries import QueryChange, QueryCounts, QueryEffects, query_change, query_effects

DOCUMENTS_ONLY = "+sides=document"
# Absolute positions are grouped into ranges of so many tokens, of which the last one is open.
RANGE, MOST_RANGES = 128, 8
QUERY_KEYS = ["lead", "later", "order", "query", "document"]


@dataclass(frozen=True, slots=True)
class Arm:
    """What was searched: documents and queries under a treatment, kept in an index of one kind."""

    treatment: str
    index: str

    def __str__(self) -> str:
        name = self.treatment.removesuffix(DOCUMENTS_ONLY)
        only = "" if name == self.treatment else ", documents only"
        return f"{name}{only}" + ("" if self.index == "whole" else f", {self.index}")


@dataclass(frozen=True, slots=True)
class Result:
    """One metric of one arm, and how it differs from the baseline on the same queries.

    Attributes:
        plan: the language plan of the pages; empty for all of them together, or where there are none.
        groups: what each position group is called.
        change: None for the baseline itself.
        p_value, p_psi: of the randomisation tests, adjusted by Holm for all arms of that metric.
    """

    arm: Arm
    metric: str
    plan: str
    groups: tuple[str, ...]
    effects: QueryEffects
    change: QueryChange | None = None
    p_value: float = np.nan
    p_psi: float = np.nan


@dataclass(frozen=True, slots=True)
class RetrievalSummary:
    """The statistics of one evaluation.

    Attributes:
        results: every metric of every arm, over all language plans together and, where there are several, for each.
        tokens_before: the first metric by the number of tokens before the evidence; empty where it is not known.
    """

    log: RunLog
    results: tuple[Result, ...]
    tokens_before: tuple[Result, ...]

    @property
    def baseline(self) -> Arm:
        return self.results[0].arm

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(result.metric for result in self.results))

    @property
    def arms(self) -> list[Arm]:
        return list(dict.fromkeys(result.arm for result in self.results))

    @property
    def plans(self) -> list[str]:
        return list(dict.fromkeys(result.plan for result in self.results))

    def result(self, arm: Arm, metric: str | None = None, plan: str = "") -> Result:
        """One result, of the first metric unless another is named."""
        wanted = (arm, metric or self.results[0].metric, plan)
        return next(one for one in self.results if (one.arm, one.metric, one.plan) == wanted)

    def cost(self, arm: Arm) -> dict[str, Any]:
        """What an arm's index takes: tokens to read, seconds, vectors and bytes.

        Where all vectors were stored already, `estimated` is true and the seconds follow from the speed of another
        index, of the same treatment if possible; None if nothing was embedded in this run.
        """
        costs = self.log.header["costs"]
        found = next(one for one in costs if (one["treatment"], one["index"]) == (arm.treatment, arm.index))
        timed = [one for one in costs if one["seconds"]]
        alike = [one for one in timed if one["treatment"] == arm.treatment] or timed
        if found["seconds"] is not None or not alike:
            return {**found, "estimated": False}
        return {**found, "seconds": found["tokens"] * alike[0]["seconds"] / alike[0]["tokens"], "estimated": True}

    def without(self, treatments: Collection[str]) -> RetrievalSummary:
        """The same statistics with some treatments left out; what was corrected for them stays so."""
        kept = [
            tuple(one for one in found if one.arm.treatment not in treatments)
            for found in (self.results, self.tokens_before)
        ]
        return replace(self, results=kept[0], tokens_before=kept[1])


def summarize_search(log: RunLog) -> RetrievalSummary:
    """Statistics of every arm of an evaluation's log."""
    require_evaluation(log)
    rows, arms = with_plan(log.rows), arms_of(log)
    measured = rows["measure"].unique(maintain_order=True).to_list()
    metrics = [metric for metric in log.spec["metrics"] if metric in measured] or measured
    plans = rows["plan"].unique(maintain_order=True).to_list()
    seed = int(log.header["seed"])
    results = []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(pl.col("plan") == plan)
        for metric in metrics:
            results += _results(part.filter(pl.col("measure") == metric), arms, metric, plan, seed)
    return RetrievalSummary(log, tuple(results), _by_tokens_before(rows, arms, metrics[0], seed))


def require_evaluation(log: RunLog) -> None:
    if log.header.get("verb") != "evaluate":
        raise LogError(f"the run {log.run} is an {log.header.get('verb')}, not an evaluation.")


def with_plan(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the language plan that each belongs to."""
    lead, later = pl.col("lead").fill_null(""), pl.col("later").fill_null("")
    return rows.with_columns(plan=pl.when(lead == later).then(lead).otherwise(lead + ":" + later))


def arms_of(log: RunLog) -> list[Arm]:
    """What was searched: whole documents first, in the order of the treatments."""
    arms = [Arm(*pair) for pair in log.rows.select("treatment", "part").unique(maintain_order=True).rows()]
    return sorted(arms, key=lambda arm: (arm.index != "whole", log.treatments.index(arm.treatment)))


def sorted_rows(rows: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm, so ordered that those of two arms stand beside each other."""
    return rows.filter((pl.col("treatment") == arm.treatment) & (pl.col("part") == arm.index)).sort(QUERY_KEYS)


def position_groups(rows: pl.DataFrame) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the positions that occur, and which of them every query's evidence is at; 0 where unknown."""
    positions = rows["position"].fill_null(0).to_numpy()
    return _numbered(positions, [str(number) for number in range(int(positions.max(initial=0)) + 1)])


def change_of(before: pl.DataFrame, after: np.ndarray, groups: np.ndarray, seed: int) -> QueryChange:
    """The values `after` minus those of the rows `before`, which are of the same queries."""
    values, clusters = before["value"].to_numpy(), before["set"].to_numpy()
    if _alone(before):
        none, counts = _bare([]), QueryCounts(len(before), len(before), ())
        return QueryChange(_bare(after - values), (), none, none, none, none, np.nan, np.nan, counts)
    return query_change(values, after, groups, clusters, rng=np.random.default_rng(seed))


def _results(rows: pl.DataFrame, arms: Sequence[Arm], metric: str, plan: str, seed: int) -> list[Result]:
    first, *others = (sorted_rows(rows, arm) for arm in arms)
    names, groups = ((), np.zeros(0)) if _alone(first) else position_groups(first)
    effects = [_effects(own, groups, seed) for own in (first, *others)]
    changes = [change_of(first, own["value"].to_numpy(), groups, seed) for own in others]
    p_values, p_psi = holm([one.p_value for one in changes]), holm([one.p_psi for one in changes])
    return [
        Result(arms[0], metric, plan, names, effects[0]),
        *(
            Result(arm, metric, plan, names, own, change, float(p), float(q))
            for arm, own, change, p, q in zip(arms[1:], effects[1:], changes, p_values, p_psi, strict=True)
        ),
    ]


def _effects(rows: pl.DataFrame, groups: np.ndarray, seed: int) -> QueryEffects:
    values, clusters = rows["value"].to_numpy(), rows["set"].to_numpy()
    if _alone(rows):
        counts = QueryCounts(len(rows), rows["set"].n_unique(), ())
        return QueryEffects(_bare(values), (), _bare([]), _bare([]), counts)
    return query_effects(values, groups, clusters, rng=np.random.default_rng(seed))


def _alone(rows: pl.DataFrame) -> bool:
    """Whether there is nothing to resample: scores that are no means over queries, or a single cluster."""
    return rows["document"].null_count() == len(rows) or rows["set"].n_unique() < 2


def _bare(values: Any) -> Interval:
    """A mean without an interval."""
    mean = float(np.mean(values)) if len(values) else np.nan
    return Interval(mean, np.nan, np.nan, "there are no queries to resample")


def _by_tokens_before(rows: pl.DataFrame, arms: Sequence[Arm], metric: str, seed: int) -> tuple[Result, ...]:
    if rows["offset"].null_count() == len(rows) or _alone(rows):
        return ()
    names = ["", *(f"{RANGE * number}–{RANGE * number + RANGE - 1}" for number in range(MOST_RANGES - 1))]
    names.append(f"{RANGE * (MOST_RANGES - 1)}…")
    found = []
    for arm in arms:
        own = sorted_rows(rows.filter(pl.col("measure") == metric), arm)
        ranges = np.minimum(own["offset"].fill_null(-RANGE).to_numpy() // RANGE, MOST_RANGES - 1) + 1
        kept, groups = _numbered(ranges, names)
        found.append(Result(arm, metric, "", kept, _effects(own, groups, seed)))
    return tuple(found)


def _numbered(groups: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Groups without the empty ones between them."""
    there = [number for number in np.unique(groups).tolist() if number > 0]
    renumbered = np.zeros(len(groups), dtype=np.int64)
    for place, number in enumerate(there, start=1):
        renumbered[groups == number] = place
    return tuple(names[number] for number in there), renumbered
