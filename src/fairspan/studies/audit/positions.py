"""`Cell`: how the positions of one family of documents differ under one treatment; and the verdict on treatments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Any, Protocol, TypeVar

import polars as pl

from fairspan.report.frames import columns_of
from fairspan.stats import positions as stats
from fairspan.stats.equivalence import Compared, Verdict, decide
from fairspan.stats.intervals import Interval
from fairspan.stats.positions import PositionEffects, difference_weights
from fairspan.studies.audit.measures import (
    FAMILY,
    POSITION_MEASURES,
    Family,
    Record,
    Settings,
    contrast,
    symbol,
)

_WORST = ("biased", "inconclusive", "fair")


class Judged(Protocol):
    """What a verdict is about; `compared` and `verdict` are None where nothing could be compared."""

    @property
    def measure(self) -> str: ...
    @property
    def treatment(self) -> str: ...
    @property
    def compared(self) -> Compared | None: ...
    @property
    def verdict(self) -> Verdict | None: ...


AnyJudged = TypeVar("AnyJudged", bound=Judged)


def judged_together(found: Sequence[AnyJudged], margin: float) -> list[AnyJudged]:
    """The same with verdicts: those of one measure and treatment are judged together."""
    groups: dict[tuple[str, str], dict[int, Compared]] = {}
    for place, one in enumerate(found):
        if one.compared is not None:
            groups.setdefault((one.measure, one.treatment), {})[place] = one.compared
    judged = list(found)
    for (measure, _), own in groups.items():
        decided = decide(list(own.values()), margin, measure=POSITION_MEASURES[measure].done)
        for place, verdict in zip(own, decided, strict=True):
            judged[place] = replace(found[place], verdict=verdict)  # type: ignore[type-var]
    return judged


@dataclass(frozen=True, slots=True, eq=False)
class Cell(Family):
    """One measure of one treatment on one family of documents.

    Attributes:
        tokens: mean length of the segments at each position.
        uneven, gini_p, verdict: of the positions that are compared; none where there is only one of them.
    """

    treatment: str
    effects: PositionEffects
    documents: int
    tokens: tuple[float, ...]
    uneven: dict[str, Interval] = field(default_factory=dict)
    gini_p: float = nan
    verdict: Verdict | None = None

    @property
    def compared(self) -> Compared | None:
        return self.effects.compared(self.first_compared) if self.comparisons else None

    @property
    def kind(self) -> str:
        return "not compared" if self.verdict is None else self.verdict.kind

    @property
    def names(self) -> Record:
        """The columns that all frames of cells begin with."""
        sizes = {"sets": self.effects.sets, "documents": self.documents}
        return {"measure": self.measure, "treatment": self.treatment, **self.labels, **sizes}

    @property
    def family(self) -> Record:
        """The verdict on the family, and in a mixed plan what it leaves out."""
        verdict, first = self.verdict, self.first_compared
        about = {} if verdict is None else {"position": first + verdict.worst + 1, "against": first}
        names = ("margin", "position", "against", "estimate", "low", "high", "sets_needed")
        decided = {name: about.get(name, getattr(verdict, name, None)) for name in names}
        said = [verdict.sentence() if verdict else "", not_compared([self])]
        return {
            **self.names,
            "verdict": self.kind,
            **decided,
            "sentence": "; ".join(filter(None, said)),
        }

    @property
    def coefficients(self) -> Iterator[Record]:
        for position in range(1, self.n + 1):
            found = contrast(self.effects[position - 1])
            tested = {
                "marker": stats.marker(found["p_value"]),
                "inference": self.effects.robust.inference,
            }
            yield {
                **self.names,
                "position": position,
                "coefficient": symbol(position),
                **found,
                **tested,
            }

    @property
    def means(self) -> Iterator[Record]:
        for place, tokens in enumerate(self.tokens):
            yield {
                **self.names,
                "position": place + 1,
                **columns_of(self.effects.means[place]),
                "tokens": tokens,
            }

    @property
    def unevenness(self) -> Iterator[Record]:
        """Of the positions that are compared; nothing where there is only one of them."""
        if not self.uneven:
            return
        first, ends = self.first_compared, dict[str, float | None]()
        for name, found in self.uneven.items():
            ends |= columns_of(
                None if first > 1 and name.startswith("first_") else found, f"{name}_"
            )
        joint = self.effects.robust.joint(difference_weights(self.n, first))
        tests = {"gini_p": self.gini_p, "joint_p": joint}
        yield {**self.names, "from_position": first, **ends, **tests, "verdict": self.kind}


def cells_of(rows: pl.DataFrame, settings: Settings) -> list[Cell]:
    """The statistics of every family; those of one measure and treatment are judged together."""
    families = rows.select(FAMILY).unique(maintain_order=True).rows()
    by = rows.partition_by(FAMILY, as_dict=True)
    return judged_together([_cell(by.pop(one), one, settings) for one in families], settings.margin)


def _cell(rows: pl.DataFrame, family: tuple[Any, ...], settings: Settings) -> Cell:
    """The effects of one family, before it is judged together with others."""
    measure, treatment, n, lead, later = family
    columns = ("value", "position", "set", "segment", "document")
    values, positions, sets, segments, documents = (rows[name].to_numpy() for name in columns)
    effects = stats.position_effects(
        values, positions, sets, segments, inference=settings.inference
    )
    lengths = (
        rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"].to_list()
    )
    cell = Cell(measure, n, lead, later, treatment, effects, rows.height // n, tuple(lengths))
    if not cell.comparisons:
        return cell
    kept, rng = positions >= cell.first_compared, settings.rng
    compared = (values[kept], positions[kept] - cell.first_compared + 1)
    uneven = stats.unevenness(*compared, sets[kept], rng=rng)
    return replace(cell, uneven=uneven, gini_p=stats.gini_test(*compared, documents[kept], rng=rng))


def worst_of(found: Sequence[AnyJudged]) -> AnyJudged | None:
    """The one that decides: biased before inconclusive before fair, then the one with the largest effect.

    Among inconclusive ones it is the one that needs the most sets. None where nothing could be compared.
    """

    def rank(verdict: Verdict) -> tuple[int, float, float]:
        needed = inf if verdict.sets_needed is None else verdict.sets_needed
        need = -needed if verdict.kind == "inconclusive" else 0.0
        return _WORST.index(verdict.kind), need, -abs(verdict.estimate)

    judged = [(rank(one.verdict), one) for one in found if one.verdict is not None]
    return min(judged, key=lambda one: one[0])[1] if judged else None


def verdict_of(cells: Sequence[Cell], more: Sequence[str] = ()) -> tuple[str, str]:
    """The verdict on one measure of one treatment, and the same in one line with `more` and what it leaves out.

    It is the verdict on the worst family, and fair only if some family compares position 1.
    """
    worst, only_mixed = worst_of(cells), all(cell.mixed for cell in cells)
    kind = "inconclusive" if worst is None or (worst.kind == "fair" and only_mixed) else worst.kind
    left_out = not_compared(cells) + (remedy(cells) if only_mixed else "")
    said = "; ".join(filter(None, [_sentence(cells, worst), *more, left_out]))
    return kind, said if said.startswith(kind) else f"{kind}: {said}"


def _sentence(cells: Sequence[Cell], worst: Cell | None) -> str:
    if worst is None or worst.verdict is None:
        return ""
    judged = [cell for cell in cells if cell.verdict is not None]
    detail = worst.verdict.sentence()
    if len(judged) == 1:
        return detail
    if worst.kind == "fair":
        least = min(judged, key=lambda cell: cell.first_compared)
        scope = "" if least.verdict is None else least.verdict.scope
        return f"{replace(worst.verdict, scope=scope).sentence()} in all {len(judged)} families of documents"
    count = sum(cell.kind == worst.kind for cell in judged)
    return (
        f"{worst.kind} in {count} of {len(judged)} families, strongest for {worst.plan}, n={worst.n}: "
        f"{detail.removeprefix(f'{worst.kind}: ')}"
    )


def not_compared(cells: Sequence[Cell]) -> str:
    """What verdicts leave out of mixed plans; nothing where there are none."""
    plans = list(dict.fromkeys((cell.lead, cell.later) for cell in cells if cell.mixed))
    if len(plans) > 1:
        return "in mixed plans position 1 is not compared with later positions, which are in another language"
    return "".join(
        f"position 1 ({lead}) is not compared with later positions ({later})"
        for lead, later in plans
    )


def remedy(cells: Sequence[Cell]) -> str:
    """What would compare position 1, if some language has no documents of its own."""
    spoken = dict.fromkeys(language for cell in cells for language in (cell.lead, cell.later))
    if set(spoken) <= {cell.lead for cell in cells if not cell.mixed}:
        return ""
    return f"; documents in one language would compare position 1 (languages {', '.join(spoken)})"
