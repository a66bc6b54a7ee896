"""Endpoints: requests, answers of every kind, retries, and what is refused in one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest

import fairspan
from fairspan import EncodingError, Endpoint
from fairspan.encoding.encoder import ObjectEncoder, Text
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.parallel import in_parallel
from fairspan.encoding.store import Store
from fairspan.errors import DesignError
from tests.embedding_server import DIMENSIONS, Server, embed, hangs_up, says, serving
from tests.tiny import words

TEXTS = [words(3 + number, number) for number in range(10)]
NOW = 1_800_000_000.0


class Clock:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.time, self.waits = NOW, list[float]()

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as told:
        yield told


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def at(server: Server, **options: Any) -> tuple[Endpoint, Clock]:
    """An endpoint that does not really wait, and waits as long as it may."""
    endpoint, clock = Endpoint(server.url, "words", **options), Clock()
    endpoint.client.sleep, endpoint.client.now, endpoint.client.jitter = clock.sleep, clock, lambda: 1.0
    return endpoint, clock


def refusal(endpoint: Endpoint, texts: list[str] | None = None) -> str:
    with pytest.raises(EncodingError) as caught:
        endpoint.encode(texts or TEXTS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What is asked and answered.


def test_vectors_come_in_the_order_of_the_texts(server: Server) -> None:
    """In requests of three, answered in another order and with the vectors in another order."""
    server.change = lambda answer: {**answer, "data": answer["data"][::-1]}
    server.wait = 0.01
    endpoint, _ = at(server, batch=3, concurrency=3)
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))
    assert sorted(len(body["input"]) for body in server.bodies) == [1, 3, 3, 3]
    assert 1 < server.most_at_once <= 3
    assert endpoint.encode([]).shape[0] == 0


def test_a_request_is_not_too_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairspan.encoding.endpoint.BATCH_CHARACTERS", 60)
    endpoint, _ = at(server, concurrency=1)
    endpoint.encode(TEXTS)
    sizes = [sum(map(len, body["input"])) for body in server.bodies]
    assert server.texts == TEXTS
    assert all(size <= 60 or len(body["input"]) == 1 for size, body in zip(sizes, server.bodies, strict=True))
    assert len(sizes) < len(TEXTS)


def test_fields_of_each_side_and_dimensions(server: Server) -> None:
    endpoint, _ = at(server, dimensions=4, body={"truncate": True}, query_body={"input_type": "query"})
    np.testing.assert_array_equal(endpoint.encode(TEXTS[:2]), embed(TEXTS[:2])[:, :4])
    ObjectEncoder(endpoint, "q: ", "query").vectors([Text("w1", 5)])
    plain = {"model": "words", "dimensions": 4}
    assert server.bodies == [
        {**plain, "truncate": True, "input": TEXTS[:2]},
        {**plain, "input_type": "query", "input": ["q: w1"]},
    ]


def test_base64_is_read_where_it_is_asked_for(server: Server) -> None:
    endpoint, _ = at(server, body={"encoding_format": "base64"})
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))


def test_answers_without_numbers_or_counts_are_in_order(server: Server) -> None:
    server.change = lambda answer: {"data": [{"embedding": one["embedding"]} for one in answer["data"]]}
    endpoint, _ = at(server)
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))
    assert (endpoint.received.models, endpoint.received.tokens) == ([], None)


def test_what_the_answers_say_is_remembered(server: Server) -> None:
    endpoint, _ = at(server, batch=5)
    endpoint.encode(TEXTS)
    received = endpoint.received
    assert received.models == ["words"]
    assert (received.requests, received.texts, received.dimension) == (2, 10, DIMENSIONS)
    assert received.tokens == sum(len(text.split()) for text in TEXTS)
    assert received.characters == sum(map(len, TEXTS))


def test_fewer_texts_where_the_server_refuses_many(server: Server) -> None:
    """Requests of eight and two, of which the first is halved twice."""
    server.most = 2
    endpoint, _ = at(server, batch=8, concurrency=1)
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))
    assert [len(body["input"]) for body in server.bodies] == [8, 4, 2, 2, 4, 2, 2, 2]


def test_the_identity_names_what_decides_a_vector() -> None:
    base: dict[str, Any] = {"url": "http://host:8000/v1", "model": "m"}
    same = [Endpoint("HTTP://Host:8000/", "m"), Endpoint("http://host:8000/v1/embeddings", "m", concurrency=9)]
    assert {one.identity for one in same} == {Endpoint(**base).identity}
    others: list[dict[str, Any]] = [
        *({"url": "http://host:8001/v1"}, {"model": "n"}, {"dimensions": 3}, {"body": {"a": 1}}, {"query_body": {}}),
    ]
    assert len({Endpoint(**{**base, **one}).identity for one in [{}, *others]}) == 6
    keyed = Endpoint(**base, api_key="hush")
    assert keyed.identity == Endpoint(**base).identity
    assert "hush" not in f"{keyed!r} {keyed.client!r} {vars(keyed)}"
    asked = Endpoint(**base, query_body={"input_type": "query"})
    assert asked.on("document").identity == Endpoint(**base).identity, "documents need not be sent again"
    assert asked.on("query").identity not in (asked.identity, Endpoint(**base).identity)


# Retries.


@pytest.mark.parametrize(
    ("first", "waits"),
    [
        (says(429, Retry_After="7"), [7.0]),
        (says(429, Retry_After=formatdate(NOW + 11, usegmt=True)), [11.0]),
        (says(503, Retry_After=formatdate(NOW - 60, usegmt=True)), [0.25]),
        (says(429, Retry_After="soon"), [0.5]),
        (says(500), [0.5]),
        (hangs_up, [0.5]),
    ],
    ids=["seconds", "date", "past", "unreadable", "500", "closed"],
)
def test_what_passes_is_tried_again(server: Server, first: Callable[..., None], waits: list[float]) -> None:
    server.script.append(first)
    endpoint, clock = at(server, concurrency=1)
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))
    assert clock.waits == pytest.approx(waits)
    assert len(server.bodies) == 2


def test_waits_grow_until_patience_is_over(server: Server) -> None:
    """0.5 s doubled each time is 15.5 s after five waits; the sixth, of 16 s, would be beyond 20."""
    server.script.extend([says(500)] * 99)
    endpoint, clock = at(server, patience=20)
    assert "failed 6 times in 16 s (500: told to): try again later" in refusal(endpoint)
    assert clock.waits == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_clients_do_not_come_back_all_at_once(server: Server) -> None:
    server.script.extend([says(500)] * 2)
    endpoint, clock = at(server)
    endpoint.client.jitter = iter([0.0, 0.5]).__next__
    endpoint.encode(TEXTS)
    assert clock.waits == [0.25, 0.75]


def test_an_hour_is_not_waited_for(server: Server) -> None:
    server.script.append(says(429, Retry_After="3600"))
    endpoint, clock = at(server)
    assert "(429: told to), and asks to wait 3,600 s: try again later" in refusal(endpoint)
    assert clock.waits == []


def test_an_answer_that_takes_too_long_is_asked_for_again(server: Server) -> None:
    server.wait = 0.5
    endpoint, clock = at(server, timeout=0.05, patience=2)
    assert "does not answer (it took too long): check the address" in refusal(endpoint)
    assert len(clock.waits) == 2
    server.wait = 0.0
    np.testing.assert_array_equal(endpoint.encode(TEXTS), embed(TEXTS))


def test_nobody_there() -> None:
    """Three tries, because the address is more likely wrong than the server away; later it is patient."""
    with serving() as told:
        endpoint, clock = at(told)
        endpoint.encode(TEXTS[:1])
    assert "try again later" in refusal(endpoint)
    assert 200 < sum(clock.waits) < 300
    endpoint, clock = at(told)
    assert f"{told.url} does not answer (connection refused): check the address" in refusal(endpoint)
    assert clock.waits == [0.5, 1.0]


def test_a_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy here is the server itself, which gets the whole address."""
    for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    proxied = Endpoint("http://nowhere.invalid/v1", "words")
    np.testing.assert_array_equal(proxied.encode(TEXTS), embed(TEXTS))
    monkeypatch.setenv("no_proxy", "nowhere.invalid")
    direct = Endpoint("http://nowhere.invalid/v1", "words")
    direct.client.sleep = lambda seconds: None
    assert "does not answer (there is no host of that name)" in refusal(direct)


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
        (changed(embedding=[math.nan] * DIMENSIONS), f"text that begins {TEXTS[1]!r}"[:30]),
        (changed(embedding=[None] * DIMENSIONS), "null, NaN or infinity"),
        (changed(embedding=None), "no usable vector"),
        (changed(embedding="%%%"), "no usable vector"),
        (changed(embedding=[]), "it is empty"),
        (changed(embedding=[1.0, 2.0]), f"vectors of {DIMENSIONS} dimensions where 2 came before"),
        (changed(index=0), "numbers its 10 vectors [0, 0, 2, 3, 4] …, and not from 0 on"),
        (lambda answer: {"answer": 42}, "answered with application/json that holds no embeddings"),
        (lambda answer: [], "holds no embeddings"),
    ],
)
def test_answers_that_are_no_vectors(server: Server, change: Callable[[Any], Any], said: str) -> None:
    server.change = change
    endpoint, clock = at(server)
    assert said in refusal(endpoint)
    assert (len(server.bodies), clock.waits) == (1, [])


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (
            says(200, HTML, Content_Type="text/html; charset=utf-8"),
            "answered with text/html that holds no embeddings",
        ),
        (says(302, {}, Location="https://login.example/?token=abc"), "redirects to https://login.example/ (302)"),
        (says(400, {"error": {"message": "input\nmust\nbe text"}}), "refuses the request (400: input must be text)"),
        (says(400, {"error": "dimensions must be at most 8"}), "refuses the request (400: dimensions must be"),
        (says(400, {"detail": "odd"}), "refuses the request (400: odd)"),
        (says(403, {"error": "not yours"}), "refuses no key, because OPENAI_API_KEY is not set (403: not yours)"),
        (
            says(404, b"404 page not found"),
            "/v1/embeddings is not there (404: 404 page not found): check the address",
        ),
    ],
    ids=["html", "redirect", "400", "not too long", "detail", "403", "404"],
)
def test_answers_that_are_errors(server: Server, act: Callable[..., None], said: str) -> None:
    server.script.append(act)
    endpoint, clock = at(server)
    assert said in refusal(endpoint)
    assert (len(server.bodies), clock.waits) == (1, [])


