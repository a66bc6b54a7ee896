"""`Summary`: the statistics of a log, cell by cell, and the verdict on each treatment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.report.text import finite
from fairspan.runs.log import RunLog
from fairspan.stats.codes import with_codes
from fairspan.stats.effects import SecondaryEffects, secondary_effects
from fairspan.stats.equivalence import Verdict, verdict
from fairspan.stats.joint import JointModel, joint_model
from fairspan.stats.positions import PositionEffects, marker, position_effects
from fairspan.studies.audit.attention import AttentionSummary, summarize_attention

POSITION_MEASURES = {"representation": "represented", "retention": "retained"}
_WORST = ("biased", "inconclusive", "fair")


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure of one treatment on the documents of one size and language plan."""

    measure: str
    treatment: str
    n: int
    lead: str
    later: str
    effects: PositionEffects
    secondary: SecondaryEffects
    verdict: Verdict
    tokens: tuple[float, ...]
    """Mean length of the segments at each position."""

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"

    @property
    def documents(self) -> int:
        return self.effects.observations // self.n

    @property
    def mean(self) -> float:
        """Over all positions."""
        return float(self.effects.means.estimate.mean())

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: coefficients as in the tables, position means as in the figures."""
        effects, means = self.effects, self.effects.means
        return {
            "measure": self.measure,
            "treatment": self.treatment,
            "n": self.n,
            "lead": self.lead,
            "later": self.later,
            "sets": effects.clusters,
            "documents": self.documents,
            "inference": effects.inference,
            "coefficients": [
                {
                    "position": position,
                    "estimate": finite(effects.estimate[position - 1]),
                    "standard_error": finite(effects.standard_error[position - 1]),
                    "degrees_of_freedom": finite(effects.degrees_of_freedom[position - 1]),
                    "p_value": finite(effects.p_value[position - 1]),
                    "low": finite(effects.low[position - 1]),
                    "high": finite(effects.high[position - 1]),
                    "marker": marker(float(effects.p_value[position - 1])),
                }
                for position in range(1, self.n + 1)
            ],
            "means": [
                {
                    "position": p + 1,
                    "mean": finite(means.estimate[p]),
                    "low": finite(means.low[p]),
                    "high": finite(means.high[p]),
                }
                for p in range(self.n)
            ],
            "joint_test": {name: finite(value) for name, value in asdict(effects.joint).items()},
            "spread": _interval(self.secondary.spread),
            "gini": {**_interval(self.secondary.gini), "p_value": finite(self.secondary.gini_p)},
            "psi": _interval(self.secondary.psi),
            "relative_1_2": _interval(self.secondary.first_second),
            "relative_1_last": _interval(self.secondary.first_last),
            "verdict": {
                **asdict(self.verdict),
                **{name: finite(getattr(self.verdict, name)) for name in ("estimate", "low", "high")},
                "sentence": self.verdict.sentence(),
            },
            "tokens": [round(length, 1) for length in self.tokens],
        }


@dataclass(frozen=True, slots=True)
class Joint:
    """The model over all language plans of one measure, treatment and size; None where a reason says why not."""

    measure: str
    treatment: str
    n: int
    model: JointModel | None
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        described: dict[str, Any] = {"measure": self.measure, "treatment": self.treatment, "n": self.n}
        if self.model is None:
            return {**described, "reason": self.reason}
        slope = self.model.slope()
        described["log_tokens"] = {name: finite(value) for name, value in asdict(slope).items()}
        described["cells"] = [
            {"position": position, "language": language, **_plain(self.model.mean((position, language)))}
            for position, language in self.model.cells
        ]
        for name, effect in (("position", self.model.position_effect), ("language", self.model.language_effect)):
            try:
                found = effect()
            except StatisticsError as error:
                described[name] = {"reason": str(error)}
                continue
            described[name] = {
                "against": found.baseline,
                "averaged_over": list(found.over),
                "differences": [
                    {"name": label, **{k: finite(v[i]) for k, v in asdict(found.contrasts).items()}}
                    for i, label in enumerate(found.names)
                ],
                "p_value": finite(found.test.p_value),
            }
        return described


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of one run."""

    log: RunLog
    cells: tuple[Cell, ...]
    joint: tuple[Joint, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader should know: the run's own notes, and what the errors do about shared segments."""
        if not any(self.log.header["shared_segments"].values()):
            return self.log.notes
        used = {cell.effects.inference for cell in self.cells}
        if used <= {"two-way"}:
            return [*self.log.notes, "sets share segments, so errors are clustered on sets and on segments"]
        kinds = ", ".join(sorted(used - {"two-way"}))
        return [*self.log.notes, f"sets share segments, which {kinds} does not allow for: errors may be too small"]

    def of(self, measure: str, treatment: str) -> list[Cell]:
        return [cell for cell in self.cells if (cell.measure, cell.treatment) == (measure, treatment)]

    @property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(cell.measure for cell in self.cells))

    def treatments(self, measure: str) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        return [name for name in self.log.treatments if self.of(measure, name)]

    def worst(self, measure: str, treatment: str) -> Cell:
        """The cell that decides over a treatment: biased before inconclusive before fair, then the largest effect.

        Among inconclusive ones it is that which needs the most sets.
        """

        def rank(cell: Cell) -> tuple[int, float, float]:
            needed = inf if cell.verdict.sets_needed is None else cell.verdict.sets_needed
            need = -needed if cell.verdict.kind == "inconclusive" else 0.0
            return _WORST.index(cell.verdict.kind), need, -abs(cell.verdict.estimate)

        return min(self.of(measure, treatment), key=rank)

    def sentence(self, measure: str, treatment: str) -> str:
        """The verdict on a treatment in one line."""
        cells, worst = self.of(measure, treatment), self.worst(measure, treatment)
        if len(cells) == 1:
            return worst.verdict.sentence()
        kind = worst.verdict.kind
        count = sum(cell.verdict.kind == kind for cell in cells)
        if kind == "fair":
            return f"{worst.verdict.sentence()} in all {len(cells)} families of documents"
        detail = worst.verdict.sentence().removeprefix(f"{kind}: ")
        return f"{kind} in {count} of {len(cells)} families, most of all {worst.plan}, n={worst.n}: {detail}"

    def attention(self) -> AttentionSummary:
        """Where the pooled row looks; empty if that was not measured."""
        return summarize_attention(self.log)

    def to_dict(self) -> dict[str, Any]:
        attention = self.attention()
        return {
            "run": self.log.run,
            "folder": str(self.log.folder),
            "model": self.log.model,
            "status": self.log.status,
            "notes": self.notes,
            "verdicts": [
                {
                    "measure": measure,
                    "treatment": treatment,
                    "verdict": self.worst(measure, treatment).verdict.kind,
                    "sentence": self.sentence(measure, treatment),
                }
                for measure in self.measures
                for treatment in self.treatments(measure)
            ],
            "cells": [cell.to_dict() for cell in self.cells],
            "joint": [joint.to_dict() for joint in self.joint],
            **({"attention": attention.to_dict()} if attention else {}),
        }


