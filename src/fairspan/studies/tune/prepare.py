"""`PreparedTuning`: tasks and guards as they are searched, and nothing embedded yet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from fairspan.calibration.calibration import WIDEST_WINDOW, WINDOW
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.errors import CorpusError
from fairspan.report.text import counted, model_name
from fairspan.retrieval.indexes import ONE_PER_CHUNK, IndexPlan, index_words
from fairspan.retrieval.measured import with_short_queries
from fairspan.retrieval.passages import Budget
from fairspan.retrieval.source import PageSource, PassageSource, TaskSource
from fairspan.retrieval.splitting import link_queries
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.fit_part import FitPart
from fairspan.runs.header import Header, TaskInfo, WindowInfo
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity
from fairspan.runs.subject import Pair, Subject, Treated
from fairspan.runs.windows import window_notes, windows_of
from fairspan.studies.tune.entries import SearchedTask, TuneEntries
from fairspan.studies.tune.options import (
    CANDIDATES,
    QUERY_TOKENS,
    TuneOptions,
    require_enough,
    visible_gain,
)

BUDGET = Budget(most_tokens=200_000, least=50, documents=250)
"""Of documents, unless their number is given: every candidate reads all of them."""


@dataclass(frozen=True)
class TunedTask:
    """A task or a guard; the `lengths` of queries are tried in turn, and None shortens none."""

    name: str
    searching: Searching
    is_guard: bool
    lengths: tuple[int | None, ...] = (None,)
    part_indexes: tuple[str, ...] = ()

    @property
    def tasks(self) -> list[RetrievalTask]:
        return [measured.task for measured in self.searching.tasks]

    @cached_property
    def plan(self) -> IndexPlan:
        return self.searching.plan("whole")

    @cached_property
    def part_plans(self) -> dict[str, IndexPlan]:
        """By index, what is embedded of parts of documents."""
        return {index: self.searching.plan(index) for index in (*self.part_indexes, ONE_PER_CHUNK)}

    def asking(self, tokens: int | None) -> Searching:
        """The search with queries of at most so many tokens."""
        if tokens is None:
            return self.searching
        counter = self.searching.subject.counters["query"]
        tasks = [with_short_queries(task, counter, tokens) for task in self.searching.tasks]
        return replace(self.searching, tasks=tuple(tasks))

    def pairs(self, treated: Treated, lengths: Sequence[int | None] = (None,)) -> list[Pair]:
        """What is embedded of it under a treatment, with queries of these lengths."""
        queries = [(treated.queries, self.asking(tokens).queries()) for tokens in lengths]
        return [*queries, (treated.documents, self.plan.flat)]

    @cached_property
    def answers(self) -> set[str]:
        """The texts of the documents that answer queries."""
        texts: set[str] = set()
        for task in self.tasks:
            gains = chain.from_iterable(gains.items() for gains in task.relevant.values())
            relevant = {document for document, gain in gains if gain > 0}
            texts |= {document.text for document in task.documents if document.id in relevant}
        return texts

    @cached_property
    def info(self) -> SearchedTask:
        """What the log says of it."""
        return SearchedTask(
            name=self.name,
            role="guard" if self.is_guard else "task",
            clusters=len(self.searching.clusters),
            queries=sum(len(task.queries) for task in self.tasks),
            documents=len(self.searching.documents),
            positions="segments" if any(task.lead for task in self.tasks) else "fifths",
        )


@dataclass(frozen=True)
class PreparedTuning:
    """A tuning that is ready to run; `omitted` has usual candidates that it lacks, and why."""

    subject: Subject
    options: TuneOptions
    searched: tuple[TunedTask, ...]
    omitted: Mapping[str, str] = field(default_factory=dict)
    fit: FitPart = field(default_factory=FitPart)

    @property
    def tasks(self) -> list[TunedTask]:
        return [task for task in self.searched if not task.is_guard]

    @property
    def guards(self) -> list[TunedTask]:
        return [task for task in self.searched if task.is_guard]

    @cached_property
    def part_indexes(self) -> tuple[str, ...]:
        """Indexes of several vectors per document; none if every document is one chunk."""
        plans = [task.part_plans[ONE_PER_CHUNK] for task in self.tasks]
        if all(len(plan.flat) == len(plan.texts) for plan in plans):
            return ()
        return (*self.options.part_indexes, ONE_PER_CHUNK)

    @property
    def text_hashes(self) -> list[Any]:
        return [
            [searched.name, searched.is_guard, *(task.fingerprint for task in searched.tasks)]
            for searched in self.searched
        ]

    @cached_property
    def _windows(self) -> list[WindowInfo]:
        lengths: dict[str, list[int]] = {}
        for task in self.tasks:
            for texts, tokens in task.searching.lengths().items():
                lengths.setdefault(texts, []).extend(tokens)
        return windows_of(self.subject, self.options.all_treatments, lengths)

    @property
    def notes(self) -> list[str]:
        """How far treatments read, and what was noted of each task."""
        notes = window_notes(self._windows, self.subject.counter.unit)
        notes += [f"omitted: {name}, {reason}" for name, reason in self.omitted.items()]
        for searched in self.searched:
            of_tasks = dict.fromkeys(note.rstrip(".") for t in searched.tasks for note in t.notes)
            if of_tasks:
                notes.append(f"{searched.name}: {'; '.join(of_tasks)}")
        return notes

    def describe(self, header: Header) -> Header:
        """The header with the tasks and guards."""
        infos = [task.info for task in self.searched]
        names = [task.name for task in self.tasks]
        searched = TaskInfo(
            source=", ".join(names),
            names=names,
            queries=sum(info.queries for info in infos),
            documents=sum(info.documents for info in infos),
        )
        return replace(header, task=searched, windows=self._windows, study=TuneEntries(infos))

    @property
    def scope(self) -> str:
        """The number of documents and candidates, and what gain these documents show."""
        infos = [task.info for task in self.tasks]
        documents = sum(info.documents for info in infos)
        gain = visible_gain(
            sum(info.clusters for info in infos), sum(info.queries for info in infos)
        )
        candidates = counted(len(self.options.all_treatments) - 1, "candidate")
        return f"{documents:,} documents: enough to see a gain of {gain:.2f}; {candidates}"

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """Every candidate on the tasks, then one on the guards; not yet known is which one.

        The plain model tries all lengths of queries, and the others get one of them.
        """
        plain, *candidates = map(under, self.options.all_treatments)
        chunks = under(as_treatment(reference(None, None)))
        work = []
        for treated in (plain, *candidates, chunks):
            tried = None if treated is plain else 1
            pairs = [task.pairs(treated, task.lengths[:tried]) for task in self.tasks]
            name = "averaged chunks" if treated.treatment.chunks else treated.treatment.name
            work.append(Work(name, tuple(chain(*pairs))))
        candidate = [treated for treated in candidates if not treated.treatment.chunks][-1]
        for index in self.part_indexes:
            treated = plain if index == ONE_PER_CHUNK else candidate
            texts = [(treated.documents, task.part_plans[index].flat) for task in self.tasks]
            work.append(Work(index_words(index), tuple(texts)))
        if self.guards:
            for name, treated in (("plain", plain), ("one candidate", candidate)):
                pairs = [task.pairs(treated) for task in self.guards]
                work.append(Work(f"guards: {name}", tuple(chain(*pairs))))
        return work


def reference(treatment: Treatment | None, window: int | None) -> str:
    """The averaged chunks to compare a candidate with: as long as its tiles, or as the window."""
    size = None if treatment is None else treatment.calibration.tile_size
    if size == WINDOW:
        size = WIDEST_WINDOW
    fits = isinstance(size, int) and (window is None or size < window)
    return f"chunk-mean-{size if fits else 'window'}"


def prepare_tuning(subject: Subject, options: TuneOptions, progress: Progress) -> PreparedTuning:
    """Read and measure, without embedding anything."""
    sources = options.searched  # which keep what they have read
    options, omitted = _with_suited(options, subject)
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    subject = subject.reading(options.all_treatments)
    refuse_similarity(subject)
    searched: list[TunedTask] = []
    for source in sources:
        name = _name(source, [task.name for task in searched])
        progress.stage(f"reading {name}")
        is_guard = len(searched) >= len(options.tasks)
        task = _read_task(name, source, subject, options, is_guard=is_guard)
        _refuse_shared(task, searched)
        require_enough(name, min(len(task.answers), len(task.searching.clusters)))
        searched.append(task)
    return PreparedTuning(subject, options, tuple(searched), omitted)


def _with_suited(options: TuneOptions, subject: Subject) -> tuple[TuneOptions, dict[str, str]]:
    """The options without default candidates that do not suit the model, and why these do not."""
    subject.transformer("tune")
    if tuple(options.candidates) != CANDIDATES:
        return options, {}
    plain, *others = options.all_treatments
    window = subject.window(plain)
    shared = subject.counter.count_whole([""])[0]
    omitted = {}
    for treatment in others:
        calibration = treatment.calibration
        size = None if calibration.level else calibration.tile_size
        if isinstance(size, int) and window is not None and size >= window - shared:
            reason = f"whose tiles are not smaller than the window of {window} tokens"
            omitted[treatment.name] = reason
    kept = tuple(treatment.name for treatment in others if treatment.name not in omitted)
    return replace(options, candidates=kept), omitted


def _read_task(
    name: str, source: TaskSource, subject: Subject, options: TuneOptions, *, is_guard: bool
) -> TunedTask:
    """A task or a guard in the model's tokens."""
    # Parts of a page are compared, so that every treatment has to read all of them.
    whole = isinstance(source, PageSource) and not subject.set_further
    subject = subject.reading(options.all_treatments, whole=whole)
    tasks = measure_tasks(subject, _read(source, subject), source.too_long)
    tasks = link_queries(tasks, texts=True)
    # Nothing in a tuning needs the ranks of all documents.
    searching = Searching(subject, tasks, (options.metric,), "window", with_ranks=False)
    shortened = isinstance(source, PassageSource) and options.query_tokens is None
    lengths = QUERY_TOKENS if shortened else (None,)
    return TunedTask(name, searching, is_guard, lengths, options.part_indexes)


