"""The served page: what it computes, against `fairspan.inspect`; its routes; in a browser."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan.encoding.direct import DirectEncoder
from fairspan.encoding.encoder import ModelEncoder
from fairspan.errors import CorpusError
from fairspan.serving.desk import Desk, Document, open_desk
from tests.browser import legend_of, opened
from tests.test_audit import cosine

pytest.importorskip("starlette", reason="needs fairspan[serve]")
import uvicorn
from starlette.testclient import TestClient

from fairspan.serving import page as pages
from fairspan.serving.app import make_app
from fairspan.serving.protocol import EmbeddingRequest, Refusal
from fairspan.serving.server import bind, url_of
from fairspan.serving.service import Service

RULE = "\n\n---\n\n"
# Two processes over the same tokens in other batches: float32 rounding of vectors of length 1.
ROUNDING = 1e-5


def words(first: int, count: int = 12) -> str:
    return " ".join(f"w{(first + 7 * number) % 90}" for number in range(count))


def text(*starts: int, count: int = 12) -> str:
    return RULE.join(words(start, count) for start in starts)


@pytest.fixture(scope="module")
def plain(make_tiny: Callable[..., Any]) -> Any:
    return make_tiny("bert", "mean", max_position_embeddings=512)


@pytest.fixture(scope="module")
def served(plain: Any) -> Any:
    return fairspan.calibrate(plain, "tiles-8", max_seq_length=2000)


@pytest.fixture
def desk(served: Any) -> Desk:
    return open_desk(served, "some/folder/tiny-bert")


def test_it_has_the_plain_model_and_the_served_one(desk: Desk, served: Any, plain: Any) -> None:
    """The model has 512 positions; only tiles read further, as far as the server does."""
    none, tiles = desk.facts["treatments"]
    assert desk.facts["model"] == "tiny-bert"
    assert none == {"treatment": "plain", "window": plain.max_seq_length}
    assert tiles["window"] == served.max_seq_length == 2000
    assert tiles["treatment"] == "tiles-8"


def test_shares_are_those_of_inspect(desk: Desk, plain: Any, served: Any) -> None:
    document = Document("Document 1", text(0, 20, 40, 60))
    found = desk.inspect(document)
    names = ["plain", "tiles-8"]
    how: dict[str, Any] = {"borders": "rule", "progress": False}
    expected = fairspan.inspect(plain, document.text, treatments=names, **how)
    assert [one.treatment for one in found.readings] == names
    assert found.borders == "by rules"
    for own, other in zip(found.readings, expected.readings, strict=True):
        assert own.representation == pytest.approx(other.representation, abs=ROUNDING)
    # And by hand, with the model that is served.
    texts = [one.text for one in found.segments]
    whole, *alone = served.encode_document([" ".join(texts), *texts])
    cosines = [cosine(whole, one) for one in alone]
    assert found.readings[1].representation == pytest.approx(cosines, abs=ROUNDING)


def test_what_only_tiles_read_is_never_seen_before(desk: Desk, plain: Any) -> None:
    long = Document("long", text(0, 20, 40, count=plain.max_seq_length // 2))
    before, after = desk.inspect(long).readings
    assert [one.status for one in before.segments] == ["seen", "cut", "never seen"]
    assert [one.status for one in after.segments] == ["seen"] * 3


def test_a_plain_model_has_nothing_beside_it(plain: Any) -> None:
    desk = open_desk(plain)
    assert [one["treatment"] for one in desk.facts["treatments"]] == ["plain"]
    assert len(desk.inspect(Document("one", text(0, 20))).readings) == 1
    assert len(open_desk(fairspan.calibrate(plain, "plain")).treated) == 1


def test_too_much_is_refused_before_it_is_parsed(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rules count as well, each one token here."""
    monkeypatch.setattr("fairspan.serving.desk.MOST_TOKENS", 60)
    desk = open_desk(served)
    desk.inspect(Document("a", text(0, 20, 40)))
    monkeypatch.setattr(Document, "marked", None)
    with pytest.raises(CorpusError, match="66 tokens, and the page takes 60"):
        desk.inspect(Document("a", text(0, 10, 20, 30, 40)))


