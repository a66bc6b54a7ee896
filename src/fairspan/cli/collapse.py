"""`fairspan collapse MODEL`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli.audit import INTERRUPTED
from fairspan.cli.options import (
    AsJson,
    BatchTokens,
    Dtype,
    Fresh,
    Out,
    StoreFile,
    TrustRemoteCode,
    Window,
    decimals,
    numbers,
    positive,
    words,
)


def collapse(
    model: Annotated[
        str,
        typer.Argument(help="A SentenceTransformer: a folder or a name on the hub. Offline: all-MiniLM-L6-v2."),
    ] = "all-MiniLM-L6-v2",
    corpus: Annotated[
        str | None,
        typer.Option(help="sample, a folder of en.jsonl, de.jsonl, …, a JSONL or Parquet file, a dataset."),
    ] = None,
    language: Annotated[str | None, typer.Option(help="Of the corpus. Default: en.")] = None,
    lengths: Annotated[
        str | None,
        typer.Option(help="In tokens, such as 50,100,200,400. Default: 25, 50, … as far as model and texts reach."),
    ] = None,
    natural: Annotated[
        bool, typer.Option("--natural", help="Take whole documents, in bins of 100 tokens, instead of cutting.")
    ] = False,
    temperatures: Annotated[
        str | None, typer.Option(help="1 is the model as it comes. Default: 1.0,0.9,0.8.")
    ] = None,
    treatments: Annotated[
        str | None, typer.Option(help="More of what an audit takes, such as paper or whitening.")
    ] = None,
    documents: Annotated[int | None, typer.Option(help="How many at most. Default: 100.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Where a cut begins: random or beginning. Default: random.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="How far a text may be from the length asked for. Default: 0.2.")
    ] = None,
    spectra: Annotated[
        int | None, typer.Option(help="Texts of each length whose attention is looked into. Default: 5.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Whose σ_a is computed: last, last_half or all. Default: last.")
    ] = None,
    labelled: Annotated[
        Path | None, typer.Option(help="A JSONL file of texts and labels to classify at every length.")
    ] = None,
    labelled_documents: Annotated[int | None, typer.Option(help="How many of these at most. Default: 600.")] = None,
    fit_corpus: Annotated[
        str | None,
        typer.Option(help="What whitening is fitted on. Default: what the corpus has in no measured text."),
    ] = None,
    probe: Annotated[bool, typer.Option(help="Embed repeated words as well.")] = True,
    seed: Annotated[int | None, typer.Option(help="Of the draw and the intervals. Default: 0.")] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before every text. Default: the model's own.")] = None,
    window: Window = None,
    out: Out = None,
    store: StoreFile = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    trust_remote_code: TrustRemoteCode = False,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG, SVG or PDF.")] = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Find out whether a model makes long texts look alike, which layer does it, and what a temperature changes.

    The same documents are cut to several lengths, so that longer texts are not about other things than shorter ones.

    Examples:

        fairspan collapse

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --lengths 100,200,400,800 --picture length.png

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --temperatures 1.0,0.9,0.8,0.5 --layers all

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --labelled reviews.jsonl --treatments whitening,last2avg
    """
    from fairspan.report.figure import require_drawing
    from fairspan.studies.collapse.spec import make_collapse

    fields: dict[str, Any] = {
        "corpus": corpus,
        "language": language,
        "lengths": numbers("lengths", lengths),
        "natural": natural,
        "temperatures": decimals("temperatures", temperatures),
        "treatments": words(treatments),
        "documents": documents,
        "start": start,
        "tolerance": tolerance,
        "spectra": spectra,
        "layers": layers,
        "labelled": None if labelled is None else str(labelled),
        "labelled_documents": labelled_documents,
        "fit_corpus": fit_corpus,
        "probe": probe,
        "seed": seed,
        "prompt": prompt,
    }
    loading = {
        "window": positive("window", window),
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    if picture is not None:
        require_drawing(picture)
    spec = make_collapse(**{name: value for name, value in fields.items() if value is not None})
    settings = {"out": out, "store": store, "batch_tokens": positive("batch-tokens", batch_tokens), "fresh": fresh}
    try:
        _run(model, spec, loading, settings, picture, as_json)
    except KeyboardInterrupt:
        # Typer would end without a word.
        typer.echo(INTERRUPTED, err=True)
        raise typer.Exit(130) from None


def _run(
    model: str,
    spec: Any,
    loading: dict[str, Any],
    settings: dict[str, Any],
    picture: Path | None,
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
    from fairspan.studies.collapse.run import collapse
    from fairspan.studies.collapse.view import view_of

    progress = TerminalProgress()
    progress.stage(f"loading {model}")
    # transformers' own bar for reading a local file says nothing that the line above does not.
    transformers.utils.logging.disable_progress_bar()
    loaded = load_model(model, **{name: value for name, value in loading.items() if value is not None})
    try:
        log = collapse(loaded, spec=spec, name=model, progress=progress, **settings)
    finally:
        progress.stop()
    view = view_of(log)
    if as_json:
        facts = {"run": log.run, "folder": str(log.folder), "model": log.model, "status": log.status}
        frames = {name: to_records(frame) for name, frame in view.frames.items()}
        typer.echo(json.dumps({**facts, "notes": log.notes, **frames}, ensure_ascii=False, indent=2))
    else:
        print_view(Console(), view, ending=f"log: {log.folder}")
    if picture is not None:
        write_file(picture, figure_bytes(draw(view.chart()), picture.suffix[1:].lower()))
        typer.echo(f"picture: {picture}", err=as_json)
