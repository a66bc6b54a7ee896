"""`Summary`: the statistics of a log, cell by cell, and the verdict on each treatment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.stats.effects import SecondaryEffects, secondary_effects
from fairspan.stats.equivalence import Verdict, verdicts
from fairspan.stats.joint import JointModel, joint_model
from fairspan.stats.positions import PositionEffects, position_effects
from fairspan.studies.audit.family import COMPANIES, COMPANY, FAMILY, Family, with_codes
from fairspan.studies.audit.languages import Spoken, kind_of, language_notes, languages_of, sentence_of
from fairspan.studies.audit.words import POSITION_MEASURES

_WORST = ("biased", "inconclusive", "fair")
# Samples of a wild bootstrap: at least so many, and so many for each comparison. Its p-values are never below one in
# as many, and Holm's correction multiplies them by up to the number of comparisons.
_LEAST_DRAWS, _DRAWS = 9999, 100


@dataclass(frozen=True, slots=True, eq=False)
class Cell(Family):
    """One measure of one treatment on one family of documents.

    Attributes:
        secondary, verdict: of the positions that are compared; None where there is only one of them.
        tokens: mean length of the segments at each position.
    """

    treatment: str
    effects: PositionEffects
    secondary: SecondaryEffects | None
    verdict: Verdict | None
    tokens: tuple[float, ...]

    @property
    def documents(self) -> int:
        return self.effects.observations // self.n

    @property
    def kind(self) -> str:
        return "not compared" if self.verdict is None else self.verdict.kind

    @property
    def sentence(self) -> str:
        """The verdict on the family, and in a mixed plan what it leaves out."""
        left_out = not_compared([self])
        return left_out if self.verdict is None else "; ".join(filter(None, [self.verdict.sentence(), left_out]))


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
        languages: of mixed documents, by size.
        refused: why there are none; empty if there are.
    """

    log: RunLog
    cells: tuple[Cell, ...]
    joint: tuple[Joint, ...]
    languages: tuple[Spoken, ...] = ()
    refused: str = ""

    @property
    def notes(self) -> list[str]:
        """What a reader should know: the run's own notes, and what the statistics leave out or do not allow for."""
        if self.refused:
            return [*self.log.notes, f"means only, no intervals and no verdicts: {self.refused}"]
        lengths = dict.fromkeys(one.model.no_slope for one in self.joint if one.model is not None)
        spoken = dict.fromkeys(language for cell in self.cells for language in (cell.lead, cell.later))
        languages = language_notes(self.languages, list(spoken))
        return [*self.log.notes, *filter(None, [self._mixed_note(), *languages, *lengths, self._shared_note()])]

    def _mixed_note(self) -> str:
        if not any(cell.mixed for cell in self.cells):
            return ""
        return (
            "in mixed plans position 1 is the only segment in its language, which cannot be told from being first: "
            f"verdicts, spreads and changes are about later positions{_remedy(self.cells)}"
        )

    def _shared_note(self) -> str:
        if not any(self.log.header["shared_segments"].values()):
            return ""
        used = {cell.effects.inference for cell in self.cells}
        if used <= {"two-way"}:
            return "sets share segments, so errors are clustered on sets and on segments"
        kinds = ", ".join(sorted(used - {"two-way"}))
        return f"sets share segments, which {kinds} does not allow for: errors may be too small"

    def of(self, measure: str, treatment: str) -> list[Cell]:
        return [cell for cell in self.cells if (cell.measure, cell.treatment) == (measure, treatment)]

    def spoken(self, measure: str, treatment: str) -> list[Spoken]:
        return [one for one in self.languages if (one.measure, one.treatment) == (measure, treatment)]

    def language_verdict(self, measure: str, treatment: str) -> tuple[str, str] | None:
        """The verdict on languages under a treatment, and the same in one line; None where none are compared."""
        found = self.spoken(measure, treatment)
        kind = kind_of(found)
        return (kind, sentence_of(found)) if kind else None

    @property
    def measures(self) -> list[str]:
        return list(dict.fromkeys(cell.measure for cell in self.cells))

    def treatments(self, measure: str) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        return [name for name in self.log.treatments if self.of(measure, name)]

    def worst(self, measure: str, treatment: str) -> Cell | None:
        """The cell that decides over a treatment: biased before inconclusive before fair, then the largest effect.

        Among inconclusive ones it is the one that needs the most sets. None where nothing could be compared.
        """
        found = [(_rank(cell.verdict), cell) for cell in self.of(measure, treatment) if cell.verdict is not None]
        return min(found, key=lambda one: one[0])[1] if found else None

    def kind(self, measure: str, treatment: str) -> str:
        """The verdict on a treatment: that on its worst family, and fair only if some family compares position 1."""
        worst = self.worst(measure, treatment)
        if worst is None or (worst.kind == "fair" and all(cell.mixed for cell in self.of(measure, treatment))):
            return "inconclusive"
        return worst.kind

    def sentence(self, measure: str, treatment: str) -> str:
        """The verdict on a treatment in one line, what it leaves out, and how many documents it cut."""
        cells = self.of(measure, treatment)
        left_out = not_compared(cells) + (_remedy(cells) if all(cell.mixed for cell in cells) else "")
        unit = str(self.log.header.get("token_unit", "tokens"))
        cuts = [cut_words(one, unit) for one in self.log.header.get("windows", ()) if one["treatment"] == treatment]
        said = "; ".join(filter(None, [self._verdict(measure, treatment), left_out, *cuts]))
        kind = self.kind(measure, treatment)
        return said if said.startswith(kind) else f"{kind}: {said}"

    def _verdict(self, measure: str, treatment: str) -> str:
        worst = self.worst(measure, treatment)
        if worst is None or worst.verdict is None:
            return ""
        cells = [cell for cell in self.of(measure, treatment) if cell.verdict is not None]
        detail = worst.verdict.sentence()
        if len(cells) == 1:
            return detail
        if worst.kind == "fair":
            least = min(cells, key=lambda cell: cell.first_compared)
            detail = replace(worst.verdict, against=least.first_compared).sentence()
            return f"{detail} in all {len(cells)} families of documents"
        count = sum(cell.kind == worst.kind for cell in cells)
        return (
            f"{worst.kind} in {count} of {len(cells)} families, strongest for {worst.plan}, n={worst.n}: "
            f"{detail.removeprefix(f'{worst.kind}: ')}"
        )