def summarize(log: RunLog, *, inference: str | None = None, margin: float | None = None) -> Summary:
    """Statistics of every cell of a log, as its spec asks or as told otherwise."""
    inference = inference or str(log.spec["inference"])
    margin = float(log.spec["margin"]) if margin is None else margin
    rows = _position_rows(log)
    families = rows.select("measure", "treatment", "n", "lead", "later").unique(maintain_order=True).rows()
    by = rows.partition_by("measure", "treatment", "n", "lead", "later", as_dict=True)
    seed = int(log.header["seed"])
    cells = [_cell(by.pop(family), family, log, inference, margin, seed) for family in families]
    groups = rows.select("measure", "treatment", "n").unique(maintain_order=True).rows()
    several = rows["language"].n_unique() > 1
    joint = [_joint(rows, group, log, inference, seed) for group in groups] if several else []
    return Summary(log, tuple(cells), tuple(joint))


def _position_rows(log: RunLog) -> pl.DataFrame:
    """What the statistics need, with numbers in place of names: of a whole grid there are millions of rows."""
    kept = ["measure", "treatment", "lead", "later", "language", "n", "set", "position", "tokens", "value"]
    rows = log.rows.select(*kept, "segment", "document").filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    return with_codes(rows, "segment", "document").with_columns(pl.col(kept[:5]).cast(pl.Categorical))


def _cell(rows: pl.DataFrame, family: tuple[Any, ...], log: RunLog, inference: str, margin: float, seed: int) -> Cell:
    measure, treatment, n, lead, later = family
    values, positions, sets = (rows[name].to_numpy() for name in ("value", "position", "set"))
    effects = position_effects(
        values, positions, sets, rows["segment"].to_numpy(), inference=inference, rng=np.random.default_rng(seed)
    )
    secondary = secondary_effects(
        values, positions, sets, rows["document"].to_numpy(), rng=np.random.default_rng(seed)
    )
    lengths = rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"].to_list()
    decided = verdict(effects, margin, measure=POSITION_MEASURES[measure])
    return Cell(measure, treatment, n, lead, later, effects, secondary, decided, tuple(lengths))


def _joint(rows: pl.DataFrame, group: tuple[str, str, int], log: RunLog, inference: str, seed: int) -> Joint:
    measure, treatment, n = group
    part = rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment) & (pl.col("n") == n))
    value, position, language, sets, tokens = (
        part[name].to_numpy() for name in ("value", "position", "language", "set", "tokens")
    )
    segments = part["segment"].to_numpy()
    rng = np.random.default_rng(seed)
    try:
        model = joint_model(value, position, language, sets, tokens, segments, inference=inference, rng=rng)
    except StatisticsError as error:
        return Joint(measure, treatment, n, None, str(error))
    return Joint(measure, treatment, n, model, None)


def _plain(value: Any) -> dict[str, float | None]:
    return {name: finite(number) for name, number in asdict(value).items()}


def _interval(interval: Any) -> dict[str, Any]:
    found = {name: getattr(interval, name) for name in ("estimate", "low", "high")}
    return {name: finite(value) for name, value in found.items()}
