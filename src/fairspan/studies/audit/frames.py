"""The statistics of an audit as tidy frames; tables, charts, JSON and CSV are made from them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from fairspan.errors import StatisticsError
from fairspan.runs.log import RunLog
from fairspan.runs.sides import Side
from fairspan.stats.bootstrap import Interval
from fairspan.stats.contrasts import Contrast, Contrasts
from fairspan.stats.joint import AveragedEffect
from fairspan.stats.positions import PositionEffects, difference_weights, marker
from fairspan.studies.audit.attention import attention_frame
from fairspan.studies.audit.comparison import Comparison, LanguageComparison, compare_sides
from fairspan.studies.audit.family import FAMILY, PLAN
from fairspan.studies.audit.languages import Spoken
from fairspan.studies.audit.summary import Cell, Joint, Summary
from fairspan.studies.audit.words import POSITION_MEASURES

Record = dict[str, Any]
_CONTRAST = ("estimate", "standard_error", "degrees_of_freedom", "low", "high", "p_value")
_SECONDARY = ("spread", "gini", "psi", "first_second", "first_last")
_MIXED = " (mixed)"
_VERDICT = ("model", "measure", "treatment", "verdict", "sentence")


def frames_of(summary: Summary) -> dict[str, pl.DataFrame]:
    """All statistics of a run by name; only "verdicts" is there without any rows."""
    model, cells = summary.log.model, summary.cells
    means = _frame(record for cell in cells for record in _means(model, cell))
    found = {
        "verdicts": verdict_frame(summary),
        "families": _frame(_family_record(model, cell) for cell in cells),
        "coefficients": _frame(record for cell in cells for record in _coefficients(model, cell)),
        "means": means if cells else bare_means(summary.log),
        "unevenness": _frame(record for cell in cells for record in _unevenness(model, cell)),
        "language_verdicts": _language_verdicts(summary),
        "languages": _frame(record for one in summary.languages for record in _pairs(model, one)),
        "roles": _frame(record for one in summary.languages for record in _roles(model, one)),
        "joint": _frame(record for joint in summary.joint for record in _joint_records(model, joint)),
        "attention": attention_frame(summary.log),
        "changes": change_frame(_changes(summary)),
        "windows": _frame({"model": model, **one} for one in summary.log.header.get("windows", ())),
        "unseen": _frame({"model": model, **one} for one in summary.log.header.get("unseen", ())),
    }
    return {name: frame for name, frame in found.items() if name == "verdicts" or len(frame)}


def verdict_frame(summary: Summary) -> pl.DataFrame:
    """One row for each measure and treatment."""
    rows = []
    for measure in summary.measures:
        for name in summary.treatments(measure):
            kind, sentence = summary.kind(measure, name), summary.sentence(measure, name)
            rows.append((summary.log.model, measure, name, kind, sentence))
    return pl.DataFrame(rows, schema=dict.fromkeys(_VERDICT, pl.String), orient="row")


def _language_verdicts(summary: Summary) -> pl.DataFrame:
    """The same for languages, where two of them lead each other."""
    found = [
        (summary.log.model, measure, name, *verdict)
        for measure in summary.measures
        for name in summary.treatments(measure)
        if (verdict := summary.language_verdict(measure, name)) is not None
    ]
    return pl.DataFrame(found, schema=dict.fromkeys(_VERDICT, pl.String), orient="row")


def bare_means(log: RunLog) -> pl.DataFrame:
    """Position means without intervals, for a log that allows no statistics."""
    rows = log.rows.filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    found = rows.group_by(*FAMILY, "position", maintain_order=True).agg(
        pl.col("value").mean().alias("estimate"),
        pl.lit(None, pl.Float64).alias("low"),
        pl.lit(None, pl.Float64).alias("high"),
        pl.col("tokens").mean(),
        pl.col("set").n_unique().cast(pl.Int64).alias("sets"),
        pl.col("document").n_unique().cast(pl.Int64).alias("documents"),
    )
    order = rows.select(FAMILY).unique(maintain_order=True).with_row_index("family")
    found = found.join(order, on=FAMILY).sort("family", "position")
    names = ("position", "estimate", "low", "high", "tokens")
    labels = ("measure", "treatment", PLAN, "lead", "later", "n", "sets", "documents")
    return found.select(pl.lit(log.model).alias("model"), *labels, *names)


def change_frame(found: Sequence[Comparison]) -> pl.DataFrame:
    """The spread between the positions that are compared, on the first side and on the second."""
    return _frame(
        {
            **_sides(one),
            "from_position": one.first_compared,
            "first_spread": one.spreads[0],
            "second_spread": one.spreads[1],
            "change_estimate": one.spreads[1] - one.spreads[0],
            "change_low": one.paired.spread.low,
            "change_high": one.paired.spread.high,
            "p_value": one.paired.joint.p_value,
            "inference": one.paired.second.inference,
        }
        for one in found
        if one.comparisons
    )


def coefficient_change_frame(found: Sequence[Comparison]) -> pl.DataFrame:
    """Every coefficient on both sides with its change, that of its absolute value, and that of the mean."""
    records = []
    for one in found:
        paired = one.paired
        for place in range(one.n):
            # β0 is the mean at position 1; the others have their own differences.
            change = _contrast(paired.means, 0) if place == 0 else _contrast(paired.effects, place - 1)
            absolute = dict.fromkeys(_CONTRAST) if place == 0 else _contrast(paired.absolute, place - 1)
            records.append(
                {
                    **_sides(one),
                    "position": place + 1,
                    "coefficient": symbol(place + 1),
                    "first_estimate": float(paired.first.estimate[place]),
                    "second_estimate": float(paired.second.estimate[place]),
                    **{f"change_{name}": value for name, value in change.items()},
                    **{f"absolute_change_{name}": value for name, value in absolute.items()},
                    **{f"mean_change_{name}": value for name, value in _contrast(paired.means, place).items()},
                    "inference": paired.second.inference,
                }
            )
    return _frame(records)


def language_change_frame(found: Sequence[LanguageComparison]) -> pl.DataFrame:
    """The difference of every two languages on both sides, with its change and that of its absolute value."""
    records = []
    for one in found:
        before, after = one.before.differences(), one.after.differences()
        for place, (language, against) in enumerate(one.before.pairs):
            records.append(
                {
                    "measure": one.measure,
                    **_two_sides(one.first, one.second),
                    "n": one.n,
                    "sets": one.before.sets,
                    "documents": one.documents,
                    "language": language,
                    "against": against,
                    "first_estimate": float(before.estimate[place]),
                    "second_estimate": float(after.estimate[place]),
                    **{f"change_{name}": value for name, value in _contrast(one.change, place).items()},
                    **{f"absolute_change_{name}": value for name, value in _contrast(one.absolute, place).items()},
                    "inference": one.after.model.inference,
                }
            )
    return _frame(records)


def symbol(position: int) -> str:
    """β0, β2, β3, …"""
    return f"β{0 if position == 1 else position}"


def interval(row: Record, prefix: str = "") -> Interval:
    """The estimate of a frame's row with its interval."""
    return Interval(*(row[f"{prefix}{name}"] for name in ("estimate", "low", "high")))


