"""`fairspan inspect MODEL FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairspan.calibration.treatment import as_treatments
from fairspan.cli.command import command
from fairspan.cli.options import Showing
from fairspan.cli.showing import require_file, require_picture, say_where, show
from fairspan.model.source import Loading, find_model


@command(Loading)
def inspect(
    model: str,
    file: str,
    /,
    *,
    borders: str = "auto",
    parts: int | None = None,
    treatments: Sequence[str] | None = None,
    prompt: str | None = None,
    picture: Path | None = None,
    html: Path | None = None,
    as_json: bool = False,
    **typed: Any,
) -> None:
    """Show how much of each segment is in the vector of one document, before and after calibration.

    Each segment is embedded alone and compared with the whole document. Segments that a treatment
    does not read are reported as never seen.

    For example:

        fairspan inspect all-MiniLM-L6-v2 page.md
        fairspan inspect MODEL page.json --treatments plain,paper --html page.html
        fairspan inspect all-MiniLM-L6-v2 report.txt --parts 6 --picture report.png
        cat page.txt | fairspan inspect all-MiniLM-L6-v2 - --borders rule --json

    Args:
        model: a SentenceTransformer: a folder or a name on the hub, such as all-MiniLM-L6-v2.
        file: one document: text, Markdown, HTML, PDF, .json or .jsonl with segments; - for stdin.
        borders: how segments are found: heading, rule, blank, line or parts. auto: the file's own
            segments, otherwise headings in Markdown and rules in text, otherwise parts.
        parts: number of about equal parts to split the text into, at sentence ends. By default 4.
        treatments: what is compared: plain, fair, tiles-64, fair+tiles=segments, … By default plain
            and fair.
        prompt: text put before every text. By default the model's own.
        picture: draw the main figure into this PNG, SVG or PDF.
        html: write a page that colours the text by its segments' shares.
        as_json: print the result as JSON.
    """
    from fairspan.cli.progress import running, say_loading
    from fairspan.corpus.document_file import STDIN, read_document
    from fairspan.report.render import require_page

    if html is not None:
        require_page(html)
        require_file(html)
    with running(kept=False) as progress:
        require_picture(picture)
        document = read_document(file, borders)
        Loading(**typed).require_device()
        if treatments is not None:
            as_treatments(treatments)
        find_model(model)
        say_loading(progress, model)
        from fairspan.studies.inspect.run import inspect

        inspection = inspect(
            model,
            document,
            treatments=treatments,
            borders=borders,
            parts=parts,
            prompt=prompt,
            name="stdin" if file == STDIN else Path(file).name,
            progress=progress,
            **typed,
        )
    show(inspection, Showing(picture=picture, as_json=as_json))
    if html is not None:
        inspection.save_page(html)
        say_where("page", html, as_json=as_json)
