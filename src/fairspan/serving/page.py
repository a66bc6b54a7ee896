"""`page_routes`: the page at `/`, and what it asks the server for."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.marked_text import BORDERS, NAMES
from fairspan.report.render import policy, render, render_part
from fairspan.serving.app import read_body, unless_gone
from fairspan.serving.batcher import Batcher
from fairspan.serving.desk import Desk, Document
from fairspan.serving.protocol import busy, read_object, wrong
from fairspan.studies.inspect.inspection import Inspection
from fairspan.studies.inspect.view import PACKAGE, page_pieces

# Several times what the desk takes in tokens, and no more than a text field shows without delay.
MOST_BYTES = 500_000
PACKAGES = ("fairspan.serving", PACKAGE)
SCRIPTS = ("desk.js",)
EXAMPLES = 4
_SECONDS, _NAME = 60.0, 200


def page_routes(desk: Desk, batcher: Batcher) -> list[Route]:
    """The page, which holds nothing of the model, and what it asks for as JSON, computed after other requests."""
    page = render(
        "desk.html",
        scripts=SCRIPTS,
        styles=("inspection.css", "desk.css"),
        packages=PACKAGES,
        connects=True,
        borders=BORDERS,
        names=NAMES,
        data={"examples": example_documents(), "most_bytes": MOST_BYTES},
    )
    rules = policy(SCRIPTS, PACKAGES, connects=True)
    headers = {
        "Content-Security-Policy": f"{rules}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def about(request: Request) -> Response:
        return JSONResponse(desk.facts)

    async def inspect(request: Request) -> Response:
        document = _document(read_object(await read_body(request, MOST_BYTES)))
        return await unless_gone(request, show_segments(document))

    async def show_segments(document: Document) -> Response:
        try:
            async with asyncio.timeout(_SECONDS):
                found = await batcher.aside(lambda pause: desk.inspect(document, pause))
        except TimeoutError:
            raise busy("Other requests left no time for this document", 60) from None
        return JSONResponse({"html": await asyncio.to_thread(inspected, found)})

    return [
        Route("/", show, methods=["GET"]),
        Route("/page/about", about, methods=["GET"]),
        Route("/page/inspect", inspect, methods=["POST"]),
    ]


def example_documents() -> list[dict[str, str]]:
    """Documents of the sample corpus to try the page on, of six segments each, as Markdown."""
    corpus = Corpus.read("sample", ["en"])
    every = [corpus.segment(id, "en") for id in corpus.ids()]
    chosen = [every[number :: 2 * EXAMPLES] for number in range(EXAMPLES)]
    return [
        {
            "name": f"Example {number}",
            "text": "\n\n".join(f"## {one.title}\n\n{one.text}" for one in own),
        }
        for number, own in enumerate(chosen, start=1)
    ]


def inspected(inspection: Inspection) -> str:
    """A document's segments under all treatments, side by side."""
    findings = [
        replace(one, sentences=tuple(f"{said[:1].upper()}{said[1:]}." for said in one.sentences))
        for one in inspection.view.cards
    ]
    return render_part("inspected.html", PACKAGES, **page_pieces(inspection), findings=findings)


def _document(given: dict[str, Any]) -> Document:
    fields = {"borders": "auto", **given}
    if not all(isinstance(fields.get(name), str) for name in ("name", "text", "borders")):
        raise wrong(
            "document",
            "A document needs a 'name' and a 'text', and may have 'borders', all of them text.",
        )
    return Document(fields["name"][:_NAME], fields["text"], fields["borders"])
