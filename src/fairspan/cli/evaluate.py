"""`fairspan evaluate MODEL TASK`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairspan.cli.audit import INTERRUPTED
from fairspan.cli.options import (
    AsJson,
    BatchTokens,
    Device,
    Dtype,
    Fresh,
    Out,
    StoreFile,
    TrustRemoteCode,
    Window,
    decimals,
    positive,
    words,
)

if TYPE_CHECKING:
    from fairspan.studies.evaluate.spec import EvaluationSpec


def evaluate(
    model: Annotated[
        str,
        typer.Argument(help="A SentenceTransformer: a folder or a name on the hub. Offline: all-MiniLM-L6-v2."),
    ] = "all-MiniLM-L6-v2",
    task: Annotated[
        str,
        typer.Argument(help="pages, a collection's folder or file, beir:FOLDER or mteb:NAME."),
    ] = "pages",
    treatments: Annotated[
        str | None, typer.Option(help="What is compared; the first is the baseline. Default: none,retrieval,paper.")
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
        typer.Option(help="What whitening is fitted on. Default: of pages, what the corpus has on none."),
    ] = None,
    documents_only: Annotated[
        bool, typer.Option(help="Measure every treatment also with queries as the plain model embeds them.")
    ] = True,
    indexes: Annotated[
        str | None,
        typer.Option(help="whole, chunk-mean, chunk-max, late-mean, late-max. Default: whole."),
    ] = None,
    cross: Annotated[
        bool, typer.Option("--cross", help="Measure every index under every treatment, not only the first.")
    ] = False,
    chunk_tokens: Annotated[int | None, typer.Option(help="The longest chunk. Default: 128.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="The first decides. Default: ndcg@10,mrr,recall@1,recall@10.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Of pages: sample, a folder, a JSONL or Parquet file, a dataset.")
    ] = None,
    languages: Annotated[str | None, typer.Option(help="Of pages: monolingual plans, such as en,de.")] = None,
    mixed: Annotated[str | None, typer.Option(help="Of pages: mixed plans lead:later, such as de:en.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Leave out segments that lack a translation.")] = False,
    size: Annotated[int | None, typer.Option(help="Segments on a page. Default: 4.")] = None,
    sets: Annotated[int | None, typer.Option(help="Pages that are searched for. Default: 100.")] = None,
    editions: Annotated[
        int | None, typer.Option(help="Indexes, each with other orders. Default: every segment at every position.")
    ] = None,
    distractors: Annotated[int | None, typer.Option(help="More pages, which no query asks for.")] = None,
    query: Annotated[str | None, typer.Option(help="held-out, first-sentence or title. Default: held-out.")] = None,
    query_tokens: Annotated[int | None, typer.Option(help="The longest held-out query. Default: 60.")] = None,
    query_language: Annotated[str | None, typer.Option(help="Ask in this language, whatever the page's.")] = None,
    opening: Annotated[int | None, typer.Option(help="Put the first so many tokens of a segment on a page.")] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Leave out shorter segments.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Leave out longer segments.")] = None,
    documents: Annotated[
        Path | None, typer.Option(help="Where a collection keeps its documents, if not beside its queries.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Of a collection that holds several.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="What a document is in files like SQuAD's: article (default) or paragraph.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of a BEIR folder. Default: test.")] = None,
    too_long: Annotated[
        str | None,
        typer.Option(
            help="Documents that the model cannot read whole: leave-out, shorten, cut or error. Default: leave-out "
            "where positions are known, else cut."
        ),
    ] = None,
    margin: Annotated[float | None, typer.Option(help="A loss below it counts as none. Default: 0.01.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of pages and intervals. Default: 0.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before every document. Default: the model's own.")] = None,
    query_prompt: Annotated[
        str | None, typer.Option(help="Put before every query. Default: the model's own.")
    ] = None,
    window: Window = None,
    out: Out = None,
    store: StoreFile = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    trust_remote_code: TrustRemoteCode = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw quality by position, or the grid, into this PNG, SVG or PDF.")
    ] = None,
    fresh: Fresh = False,
    lengths: Annotated[
        bool, typer.Option("--by-length", help="Show the shortest and longest queries and documents, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find out whether a treatment helps search, wherever in a document the evidence lies.

    Every treatment embeds the same documents and queries; search is exact; differences are taken query by query.
    What is computed is kept: the same command goes on where it was stopped.

    Examples:

        fairspan evaluate

        fairspan evaluate BAAI/bge-m3 pages --corpus my_articles/ --treatments none,retrieval,paper

        fairspan evaluate BAAI/bge-m3 my_questions/ --indexes whole,chunk-max,late-max --picture positions.png

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact

        fairspan evaluate BAAI/bge-m3 beir:datasets/scifact --temperature-grid 1,0.9,0.8 --picture grid.png

        fairspan evaluate BAAI/bge-m3 mteb:SciFact
    """
    from fairspan.report.figure import require_drawing
    from fairspan.studies.evaluate.spec import make_evaluation

    fields: dict[str, Any] = {
        "treatments": words(treatments),
        "temperature_grid": decimals("temperature-grid", temperature_grid),
        "fit_corpus": fit_corpus,
        "documents_only": documents_only,
        "indexes": words(indexes),
        "cross": cross,
        "chunk_tokens": chunk_tokens,
        "metrics": words(metrics),
        "corpus": corpus,
        "languages": words(languages),
        "mixed": mixed if mixed == "all" else words(mixed),
        "partial": partial,
        "size": size,
        "sets": sets,
        "editions": editions,
        "distractors": distractors,
        "query": query,
        "query_tokens": query_tokens,
        "query_language": query_language,
        "opening": opening,
        "min_tokens": min_tokens,
        "max_tokens": max_tokens,
        "documents": None if documents is None else str(documents),
        "language": language,
        "unit": unit,
        "split": split,
        "too_long": too_long,
        "margin": margin,
        "seed": seed,
        "prompt": prompt,
        "query_prompt": query_prompt,
    }
    loading = {
        "window": positive("window", window),
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    if picture is not None:
        require_drawing(picture)
    spec = make_evaluation(task, **{name: value for name, value in fields.items() if value is not None})
    settings = {"out": out, "store": store, "batch_tokens": positive("batch-tokens", batch_tokens), "fresh": fresh}
    try:
        _run(model, spec, loading, settings, picture, lengths, as_json)
    except KeyboardInterrupt:
        # Typer would end without a word.
        typer.echo(INTERRUPTED, err=True)
        raise typer.Exit(130) from None


def _run(
    model: str,
    spec: EvaluationSpec,
    loading: dict[str, Any],
    settings: dict[str, Any],
    picture: Path | None,
    lengths: bool,
    as_json: bool,
) -> None:
    import transformers
    from rich.console import Console

    from fairspan.cli.progress import TerminalProgress
    from fairspan.model.loading import load_model
    from fairspan.report.figure import draw, figure_bytes
    from fairspan.report.files import write_file
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_view
    from fairspan.studies.evaluate.run import evaluate
    from fairspan.studies.evaluate.view import view_of

    progress = TerminalProgress()
    progress.stage(f"loading {model}")
    # transformers' own bar for reading a local file says nothing that the line above does not.
    transformers.utils.logging.disable_progress_bar()
    loaded = load_model(model, **{name: value for name, value in loading.items() if value is not None})
    try:
        log = evaluate(loaded, spec=spec, name=model, progress=progress, **settings)
    finally:
        progress.stop()
    view = view_of(log, lengths=lengths)
    if as_json:
        known = {"run": log.run, "folder": str(log.folder), "model": log.model, "status": log.status}
        frames = {name: to_records(frame) for name, frame in view.frames.items()}
        result = {**known, "task": log.header["task"], "notes": log.notes, **frames}
        typer.echo(json.dumps(result, ensure_ascii=False, indent=2))
    else:
        print_view(Console(), view, ending=f"log: {log.folder}")
    if picture is not None:
        write_file(picture, figure_bytes(draw(view.chart()), picture.suffix.removeprefix(".").lower()))
        typer.echo(f"picture: {picture}", err=as_json)
