"""`Spoken`: the languages of mixed documents, compared in both orders, and the verdict on each treatment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.stats.languages import LanguageEffects, LanguageVerdict, Plan, language_effects, language_verdicts
from fairspan.studies.audit.words import POSITION_MEASURES

MIXED = pl.col("lead").cast(pl.String) != pl.col("later").cast(pl.String)
"""Rows of documents in two languages."""

_WORST = ("biased", "inconclusive", "fair")


@dataclass(frozen=True, slots=True, eq=False)
class Spoken:
    """The mixed documents of one size under one measure and treatment.

    Attributes:
        effects: at the same length where lengths vary; None where a reason says why not.
        plain: at the lengths that segments have.
        verdict: None where no two languages lead each other.
    """

    measure: str
    treatment: str
    n: int
    plans: tuple[Plan, ...]
    effects: LanguageEffects | None
    plain: LanguageEffects | None
    verdict: LanguageVerdict | None
    documents: int
    reason: str = ""

    @property
    def same_length(self) -> bool:
        return self.effects is not None and not self.effects.model.no_slope


def languages_of(
    rows: pl.DataFrame, inference: str, seed: int, margin: float, draws: tuple[int, int]
) -> tuple[Spoken, ...]:
    """The languages of all mixed documents, with verdicts; nothing where there are none.

    Args:
        draws: samples of a wild bootstrap, at least and for each comparison.
    """
    mixed = rows.filter(MIXED)
    groups = mixed.select("measure", "treatment", "n").unique(maintain_order=True).rows()
    parts = {group: mixed.filter(measure=group[0], treatment=group[1], n=group[2]) for group in groups}
    plans = {group: plans_of(part) for group, part in parts.items()}
    pairs: Counter[tuple[str, str]] = Counter()
    for (measure, treatment, _), found in plans.items():
        pairs[measure, treatment] += sum(plan[::-1] in found for plan in found) // 2
    spoken = [
        _spoken(part, group, plans[group], inference, seed, max(draws[0], draws[1] * pairs[group[:2]]))
        for group, part in parts.items()
    ]
    return tuple(_judged(spoken, margin))


def kind_of(found: Sequence[Spoken]) -> str:
    """The verdict on languages under one measure and treatment: that on the worst size; empty where there is none."""
    worst = _worst(found)
    return worst.verdict.kind if worst is not None and worst.verdict is not None else ""


def sentence_of(found: Sequence[Spoken]) -> str:
    """The same in one line, with what is compared and what is missing."""
    worst = _worst(found)
    if worst is None or worst.verdict is None:
        return ""
    verdict = worst.verdict
    kinds = [kind for one in found if one.verdict is not None for kind in one.verdict.kinds]
    said = verdict.sentence()
    if len(kinds) > 1:
        several = len([one for one in found if one.verdict is not None]) > 1
        what = "comparisons of two languages" if several else "pairs of languages"
        if verdict.kind == "fair":
            said += f" in all {len(kinds)} {what}"
        else:
            where = f", strongest for n={worst.n}" if several else ", strongest"
            where = where if verdict.kind == "biased" else ""
            count = kinds.count(verdict.kind)
            said = said.replace(verdict.kind, f"{verdict.kind} in {count} of {len(kinds)} {what}{where}", 1)
    same = "compared at the same position" + (" and length" if worst.same_length else "")
    return "; ".join([said, same, *_missing(found)])


def language_notes(found: Sequence[Spoken], languages: Sequence[str]) -> list[str]:
    """What keeps languages from being compared."""
    if len(languages) < 2:
        return []
    if not found:
        first, second, *others = languages
        plans = "all" if others else f"{first}:{second},{second}:{first}"
        said = "documents in one language do not tell how a model treats it from what its segments are like"
        return [f"languages have no verdict: {said}; mixed documents in both orders do (mixed {plans})"]
    return [*_missing(found), *dict.fromkeys(one.reason for one in found if one.reason)]


def _missing(found: Sequence[Spoken]) -> list[str]:
    pairs = dict.fromkeys(plan for one in found for plan in one.plans if plan[::-1] not in one.plans)
    if not pairs:
        return []
    named = ", ".join(f"{lead} and {later}" for lead, later in pairs)
    wanted = ", ".join(f"{later}:{lead}" for lead, later in pairs)
    return [f"not compared as languages: {named}, of which one order is missing (mixed {wanted})"]


def _worst(found: Sequence[Spoken]) -> Spoken | None:
    """Biased before inconclusive before fair, then the one that needs most sets, or the largest difference."""

    def rank(one: Spoken) -> tuple[int, float, float]:
        assert one.verdict is not None
        needed = inf if one.verdict.sets_needed is None else one.verdict.sets_needed
        need = -needed if one.verdict.kind == "inconclusive" else 0.0
        return _WORST.index(one.verdict.kind), need, -abs(one.verdict.estimate)

    return min((one for one in found if one.verdict is not None), key=rank, default=None)


def plans_of(rows: pl.DataFrame) -> list[Plan]:
    found = rows.select(pl.col("lead", "later").cast(pl.String)).unique(maintain_order=True)
    return [(lead, later) for lead, later in found.rows()]


def _spoken(
    rows: pl.DataFrame, group: tuple[str, str, int], plans: list[Plan], inference: str, seed: int, draws: int
) -> Spoken:
    how: dict[str, Any] = {"inference": inference, "seed": seed, "draws": draws}
    documents = rows.height // group[2]
    try:
        effects = effects_of(rows, rows["value"].to_numpy(), plans, **how)
        plain = effects
        if not effects.model.no_slope:
            plain = effects_of(rows, rows["value"].to_numpy(), plans, same_length=False, **how)
    except StatisticsError as error:
        return Spoken(*group, tuple(plans), None, None, None, documents, f"languages are not compared: {error}")
    return Spoken(*group, tuple(plans), effects, plain, None, documents)


def effects_of(
    rows: pl.DataFrame,
    values: np.ndarray,
    plans: Sequence[Plan],
    *,
    inference: str,
    seed: int,
    same_length: bool = True,
    draws: int = 9999,
) -> LanguageEffects:
    """The languages of mixed documents by values[N] of their rows."""
    leads, laters = ([plan[side] for plan in plans] for side in (0, 1))
    codes = pl.DataFrame({"lead": leads, "later": laters, "code": range(len(plans))})
    named = rows.select(pl.col("lead", "later").cast(pl.String))
    code = named.join(codes, on=["lead", "later"], how="left", maintain_order="left")["code"].to_numpy()
    position, sets, tokens, segments = (rows[name].to_numpy() for name in ("position", "set", "tokens", "segment"))
    return language_effects(
        values,
        position,
        (code, plans),
        sets,
        tokens if same_length else None,
        segments,
        inference=inference,
        rng=np.random.default_rng(seed),
        draws=draws,
    )


def _judged(spoken: Sequence[Spoken], margin: float) -> list[Spoken]:
    """With verdicts; the sizes of one measure and treatment are judged together."""
    judged = list(spoken)
    together: dict[tuple[str, str], list[int]] = {}
    for place, one in enumerate(spoken):
        if one.effects is not None and one.effects.pairs:
            together.setdefault((one.measure, one.treatment), []).append(place)
    for (measure, _), places in together.items():
        effects = [found for place in places if (found := spoken[place].effects) is not None]
        decided = language_verdicts(effects, margin, measure=POSITION_MEASURES[measure].done)
        for place, verdict in zip(places, decided, strict=True):
            judged[place] = replace(spoken[place], verdict=verdict)
    return judged
