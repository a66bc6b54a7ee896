"""`fairspan inspect MODEL FILE`."""

from pathlib import Path
from typing import Annotated, get_type_hints

import typer

from fairspan.cli.options import (
    AsJson,
    LoadingOptions,
    Prompt,
    RunningOptions,
    list_option,
    option,
    shared,
    typed,
)


@shared(LoadingOptions)
def inspect(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A SentenceTransformer: a folder or a name on the hub, such as all-MiniLM-L6-v2."
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(
            help="One document: plain text, .md, .json or .jsonl with segments, or - for stdin."
        ),
    ],
    borders: str = option(
        "How segments are found: heading, rule, blank, line or parts. auto: the file's own segments, "
        "otherwise headings in Markdown and rules in text, otherwise parts.",
        default="auto",
    ),
    parts: int | None = option(
        "Number of about equal parts to split the text into, at paragraphs. Default: 4."
    ),
    treatments: str | None = list_option(
        "plain, paper, tiles, tiles+tiles=segments, … Default: plain,tiles."
    ),
    prompt: Prompt = None,
    picture: Path | None = RunningOptions.picture,
    html: Path | None = option("Write a page that colours the text by its segments' shares."),
    as_json: AsJson = False,
) -> None:
    """Show how much of each segment is in the vector of one document, before and after calibration.

    Each segment is embedded alone and compared with the whole document. Segments beyond a treatment's window are
    reported as never seen.

    Examples:

        fairspan inspect all-MiniLM-L6-v2 page.md

        fairspan inspect ibm-granite/granite-embedding-30m-english page.json --treatments plain,paper --html page.html

        fairspan inspect all-MiniLM-L6-v2 report.txt --parts 6 --picture report.png

        cat page.txt | fairspan inspect all-MiniLM-L6-v2 - --borders rule --json
    """
    from fairspan.calibration.treatment import DEFAULT_TREATMENTS, as_treatments
    from fairspan.cli.showing import require_file, running, say_loading, show
    from fairspan.corpus.document_file import STDIN, read_document
    from fairspan.model.source import Loading, find_model
    from fairspan.report.render import require_page

    if html is not None:
        require_page(html)
        require_file(html)
    name = "stdin" if file == STDIN else Path(file).name
    with running(picture, kept=False) as progress:
        document, given = read_document(file, borders), typed(context, "file", "picture", "html")
        how = {name: given[name] for name in get_type_hints(LoadingOptions) if name in given}
        Loading(**how).require_device()
        as_treatments(given.get("treatments", DEFAULT_TREATMENTS))
        find_model(model)
        say_loading(progress, model)
        from fairspan.studies.inspect.run import inspect

        found = inspect(document=document, name=name, progress=progress, **given)
    show(found, as_json=as_json, picture=picture)
    if html is not None:
        found.save_page(html)
        typer.echo(f"page: {html}", err=as_json)
