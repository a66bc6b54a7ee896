"""`PreparedTuning`: tasks and guards as they are searched, and nothing embedded yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.corpus.corpus import Corpus
from fairspan.design.plan import languages_of
from fairspan.errors import CorpusError
from fairspan.report.text import counted, model_name
from fairspan.retrieval.indexes import IndexPlan
from fairspan.retrieval.measured import MeasuredTask, with_short_queries
from fairspan.retrieval.passages import PassageDraw
from fairspan.retrieval.source import PAGES, PASSAGES, PageSource, PassageSource, TaskSource
from fairspan.retrieval.splitting import link_queries
from fairspan.retrieval.task import LEAST_TOKENS, RetrievalTask
from fairspan.runs.bases import Pair, Treated
from fairspan.runs.fit_part import FitPart
from fairspan.runs.header import Header, TaskInfo, WindowInfo
from fairspan.runs.prepared import Work
from fairspan.runs.progress import Progress
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity
from fairspan.runs.subject import Subject
from fairspan.runs.windows import window_notes, windows_of
from fairspan.studies.tune.entries import SearchedTask, TuneEntries
from fairspan.studies.tune.options import (
    CANDIDATES,
    DOCUMENTS,
    LEAST_DOCUMENTS,
    MOST_TOKENS,
    TuneOptions,
    require_enough,
    visible_gain,
)

QUERY_TOKENS = (60, 30, 15, LEAST_TOKENS)
"""Lengths of queries to try, so that the plain model does not find nearly everything."""
_CHARACTERS = 4
"""Of a token, about."""


@dataclass(frozen=True)
class TunedTask:
    """A task or a guard. The `lengths` of queries are tried in turn; None leaves them as they are."""

    name: str
    searching: Searching
    is_guard: bool
    lengths: tuple[int | None, ...] = (None,)

    @cached_property
    def plan(self) -> IndexPlan:
        return self.searching.plan("whole")

    def asking(self, tokens: int | None) -> Searching:
        """With queries of so many tokens at most."""
        if tokens is None:
            return self.searching
        counter = self.searching.subject.counters["query"]
        return replace(
            self.searching,
            tasks=tuple(with_short_queries(one, counter, tokens) for one in self._tasks),
        )

    def tokens(self, lengths: Sequence[int | None] = (None,)) -> int:
        """Tokens that are read of it, again for each length of queries."""
        asked = [text.length for tokens in lengths for text in self.asking(tokens).queries()]
        return len(lengths) * self.plan.tokens + sum(asked)

    def pairs(self, treated: Treated, lengths: Sequence[int | None] = (None,)) -> list[Pair]:
        """What is embedded of it under a treatment, with queries of these lengths."""
        asked = [(treated.queries, self.asking(tokens).queries()) for tokens in lengths]
        return [*asked, (treated.documents, self.plan.flat)]

    @property
    def _tasks(self) -> tuple[MeasuredTask, ...]:
        return self.searching.tasks

    @cached_property
    def counted(self) -> SearchedTask:
        """What a log says of it."""
        tasks = [measured.task for measured in self._tasks]
        return SearchedTask(
            name=self.name,
            role="guard" if self.is_guard else "task",
            clusters=len(self.searching.clusters),
            queries=sum(len(task.queries) for task in tasks),
            documents=len(self.searching.documents),
            positions="segments" if any(task.lead for task in tasks) else "fifths",
        )


@dataclass(frozen=True)
class PreparedTuning:
    """A tuning that is ready to run."""

    subject: Subject
    options: TuneOptions
    searched: tuple[TunedTask, ...]
    read_notes: tuple[str, ...]
    fit: FitPart = field(default_factory=FitPart)

    @property
    def text_hashes(self) -> list[Any]:
        tasks = [
            (one, [own.task.fingerprint for own in one.searching.tasks]) for one in self.searched
        ]
        return [[one.name, one.is_guard, *prints] for one, prints in tasks]

    def having(self, *, guards: bool) -> list[TunedTask]:
        """The tasks, or the guards."""
        return [one for one in self.searched if one.is_guard == guards]

    def tokens(self, *, guards: bool) -> int:
        """Tokens that a treatment reads, also of what is in the store."""
        return sum(one.tokens() for one in self.having(guards=guards))

    @cached_property
    def _windows(self) -> list[WindowInfo]:
        lengths: dict[str, list[int]] = {}
        for task in self.having(guards=False):
            for texts, tokens in task.searching.lengths().items():
                lengths.setdefault(texts, []).extend(tokens)
        return windows_of(self.subject, self.options.all_treatments, lengths)

    @property
    def notes(self) -> list[str]:
        return [*window_notes(self._windows, self.subject.counter.unit), *self.read_notes]

    def describe(self, header: Header) -> Header:
        """The header with the tasks and guards."""
        tasks = [task.counted for task in self.searched]
        names = [task.name for task in tasks if not task.is_guard]
        searched = TaskInfo(
            source=", ".join(names),
            names=names,
            queries=sum(task.queries for task in tasks),
            documents=sum(task.documents for task in tasks),
        )
        return replace(header, task=searched, windows=self._windows, study=TuneEntries(tasks))

    @property
    def scope(self) -> str:
        own = [one.counted for one in self.having(guards=False)]
        clusters = sum(task.clusters for task in own)
        queries = sum(task.queries for task in own)
        documents = sum(task.documents for task in own)
        enough = f"{documents:,} documents: enough to see a gain of {visible_gain(clusters, queries):.2f}"
        return f"{enough}; {counted(len(self.options.all_treatments) - 1, 'candidate')}"

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """Every candidate on the tasks; which one is compared with chunks, and guarded, is not known before."""
        plain, *candidates = (under(one) for one in self.options.all_treatments)
        found = []
        for one in (plain, *candidates, under(as_treatment(reference(None, None)))):
            # Which length of queries it will be is not known before; the plain model tries all.
            tried = None if one is plain else 1
            pairs = [
                own
                for task in self.having(guards=False)
                for own in task.pairs(one, task.lengths[:tried])
            ]
            found.append(
                Work(
                    "averaged chunks" if one.treatment.chunks else one.treatment.name, tuple(pairs)
                )
            )
        guards, last = (
            self.having(guards=True),
            [one for one in candidates if not one.treatment.chunks][-1],
        )
        for one, name in (
            ((plain, "guards: plain"), (last, "guards: one candidate")) if guards else ()
        ):
            found.append(Work(name, tuple(own for task in guards for own in task.pairs(one))))
        return found


def reference(treatment: Treatment | None, window: int | None) -> str:
    """The averaged chunks that a candidate is compared with: as long as its tiles, or as the window."""
    size = None if treatment is None else treatment.calibration.tile_size
    fits = isinstance(size, int) and (window is None or size < window)
    return f"chunk-mean-{size if fits else 'window'}"


def prepare_tuning(subject: Subject, options: TuneOptions, progress: Progress) -> PreparedTuning:
    """Read and measure, without embedding anything."""
    subject.transformer("tune")
    options = _that_fit(options, subject)
    subject = subject.with_prompts(options.prompt, options.query_prompt).reading(
        options.all_treatments
    )
    refuse_similarity(subject)
    found: list[TunedTask] = []
    notes: list[str] = []
    texts: dict[str, str] = {}
    for number, one in enumerate(options.searched):
        name = _name(one, [own.name for own in found])
        progress.stage(f"reading {name}")
        # Parts of a page are compared, so that every treatment has to read all of them.
        own = subject.reading(
            options.all_treatments, whole=one.kind == PAGES and not subject.set_further
        )
        tasks = link_queries(measure_tasks(own, _read(one, own, options), one.too_long), texts=True)
        answering = _refuse_shared(name, [own.task for own in tasks], texts)
        noted = dict.fromkeys(note.rstrip(".") for own in tasks for note in own.task.notes)
        notes += [f"{name}: {'; '.join(noted)}"] if noted else []
        # Rankings alone: no reader of a tuning looks at the ranks of all documents.
        searching = Searching(own, tasks, (options.metric,), "window", with_ranks=False)
        require_enough(name, min(answering, len(searching.clusters)))
        shortened = one.kind == PASSAGES and options.query_tokens is None
        found.append(
            TunedTask(
                name,
                searching,
                number >= len(options.tasks),
                QUERY_TOKENS if shortened else (None,),
            )
        )
    return PreparedTuning(subject, options, tuple(found), tuple(notes))


def _that_fit(options: TuneOptions, subject: Subject) -> TuneOptions:
    """Without those of the usual candidates whose tiles would not be smaller than the model's window."""
    plain, *others = options.all_treatments
    window = subject.window(plain)
    if window is None or tuple(options.candidates) != CANDIDATES:
        return options
    room = window - subject.counter.count_whole([""])[0]
    large = {
        one.name
        for one in others
        if isinstance(size := one.calibration.tile_size, int) and size >= room
    }
    return replace(options, candidates=tuple(name for name in CANDIDATES if name not in large))


