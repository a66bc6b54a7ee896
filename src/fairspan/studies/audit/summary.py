"""`Summary`: the statistics of a log, cell by cell, and the verdict on each treatment."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.effects import SecondaryEffects, secondary_effects
from fairspan.stats.equivalence import Verdict, verdict
from fairspan.stats.joint import JointModel, joint_model
from fairspan.stats.positions import PositionEffects, position_effects
from fairspan.studies.audit.family import FAMILY, Family, with_codes
from fairspan.studies.audit.words import POSITION_MEASURES

_WORST = ("biased", "inconclusive", "fair")


@dataclass(frozen=True, slots=True, eq=False)
class Cell(Family):
    """One measure of one treatment on one family of documents.

    Attributes:
        tokens: mean length of the segments at each position.
    """

    treatment: str
    effects: PositionEffects
    secondary: SecondaryEffects
    verdict: Verdict
    tokens: tuple[float, ...]

    @property
    def documents(self) -> int:
        return self.effects.observations // self.n


@dataclass(frozen=True, slots=True)
class Joint:
    """The model over all language plans of one measure, treatment and size; None where a reason says why not."""

    measure: str
    treatment: str
    n: int
    model: JointModel | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The statistics of one run.

    Attributes:
        refused: why there are none; empty if there are.
    """

    log: RunLog
    cells: tuple[Cell, ...]
    joint: tuple[Joint, ...]
    refused: str = ""

    @property
    def notes(self) -> list[str]:
        """What a reader should know: the run's own notes, and how the errors treat shared segments."""
        if self.refused:
            return [*self.log.notes, f"means only, no intervals and no verdicts: {self.refused}"]
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

        Among inconclusive ones it is the one that needs the most sets.
        """

        def rank(cell: Cell) -> tuple[int, float, float]:
            needed = inf if cell.verdict.sets_needed is None else cell.verdict.sets_needed
            need = -needed if cell.verdict.kind == "inconclusive" else 0.0
            return _WORST.index(cell.verdict.kind), need, -abs(cell.verdict.estimate)

        return min(self.of(measure, treatment), key=rank)

    def sentence(self, measure: str, treatment: str) -> str:
        """The verdict on a treatment in one line, and how many documents it cut."""
        unit = str(self.log.header.get("token_unit", "tokens"))
        cuts = [cut_words(one, unit) for one in self.log.header.get("windows", ()) if one["treatment"] == treatment]
        return "; ".join([self._verdict(measure, treatment), *filter(None, cuts)])

    def _verdict(self, measure: str, treatment: str) -> str:
        cells, worst = self.of(measure, treatment), self.worst(measure, treatment)
        if len(cells) == 1:
            return worst.verdict.sentence()
        kind = worst.verdict.kind
        count = sum(cell.verdict.kind == kind for cell in cells)
        if kind == "fair":
            return f"{worst.verdict.sentence()} in all {len(cells)} families of documents"
        detail = worst.verdict.sentence().removeprefix(f"{kind}: ")
        return f"{kind} in {count} of {len(cells)} families, strongest for {worst.plan}, n={worst.n}: {detail}"


def summarize(log: RunLog, *, inference: str | None = None, margin: float | None = None) -> Summary:
    """Statistics of every cell of a log, by the settings of its spec or by those given."""
    inference = inference or str(log.spec["inference"])
    margin = float(log.spec["margin"]) if margin is None else margin
    rows = _position_rows(log)
    families = rows.select(FAMILY).unique(maintain_order=True).rows()
    by = rows.partition_by(FAMILY, as_dict=True)
    seed = int(log.header["seed"])
    cells = [_cell(by.pop(family), family, inference, margin, seed) for family in families]
    groups = rows.select("measure", "treatment", "n").unique(maintain_order=True).rows()
    several = rows["language"].n_unique() > 1
    joint = [_joint(rows, group, inference, seed) for group in groups] if several else []
    return Summary(log, tuple(cells), tuple(joint))


def summarize_or_say_why(log: RunLog) -> Summary:
    """The same, without any cell where the data allow no statistics: one set has means, but no intervals."""
    try:
        return summarize(log)
    except StatisticsError as error:
        return Summary(log, (), (), str(error))


def _position_rows(log: RunLog) -> pl.DataFrame:
    """What the statistics need, with numbers in place of names: of a whole grid there are millions of rows."""
    kept = ["measure", "treatment", "lead", "later", "language", "n", "set", "position", "tokens", "value"]
    rows = log.rows.select(*kept, "segment", "document").filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    return with_codes(rows, "segment", "document").with_columns(pl.col(kept[:5]).cast(pl.Categorical))


def _cell(rows: pl.DataFrame, family: tuple[Any, ...], inference: str, margin: float, seed: int) -> Cell:
    measure, treatment, n, lead, later = family
    values, positions, sets = (rows[name].to_numpy() for name in ("value", "position", "set"))
    effects = position_effects(
        values, positions, sets, rows["segment"].to_numpy(), inference=inference, rng=np.random.default_rng(seed)
    )
    secondary = secondary_effects(
        values, positions, sets, rows["document"].to_numpy(), rng=np.random.default_rng(seed)
    )
    lengths = rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"].to_list()
    decided = verdict(effects, margin, measure=POSITION_MEASURES[measure].done)
    return Cell(measure, n, lead, later, treatment, effects, secondary, decided, tuple(lengths))


def _joint(rows: pl.DataFrame, group: tuple[str, str, int], inference: str, seed: int) -> Joint:
    measure, treatment, n = group
    part = rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment) & (pl.col("n") == n))
    value, position, language, sets, tokens = (
        part[name].to_numpy() for name in ("value", "position", "language", "set", "tokens")
    )
    segments = part["segment"].to_numpy()
    rng = np.random.default_rng(seed)
    try:
        model = joint_model(value, position, language, sets, tokens, segments, inference=inference, rng=rng)
        return Joint(measure, treatment, n, model, None)
    except StatisticsError as error:
        return Joint(measure, treatment, n, None, str(error))