def not_compared(cells: Sequence[Cell]) -> str:
    """What verdicts leave out of mixed plans; nothing where there are none."""
    plans = list(dict.fromkeys((cell.lead, cell.later) for cell in cells if cell.mixed))
    if len(plans) > 1:
        return "in mixed plans position 1 is not compared with later positions, which are in another language"
    return "".join(f"position 1 ({lead}) is not compared with later positions ({later})" for lead, later in plans)


def _remedy(cells: Sequence[Cell]) -> str:
    """What would compare position 1, if some language has no documents of its own."""
    spoken = dict.fromkeys(language for cell in cells for language in (cell.lead, cell.later))
    if set(spoken) <= {cell.lead for cell in cells if not cell.mixed}:
        return ""
    return f"; documents in one language would compare position 1 (languages {', '.join(spoken)})"


def _rank(verdict: Verdict) -> tuple[int, float, float]:
    needed = inf if verdict.sets_needed is None else verdict.sets_needed
    need = -needed if verdict.kind == "inconclusive" else 0.0
    return _WORST.index(verdict.kind), need, -abs(verdict.estimate)


def summarize(log: RunLog, *, inference: str | None = None, margin: float | None = None) -> Summary:
    """Statistics of every cell of a log, by the settings of its spec or by those given."""
    inference = inference or str(log.spec["inference"])
    margin = float(log.spec["margin"]) if margin is None else margin
    rows = _position_rows(log)
    families = rows.select(FAMILY).unique(maintain_order=True).rows()
    by = rows.partition_by(FAMILY, as_dict=True)
    seed = int(log.header["seed"])
    comparisons: Counter[tuple[str, str]] = Counter()
    for measure, treatment, *family in families:
        comparisons[measure, treatment] += Family(measure, *family).comparisons
    cells = [
        _cell(by.pop(family), family, inference, seed, max(_LEAST_DRAWS, _DRAWS * comparisons[family[:2]]))
        for family in families
    ]
    groups = rows.select("measure", "treatment", "n").unique(maintain_order=True).rows()
    several = rows["language"].n_unique() > 1
    joint = [_joint(rows, group, inference, seed) for group in groups] if several else []
    spoken = languages_of(rows, inference, seed, margin, (_LEAST_DRAWS, _DRAWS))
    return Summary(log, tuple(_judged(cells, margin)), tuple(joint), spoken)


