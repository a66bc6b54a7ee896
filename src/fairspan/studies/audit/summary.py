"""`summarize`: the statistics of an audit's log as tidy frames, which all that is shown reads."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

import polars as pl

from fairspan.report.frames import frame_of
from fairspan.runs.arms import Arm
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.studies.audit.attention import attention_frame, clustered_means
from fairspan.studies.audit.comparison import Pairing, gain_words
from fairspan.studies.audit.languages import (
    joint_rows,
    language_notes,
    language_verdict,
    mixed_effects_of,
)
from fairspan.studies.audit.measures import (
    FAMILY,
    PLAN,
    POSITION_MEASURES,
    AuditEntries,
    Columns,
    Settings,
    with_codes,
)
from fairspan.studies.audit.positions import (
    AnyJudged,
    FamilyEffects,
    families_of,
    languages_of,
    remedy,
    verdict_of,
)
from fairspan.studies.audit.published import MISSING, published_frame

_VERDICT = ("model", "measure", "treatment", "verdict", "sentence")
_NAMES = ("measure", "treatment", "lead", "later", "language")
_NUMBERS = ("n", "set", "position", "tokens", "value")


def summarize(log: RunLog) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The statistics of a run by name, and notes on them. Only "verdicts" may be empty."""
    rows = _position_rows(log)
    settings = Settings.of(log)
    entries = log.header.part(AuditEntries)
    families = families_of(rows, settings)
    joint = list(joint_rows(rows, settings))
    mixed = mixed_effects_of(rows, settings)
    measured = {family.treatment for family in families}
    arms = [Arm(log, name) for name in log.treatments if name in measured]
    gains: list[Columns] = []
    spreads: list[Columns] = []
    for arm in arms[1:]:
        pairing = Pairing(arms[0], arm)
        gains += pairing.gains()
        spreads += pairing.spreads()

    def frame(columns: Iterable[Columns]) -> pl.DataFrame:
        return frame_of({"model": log.model, **row} for row in columns)

    def verdict(members: Sequence[FamilyEffects]) -> tuple[str, str]:
        return verdict_of(members, _gains_and_cuts(log, members[0], gains))

    frames = {
        "verdicts": _verdict_frame(log, families, verdict),
        "families": frame(family.judgement for family in families),
        "coefficients": frame(row for family in families for row in family.coefficients),
        "means": frame(row for family in families for row in family.means),
        "unevenness": frame(row for family in families for row in family.unevenness),
        "language_verdicts": _verdict_frame(log, mixed, language_verdict),
        "languages": frame(row for size in mixed for row in size.pairs),
        "roles": frame(row for size in mixed for row in size.roles),
        "joint": frame(joint),
        "attention": attention_frame(log),
        "fidelity": _fidelity_frame(log),
        "changes": frame_of(spreads),
        "gains": frame_of(gains),
        "published": published_frame(log) if log.spec.get("published") else pl.DataFrame(),
        "windows": frame(map(asdict, log.header.windows or ())),
        "unseen": frame(map(asdict, entries.unseen)),
    }
    lengths = [row["reason"] for row in joint if row["effect"] == "log_tokens" and row["reason"]]
    notes = [
        *log.notes,
        *_mixed_note(families),
        *language_notes(mixed, languages_of(families)),
        *dict.fromkeys(lengths),
        *_shared_note(entries, families),
        *([MISSING] if log.spec.get("published") and frames["published"].is_empty() else []),
    ]
    kept = {name: table for name, table in frames.items() if name == "verdicts" or len(table)}
    return kept, notes


def _position_rows(log: RunLog) -> pl.DataFrame:
    """The rows of measures by position, with numbers for names: a grid has millions of rows."""
    rows = log.rows.select(*_NAMES, *_NUMBERS, "segment", "document")
    rows = rows.filter(pl.col("measure").is_in(list(POSITION_MEASURES)))
    coded = with_codes(rows, "segment", "document")
    return coded.with_columns(pl.col(_NAMES).cast(pl.Categorical))


def _fidelity_frame(log: RunLog) -> pl.DataFrame:
    """Mean cosines of documents' vectors with those of the first treatment, by family."""
    rows = log.rows.filter(pl.col("treatment") != log.treatments[0], measure="fidelity")
    if rows.is_empty():
        return pl.DataFrame()
    families = rows.select(FAMILY).unique(maintain_order=True)
    means = families.join(clustered_means(rows), on=FAMILY, maintain_order="left")
    numbers = ("n", "estimate", "low", "high", "documents", "sets")
    return means.select(pl.lit(log.model).alias("model"), "measure", "treatment", PLAN, *numbers)


def _gains_and_cuts(log: RunLog, family: FamilyEffects, gains: Sequence[Columns]) -> list[str]:
    """What a treatment gains and loses in a measure, and how many documents it cut."""
    key = (family.measure, family.treatment)
    gained = [row for row in gains if (row["measure"], row["second_treatment"]) == key]
    cuts = [
        cut_words(info, log.header.token_unit)
        for info in log.header.windows or ()
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
    if not any(family.mixed for family in families):
        return []
    note = (
        "in mixed plans position 1 is the only segment in its language, which cannot be told from "
        f"being first: verdicts, spreads and changes are about later positions{remedy(families)}"
    )
    return [note]


def _shared_note(entries: AuditEntries, families: Sequence[FamilyEffects]) -> list[str]:
    """How errors allow for segments that several sets share, if they do."""
    if not any(entries.shared_segments.values()):
        return []
    used = {family.effects.robust.inference for family in families}
    if used <= {"two-way"}:
        return ["sets share segments, so errors are clustered on sets and on segments"]
    kinds = ", ".join(sorted(used - {"two-way"}))
    return [f"sets share segments, which {kinds} does not allow for: errors may be too small"]