def _frame(records: Iterable[Record]) -> pl.DataFrame:
    return pl.DataFrame(list(records), infer_schema_length=None)


def _changes(summary: Summary) -> list[Comparison]:
    """Every treatment against the first, on the same documents."""
    there = {cell.treatment for cell in summary.cells}
    sides = [Side(summary.log, name) for name in summary.log.treatments if name in there]
    return [one for side in sides[1:] for one in compare_sides(sides[0], side)]


def _labels(model: str, cell: Cell) -> Record:
    sizes = {"sets": cell.effects.clusters, "documents": cell.documents}
    return {"model": model, "measure": cell.measure, "treatment": cell.treatment, **cell.labels, **sizes}


def _sides(one: Comparison) -> Record:
    sizes = {"sets": one.paired.second.clusters, "documents": one.documents}
    return {"measure": one.measure, **_two_sides(one.first, one.second), **one.labels, **sizes}


def _two_sides(first: Side, second: Side) -> Record:
    return {
        f"{which}_{what}": value
        for which, side in (("first", first), ("second", second))
        for what, value in (("run", side.log.run), ("model", side.log.model), ("treatment", side.treatment))
    }


def _contrast(found: Contrasts | PositionEffects, place: int) -> Record:
    return {name: float(getattr(found, name)[place]) for name in _CONTRAST}


def _family_record(model: str, cell: Cell) -> Record:
    names = ("margin", "position", "against", "estimate", "low", "high", "sets_needed")
    decided = {name: getattr(cell.verdict, name, None) for name in names}
    return {**_labels(model, cell), "verdict": cell.kind, **decided, "sentence": cell.sentence}


def _coefficients(model: str, cell: Cell) -> Iterator[Record]:
    for position in range(1, cell.n + 1):
        found = _contrast(cell.effects, position - 1)
        yield {
            **_labels(model, cell),
            "position": position,
            "coefficient": symbol(position),
            **found,
            "marker": marker(found["p_value"]),
            "inference": cell.effects.inference,
        }


