"""`RetrievalSummary`: what an evaluation's log says of each treatment and index, in numbers, also by length."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
import polars as pl

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.distributions import holm
from fairspan.stats.queries import QueryChange, QueryCounts, QueryEffects, query_change, query_effects

DOCUMENTS_ONLY = "+sides=document"
SHARE = 0.2
"""Of the queries or documents, those that count as shortest or longest (LC §5)."""
# Absolute positions are grouped into ranges of so many tokens, of which the last one is open.
RANGE, MOST_RANGES = 128, 8
RANK = "rank"
QUERY_KEYS = ["lead", "later", "order", "query", "document", "document_language"]


@dataclass(frozen=True, slots=True)
class Arm:
    """What was searched: documents and queries under a treatment, kept in an index of one kind."""

    treatment: str
    index: str

    @property
    def name(self) -> str:
        """The treatment, whether or not it acts on documents only."""
        return self.treatment.removesuffix(DOCUMENTS_ONLY)

    def __str__(self) -> str:
        only = "" if self.name == self.treatment else ", documents only"
        return f"{self.name}{only}" + ("" if self.index == "whole" else f", {self.index}")


@dataclass(frozen=True, slots=True)
class Result:
    """One metric of one arm, and how it differs from the baseline on the same queries.

    Attributes:
        plan: the language plan of the pages; empty for all of them together, or where there are none.
        groups: what each group of queries is called: positions, or pairs of languages.
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

    @property
    def by_group(self) -> list[tuple[str, int, Interval, Interval | None]]:
        """Of every group its name, number of queries, mean and change."""
        changes = [None] * len(self.groups) if self.change is None else self.change.groups
        counts, means = self.effects.counts.group_queries, self.effects.groups
        return list(zip(self.groups, counts, means, changes, strict=True))

    @property
    def overall_change(self) -> Interval | None:
        return None if self.change is None else self.change.overall


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """A metric of one arm on the shortest or longest queries, or the mean rank of the longest documents.

    `tokens` are the shortest and the longest of them; `change` is against the first arm on the same queries.
    """

    arm: Arm
    group: str
    measure: str
    count: int
    tokens: tuple[int, int]
    value: Interval
    change: Interval | None


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

    def twin_of(self, arm: Arm) -> Arm | None:
        """The same treatment on documents only, if it was measured as well."""
        twin = Arm(arm.treatment + DOCUMENTS_ONLY, arm.index)
        return twin if twin in self.arms else None

    def cost(self, arm: Arm) -> dict[str, Any]:
        """What an arm's index takes: tokens to read, seconds, vectors and bytes.

        Where all vectors were stored already, `estimated` is true and the seconds follow from the speed of another
        index, of the same treatment if possible; None if nothing was embedded in this run.
        """
        costs = self.log.header["costs"]
        found = next(one for one in costs if (one["treatment"], one["index"]) == (arm.treatment, arm.index))
        timed = [one for one in costs if one["seconds"]]
        other = next((one for one in timed if one["treatment"] == arm.treatment), timed[0] if timed else None)
        if found["seconds"] is not None or other is None:
            return {**found, "estimated": False}
        return {**found, "seconds": found["tokens"] * other["seconds"] / other["tokens"], "estimated": True}

    def without(self, treatments: Collection[str]) -> Self:
        """The same statistics without some treatments; p values stay corrected for them."""
        results = tuple(one for one in self.results if one.arm.treatment not in treatments)
        before = tuple(one for one in self.tokens_before if one.arm.treatment not in treatments)
        return replace(self, results=results, tokens_before=before)


def summarize_search(log: RunLog) -> RetrievalSummary:
    """Statistics of every arm of an evaluation's log."""
    arms = _arms_of(log)
    lead, later = pl.col("lead").fill_null(""), pl.col("later").fill_null("")
    rows = log.rows.with_columns(plan=pl.when(lead == later).then(lead).otherwise(lead + ":" + later))
    measured = rows["measure"].unique(maintain_order=True).to_list()
    metrics = [metric for metric in log.spec["metrics"] if metric in measured] or measured
    plans = rows["plan"].unique(maintain_order=True).to_list()
    seed = int(log.header["seed"])
    results = []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(plan=plan)
        for metric in metrics:
            results += _results(part.filter(measure=metric), arms, metric, plan, seed, languages_of(log))
    return RetrievalSummary(log, tuple(results), _by_tokens_before(rows, arms, metrics[0], seed))


def languages_of(log: RunLog) -> list[str]:
    """The languages of queries and documents, if the evaluation searched across several."""
    return list(log.header["task"].get("languages", ()))


def by_length(log: RunLog) -> list[LengthGroup]:
    """The first metric for the shortest and longest fifth of queries, and the mean rank of the longest documents.

    These are the longest fifth of those that answer a query, counted once for each query that they answer.
    """
    arms = _arms_of(log)
    measured = log.rows["measure"].unique().to_list()
    metric = next((name for name in log.spec["metrics"] if name in measured), None)
    found: list[LengthGroup] = []
    if metric is not None and log.rows["query_tokens"].null_count() < len(log.rows):
        found += _length_groups(log, arms, metric, "query_tokens", ("shortest queries", "longest queries"))
    if RANK in measured:
        found += _length_groups(log, arms, RANK, "tokens", ("longest documents",))
    return found


