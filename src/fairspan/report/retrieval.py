"""`RetrievalSummary`: what an evaluation's log says of each treatment and index, and what to do about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.log import AuditLog
from fairspan.report.summary import finite
from fairspan.stats.bootstrap import Interval
from fairspan.stats.queries import QueryChange, QueryCounts, QueryEffects, holm, query_change, query_effects

DOCUMENTS_ONLY = "+sides=document"
# Absolute positions are told in runs of so many tokens, of which the last one is open.
RUN, MOST_RUNS = 128, 8
_QUERY = ["lead", "later", "order", "query", "document"]


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
    """One metric of one arm.

    Attributes:
        plan: the language plan of the pages; empty for all of them together, or where there are none.
        groups: what each position group is called.
    """

    arm: Arm
    metric: str
    plan: str
    groups: tuple[str, ...]
    effects: QueryEffects

    def to_dict(self) -> dict[str, Any]:
        effects = self.effects
        return {
            "treatment": self.arm.treatment,
            "index": self.arm.index,
            "metric": self.metric,
            "plan": self.plan,
            "queries": effects.counts.queries,
            "clusters": effects.counts.clusters,
            "overall": interval_dict(effects.overall),
            "groups": [
                {"group": name, "queries": count, **interval_dict(mean)}
                for name, count, mean in zip(self.groups, effects.counts.group_queries, effects.groups, strict=True)
            ],
            "psi": interval_dict(effects.psi),
            "harmonic": interval_dict(effects.harmonic),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One metric of an arm against the baseline, on the same queries.

    Attributes:
        p_value, p_psi: of the randomisation tests, adjusted by Holm for all arms of that metric.
    """

    arm: Arm
    metric: str
    plan: str
    groups: tuple[str, ...]
    change: QueryChange
    p_value: float
    p_psi: float

    def to_dict(self) -> dict[str, Any]:
        change = self.change
        named = ("overall", "psi", "harmonic", "spread", "worst")
        return {
            "treatment": self.arm.treatment,
            "index": self.arm.index,
            "metric": self.metric,
            "plan": self.plan,
            **{name: interval_dict(getattr(change, name)) for name in named},
            "groups": [
                {"group": name, **interval_dict(one)} for name, one in zip(self.groups, change.groups, strict=True)
            ],
            "p_value": finite(self.p_value),
            "p_psi": finite(self.p_psi),
            "p_value_alone": finite(change.p_value),
            "p_psi_alone": finite(change.p_psi),
        }


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do with a treatment: "use", "documents only", "leave" or "more data"."""

    treatment: str
    kind: str
    sentence: str


@dataclass(frozen=True, slots=True)
class RetrievalSummary:
    """The statistics of one evaluation.

    Attributes:
        results: every metric of every arm, over all language plans together and, where there are several, for each.
        changes: the same against the first arm.
        runs: the first metric by how many tokens lie before the evidence; empty where it is not known.
    """

    log: AuditLog
    baseline: Arm
    results: tuple[Result, ...]
    changes: tuple[Change, ...]
    runs: tuple[Result, ...]
    advice: tuple[Advice, ...]

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(result.metric for result in self.results))

    @property
    def arms(self) -> list[Arm]:
        return list(dict.fromkeys(result.arm for result in self.results))

    @property
    def plans(self) -> list[str]:
        return list(dict.fromkeys(result.plan for result in self.results))

    def result(self, arm: Arm, metric: str, plan: str = "") -> Result:
        return next(one for one in self.results if (one.arm, one.metric, one.plan) == (arm, metric, plan))

    def change(self, arm: Arm, metric: str, plan: str = "") -> Change | None:
        """None for the baseline itself."""
        return next((one for one in self.changes if (one.arm, one.metric, one.plan) == (arm, metric, plan)), None)

    def cost(self, arm: Arm) -> dict[str, Any]:
        """What an arm's index takes: tokens to read, seconds, vectors and bytes.

        Where all vectors were stored already, `estimated` is true and the seconds are told from the speed of another
        index, of the same treatment if possible; None if nothing was embedded in this run.
        """
        costs = self.log.header["costs"]
        found = next(one for one in costs if (one["treatment"], one["index"]) == (arm.treatment, arm.index))
        timed = [one for one in costs if one["seconds"]]
        alike = [one for one in timed if one["treatment"] == arm.treatment] or timed
        if found["seconds"] is not None or not alike:
            return {**found, "estimated": False}
        return {**found, "seconds": found["tokens"] * alike[0]["seconds"] / alike[0]["tokens"], "estimated": True}

    def shown(self, most: int) -> list[Arm]:
        """The arms that a picture has room for: whole documents first, each treatment as it is advised."""
        advised = {one.treatment: one.kind for one in self.advice}
        whole = [arm for arm in self.arms if arm.index == self.baseline.index]
        kept = [arm for arm in whole if self._is_advised(arm, advised)]
        others = [arm for arm in self.arms if arm.index != self.baseline.index]
        others.sort(key=lambda arm: -self.result(arm, self.metrics[0]).effects.overall.estimate)
        return [*kept, *others][:most]

    def _is_advised(self, arm: Arm, advised: Mapping[str, str]) -> bool:
        name = arm.treatment.removesuffix(DOCUMENTS_ONLY)
        if name not in advised or Arm(name + DOCUMENTS_ONLY, arm.index) not in self.arms:
            return True
        return (advised[name] == "documents only") == (arm.treatment != name)

    def without(self, arms: Collection[Arm]) -> RetrievalSummary:
        """The same statistics with some arms left out; what was corrected for them stays so."""
        named = {arm.treatment for arm in arms}
        return replace(
            self,
            results=tuple(one for one in self.results if one.arm.treatment not in named),
            changes=tuple(one for one in self.changes if one.arm.treatment not in named),
            runs=tuple(one for one in self.runs if one.arm.treatment not in named),
            advice=tuple(one for one in self.advice if one.treatment not in named),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "run": self.log.run,
            "folder": str(self.log.folder),
            "model": self.log.model,
            "status": self.log.status,
            "task": self.log.header["task"],
            "notes": self.log.notes,
            "baseline": {"treatment": self.baseline.treatment, "index": self.baseline.index},
            "advice": [
                {"treatment": one.treatment, "advice": one.kind, "sentence": one.sentence} for one in self.advice
            ],
            "results": [result.to_dict() for result in self.results],
            "changes": [change.to_dict() for change in self.changes],
            "by_tokens_before": [result.to_dict() for result in self.runs],
            "costs": list(self.log.header["costs"]),
        }


def summarize_search(log: AuditLog) -> RetrievalSummary:
    """Statistics of every arm of an evaluation's log."""
    if log.header.get("verb") != "evaluate":
        raise LogError(f"the run {log.run} is an {log.header.get('verb')}, not an evaluation.")
    rows = log.rows.with_columns(plan=_plan())
    arms = arms_of(log)
    metrics = [metric for metric in log.spec["metrics"] if metric in rows["measure"].unique().to_list()]
    metrics = metrics or rows["measure"].unique(maintain_order=True).to_list()
    plans = rows["plan"].unique(maintain_order=True).to_list()
    seed = int(log.header["seed"])
    results, changes = [], []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(pl.col("plan") == plan)
        for metric in metrics:
            own = part.filter(pl.col("measure") == metric)
            found = {arm: sorted_rows(own, arm) for arm in arms}
            results += [_result(found[arm], arm, metric, plan, seed) for arm in arms]
            changes += _changes(found, metric, plan, seed)
    summary = RetrievalSummary(log, arms[0], tuple(results), tuple(changes), _runs(rows, arms, metrics[0], seed), ())
    margin = float(log.spec["margin"])
    if all(np.isnan(change.p_value) for change in changes):
        return summary
    advice = tuple(_advise(summary, arm.treatment, margin) for arm in arms[1:] if _main(arm, log.treatments))
    return RetrievalSummary(log, arms[0], summary.results, summary.changes, summary.runs, advice)