def test_a_document_waits_for_requests_and_ends_when_its_client_leaves(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(desk.subject.model, name="tiny-bert")
    documents = pages.Documents(desk, service.batcher)
    passes: list[str] = []
    go = threading.Event()

    def noted(kind: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def vectors(encoder: Any, batch: Any) -> Any:
            passes.append(kind)
            assert go.wait(20)
            return run(encoder, batch)

        return vectors

    monkeypatch.setattr(DirectEncoder, "vectors", noted("request", DirectEncoder.vectors))
    monkeypatch.setattr(ModelEncoder, "vectors", noted("page", ModelEncoder.vectors))

    def ask() -> Any:
        request = EmbeddingRequest(["w1 w2"], "tiny-bert", "document")
        return asyncio.ensure_future(service.embed(request))

    def show() -> Any:
        return asyncio.ensure_future(documents.inspect(Document("a", text(0, 20))))

    async def until(count: int) -> None:
        """That many requests and documents wait or are in the model."""
        while service.batcher.requests != count:
            await asyncio.sleep(0.01)

    async def test() -> None:
        requests = [ask()]
        await until(1)
        shown, *others = [show() for _ in range(4)]
        await until(2)
        requests.append(ask())
        await until(3)
        with pytest.raises(Refusal, match="Too many documents are waiting"):
            await show()
        for other in others:
            other.cancel()
        go.set()
        await asyncio.gather(shown, *requests)
        # Under either treatment, the segments and the whole.
        assert passes == ["request", "request", *["page"] * 4]
        go.clear()
        left = show()
        await until(1)
        left.cancel()
        await until(0)
        go.set()
        await show()
        assert passes[6:] == ["page"] * 5

    asyncio.run(asyncio.wait_for(test(), 30))
    service.batcher.close()


def app_of(desk: Desk) -> Any:
    """The page as part of a server."""
    service = Service(desk.subject.model, name="tiny-bert")
    return make_app(service, routes=pages.page_routes(desk, service.batcher))


@pytest.fixture(scope="module")
def client(served: Any) -> Any:
    app = app_of(open_desk(served, "some/folder/tiny-bert"))
    return TestClient(app, base_url="http://localhost")


def test_the_page_holds_nothing_of_the_model(client: Any) -> None:
    reply = client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert not re.search("tiny-bert|https?://", reply.text)
    rules = reply.headers["content-security-policy"]
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in rules
    assert "frame-ancestors 'none'" in rules
    assert "unsafe-inline" not in rules.partition("style-src")[0]
    assert f'content="{rules.partition("; base-uri")[0]}"'.replace("'", "&#39;") in reply.text
    assert client.get("/page/about").json()["model"] == "tiny-bert"


def test_a_document_comes_back_in_columns(client: Any, desk: Desk) -> None:
    sent = {"name": "Document 1", "text": text(0, 20, 40)}
    source = client.post("/page/inspect", json=sent).json()["html"]
    assert source.count('class="segment"') == 6
    assert re.findall(r'<h3 class="over">(\S+)', source) == ["plain", "tiles-8"]
    shown = [one.replace("&nbsp;", " ") for one in re.findall(r"data-chip>(.*?)</span>", source)]
    readings = desk.inspect(Document(**sent)).readings
    expected = [
        f"{100 * (one.share[place] or 0):.1f}\u00a0%" for place in range(3) for one in readings
    ]
    assert shown == expected


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> \" ' & {{ 7*7 }} \u2028"


def test_markup_in_texts_and_names_stays_text(client: Any) -> None:
    sent = {"name": EVIL, "text": f"{EVIL} w1\n\n---\n\n{EVIL} w2"}
    source = client.post("/page/inspect", json=sent).json()["html"]
    assert not re.search("<script|<img", source)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in source
    assert "{{ 7*7 }}" in source


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{}", 400, "needs a 'name' and a 'text'"),
        (b'{"name": "a", "text": 3}', 400, "needs a 'name' and a 'text'"),
        (b'{"name": "\xed\xa0\x80", "text": "w1. w2."}', 400, "not JSON in UTF-8"),
        (b'{"name": "a", "text": " "}', 400, "a is empty."),
        (b'{"name": "a.json", "text": "{"}', 400, "a.json, line 1: not JSON"),
        (b'"' + b"a" * 500_000 + b'"', 413, "larger than 500,000 bytes"),
    ],
)
def test_mistakes_are_one_line(client: Any, body: bytes, status: int, said: str) -> None:
    reply = client.post("/page/inspect", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == status
    message = reply.json()["error"]["message"]
    assert said in message
    assert "\n" not in message


@pytest.fixture(scope="module")
def address(served: Any) -> Iterator[str]:
    """Of a server in a thread."""
    app = app_of(open_desk(served, "tiny"))
    with bind("127.0.0.1", 0) as bound:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"{url_of(bound)}/"
        server.should_exit = True
        thread.join(10)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_pasted_document_is_coloured_side_by_side(
    browser: Any, address: str, desk: Desk, width: int
) -> None:
    """And the page asks nobody else and complains of nothing."""
    content = text(0, 20, 40, 60)
    with opened(browser, address, width=width) as shown:
        page = shown.page
        page.locator("[data-facts] b").first.wait_for()
        assert page.locator("[data-facts]").inner_text().startswith("model tiny")
        page.get_by_role("button", name="New document").click()
        page.locator("#text").fill(content)
        page.get_by_role("button", name="Show its segments").click()
        page.locator(".pairs").wait_for()
        readings = desk.inspect(Document("Document 1", content)).readings
        for which, reading in enumerate(readings):
            segments = page.locator(f".segment[data-treatment='{which}']")
            chips = segments.locator("[data-chip]").all_inner_texts()
            assert chips == [f"{100 * (share or 0):.1f}\u00a0%" for share in reading.share]
            heats = segments.evaluate_all(
                "all => all.map((one) => Number(one.style.getPropertyValue('--v')))"
            )
            assert np.argsort(heats).tolist() == np.argsort(reading.representation).tolist()
        assert legend_of(page) == (True, ["none"] * 3)
        left, right = (
            page.locator(f".segment[data-treatment='{which}']").first.bounding_box()
            for which in (0, 1)
        )
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] < right["x"]
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not shown.complaints
        assert all(url.startswith((address, "data:")) for url in shown.requests)