def _read(source: TaskSource, subject: Subject, options: TuneOptions) -> tuple[RetrievalTask, ...]:
    """A task; of documents as they are, as many as can be read in a while."""
    if isinstance(source, PageSource) and source.opening is None:
        source = replace(source, opening=_opening(source, subject))
    if not isinstance(source, PassageSource):
        return source.read(subject.counter)
    plans, corpus = source.read_corpus()
    draw = PassageDraw(
        subject.counter,
        tokens=source.query_tokens,
        documents=source.sets,
        seed=source.seed,
        most_tokens=MOST_TOKENS if options.sets is None else float("inf"),
        least=LEAST_DOCUMENTS,
    )
    read = corpus if options.sets is not None else _sampled(corpus, source.seed)
    return draw.tasks(read, languages_of(plans))


def _opening(source: PageSource, subject: Subject) -> int | None:
    """How much of each text is joined, where the halves of most texts would not fit together; None where they do."""
    window, counter = subject.counter.window, subject.counter
    if window is None:
        return None
    room = (window - counter.count_whole([""])[0]) // source.size - 1
    lengths = counter.count([segment.text for segment in source.read_corpus()[1].segments])
    return room if np.median(lengths) / 2 > room else None


def _sampled(corpus: Corpus, seed: int) -> Corpus:
    """Three times what is needed, drawn at random: cutting passages out of all of a large corpus takes long."""
    texts: dict[str, int] = {}
    for segment in corpus.segments:
        texts[segment.id] = texts.get(segment.id, 0) + len(segment.text)
    ids = sorted(texts)
    drawn = [ids[number] for number in np.random.default_rng(seed).permutation(len(ids))]
    enough = (
        int(np.searchsorted(np.cumsum([texts[id] for id in drawn]), 3 * _CHARACTERS * MOST_TOKENS))
        + 1
    )
    kept = {*drawn[: min(3 * DOCUMENTS, max(enough, 3 * LEAST_DOCUMENTS))]}
    if len(kept) == len(ids):
        return corpus
    note = f"{len(kept):,} of its {len(ids):,} documents were looked at"
    segments = tuple(segment for segment in corpus.segments if segment.id in kept)
    return Corpus(corpus.name, segments, (*corpus.notes, note))


def _name(source: TaskSource, taken: Sequence[str]) -> str:
    """What rows and tables call a task: without the folders that it is in, and different from the others."""
    if isinstance(source, PassageSource):
        name = model_name(source.corpus)
    elif isinstance(source, PageSource):
        name = f"{source.kind} of {model_name(source.corpus)}"
    else:
        kind, colon, place = source.task.partition(":")
        name = model_name(place if colon else kind)
    return name if name not in taken else f"{name} ({len(taken) + 1})"


def _refuse_shared(name: str, tasks: Sequence[RetrievalTask], seen: dict[str, str]) -> int:
    """How many documents answer queries; an error if one also belongs to another task, and would count twice."""
    own = set()
    for task in tasks:
        asked = {
            document
            for gains in task.relevant.values()
            for document, gain in gains.items()
            if gain > 0
        }
        own |= {document.text for document in task.documents if document.id in asked}
    shared = [text for text in own if text in seen]
    if shared:
        raise CorpusError(
            f"{name} and {seen[shared[0]]} share {len(shared)} documents, so that one would be judged by data that "
            "the other is tuned on: name tasks and guards with different documents."
        )
    seen |= dict.fromkeys(own, name)
    return len(own)
