"""`PreparedTuning`: tasks and guards, divided into parts that share nothing, and nothing embedded yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairspan.errors import TaskError
from fairspan.report.text import model_name
from fairspan.retrieval.indexes import IndexPlan
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import TaskSource
from fairspan.retrieval.splitting import first_clusters, split_tasks
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.fit_part import FitPart
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.stats.choice import LEAST_CLUSTERS
from fairspan.studies.tune.decision import GUARD, REPORT, TUNE
from fairspan.studies.tune.spec import TuningSpec

SHARES = {TUNE: 0.5, GUARD: 0.25, REPORT: 0.25}
# A guard is not tuned on, so that part is free to guard with as well.
GUARD_SHARES = {GUARD: 0.75, REPORT: 0.25}
LARGE_GRID = 12
"""With more candidates, the first rounds are on parts of the data, and half of the candidates go on."""
_FIRST_ROUND = LEAST_CLUSTERS // 2


@dataclass(frozen=True, slots=True)
class DividedTask:
    """A task or a guard in its parts.

    Attributes:
        rounds: growing samples of the part that is tuned on, of which the last is all of it; none for a guard.
    """

    name: str
    fingerprints: tuple[str, ...]
    parts: Mapping[str, Searching]
    rounds: tuple[Searching, ...]
    plans: dict[tuple[str, int, str], IndexPlan] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_guard(self) -> bool:
        return not self.rounds

    def searching(self, part: str, number: int = 0) -> Searching:
        """A part; of the one that is tuned on, a round."""
        return self.rounds[number] if part == TUNE else self.parts[part]

    def plan(self, part: str, number: int = 0, index: str = "whole") -> IndexPlan:
        """What an index of a part has to embed; made once, since chunks have to be cut."""
        key = (part, number, index)
        if key not in self.plans:
            self.plans[key] = self.searching(part, number).plan(index)
        return self.plans[key]

    @property
    def counted(self) -> dict[str, Any]:
        """What a log says of it."""
        parts = {}
        for part, own in self.parts.items():
            queries = sum(len(one.task.queries) for one in own.tasks)
            parts[part] = {"clusters": len(own.clusters), "queries": queries, "documents": len(own.documents)}
        first = next(iter(self.parts.values())).tasks[0].task
        kind = "segments" if first.lead else "fifths" if first.evidence else None
        role = "guard" if self.is_guard else "task"
        known = {"name": self.name, "role": role, "positions": kind, "parts": parts}
        return {**known, "rounds": [len(own.clusters) for own in self.rounds]}


@dataclass(frozen=True, slots=True)
class PreparedTuning:
    """A tuning that is ready to run."""

    subject: Subject
    spec: TuningSpec
    tasks: tuple[DividedTask, ...]
    notes: tuple[str, ...]
    fit: FitPart = field(default_factory=FitPart)

    @property
    def decisive(self) -> list[Any]:
        return [[one.name, one.is_guard, *one.fingerprints] for one in self.tasks]

    @property
    def searched(self) -> list[Searching]:
        return [own for one in self.tasks for own in one.parts.values()]

    @property
    def tokens_to_tune(self) -> int:
        """Tokens of all rounds, also of what is stored by the time it is wanted."""
        found, candidates = 0, len(self.spec.candidates)
        for searching in zip(*(task.rounds for task in self.tasks if not task.is_guard), strict=True):
            tokens = sum(_tokens(one) for one in searching)
            found += (1 + candidates) * tokens
            candidates = -(-candidates // 2)
        return found + tokens

    @property
    def tokens_to_confirm(self) -> int:
        """Tokens of the other parts, for the plain model and one candidate, and of the reference."""
        found = 0
        for task in self.tasks:
            guard, report = _tokens(task.parts[GUARD]), _tokens(task.parts[REPORT])
            found += 2 * (guard + report) + (0 if task.is_guard else report)
        return found

    @property
    def header(self) -> dict[str, Any]:
        counted = [one.counted for one in self.tasks]
        lengths: dict[str, list[int]] = {}
        for own in self.searched:
            for texts, found in own.lengths().items():
                lengths.setdefault(texts, []).extend(found)
        windows = windows_of(self.subject, self.spec.treatments, lengths)
        parts = [part for one in counted for part in one["parts"].values()]
        names = [one.name for one in self.tasks if not one.is_guard]
        return {
            "verb": "tune",
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
            "costs": [],
            "left_out": {},
            "parts_done": [],
            "notes": [
                *self.notes,
                *window_notes(windows, self.subject.counter.unit),
                *limit_note(self.subject, lengths["documents"]),
            ],
        }


def prepare_tuning(subject: Subject, spec: TuningSpec, progress: Progress | None = None) -> PreparedTuning:
    """Read, measure and divide, without embedding anything."""
    subject = subject.with_prompts(spec.prompt, spec.query_prompt).reading(spec.treatments)
    subject.transformer("tune")
    refuse_similarity(subject)
    shown = progress or Silent()
    divided: list[DividedTask] = []
    notes: list[str] = []
    texts: dict[str, str] = {}
    for one in (*spec.tasks, *spec.guards):
        name = _name(one, [own.name for own in divided])
        shown.stage(f"reading {name}")
        tasks = measure_tasks(subject, one.read(subject.counter), spec.too_long or one.too_long)
        _refuse_shared(name, [own.task for own in tasks], texts)
        notes += [f"{name}: {note}" for note in dict.fromkeys(note for own in tasks for note in own.task.notes)]
        divided.append(_divide(name, tasks, subject, spec, guard=one in spec.guards))
    _require_groups(spec, divided)
    return PreparedTuning(subject, spec, _in_step(divided), tuple(notes))


def _in_step(divided: Sequence[DividedTask]) -> tuple[DividedTask, ...]:
    """With as many rounds of every task as the one with fewest has: a round is of all of them."""
    fewest = min(len(one.rounds) for one in divided if not one.is_guard)
    return tuple(replace(one, rounds=one.rounds[-fewest:]) for one in divided)


def _divide(
    name: str, tasks: Sequence[MeasuredTask], subject: Subject, spec: TuningSpec, *, guard: bool
) -> DividedTask:
    # Rankings alone: no reader of a tuning looks at the ranks of all documents.
    made = Searching(subject, tuple(tasks), (spec.metric,), spec.chunk_tokens, with_ranks=False)
    try:
        parts = split_tasks(tasks, GUARD_SHARES if guard else SHARES, spec.seed)
    except TaskError as error:
        raise TaskError(f"{name} cannot be divided: {error.message}") from None
    rounds = []
    if not guard:
        clusters = len(replace(made, tasks=parts[TUNE]).clusters)
        counts = round_sizes(len(spec.candidates), clusters)
        rounds = [replace(made, tasks=first_clusters(parts[TUNE], count)) for count in counts[:-1]]
        rounds.append(replace(made, tasks=parts[TUNE]))
    searching = {part: replace(made, tasks=own) for part, own in parts.items()}
    fingerprints = tuple(one.task.fingerprint for one in tasks)
    return DividedTask(name, fingerprints, searching, tuple(rounds))


def round_sizes(candidates: int, clusters: int) -> list[int]:
    """Clusters in each round of successive halving; one round where there are few candidates or clusters."""
    if candidates <= LARGE_GRID:
        return [clusters]
    sizes = [max(_FIRST_ROUND, clusters // 4), clusters // 2]
    return [*dict.fromkeys(size for size in sizes if _FIRST_ROUND <= size <= clusters // 2), clusters]


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
        raise TaskError(
            f"{name} and {seen[shared[0]]} share {len(shared)} documents, so that one would be judged by data that "
            "the other is tuned on: name tasks and guards with different documents."
        )
    seen |= dict.fromkeys(own, name)


def _require_groups(spec: TuningSpec, divided: Sequence[DividedTask]) -> None:
    """Raise if fairness was asked for between groups that are not there."""
    measured = [one for task in divided if not task.is_guard for one in task.parts[TUNE].tasks]
    tuned = [one.task for one in measured]
    lengths = {one.lengths[document.id] for one in measured for document in one.task.documents}
    languages = {language for task in tuned for language in (task.lead, task.later) if language}
    languages |= {query.language for task in tuned for query in task.queries if query.language}
    there = {
        "position": any(task.evidence for task in tuned),
        "language": len(languages) > 1,
        "length": len(lengths) > 1,
    }
    missing = {
        "position": "where the evidence is in its document is not known",
        "language": f"all queries and documents are in {', '.join(languages) or 'a language that is not named'}",
        "length": "all documents have the same length",
    }
    if spec.fairness is not None and not there[spec.fairness]:
        raise TaskError(
            f"[[fairness={spec.fairness}]] compares groups of queries, and {missing[spec.fairness]}: omit it, or "
            "choose another task."
        )


def _tokens(searching: Searching) -> int:
    lengths = searching.lengths()
    return sum(lengths["documents"]) + sum(lengths["queries"])