def _read(source: TaskSource, subject: Subject) -> tuple[RetrievalTask, ...]:
    """The tasks of a source; of a corpus, passages of as many documents as time allows."""
    if isinstance(source, PageSource) and source.opening is None:
        source = source.with_opening(_opening(source, subject))
    if isinstance(source, PassageSource):
        return source.read(subject.counter, BUDGET)
    return source.read(subject.counter)


def _opening(source: PageSource, subject: Subject) -> int | None:
    """How many tokens of each text are joined, if the halves of most texts do not fit together."""
    counter = subject.counter
    if counter.window is None:
        return None
    room = (counter.window - counter.count_whole([""])[0]) // source.size - 1
    _, corpus = source.planned_corpus
    lengths = counter.count([segment.text for segment in corpus.segments])
    return room if np.median(lengths) / 2 > room else None


def _name(source: TaskSource, taken: Sequence[str]) -> str:
    """What rows and tables call a task: without folders, and different from the others."""
    if isinstance(source, PassageSource):
        name = model_name(source.corpus)
    elif isinstance(source, PageSource):
        name = f"{source.kind} of {model_name(source.corpus)}"
    else:
        kind, colon, place = source.task.partition(":")
        name = model_name(place if colon else kind)
    return name if name not in taken else f"{name} ({len(taken) + 1})"


def _refuse_shared(task: TunedTask, others: Sequence[TunedTask]) -> None:
    """Raise if documents that answer queries also belong to another task, and would count twice."""
    for other in others:
        shared = task.answers & other.answers
        if shared:
            raise CorpusError(
                f"{task.name} and {other.name} share {len(shared)} documents, so that one would be "
                "judged by data that the other is tuned on: name tasks and guards with different "
                "documents."
            )
