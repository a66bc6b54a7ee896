"""Means of every arm of an evaluation, and their paired changes, by groups of queries."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.calibration.treatment import PLAIN
from fairspan.retrieval.indexes import (
    FUSED,
    KEYWORDS,
    ONE_PER_CHUNK,
    WHOLE,
    index_words,
    most_vectors,
)
from fairspan.runs.log import RunLog
from fairspan.stats.arrays import Floats
from fairspan.stats.estimates import Estimates
from fairspan.stats.queries import group_counts, query_changes, query_means
from fairspan.studies.evaluate.entries import EvaluateEntries

Columns = dict[str, Any]
"""The values of a frame's row by column."""
QUERY_KEYS = ["query", "document"]
SHORT = "short documents"
LONG = "long documents"


@dataclass(frozen=True, slots=True)
class SearchArm:
    """What was searched: documents and queries under a treatment, kept in an index of one kind."""

    treatment: str
    index: str

    def __str__(self) -> str:
        if self.index in (WHOLE, KEYWORDS):
            return self.treatment
        if self.index == FUSED:
            return f"{self.treatment} and keywords"
        words = index_words(self.index)
        return words if self.treatment == PLAIN else f"{self.treatment}, {words}"


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each query of a sorted arm is in, from 1; 0 for none."""

    names: tuple[str, ...]
    codes: np.ndarray


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric of one arm: overall, then by group; `changes` is None for what it is compared
    with."""

    arm: SearchArm
    values: np.ndarray
    means: Estimates[Floats]
    changes: Estimates[Floats] | None
    counts: list[tuple[int, int]]

    def records(self, labels: Sequence[Columns], first: int = 1) -> list[Columns]:
        """A record for each group, which have these labels, or from the `first` one on."""
        records = []
        for place, label in enumerate(labels, start=first):
            change = None if self.changes is None else self.changes[place]
            queries, documents = self.counts[place]
            records.append(
                {
                    **asdict(self.arm),
                    **label,
                    "queries": queries,
                    "documents": documents,
                    **self.means[place].columns(),
                    **change_columns(change),
                }
            )
        return records


def change_columns(change: Estimates[float] | None) -> Columns:
    """A change and its limits as columns; empty ones for what is compared with nothing."""
    if change is None:
        return dict.fromkeys(("change_estimate", "change_low", "change_high"))
    return {**change.columns("change_")}


def arms_of(log: RunLog) -> list[SearchArm]:
    """What was searched, in the order of tables: vectors, references, keywords, then both."""
    pairs = log.rows.select("treatment", "index").unique(maintain_order=True).rows()
    arms = [SearchArm(*pair) for pair in pairs]
    kinds = [WHOLE, ONE_PER_CHUNK, KEYWORDS, FUSED]

    def place(arm: SearchArm) -> tuple[int, int, int]:
        kind = kinds.index(arm.index) if arm.index in kinds else 0
        treatment = log.treatments.index(arm.treatment) if arm.index != KEYWORDS else 0
        return kind, treatment, most_vectors(arm.index) or 0

    return sorted(arms, key=place)


def baseline_of(arm: SearchArm, arms: Sequence[SearchArm]) -> SearchArm | None:
    """What an arm is compared with: the first one, or of those with keywords the first of these."""
    same = [other for other in arms if other.index == FUSED] if arm.index == FUSED else arms
    return None if same[0] == arm else same[0]


def metrics_of(log: RunLog) -> list[str]:
    """Those that were asked for and measured."""
    measured = log.rows["measure"].unique().to_list()
    return [metric for metric in log.spec["metrics"] if metric in measured]


def sorted_rows(log: RunLog, measure: str, arm: SearchArm) -> pl.DataFrame:
    """The rows of an arm, in the same order for all arms."""
    rows = log.rows.filter(measure=measure, treatment=arm.treatment, index=arm.index)
    return rows.sort(QUERY_KEYS)


def compare_arms(log: RunLog, measure: str, groups: Groups | None = None) -> Iterator[Compared]:
    """Every arm, overall and by group."""
    with_measure = log.rows.filter(measure=measure).select("treatment", "index").unique().rows()
    arms = [arm for arm in arms_of(log) if (arm.treatment, arm.index) in with_measure]
    values: dict[SearchArm, np.ndarray] = {}
    for arm in arms:
        table = sorted_rows(log, measure, arm)
        before = baseline_of(arm, arms)
        result = compared(arm, table, groups, None if before is None else values[before])
        values[arm] = result.values
        yield result


def compared(
    arm: SearchArm, table: pl.DataFrame, groups: Groups | None, before: np.ndarray | None
) -> Compared:
    """The sorted rows of an arm against the values `before` of the same queries."""
    codes = np.zeros(len(table), np.int64) if groups is None else groups.codes
    clusters = table["cluster"].to_numpy()
    values = table["value"].to_numpy()
    count = 0 if groups is None else len(groups.names)
    return Compared(
        arm,
        values,
        query_means(values, codes, clusters, count),
        None if before is None else query_changes(before, values, codes, clusters, count),
        group_counts(codes, clusters, count),
    )


def window_of(log: RunLog) -> int | None:
    """What the plain model reads, which tells short documents from long ones."""
    return log.header.part(EvaluateEntries).window


def length_groups(log: RunLog, measure: str) -> Groups | None:
    """Documents that fit into the model's window, and those that exceed it; None if not known."""
    return by_window(sorted_rows(log, measure, arms_of(log)[0]), window_of(log))


def by_window(rows: pl.DataFrame, window: int | None) -> Groups | None:
    """The same for the rows of an arm; either group may be empty."""
    if window is None:
        return None
    return Groups((SHORT, LONG), np.where(rows["tokens"].to_numpy() <= window, 1, 2))


def groups_by(log: RunLog, measure: str, column: str) -> Groups | None:
    """The queries by the values of a column, in order; None if it has fewer than two."""
    return value_groups(sorted_rows(log, measure, arms_of(log)[0])[column])


def value_groups(values: pl.Series) -> Groups | None:
    names = values.drop_nulls().unique().sort().cast(pl.String).to_list()
    if len(names) < 2:
        return None
    places = {name: place for place, name in enumerate(names, start=1)}
    codes = values.cast(pl.String).replace_strict(places, default=0, return_dtype=pl.Int64)
    return Groups(tuple(names), codes.fill_null(0).to_numpy())
