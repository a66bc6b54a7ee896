"""`fairspan collapse MODEL`."""

from pathlib import Path
from typing import Annotated

import typer

from fairspan.cli.options import (
    AsJson,
    CorpusPath,
    LoadingOptions,
    ModelName,
    Prompt,
    RunningOptions,
    shared,
    typed,
)


@shared(LoadingOptions, RunningOptions)
def collapse(
    context: typer.Context,
    model: ModelName = None,
    corpus: CorpusPath = None,
    language: Annotated[str | None, typer.Option(help="Language of the corpus. Default: en.")] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            help="Lengths in tokens, such as 50,100,200,400. Default: 25, 50, … as far as model and texts reach."
        ),
    ] = None,
    natural: Annotated[
        bool, typer.Option("--natural", help="Use whole documents, in bins of 100 tokens, instead of cutting them.")
    ] = False,
    temperatures: Annotated[
        str | None,
        typer.Option(help="Softmax temperatures; 1 is the unmodified model. Default: 1.0,0.9,0.8."),
    ] = None,
    treatments: Annotated[
        str | None, typer.Option(help="More treatments, as in an audit, such as paper or whitening.")
    ] = None,
    documents: Annotated[int | None, typer.Option(help="Number of documents at most. Default: 100.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Where a cut begins: random or beginning. Default: random.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="How far a text may be from the length asked for, as a share of it. Default: 0.2."),
    ] = None,
    spectra: Annotated[
        int | None, typer.Option(help="Number of texts of each length whose attention is analysed. Default: 5.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(help="Layers whose σ_a is computed: last, last_half or all. Default: last.")
    ] = None,
    labelled: Annotated[
        Path | None, typer.Option(help="A JSONL file of texts and labels to classify at every length.")
    ] = None,
    labelled_documents: Annotated[
        int | None, typer.Option(help="Number of labelled texts at most. Default: 600.")
    ] = None,
    fit_corpus: Annotated[
        str | None,
        typer.Option(help="Corpus that whitening is fitted on. Default: what the corpus has in no measured text."),
    ] = None,
    probe: Annotated[bool, typer.Option(help="Embed repeated words as well.")] = True,
    seed: Annotated[int | None, typer.Option(help="Seed of the draw and the intervals. Default: 0.")] = None,
    prompt: Prompt = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG, SVG or PDF.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure whether a model makes long texts look alike, which layer does it, and what a temperature changes.

    The same documents are cut to several lengths, so longer texts are not about other things than shorter ones.

    Examples:

        fairspan collapse

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --lengths 100,200,400,800 --picture length.png

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --temperatures 1.0,0.9,0.8,0.5 --layers all

        fairspan collapse BAAI/bge-m3 --corpus my_articles/ --labelled reviews.jsonl --treatments whitening,last2avg
    """
    from fairspan.cli.progress import running
    from fairspan.cli.showing import show
    from fairspan.report.figure import require_drawing
    from fairspan.studies.collapse.run import collapse

    if picture is not None:
        require_drawing(picture)
    with running() as progress:
        log = collapse(**typed(context, "picture"), progress=progress)
    show(log, as_json=as_json, picture=picture, ending=f"log: {log.folder}")
