"""`write_page`: one or several runs as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fairspan.errors import LogError
from fairspan.report.any_summary import AnySummary, summarize_run
from fairspan.report.page import attention, audits, lengths, searches
from fairspan.report.page.audits import Audited
from fairspan.report.page.downloads import json_download, row_download
from fairspan.report.page.render import render, write_text
from fairspan.report.page.sections import RunPart, Section
from fairspan.report.page.settings import facts_of, methods_of, settings_of, spec_text
from fairspan.report.tables.comparison import comparison_tables
from fairspan.report.tables.search import change_table
from fairspan.report.tables.table import Table
from fairspan.report.tables.text import model_name
from fairspan.runs.log import RunLog
from fairspan.studies.audit.attention import summarize_attention
from fairspan.studies.audit.comparison import compare_sides, sides_to_compare
from fairspan.studies.audit.summary import Summary
from fairspan.studies.collapse.summary import LengthSummary
from fairspan.studies.evaluate.summary import RetrievalSummary, compare_searches
from fairspan.studies.evaluate.temperature_grid import temperature_grid

# Bytes of the page that raw rows may take, all runs together: a page that is mailed stays under five million.
ROOM_FOR_ROWS = 2_500_000


def write_page(
    logs: Sequence[RunLog],
    file: Path,
    *,
    title: str | None = None,
    summaries: Sequence[AnySummary] | None = None,
) -> Path:
    """Write the page of one run, or of several side by side.

    Args:
        summaries: the statistics of these logs, where they are there already.
    """
    return write_text(make_page(logs, title=title, summaries=summaries), file)


def make_page(
    logs: Sequence[RunLog], *, title: str | None = None, summaries: Sequence[AnySummary] | None = None
) -> str:
    """The page as text."""
    if not logs:
        raise LogError("a page shows at least one run.")
    _refuse_twice(logs)
    found = [summarize_run(log) for log in logs] if summaries is None else summaries
    room = ROOM_FOR_ROWS // len(logs)
    parts = [_part(log, summary, room) for log, summary in zip(logs, found, strict=True)]
    if len(logs) > 1:
        parts = [_together(logs, found, parts), *parts]
    return render("report.html", scripts=("charts.js",), title=title or _title(logs), parts=parts, runs=len(logs))


def _part(log: RunLog, summary: AnySummary, room: int) -> RunPart:
    sections: list[Section | None]
    notes = log.notes
    if isinstance(summary, Summary):
        alone, looked = [Audited(summary)], summarize_attention(log)
        cards, switch = audits.cards(summary), audits.switch_of(alone) or tuple(looked.treatments)
        sections = [audits.profile_section(alone, name) for name in summary.measures]
        sections += [attention.attention_section(looked, switch) if looked else None]
        sections += [audits.table_section(summary) if summary.cells else None]
        notes = summary.notes
    elif isinstance(summary, RetrievalSummary):
        grid = temperature_grid(summary)
        # The arms of a grid stand in its own section.
        shown = summary if grid is None else summary.without(grid.arms)
        sections = [None if grid is None else searches.grid_section(grid), searches.position_section(shown)]
        sections += [searches.overall_section(shown), searches.table_section(shown)]
        cards, switch = searches.cards(shown), searches.switch_of(shown)
    else:
        sections = [lengths.geometry_section(summary), lengths.spectrum_section(summary)]
        sections.append(lengths.table_section(summary))
        cards, switch = lengths.cards(summary), lengths.switch_of(summary)
    # Where a run lies on somebody's disk is nothing to mail around.
    shared = {key: value for key, value in summary.to_dict().items() if key != "folder"}
    return RunPart(
        title=_run_title(log),
        facts=facts_of(log),
        cards=cards,
        notes=tuple(notes),
        switch=switch,
        sections=tuple(section for section in sections if section is not None),
        methods=methods_of(log),
        settings=settings_of(log),
        spec=spec_text(log),
        all_first=isinstance(summary, LengthSummary),
        downloads=(
            row_download(log, room),
            json_download(f"{log.run}-statistics.json", "statistics (JSON)", shared),
        ),
    )


def _together(logs: Sequence[RunLog], summaries: Sequence[AnySummary], parts: Sequence[RunPart]) -> RunPart:
    """What several runs say side by side: profiles on common axes, and paired differences from the first."""
    labels = _labels(logs)
    own = [Audited(one, labels[one.log.run]) for one in summaries if isinstance(one, Summary)]
    sections = []
    if len(own) > 1:
        measures = list(dict.fromkeys(measure for one in own for measure in one.summary.measures))
        sections += [audits.profile_section(own, measure) for measure in measures]
    tables, notes = _comparisons(logs)
    if tables:
        intro = "Differences are taken on the same documents or queries, so they are known better than either side."
        sections.append(Section("Paired differences", intro, tables=tuple(tables)))
    return RunPart(
        title="Side by side",
        facts=(),
        cards=tuple(
            replace(card, name=f"{labels[log.run]}: {card.name}")
            for log, part in zip(logs, parts, strict=True)
            for card in part.cards
        ),
        notes=tuple(notes),
        switch=audits.switch_of(own) if len(own) > 1 else (),
        sections=tuple(sections),
    )


def _comparisons(logs: Sequence[RunLog]) -> tuple[list[Table], list[str]]:
    """Every other run against the first of its kind; where that cannot be, the reason."""
    tables: list[Table] = []
    notes: list[str] = []
    for verb in ("audit", "evaluate"):
        alike = [log for log in logs if log.header.get("verb") == verb]
        for other in alike[1:]:
            try:
                tables += _paired_tables(verb, alike[0], other)
            except LogError as error:
                notes.append(f"{alike[0].run} and {other.run} are not compared in pairs: {error}")
    return tables, notes


def _paired_tables(verb: str, first: RunLog, other: RunLog) -> list[Table]:
    pairs = sides_to_compare(first, other)
    if verb == "audit":
        found = [one for pair in pairs for one in compare_sides(*pair)]
        return [named.table for named in comparison_tables(found, positions=False)]
    changes = [(compare_searches(first, other, (one.treatment, two.treatment)), one, two) for one, two in pairs]
    return [change_table(found, str(one), str(two)).table for found, one, two in changes]


def _labels(logs: Sequence[RunLog]) -> dict[str, str]:
    """Short names of runs, the run's own where models do not tell them apart."""
    models = [model_name(log.model) for log in logs]
    return {log.run: model if models.count(model) == 1 else log.run for log, model in zip(logs, models, strict=True)}


def _run_title(log: RunLog) -> str:
    kinds = {"audit": "audit", "evaluate": "search", "collapse": "length"}
    return f"{model_name(log.model)}: {kinds.get(str(log.header.get('verb')), 'run')}"


def _title(logs: Sequence[RunLog]) -> str:
    models = list(dict.fromkeys(model_name(log.model) for log in logs))
    if len(logs) > 1:
        return "Side by side: " + ", ".join(models)
    return {
        "audit": f"How fairly {models[0]} represents each part of a text",
        "evaluate": f"What search finds with {models[0]}",
        "collapse": f"What length does to {models[0]}",
    }[str(logs[0].header["verb"])]


def _refuse_twice(logs: Sequence[RunLog]) -> None:
    seen = [log.run for log in logs]
    twice = next((run for run in seen if seen.count(run) > 1), None)
    if twice is not None:
        raise LogError(f"the run {twice} is named twice: name each run once.")
