"""`page_routes`: the page at `/`, and what it asks the server for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.marked_text import BORDERS, NAMES
from fairspan.encoding.text import Encoder, Text
from fairspan.report.render import policy, render, render_part
from fairspan.serving.batcher import Batcher
from fairspan.serving.desk import Desk, Document
from fairspan.serving.protocol import busy, read_object, wrong
from fairspan.studies.inspect.view import PACKAGE, Inspection, page_pieces

# Several times what the desk takes in tokens, and no more than a text field shows without delay.
MOST_BYTES = 500_000
PACKAGES = ("fairspan.serving", PACKAGE)
SCRIPTS = ("desk.js",)
EXAMPLES = 4
_SECONDS = 60.0
_MOST_DOCUMENTS = 4
_NAME = 200


def page_routes(desk: Desk, batcher: Batcher) -> list[Route]:
    """The page, which holds nothing of the model, and what it asks for as JSON."""
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
    rules += "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    headers = {
        "Content-Security-Policy": rules,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    documents = Documents(desk, batcher)

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def about(request: Request) -> Response:
        return JSONResponse(desk.facts)

    async def inspect(request: Request) -> Response:
        response: Response = await request.app.state.inbox.answer(request, MOST_BYTES, shown)
        return response

    async def shown(body: bytearray) -> Response:
        inspection = await documents.inspect(_read_document(read_object(body)))
        return JSONResponse({"html": await asyncio.to_thread(inspected, inspection)})

    return [
        Route("/", show, methods=["GET"]),
        Route("/page/about", about, methods=["GET"]),
        Route("/page/inspect", inspect, methods=["POST"]),
    ]


class Documents:
    """The page's documents: one at a time, in a thread, with passes of the model after others."""

    def __init__(self, desk: Desk, batcher: Batcher) -> None:
        self._desk = desk
        self._batcher = batcher
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "page")

    async def inspect(self, document: Document) -> Inspection:
        """What the desk finds in a document. Cancelled, it ends with the pass under way."""
        if self._waiting == _MOST_DOCUMENTS:
            raise busy("Too many documents are waiting for the page", 10)
        loop = asyncio.get_running_loop()
        passes: list[Future[np.ndarray]] = []
        left = Event()

        def compute(encoder: Encoder, texts: Sequence[Text]) -> np.ndarray:
            if left.is_set():
                raise CancelledError
            lengths = [min(text.length, encoder.window or text.length) for text in texts]
            vectors = self._batcher.vectors(encoder, texts, lengths, later=True)
            passes.append(asyncio.run_coroutine_threadsafe(vectors, loop))
            return passes[-1].result()

        self._waiting += 1
        try:
            async with asyncio.timeout(_SECONDS):
                work = self._thread.submit(self._desk.inspect, document, compute)
                return await asyncio.wrap_future(work)
        except TimeoutError:
            raise busy("Other requests left no time for this document", 60) from None
        finally:
            self._waiting -= 1
            left.set()
            for vectors in passes:
                vectors.cancel()


def example_documents() -> list[dict[str, str]]:
    """Documents of the sample corpus to try the page on, of six segments each, as Markdown."""
    corpus = Corpus.read("sample", ["en"])
    segments = [corpus.segment(id, "en") for id in corpus.ids()]
    sections = [f"## {segment.title}\n\n{segment.text}" for segment in segments]
    examples = []
    for number in range(EXAMPLES):
        text = "\n\n".join(sections[number :: 2 * EXAMPLES])
        examples.append({"name": f"Example {number + 1}", "text": text})
    return examples


def inspected(inspection: Inspection) -> str:
    """A document's segments under all treatments, side by side, as HTML."""
    cards = []
    for card in inspection.view.cards:
        sentences = tuple(f"{words[:1].upper()}{words[1:]}." for words in card.sentences)
        cards.append(replace(card, sentences=sentences))
    return render_part("inspected.html", PACKAGES, **page_pieces(inspection), findings=cards)


def _read_document(fields: dict[str, Any]) -> Document:
    """The document of a request, if its fields are those of one."""
    name = fields.get("name")
    text = fields.get("text")
    borders = fields.get("borders", "auto")
    if not (isinstance(name, str) and isinstance(text, str) and isinstance(borders, str)):
        rule = "A document needs a 'name' and a 'text', and may have 'borders', all of them text."
        raise wrong("document", rule)
    return Document(name[:_NAME], text, borders)
