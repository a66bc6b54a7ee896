"""`TuneOptions`: everything that is asked of a tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from typing import ClassVar

from fairspan.calibration.calibration import CALIBRATION_FILE
from fairspan.calibration.treatment import PLAIN, AnyTreatment, Treatment, as_treatment, as_treatments
from fairspan.errors import CorpusError, DesignError, require_list, require_whole
from fairspan.retrieval.measured import TOO_LONG
from fairspan.retrieval.metrics import parse_metric
from fairspan.retrieval.source import MTEB, PAGES, PASSAGES, TaskOptions, TaskSource, options_of
from fairspan.runs.options import StudyOptions, source

CANDIDATES = (
    "tiles",
    "tiles+tile_size=128",
    "tiles+tile_size=256",
    "tiles+temperature=1",
    "tiles+sides=document",
    "tempscale",
    "retrieval",
    "paper",
)
FAIRNESS = ("position", "language", "length")
REFERENCE = "chunk-mean"
"""The mean of chunks, which is measured beside the candidates under this name."""
SETS = 220
"""Pages: a quarter of them are the 50 clusters that a decision needs, also if some share a text."""


@dataclass(frozen=True)
class TuneOptions(StudyOptions, TaskOptions):
    """What to choose for, from what, and under which conditions.

    Attributes:
        tasks: what search should get better at: "pages" or "passages" (made from `corpus`; no labels are needed) or,
            for another corpus, "pages:CORPUS"; the folder of a collection, "beir:FOLDER", "mteb:NAME". Of several
            the mean counts.
        guards: tasks of other documents that must not get worse. They are not tuned on.
        candidates: the treatments to choose from.
        metric: what is maximised.
        fairness: the groups of queries that should be served equally: "position", "language" or "length"; by default
            positions where they are known.
        margin: a loss of the metric below it counts as none.
        chunk_tokens: length of the longest chunk of the reference, the mean of chunks that the plain model embeds.
        too_long: as in `evaluate`.
        prompt, query_prompt: put before documents and queries; by default the model's own.
        sets: number of pages or documents; of the default, a quarter are the 50 that a decision needs.
    """

    verb: ClassVar[str] = "tune"
    tasks: str | Sequence[str] = source(PAGES)
    _: KW_ONLY
    guards: str | Sequence[str] = field(default=(), metadata={"source": True})
    candidates: Sequence[AnyTreatment] = CANDIDATES
    metric: str = "ndcg@10"
    fairness: str | None = None
    margin: float = 0.01
    chunk_tokens: int = 64
    too_long: str | None = None
    prompt: str | None = None
    query_prompt: str | None = None
    sets: int = SETS

    def __post_init__(self) -> None:
        TaskOptions.__post_init__(self)
        for name, usual in (("tasks", (PAGES,)), ("guards", ())):
            given = getattr(self, name)
            listed = (given,) if isinstance(given, str) else given
            require_list(name, listed, f"['{PAGES}']", CorpusError)
            object.__setattr__(self, name, tuple(listed) or usual)
        parse_metric(self.metric)
        for name, value, choices in (("fairness", self.fairness, FAIRNESS), ("too_long", self.too_long, TOO_LONG)):
            if value is not None and value not in choices:
                raise DesignError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
        if not 0 < self.margin < 1:
            raise DesignError(f"margin must be between 0 and 1, such as 0.01, got {self.margin!r}.")
        require_whole("chunk_tokens", self.chunk_tokens, kind=CorpusError)
        require_whole("seed", self.seed, least=0)
        _ = self.searched, self.measured

    @cached_property
    def searched(self) -> tuple[TaskSource, ...]:
        """The tasks, and the guards after them, each with the options that mean something to it."""
        found, used, usual = list[TaskSource](), set[str](), {one.name: one.default for one in fields(self)}
        for name in (*self.tasks, *self.guards):
            kind, colon, place = name.partition(":")
            of_corpus = colon and kind in (PAGES, PASSAGES)
            taken = options_of(kind) - ({"corpus"} if of_corpus else set())
            own = {option: getattr(self, option) for option in taken}
            one = TaskSource(kind, **own, corpus=place) if of_corpus else TaskSource(name, **own)
            if one in found:
                raise CorpusError(f"{name} is named twice: tasks and guards need documents of their own.")
            found.append(one)
            used |= taken
        for option in {one.name for one in fields(TaskOptions)} - used - {"seed"}:
            if getattr(self, option) != usual[option]:
                named = ", ".join((*self.tasks, *self.guards))
                raise CorpusError(f"{option} would do nothing for {named}: omit it.")
        return tuple(found)

    @cached_property
    def measured(self) -> tuple[Treatment, ...]:
        """The plain model, and calibrations that differ from it and from each other."""
        require_list("candidates", self.candidates, "['tiles']")
        found = as_treatments(self.candidates)
        for number, one in enumerate(found):
            if not one.acts or one.name in (PLAIN, REFERENCE):
                raise DesignError(f"{one.name!r} is what candidates are compared with: omit it, or rename it.")
            if one.baseline is not None or one.correction is not None or one.by_segments:
                raise DesignError(
                    f"{one.name!r} is more than a calibration, and cannot be written to {CALIBRATION_FILE}: compare "
                    "it with evaluate, and omit it."
                )
            same = [other.name for other in found[:number] if other.calibration == one.calibration]
            if same:
                raise DesignError(f"{same[0]!r} and {one.name!r} are the same calibration: omit one of them.")
        return (as_treatment(PLAIN), *found)

    def check(self) -> None:
        for one in self.searched:
            if one.is_built:
                one.read_corpus()
            elif not one.task.startswith(MTEB):
                one.read_collections()
