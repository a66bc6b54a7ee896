"""`summarize`: the statistics of an audit's log as tidy frames, which all that is shown reads."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

import polars as pl

from fairspan.report.frames import frame_of
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.studies.audit.attention import attention_frame, fidelity_frame
from fairspan.studies.audit.gains import gain_rows, gain_words
from fairspan.studies.audit.languages import language_notes, language_verdict, mixed_effects_of
from fairspan.studies.audit.measures import (
    POSITION_MEASURES,
    Columns,
)
from fairspan.studies.audit.options import AuditAnalysis
from fairspan.studies.audit.positions import (
    AnyJudged,
    FamilyEffects,
    families_of,
    languages_of,
    verdict_of,
)
from fairspan.studies.audit.rows import with_languages

_VERDICT = ("model", "measure", "treatment", "verdict", "sentence")
_NAMES = ("measure", "treatment", "lead", "later")
_CODED = ("segment", "document")
_NUMBERS = ("n", "set", "position", "tokens", "value")


def summarize(log: RunLog, analysis: AuditAnalysis) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The statistics of a run by name, and notes on them. Only "verdicts" may be empty."""
    rows = _position_rows(log)
    families = families_of(rows, analysis)
    mixed = mixed_effects_of(rows, analysis)
    measured = {family.treatment for family in families}
    gains = list(gain_rows(rows, [name for name in log.treatments if name in measured], analysis))

    def frame(columns: Iterable[Columns]) -> pl.DataFrame:
        return frame_of({"model": log.model, **row} for row in columns)

    def verdict(members: Sequence[FamilyEffects]) -> tuple[str, str]:
        return verdict_of(members, _gains_and_cuts(log, members[0], gains))

    frames = {
        "verdicts": _verdict_frame(log, families, verdict),
        "families": frame(family.judgement for family in families),
        "coefficients": frame(row for family in families for row in family.coefficients),
        "means": frame(row for family in families for row in family.means),
        "language_verdicts": _verdict_frame(log, mixed, language_verdict),
        "languages": frame(row for size in mixed for row in size.pairs),
        "attention": attention_frame(log, analysis),
        "fidelity": fidelity_frame(log, analysis),
        "gains": frame(gains),
        "windows": frame(map(asdict, log.header.windows)),
    }
    notes = [
        *log.notes,
        *_mixed_note(families),
        *language_notes(mixed, languages_of(families)),
        *_shared_note(families),
    ]
    kept = {name: table for name, table in frames.items() if name == "verdicts" or len(table)}
    return kept, notes


def _position_rows(log: RunLog) -> pl.DataFrame:
    """The rows of measures by position, with numbers for names: a grid has millions of rows."""
    rows = log.rows.filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    rows = with_languages(rows).select(*_NAMES, *_NUMBERS, *_CODED)
    return rows.with_columns(pl.col(_NAMES).cast(pl.Categorical), pl.col(_CODED).rank("dense"))


def _gains_and_cuts(log: RunLog, family: FamilyEffects, gains: Sequence[Columns]) -> list[str]:
    """What a treatment gains and loses in a measure, and how many documents it cut."""
    key = (family.measure, family.treatment)
    gained = [row for row in gains if (row["measure"], row["treatment"]) == key]
    cuts = [
        cut_words(info, log.header.token_unit)
        for info in log.header.windows
        if info.treatment == family.treatment
    ]
    return [gain_words(gained), *cuts] if gained else cuts


def _verdict_frame(
    log: RunLog,
    judged: Sequence[AnyJudged],
    decide: Callable[[Sequence[AnyJudged]], tuple[str, str] | None],
) -> pl.DataFrame:
    """One row for each measure and treatment on which `decide` has a verdict."""
    rows = []
    for measure in dict.fromkeys(item.measure for item in judged):
        for name in log.treatments:
            members = [item for item in judged if (item.measure, item.treatment) == (measure, name)]
            verdict = decide(members) if members else None
            if verdict is not None:
                rows.append((log.model, measure, name, *verdict))
    return pl.DataFrame(rows, schema=dict.fromkeys(_VERDICT, pl.String), orient="row")


def _mixed_note(families: Sequence[FamilyEffects]) -> list[str]:
    """What verdicts leave out of mixed plans, and what would compare it."""
    languages = languages_of(families)
    if not any(family.mixed for family in families):
        return []
    note = (
        "in mixed plans position 1 is the only segment in its language, and the effects of both "
        "cannot be separated: verdicts and spreads are about later positions"
    )
    if not set(languages) <= {family.lead for family in families if not family.mixed}:
        listed = ", ".join(languages)
        note += f"; documents in one language would compare position 1 (languages {listed})"
    return [note]


def _shared_note(families: Sequence[FamilyEffects]) -> list[str]:
    shared = any(family.effects.fit.inference == "two-way" for family in families)
    note = "sets share segments, so errors are clustered on sets and on segments"
    return [note] if shared else []