def compare_searches(first: AuditLog, second: AuditLog, treatments: tuple[str, str]) -> list[Change]:
    """Second minus first, on the queries that both runs asked of the same documents, index by index."""
    _refuse_other_pages(first, second)
    found = []
    for log, treatment in zip((first, second), treatments, strict=True):
        if treatment not in log.treatments:
            raise LogError(f"the run {log.run} has no treatment {treatment!r}, only {', '.join(log.treatments)}.")
        chosen = (pl.col("treatment") == treatment) & (pl.col("measure") != "rank")
        found.append(log.rows.filter(chosen).with_columns(plan=_plan()))
    # Of a page that has the same name in another draw, something else may stand at the query's position.
    keys = ["measure", "part", *_QUERY, *(["position"] if found[0]["lead"].null_count() < len(found[0]) else [])]
    joined = found[0].join(found[1], on=keys, suffix="_second", nulls_equal=True, maintain_order="left")
    if joined.is_empty():
        raise LogError(
            f"{first.run} and {second.run} have no query in common: paired differences need the same task, seed and "
            "metrics."
        )
    seed = int(first.header["seed"])
    changes = []
    for (metric, index), rows in joined.partition_by("measure", "part", as_dict=True, maintain_order=True).items():
        names, groups = _groups(rows)
        after = rows.with_columns(value=pl.col("value_second"))
        change = _change(rows, after, groups, seed)
        arm = Arm(f"{treatments[0]} → {treatments[1]}", str(index))
        changes.append(Change(arm, str(metric), "", names, change, change.p_value, change.p_psi))
    return changes


