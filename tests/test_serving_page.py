"""The served page: what it computes, by hand and against `fairspan.inspect`; its routes; the page in a browser."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan.encoding.encoder import ModelEncoder
from fairspan.errors import CorpusError, DesignError
from fairspan.serving.desk import Desk, Document, TooLarge, open_desk
from fairspan.serving.search import Match, Search
from tests.browser import chromium

pytest.importorskip("starlette", reason="needs starlette")

from fairspan.serving import page as pages
from fairspan.serving.app import make_app
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
    return make_tiny("bert", "mean")


@pytest.fixture(scope="module")
def served(plain: Any) -> Any:
    return fairspan.calibrate(plain, "tiles", tile_size=8, max_seq_length=2000)


@pytest.fixture
def desk(served: Any) -> Desk:
    return open_desk(served, "some/folder/tiny-bert")


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


# --- the desk


def test_it_has_the_plain_model_and_the_served_one(desk: Desk, served: Any, plain: Any) -> None:
    """Tiny models have 512 positions for text; only tiles read further, as far as the server does."""
    none, tiles = desk.facts["treatments"]
    assert desk.facts["model"] == "tiny-bert"
    assert none == {"treatment": "none", "window": plain.max_seq_length}
    assert tiles["window"] == served.max_seq_length == 2000
    assert tiles["treatment"] == "tiles+tile_size=8"


def test_shares_are_those_of_inspect(desk: Desk, plain: Any, served: Any) -> None:
    document = Document("Document 1", text(0, 20, 40, 60))
    found = desk.inspect(document)
    expected = fairspan.inspect(
        plain, document.text, treatments=["none", "tiles+tile_size=8"], borders="rule", progress=False
    )
    assert [one.treatment for one in found.readings] == ["none", "tiles+tile_size=8"]
    assert found.borders == "by rules"
    for own, other in zip(found.readings, expected.readings, strict=True):
        assert own.representation == pytest.approx(other.representation, abs=ROUNDING)
        assert own.attention is None
        assert own.retention is None
    # And by hand, with the model that is served.
    whole, *alone = served.encode_document([found.text, *(one.text for one in found.segments)])
    assert found.readings[1].representation == pytest.approx([cosine(whole, one) for one in alone], abs=ROUNDING)


def test_what_only_tiles_read_is_never_seen_before(desk: Desk, plain: Any) -> None:
    long = Document("long", text(0, 20, 40, count=plain.max_seq_length // 2))
    before, after = desk.inspect(long).readings
    assert [one.status for one in before.segments] == ["seen", "cut", "never seen"]
    assert [one.status for one in after.segments] == ["seen"] * 3


def test_a_plain_model_has_nothing_beside_it(plain: Any) -> None:
    desk = open_desk(plain)
    assert [one["treatment"] for one in desk.facts["treatments"]] == ["none"]
    assert len(desk.inspect(Document("one", text(0, 20))).readings) == 1
    assert len(open_desk(fairspan.calibrate(plain, "none")).treated) == 1


def test_a_search_ranks_by_the_vectors_of_both_models(desk: Desk, plain: Any, served: Any) -> None:
    documents = [Document(f"Document {n}", text(n, n + 20, n + 40)) for n in range(4)]
    query = words(41, 6)
    found = desk.find(query, documents)
    for name, model in (("none", plain), ("tiles+tile_size=8", served)):
        asked = model.encode_query(query)
        whole = model.encode_document([one.text.replace(RULE, " ") for one in documents])
        cosines = [cosine(asked, one) for one in whole]
        own = found.matches[name]
        assert [one.cosine for one in own] == pytest.approx(cosines, abs=ROUNDING)
        assert [own[place].rank for place in np.argsort(cosines)[::-1]] == [1, 2, 3, 4]
        for document, match in zip(documents, own, strict=True):
            alone = [cosine(asked, one) for one in model.encode_document(document.text.split(RULE))]
            assert match.segments == pytest.approx(alone, abs=ROUNDING)
            assert match.closest == int(np.argmax(alone))
            assert match.status == ("seen",) * 3


def test_a_short_document_is_searched_and_not_inspected(desk: Desk) -> None:
    short = Document("short", words(5, 6))
    assert len(desk.find("w5 w12", [short]).labels[0]) == 1
    with pytest.raises(DesignError, match="shares need two segments"):
        desk.inspect(short)


def test_a_query_embeds_nothing_but_itself(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [Document(f"Document {n}", text(n, n + 20, n + 40)) for n in range(2)]
    for one in documents:
        desk.inspect(one)
    read: list[str] = []
    vectors = ModelEncoder.vectors
    monkeypatch.setattr(
        ModelEncoder, "vectors", lambda self, batch: (read.extend(t.text for t in batch), vectors(self, batch))[1]
    )
    desk.find("w1 w2", documents)
    assert read == ["w1 w2", "w1 w2"], "once for each treatment"


def test_few_vectors_are_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.serving.desk._KEPT", 5)
    first = [desk.inspect(Document("a", text(n, n + 30, n + 60))) for n in range(3)]
    assert len(desk._vectors) == 5
    assert desk.inspect(Document("a", text(0, 30, 60))).readings == first[0].readings


def test_too_much_is_refused(served: Any) -> None:
    desk = open_desk(served, most_tokens=60)
    desk.inspect(Document("a", text(0, 20, 40)))
    with pytest.raises(TooLarge, match="62 tokens, and the page takes 60"):
        desk.inspect(Document("a", text(0, 10, 20, 30, 40)))
    with pytest.raises(TooLarge, match="76 tokens"):
        desk.find("w1", [Document("a", text(0, 20, 40)), Document("b", text(0, 20, 40))])
    with pytest.raises(TooLarge, match="there are 21 documents"):
        desk.find("w1", [Document("a", "w1 w2")] * 21)
    with pytest.raises(CorpusError, match="the query is empty"):
        desk.find("  ", [Document("a", "w1 w2")])
    with pytest.raises(CorpusError, match="no document"):
        desk.find("w1", [])


@pytest.mark.parametrize(
    ("name", "content", "borders", "titles"),
    [
        ("Document 1", "# A\n\none\n\n# B\n\ntwo", "heading", ["A", "B"]),
        ("notes.txt", "# A\n\none\n\n# B\n\ntwo", "parts", []),
        ("notes.md", "# A\r\n\r\none\r\n\r\n# B\r\n\r\ntwo", "heading", ["A", "B"]),
        ("Document 1", "one\n\n---\n\ntwo", "rule", [None, None]),
        ("page.json", '{"segments": [{"title": "A", "text": "one"}, "two"]}', "segment", ["A", None]),
        ("Document 1", '["one", "two"]', "segment", [None, None]),
        ("page.jsonl", '{"text": "one"}\n\n{"text": "two", "title": "B"}', "segment", [None, "B"]),
        ("Document 1", "one and two. Three and four.", "parts", []),
    ],
)
def test_documents_are_read_by_their_ending_or_by_how_they_begin(
    name: str, content: str, borders: str, titles: list[str | None]
) -> None:
    found = Document(name, content).marked()
    assert found.borders == borders
    assert [piece.title for piece in found.pieces] == titles
    assert "\r" not in found.text


def test_borders_may_be_chosen() -> None:
    assert Document("a", "one\n\ntwo\nthree", "line").marked().borders == "line"
    with pytest.raises(CorpusError, match="borders must be one of"):
        Document("a", "one", "page").marked()
    with pytest.raises(CorpusError, match="a is empty"):
        Document("a", " \n ").marked()


# --- what is said of a search


def searched() -> Search:
    """The answer is the last segment of A, which the plain model never sees."""
    labels = (("one", "two"), ("three", "four"))
    before = (Match(0.1, 2, (0.2, 0.7), ("seen", "never seen")), Match(0.3, 1, (0.4, 0.1), ("seen", "seen")))
    after = (Match(0.5, 1, (0.2, 0.7), ("seen", "seen")), Match(0.3, 2, (0.4, 0.1), ("seen", "seen")))
    return Search("why?", ("A", "B"), labels, {"none": before, "tiles": after})


def test_cards_follow_the_document_of_the_closest_segment() -> None:
    before, after = searched().cards
    assert (before.badge, before.tone, after.badge, after.tone) == ("rank 2 of 2", "open", "rank 1 of 2", "good")
    where = "Segment 2 “two” of A is closest to the query"
    assert before.sentences == (
        f"{where}: cosine 0.700 with the segment alone, 0.100 with the vector of the whole document.",
        "The model never sees this segment: the vector has nothing of it.",
        "First is B with 0.300.",
    )
    assert len(after.sentences) == 1


def test_one_document_has_no_rank() -> None:
    match = Match(0.1, 1, (0.2, 0.7), ("seen", "cut"))
    [card] = Search("why?", ("A",), (("one", "two"),), {"none": (match,)}).cards
    assert (card.badge, card.tone) == ("cosine 0.100", "plain")
    assert card.sentences[1] == "The model sees only a part of this segment."


def test_the_table_is_in_the_order_that_is_found_after() -> None:
    table = searched().table
    assert [one.heads for one in table.rows] == [("A",), ("B",)]
    assert [cell.text for cell in table.rows[0].cells] == ["2", "0.100", "1", "0.500", "2 “two”", "2 “two”"]
    assert [column.group for column in table.columns] == ["none"] * 2 + ["tiles"] * 2 + ["closest segment"] * 2
    assert table.frame["rank"].to_list() == [2, 1, 1, 2]


# --- routes


async def call(work: Callable[[], Any]) -> Any:
    import anyio.to_thread

    return await anyio.to_thread.run_sync(work)


def app_of(desk: Desk, key: str | None = None) -> Any:
    """The page alone, or with a key as part of a server."""
    from starlette.applications import Starlette

    if key is None:
        return Starlette(routes=pages.page_routes(desk, call))
    service = Service(desk.subject.model, name="tiny-bert")
    return make_app(service, key=key, routes=pages.page_routes(desk, service.batcher.call))


@pytest.fixture
def client(desk: Desk) -> Any:
    pytest.importorskip("httpx", reason="needs httpx")
    from starlette.testclient import TestClient

    return TestClient(app_of(desk))


def test_the_page_of_a_server(desk: Desk) -> None:
    pytest.importorskip("httpx", reason="needs httpx")
    from starlette.testclient import TestClient

    app, key = app_of(desk, "secret"), {"Authorization": "Bearer secret"}
    asked = {"query": words(3), "documents": [{"name": "a", "text": text(0, 20)}]}
    with TestClient(app) as client:
        assert client.get("/").status_code == 200
        assert client.get("/page/about").status_code == 401
        assert client.get("/page/about", headers=key).json()["model"] == "tiny-bert"
        assert "rank" not in client.post("/page/find", json=asked, headers=key).json()["html"]
        app.state.service.batcher.close()
        refused = client.post("/page/find", json=asked, headers=key)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


def test_the_page_holds_nothing_of_the_model(client: Any) -> None:
    reply = client.get("/")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    assert "tiny-bert" not in reply.text
    assert "http://" not in reply.text
    assert "https://" not in reply.text
    rules = reply.headers["content-security-policy"]
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src 'self'" in rules
    assert "frame-ancestors 'none'" in rules
    assert "unsafe-inline" not in rules.partition("style-src")[0]
    assert f'content="{rules.partition("; base-uri")[0]}"'.replace("'", "&#39;") in reply.text
    assert client.get("/page/about").json()["model"] == "tiny-bert"


def test_examples_are_documents_of_several_segments() -> None:
    found = pages.example_documents()
    assert [len(Document(**one).marked().pieces) for one in found] == [6] * pages.EXAMPLES
    assert len({one["text"] for one in found}) == pages.EXAMPLES


def test_a_document_comes_back_in_columns(client: Any, desk: Desk) -> None:
    sent = {"name": "Document 1", "text": text(0, 20, 40)}
    source = client.post("/page/inspect", json=sent).json()["html"]
    assert source.count('class="segment"') == 6
    assert re.findall(r'<h3 class="over">(\S+)', source) == ["none", "tiles+tile_size=8"]
    shown = [one.replace("&nbsp;", " ") for one in re.findall(r"data-chip>(.*?)</span>", source)]
    readings = desk.inspect(Document(**sent)).readings
    expected = [f"{100 * (one.share[place] or 0):.1f}\u00a0%" for place in range(3) for one in readings]
    assert shown == expected


def test_a_search_comes_back_with_the_segments_of_every_document(client: Any, desk: Desk) -> None:
    documents = [{"name": f"Document {n}", "text": text(n, n + 20, n + 40)} for n in range(2)]
    said = client.post("/page/find", json={"query": "w41 w48", "documents": documents}).json()
    found = desk.find("w41 w48", [Document(**one) for one in documents])
    assert said["html"].count('class="verdict') == 2
    assert said["documents"][1][0] == {
        "cosines": [f"{one:.3f}".replace("-", "−") for one in found.matches["none"][1].segments],
        "closest": found.matches["none"][1].closest,
    }


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)> \" ' & {{ 7*7 }} \u2028"


def test_markup_in_texts_names_and_queries_stays_text(client: Any) -> None:
    sent = {"name": EVIL, "text": f"{EVIL} w1\n\n---\n\n{EVIL} w2"}
    for path, body in (("inspect", sent), ("find", {"query": EVIL, "documents": [sent, sent]})):
        source = client.post(f"/page/{path}", json=body).json()["html"]
        assert "<script" not in source
        assert "<img" not in source
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in source
        assert "{{ 7*7 }}" in source


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("inspect", b"{", 400, "not JSON"),
        ("inspect", b"[]", 400, "not a JSON object"),
        ("inspect", b"{}", 400, "needs a 'name' and a 'text'"),
        ("inspect", json.dumps({"name": "a", "text": 3}).encode(), 400, "needs a 'name' and a 'text'"),
        ("inspect", b'{"name": "a", "text": "\\ud800 w1. w2."}', 400, "not JSON in UTF-8"),
        ("inspect", b"\xff", 400, "not JSON in UTF-8"),
        ("inspect", json.dumps({"name": "a", "text": " "}).encode(), 400, "a is empty."),
        ("inspect", json.dumps({"name": "a.json", "text": "{"}).encode(), 400, "a.json, line 1: not JSON"),
        ("inspect", b'"' + b"a" * 500_000 + b'"', 413, "more than 0.5 MB"),
        ("find", b"{}", 400, "needs a 'query'"),
        ("find", json.dumps({"query": "w1", "documents": [3]}).encode(), 400, "needs a 'name'"),
        ("find", json.dumps({"query": "", "documents": []}).encode(), 400, "the query is empty."),
        (
            "find",
            json.dumps({"query": "w", "documents": [{"name": "a", "text": "w"}] * 21}).encode(),
            413,
            "21 documents",
        ),
    ],
)
def test_mistakes_are_one_line(client: Any, path: str, body: bytes, status: int, said: str) -> None:
    reply = client.post(f"/page/{path}", content=body)
    assert reply.status_code == status
    message = reply.json()["error"]["message"]
    assert said in message
    assert "\n" not in message


# --- the page in a browser


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """The address of a server in a thread."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def address(served: Any) -> Iterator[str]:
    with listening(app_of(open_desk(served, "tiny"))) as found:
        yield found


