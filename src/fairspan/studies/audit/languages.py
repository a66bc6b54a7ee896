"""`MixedEffects`: languages compared in documents of two of them; the model over all plans."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from fairspan.errors import DesignError
from fairspan.report.frames import columns_of
from fairspan.stats.equivalence import Compared, Verdict
from fairspan.stats.intervals import Interval
from fairspan.stats.languages import (
    JointModel,
    LanguageEffects,
    LeadLater,
    joint_model,
    language_effects,
)
from fairspan.studies.audit.measures import (
    COMPANIES,
    COMPANY,
    PLAN,
    Columns,
    Settings,
    arrays,
    contrast,
    with_codes,
)
from fairspan.studies.audit.positions import judged_together, worst_of

MIXED = pl.col("lead").cast(pl.String) != pl.col("later").cast(pl.String)
"""Rows of documents in two languages."""

_GROUP = ("measure", "treatment", "n")


@dataclass(frozen=True, slots=True, eq=False)
class MixedEffects:
    """The mixed documents of one size under one measure and treatment.

    `effects` are at the same length if lengths vary, and None if a reason says why not; `plain`
    ones are at the lengths that segments have.
    """

    measure: str
    treatment: str
    n: int
    plans: list[LeadLater]
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
    def names(self) -> Columns:
        sets = 0 if self.effects is None else self.effects.model.sets
        group = dict(zip(_GROUP, (self.measure, self.treatment, self.n), strict=True))
        return {**group, "sets": sets, "documents": self.documents}

    @property
    def pairs(self) -> Iterator[Columns]:
        """The difference of every two languages that lead each other: overall, first and later."""
        if self.effects is None or self.verdict is None:
            return
        overall = self.effects.differences()
        lead = self.effects.differences("lead")
        later = self.effects.differences("later")
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
    def roles(self) -> Iterator[Columns]:
        """What each language has where it leads and where it follows, and the others beside it."""
        if self.plain is None:
            return
        for language in self.plain.languages:
            for role in ("lead", "later"):
                measured = self.plain.role(language, role)
                if measured is None:
                    continue
                beside, means = measured
                columns: Columns = {"language": language, "role": role}
                columns["beside"] = ", ".join(beside)
                for name, mean in means.items():
                    columns |= columns_of(mean, f"{name}_")
                columns["inference"] = self.plain.model.robust.inference
                yield self.names | columns


def mixed_effects_of(rows: pl.DataFrame, settings: Settings) -> list[MixedEffects]:
    parts = _by_group(rows.filter(MIXED))
    effects = [_mixed_effects(part, group, settings) for group, part in parts.items()]
    return judged_together(effects, settings.margin)


def _mixed_effects(
    rows: pl.DataFrame, group: tuple[str, str, int], settings: Settings
) -> MixedEffects:
    """The effects of one size, or the reason why there are none, before they are judged."""
    mixed = MixedEffects(*group, plans_of(rows), rows.height // group[2])
    try:
        effects = effects_of(rows, settings)
        plain = effects
        if not effects.model.no_slope:
            plain = effects_of(rows, settings, same_length=False)
    except DesignError as error:
        return replace(mixed, reason=f"languages are not compared: {error}")
    return replace(mixed, effects=effects, plain=plain)


def effects_of(
    rows: pl.DataFrame, settings: Settings, column: str = "value", *, same_length: bool = True
) -> LanguageEffects:
    """The languages of mixed documents by a column of their rows."""
    columns = arrays(rows, column, "position", "set", "tokens", "segment")
    values, positions, sets, tokens, segments = columns
    [codes] = arrays(with_codes(rows.select(PLAN), "plan"), "plan")
    lengths = tokens if same_length else None
    places = (positions, (codes, plans_of(rows)), sets, lengths, segments)
    return language_effects(values, *places, inference=settings.inference)


def plans_of(rows: pl.DataFrame) -> list[LeadLater]:
    return rows.select(pl.col("lead", "later").cast(pl.String)).unique(maintain_order=True).rows()


def count_pairs(rows: pl.DataFrame) -> int:
    """How many pairs of languages lead each other."""
    plans = plans_of(rows)
    return sum(plan[::-1] in plans for plan in plans) // 2


def language_verdict(sizes: Sequence[MixedEffects]) -> tuple[str, str] | None:
    """The verdict on the worst size, and the same in one line; None if nothing is compared."""
    worst = worst_of(sizes)
    if worst is None or worst.verdict is None:
        return None
    kind = worst.verdict.kind
    sentence = worst.verdict.sentence()
    verdicts = [size.verdict for size in sizes if size.verdict is not None]
    kinds = [pair_kind for verdict in verdicts for pair_kind in verdict.kinds]
    if len(kinds) > 1:
        several = len(verdicts) > 1
        what = "comparisons of two languages" if several else "pairs of languages"
        if kind == "fair":
            sentence += f" in all {len(kinds)} {what}"
        else:
            counted = f"{kind} in {kinds.count(kind)} of {len(kinds)} {what}"
            if kind == "biased":
                counted += f", strongest for n={worst.n}" if several else ", strongest"
            sentence = sentence.replace(kind, counted, 1)
    same = "compared at the same position" + (" and length" if worst.same_length else "")
    return kind, "; ".join([sentence, same, *_missing(sizes)])


def language_notes(sizes: Sequence[MixedEffects], languages: Sequence[str]) -> list[str]:
    """What keeps languages from being compared."""
    if len(languages) < 2:
        return []
    if not sizes:
        first, second, *others = languages
        plans = "all" if others else f"{first}:{second},{second}:{first}"
        note = (
            "languages have no verdict: documents in one language do not tell how a model treats "
            f"it from what its segments are like; mixed documents in both orders do (mixed {plans})"
        )
        return [note]
    return [*_missing(sizes), *dict.fromkeys(size.reason for size in sizes if size.reason)]


def _missing(sizes: Sequence[MixedEffects]) -> list[str]:
    """The plans of which the other order is missing, as a note."""
    alone = [plan for size in sizes for plan in size.plans if plan[::-1] not in size.plans]
    plans = dict.fromkeys(alone)
    if not plans:
        return []
    pairs = ", ".join(f"{lead} and {later}" for lead, later in plans)
    wanted = ", ".join(f"{later}:{lead}" for lead, later in plans)
    return [f"not compared as languages: {pairs}, of which one order is missing (mixed {wanted})"]


def joint_rows(rows: pl.DataFrame, settings: Settings) -> Iterator[Columns]:
    """The model over all plans of each measure, treatment and size; none for one language."""
    if rows["language"].n_unique() < 2:
        return
    for group, part in _by_group(rows).items():
        labels = dict(zip(_GROUP, group, strict=True))
        try:
            for columns in _joint_effects(part, settings):
                yield labels | columns
        except DesignError as error:
            yield labels | _joint("model", reason=str(error))


def _by_group(rows: pl.DataFrame) -> dict[Any, pl.DataFrame]:
    return rows.partition_by(_GROUP, as_dict=True, maintain_order=True)


def _joint_effects(rows: pl.DataFrame, settings: Settings) -> Iterator[Columns]:
    """The rows of one joint model."""
    companies = rows.select(COMPANY).to_series().to_numpy()
    columns = arrays(rows, "value", "position", "language", "set", "tokens", "segment")
    model = joint_model(*columns, companies=(companies, COMPANIES), inference=settings.inference)
    yield from _averaged_effects(model, "position")
    yield from _averaged_effects(model, "language")
    if model.no_slope:
        yield _joint("log_tokens", reason=model.no_slope)
    else:
        yield _joint("log_tokens", model.slope())
    for condition in model.cells:
        position, language, company = condition
        plans = "mixed" if company else "monolingual"
        mean = model.mean(condition)
        yield _joint("mean", mean, position=position, language=language, plans=plans)


def _averaged_effects(model: JointModel, factor: str) -> Iterator[Columns]:
    """Every position or language against the first, or the reason why it is not compared."""
    try:
        effect = model.effect(factor)  # type: ignore[arg-type]
    except DesignError as error:
        yield _joint(factor, reason=str(error))
        return
    against = str(effect.baseline)
    for place, (name, over) in enumerate(zip(effect.names, effect.over, strict=True)):
        levels = [f"{level} (mixed)" if company else str(level) for level, company in over]
        columns: Columns = {factor: name, "against": against, "joint_p": effect.p_value}
        columns["averaged_over"] = ", ".join(levels)
        yield _joint(factor, effect.contrasts[place], **columns)
    for name in effect.refused:
        columns = {factor: name, "against": against}
        reason = f"{name} is never in the same place and company as {against}"
        yield _joint(factor, **columns, reason=reason)


def _joint(effect: str, interval: Interval | None = None, **columns: Any) -> Columns:
    """A row of the frame: `columns`, and null in the others."""
    labels = dict.fromkeys(("position", "language", "plans", "against", "averaged_over"))
    tests = {**contrast(interval), "joint_p": None, "reason": None}
    return {"effect": effect, **labels, **tests, **columns}
