"""`evaluate`: what does search find, and does a treatment help?"""

from collections.abc import Collection, Iterator
from functools import cache

import polars as pl

from fairspan.encoding.calling import call_of
from fairspan.retrieval.indexes import index_words
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run, Study
from fairspan.studies.evaluate.entries import EvaluateEntries, IndexCost
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.prepare import PreparedEvaluation, prepare_evaluation
from fairspan.studies.evaluate.view import view_of


def measure_evaluation(prepared: PreparedEvaluation, run: Run) -> None:
    """Embed, index and search under every treatment, and by keywords."""
    under = cache(run.under)
    treatments = prepared.options.all_treatments
    run.announce(pair for treatment in treatments for pair in prepared.embedded(treatment, under))
    costs = run.header.part(EvaluateEntries).costs
    for rows, cost in search_all(prepared, run):
        costs += [cost] if cost else []
        run.add(rows)


def search_all(
    prepared: PreparedEvaluation, run: Run, names: Collection[str] | None = None
) -> Iterator[tuple[pl.DataFrame, IndexCost | None]]:
    """The rows of every arm, or of the treatments that are named, and what its index takes."""
    searching = prepared.searching
    under = cache(run.under)
    treatments = prepared.options.all_treatments
    for treatment in treatments:
        if names is not None and treatment.name not in names:
            continue
        treated = under(treatment)
        run.progress.stage(f"{treatment.name}: queries")
        run.fill(treated.queries, searching.queries)
        for plan in prepared.plans_of(treatment):
            run.progress.stage(f"{treatment.name}: {index_words(plan.kind)}")
            before = None if treatment == treatments[0] else under(treatments[0])
            yield searching.index_and_search(run, treated, plan, before)
    if names is None:
        yield searching.search_keywords(run.label), None


STUDY = Study(prepare_evaluation, measure_evaluation, view_of)


@call_of(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> RunLog:
    """Search with the plain model, under each treatment, and by keywords.

    Returns:
        The log, with one row for each query, metric, treatment and index; `verdicts`,
        `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
