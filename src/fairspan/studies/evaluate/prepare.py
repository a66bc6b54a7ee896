"""`PreparedEvaluation`: an evaluation with every query and document at hand and nothing embedded yet."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fairspan.calibration.treatment import Treatment
from fairspan.encoding.encoder import Encoder, Text
from fairspan.errors import TaskError
from fairspan.retrieval.languages import combine_languages
from fairspan.retrieval.measured import MeasuredTask
from fairspan.retrieval.source import PAGES
from fairspan.retrieval.task import RetrievalTask
from fairspan.runs.bases import Treated
from fairspan.runs.fit_part import FitPart, choose_fit_part
from fairspan.runs.progress import Progress, Silent
from fairspan.runs.searching import Searching, measure_tasks, refuse_similarity, usual_way
from fairspan.runs.subject import Subject
from fairspan.runs.windows import limit_note, window_notes, windows_of
from fairspan.studies.evaluate.spec import EvaluationSpec

_NO_POSITIONS = "across languages, results are not shown by position of the evidence: evaluate one language for that"


@dataclass(frozen=True, slots=True)
class PreparedEvaluation:
    """An evaluation that is ready to run, with a task for each index and texts to fit on, which are not searched."""

    subject: Subject
    spec: EvaluationSpec
    tasks: tuple[MeasuredTask, ...]
    fit: FitPart

    @property
    def searching(self) -> Searching:
        way = self.spec.too_long or self.spec.source.too_long or usual_way(self.tasks[0].task)
        return Searching(self.subject, self.tasks, self.spec.metrics, self.spec.chunk_tokens, may_cut=way == "cut")

    def embedded(self, under: Callable[[Treatment], Treated]) -> Iterator[tuple[Encoder, Sequence[Text]]]:
        """Everything that is embedded, treatment by treatment, with what embeds it."""
        searching = self.searching
        plans = {index: searching.plan(index) for index in self.spec.indexes}
        for treatment in self.spec.measured:
            # A correction is of the vectors of the same treatment without it.
            treated = under(treatment.uncorrected)
            if treatment.languages:
                yield treated.documents, self.fit.parallel
            yield treated.queries, searching.queries()
            for index in self.spec.indexes_of(treatment):
                yield treated.documents, plans[index].flat

    @property
    def decisive(self) -> list[Any]:
        return [one.task.fingerprint for one in self.tasks]

    @property
    def header(self) -> dict[str, Any]:
        tasks = [one.task for one in self.tasks]
        spoken = dict.fromkeys(query.language for query in tasks[0].queries if tasks[0].across)
        positions = "segments" if tasks[0].lead else "fifths" if tasks[0].evidence and not spoken else None
        lengths = self.searching.lengths()
        windows = windows_of(self.subject, self.spec.measured, lengths)
        return {
            "verb": "evaluate",
            "task": {
                "source": self.spec.task,
                "names": [task.name for task in tasks],
                "fingerprints": [task.fingerprint for task in tasks],
                "indexes": len(tasks),
                "queries": sum(len(task.queries) for task in (tasks[:1] if spoken else tasks)),
                "documents": len({document.id for task in tasks for document in task.documents}),
                "positions": positions,
                "clusters": len(self.searching.clusters),
                **({"languages": list(spoken)} if spoken else {}),
            },
            "plans": list(dict.fromkeys(f"{task.lead}:{task.later}" for task in tasks if task.lead)),
            "costs": [],
            "windows": windows,
            "notes": [
                *dict.fromkeys(note for task in tasks for note in task.notes),
                *window_notes(windows, self.subject.counter.unit),
                *limit_note(self.subject, lengths["documents"]),
                *([_NO_POSITIONS] if spoken and tasks[0].evidence else []),
            ],
        }


def prepare_evaluation(
    subject: Subject, spec: EvaluationSpec, progress: Progress | None = None
) -> PreparedEvaluation:
    """Read, draw and measure, without embedding anything."""
    subject = subject.with_prompts(spec.prompt, spec.query_prompt).reading(spec.measured)
    refuse_similarity(subject, spec.indexes)
    beyond = [*(["temperature_grid"] if spec.temperature_grid else []), *filter(_is_late, spec.indexes)]
    on_tokens = [one for one in spec.treatments if any(map(_is_late, spec.indexes_of(one)))]
    subject.refuse_unsuited(spec.treatments, on_tokens=on_tokens, beyond=beyond)
    (progress or Silent()).stage("reading the task")
    source = spec.source
    tasks = measure_tasks(subject, source.read(subject.counter), spec.too_long or source.too_long)
    if len(tasks) > 1 and not source.is_built:
        tasks = combine_languages(tasks, seed=spec.design.seed)
    _refuse_unknown_segments(spec, tasks)
    return PreparedEvaluation(subject, spec, tasks, _fit_part(spec, subject, tasks))


def _fit_part(spec: EvaluationSpec, subject: Subject, tasks: Sequence[MeasuredTask]) -> FitPart:
    if not any(treatment.fitted for treatment in spec.treatments):
        return FitPart()
    source, languages = spec.fit_corpus, spec.fit_languages
    if spec.task == PAGES:
        source = source or spec.corpus
        languages = tuple(dict.fromkeys(language for one in tasks for language in _spoken(one.task)))
    tested = {query.text for one in tasks for query in one.task.queries}
    for document in {document for one in tasks for document in one.task.documents}:
        # A page has the beginning of a segment, and the corpus has its end as well.
        tested |= {document.text, *(document.text[slice(*span)] for span in document.spans)}
    model, seed = subject.model, spec.design.seed
    return choose_fit_part(spec.treatments, model, subject.counter, source, languages, tested, seed=seed)


def _spoken(task: RetrievalTask) -> list[str]:
    """The languages of pages and of the queries that ask for them."""
    return [task.lead, task.later, *(query.language for query in task.queries)]


def _refuse_unknown_segments(spec: EvaluationSpec, tasks: Sequence[MeasuredTask]) -> None:
    by_segments = [treatment.name for treatment in spec.treatments if treatment.by_segments]
    without = sum(not document.spans for one in tasks for document in one.task.documents)
    if by_segments and without:
        raise TaskError(
            f"{by_segments[0]} makes every segment a basket, and of {without} documents the segments are not known: "
            "omit it, or give their borders."
        )


def _is_late(index: str) -> bool:
    return index.startswith("late")