@contextmanager
def visited(browser: Any, address: str, *, width: int = 1280, dark: bool = False) -> Iterator[Any]:
    """The page, which must ask nobody else and complain of nothing."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    page, asked, complaints = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    # What the server refuses, the browser notes by itself.
    page.on("console", lambda said: "Failed to load" in said.text or complaints.append(said.text))
    page.goto(address)
    try:
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert not complaints
        assert all(url.startswith((address, "data:")) for url in asked)
    finally:
        context.close()


def paste(page: Any, content: str) -> None:
    page.get_by_role("button", name="New document").click()
    page.locator("#text").fill(content)


def show(page: Any) -> None:
    page.get_by_role("button", name="Show its segments").click()
    page.locator(".pairs").wait_for()


def heats(page: Any, treatment: int) -> list[float]:
    found = page.locator(f".segment[data-treatment='{treatment}']")
    return found.evaluate_all("all => all.map((one) => Number(one.style.getPropertyValue('--v')))")


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_a_pasted_document_is_coloured_side_by_side(
    browser: Any, address: str, desk: Desk, width: int, dark: bool
) -> None:
    content = text(0, 20, 40, 60)
    with visited(browser, address, width=width, dark=dark) as page:
        page.locator("[data-facts] b").first.wait_for()
        assert page.locator("[data-facts]").inner_text().startswith("model tiny")
        paste(page, content)
        show(page)
        readings = desk.inspect(Document("Document 1", content)).readings
        for which, reading in enumerate(readings):
            chips = page.locator(f".segment[data-treatment='{which}'] [data-chip]").all_inner_texts()
            assert chips == [f"{100 * (share or 0):.1f}\u00a0%" for share in reading.share]
            assert np.argsort(heats(page, which)).tolist() == np.argsort(reading.representation).tolist()
        left, right = (page.locator(f".segment[data-treatment='{which}']").first.bounding_box() for which in (0, 1))
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] < right["x"]


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_query_shows_what_it_finds_before_and_after(browser: Any, address: str, desk: Desk, width: int) -> None:
    documents = [Document(f"Document {n + 1}", text(n, n + 20, n + 40)) for n in range(3)]
    with visited(browser, address, width=width) as page:
        for _ in range(pages.EXAMPLES):
            page.get_by_role("button", name="Remove").click()
        page.locator("#text").fill(documents[0].text)
        for one in documents[1:]:
            paste(page, one.text)
        page.locator("#query").fill("w41 w48 w55")
        page.locator("#query").press("Enter")
        page.locator("[data-found] .verdict").first.wait_for()
        found = desk.find("w41 w48 w55", documents)
        assert page.locator("[data-found] .badge").all_inner_texts() == [card.badge for card in found.cards]
        assert page.locator("[data-found] tbody tr").count() == 3
        for which, own in enumerate(found.matches.values()):
            closest = page.locator(f".segment.closest[data-treatment='{which}']")
            assert closest.get_attribute("data-place") == str(own[2].closest)
            assert f"{max(own[2].segments):.3f}" in closest.locator("[data-asked]").inner_text()
        # Another document has its own closest segment; an edited one has none.
        page.get_by_role("radio", name="Document 1").check()
        show(page)
        assert page.locator(".segment.closest").count() == 2
        page.locator("#text").fill(documents[0].text + " w3")
        assert page.locator(".segment, [data-found] .verdict").count() == 0


@pytest.mark.slow
def test_files_are_chosen_and_dropped(browser: Any, address: str, tmp_path: Path) -> None:
    chosen = tmp_path / "page.json"
    chosen.write_text(json.dumps([{"title": "First", "text": words(1)}, {"title": "Second", "text": words(2)}]))
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"caf\xe9")
    with visited(browser, address) as page:
        page.locator("[data-files]").set_input_files(chosen)
        page.get_by_role("radio", name="page.json").wait_for()
        show(page)
        assert page.locator(".segment[data-treatment='0'] .title").all_inner_texts() == ["First", "Second"]
        page.locator("[data-files]").set_input_files(broken)
        page.get_by_text("broken.txt is no UTF-8 text.").wait_for()
        large = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"w1\n" * 200_000}
        page.locator("[data-files]").set_input_files(large)
        page.get_by_text("large.txt has 0.6 MB, and the page takes 0.5 MB.").wait_for()
        page.evaluate(
            """(content) => {
              const carried = new DataTransfer();
              carried.items.add(new File([content], "dropped.md", { type: "text/markdown" }));
              const how = { dataTransfer: carried, bubbles: true, cancelable: true };
              for (const type of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, how));
            }""",
            f"# One\n\n{words(3)}\n\n# Two\n\n{words(4)}",
        )
        page.get_by_role("radio", name="dropped.md").wait_for()
        show(page)
        assert page.locator(".segment[data-treatment='1'] .title").all_inner_texts() == ["One", "Two"]
        assert page.locator("[data-error]").is_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_any_text_stays_text_and_inside_the_page(browser: Any, address: str, width: int) -> None:
    odd = ["مرحبا بالعالم w1", "👩‍👩‍👧‍👦 🏳️‍🌈 w2", "w" * 5000, f"{EVIL} w3"]
    with visited(browser, address, width=width) as page:
        paste(page, RULE.join(odd))
        show(page)
        page.locator("#query").fill(EVIL)
        page.locator("#query").press("Enter")
        page.locator("[data-found] .verdict").first.wait_for()
        page.get_by_role("button", name="Whole text").click()
        shown = page.locator(".segment[data-treatment='0'] .words").all_inner_texts()
        assert shown[:3] == odd[:3]
        assert shown[3].split("\u2028")[0].strip() == EVIL.split("\u2028")[0].strip()
        assert page.locator("main :is(img, script)").count() == 0


@pytest.mark.slow
def test_mistakes_are_shown_and_the_page_goes_on(browser: Any, address: str) -> None:
    with visited(browser, address) as page:
        button = page.get_by_role("button", name="Show its segments")
        paste(page, "w1")
        button.click()
        page.get_by_text("shares need two segments").wait_for()
        assert button.is_enabled()
        page.route("**/page/inspect", lambda route: route.abort())
        page.locator("#text").fill(text(0, 20))
        button.click()
        page.get_by_text("The server does not answer.").wait_for()
        page.unroute("**/page/inspect")
        held: list[Any] = []
        page.route("**/page/inspect", lambda route: held.append(route))
        with page.expect_request("**/page/inspect"):
            button.click()
        assert page.locator(".status").inner_text() == "Reading…"
        assert button.is_disabled()
        held[0].continue_()
        page.locator(".pairs").wait_for()
        assert button.is_enabled()
        assert page.locator("[data-error]").is_hidden()


@pytest.mark.slow
def test_a_key_is_asked_for_once(browser: Any, served: Any) -> None:
    with listening(app_of(open_desk(served, "tiny"), "secret")) as address, visited(browser, address) as page:
        key = page.get_by_label("API key")
        key.fill("wrong")
        key.press("Enter")
        page.get_by_text("The server refuses this key.").wait_for()
        key.fill("secret")
        key.press("Enter")
        page.locator("[data-facts] b").first.wait_for()
        assert key.is_hidden()
        paste(page, text(0, 20))
        show(page)
        page.reload()
        page.locator("[data-facts] b").first.wait_for()
        assert key.is_hidden()


@pytest.mark.slow
def test_one_click_shows_an_example(browser: Any, minilm: Any) -> None:
    """The first example is longer than the plain model reads; the query is about its last segment."""
    desk = open_desk(fairspan.calibrate(minilm, "tiles", max_seq_length=4096), "all-MiniLM-L6-v2")
    with listening(app_of(desk)) as address, visited(browser, address) as page:
        page.get_by_role("button", name="Find").click()
        page.locator("[data-found] .verdict").first.wait_for(timeout=120_000)
        assert page.locator(".segment[data-treatment='0'].gone").count() == 1
        assert page.locator(".segment[data-treatment='1'].gone").count() == 0
        assert page.locator(".segment.closest .title").all_inner_texts() == ["The phases of the moon"] * 2
