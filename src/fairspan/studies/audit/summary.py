"""`summarize`: the statistics of an audit's log as tidy frames; tables, charts, JSON and CSV are made from them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

import polars as pl

from fairspan.report.frames import frame_of
from fairspan.runs.arms import Arm
from fairspan.runs.log import RunLog
from fairspan.runs.windows import cut_words
from fairspan.studies.audit.attention import attention_frame
from fairspan.studies.audit.comparison import compare_sides, gain_words, gains
from fairspan.studies.audit.entries import AuditEntries
from fairspan.studies.audit.languages import (
    joint_records,
    language_notes,
    language_verdict,
    spoken_of,
)
from fairspan.studies.audit.measures import POSITION_MEASURES, Record, Settings, with_codes
from fairspan.studies.audit.positions import AnyJudged, Cell, cells_of, remedy, verdict_of

_VERDICT = ("model", "measure", "treatment", "verdict", "sentence")


def summarize(log: RunLog) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The statistics of a run by name, and what a reader should know of them.

    Only "verdicts" is there without any rows.
    """
    kept = [
        "measure",
        "treatment",
        "lead",
        "later",
        "language",
        "n",
        "set",
        "position",
        "tokens",
        "value",
    ]
    rows = log.rows.select(*kept, "segment", "document").filter(
        pl.col("measure").is_in(list(POSITION_MEASURES))
    )
    # With numbers in place of names: of a whole grid there are millions of rows.
    rows = with_codes(rows, "segment", "document").with_columns(
        pl.col(kept[:5]).cast(pl.Categorical)
    )
    settings = Settings.of(log)
    entries = log.header.part(AuditEntries)
    cells, joint, spoken = (
        cells_of(rows, settings),
        list(joint_records(rows, settings)),
        spoken_of(rows, settings),
    )

    def frame(records: Iterable[Record]) -> pl.DataFrame:
        return frame_of({"model": log.model, **record} for record in records)

    there = {cell.treatment for cell in cells}
    sides = [Arm(log, name) for name in log.treatments if name in there]
    gained = [one for side in sides[1:] for one in gains(sides[0], side)]

    def more(measure: str, treatment: str) -> list[str]:
        """What it gains and loses, and how many documents it cut."""
        own = [
            one
            for one in gained
            if (one["measure"], one["second_treatment"]) == (measure, treatment)
        ]
        cuts = [
            cut_words(info, log.header.token_unit)
            for info in log.header.windows or ()
            if info.treatment == treatment
        ]
        return [gain_words(own), *cuts] if own else cuts

    found = {
        "verdicts": _verdict_frame(
            log, cells, lambda own, name: verdict_of(own, more(own[0].measure, name))
        ),
        "families": frame(cell.family for cell in cells),
        "coefficients": frame(record for cell in cells for record in cell.coefficients),
        "means": frame(record for cell in cells for record in cell.means),
        "unevenness": frame(record for cell in cells for record in cell.unevenness),
        "language_verdicts": _verdict_frame(log, spoken, lambda own, _: language_verdict(own)),
        "languages": frame(record for one in spoken for record in one.pairs),
        "roles": frame(record for one in spoken for record in one.roles),
        "joint": frame(joint),
        "attention": attention_frame(log),
        "changes": frame_of(one for side in sides[1:] for one in compare_sides(sides[0], side)[0]),
        "gains": frame_of(gained),
        "windows": frame(map(asdict, log.header.windows or ())),
        "unseen": frame(map(asdict, entries.unseen)),
    }
    lengths = dict.fromkeys(
        one["reason"] for one in joint if one["effect"] == "log_tokens" and one["reason"]
    )
    languages = dict.fromkeys(language for cell in cells for language in (cell.lead, cell.later))
    notes = [
        *_mixed_note(cells),
        *language_notes(spoken, list(languages)),
        *lengths,
        *_shared_note(log, cells),
    ]
    frames = {name: one for name, one in found.items() if name == "verdicts" or len(one)}
    return frames, [*log.notes, *notes]


def _verdict_frame(
    log: RunLog,
    found: Sequence[AnyJudged],
    decide: Callable[[Sequence[AnyJudged], str], tuple[str, str] | None],
) -> pl.DataFrame:
    """One row for each measure and treatment on which `decide` has a verdict."""
    rows = []
    for measure in dict.fromkeys(one.measure for one in found):
        for name in log.treatments:
            own = [one for one in found if (one.measure, one.treatment) == (measure, name)]
            verdict = decide(own, name) if own else None
            rows += [(log.model, measure, name, *verdict)] if verdict else []
    return pl.DataFrame(rows, schema=dict.fromkeys(_VERDICT, pl.String), orient="row")


def _mixed_note(cells: Sequence[Cell]) -> list[str]:
    """In mixed plans, what cannot be told apart."""
    alone = "in mixed plans position 1 is the only segment in its language, which cannot be told from being first"
    note = f"{alone}: verdicts, spreads and changes are about later positions{remedy(cells)}"
    return [note] if any(cell.mixed for cell in cells) else []


def _shared_note(log: RunLog, cells: Sequence[Cell]) -> list[str]:
    if not any(log.header.part(AuditEntries).shared_segments.values()):
        return []
    used = {cell.effects.robust.inference for cell in cells}
    if used <= {"two-way"}:
        return ["sets share segments, so errors are clustered on sets and on segments"]
    kinds = ", ".join(sorted(used - {"two-way"}))
    return [f"sets share segments, which {kinds} does not allow for: errors may be too small"]
