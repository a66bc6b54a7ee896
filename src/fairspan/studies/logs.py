"""Logs of any study, read with what its study shows; evaluations compared."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from fairspan.errors import DesignError, FairspanError
from fairspan.report.table import Table
from fairspan.runs import log as logs
from fairspan.runs.header import read_header
from fairspan.runs.log import RunLog
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


def _module(verb: str, name: str) -> Any:
    return import_module(f"fairspan.studies.{verb}.{name}")
