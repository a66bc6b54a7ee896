"""`fairspan evaluate MODEL TASK`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import AsJson, LoadingOptions, ModelName, Prompt, RunningOptions, shared, typed


@shared(LoadingOptions, RunningOptions)
def evaluate(
    context: typer.Context,
    model: ModelName = None,
    task: Annotated[
        str,
        typer.Argument(help="pages, the folder or file of a collection, beir:FOLDER or mteb:NAME."),
    ] = "pages",
    treatments: Annotated[
        str | None,
        typer.Option(help="Treatments to compare; the first is the baseline. Default: none,retrieval,paper."),
    ] = None,
    temperature_grid: Annotated[
        str | None,
        typer.Option(
            help="Measure the first treatment with every pair of these softmax temperatures, one for queries and one "
            "for documents: 1,0.9,0.8. The picture then shows that grid."
        ),
    ] = None,
    fit_corpus: Annotated[
        str | None,
        typer.Option(help="Corpus that whitening is fitted on. Default, for pages: what the corpus has on no page."),
    ] = None,
    documents_only: Annotated[
        bool, typer.Option(help="Measure every treatment also with queries as the plain model embeds them.")
    ] = True,
    indexes: Annotated[
        str | None,
        typer.Option(
            help="What is kept of a document: whole, chunk-mean, chunk-max, late-mean, late-max. Default: whole."
        ),
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Measure every index under every treatment, not only the first.")
    ] = False,
    chunk_tokens: Annotated[int | None, typer.Option(help="Length of the longest chunk. Default: 128.")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(help="Metrics; the first decides the advice. Default: ndcg@10,mrr,recall@1,recall@10."),
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Corpus of the pages: sample, a folder, a JSONL or Parquet file, a dataset.")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Languages of monolingual pages, such as en,de.")] = None,
    mixed: Annotated[
        str | None, typer.Option(help="Languages lead:later of mixed pages, such as de:en, or all.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Omit segments that lack a translation.")] = False,
    size: Annotated[int | None, typer.Option(help="Number of segments per page. Default: 4.")] = None,
    sets: Annotated[int | None, typer.Option(help="Number of pages that are searched for. Default: 100.")] = None,
    editions: Annotated[
        int | None,
        typer.Option(help="Number of indexes, each with other orders. Default: every segment at every position."),
    ] = None,
    distractors: Annotated[int | None, typer.Option(help="Number of further pages, which no query asks for.")] = None,
    query: Annotated[
        str | None,
        typer.Option(help="What pages are searched with: held-out, first-sentence or title. Default: held-out."),
    ] = None,
    query_tokens: Annotated[
        int | None, typer.Option(help="Length of the longest held-out query. Default: 60.")
    ] = None,
    query_language: Annotated[
        str | None, typer.Option(help="Ask in this language, whatever the language of the page.")
    ] = None,
    opening: Annotated[
        int | None, typer.Option(help="Use only the first so many tokens of every segment on a page.")
    ] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Omit shorter segments.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Omit longer segments.")] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Where a collection keeps its documents, if not beside its queries.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Language of a collection that has several.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="What a document is in files like SQuAD's: article (default) or paragraph.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of a BEIR folder. Default: test.")] = None,
    too_long: Annotated[
        str | None,
        typer.Option(
            help="What to do with documents that the model cannot read whole: leave-out, shorten, cut or error. "
            "Default: leave-out if positions are known, otherwise cut."
        ),
    ] = None,
    margin: Annotated[float | None, typer.Option(help="A loss below it counts as none. Default: 0.01.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of pages and intervals. Default: 0.")] = None,
    prompt: Prompt = None,
    query_prompt: Annotated[
        str | None, typer.Option(help="Text put before every query. Default: the model's own.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw quality by position, or the grid, into this PNG, SVG or PDF.")
    ] = None,
    by_length: Annotated[
        bool, typer.Option("--by-length", help="Show the shortest and longest queries and documents, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure whether a treatment helps search, wherever in a document the evidence is.

    Every treatment embeds the same documents and queries; search is exact; differences are taken query by query.
    Computed vectors are kept: the same command continues where it was stopped.

    Examples:

        fairspan evaluate

        fairspan evaluate BAAI/bge-m3 pages --corpus my_articles/ --treatments none,retrieval,paper

        fairspan evaluate BAAI/bge-m3 my_questions/ --indexes whole,chunk-max,late-max --picture positions.png

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact --temperature-grid 1,0.9,0.8 --picture grid.png

        fairspan evaluate BAAI/bge-m3 mteb:SciFact
    """
    from dataclasses import replace

    from fairspan.cli.progress import running
    from fairspan.cli.showing import show
    from fairspan.report.figure import require_drawing
    from fairspan.studies.evaluate.run import evaluate
    from fairspan.studies.evaluate.view import view_of

    if picture is not None:
        require_drawing(picture)
    with running() as progress:
        log = evaluate(**typed(context, "picture", "by_length"), progress=progress)
    log = replace(log, show=lambda log: view_of(log, lengths=by_length))
    show(log, as_json=as_json, picture=picture, ending=f"log: {log.folder}")