def test_dimensions_that_the_server_ignores(server: Server) -> None:
    server.script.append(lambda handler, body: handler.say(200, server.vectors({**body, "dimensions": None})))
    endpoint, _ = at(server, dimensions=4)
    assert f"gave vectors of {DIMENSIONS} dimensions where 4 were asked for" in refusal(endpoint)


def test_a_model_that_the_server_does_not_have(server: Server) -> None:
    server.names = ["these", "those"]
    endpoint, _ = at(server)
    assert "has no model 'words': it has these, those" in refusal(endpoint)


def test_a_text_that_is_too_long_is_named(server: Server) -> None:
    """The request is halved until the text is alone; the others have their vectors."""
    server.longest = 60
    endpoint, clock = at(server)
    long = "w7 " * 30
    said = refusal(endpoint, [*TEXTS[:5], long, "w1"])
    assert f"refuses a text of 90 characters that begins {long[:40]!r} (400: This model's maximum context" in said
    assert said.endswith("use shorter documents, or raise the limit of the server.")
    assert server.bodies[-1]["input"] == [long]
    assert clock.waits == []


def test_the_key_is_sent_and_never_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.key = "right"
    monkeypatch.setenv("OPENAI_API_KEY", " right\n")
    np.testing.assert_array_equal(at(server)[0].encode(TEXTS), embed(TEXTS))
    monkeypatch.setenv("OTHER", "sk-wrong")
    said = refusal(at(server, api_key_env="OTHER")[0])
    assert "refuses the key in OTHER (401: wrong key Bearer …): set the environment variable OTHER" in said
    assert "sk-wrong" not in said
    server.script.extend([says(500, {"error": "sk-wrong is busy"})] * 9)
    assert "sk-wrong" not in refusal(at(server, api_key="sk-wrong", patience=1)[0])
    assert server.keys[0] == "Bearer right"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "refuses no key, because OPENAI_API_KEY is not set" in refusal(at(server)[0])
    for key in ("two words", "schlüssel"):
        with pytest.raises(EncodingError) as caught:
            Endpoint(server.url, "words", api_key=key)
        assert key not in str(caught.value)
    with pytest.raises(EncodingError, match="the environment variable NOT_THERE is not set"):
        Endpoint(server.url, "words", api_key_env="NOT_THERE")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:8000/v1", "begins with http:// or https://, such as http://localhost:8000/v1, got 'localhost"),
        ("ftp://host/v1", "begins with http://"),
        ("", "begins with http://"),
        ("http://", "begins with http://"),
        ("http://host:port/v1", "'http://host:port/v1' is not an address"),
        ("https://user:hush@host/v1", "has no user, query or fragment"),
        ("user:hush@host/v1", "begins with http://"),
        ("https://host/v1?key=hush", "put a key into an environment variable"),
    ],
)
def test_addresses_that_are_none(url: str, said: str) -> None:
    with pytest.raises(EncodingError) as caught:
        Endpoint(url, "m")
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": " "}, "needs the name of a model"),
        ({"concurrency": 0}, "concurrency must be a whole number of at least 1"),
        ({"batch": True}, "batch must be a whole number"),
        ({"dimensions": -1}, "dimensions must be a whole number"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"patience": math.inf}, "patience must be a number of seconds"),
        ({"body": [1]}, "body must be a JSON object"),
        ({"body": {"input": "x"}}, "body may not set input"),
        ({"query_body": {"x": object()}}, "query_body cannot be written as JSON"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises((EncodingError, DesignError), match=said):
        Endpoint(**{"url": "http://host/v1", "model": "m", **options})


def test_it_is_public_and_light() -> None:
    assert fairspan.Endpoint is Endpoint
    assert repr(Endpoint("http://host", "m")) == "Endpoint('http://host/v1', 'm')"


# Several requests at a time.


def test_jobs_at_a_time_and_a_failure_among_them() -> None:
    """Nothing begins after the failure; what was under way is given before it is raised."""
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 3:
            raise ValueError(number)
        return number * number

    assert dict(in_parallel(lambda one: one * one, range(50), 4)) == {one: one * one for one in range(50)}
    found: dict[int, int] = {}
    with pytest.raises(ValueError, match="3"):
        found.update(in_parallel(work, range(1000), 4))
    assert found == {one: one * one for one in begun if one != 3}
    assert len(begun) < 1000


def test_every_answer_is_stored_at_once(server: Server) -> None:
    """The third of five requests fails: the others are in the store, and only its texts are sent again."""
    endpoint, _ = at(server, batch=2, concurrency=2)
    encoder, texts = ObjectEncoder(endpoint), [Text(text, len(text)) for text in TEXTS]
    server.script.extend([server.answer, server.answer, says(400)])
    with Store(":memory:") as store:
        settings: dict[str, Any] = {"budget": 1000, "tally": Tally(), "progress": lambda tokens: None}
        with pytest.raises(EncodingError, match=r"\(400: told to\)\. What was answered is in the store"):
            fill(encoder, texts, store, **settings)
        # The two texts of the failed request, and of those behind it what had not been answered when it came back.
        assert len(store.missing([encoder.key(text) for text in texts])) in (2, 4, 6)
        fill(encoder, texts, store, **settings)
        assert not store.missing([encoder.key(text) for text in texts])
        assert server.twice == 2
        found = store.get([encoder.key(text) for text in texts])
        np.testing.assert_array_equal(np.stack([found[encoder.key(text)] for text in texts]), embed(TEXTS))
