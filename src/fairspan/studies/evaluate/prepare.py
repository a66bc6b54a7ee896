"""`PreparedEvaluation`: an evaluation with every query and document at hand and nothing embedded yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.errors import CorpusError
from fairspan.retrieval.indexes import IndexPlan
from fairspan.retrieval.languages import combine_languages
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import PAGES, PASSAGES, LanguageSource
from fairspan.retrieval.splitting import link_queries
from fairspan.runs.bases import Pair, Treated, fit_pairs
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.forecast import Work
from fairspan.runs.progress import Progress
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity, usual_way
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.evaluate.options import EvaluateOptions

_NO_POSITIONS = "across languages, results are not shown by position of the evidence: evaluate one language for that"


@dataclass(frozen=True)
class PreparedEvaluation:
    """An evaluation that is ready to run, with a task for each index and texts to fit on, which are not searched."""

    subject: Subject
    options: EvaluateOptions
    tasks: tuple[MeasuredTask, ...]
    fit: FitPart

    @cached_property
    def searching(self) -> Searching:
        options = self.options
        way = options.too_long or options.searched.too_long or usual_way(self.tasks[0].task)
        may_cut = way == "cut" or (options.task == PASSAGES and options.too_long is None)
        return Searching(
            self.subject, self.tasks, options.metrics, options.chunk_tokens, may_cut=may_cut
        )

    @cached_property
    def plans(self) -> dict[str, IndexPlan]:
        """What each index has to embed."""
        return {index: self.searching.plan(index) for index in self.options.indexes}

    def embedded(
        self, treatment: Treatment, under: Callable[[Treatment], Treated]
    ) -> tuple[Pair, ...]:
        """Everything that is embedded for a treatment, with what embeds it."""
        treated = under(treatment)
        fitted = fit_pairs(treatment, self.fit, under)
        indexes = [
            (treated.documents, self.plans[index].flat)
            for index in self.options.indexes_of(treatment)
        ]
        return (*fitted, (treated.queries, self.searching.queries()), *indexes)

    def work(self, under: Callable[[Treatment], Treated]) -> list[Work]:
        """One line per treatment, with how far it reads and how many documents it cuts."""
        windows = {one["treatment"]: one for one in self._windows if one["texts"] == "documents"}
        facts = {name: {"reads": one["window"], "cut": one["cut"]} for name, one in windows.items()}
        return [
            Work(one.name, self.embedded(one, under), facts=facts[one.name])
            for one in self.options.measured
        ]

    @property
    def scope(self) -> str:
        task, count = self.header["task"], len(self.options.measured)
        queries = f"{len(self.searching.queries()):,} queries in {task['clusters']:,} clusters"
        return f"{queries}, {task['documents']:,} documents" + (
            f" × {count} treatments" if count > 1 else ""
        )

    @cached_property
    def _windows(self) -> list[dict[str, Any]]:
        return windows_of(self.subject, self.options.measured, self.searching.lengths())

    @property
    def decisive(self) -> list[Any]:
        return [one.task.fingerprint for one in self.tasks]

    @property
    def header(self) -> dict[str, Any]:
        tasks = [one.task for one in self.tasks]
        spoken = dict.fromkeys(query.language for query in tasks[0].queries if tasks[0].across)
        positions = (
            "segments" if tasks[0].lead else "fifths" if tasks[0].evidence and not spoken else None
        )
        noted = dict.fromkeys(note.rstrip(".") for task in tasks for note in task.notes)
        said = [*window_notes(self._windows, self.subject.counter.unit), *noted]
        return {
            "task": {
                "source": self.options.task,
                "names": [task.name for task in tasks],
                "fingerprints": [task.fingerprint for task in tasks],
                "indexes": len(tasks),
                "queries": sum(len(task.queries) for task in (tasks[:1] if spoken else tasks)),
                "documents": len({document.id for task in tasks for document in task.documents}),
                "positions": positions,
                "clusters": len(self.searching.clusters),
                **({"languages": list(spoken)} if spoken else {}),
            },
            "plans": list(
                dict.fromkeys(f"{task.lead}:{task.later}" for task in tasks if task.lead)
            ),
            "costs": [],
            "windows": self._windows,
            "notes": ["; ".join(said)] if said else [],
            # For those who want to know how it was measured.
            "details": [
                *limit_note(self.subject, self.searching.lengths()["documents"]),
                *([_NO_POSITIONS] if spoken and tasks[0].evidence else []),
            ],
        }


def prepare_evaluation(
    subject: Subject, options: EvaluateOptions, progress: Progress
) -> PreparedEvaluation:
    """Read, draw and measure, without embedding anything."""
    subject = subject.with_prompts(options.prompt, options.query_prompt)
    # Pages and what is made to fit do so under every treatment; other texts are what they are, and some are cut.
    fitting = options.task == PAGES or options.too_long not in (None, "cut")
    subject = subject.reading(options.measured, whole=fitting and not subject.set_further)
    refuse_similarity(subject, options.indexes)
    late = [index for index in options.indexes if index.startswith("late")]
    on_tokens = [one for one in options.compared if {*late} & {*options.indexes_of(one)}]
    subject.refuse_unsuited(options.compared, on_tokens=on_tokens, beyond=late)
    progress.stage("reading the task")
    source = options.searched
    tasks = measure_tasks(
        subject, source.read(subject.counter), options.too_long or source.too_long
    )
    if isinstance(source, LanguageSource):
        tasks = combine_languages(tasks, seed=options.seed)
    tasks = link_queries(tasks)
    _refuse_unknown_segments(options, tasks)
    prepared = PreparedEvaluation(subject, options, tasks, _fit_part(options, subject, tasks))
    if len(prepared.searching.clusters) < 2:
        raise CorpusError(
            "all queries are about one document, and errors need 2: add queries about others."
        )
    return prepared


def _fit_part(options: EvaluateOptions, subject: Subject, tasks: Sequence[MeasuredTask]) -> FitPart:
    if not any(treatment.whitens for treatment in options.compared):
        return FitPart()
    source, languages = options.fit_corpus, options.fit_languages
    if options.task == PAGES:
        source = source or options.corpus
        spoken = [
            (one.task.lead, one.task.later, *(own.language for own in one.task.queries))
            for one in tasks
        ]
        languages = tuple(dict.fromkeys(chain(*spoken)))
    tested = {query.text for one in tasks for query in one.task.queries}
    for document in {document for one in tasks for document in one.task.documents}:
        # A page has the beginning of a segment, and the corpus has its end as well.
        tested |= {document.text, *(document.text[slice(*span)] for span in document.spans)}
    model, seed = subject.model, options.seed
    return choose_fit_part(
        options.compared, model, subject.counter, source, languages, tested, seed=seed
    )


def _refuse_unknown_segments(options: EvaluateOptions, tasks: Sequence[MeasuredTask]) -> None:
    by_segments = [treatment.name for treatment in options.compared if treatment.by_segments]
    without = sum(not document.spans for one in tasks for document in one.task.documents)
    if by_segments and without:
        raise CorpusError(
            f"{by_segments[0]} makes every segment a basket, and of {without} documents the segments are not known: "
            "omit it, or give their borders."
        )