def _means(model: str, cell: Cell) -> Iterator[Record]:
    means = cell.effects.means
    for place in range(cell.n):
        ends = {name: float(getattr(means, name)[place]) for name in ("estimate", "low", "high")}
        yield {**_labels(model, cell), "position": place + 1, **ends, "tokens": cell.tokens[place]}


def _unevenness(model: str, cell: Cell) -> Iterator[Record]:
    """Of the positions that are compared; nothing where there is only one of them."""
    if cell.secondary is None:
        return
    first = cell.first_compared
    known = [name for name in _SECONDARY if first == 1 or not name.startswith("first_")]
    ends = {
        f"{name}_{end}": float(getattr(getattr(cell.secondary, name), end)) if name in known else None
        for name in _SECONDARY
        for end in ("estimate", "low", "high")
    }
    joint = cell.effects.robust.joint(difference_weights(cell.n, first))
    tests = {"gini_p": cell.secondary.gini_p, "joint_p": joint.p_value}
    yield {**_labels(model, cell), "from_position": first, **ends, **tests, "verdict": cell.kind}


def _spoken_labels(model: str, one: Spoken) -> Record:
    sizes = {"sets": 0 if one.effects is None else one.effects.sets, "documents": one.documents}
    return {"model": model, "measure": one.measure, "treatment": one.treatment, "n": one.n, **sizes}


def _pairs(model: str, one: Spoken) -> Iterator[Record]:
    """The difference of every two languages that lead each other: over all positions, at the first and later."""
    if one.effects is None or one.verdict is None:
        return
    overall = one.effects.differences()
    lead, later = one.effects.differences("lead"), one.effects.differences("later")
    for place, (language, against) in enumerate(one.effects.pairs):
        ends = {
            f"{role}_{name}": float(getattr(found, name)[place])
            for role, found in (("lead", lead), ("later", later))
            for name in ("estimate", "low", "high")
        }
        yield {
            **_spoken_labels(model, one),
            "language": language,
            "against": against,
            "margin": one.verdict.margin,
            "verdict": one.verdict.kinds[place],
            **_contrast(overall, place),
            **ends,
            "same_length": one.same_length,
            "inference": one.effects.model.inference,
        }


def _roles(model: str, one: Spoken) -> Iterator[Record]:
    """What each language has where it leads and where it follows, and the other languages of the same documents."""
    if one.plain is None:
        return
    for language in one.plain.languages:
        for role in ("lead", "later"):
            found = one.plain.role(language, role)
            if found is None:
                continue
            ends = {
                f"{what}_{name}": float(getattr(getattr(found, what), name))
                for what in ("own", "others", "gap")
                for name in ("estimate", "low", "high")
            }
            yield {
                **_spoken_labels(model, one),
                "language": language,
                "role": role,
                "beside": ", ".join(found.beside),
                **ends,
                "inference": one.plain.model.inference,
            }


def _joint_records(model: str, joint: Joint) -> Iterator[Record]:
    """Differences between positions and between languages, the slope of log(tokens), and the mean of each cell."""

    def record(effect: str, found: Contrast | Record | None = None, **told: Any) -> Record:
        numbers = found if isinstance(found, dict) else {name: getattr(found, name, None) for name in _CONTRAST}
        labels = {"model": model, "measure": joint.measure, "treatment": joint.treatment, "n": joint.n}
        about = dict.fromkeys(("position", "language", "plans", "against", "averaged_over"))
        return {**labels, "effect": effect, **about, **numbers, "joint_p": None, "reason": None, **told}

    if joint.model is None:
        yield record("model", reason=joint.reason)
        return
    for name, estimate in (("position", joint.model.position_effect), ("language", joint.model.language_effect)):
        try:
            effect: AveragedEffect = estimate()
        except StatisticsError as error:
            yield record(name, reason=str(error))
            continue
        for place, label in enumerate(effect.names):
            yield record(
                name,
                _contrast(effect.contrasts, place),
                **{name: label},
                against=str(effect.baseline),
                averaged_over=", ".join(
                    f"{level}{_MIXED if company else ''}" for level, company in effect.over[place]
                ),
                joint_p=effect.test.p_value,
            )
        for label in effect.refused:
            reason = f"{label} is never in the same place and company as {effect.baseline}"
            yield record(name, None, **{name: label}, against=str(effect.baseline), reason=reason)
    if joint.model.no_slope:
        yield record("log_tokens", reason=joint.model.no_slope)
    else:
        yield record("log_tokens", joint.model.slope())
    for position, language, company in joint.model.cells:
        where = {"position": position, "language": language, "plans": "mixed" if company else "monolingual"}
        yield record("mean", joint.model.mean((position, language, company)), **where)
