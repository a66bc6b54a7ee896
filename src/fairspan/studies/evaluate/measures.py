"""`results_of` an evaluation's log: every metric of every arm, query by query against the first."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from fairspan.calibration.treatment import PLAIN
from fairspan.report.frames import columns_of
from fairspan.retrieval.indexes import ONE_PER_CHUNK, most_vectors
from fairspan.runs.header import IndexCost
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.queries import QueryChange, QueryEffects, query_change, query_effects
from fairspan.studies.evaluate.options import DOCUMENTS_ONLY

Columns = dict[str, Any]
"""The values of a frame's row by column."""
RANK = "rank"
LEAST_QUERIES = 20
"""At a depth or in a fifth of a document; fewer are counted with those beside them."""
QUERY_KEYS = ["lead", "later", "order", "query", "document", "document_language"]


@dataclass(frozen=True, slots=True)
class EvaluateEntries:
    """What the indexes take, and details of how it was measured. A run adds to both.

    `drawn_from` is how many documents an index could have, if not all of them were drawn, and
    `left_out` names those that no passage could be cut out of.
    """

    costs: list[IndexCost] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    drawn_from: int | None = None
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SearchArm:
    """What was searched: documents and queries under a treatment, kept in an index of one kind."""

    treatment: str
    index: str

    @property
    def name(self) -> str:
        """The treatment, whether or not it acts on documents only."""
        return self.treatment.removesuffix(DOCUMENTS_ONLY)

    def __str__(self) -> str:
        name = self.name + ("" if self.name == self.treatment else ", documents only")
        if self.index == ONE_PER_CHUNK:
            return "one vector per chunk" if name == PLAIN else f"{name}, one vector per chunk"
        return name if self.index == "whole" else f"{name}, {self.index}"


@dataclass(frozen=True, slots=True)
class Result:
    """One metric of one arm, and how it differs from the baseline on the same queries.

    Attributes:
        plan: the language plan of the pages; empty for all queries.
        groups: the names of groups of queries: positions, or pairs of languages.
        change: None for the baseline itself.
        p_value, p_psi: of the randomisation tests, adjusted by Holm for all arms of that metric.
    """

    arm: SearchArm
    metric: str
    plan: str
    groups: tuple[str, ...]
    effects: QueryEffects
    change: QueryChange | None = None
    p_value: float = np.nan
    p_psi: float = np.nan

    @property
    def labels(self) -> Columns:
        return {**asdict(self.arm), "metric": self.metric, "plan": self.plan}


def is_benchmark(log: RunLog) -> bool:
    """Whether mteb scored the tasks: such a run has no metrics of queries."""
    return log.verb == "evaluate" and "metrics" not in log.spec


def results_of(log: RunLog) -> list[Result]:
    """Every metric of every arm, over all language plans and, if there are several, for each."""
    lead = pl.col("lead").fill_null("")
    later = pl.col("later").fill_null("")
    plan_name = pl.when(lead == later).then(lead).otherwise(lead + ":" + later)
    rows = log.rows.with_columns(plan=plan_name)
    plans = rows["plan"].unique(maintain_order=True).to_list()
    results = []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(plan=plan)
        for metric in metrics_of(log):
            results += _results(log, part.filter(measure=metric), metric, plan)
    return results


def first_metric_of(log: RunLog) -> list[Result]:
    """The first metric of every arm over all language plans, which verdicts are about."""
    metric = metrics_of(log)[0]
    return _results(log, log.rows.filter(measure=metric), metric, "")


def arms_of(log: RunLog) -> list[SearchArm]:
    """What was searched: whole documents first, in the order of the treatments."""
    pairs = log.rows.select("treatment", "part").unique(maintain_order=True)
    arms = [SearchArm(*pair) for pair in pairs.rows()]
    return sorted(arms, key=lambda arm: (arm.index != "whole", log.treatments.index(arm.treatment)))


def references_of(log: RunLog) -> list[SearchArm]:
    """One vector per chunk, which no treatment of one vector is expected to reach."""
    arms = arms_of(log)
    numbers = {arm.index for arm in arms if most_vectors(arm.index) is not None}
    if log.spec.get("vectors") or numbers - {"whole", ONE_PER_CHUNK}:
        return []
    return [arm for arm in arms if arm.index == ONE_PER_CHUNK]


def metrics_of(log: RunLog) -> list[str]:
    """Those that were asked for and measured."""
    measured = log.rows["measure"].unique().to_list()
    return [metric for metric in log.spec["metrics"] if metric in measured]


def languages_of(log: RunLog) -> list[str]:
    """The languages that were searched across."""
    return log.header.searched.languages or []


def sorted_rows(rows: pl.DataFrame, arm: SearchArm) -> pl.DataFrame:
    """The rows of an arm, in the same order for all arms."""
    return rows.filter(treatment=arm.treatment, part=arm.index).sort(QUERY_KEYS)