def summarize_or_say_why(log: RunLog) -> Summary:
    """The same, without any cell where the data allow no statistics: one set has means, but no intervals."""
    try:
        return summarize(log)
    except StatisticsError as error:
        return Summary(log, (), (), refused=str(error))


def _position_rows(log: RunLog) -> pl.DataFrame:
    """What the statistics need, with numbers in place of names: of a whole grid there are millions of rows."""
    kept = ["measure", "treatment", "lead", "later", "language", "n", "set", "position", "tokens", "value"]
    rows = log.rows.select(*kept, "segment", "document").filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    return with_codes(rows, "segment", "document").with_columns(pl.col(kept[:5]).cast(pl.Categorical))


def _cell(rows: pl.DataFrame, family: tuple[Any, ...], inference: str, seed: int, draws: int) -> Cell:
    """The effects of one family, before it is judged together with others."""
    measure, treatment, n, lead, later = family
    values, positions, sets = (rows[name].to_numpy() for name in ("value", "position", "set"))
    rng = np.random.default_rng(seed)
    segments = rows["segment"].to_numpy()
    effects = position_effects(values, positions, sets, segments, inference=inference, rng=rng, draws=draws)
    lengths = rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"].to_list()
    cell = Cell(measure, n, lead, later, treatment, effects, None, None, tuple(lengths))
    if not cell.comparisons:
        return cell
    first = cell.first_compared
    kept = positions >= first
    values, positions, sets, documents = (
        column[kept] for column in (values, positions - first + 1, sets, rows["document"].to_numpy())
    )
    return replace(
        cell, secondary=secondary_effects(values, positions, sets, documents, rng=np.random.default_rng(seed))
    )


def _judged(cells: Sequence[Cell], margin: float) -> list[Cell]:
    """With verdicts; the families of one measure and treatment are judged together."""
    found = dict(enumerate(cells))
    together: dict[tuple[str, str], list[int]] = {}
    for place, cell in found.items():
        if cell.comparisons:
            together.setdefault((cell.measure, cell.treatment), []).append(place)
    for (measure, _), places in together.items():
        compared = [(cells[place].effects, cells[place].first_compared) for place in places]
        decided = verdicts(compared, margin, measure=POSITION_MEASURES[measure].done)
        found |= {place: replace(cells[place], verdict=one) for place, one in zip(places, decided, strict=True)}
    return list(found.values())


def _joint(rows: pl.DataFrame, group: tuple[str, str, int], inference: str, seed: int) -> Joint:
    measure, treatment, n = group
    part = rows.filter((pl.col("measure") == measure) & (pl.col("treatment") == treatment) & (pl.col("n") == n))
    value, position, language, sets, tokens = (
        part[name].to_numpy() for name in ("value", "position", "language", "set", "tokens")
    )
    segments, company = part["segment"].to_numpy(), (part.select(COMPANY).to_series().to_numpy(), COMPANIES)
    rng = np.random.default_rng(seed)
    try:
        model = joint_model(
            value, position, language, sets, tokens, segments, companies=company, inference=inference, rng=rng
        )
        return Joint(measure, treatment, n, model, None)
    except StatisticsError as error:
        return Joint(measure, treatment, n, None, str(error))