def _refuse_other_pages(first: AuditLog, second: AuditLog) -> None:
    """Pages are named by their place in the draw, so that other pages may have the same names."""
    tasks = [log.header["task"] for log in (first, second)]
    pages = any(task.get("positions") == "segments" for task in tasks)
    if pages and tasks[0].get("fingerprints") != tasks[1].get("fingerprints"):
        raise LogError(
            f"{first.run} and {second.run} searched different pages: paired differences need the same corpus, "
            "lengths, seed and tokenizer."
        )


def _plan() -> pl.Expr:
    lead, later = pl.col("lead").fill_null(""), pl.col("later").fill_null("")
    return pl.when(lead == later).then(lead).otherwise(lead + ":" + later)


def arms_of(log: AuditLog) -> list[Arm]:
    """What was searched, in the order of the treatments, whole documents first."""
    arms = [Arm(*pair) for pair in log.rows.select("treatment", "part").unique(maintain_order=True).rows()]
    return sorted(arms, key=lambda arm: (log.treatments.index(arm.treatment), arm.index != "whole"))


def sorted_rows(rows: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm, so ordered that those of two arms stand beside each other."""
    return rows.filter((pl.col("treatment") == arm.treatment) & (pl.col("part") == arm.index)).sort(_QUERY)


def _result(rows: pl.DataFrame, arm: Arm, metric: str, plan: str, seed: int) -> Result:
    names, groups = _groups(rows)
    values, clusters = rows["value"].to_numpy(), rows["set"].to_numpy()
    if _alone(rows):
        counts = QueryCounts(len(rows), rows["set"].n_unique(), (), ())
        return Result(arm, metric, plan, (), QueryEffects(_bare(values), (), _bare([]), _bare([]), counts))
    return Result(arm, metric, plan, names, query_effects(values, groups, clusters, rng=np.random.default_rng(seed)))


def _changes(found: Mapping[Arm, pl.DataFrame], metric: str, plan: str, seed: int) -> list[Change]:
    baseline, *others = found
    names, groups = _groups(found[baseline])
    names = () if _alone(found[baseline]) else names
    changes = [_change(found[baseline], found[arm], groups, seed) for arm in others]
    p_values, p_psi = holm([one.p_value for one in changes]), holm([one.p_psi for one in changes])
    return [
        Change(arm, metric, plan, names, change, float(p), float(q))
        for arm, change, p, q in zip(others, changes, p_values, p_psi, strict=True)
    ]


def _change(first: pl.DataFrame, second: pl.DataFrame, groups: np.ndarray, seed: int) -> QueryChange:
    before, after, clusters = first["value"].to_numpy(), second["value"].to_numpy(), first["set"].to_numpy()
    if _alone(first):
        none, counts = _bare([]), QueryCounts(len(first), len(first), (), ())
        return QueryChange(_bare(after - before), (), none, none, none, none, np.nan, np.nan, np.nan, 0, counts)
    return query_change(before, after, groups, clusters, rng=np.random.default_rng(seed))


def _alone(rows: pl.DataFrame) -> bool:
    """Whether there is nothing to resample: scores that are no means over queries, or a single query."""
    return rows["document"].null_count() == len(rows) or rows["set"].n_unique() < 2


def _bare(values: Any) -> Interval:
    """A mean without an interval."""
    mean = float(np.mean(values)) if len(values) else np.nan
    return Interval(mean, np.nan, np.nan, "there are no queries to resample")


def _groups(rows: pl.DataFrame) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the positions that occur, and which of them every query's evidence is at; 0 where unknown."""
    positions = rows["position"].fill_null(0).to_numpy()
    return _numbered(positions, [str(number) for number in range(int(positions.max(initial=0)) + 1)])


def _runs(rows: pl.DataFrame, arms: Sequence[Arm], metric: str, seed: int) -> tuple[Result, ...]:
    if rows["offset"].null_count() == len(rows) or _alone(rows):
        return ()
    found = []
    for arm in arms:
        own = sorted_rows(rows.filter(pl.col("measure") == metric), arm)
        runs = np.minimum(own["offset"].fill_null(-RUN).to_numpy() // RUN, MOST_RUNS - 1) + 1
        last = int(runs.max())
        names = ["", *(f"{RUN * number}–{RUN * number + RUN - 1}" for number in range(last))]
        if last == MOST_RUNS:
            names[-1] = f"{RUN * (last - 1)}…"
        kept, groups = _numbered(runs, names)
        values, clusters = own["value"].to_numpy(), own["set"].to_numpy()
        effects = query_effects(values, groups, clusters, rng=np.random.default_rng(seed))
        found.append(Result(arm, metric, "", kept, effects))
    return tuple(found)


def _numbered(groups: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Groups without the empty ones between them."""
    there = [number for number in np.unique(groups).tolist() if number > 0]
    renumbered = np.zeros(len(groups), dtype=np.int64)
    for place, number in enumerate(there, start=1):
        renumbered[groups == number] = place
    return tuple(names[number] for number in there), renumbered


def _main(arm: Arm, treatments: Sequence[str]) -> bool:
    """Whether an arm is what advice is about: a treatment of whole documents, its documents-only twin left aside."""
    twin = arm.treatment.removesuffix(DOCUMENTS_ONLY)
    return arm.index == "whole" and (twin == arm.treatment or twin not in treatments)


def _advise(summary: RetrievalSummary, treatment: str, margin: float) -> Advice:
    """Use it if it helps and costs no quality; on documents only if that does while both sides do not."""
    metric = summary.metrics[0]
    both = Arm(treatment, "whole")
    only = Arm(treatment + DOCUMENTS_ONLY, "whole")
    kind = _judge(summary.change(both, metric), margin)
    chosen, advice = both, kind
    if only in summary.arms:
        second = _judge(summary.change(only, metric), margin)
        better = _overall(summary, only, metric) > _overall(summary, both, metric)
        if (second == "use" and (kind != "use" or better)) or (second == "more data" and kind == "leave"):
            chosen, advice = only, "documents only" if second == "use" else second
    return Advice(treatment, advice, _sentence(summary, chosen, metric, advice))


def _judge(change: Change | None, margin: float) -> str:
    """A loss is told by its interval alone; a gain also has to stand the correction for several treatments."""
    assert change is not None
    overall, psi, worst = change.change.overall, change.change.psi, change.change.worst
    gains = overall.estimate > 0 and change.p_value < 0.05
    # The weakest position has to gain more than is lost over all of them.
    fairer = psi.estimate < 0 and worst.low > max(0.0, -overall.estimate) and change.p_psi < 0.05
    if overall.high < 0 and overall.low < -margin:
        return "leave"
    if gains or fairer:
        return "use" if overall.low >= -margin else "more data"
    return "leave" if overall.high <= margin else "more data"


def _overall(summary: RetrievalSummary, arm: Arm, metric: str) -> float:
    return summary.result(arm, metric).effects.overall.estimate


_ADVICE = {
    "use": "use it",
    "documents only": "use it on documents only",
    "leave": "leave it",
    "more data": "more queries are needed to decide",
}


def _sentence(summary: RetrievalSummary, arm: Arm, metric: str, advice: str) -> str:
    before, after = summary.result(summary.baseline, metric).effects, summary.result(arm, metric).effects
    change = summary.change(arm, metric)
    assert change is not None
    interval = change.change.overall
    words = (
        f"{_ADVICE[advice]}: {metric} {before.overall.estimate:.3f} → {after.overall.estimate:.3f} "
        f"({interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}])"
    )
    if np.isfinite(before.psi.estimate) and np.isfinite(after.psi.estimate):
        weakest = [min(one.estimate for one in effects.groups) for effects in (before, after)]
        words += (
            f", weakest position {weakest[0]:.3f} → {weakest[1]:.3f}, PSI {before.psi.estimate:.2f} → "
            f"{after.psi.estimate:.2f}"
        )
    return words.replace("-", "−")


def interval_dict(interval: Interval) -> dict[str, float | None]:
    """The JSON form of an interval."""
    return {name: finite(getattr(interval, name)) for name in ("estimate", "low", "high")}
