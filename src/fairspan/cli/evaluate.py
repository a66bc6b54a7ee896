"""`fairspan evaluate MODEL TASK`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.calibration.treatment import CLOSED_TREATMENTS
from fairspan.cli.gate import FailIf, fail_on_runs, read_conditions
from fairspan.cli.options import (
    AsJson,
    EndpointOptions,
    LoadingOptions,
    ModelName,
    Prompt,
    RunningOptions,
    option,
    pick,
    print_json,
    shared,
    take_endpoint,
    typed,
)
from fairspan.errors import DesignError

if TYPE_CHECKING:
    from fairspan.runs.progress import Progress
    from fairspan.studies.evaluate.forecast import Forecast


@shared(EndpointOptions, LoadingOptions, RunningOptions)
def evaluate(
    context: typer.Context,
    model: ModelName = None,
    task: Annotated[
        str,
        typer.Argument(help="pages or passages, the folder or file of a collection, beir:FOLDER or mteb:NAME."),
    ] = "pages",
    treatments: str | None = option(
        "Treatments to compare; the first is the baseline. Default: none,tiles, or none,chunk-mean with --endpoint."
    ),
    temperature_grid: str | None = option(
        "Measure the first treatment with every pair of these softmax temperatures, one for queries and one "
        "for documents: 1,0.9,0.8. The picture then shows that grid."
    ),
    fit_corpus: str | None = option(
        "Corpus that whitening and languages= are fitted on. Default, for pages: what the corpus has on no page."
    ),
    documents_only: bool = option(
        "Measure every treatment also with queries as the plain model embeds them.", default=True
    ),
    indexes: str | None = option(
        "What is kept of a document: whole, chunk-mean, chunk-max, late-mean, late-max. Default: whole."
    ),
    cross: bool = option("Measure every index under every treatment, not only the first.", "--cross", default=False),
    chunk_tokens: int | None = option("Length of the longest chunk. Default: 128."),
    metrics: str | None = option("Metrics; the first decides the advice. Default: ndcg@10,mrr,recall@1,recall@10."),
    corpus: str | None = option("Corpus of pages or passages: sample, a folder, a JSONL or Parquet file, a dataset."),
    languages: str | None = option(
        "Languages of monolingual pages, such as en,de. Of questions in several languages, those to search across."
    ),
    mixed: str | None = option("Languages lead:later of mixed pages, such as de:en, or all."),
    partial: bool = option("Omit segments that lack a translation.", "--partial", default=False),
    size: int | None = option("Number of segments per page. Default: 4."),
    sets: int | None = option("Number of pages, or documents with passages, that are searched for. Default: 100."),
    editions: int | None = option(
        "Number of indexes, each with other orders. Default: every segment at every position."
    ),
    distractors: int | None = option("Number of further pages, which no query asks for."),
    query: str | None = option("What pages are searched with: held-out, first-sentence or title. Default: held-out."),
    query_tokens: int | None = option("Length of the longest held-out query. Default: 60."),
    query_language: str | None = option("Ask in this language, whatever the language of the page."),
    opening: int | None = option("Number of tokens to use from the start of every segment on a page."),
    min_tokens: int | None = option("Omit shorter segments."),
    max_tokens: int | None = option("Omit longer segments."),
    documents: Path | None = option("Where a collection keeps its documents, if not in the folder of its queries."),
    language: str | None = option("Language of a collection that has several."),
    unit: str | None = option("What a document is in files like SQuAD's: article (default) or paragraph."),
    split: str | None = option("Split of a BEIR folder. Default: test."),
    too_long: str | None = option(
        "What to do with documents that no treatment reads whole: leave-out, shorten, cut or error. "
        "Default: shorten for passages, leave-out if positions are known otherwise, else cut."
    ),
    margin: float | None = option("A loss below it counts as none. Default: 0.01."),
    seed: int | None = option("Seed of pages and intervals. Default: 0."),
    prompt: Prompt = None,
    query_prompt: str | None = option("Text put before every query. Default: the model's own."),
    picture: Path | None = option(
        "Draw quality by position, the grid, or the map of languages, into this PNG, SVG or PDF."
    ),
    by_length: bool = option(
        "Show the shortest and longest queries and documents, too.", "--by-length", default=False
    ),
    fail_if: FailIf = None,
    dry_run: bool = option("Print what would be embedded and how long it takes.", "--dry-run", default=False),
    as_json: AsJson = False,
) -> None:
    """Measure whether a treatment helps search, wherever in a document the evidence is.

    Every treatment embeds the same documents and queries; search is exact; differences are taken query by query.
    Computed vectors are kept: the same command continues where it was stopped.

    Examples:

        fairspan evaluate

        fairspan evaluate BAAI/bge-m3 pages --corpus my_articles/ --treatments none,paper,tiles

        fairspan evaluate BAAI/bge-m3 my_questions/ --indexes whole,chunk-max,late-max --picture positions.png

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact --dry-run

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact --temperature-grid 1,0.9,0.8 --picture grid.png

        fairspan evaluate BAAI/bge-m3 mteb:SciFact

        fairspan evaluate BAAI/bge-m3 xquad_positions --languages en,de,zh,hi --picture languages.png

        fairspan evaluate BAAI/bge-m3 my_questions/ --treatments none,tiles --fail-if worse,inconclusive

        fairspan evaluate --endpoint http://localhost:8000/v1 --model BAAI/bge-m3 my_questions/ --dry-run
    """
    from dataclasses import replace

    from fairspan.cli.checking import check_evaluation, check_model
    from fairspan.cli.showing import running, say_loading, show
    from fairspan.runs.request import fields_of_study, known_run
    from fairspan.studies.evaluate.spec import make_evaluation
    from fairspan.studies.evaluate.view import view_of

    given = typed(context, "picture", "by_length", "fail_if", "dry_run")
    endpoint = take_endpoint(given)
    if endpoint is not None:
        if "task" in given:
            raise DesignError(f"MODEL {model!r} and [[endpoint=]] are two models: omit one of them.")
        # The first word is the task where the model is an endpoint.
        given |= {"model": endpoint, **({} if model is None else {"task": model})}
        if temperature_grid is None:
            given.setdefault("treatments", list(CLOSED_TREATMENTS))
    conditions = read_conditions("evaluate", fail_if, given.get("treatments"))
    with running(picture) as progress:
        log = None if dry_run else known_run("evaluate", make_evaluation, view_of, given)
        if log is None:
            check_evaluation(make_evaluation(**fields_of_study(given)))
            check_model(given.get("model"), given)
            say_loading(progress, given.get("model"))
            if dry_run:
                _forecast(given, progress, as_json=as_json)
                return
            from fairspan.studies.evaluate.run import evaluate

            log = evaluate(**given, progress=progress)
    log = replace(log, show=lambda log: view_of(log, lengths=by_length))
    show(log, as_json=as_json, picture=picture, ending=f"log: {log.folder}")
    fail_on_runs([log], conditions)


def _forecast(given: dict[str, Any], progress: Progress, *, as_json: bool) -> None:
    """Read the task and time the treatments on a few of its texts."""
    from fairspan.errors import TaskError
    from fairspan.model.source import Loading
    from fairspan.retrieval.source import MTEB
    from fairspan.runs.request import fields_of_study
    from fairspan.runs.subject import open_subject
    from fairspan.studies.evaluate.forecast import forecast
    from fairspan.studies.evaluate.prepare import prepare_evaluation
    from fairspan.studies.evaluate.spec import make_evaluation

    spec = make_evaluation(**fields_of_study(given))
    if spec.task.startswith(MTEB):
        raise TaskError(
            "mteb shows its texts only while it runs, so that there is no forecast: omit [[dry_run=True]]."
        )
    subject = open_subject(given.get("model"), loading=Loading(**pick(given, LoadingOptions)), progress=progress)
    prepared = prepare_evaluation(subject, spec, progress)
    progress.stage("trying a few texts")
    found = forecast(prepared, given.get("store"))
    if as_json:
        print_json({"model": subject.name, **found.to_dict()})
    else:
        _print_forecast(found, subject.counter.unit)


def _print_forecast(found: Forecast, unit: str) -> None:
    from fairspan.cli.showing import print_forecast
    from fairspan.report.text import duration, number

    timed = found.sending is None
    took = "" if found.seconds is None else f", about {duration(found.seconds)}"
    print_forecast(
        ("treatment", f"{unit} to embed", *(["time"] if timed else []), "window", "documents cut"),
        [
            (
                arm.treatment,
                f"{arm.tokens:,}",
                *([] if arm.seconds is None else [duration(arm.seconds)]),
                number(arm.window, ",d"),
                f"{arm.cut:,}",
            )
            for arm in found.arms
        ],
        found.notes,
        f"{found.queries:,} queries in {found.clusters:,} clusters, {found.documents:,} documents: {found.tokens:,} "
        f"{unit}{took}",
        found.sending,
    )
