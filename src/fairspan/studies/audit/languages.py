"""`MixedEffects`: two languages compared in documents that consist of just these."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.design.plan import LanguagePlan
from fairspan.errors import DesignError
from fairspan.stats.equivalence import Compared, Verdict
from fairspan.stats.languages import LanguageEffects, LeadLater, language_effects
from fairspan.studies.audit.measures import PLAN, Columns, arrays, contrast
from fairspan.studies.audit.options import AuditAnalysis
from fairspan.studies.audit.positions import in_words, judged_together, sets_option, worst_of

_MIXED = pl.col("lead").cast(pl.String) != pl.col("later").cast(pl.String)


@dataclass(frozen=True, slots=True, eq=False)
class MixedEffects:
    """The mixed documents of one size under one measure and treatment.

    `effects` are at the same length if lengths vary, and None if a reason says why not.
    """

    measure: str
    treatment: str
    n: int
    plans: list[LeadLater]
    documents: int
    effects: LanguageEffects | None = None
    verdict: Verdict | None = None
    reason: str = ""

    @property
    def sets(self) -> int:
        return 0 if self.effects is None else self.effects.fit.sets

    @property
    def compared(self) -> Compared | None:
        return None if self.effects is None or not self.effects.pairs else self.effects.compared()

    @property
    def same_length(self) -> bool:
        return self.effects is not None and not self.effects.no_slope

    @property
    def pairs(self) -> Iterator[Columns]:
        """The difference of every two languages that lead each other, over all positions."""
        if self.effects is None or self.verdict is None:
            return
        differences = self.effects.differences()
        for place, (language, against) in enumerate(self.effects.pairs):
            yield {
                "measure": self.measure,
                "treatment": self.treatment,
                "n": self.n,
                "sets": self.sets,
                "documents": self.documents,
                "language": language,
                "against": against,
                "margin": self.verdict.margin,
                "verdict": self.verdict.kinds[place],
                **contrast(differences[place]),
                "same_length": self.same_length,
                "inference": self.effects.fit.inference,
            }


def mixed_effects_of(rows: pl.DataFrame, analysis: AuditAnalysis) -> list[MixedEffects]:
    group = ("measure", "treatment", "n")
    parts = rows.filter(_MIXED).partition_by(group, as_dict=True, maintain_order=True)
    effects = [_mixed_effects(part, key, analysis) for key, part in parts.items()]
    return judged_together(effects, analysis.margin)


def _mixed_effects(
    rows: pl.DataFrame, group: tuple[Any, ...], analysis: AuditAnalysis
) -> MixedEffects:
    """The effects of one size, or the reason why there are none, before they are judged."""
    measure, treatment, n = group
    plans = rows.select(pl.col("lead", "later").cast(pl.String)).unique(maintain_order=True).rows()
    mixed = MixedEffects(measure, treatment, n, plans, rows.height // n)
    columns = arrays(rows, "value", "position", "set", "tokens", "segment")
    values, positions, sets, tokens, segments = columns
    names = pl.Enum([str(LanguagePlan(*plan)) for plan in plans])
    codes = rows.select(PLAN.cast(names).to_physical()).to_series().to_numpy()
    places = (positions, (codes, plans), sets, tokens, segments)
    try:
        effects = language_effects(values, *places, inference=analysis.inference)
    except DesignError as error:
        return replace(mixed, reason=f"languages are not compared: {error}")
    return replace(mixed, effects=effects)


def language_verdict(sizes: Sequence[MixedEffects]) -> tuple[str, str] | None:
    """The verdict on the worst size, and the same in one line; None if nothing is compared."""
    worst = worst_of(sizes)
    if worst is None or worst.verdict is None:
        return None
    kinds = [kind for size in sizes if size.verdict for kind in size.verdict.kinds]
    where = f"n={worst.n}"
    option = sets_option(sizes)
    sentence = in_words(worst.verdict, kinds, "comparisons of two languages", where, option)
    same = "compared at the same position" + (" and length" if worst.same_length else "")
    return worst.verdict.kind, f"{sentence}; {same}"


def language_notes(sizes: Sequence[MixedEffects], languages: Sequence[str]) -> list[str]:
    """What keeps languages from being compared, or from being compared at the same length."""
    if len(languages) < 2:
        return []
    if not sizes:
        first, second, *others = languages
        plans = "all" if others else f"{first}:{second},{second}:{first}"
        note = (
            "languages have no verdict, since documents in one language cannot separate a language "
            f"from its texts: use mixed documents in both orders (mixed {plans})"
        )
        return [note]
    lengths = [size.effects.no_slope for size in sizes if size.effects is not None]
    reasons = dict.fromkeys([*(size.reason for size in sizes), *lengths])
    named = dict.fromkeys(plan for size in sizes for plan in size.plans)
    alone = [plan for plan in named if plan[::-1] not in named]
    notes = [reason for reason in reasons if reason]
    if alone:
        pairs = ", ".join(f"{lead} and {later}" for lead, later in alone)
        wanted = ", ".join(f"{later}:{lead}" for lead, later in alone)
        missing = f"of which one order is missing (mixed {wanted})"
        notes.append(f"not compared as languages: {pairs}, {missing}")
    return notes