def _length_groups(
    log: RunLog, arms: Sequence[Arm], measure: str, column: str, names: tuple[str, ...]
) -> list[LengthGroup]:
    """The last of `names` is for the longest, the one before it for the shortest."""
    rows = log.rows.filter(measure=measure)
    tables = {arm: sorted_rows(rows, arm) for arm in arms}
    baseline, first = next(iter(tables.items()))
    lengths, clusters, before = (first[name].to_numpy() for name in (column, "set", "value"))
    low, high = np.quantile(lengths, [SHARE, 1 - SHARE])
    groups = np.zeros(len(lengths), dtype=np.int64)
    if len(names) > 1:
        groups[lengths <= low] = 1
    groups[lengths >= high] = len(names)
    if len(np.unique(groups[groups > 0])) < len(names) or low == high:
        return []
    seed = int(log.header["seed"])
    found = []
    for arm, table in tables.items():
        own = table["value"].to_numpy()
        effects = query_effects(own, groups, clusters, rng=np.random.default_rng(seed))
        changes: Sequence[Interval | None] = [None] * len(names)
        if arm != baseline:
            changes = query_change(before, own, groups, clusters, rng=np.random.default_rng(seed)).groups
        for number, (name, mean, change) in enumerate(zip(names, effects.groups, changes, strict=True), start=1):
            inside = lengths[groups == number]
            tokens = int(inside.min()), int(inside.max())
            found.append(LengthGroup(arm, name, measure, len(inside), tokens, mean, change))
    return found


def _arms_of(log: RunLog) -> list[Arm]:
    """What was searched: whole documents first, in the order of the treatments."""
    if log.header.get("verb") != "evaluate":
        raise LogError(f"the run {log.run} is an {log.header.get('verb')}, not an evaluation.")
    arms = [Arm(*pair) for pair in log.rows.select("treatment", "part").unique(maintain_order=True).rows()]
    return sorted(arms, key=lambda arm: (arm.index != "whole", log.treatments.index(arm.treatment)))


def sorted_rows(rows: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm, in the same order for all arms."""
    return rows.filter(treatment=arm.treatment, part=arm.index).sort(QUERY_KEYS)


def query_groups(rows: pl.DataFrame, languages: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the groups that are compared, and the group of every query; 0 for none.

    Across languages, these are the pairs of a query's and a document's language; else the positions of the evidence.
    """
    if languages:
        names = ["", *(pair_name(*pair) for pair in product(languages, repeat=2))]
        return _numbered(pair_codes(rows, languages), names)
    positions = rows["position"].fill_null(0).to_numpy()
    return _numbered(positions, [str(number) for number in range(int(positions.max(initial=0)) + 1)])


def pair_name(query: str, document: str) -> str:
    return f"query {query}, document {document}"


def pair_codes(rows: pl.DataFrame, languages: Sequence[str]) -> np.ndarray:
    """The number of every row's pair of languages from 1 on, by the query's, then by the document's; 0 for none."""
    place = {language: number for number, language in enumerate(languages)}
    numbers = [
        rows[name].replace_strict(place, default=None, return_dtype=pl.Int64)
        for name in ("language", "document_language")
    ]
    return (numbers[0] * len(languages) + numbers[1] + 1).fill_null(0).to_numpy()


def change_of(before: pl.DataFrame, after: np.ndarray, groups: np.ndarray, seed: int) -> QueryChange:
    """The values `after` minus those of the rows `before`, which are of the same queries."""
    values, clusters = before["value"].to_numpy(), before["set"].to_numpy()
    if _alone(before):
        none, counts = _bare([]), QueryCounts(len(before), len(before), ())
        return QueryChange(_bare(after - values), (), none, none, none, none, np.nan, np.nan, counts)
    return query_change(values, after, groups, clusters, rng=np.random.default_rng(seed))


def _results(
    rows: pl.DataFrame, arms: Sequence[Arm], metric: str, plan: str, seed: int, languages: Sequence[str]
) -> list[Result]:
    first, *others = (sorted_rows(rows, arm) for arm in arms)
    names, groups = ((), np.zeros(0)) if _alone(first) else query_groups(first, languages)
    effects = [_effects(own, groups, seed) for own in (first, *others)]
    changes = [change_of(first, own["value"].to_numpy(), groups, seed) for own in others]
    p_values, p_psi = holm([one.p_value for one in changes]), holm([one.p_psi for one in changes])
    found = [Result(arms[0], metric, plan, names, effects[0])]
    for arm, own, change, p, q in zip(arms[1:], effects[1:], changes, p_values, p_psi, strict=True):
        found.append(Result(arm, metric, plan, names, own, change, float(p), float(q)))
    return found


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
    # Across languages, the same evidence is after different numbers of tokens.
    known = rows["offset"].null_count() < len(rows) and rows["document_language"].null_count() == len(rows)
    if not known or _alone(rows):
        return ()
    names = ["", *(f"{RANGE * number}–{RANGE * number + RANGE - 1}" for number in range(MOST_RANGES - 1))]
    names.append(f"{RANGE * (MOST_RANGES - 1)}…")
    found = []
    for arm in arms:
        own = sorted_rows(rows.filter(measure=metric), arm)
        ranges = np.minimum(own["offset"].fill_null(-RANGE).to_numpy() // RANGE, MOST_RANGES - 1) + 1
        kept, groups = _numbered(ranges, names)
        found.append(Result(arm, metric, "", kept, _effects(own, groups, seed)))
    return tuple(found)


def _numbered(groups: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Groups without the empty ones between them."""
    there = np.unique(groups[groups > 0])
    renumbered = np.where(groups > 0, np.searchsorted(there, groups) + 1, 0)
    return tuple(names[number] for number in there), renumbered
