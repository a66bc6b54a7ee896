"""`PreparedTuning`: tasks and guards, divided into parts that share nothing, and nothing embedded yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.errors import CorpusError
from fairspan.report.text import counted, model_name
from fairspan.retrieval.indexes import IndexPlan
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import TaskSource
from fairspan.retrieval.splitting import split_tasks
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.bases import Pair, Treated
from fairspan.runs.fit_part import FitPart
from fairspan.runs.forecast import Work
from fairspan.runs.progress import Progress
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.tune.options import REFERENCE, TuneOptions
from fairspan.studies.tune.summary import GUARD, REPORT, TUNE

SHARES = {TUNE: 0.5, GUARD: 0.25, REPORT: 0.25}
# A guard is not tuned on, so that part is free to guard with as well.
GUARD_SHARES = {GUARD: 0.75, REPORT: 0.25}


@dataclass(frozen=True, slots=True)
class DividedTask:
    """A task or a guard in its parts."""

    name: str
    fingerprints: tuple[str, ...]
    parts: Mapping[str, Searching]
    _plans: dict[tuple[str, str], IndexPlan] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_guard(self) -> bool:
        return TUNE not in self.parts

    def plan(self, part: str, index: str = "whole") -> IndexPlan:
        """What an index of a part has to embed; made once, since chunks have to be cut."""
        if (part, index) not in self._plans:
            self._plans[part, index] = self.parts[part].plan(index)
        return self._plans[part, index]

    @property
    def counted(self) -> dict[str, Any]:
        """What a log says of it."""
        parts = {}
        for part, own in self.parts.items():
            queries = sum(len(one.task.queries) for one in own.tasks)
            parts[part] = {"clusters": len(own.clusters), "queries": queries, "documents": len(own.documents)}
        return {"name": self.name, "role": "guard" if self.is_guard else "task", "parts": parts}


@dataclass(frozen=True)
class PreparedTuning:
    """A tuning that is ready to run."""

    subject: Subject
    options: TuneOptions
    divided: tuple[DividedTask, ...]
    notes: tuple[str, ...]
    fit: FitPart = field(default_factory=FitPart)

    @property
    def decisive(self) -> list[Any]:
        return [[one.name, one.is_guard, *one.fingerprints] for one in self.divided]

    def having(self, part: str, index: str = "whole") -> list[DividedTask]:
        """The tasks that are searched in a part: all that have it, but guards not with the reference."""
        return [one for one in self.divided if part in one.parts and not (one.is_guard and index == REFERENCE)]

    def tokens(self, part: str, index: str = "whole") -> int:
        """Tokens that a treatment reads in a part, also of what is in the store."""
        own = self.having(part, index)
        return sum(one.plan(part, index).tokens + sum(one.parts[part].lengths()["queries"]) for one in own)

    @cached_property
    def header(self) -> dict[str, Any]:
        counted = [one.counted for one in self.divided]
        lengths: dict[str, list[int]] = {}
        for searching in (own for one in self.divided for own in one.parts.values()):
            for texts, found in searching.lengths().items():
                lengths.setdefault(texts, []).extend(found)
        windows = windows_of(self.subject, self.options.measured, lengths)
        parts = [part for one in counted for part in one["parts"].values()]
        names = [one.name for one in self.divided if not one.is_guard]
        return {
            "task": {
                "source": ", ".join(names),
                "names": names,
                "queries": sum(part["queries"] for part in parts),
                "documents": sum(part["documents"] for part in parts),
            },
            "tasks": counted,
            "windows": windows,
            "changes": {},
            "times": {},
            "notes": [
                *self.notes,
                *window_notes(windows, self.subject.counter.unit),
                *limit_note(self.subject, lengths["documents"]),
            ],
        }

    @property
    def scope(self) -> str:
        count, task = len(self.options.measured) - 1, self.header["task"]
        return f"{counted(count, 'candidate')}, {task['queries']:,} queries, {task['documents']:,} documents"

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """What is tuned on, and what then confirms one candidate: which one it will be is not known before."""
        plain, *candidates = (under(one) for one in self.options.measured)
        later = (GUARD, REPORT)

        def line(name: str, parts: Sequence[str], arms: Sequence[Treated], *first: Pair, times: float = 1.0) -> Work:
            pairs = [pair for one in arms for part in parts for pair in self._embedded(one, part)]
            clusters = sum(len(one.parts[part].clusters) for part in parts for one in self.having(part))
            return Work(name, (*first, *pairs), times=times, facts={"clusters": clusters})

        chunks = {part: self._embedded(plain, part, REFERENCE) for part in (TUNE, REPORT)}
        return [
            line("tune: all candidates", [TUNE], [plain, *candidates], *chunks[TUNE]),
            line("guard, report: plain", later, [plain], *chunks[REPORT]),
            line("guard, report: one candidate", later, candidates, times=1 / len(candidates)),
        ]

    def _embedded(self, treated: Treated, part: str, index: str = "whole") -> list[Pair]:
        pairs: list[Pair] = []
        for one in self.having(part, index):
            pairs += [(treated.queries, one.parts[part].queries()), (treated.documents, one.plan(part, index).flat)]
        return pairs


def prepare_tuning(subject: Subject, options: TuneOptions, progress: Progress) -> PreparedTuning:
    """Read, measure and divide, without embedding anything."""
    subject.transformer("tune")
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    subject = subject.reading(options.measured, whole=not subject.set_further)
    refuse_similarity(subject)
    divided: list[DividedTask] = []
    notes: list[str] = []
    texts: dict[str, str] = {}
    for number, one in enumerate(options.searched):
        name = _name(one, [own.name for own in divided])
        progress.stage(f"reading {name}")
        tasks = measure_tasks(subject, one.read(subject.counter), options.too_long or one.too_long)
        _refuse_shared(name, [own.task for own in tasks], texts)
        notes += [f"{name}: {note}" for note in dict.fromkeys(note for own in tasks for note in own.task.notes)]
        shares = SHARES if number < len(options.tasks) else GUARD_SHARES
        # Rankings alone: no reader of a tuning looks at the ranks of all documents.
        made = Searching(subject, tasks, (options.metric,), options.chunk_tokens, with_ranks=False)
        try:
            parts = split_tasks(tasks, shares, options.seed)
        except CorpusError as error:
            raise CorpusError(f"{name} cannot be divided: {error!s}") from None
        searching = {part: replace(made, tasks=own) for part, own in parts.items()}
        divided.append(DividedTask(name, tuple(own.task.fingerprint for own in tasks), searching))
    if options.fairness is not None:
        _require_groups(
            options.fairness, [own for one in divided if not one.is_guard for own in one.parts[TUNE].tasks]
        )
    return PreparedTuning(subject, options, tuple(divided), tuple(notes))


def _name(source: TaskSource, taken: Sequence[str]) -> str:
    """What rows and tables call a task: without the folders that it is in, and different from the others."""
    kind, colon, place = source.task.partition(":")
    name = model_name(place) if colon else model_name(kind)
    if source.is_built:
        name = f"{source.task} of {model_name(source.corpus)}"
    return name if name not in taken else f"{name} ({len(taken) + 1})"


def _refuse_shared(name: str, tasks: Sequence[RetrievalTask], seen: dict[str, str]) -> None:
    """Raise if a document that answers a query also belongs to another task, where it is in another part."""
    own = set()
    for task in tasks:
        asked = {document for gains in task.relevant.values() for document, gain in gains.items() if gain > 0}
        own |= {document.text for document in task.documents if document.id in asked}
    shared = [text for text in own if text in seen]
    if shared:
        raise CorpusError(
            f"{name} and {seen[shared[0]]} share {len(shared)} documents, so that one would be judged by data that "
            "the other is tuned on: name tasks and guards with different documents."
        )
    seen |= dict.fromkeys(own, name)


def _require_groups(fairness: str, tuned: Sequence[MeasuredTask]) -> None:
    """Raise if the groups of queries that were asked for are not there."""
    tasks = [one.task for one in tuned]
    languages = {language for task in tasks for language in (task.lead, task.later)}
    languages |= {query.language for task in tasks for query in task.queries}
    missing = ""
    if fairness == "position" and not any(task.evidence for task in tasks):
        missing = "where the evidence is in its document is not known"
    elif fairness == "language" and len(languages - {""}) < 2:
        missing = "all queries and documents are in one language"
    if missing:
        raise CorpusError(
            f"fairness={fairness} compares groups of queries, and {missing}: omit it, or choose another task."
        )
