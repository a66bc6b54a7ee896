"""Endpoints: requests, answers of every kind, retries, and what is refused in one line."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openai", reason="needs the extra endpoint")

from fairspan import Endpoint, FairspanError, MissingExtra
from fairspan.encoding.encoder import ObjectEncoder
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from tests.builders.embedding_server import DIMENSIONS, Server, embed, hangs_up, says, serving
from tests.builders.saying import said_by
from tests.builders.tiny import words

TEXTS = [words(3 + number, number) for number in range(10)]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as told:
        yield told


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds between two tries of the client: none of them really passes."""
    seconds: list[float] = []
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    clock = SimpleNamespace(sleep=seconds.append, time=time.time)
    monkeypatch.setattr("openai._base_client.time", clock)
    return seconds


def at(server: Server, **options: Any) -> Endpoint:
    return Endpoint(server.url, "words", **options)


def assert_embeds(endpoint: Endpoint) -> None:
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))


def breaks_off(handler: Any, body: Any) -> None:
    """An answer that ends before the length it announced."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
    hangs_up(handler, body)


def refusal(endpoint: Endpoint, texts: list[str] | None = None) -> str:
    return said_by(endpoint.encode, texts or TEXTS)


# What is asked and answered.


def test_the_identity_names_what_decides_a_vector() -> None:
    base: dict[str, Any] = {"url": "http://host:8000/v1", "model": "m"}
    plain = Endpoint(**base).identity
    for same in (
        {"url": "HTTP://Host:8000/"},
        {"url": "http://host:8000/v1/embeddings", "concurrency": 9},
        {"api_key": "hush"},
    ):
        endpoint = Endpoint(**{**base, **same})
        assert endpoint.identity == plain
        assert "hush" not in f"{endpoint!r} {endpoint.identity}"
    others: list[dict[str, Any]] = [{"url": "http://host:8001/v1"}, {"model": "n"}]
    others += [{"dimensions": 3}, {"body": {"a": 1}}, {"query_body": {}}]
    assert len({plain, *(Endpoint(**{**base, **other}).identity for other in others)}) == 6
    asked = Endpoint(**base, query_body={"input_type": "query"})
    assert asked.on("document").identity == plain, "documents need not be sent again"
    assert asked.on("query").identity not in (asked.identity, plain)


def test_fields_of_each_side_and_dimensions(server: Server) -> None:
    endpoint = at(server, dimensions=4, body={"truncate": True}, query_body={"input_type": "query"})
    np.testing.assert_array_equal(endpoint.encode(TEXTS[:2]), embed(TEXTS[:2])[:, :4])
    ObjectEncoder(endpoint, "q: ", "query").vectors([Text("w1", 5)])
    plain = {"model": "words", "dimensions": 4}
    assert server.bodies == [
        {**plain, "truncate": True, "input": TEXTS[:2]},
        {**plain, "input_type": "query", "input": ["q: w1"]},
    ]


def test_fewer_texts_where_the_server_refuses_many(server: Server) -> None:
    """A request of ten is halved until two are left. Vectors come in another order."""
    server.change = lambda answer: {**answer, "data": answer["data"][::-1]}
    server.most = 2
    assert_embeds(at(server))
    assert [len(body["input"]) for body in server.bodies] == [10, 5, 3, 2, 1, 2, 5, 3, 2, 1, 2]


# Retries.

BUSY = says(429, Retry_After="7")


@pytest.mark.parametrize(
    "first",
    [BUSY, says(500), hangs_up, breaks_off],
    ids=["429", "500", "closed", "broken off"],
)
def test_what_passes_is_tried_again(
    server: Server, waits: list[float], first: Callable[..., None]
) -> None:
    server.script.append(first)
    assert_embeds(at(server))
    assert len(waits) == 1
    assert len(server.bodies) == 2
    assert first is not BUSY or waits == [7.0]


def test_it_gives_up(server: Server, waits: list[float]) -> None:
    """After three retries where nothing was ever answered, and after ten later."""
    endpoint = at(server)
    server.script.extend([says(500)] * 4)
    assert "refuses the request (500: told to): try again later" in refusal(endpoint)
    assert len(waits) == 3
    assert_embeds(endpoint)
    server.script.extend([says(500)] * 99)
    assert "try again later" in refusal(endpoint)
    assert len(waits) == 3 + 10


def test_an_answer_that_takes_too_long_is_asked_for_again(server: Server) -> None:
    server.wait = 0.3
    endpoint = at(server, timeout=0.05)
    assert "does not answer (timed out): check the address" in refusal(endpoint)
    assert len(server.bodies) == 4
    server.wait = 0.0
    assert_embeds(endpoint)


def test_nobody_there(waits: list[float]) -> None:
    """Few tries, because the address is more likely wrong; later it is patient."""
    with serving() as told:
        endpoint = at(told)
        endpoint.encode(TEXTS[:1])
    assert "does not answer" in refusal(endpoint)
    assert len(waits) == 10
    waits.clear()
    said = refusal(at(told))
    assert said.startswith(f"{told.url} does not answer (")
    assert "Connection refused" in said
    assert len(waits) == 3


# What is refused, without trying again.

HTML = b"<html><body>Please log in</body></html>"


def changed(**entries: Any) -> Callable[[Any], Any]:
    """Answers whose second vector is replaced."""

    def change(answer: Any) -> Any:
        answer["data"][1] = {**answer["data"][1], **entries}
        return answer

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda answer: {**answer, "data": answer["data"][:-1]}, "gave 9 vectors for 10 texts"),
        (changed(embedding=[0.0] * DIMENSIONS), "all zero"),
        (changed(embedding=[math.nan] * DIMENSIONS), f"text that begins {TEXTS[1]!r}"[:30]),
        (changed(embedding=[None] * DIMENSIONS), "null, NaN or infinity"),
        (changed(embedding="%%%"), "answered without embeddings"),
        (changed(embedding=[]), "it is empty"),
        (changed(embedding=[1.0, 2.0]), f"{DIMENSIONS} dimensions where 2 were expected"),
        (changed(index=0), "gave 10 vectors for 10 texts, with the numbers [0, 0, 2, 3, 4] …"),
        (lambda answer: {"answer": 42}, "without embeddings (it begins '{\"answer\": 42}')"),
    ],
)
def test_answers_that_are_no_vectors(
    server: Server, change: Callable[[Any], Any], said: str
) -> None:
    server.change = change
    assert said in refusal(at(server))
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (says(200, HTML, Content_Type="text/html"), "without embeddings (it begins '<html>"),
        (says(302, {}, Location="https://login.example/"), "the request (302: "),
        (says(400, {"error": {"message": "input\nis\nodd"}}), "the request (400: input is odd)"),
        (says(400, {"error": "n must be at most 8"}), "the request (400: n must be at most 8)"),
        (says(400, {"detail": "odd"}), "refuses the request (400: odd)"),
        (says(403, {"error": "no"}), "refuses no key, because OPENAI_API_KEY is not set (403: no)"),
        (says(404, b"lost"), "/v1/embeddings refuses the request (404: lost): check the address"),
    ],
    ids=["html", "redirect", "400", "not too long", "detail", "403", "404"],
)
def test_answers_that_are_errors(server: Server, act: Callable[..., None], said: str) -> None:
    server.script.append(act)
    assert said in refusal(at(server))
    assert len(server.bodies) == 1


def test_a_text_that_is_too_long_is_named(server: Server) -> None:
    """The request is halved until the text is alone; the others have their vectors."""
    server.longest = 60
    endpoint = at(server)
    long = "w7 " * 30
    said = refusal(endpoint, [*TEXTS[:5], long, "w1"])
    assert (
        f"refuses a text of 90 characters that begins {long[:40]!r} (400: This model's maximum "
        f"context" in said
    )
    assert said.endswith("use shorter documents, or raise the limit of the server.")
    assert server.bodies[-1]["input"] == [long]


def test_the_key_is_sent_and_never_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key = "right"
    monkeypatch.setenv("OPENAI_API_KEY", " right\n")
    assert_embeds(at(server))
    said = refusal(at(server, api_key="sk-wrong"))
    assert "refuses the key (401: wrong key Bearer …): set the environment variable" in said
    assert "sk-wrong" not in said
    server.script.extend([says(400, {"error": "sk-wrong is odd"})])
    assert "sk-wrong" not in refusal(at(server, api_key="sk-wrong"))
    assert server.keys[0] == "Bearer right"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "refuses no key, because OPENAI_API_KEY is not set" in refusal(at(server))
    for key in ("two words", "schlüssel"):
        assert key not in said_by(at, server, api_key=key)


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8000/v1", "ftp://host/v1", "http://", "http://host:port/v1"),
        *("https://user:hush@host/v1", "https://host/v1?key=hush"),
    ],
)
def test_addresses_that_are_none(url: str) -> None:
    said = said_by(Endpoint, url, "m")
    assert "an endpoint is an address that begins with http://" in said
    assert "hush" not in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": " "}, "needs the name of a model"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1"),
        ({"batch": True}, "batch must be a whole number"),
        ({"dimensions": -1}, "dimensions must be a whole number"),
        ({"body": [1]}, "body must be a JSON object"),
        ({"query_body": {"x": object()}}, "query_body cannot be written as JSON"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(FairspanError, match=said):
        Endpoint(**{"url": "http://host/v1", "model": "m", **options})


def test_the_client_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    refused = said_by(Endpoint, "http://host/v1", "m", kind=MissingExtra)
    assert refused == "an endpoint needs openai: pip install 'fairspan[endpoint]'."


def test_every_answer_is_stored_at_once(server: Server) -> None:
    """The third of five requests fails: only its texts are sent again."""
    endpoint = at(server, batch=2, concurrency=2)
    encoder, texts = ObjectEncoder(endpoint), [Text(text, len(text)) for text in TEXTS]
    server.script.extend([server.answer, server.answer, says(400)])
    server.wait = 0.01
    with Store(":memory:") as store:
        with pytest.raises(FairspanError, match=r"\(400: told to\).* What was computed is in"):
            fill(encoder, texts, store, budget=1000, tally=Tally())
        # The two texts of the failed request, and of those behind it what had not been answered
        # when it came back.
        keys = [encoder.key(text) for text in texts]
        assert len(store.missing(keys)) in (2, 4, 6)
        fill(encoder, texts, store, budget=1000, tally=Tally())
        found = store.get(keys)
        np.testing.assert_array_equal(np.stack([found[key] for key in keys]), embed(TEXTS))
        assert server.twice == 2
        assert server.most_at_once == 2
    # All ten requests would be refused: only those under way are sent.
    server.bodies.clear()
    server.script.extend([says(400)] * 10)
    encoder = ObjectEncoder(at(server, batch=1, concurrency=2))
    with Store(":memory:") as store, pytest.raises(FairspanError, match="told to"):
        fill(encoder, texts, store, budget=1000, tally=Tally())
    assert len(server.bodies) < 10
