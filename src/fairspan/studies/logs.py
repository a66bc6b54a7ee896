"""Logs of any study: read with what its study shows, and put on one page; evaluations compared."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from fairspan.errors import DesignError, FairspanError
from fairspan.report.files import write_file
from fairspan.report.page import Part, make_page
from fairspan.report.render import require_page
from fairspan.report.table import Table
from fairspan.report.text import model_name
from fairspan.report.view import Section, View
from fairspan.retrieval.source import PASSAGES
from fairspan.runs import log as logs
from fairspan.runs.facts import source_name
from fairspan.runs.header import read_header
from fairspan.runs.log import ROOM_FOR_ROWS, RunLog
from fairspan.studies.evaluate.arms import Change

STUDIES = tuple(sorted(file.parent.name for file in Path(__file__).parent.glob("*/options.py")))
"""Those that write logs, each with what they are in its module `view`."""


def read_log(folder: Path | str, **analysis: Any) -> RunLog:
    """Read the log of one run: its folder, or the run.json in it.

    Args:
        analysis: options of the study that only analyse, such as `margin`, in place of the run's.
    """
    verb = read_header(logs.folder_of(folder)).verb
    if verb not in STUDIES:
        raise FairspanError(
            f"{folder} holds a run of {verb!r}, and this fairspan knows {', '.join(STUDIES)}."
        )
    return logs.read_log(folder, _module(verb, "view").LOG, **analysis)


def compare(
    first: RunLog, second: RunLog | None = None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """Paired differences of two treatments or evaluations on the same queries, as tables."""
    tables: list[Table] = _comparing(first, second).compare(first, second, treatments)
    return tables


def changes(
    first: RunLog,
    second: RunLog | None = None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """A verdict for each pair, such as worse, not worse and better.

    Args:
        margin: a loss below it counts as none; by default the margin of the first run.
    """
    if margin is not None and not 0 < margin < 1:
        raise DesignError(f"margin must be between 0 and 1, got {margin}.")
    comparing = _comparing(first, second)
    verdicts: list[Change] = comparing.changes(first, second, treatments, margin)
    return verdicts


def _comparing(*runs: RunLog | None) -> Any:
    for log in runs:
        if log is not None and log.verb != "evaluate":
            raise FairspanError(
                f"the run {log.run} is a run of {log.verb}: only runs of evaluate are compared."
            )
    return _module("evaluate", "comparison")


def save_page(runs: Sequence[RunLog], file: Path | str, title: str | None = None) -> Path:
    """Write the page of one run, or of several side by side."""
    file = Path(file)
    require_page(file)
    if not runs:
        raise FairspanError("a page needs at least one run.")
    names = [log.run for log in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FairspanError(f"the run {twice} is named twice: name each run once.")
    if len(runs) == 1:
        return write_file(file, make_page(title or runs[0].view.title, [runs[0].part()]))
    labels = _labels(runs)
    parts = [log.part(labels[log.run], ROOM_FOR_ROWS // len(runs)) for log in runs]
    models = ", ".join(dict.fromkeys(model_name(log.model) for log in runs))
    page = make_page(title or f"Side by side: {models}", [_together(runs, labels), *parts])
    return write_file(file, page)


def _together(runs: Sequence[RunLog], labels: dict[str, str]) -> Part:
    """All verdicts, and differences between evaluations."""
    cards = [
        replace(card, name=f"{labels[log.run]}: {card.name}")
        for log in runs
        for card in log.view.cards
    ]
    sections: list[Section] = []
    unfinished = [f"{labels[log.run]}: {log.unfinished}" for log in runs if log.unfinished]
    tables, notes = _paired(runs)
    if tables:
        intro = (
            "Differences are taken on the same queries, so they are more precise than either side."
        )
        sections.append(Section("Paired differences", intro, tables=tuple(tables)))
    view = View(
        "All runs",
        "",
        tuple(cards),
        tuple(sections),
        {},
        notes=(*unfinished, *notes),
        all_first=True,
    )
    return Part("All runs", view)


def _paired(runs: Sequence[RunLog]) -> tuple[list[Table], list[str]]:
    """Every other evaluation against the first; where that is impossible, the reason."""
    tables: list[Table] = []
    notes: list[str] = []
    alike = [log for log in runs if log.verb == "evaluate"]
    for other in alike[1:]:
        try:
            tables += [table for table in compare(alike[0], other) if table.brief]
        except (FairspanError, DesignError) as error:
            notes.append(f"{alike[0].run} and {other.run} are not compared in pairs: {error}")
    return tables, notes


def _labels(runs: Sequence[RunLog]) -> dict[str, str]:
    """Short names of runs: the model and, if it takes that to tell them apart, the corpus."""
    kinds = {"audit": "audit", "evaluate": "search", "collapse": "length", "tune": "tuning"}
    steps = {
        log.run: (
            f"{model_name(log.model)}: {kinds.get(log.verb, log.verb)}",
            _measured_on(log),
            log.run[-8:],
        )
        for log in runs
    }
    labels = {}
    for run, (name, corpus, ending) in steps.items():
        alike = [other for other in steps.values() if other[0] == name]
        label = name
        if len({other[1] for other in alike}) > 1:
            label += f" on {corpus}"
        if sum(other[1] == corpus for other in alike) > 1:
            is_unique = sum(other[2] == ending for other in alike) == 1
            label += f" ({ending if is_unique else run})"
        labels[run] = label
    return labels


def _measured_on(log: RunLog) -> str:
    """The corpus; or the task, for passages with the corpus that they are cut out of."""
    header = log.header
    corpus = header.corpus.name if header.corpus else log.spec.get("corpus")
    names = [] if header.task is None else [source_name(header.task.source)]
    if corpus and (header.task is None or header.task.source == PASSAGES):
        names.append(model_name(corpus))
    return " of ".join(names)


def _module(verb: str, name: str) -> Any:
    return import_module(f"fairspan.studies.{verb}.{name}")
