"""`FamilyEffects`: how positions differ in one family under one treatment; and the verdicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, TypeVar

import polars as pl

from fairspan.design.plan import LanguagePlan
from fairspan.stats.equivalence import Compared, Verdict, decide
from fairspan.stats.positions import PositionEffects, marker, position_effects, position_pairs
from fairspan.studies.audit.measures import (
    FAMILY,
    POSITION_MEASURES,
    Columns,
    arrays,
    contrast,
    symbol,
)
from fairspan.studies.audit.options import AuditAnalysis


class Judged(Protocol):
    """What a verdict is about; `compared` and `verdict` are None if nothing could be compared."""

    @property
    def measure(self) -> str: ...
    @property
    def treatment(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def sets(self) -> int: ...
    @property
    def compared(self) -> Compared | None: ...
    @property
    def verdict(self) -> Verdict | None: ...


AnyJudged = TypeVar("AnyJudged", bound=Judged)


def judged_together(unjudged: Sequence[AnyJudged], margin: float) -> list[AnyJudged]:
    """The same with verdicts: those of one measure and treatment are judged together."""
    groups: dict[tuple[str, str], dict[int, Compared]] = {}
    for place, item in enumerate(unjudged):
        compared = item.compared
        if compared is not None:
            groups.setdefault((item.measure, item.treatment), {})[place] = compared
    judged = list(unjudged)
    for (measure, _), members in groups.items():
        verdicts = decide(list(members.values()), margin, measure=POSITION_MEASURES[measure].done)
        for place, verdict in zip(members, verdicts, strict=True):
            judged[place] = replace(judged[place], verdict=verdict)  # type: ignore[type-var]
    return judged


@dataclass(frozen=True, slots=True, eq=False)
class FamilyEffects:
    """One measure of one treatment on the documents of one size and language plan.

    `tokens` is the mean length of segments by position; `verdict` is of the positions that are
    compared.
    """

    measure: str
    treatment: str
    n: int
    lead: str
    later: str
    effects: PositionEffects
    tokens: tuple[float, ...]
    documents: int
    verdict: Verdict | None = None

    @property
    def plan(self) -> str:
        return str(LanguagePlan(self.lead, self.later))

    @property
    def mixed(self) -> bool:
        return self.lead != self.later

    @property
    def sets(self) -> int:
        return self.effects.fit.sets

    @property
    def first(self) -> int:
        """The first position that is compared: 1, if others are in its language."""
        return 2 if self.mixed else 1

    @property
    def compared(self) -> Compared | None:
        """None if all positions but one are in another language than the first."""
        return self.effects.compared(self.first) if self.n > self.first else None

    @property
    def kind(self) -> str:
        return "not compared" if self.verdict is None else self.verdict.kind

    @property
    def names(self) -> Columns:
        plan = {"plan": self.plan, "lead": self.lead, "later": self.later, "n": self.n}
        sizes = {"sets": self.sets, "documents": self.documents}
        return {"measure": self.measure, "treatment": self.treatment, **plan, **sizes}

    @property
    def judgement(self) -> Columns:
        """The verdict on the family, and how uneven its positions are."""
        verdict = self.verdict
        names = ("margin", "position", "against", "estimate", "low", "high", "sets_needed")
        columns: Columns = {name: getattr(verdict, name, None) for name in names}
        ends = ("estimate", "low", "high")
        columns |= {f"{name}_{end}": None for name in ("spread", "psi") for end in ends}
        if verdict is not None:
            pairs = position_pairs(self.n, self.first)
            columns["against"], columns["position"] = pairs[verdict.worst]
            for name, measure in self.effects.unevenness(self.first).items():
                columns |= measure.columns(f"{name}_")
        sentence = "" if verdict is None else verdict.sentence()
        return {**self.names, "verdict": self.kind, **columns, "sentence": sentence}

    @property
    def coefficients(self) -> Iterator[Columns]:
        """β0, and the difference of every later position from the first."""
        effects = self.effects.coefficients
        for place in range(self.n):
            yield {
                **self.names,
                "position": place + 1,
                "coefficient": symbol(place + 1),
                **contrast(effects[place]),
                "marker": marker(effects[place].p),
                "inference": self.effects.fit.inference,
            }

    @property
    def means(self) -> Iterator[Columns]:
        means = self.effects.means
        for place, tokens in enumerate(self.tokens):
            mean = means[place].columns()
            yield {**self.names, "position": place + 1, **mean, "tokens": tokens}


def families_of(rows: pl.DataFrame, analysis: AuditAnalysis) -> list[FamilyEffects]:
    parts = rows.partition_by(FAMILY, as_dict=True, maintain_order=True)
    families = [_effects_of(part, family, analysis) for family, part in parts.items()]
    return judged_together(families, analysis.margin)


def _effects_of(
    rows: pl.DataFrame, family: tuple[Any, ...], analysis: AuditAnalysis
) -> FamilyEffects:
    """The effects of one family, before it is judged together with others."""
    measure, treatment, n, lead, later = family
    places = arrays(rows, "value", "position", "set", "segment")
    effects = position_effects(*places, inference=analysis.inference)
    lengths = rows.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"]
    names = (measure, treatment, n, lead, later)
    return FamilyEffects(*names, effects, tuple(lengths), rows.height // n)


def worst_of(judged: Sequence[AnyJudged]) -> AnyJudged | None:
    """The one with the worst verdict; None if none has a verdict."""
    ranks = {place: item.verdict.rank for place, item in enumerate(judged) if item.verdict}
    return judged[min(ranks, key=ranks.__getitem__)] if ranks else None


def verdict_of(families: Sequence[FamilyEffects], more: Sequence[str] = ()) -> tuple[str, str]:
    """The verdict on the worst family, fair only if some compare position 1, and why."""
    worst = worst_of(families)
    kind = "inconclusive" if worst is None else worst.kind
    if kind == "fair" and all(family.mixed for family in families):
        kind = "inconclusive"
    words = "no two positions are compared"
    if worst is not None and worst.verdict is not None:
        judged = [family for family in families if family.verdict is not None]
        scope = worst.verdict.scope if all(family.mixed for family in judged) else ""
        kinds = [family.kind for family in judged]
        where = f"{worst.plan}, n={worst.n}"
        shown = replace(worst.verdict, scope=scope)
        words = in_words(shown, kinds, "families of documents", where, sets_option(families))
    return kind, "; ".join(filter(None, [words, *more]))


def in_words(worst: Verdict, kinds: Sequence[str], what: str, where: str, sets: str) -> str:
    """Why, for the worst verdict, and how many of all that were judged are like it."""
    sentence = worst.sentence(sets)
    if len(kinds) == 1:
        return sentence
    if worst.kind == "fair":
        return f"{sentence} in all {len(kinds)} {what}"
    count = f"in {kinds.count(worst.kind)} of {len(kinds)} {what}"
    if worst.kind == "biased":
        return f"{count}, strongest for {where}: {sentence}"
    # What to type is for all of them.
    example = "" if worst.sets_needed else f", such as {where}"
    return f"{count}{example}: {sentence}"


def sets_option(judged: Sequence[AnyJudged]) -> str:
    """What to type for `--sets` to decide all that is open.

    One number, or numbers by size such as 3:167,4:42 if sizes have different numbers now.
    """
    seen: dict[int, int] = {}
    needed: dict[int, int] = {}
    for item in filter(lambda item: item.sets, judged):
        wanted = item.verdict.sets_needed if item.verdict else None
        seen[item.n] = max(seen.get(item.n, 0), item.sets)
        needed[item.n] = max(needed.get(item.n, 0), wanted or item.sets)
    if len(set(seen.values())) == 1:
        return str(max(needed.values()))
    return ",".join(f"{n}:{count}" for n, count in sorted(needed.items()))


def languages_of(families: Sequence[FamilyEffects]) -> list[str]:
    plans = [(family.lead, family.later) for family in families]
    return list(dict.fromkeys(chain.from_iterable(plans)))
