"""`FamilyEffects`: how positions differ in one family under one treatment; and the verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import nan
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
    Columns,
    Family,
    Settings,
    arrays,
    contrast,
    symbol,
)


class Judged(Protocol):
    """What a verdict is about; `compared` and `verdict` are None if nothing could be compared."""

    @property
    def measure(self) -> str: ...
    @property
    def treatment(self) -> str: ...
    @property
    def compared(self) -> Compared | None: ...
    @property
    def verdict(self) -> Verdict | None: ...


AnyJudged = TypeVar("AnyJudged", bound=Judged)


def judged_together(unjudged: Sequence[AnyJudged], margin: float) -> list[AnyJudged]:
    """The same with verdicts: those of one measure and treatment are judged together."""
    groups: dict[tuple[str, str], dict[int, Compared]] = {}
    for place, item in enumerate(unjudged):
        if item.compared is not None:
            groups.setdefault((item.measure, item.treatment), {})[place] = item.compared
    judged = list(unjudged)
    for (measure, _), members in groups.items():
        verdicts = decide(list(members.values()), margin, measure=POSITION_MEASURES[measure].done)
        for place, verdict in zip(members, verdicts, strict=True):
            judged[place] = replace(judged[place], verdict=verdict)  # type: ignore[type-var]
    return judged


@dataclass(frozen=True, slots=True, eq=False)
class FamilyEffects(Family):
    """One measure of one treatment on one family of documents.

    `tokens` is the mean length of segments by position; `uneven`, `gini_p`, `least` (the mean of
    each document's smallest value) and `verdict` are of the positions that are compared.
    """

    treatment: str
    effects: PositionEffects
    documents: int
    tokens: tuple[float, ...]
    uneven: dict[str, Interval] = field(default_factory=dict)
    gini_p: float = nan
    least: float = nan
    verdict: Verdict | None = None

    @property
    def compared(self) -> Compared | None:
        return self.effects.compared(self.first_compared) if self.comparable else None

    @property
    def kind(self) -> str:
        return "not compared" if self.verdict is None else self.verdict.kind

    @property
    def names(self) -> Columns:
        sizes = {"sets": self.effects.sets, "documents": self.documents}
        return {"measure": self.measure, "treatment": self.treatment, **self.labels, **sizes}

    @property
    def judgement(self) -> Columns:
        """The verdict on the family, and in a mixed plan what it leaves out."""
        verdict = self.verdict
        names = ("margin", "position", "against", "estimate", "low", "high", "sets_needed")
        columns: Columns = {name: getattr(verdict, name, None) for name in names}
        sentence = not_compared([self])
        if verdict is not None:
            pairs = stats.position_pairs(self.n, self.first_compared)
            columns["against"], columns["position"] = pairs[verdict.worst]
            sentence = "; ".join(filter(None, [verdict.sentence(), sentence]))
        return {**self.names, "verdict": self.kind, **columns, "sentence": sentence}

    @property
    def coefficients(self) -> Iterator[Columns]:
        """β0, and the difference of every later position from the first."""
        for position in range(1, self.n + 1):
            effect = self.effects[position - 1]
            yield {
                **self.names,
                "position": position,
                "coefficient": symbol(position),
                **contrast(effect),
                "marker": stats.marker(effect.p_value),
                "inference": self.effects.robust.inference,
            }

    @property
    def means(self) -> Iterator[Columns]:
        for place, tokens in enumerate(self.tokens):
            mean = columns_of(self.effects.means[place])
            yield {**self.names, "position": place + 1, **mean, "tokens": tokens}

    @property
    def unevenness(self) -> Iterator[Columns]:
        """One row, or none if only one position is compared."""
        if not self.uneven:
            return
        first = self.first_compared
        columns: Columns = {}
        for name, interval in self.uneven.items():
            without_first = first > 1 and name.startswith("first_")
            columns |= columns_of(None if without_first else interval, f"{name}_")
        columns |= {"gini_p": self.gini_p, "least": self.least}
        columns["joint_p"] = self.effects.robust.joint(difference_weights(self.n, first))
        yield {**self.names, "from_position": first, **columns, "verdict": self.kind}


def families_of(rows: pl.DataFrame, settings: Settings) -> list[FamilyEffects]:
    parts = rows.partition_by(FAMILY, as_dict=True, maintain_order=True)
    families = [_effects_of(part, family, settings) for family, part in parts.items()]
    return judged_together(families, settings.margin)


def _effects_of(rows: pl.DataFrame, family: tuple[Any, ...], settings: Settings) -> FamilyEffects:
    """The effects of one family, before it is judged together with others."""
    measure, treatment, n, lead, later = family
    places = arrays(rows, "value", "position", "set", "segment")
    effects = stats.position_effects(*places, inference=settings.inference)
    lengths = rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"]
    counts = (rows.height // n, tuple(lengths))
    family_effects = FamilyEffects(measure, n, lead, later, treatment, effects, *counts)
    if not family_effects.comparable:
        return family_effects
    first = family_effects.first_compared
    kept = rows.filter(pl.col("position") >= first)
    values, positions, sets, documents = arrays(kept, "value", "position", "set", "document")
    rng = settings.rng
    uneven = stats.unevenness(values, positions - first + 1, sets, rng=rng)
    gini_p = stats.gini_test(values, positions - first + 1, documents, rng=rng)
    smallest = kept.group_by("document", maintain_order=True).agg(pl.col("value").min())
    least = float(smallest["value"].to_numpy().mean())
    return replace(family_effects, uneven=uneven, gini_p=gini_p, least=least)


def worst_of(judged: Sequence[AnyJudged]) -> AnyJudged | None:
    """The one with the worst verdict; None if none has a verdict."""
    ranks = {place: item.verdict.rank for place, item in enumerate(judged) if item.verdict}
    return judged[min(ranks, key=ranks.__getitem__)] if ranks else None


def verdict_of(families: Sequence[FamilyEffects], more: Sequence[str] = ()) -> tuple[str, str]:
    """The verdict on the worst family, fair only if some compare position 1, and it in a line."""
    worst = worst_of(families)
    only_mixed = all(family.mixed for family in families)
    kind = "inconclusive" if worst is None else worst.kind
    if kind == "fair" and only_mixed:
        kind = "inconclusive"
    left_out = not_compared(families) + (remedy(families) if only_mixed else "")
    sentence = "; ".join(filter(None, [_sentence(families, worst), *more, left_out]))
    return kind, sentence if sentence.startswith(kind) else f"{kind}: {sentence}"


def _sentence(families: Sequence[FamilyEffects], worst: FamilyEffects | None) -> str:
    """The worst verdict, and in how many families it is the same."""
    if worst is None or worst.verdict is None:
        return ""
    judged = [family for family in families if family.verdict is not None]
    detail = worst.verdict.sentence()
    if len(judged) == 1:
        return detail
    if worst.kind == "fair":
        least = min(judged, key=lambda family: family.first_compared).verdict
        assert least is not None
        fair = replace(worst.verdict, scope=least.scope).sentence()
        return f"{fair} in all {len(judged)} families of documents"
    count = sum(family.kind == worst.kind for family in judged)
    return (
        f"{worst.kind} in {count} of {len(judged)} families, strongest for {worst.plan}, "
        f"n={worst.n}: {detail.removeprefix(f'{worst.kind}: ')}"
    )


def not_compared(families: Sequence[FamilyEffects]) -> str:
    """What verdicts leave out of mixed plans; empty if there are none."""
    plans = {(family.lead, family.later) for family in families if family.mixed}
    if not plans:
        return ""
    if len(plans) > 1:
        several = "in mixed plans position 1 is not compared with later positions"
        return f"{several}, which are in another language"
    [(lead, later)] = plans
    return f"position 1 ({lead}) is not compared with later positions ({later})"


def remedy(families: Sequence[FamilyEffects]) -> str:
    """What would compare position 1, if some language has no documents of its own."""
    languages = languages_of(families)
    if set(languages) <= {family.lead for family in families if not family.mixed}:
        return ""
    listed = ", ".join(languages)
    return f"; documents in one language would compare position 1 (languages {listed})"


def languages_of(families: Sequence[FamilyEffects]) -> list[str]:
    plans = [(family.lead, family.later) for family in families]
    return list(dict.fromkeys(chain.from_iterable(plans)))
