"""`fairspan inspect MODEL FILE`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fairspan.cli.options import AsJson, BatchTokens, Device, Dtype, TrustRemoteCode, Window, positive, words
from fairspan.errors import DesignError


def inspect(
    model: Annotated[
        str, typer.Argument(help="A SentenceTransformer: a folder, a name on the hub, or default (all-MiniLM-L6-v2).")
    ],
    file: Annotated[
        str, typer.Argument(help="One document: plain text, .md, .json or .jsonl with segments, or - for stdin.")
    ],
    borders: Annotated[
        str,
        typer.Option(
            help="What segments are found by: heading, rule, blank, line or parts. auto: the file's own segments, "
            "else headings in Markdown and rules in text, else parts."
        ),
    ] = "auto",
    parts: Annotated[
        int | None, typer.Option(help="Split at paragraphs into so many parts of about equal tokens. Default: 4.")
    ] = None,
    treatments: Annotated[
        str | None,
        typer.Option(help="none, paper, retrieval, paper+baskets=segments, … Default: none,paper,retrieval."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Put before every text. Default: the model's own.")] = None,
    window: Window = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the shares into this PNG, SVG or PDF.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page that colours the text by its segments' shares.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    trust_remote_code: TrustRemoteCode = False,
    as_json: AsJson = False,
) -> None:
    """Show what each segment of one document has in its one vector, before and after calibration.

    Each segment is embedded alone and compared with the whole document. What the model's window cuts off is named,
    and shown as never seen.

    Examples:

        fairspan inspect default page.md

        fairspan inspect BAAI/bge-m3 page.json --treatments none,paper+baskets=segments --html page.html

        fairspan inspect default report.txt --parts 6 --picture report.png

        cat page.txt | fairspan inspect default - --borders rule --json
    """
    from fairspan.corpus.document_file import STDIN, read_document
    from fairspan.report.figure import require_drawing
    from fairspan.report.render import require_page

    if picture is not None:
        require_drawing(picture)
    if html is not None:
        require_page(html)
    if positive("parts", parts) == 1:
        raise DesignError("--parts takes a whole number of at least 2, got 1.")
    document = read_document(file, borders)
    options: dict[str, Any] = {"borders": borders, "parts": parts, "prompt": prompt}
    if treatments is not None:
        options["treatments"] = words(treatments)
    options["batch_tokens"] = positive("batch-tokens", batch_tokens)
    options["name"] = "stdin" if file == STDIN else Path(file).name
    loading = {
        "window": positive("window", window),
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    _run(model, document, options, loading, picture=picture, html=html, as_json=as_json)


def _run(
    model: str,
    document: Any,
    options: dict[str, Any],
    loading: dict[str, Any],
    *,
    picture: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    import transformers
    from rich.console import Console

    from fairspan.cli.progress import TerminalProgress
    from fairspan.model.loading import DEFAULT_MODEL, load_model
    from fairspan.report.figure import figure_bytes
    from fairspan.report.files import write_file
    from fairspan.report.frames import to_records
    from fairspan.report.terminal import print_view
    from fairspan.studies.inspect.run import inspect as look

    name = DEFAULT_MODEL if model == "default" else model
    progress = TerminalProgress()
    progress.stage(f"loading {name}")
    # transformers' own bar for reading a local file says nothing that the line above does not.
    transformers.utils.logging.disable_progress_bar()
    try:
        found = look(load_model(name, **loading), document, model_name=name, progress=progress, **options)
    finally:
        progress.stop()
    if as_json:
        frames = {name: to_records(frame) for name, frame in found.view.frames.items()}
        typer.echo(json.dumps({**found.facts, **frames}, ensure_ascii=False, indent=2))
    else:
        print_view(Console(), found.view)
    if picture is not None:
        write_file(picture, figure_bytes(found.figure(), picture.suffix[1:].lower()))
        typer.echo(f"picture: {picture}", err=as_json)
    if html is not None:
        found.save_page(html)
        typer.echo(f"page: {html}", err=as_json)
