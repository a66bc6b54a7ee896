"""`evaluate`: does a treatment help search, at every position of the evidence?"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from fairspan.calibration.treatment import AnyTreatment, Treatment
from fairspan.encoding.encoder import Text
from fairspan.model.loading import Loading
from fairspan.retrieval.source import MTEB, PAGES
from fairspan.runs.bases import Treated
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Progress, as_progress
from fairspan.runs.request import fields_of_study, request_of
from fairspan.runs.runner import Run, RunOptions, run_study
from fairspan.runs.subject import AnyModel, default_treatments, open_subject
from fairspan.studies.evaluate.prepare import PreparedEvaluation, prepare_evaluation
from fairspan.studies.evaluate.run_mteb import evaluate_mteb
from fairspan.studies.evaluate.spec import DEFAULT_METRICS, make_evaluation
from fairspan.studies.evaluate.view import view_of

# Two passes over the same tokens differ by rounding, here with room for half precision.
_SAME = 1e-4


def evaluate(
    model: AnyModel = None,
    task: str = PAGES,
    *,
    treatments: Sequence[AnyTreatment] | None = None,
    temperature_grid: Sequence[float] | None = None,
    documents_only: bool = True,
    indexes: Sequence[str] = ("whole",),
    cross: bool = False,
    chunk_tokens: int = 128,
    metrics: Sequence[str] = DEFAULT_METRICS,
    corpus: str = "sample",
    languages: Sequence[str] | None = None,
    mixed: str | Sequence[str] = (),
    partial: bool = False,
    size: int = 4,
    sets: int = 100,
    orders: str = "latin",
    editions: int | None = None,
    distractors: int = 0,
    query: str = "held-out",
    query_tokens: int = 60,
    query_language: str | None = None,
    opening: int | None = None,
    min_tokens: int | None = None,
    max_tokens: int | None = None,
    length_language: str | None = None,
    length_ratio: float | None = None,
    documents: Path | str | None = None,
    language: str | None = None,
    unit: str = "article",
    split: str = "test",
    too_long: str | None = None,
    margin: float = 0.01,
    prompt: str | None = None,
    query_prompt: str | None = None,
    fit_corpus: str | None = None,
    seed: int = 0,
    name: str | None = None,
    window: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    out: Path | str | None = None,
    store: Path | str | None = None,
    batch_tokens: int | None = None,
    fresh: bool = False,
    progress: bool | Progress = True,
) -> RunLog:
    """Search a collection with the unmodified model and under each treatment.

    Args:
        model: a SentenceTransformer, its name or folder, None for all-MiniLM-L6-v2; or an `Endpoint` or any object
            with `encode(list[str])`, under the treatments "none" and "chunk-mean".
        task: "pages", "passages", the folder or file of a collection, "beir:FOLDER" or "mteb:NAME".
        treatments: what is compared, as in `audit`; the first is what the others are compared with. By default as
            in `audit`, or "none" alone with a grid of temperatures.
        temperature_grid: measure the first treatment also with every pair of these as the temperatures of queries
            and documents; 1 belongs to every grid.
        documents_only: measure every treatment also with queries as the plain model embeds them.
        indexes: what is kept of a document: "whole", "chunk-mean", "chunk-max", "late-mean", "late-max".
        cross: measure every index under every treatment; otherwise all but "whole" under the first one only.
        chunk_tokens: length of the longest chunk.
        metrics: the first one decides what is advised.
        corpus, languages, mixed, partial: of pages, as in `audit`. Of questions that refer to a corpus, `languages`
            are those to search across.
        size: number of segments per page.
        sets: number of pages, or of documents with passages, that are searched for.
        orders: how the segments of pages are ordered, as `design` in `audit`.
        editions: number of indexes, each with other orders; by default every segment is at every position once.
        distractors: number of further pages, which no query asks for.
        query: what pages are searched with: "held-out", "first-sentence" or "title".
        query_tokens: length of the longest held-out query.
        query_language: ask in this language, whatever the language of the page.
        opening, min_tokens, max_tokens, length_language, length_ratio: of segments on pages, as in `audit`.
        documents: the folder of the documents, if a collection keeps them apart from its queries.
        language: of a collection that has several.
        unit: what a document is in files like SQuAD's: "article" or "paragraph".
        split: of a collection that is divided.
        too_long: what to do with documents that no treatment reads whole: "leave-out", "shorten", "cut" or
            "error"; by default "shorten" for passages, "leave-out" if positions are known otherwise, else "cut".
        margin: a loss of quality below it counts as none.
        prompt, query_prompt: put before documents and queries; by default the model's own.
        fit_corpus: what whitening and corrections of languages are fitted on; by default what the corpus of pages has
            on no page. Collections need one.
        seed: of pages and intervals.
        name, window, device, dtype, trust_remote_code: as in `audit`.
        out, store, batch_tokens, fresh, progress: as in `audit`.

    Returns:
        The log, with one row for each query, metric, treatment and index; `fairspan.studies.evaluate.summary` makes
        statistics of it.
    """
    if treatments is None and temperature_grid is None:
        treatments = default_treatments(model)
    given = dict(locals())
    shown, spec = as_progress(progress), make_evaluation(**fields_of_study(given))
    loading = Loading(window, device, dtype, trust_remote_code)
    request = request_of("evaluate", spec, model, name=name, **asdict(loading))
    options = RunOptions(out, store, batch_tokens, fresh, shown, request)
    known = options.answer(name or model, view_of)
    if known is not None:
        return known
    subject = open_subject(model, name=name, loading=loading, progress=shown)
    if spec.task.startswith(MTEB):
        return evaluate_mteb(subject, spec, options)
    prepared = prepare_evaluation(subject, spec, shown)
    return run_study(prepared, lambda run: _Search(prepared, run).measure(), options, view_of)


class _Search:
    """One evaluation while it runs."""

    def __init__(self, prepared: PreparedEvaluation, run: Run) -> None:
        self.prepared, self.spec, self.run = prepared, prepared.spec, run
        self.searching = prepared.searching
        self.treated: dict[Treatment, Treated] = {}

    def measure(self) -> None:
        run = self.run
        queries = self.searching.queries()
        plans = {index: self.searching.plan(index) for index in self.spec.indexes}
        plans.setdefault("whole", self.searching.plan("whole"))
        measured = self.spec.measured
        tokens = {one.name: sum(plans[index].tokens for index in self.spec.indexes_of(one)) for one in measured}
        asked = sum(text.length for text in queries)
        run.announce(self.prepared.embedded(self._under))
        run.progress.start(sum(self.prepared.fit.tokens(measured, [asked + tokens[one.name] for one in measured])))
        for treatment in measured:
            run.progress.stage(f"{treatment.name}: queries")
            run.begin(treatment)
            treated = self._under(treatment)
            run.fill(treated.queries, queries)
            twin = self.spec.twin_of(treatment)
            if twin is not None and self._same_queries(queries, treated, self._under(twin)):
                run.note(f"{twin.name} does not change these queries, so it is the same on documents only")
                run.advance(tokens[treatment.name])
                continue
            # Late chunks are read in the same pass as whole documents, which then are there already.
            for index in sorted(self.spec.indexes_of(treatment), key=lambda name: not name.startswith("late")):
                run.progress.stage(f"{treatment.name}: {index}")
                rows, cost = self.searching.index_and_search(run, treated, plans[index])
                run.header["costs"].append(cost)
                run.add(rows)

    def _under(self, treatment: Treatment) -> Treated:
        if treatment not in self.treated:
            self.treated[treatment] = self.run.under(treatment)
        return self.treated[treatment]

    def _same_queries(self, queries: Sequence[Text], one: Treated, other: Treated) -> bool:
        """Whether two treatments embed all queries equally, up to rounding."""
        keys = [[treated.queries.key(text) for text in queries] for treated in (one, other)]
        first, second = (np.stack(self.run.read(own)) for own in keys)
        scale = np.linalg.norm(first, axis=1)
        return bool((np.linalg.norm(first - second, axis=1) <= _SAME * scale).all())
