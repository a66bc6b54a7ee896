"""`results_of` an evaluation's log: every metric of every treatment and index, query by query against the first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from fairspan.report.frames import columns_of
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.queries import QueryChange, QueryEffects, query_change, query_effects
from fairspan.studies.evaluate.options import DOCUMENTS_ONLY

Record = dict[str, Any]
RANK = "rank"
LEAST_QUERIES = 20
"""At a depth or in a fifth of a document; fewer are counted with those beside them."""
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
    def named(self) -> Record:
        return {**asdict(self.arm), "metric": self.metric, "plan": self.plan}


def results_of(log: RunLog) -> list[Result]:
    """Every metric of every arm, over all language plans together and, where there are several, for each."""
    lead, later = pl.col("lead").fill_null(""), pl.col("later").fill_null("")
    rows = log.rows.with_columns(
        plan=pl.when(lead == later).then(lead).otherwise(lead + ":" + later)
    )
    plans = rows["plan"].unique(maintain_order=True).to_list()
    results = []
    for plan in ["", *(plans if len(plans) > 1 else [])]:
        part = rows if plan == "" else rows.filter(plan=plan)
        for metric in metrics_of(log):
            results += _results(log, part.filter(measure=metric), metric, plan)
    return results


def arms_of(log: RunLog) -> list[Arm]:
    """What was searched: whole documents first, in the order of the treatments."""
    arms = [
        Arm(*pair)
        for pair in log.rows.select("treatment", "part").unique(maintain_order=True).rows()
    ]
    return sorted(arms, key=lambda arm: (arm.index != "whole", log.treatments.index(arm.treatment)))


def metrics_of(log: RunLog) -> list[str]:
    """Those that were asked for and measured."""
    measured = log.rows["measure"].unique().to_list()
    return [metric for metric in log.spec["metrics"] if metric in measured]


def languages_of(log: RunLog) -> list[str]:
    """The languages of queries and documents, if the evaluation searched across several."""
    return log.header.searched.languages or []


def sorted_rows(rows: pl.DataFrame, arm: Arm) -> pl.DataFrame:
    """The rows of an arm, in the same order for all arms."""
    return rows.filter(treatment=arm.treatment, part=arm.index).sort(QUERY_KEYS)


def query_groups(
    rows: pl.DataFrame, languages: Sequence[str]
) -> tuple[tuple[str, ...], np.ndarray]:
    """The names of the groups that are compared, and the group of every query; 0 for none.

    Across languages, these are the pairs of a query's and a document's language; else the positions of the evidence.
    """
    if languages:
        groups, names = (
            pair_codes(rows, languages),
            ["", *map(pair_name, product(languages, repeat=2))],
        )
    else:
        groups = rows["position"].fill_null(0).to_numpy()
        names = [str(number) for number in range(int(groups.max(initial=0)) + 1)]
    there, counts = np.unique(groups[groups > 0], return_counts=True)
    # Without the empty ones between them.
    renumbered = np.where(groups > 0, np.searchsorted(there, groups) + 1, 0)
    found = [names[number] for number in there]
    if languages or rows["lead"].null_count() < len(rows):
        return tuple(found), renumbered
    numbers = merged(counts)
    groups_of = dict.fromkeys(numbers)
    own = [
        [name for name, number in zip(found, numbers, strict=True) if number == group]
        for group in groups_of
    ]
    joined = tuple(one[0] if len(one) == 1 else f"{one[0]}–{one[-1]}" for one in own)
    return joined, np.array([0, *numbers])[renumbered]


def merged(counts: ArrayLike) -> list[int]:
    """A number from 1 for each of the bins, neighbours sharing one until there are 20 queries in each."""
    numbers, inside, left = list[int](), LEAST_QUERIES, int(np.sum(counts))
    for count in np.asarray(counts).tolist():
        is_new = not numbers or (inside >= LEAST_QUERIES and left >= LEAST_QUERIES)
        numbers.append((numbers[-1] if numbers else 0) + is_new)
        inside, left = (0 if is_new else inside) + count, left - count
    return numbers


def pair_name(pair: Sequence[str]) -> str:
    return f"query {pair[0]}, document {pair[1]}"


def pair_codes(rows: pl.DataFrame, languages: Sequence[str]) -> np.ndarray:
    """The number of every row's pair of languages from 1 on, by the query's, then by the document's; 0 for none."""
    place = {language: number for number, language in enumerate(languages)}
    numbers = [
        rows[name].replace_strict(place, default=None, return_dtype=pl.Int64)
        for name in ("language", "document_language")
    ]
    return (numbers[0] * len(languages) + numbers[1] + 1).fill_null(0).to_numpy()


def change_of(
    before: pl.DataFrame, after: np.ndarray, groups: np.ndarray, seed: int
) -> QueryChange:
    """The values `after` minus those of the rows `before`, which are of the same queries."""
    values, clusters = before["value"].to_numpy(), before["set"].to_numpy()
    return query_change(values, after, groups, clusters, rng=np.random.default_rng(seed))


def effects_of(rows: pl.DataFrame, groups: np.ndarray, seed: int) -> QueryEffects:
    values, clusters = rows["value"].to_numpy(), rows["set"].to_numpy()
    return query_effects(values, groups, clusters, rng=np.random.default_rng(seed))


def change_columns(change: QueryChange | None) -> Record:
    """The columns of a change over all queries, and of what it does to the measures of the position means."""
    parts = (None,) * 3 if change is None else (change.overall, change.psi, change.worst)
    names = ("change_", "psi_change_", "worst_change_")
    return {
        key: end
        for name, own in zip(names, parts, strict=True)
        for key, end in columns_of(own, name).items()
    }


def _results(log: RunLog, rows: pl.DataFrame, metric: str, plan: str) -> list[Result]:
    arms, seed = arms_of(log), log.header.seed
    first, *others = (sorted_rows(rows, arm) for arm in arms)
    names, groups = query_groups(first, languages_of(log))
    changes = [change_of(first, own["value"].to_numpy(), groups, seed) for own in others]
    p_values, p_psi = holm([one.p_value for one in changes]), holm([one.p_psi for one in changes])
    found = [Result(arms[0], metric, plan, names, effects_of(first, groups, seed))]
    for arm, own, change, p, q in zip(arms[1:], others, changes, p_values, p_psi, strict=True):
        found.append(
            Result(
                arm, metric, plan, names, effects_of(own, groups, seed), change, float(p), float(q)
            )
        )
    return found