def query_groups(
    rows: pl.DataFrame, languages: Sequence[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the groups that are compared, and the group of every query; 0 for none."""
    if languages:
        groups = pair_codes(rows, languages)
        names = ["", *map(pair_name, product(languages, repeat=2))]
    else:
        groups = rows["position"].fill_null(0).to_numpy()
        names = [str(number) for number in range(int(groups.max(initial=0)) + 1)]
    present, counts = np.unique(groups[groups > 0], return_counts=True)
    # Without the empty ones between them.
    renumbered = np.where(groups > 0, np.searchsorted(present, groups) + 1, 0)
    kept = [names[number] for number in present]
    if languages or rows["lead"].null_count() < len(rows):
        return tuple(kept), renumbered
    numbers = merged(counts)
    joined: dict[int, list[str]] = {}
    for name, number in zip(kept, numbers, strict=True):
        joined.setdefault(number, []).append(name)
    labels = ["–".join(dict.fromkeys((names[0], names[-1]))) for names in joined.values()]
    return tuple(labels), np.array([0, *numbers])[renumbered]


def merged(counts: ArrayLike) -> list[int]:
    """A number from 1 for each of the bins; neighbours share one until it has 20 queries."""
    numbers = list[int]()
    inside = LEAST_QUERIES
    left = int(np.sum(counts))
    for count in np.asarray(counts).tolist():
        is_new = not numbers or (inside >= LEAST_QUERIES and left >= LEAST_QUERIES)
        numbers.append((numbers[-1] if numbers else 0) + is_new)
        inside = count if is_new else inside + count
        left -= count
    return numbers


def pair_name(pair: Sequence[str]) -> str:
    return f"query {pair[0]}, document {pair[1]}"


def pair_codes(rows: pl.DataFrame, languages: Sequence[str]) -> np.ndarray:
    """The number of every row's pair of languages from 1, the query's first; 0 for none."""
    place = {language: number for number, language in enumerate(languages)}
    query = rows["language"].replace_strict(place, default=None, return_dtype=pl.Int64)
    document = rows["document_language"].replace_strict(place, default=None, return_dtype=pl.Int64)
    return (query * len(languages) + document + 1).fill_null(0).to_numpy()


def change_of(
    before: pl.DataFrame, after: np.ndarray, groups: np.ndarray, seed: int
) -> QueryChange:
    """The values `after` minus those of the rows `before`, which are of the same queries."""
    values = before["value"].to_numpy()
    clusters = before["set"].to_numpy()
    return query_change(values, after, groups, clusters, rng=np.random.default_rng(seed))


def change_columns(change: QueryChange | None) -> Columns:
    """The columns of a change over all queries, and of what it does to positions."""
    parts = (None,) * 3 if change is None else (change.overall, change.psi, change.worst)
    columns: Columns = {}
    for prefix, part in zip(("change_", "psi_change_", "worst_change_"), parts, strict=True):
        columns |= columns_of(part, prefix)
    return columns


def compare_groups(
    log: RunLog, measure: str, groups: np.ndarray, labels: Sequence[Columns]
) -> list[Columns]:
    """A row for every arm and group of queries, which have these labels."""
    rows = []
    for arm, effects, change in _compared(log, log.rows.filter(measure=measure), groups):
        rows += group_rows([{**asdict(arm), **label} for label in labels], effects, change)
    return rows


def group_rows(
    labels: Sequence[Columns], effects: QueryEffects, change: QueryChange | None
) -> list[Columns]:
    """The mean of every group, and its change if there is one, after the group's labels."""
    changes = [None] * len(labels) if change is None else change.groups
    return [
        {**label, **columns_of(mean), **columns_of(group_change, "change_")}
        for label, mean, group_change in zip(labels, effects.groups, changes, strict=True)
    ]


def first_results(results: Sequence[Result]) -> dict[SearchArm, Result]:
    """The first metric over all language plans, by arm."""
    metric = results[0].metric
    return {
        result.arm: result for result in results if (result.metric, result.plan) == (metric, "")
    }


def _compared(
    log: RunLog, rows: pl.DataFrame, groups: np.ndarray
) -> Iterator[tuple[SearchArm, QueryEffects, QueryChange | None]]:
    """Every arm's means, and its change from the first arm, which has none."""
    arms = arms_of(log)
    seed = log.header.seed
    baseline = sorted_rows(rows, arms[0])
    for arm in arms:
        table = sorted_rows(rows, arm)
        values = table["value"].to_numpy()
        clusters = table["set"].to_numpy()
        effects = query_effects(values, groups, clusters, rng=np.random.default_rng(seed))
        change = None if arm == arms[0] else change_of(baseline, values, groups, seed)
        yield arm, effects, change


def _results(log: RunLog, rows: pl.DataFrame, metric: str, plan: str) -> list[Result]:
    """One metric of every arm in one language plan."""
    names, groups = query_groups(sorted_rows(rows, arms_of(log)[0]), languages_of(log))
    compared = list(_compared(log, rows, groups))
    references = references_of(log)
    # A reference is not tested: it must not make the treatments' p values larger.
    tested = [None if arm in references else change for arm, _, change in compared]
    p_values = holm([np.nan if change is None else change.p_value for change in tested])
    p_psi = holm([np.nan if change is None else change.p_psi for change in tested])
    return [
        Result(arm, metric, plan, names, effects, change, float(p), float(q))
        for (arm, effects, change), p, q in zip(compared, p_values, p_psi, strict=True)
    ]
