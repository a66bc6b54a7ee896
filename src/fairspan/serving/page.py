"""`page_routes`: the page at `/`, and what it asks the server for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fairspan.corpus.corpus import SAMPLE, Corpus
from fairspan.corpus.marked_text import BORDERS, NAMES
from fairspan.errors import EncodingError, FairspanError
from fairspan.report.render import policy, render, render_part
from fairspan.report.text import number
from fairspan.serving.desk import Desk, Document, TooLarge
from fairspan.serving.search import Search
from fairspan.studies.inspect.inspection import Inspection
from fairspan.studies.inspect.view import PACKAGE, page_pieces

# Several times what the desk takes in tokens, and no more than a text field shows without delay.
MOST_BYTES = 500_000
PACKAGES = ("fairspan.serving", PACKAGE)
SCRIPTS, STYLES = ("desk.js",), ("inspection.css", "desk.css")
EXAMPLES = 4
# About the last segment of the first example.
QUESTION = "Why does the moon change its shape?"

T = TypeVar("T")


class Call(Protocol):
    """Runs a function in the model's one thread."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class BadRequest(FairspanError):  # noqa: N818 - as the other names that read as a sentence when caught
    """What the page sent cannot be read."""


def page_routes(desk: Desk, call: Call) -> list[Route]:
    """The page, which holds nothing of the model, and what it asks for as JSON."""
    page, headers = make_page(), page_headers()

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers=headers)

    async def about(request: Request) -> Response:
        return _answer(desk.facts)

    async def inspect(request: Request) -> Response:
        document = _document(await _body(request))
        return _answer({"html": inspected(await call(lambda: desk.inspect(document)))})

    async def find(request: Request) -> Response:
        asked = await _body(request)
        documents, query = asked.get("documents"), asked.get("query")
        if not isinstance(query, str) or not isinstance(documents, list):
            raise BadRequest("a search needs a 'query' and a list of 'documents'.")
        given = [_document(one) for one in documents]
        search = await call(lambda: desk.find(query, given))
        return _answer({"html": found(search), "documents": segment_cosines(search)})

    return [
        Route("/", show, methods=["GET"]),
        Route("/page/about", _explained(about), methods=["GET"]),
        Route("/page/inspect", _explained(inspect), methods=["POST"]),
        Route("/page/find", _explained(find), methods=["POST"]),
    ]


def make_page() -> str:
    """The page as it opens, with documents of the sample corpus to try it on."""
    return render(
        "desk.html",
        scripts=SCRIPTS,
        styles=STYLES,
        packages=PACKAGES,
        connects=True,
        borders=BORDERS,
        names=NAMES,
        question=QUESTION,
        data={"examples": example_documents(), "most_bytes": MOST_BYTES},
    )


def page_headers() -> dict[str, str]:
    rules = policy(SCRIPTS, PACKAGES, connects=True)
    return {
        "Content-Security-Policy": f"{rules}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def example_documents() -> list[dict[str, str]]:
    """Documents of six segments each, as Markdown."""
    corpus = Corpus.read(SAMPLE, ["en"])
    every = [corpus.segment(id, "en") for id in corpus.ids()]
    chosen = [every[number :: 2 * EXAMPLES] for number in range(EXAMPLES)]
    return [
        {"name": f"Example {number}", "text": "\n\n".join(f"## {one.title}\n\n{one.text}" for one in own)}
        for number, own in enumerate(chosen, start=1)
    ]


def inspected(inspection: Inspection) -> str:
    """A document's segments under all treatments, side by side."""
    view = inspection.view
    findings = [replace(one, sentences=tuple(_sentence(said) for said in one.sentences)) for one in view.cards]
    return render_part("inspected.html", PACKAGES, **page_pieces(inspection), view=view, findings=findings)


def found(search: Search) -> str:
    """What a query finds under all treatments."""
    return render_part("found.html", PACKAGES, search=search)


def segment_cosines(search: Search) -> list[list[dict[str, Any]]]:
    """For each document and treatment: how close each segment is to the query, in writing, and which is closest."""
    return [
        [
            {"cosines": [number(cosine) for cosine in own[place].segments], "closest": own[place].closest}
            for own in search.matches.values()
        ]
        for place in range(len(search.documents))
    ]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _explained(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same with what a user can put right as one line of JSON."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except FairspanError as error:
            status = 413 if isinstance(error, TooLarge) else 500 if isinstance(error, EncodingError) else 400
            return _answer({"error": {"message": str(error)}}, status)

    return answer


def _answer(content: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})


async def _body(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise TooLarge(f"the documents have more than {MOST_BYTES / 1e6:g} MB: use shorter or fewer ones.")
    try:
        asked = json.loads(body)
        # JSON can hold half of a surrogate pair, which no tokenizer takes.
        json.dumps(asked, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise BadRequest("the request is not JSON in UTF-8.") from None
    if not isinstance(asked, dict):
        raise BadRequest("the request is not a JSON object.")
    return asked


def _document(given: Any) -> Document:
    given = given if isinstance(given, dict) else {}
    fields = {name: given.get(name, "auto" if name == "borders" else None) for name in ("name", "text", "borders")}
    if not all(isinstance(value, str) for value in fields.values()):
        raise BadRequest("a document needs a 'name' and a 'text', and may have 'borders', all of them text.")
    return Document(**fields)
