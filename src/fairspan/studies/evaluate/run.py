"""`evaluate`: what does search find, and does a treatment help?"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache

import polars as pl

from fairspan.encoding.calling import call_of
from fairspan.retrieval.indexes import index_words
from fairspan.runs.log import RunLog
from fairspan.runs.run import Run
from fairspan.runs.study import Study
from fairspan.studies.evaluate.entries import EvaluateEntries, IndexCost
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.texts import SearchTexts, search_texts
from fairspan.studies.evaluate.view import LOG


def _rows(texts: SearchTexts, run: Run) -> Iterator[pl.DataFrame]:
    """Embed, index and search under every treatment, and by keywords."""
    for rows, cost in search_all(texts, run):
        if cost:
            entries = run.header.part(EvaluateEntries)
            run.writer.change(study=replace(entries, costs=(*entries.costs, cost)))
        yield rows


def search_all(
    texts: SearchTexts, run: Run, names: Collection[str] | None = None
) -> Iterator[tuple[pl.DataFrame, IndexCost | None]]:
    """The rows of every arm, or of the treatments that are named, and what its index takes."""
    searching = texts.searching
    under = cache(run.under)
    treatments = texts.options.all_treatments
    for treatment in treatments:
        if names is not None and treatment.name not in names:
            continue
        treated = under(treatment)
        run.progress.stage(f"{treatment.name}: queries")
        run.fill(treated.queries, searching.queries)
        for plan in texts.plans_of(treatment):
            run.progress.stage(f"{treatment.name}: {index_words(plan.kind)}")
            before = None if treatment == treatments[0] else under(treatments[0])
            yield searching.index_and_search(run, treated, plan, before)
    if names is None:
        yield searching.search_keywords(), None


STUDY = Study(search_texts, _rows, LOG)


@call_of(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> RunLog:
    """Search with the plain model, under each treatment, and by keywords.

    Returns:
        The log, with one row for each query, metric, treatment and index; `verdicts`,
        `frame(name)`, `figure(name)` and `save_page(path)`.
    """
    return STUDY(options)
