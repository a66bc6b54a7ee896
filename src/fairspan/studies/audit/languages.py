"""`Spoken`: the languages of mixed documents, compared in both orders; and the model over all language plans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import DesignError
from fairspan.report.frames import columns_of
from fairspan.stats.equivalence import Compared, Verdict
from fairspan.stats.intervals import Interval
from fairspan.stats.languages import LanguageEffects, LeadLater, joint_model, language_effects
from fairspan.studies.audit.measures import COMPANIES, COMPANY, Record, Settings, contrast
from fairspan.studies.audit.positions import judged_together, worst_of

MIXED = pl.col("lead").cast(pl.String) != pl.col("later").cast(pl.String)
"""Rows of documents in two languages."""

_GROUP = ("measure", "treatment", "n")


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
    plans: tuple[LeadLater, ...]
    documents: int
    effects: LanguageEffects | None = None
    plain: LanguageEffects | None = None
    verdict: Verdict | None = None
    reason: str = ""

    @property
    def compared(self) -> Compared | None:
        return None if self.effects is None or not self.effects.pairs else self.effects.compared()

    @property
    def same_length(self) -> bool:
        return self.effects is not None and not self.effects.model.no_slope

    @property
    def names(self) -> Record:
        sets = 0 if self.effects is None else self.effects.model.sets
        group = {"measure": self.measure, "treatment": self.treatment, "n": self.n}
        return {**group, "sets": sets, "documents": self.documents}

    @property
    def pairs(self) -> Iterator[Record]:
        """The difference of every two languages that lead each other: over all positions, at the first and later."""
        if self.effects is None or self.verdict is None:
            return
        overall, lead, later = (self.effects.differences(role) for role in ("", "lead", "later"))
        for place, (language, against) in enumerate(self.effects.pairs):
            yield {
                **self.names,
                "language": language,
                "against": against,
                "margin": self.verdict.margin,
                "verdict": self.verdict.kinds[place],
                **contrast(overall[place]),
                **columns_of(lead[place], "lead_"),
                **columns_of(later[place], "later_"),
                "same_length": self.same_length,
                "inference": self.effects.model.robust.inference,
            }

    @property
    def roles(self) -> Iterator[Record]:
        """What each language has where it leads and where it follows, and the others of the same documents."""
        if self.plain is None:
            return
        for language in self.plain.languages:
            for role in ("lead", "later"):
                found = self.plain.role(language, role)
                if found is None:
                    continue
                beside, means = found
                about = {"language": language, "role": role, "beside": ", ".join(beside)}
                ends = {
                    key: end
                    for name, one in means.items()
                    for key, end in columns_of(one, f"{name}_").items()
                }
                yield {
                    **self.names,
                    **about,
                    **ends,
                    "inference": self.plain.model.robust.inference,
                }


def spoken_of(rows: pl.DataFrame, settings: Settings) -> list[Spoken]:
    """The languages of all mixed documents; the sizes of one measure and treatment are judged together."""
    mixed = rows.filter(MIXED)
    parts = _by_group(mixed)
    spoken = [_spoken(part, group, plans_of(part), settings) for group, part in parts.items()]
    return judged_together(spoken, settings.margin)


def _spoken(
    rows: pl.DataFrame, group: tuple[str, str, int], plans: list[LeadLater], settings: Settings
) -> Spoken:
    found, values = Spoken(*group, tuple(plans), rows.height // group[2]), rows["value"].to_numpy()
    try:
        effects = plain = effects_of(rows, values, plans, settings)
        if not effects.model.no_slope:
            plain = effects_of(rows, values, plans, settings, same_length=False)
    except DesignError as error:
        return replace(found, reason=f"languages are not compared: {error}")
    return replace(found, effects=effects, plain=plain)


def effects_of(
    rows: pl.DataFrame,
    values: np.ndarray,
    plans: Sequence[LeadLater],
    settings: Settings,
    *,
    same_length: bool = True,
) -> LanguageEffects:
    """The languages of mixed documents by values[N] of their rows."""
    leads, laters = ([plan[side] for plan in plans] for side in (0, 1))
    codes = pl.DataFrame({"lead": leads, "later": laters, "code": range(len(plans))})
    named = rows.select(pl.col("lead", "later").cast(pl.String))
    code = named.join(codes, on=["lead", "later"], how="left", maintain_order="left")[
        "code"
    ].to_numpy()
    position, sets, tokens, segments = (
        rows[name].to_numpy() for name in ("position", "set", "tokens", "segment")
    )
    lengths, how = tokens if same_length else None, settings.inference
    return language_effects(values, position, (code, plans), sets, lengths, segments, inference=how)


def plans_of(rows: pl.DataFrame) -> list[LeadLater]:
    found = rows.select(pl.col("lead", "later").cast(pl.String)).unique(maintain_order=True)
    return [(lead, later) for lead, later in found.rows()]


def pairs_of(plans: Sequence[LeadLater]) -> int:
    """How many pairs of languages lead each other."""
    return sum(plan[::-1] in plans for plan in plans) // 2


def language_verdict(found: Sequence[Spoken]) -> tuple[str, str] | None:
    """The verdict on languages under one measure and treatment, that on the worst size, and the same in one line.

    None where no languages are compared.
    """
    worst = worst_of(found)
    if worst is None or worst.verdict is None:
        return None
    kind, said = worst.verdict.kind, worst.verdict.sentence()
    judged = [one.verdict for one in found if one.verdict is not None]
    kinds = [each for verdict in judged for each in verdict.kinds]
    if len(kinds) > 1:
        several = len(judged) > 1
        what = "comparisons of two languages" if several else "pairs of languages"
        if kind == "fair":
            said += f" in all {len(kinds)} {what}"
        else:
            where = f", strongest for n={worst.n}" if several else ", strongest"
            where = where if kind == "biased" else ""
            said = said.replace(
                kind, f"{kind} in {kinds.count(kind)} of {len(kinds)} {what}{where}", 1
            )
    same = "compared at the same position" + (" and length" if worst.same_length else "")
    return kind, "; ".join([said, same, *_missing(found)])


def language_notes(found: Sequence[Spoken], languages: Sequence[str]) -> list[str]:
    """What keeps languages from being compared."""
    if len(languages) < 2:
        return []
    if not found:
        first, second, *others = languages
        plans = "all" if others else f"{first}:{second},{second}:{first}"
        said = "documents in one language do not tell how a model treats it from what its segments are like"
        return [
            f"languages have no verdict: {said}; mixed documents in both orders do (mixed {plans})"
        ]
    return [*_missing(found), *dict.fromkeys(one.reason for one in found if one.reason)]


def _missing(found: Sequence[Spoken]) -> list[str]:
    pairs = dict.fromkeys(
        plan for one in found for plan in one.plans if plan[::-1] not in one.plans
    )
    if not pairs:
        return []
    named = ", ".join(f"{lead} and {later}" for lead, later in pairs)
    wanted = ", ".join(f"{later}:{lead}" for lead, later in pairs)
    return [f"not compared as languages: {named}, of which one order is missing (mixed {wanted})"]


def joint_records(rows: pl.DataFrame, settings: Settings) -> Iterator[Record]:
    """The model over all plans of each measure, treatment and size; nothing where all is in one language.

    Differences between positions and between languages, the slope of log(tokens), and the mean of each place.
    """
    for group, part in (_by_group(rows) if rows["language"].n_unique() > 1 else {}).items():
        labels = dict(zip(_GROUP, group, strict=True))
        try:
            for one in _joint_effects(part, settings):
                yield labels | one
        except DesignError as error:
            yield labels | _joint("model", reason=str(error))


def _by_group(rows: pl.DataFrame) -> dict[Any, pl.DataFrame]:
    return rows.partition_by(_GROUP, as_dict=True, maintain_order=True)


def _joint_effects(rows: pl.DataFrame, settings: Settings) -> Iterator[Record]:
    names = ("value", "position", "language", "set", "tokens", "segment")
    companies = rows.select(COMPANY).to_series().to_numpy()
    columns = [rows[name].to_numpy() for name in names]
    model = joint_model(*columns, companies=(companies, COMPANIES), inference=settings.inference)
    for name in ("position", "language"):
        try:
            effect = model.effect(name)
        except DesignError as error:
            yield _joint(name, reason=str(error))
            continue
        against = str(effect.baseline)
        for place, label in enumerate(effect.names):
            over = ", ".join(
                f"{level}{' (mixed)' if company else ''}" for level, company in effect.over[place]
            )
            told = {
                name: label,
                "against": against,
                "averaged_over": over,
                "joint_p": effect.p_value,
            }
            yield _joint(name, effect.contrasts[place], **told)
        for label in effect.refused:
            reason = f"{label} is never in the same place and company as {against}"
            yield _joint(name, None, **{name: label, "against": against, "reason": reason})
    yield _joint(
        "log_tokens", None if model.no_slope else model.slope(), reason=model.no_slope or None
    )
    for position, language, company in model.cells:
        where = {
            "position": position,
            "language": language,
            "plans": "mixed" if company else "monolingual",
        }
        yield _joint("mean", model.mean((position, language, company)), **where)


def _joint(effect: str, found: Interval | None = None, **told: Any) -> Record:
    about = dict.fromkeys(("position", "language", "plans", "against", "averaged_over"))
    return {"effect": effect, **about, **contrast(found), "joint_p": None, "reason": None, **told}
