"""`evaluate`: does a treatment help search, at every position of the evidence?"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from fairspan.encoding.calling import call_of
from fairspan.encoding.encoder import Text
from fairspan.retrieval.indexes import index_words
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Progress
from fairspan.runs.study import Run, Study
from fairspan.runs.subject import Subject, Treated
from fairspan.studies.evaluate.benchmark import (
    PreparedBenchmark,
    measure_benchmark,
    prepare_benchmark,
)
from fairspan.studies.evaluate.measures import EvaluateEntries
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.prepare import PreparedEvaluation, prepare_evaluation
from fairspan.studies.evaluate.view import view_of

# Two passes over the same tokens differ by rounding, here with room for half precision.
_SAME = 1e-4


def _prepare(
    subject: Subject, options: EvaluateOptions, progress: Progress
) -> PreparedEvaluation | PreparedBenchmark:
    prepare = prepare_benchmark if options.is_benchmark else prepare_evaluation
    return prepare(subject, options, progress)


def _measure(prepared: PreparedEvaluation | PreparedBenchmark, run: Run) -> None:
    """Embed, index and search under every treatment, or let mteb score it."""
    if isinstance(prepared, PreparedBenchmark):
        measure_benchmark(prepared, run)
        return
    options = prepared.options
    queries = prepared.searching.queries()
    under = cache(run.under)
    treatments = options.all_treatments
    run.announce(pair for treatment in treatments for pair in prepared.embedded(treatment, under))
    kept = []
    for treatment in treatments:
        run.progress.stage(f"{treatment.name}: queries")
        run.fill(under(treatment).queries, queries)
        twin = options.twin_of(treatment)
        if twin is None or not _same_queries(run, queries, under(treatment), under(twin)):
            kept.append(treatment)
            continue
        same = f"{twin.name} does not change these queries, so it is the same on documents only"
        run.header.part(EvaluateEntries).details.append(same)
    indexed = [(treatment, plan) for treatment in kept for plan in prepared.plans_of(treatment)]
    for treatment, plan in indexed:
        run.progress.stage(f"{treatment.name}: {index_words(plan.kind)}")
        rows, cost = prepared.searching.index_and_search(run, under(treatment), plan)
        run.header.part(EvaluateEntries).costs.append(cost)
        run.add(rows)


def _same_queries(run: Run, queries: Sequence[Text], first: Treated, second: Treated) -> bool:
    """Whether two treatments embed all queries equally, up to rounding."""
    vectors = np.stack(run.read([first.queries.key(text) for text in queries]))
    others = np.stack(run.read([second.queries.key(text) for text in queries]))
    differences = np.linalg.norm(vectors - others, axis=1)
    return bool((differences <= _SAME * np.linalg.norm(vectors, axis=1)).all())


STUDY = Study(_prepare, _measure, view_of)


@call_of(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> RunLog:
    """Search a collection, or score tasks of mteb, with the plain model and under each treatment.

    Returns:
        The log, with one row for each query, metric, treatment and index, or for each task that
        mteb scores; `verdicts`, `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
