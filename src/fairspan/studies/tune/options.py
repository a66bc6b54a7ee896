"""`TuneOptions`: everything that is asked of a tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.calibration.treatment import (
    PLAIN,
    AnyTreatment,
    Treatment,
    as_treatment,
    as_treatments,
)
from fairspan.errors import CorpusError, DesignError, require_list
from fairspan.retrieval.clusters import link_queries
from fairspan.retrieval.source import TaskOptions
from fairspan.runs.options import Analysis
from fairspan.studies.evaluate.options import EvaluateOptions, SearchOptions

CANDIDATES = ("fair", "fair+tile_size=256")
LEAST_DOCUMENTS = 20
"""With fewer, a half would choose by fewer than ten documents."""


@dataclass(frozen=True)
class TuneOptions(SearchOptions):
    """What to choose for, from what, and what must not get worse.

    Attributes:
        candidates: treatments to choose from.
        guards: task on other documents that must not get worse. May be repeated.
    """

    verb: ClassVar[str] = "tune"
    # The margin decides what is measured on guards.
    analysed: ClassVar[type[Analysis]] = Analysis
    _: KW_ONLY
    candidates: Sequence[AnyTreatment] = CANDIDATES
    guards: str | Sequence[str] = field(default=(), metadata={"source": True})

    def __post_init__(self) -> None:
        """Check what needs no file."""
        guards = (self.guards,) if isinstance(self.guards, str) else self.guards
        require_list("guards", guards, "['my_questions/']", CorpusError)
        object.__setattr__(self, "guards", tuple(map(str, guards)))
        super().__post_init__()
        named = [self.task, *self.guards]
        for number, name in enumerate(named):
            if name in named[:number]:
                raise CorpusError(f"{name} is named twice: guards need documents of their own.")
        _ = self.all_treatments, self.evaluations

    @cached_property
    def all_treatments(self) -> tuple[Treatment, ...]:
        """The plain model, and what differs from it and from each other."""
        require_list("candidates", self.candidates, "['fair']")
        names: dict[Treatment, str] = {}
        candidates = as_treatments(self.candidates)
        for candidate in candidates:
            name = candidate.name
            if not candidate.acts or name == PLAIN:
                raise DesignError(
                    f"{name!r} is what candidates are compared with: omit it, or rename it."
                )
            if candidate.chunks or candidate.by_segments:
                raise DesignError(
                    f"{name!r} is not only a calibration, and cannot be written to "
                    f"{CALIBRATION_FILE}: compare it with evaluate, and omit it."
                )
            same = names.setdefault(replace(candidate, name=""), name)
            if same != name:
                raise DesignError(f"{same!r} and {name!r} are the same: omit one of them.")
        return (as_treatment(PLAIN), *candidates)

    @cached_property
    def evaluations(self) -> tuple[EvaluateOptions, ...]:
        """What is asked of each evaluation: of the task, then of every guard."""
        shared = {option.name for option in fields(EvaluateOptions)} - {"treatments", "vectors"}
        values = {name: getattr(self, name) for name in shared}
        asked = EvaluateOptions(**values, treatments=self.all_treatments, vectors=("1",))
        # What is drawn for the task has no meaning for a guard.
        drawn = {option.name: option.default for option in fields(TaskOptions)}
        values |= {"treatments": self.all_treatments, "vectors": ("1",), **drawn}
        guards = [EvaluateOptions(**{**values, "task": name}) for name in self.guards]
        return (asked, *guards)

    def check(self) -> None:
        """Read the task and the guards, and raise for what cannot be tuned on."""
        seen: set[str] = set()
        for evaluation in self.evaluations:
            task = link_queries(evaluation.searched.task)
            clusters = len({query.cluster or query.id for query in task.queries})
            if clusters < LEAST_DOCUMENTS:
                raise CorpusError(
                    f"{task.name} asks about {clusters} documents, and tune needs at least "
                    f"{LEAST_DOCUMENTS}: add documents, or use the preset fair."
                )
            texts = {document.text for document in task.documents}
            if seen & texts:
                raise CorpusError(
                    f"{task.name} shares {len(seen & texts)} documents with another task, so that "
                    "it cannot guard it: name guards with other documents."
                )
            seen |= texts
