"""`TuneEntries`: what only the headers of tunings say."""

from __future__ import annotations

from dataclasses import dataclass

from fairspan.runs.header import TaskInfo, WindowInfo
from fairspan.studies.evaluate.entries import EvaluateEntries


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One evaluation of a tuning, of the task or of a guard, as the header of its log says it."""

    task: TaskInfo
    windows: tuple[WindowInfo, ...]
    entries: EvaluateEntries


@dataclass(frozen=True, slots=True)
class TuneEntries:
    """The evaluation of the task, and those of the guards."""

    evaluated: tuple[Evaluated, ...]
