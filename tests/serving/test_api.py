"""The server's API, in this process: what is answered, what is refused and how."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers.normalizers import BertNormalizer

from fairspan import calibrate
from fairspan.encoding.direct import DirectEncoder
from fairspan.serving.limits import Limits
from tests.builders.saying import said_by
from tests.builders.tiny import words

pytest.importorskip("starlette", reason="needs fairspan[serve]")
from starlette.testclient import TestClient

from fairspan.serving.app import make_app
from fairspan.serving.service import Service

Model = SentenceTransformer
Patch = pytest.MonkeyPatch
MakeTiny = Callable[..., Model]
QUERY, DOCUMENT, TASK = "w1 w2 ", "w7 ", "w5 w5 w5 "


@pytest.fixture(scope="module")
def model(make_tiny: MakeTiny) -> Model:
    made = make_tiny("bert", "mean", hidden_size=64)
    made.max_seq_length = 60
    # As MiniLM's, it drops what has no width.
    made.tokenizer.backend_tokenizer.normalizer = BertNormalizer(lowercase=False)
    made.prompts = {"query": QUERY, "document": DOCUMENT, "clustering": TASK}
    return made


@pytest.fixture(scope="module")
def tiled(model: Model) -> Model:
    """It reads any length."""
    return calibrate(model, "tiles-64", short_texts="leave")


@contextmanager
def serving(
    model: Model, *, key: str | None = None, allowed_hosts: Any = (), **options: Any
) -> Iterator[Any]:
    limits = Limits(max_batch_tokens=512)
    service = Service(model, **{"name": "tiny", "limits": limits, **options})
    app = make_app(service, key=key, allowed_hosts=allowed_hosts)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def close(found: np.ndarray, expected: Any) -> None:
    """Sums of a few hundred float32 products in another order; vectors of length 1 or a few."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-6)


@pytest.fixture(scope="module")
def client(model: Model) -> Iterator[Any]:
    with serving(model, aliases=["some/tiny"]) as client:
        yield client


def ask(client: Any, given: Any, **more: Any) -> Any:
    return client.post("/v1/embeddings", json={"model": "tiny", "input": given, **more})


def post(client: Any, content: Any, **headers: str) -> Any:
    headers = {"Content-Type": "application/json", **headers}
    return client.post("/v1/embeddings", content=content, headers=headers)


def vectors_of(reply: Any) -> np.ndarray:
    assert reply.status_code == 200, reply.text
    return np.array([one["embedding"] for one in reply.json()["data"]], dtype=np.float32)


def refused(
    reply: Any, status: int, said: str, param: str | None = None, code: str | None = None
) -> None:
    """As OpenAI says it."""
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"]
    assert (error["param"], error["code"]) == (param, code)


TEXTS = [words(3), words(40, 1), words(17, 2)]


def test_a_list_of_texts(client: Any, model: Model) -> None:
    reply = ask(client, TEXTS)
    close(vectors_of(reply), model.encode_document(TEXTS))
    body = reply.json()
    data = [(row["object"], row["index"]) for row in body.pop("data")]
    assert data == [("embedding", 0), ("embedding", 1), ("embedding", 2)]
    # One token a word; each text has two special tokens and one of the prompt.
    tokens = 3 + 40 + 17 + 9
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    assert body == {"object": "list", "model": "tiny", "usage": usage}
    close(vectors_of(ask(client, TEXTS[0])), model.encode_document(TEXTS[:1]))


@pytest.mark.parametrize("ids", [[5, 6], [[5, 6], [7]], [[100_000]]])
def test_token_ids_are_refused(client: Any, ids: Any) -> None:
    """OpenAI's clients send those of tiktoken, which would be other words."""
    said = "LangChain's OpenAIEmbeddings does with check_embedding_ctx_length=False"
    refused(ask(client, ids), 400, said, "input", "token_ids_not_supported")


def test_base64_holds_the_same_numbers(client: Any) -> None:
    """Decimals are the shortest that are read as the same float32; the batches are alike."""
    coded = ask(client, TEXTS, encoding_format="base64").json()["data"]
    decoded = [np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4") for row in coded]
    np.testing.assert_array_equal(vectors_of(ask(client, TEXTS)), decoded)


@pytest.mark.parametrize(
    ("asked", "prompt"),
    [
        ({"input_type": "query"}, "query"),
        ({"input_type": "search_query"}, "query"),
        ({"input_type": "passage"}, "document"),
        ({"prompt_name": "query"}, "query"),
        ({"prompt_name": "clustering"}, "clustering"),
        ({"model": "tiny-query"}, "query"),
        ({"model": "some/tiny-query", "input_type": "query"}, "query"),
        ({"model": "tiny-document"}, "document"),
        ({"model": None, "user": "somebody", "unknown": [1, {}]}, "document"),
    ],
    ids=str,
)
def test_sides_and_prompts(client: Any, model: Model, asked: dict[str, Any], prompt: str) -> None:
    close(vectors_of(ask(client, ["w3 w4"], **asked)), model.encode(["w3 w4"], prompt_name=prompt))
    vectors = [model.encode("w3 w4", prompt_name=name) for name in model.prompts]
    assert all(np.abs(other - vectors[0]).max() > 0.01 for other in vectors[1:]), "the premise"


NO_INPUT = [None, 5, {"text": "w1"}, ["w1", 5], [[]], [["w1"]], [True]]
EMPTY = ["", [], [""], " \t\u00a0", "\0\0", "\u200b\ufeff"]
SECOND_EMPTY = [["w1", ""], ["w1", "\u200b"]]
BAD_VALUES: list[tuple[str, Any, str]] = [
    *(("input", value, "must be a string or a list of strings") for value in NO_INPUT),
    *(("input", value, "'input' is empty: it gives the model no token") for value in EMPTY),
    *(("input", value, "'input[1]' is empty: it gives") for value in SECOND_EMPTY),
    ("encoding_format", "", "'float' or 'base64', got ''"),
    ("encoding_format", ["float"], "'float' or 'base64', got ['float']"),
    ("dimensions", "8", "at least 1, got '8'"),
    ("dimensions", True, "at least 1, got True"),
    ("dimensions", 1000, "more than the 64 of the vectors"),
    ("input_type", "title", "search_document, got 'title'"),
    ("input_type", {}, "search_document, got {}"),
    ("prompt_name", "s2s", "query, document, clustering, got 's2s'"),
    ("prompt_name", {}, "query, document, clustering, got {}"),
]
OTHER_MISTAKES: list[tuple[dict[str, Any], str, str | None, str]] = [
    ({"input": "w1 \ud800"}, "not JSON in UTF-8", None, "invalid_json"),
    ({"dimensions": 8}, "not known to be trained", "dimensions", "unsupported_value"),
    (
        {"model": "tiny-query", "input_type": "passage"},
        "one side",
        "input_type",
        "conflicting_sides",
    ),
    (
        {"input": ["w1", words(58)]},
        "'input[1]' has 61 tokens, prompt and special tokens included; this model reads 60",
        "input",
        "context_length_exceeded",
    ),
]


@pytest.mark.parametrize(
    ("asked", "said", "param", "code"),
    [
        *(({name: value}, said, name, "invalid_value") for name, value, said in BAD_VALUES),
        *OTHER_MISTAKES,
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)
def test_what_is_refused(
    client: Any, asked: dict[str, Any], said: str, param: str, code: str
) -> None:
    refused(post(client, json.dumps({"input": "w1", **asked})), 400, said, param, code)


@pytest.mark.parametrize("name", ["other", "tiny-queries", "-query", "", 5, {}])
def test_an_unknown_model(client: Any, name: Any) -> None:
    reply = client.post("/v1/embeddings", json={"input": "w1", "model": name})
    refused(reply, 404, "Served: tiny, tiny-query, tiny-document", "model", "model_not_found")


@pytest.mark.parametrize("field", ["model", "input_type", "encoding_format"])
def test_a_long_name_is_not_repeated(client: Any, field: str) -> None:
    reply = post(client, json.dumps({"input": "w1", field: ["x" * 10**6] * 2}))
    assert len(reply.content) < 1000


def test_pages_of_other_sites_are_refused(model: Model) -> None:
    """By DNS rebinding, a page has its own name for the server; else browsers ask first."""
    hosts = ["localhost", "embed.example", "*.inside.example"]
    body = json.dumps({"input": "w1"})
    with serving(model, allowed_hosts=hosts) as client:
        asking = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
        asked = client.options("/v1/embeddings", headers=asking)
        assert asked.status_code == 405
        assert not any("access-control" in name for name in asked.headers)
        for host in ("Embed.example", "embed.example:8443", "a.inside.example"):
            assert post(client, body, Host=host).status_code == 200
        for host in ("127.0.0.1:80,evil.example", "localhost.evil.example", "["):
            assert post(client, body, Host=host).status_code == 400
        for kind in ("", "text/plain", "application/x-www-form-urlencoded"):
            assert post(client, body, **{"Content-Type": kind}).status_code == 415
        for kind in ("application/json", "Application/JSON; charset=utf-8"):
            assert post(client, body, **{"Content-Type": kind}).status_code == 200


def test_hosts_by_default(model: Model, client: Any) -> None:
    """Names of this machine without a key, and any with one."""
    body = json.dumps({"input": "w1"})
    for host, status in (("127.0.0.1:80", 200), ("[::1]:80", 200), ("evil.example", 400)):
        assert post(client, body, Host=host).status_code == status
    with serving(model, key="secret") as client:
        behind_a_proxy = {"Host": "evil.example", "Origin": "http://other.example"}
        assert post(client, body, **behind_a_proxy, Authorization="Bearer secret").is_success
    assert "got 'a*.example'" in said_by(make_app, Mock(), allowed_hosts=["a*.example"])


LONE = '{"input": "w1", "user": "\ud800"}'
SURROGATES = [LONE.encode("utf-8", "surrogatepass"), LONE.replace("\ud800", "\\uD800").encode()]
UTF_16 = '{"input": "w1"}'.encode("utf-16")
NO_JSON = [b"", b"{", b"nonsense", b"\xff\xfe", b"[" * 10**5, b'"input"', b"[]", UTF_16]


@pytest.mark.parametrize("body", [*NO_JSON, *SURROGATES])
def test_what_is_no_request(client: Any, body: bytes) -> None:
    refused(post(client, body), 400, "The body", None, "invalid_json")
    # Surrogates in pairs are a character.
    body = '{"input": "w1 \\ud83d\\ude00", "user": "\U0001f600"}'.encode()
    assert len(vectors_of(post(client, body))) == 1


def test_dimensions_of_a_model_that_says_so(make_tiny: MakeTiny, tmp_path: Path) -> None:
    """Its card names the training; cut vectors are of length 1."""
    make_tiny("bert", "mean").save_pretrained(str(tmp_path), create_model_card=False)
    (tmp_path / "README.md").write_text("Trained with MatryoshkaLoss.", encoding="utf-8")
    model = SentenceTransformer(str(tmp_path), device="cpu")
    texts = ["w1 w2", "w3"]
    expected = model.encode_document(texts)
    cut = expected[:, :8] / np.linalg.norm(expected[:, :8], axis=1, keepdims=True)
    for served, options in ((model, {}), (make_tiny("bert", "mean"), {"force_dimensions": True})):
        with serving(served, **options) as client:
            close(vectors_of(ask(client, texts, dimensions=8)), cut)
            close(vectors_of(ask(client, texts, dimensions=32)), expected)


def test_truncated_texts_are_named(model: Model) -> None:
    with serving(model, truncate=True) as client:
        asked = [words(5), words(100, 1), words(57, 2), words(58, 3)]
        reply = ask(client, asked)
        close(vectors_of(reply), model.encode_document(asked))
        assert reply.json()["truncated"] == [1, 3]
        assert reply.headers["X-Fairspan-Truncated"] == "2"
        assert reply.json()["usage"]["prompt_tokens"] == 8 + 60 + 60 + 60
        short = ask(client, "w1")
        assert short.json()["truncated"] == []
        assert "X-Fairspan-Truncated" not in short.headers
        assert "fairspan_truncated_texts_total 2.0" in client.get("/metrics").text


@pytest.mark.parametrize(
    ("limits", "given", "said", "param"),
    [
        (Limits(max_inputs=3), ["w1"] * 4, "has 4 texts; a request may have at most 3", "input"),
        (Limits(max_request_tokens=20), [words(10)] * 2, "26 tokens; at most 20 are", "input"),
        (Limits(max_request_bytes=200), words(100), "larger than 200 bytes", None),
        (Limits(max_request_tokens=100_000), " " * 1_600_000, "larger than 1,600,000 bytes", None),
        (Limits(max_request_tokens=20), "w1 " * 500, "503 tokens; at most 20 are", "input"),
    ],
)
def test_a_request_that_is_too_large(
    tiled: Model, limits: Limits, given: Any, said: str, param: str | None
) -> None:
    with serving(tiled, limits=limits) as client:
        whole = json.dumps({"model": "tiny", "input": given}).encode()
        # Also where no header says how large it is.
        for body in (whole, (whole[n : n + 50] for n in range(0, len(whole), 50))):
            refused(post(client, body), 413, said, param, "request_too_large")
        assert ask(client, "w1").status_code == 200


def test_a_full_queue_says_when_to_come_again(model: Model, monkeypatch: Patch) -> None:
    with serving(model) as client:
        batcher = client.app.state.service.batcher
        for name, value in (("room", 10), ("tokens", 9), ("speed", 2.0)):
            monkeypatch.setattr(batcher, name, value)
        reply = ask(client, words(7))
        refused(reply, 429, "The queue is full", None, "rate_limit_exceeded")
        # 9 and 10 tokens are 9 too many, which takes 4.5 s.
        assert reply.headers["Retry-After"] == "5"
        # A body is not even read when there is no room for a token.
        monkeypatch.setattr(batcher, "tokens", 10)
        refused(post(client, b"{"), 429, "The queue is full", None, "rate_limit_exceeded")


def test_vectors_that_are_none(model: Model, monkeypatch: Patch) -> None:
    values = {7: np.nan, 8: np.inf, 9: 0.0}

    def spoilt(self: Any, batch: Any) -> np.ndarray:
        return np.array([[values.get(one.read, 1.0)] * 64 for one in batch], dtype=np.float32)

    with serving(model) as client:
        monkeypatch.setattr(DirectEncoder, "vectors", spoilt)
        for length in (4, 5, 6):  # a prompt of one token, and two special ones
            reply = ask(client, [words(3), words(length)])
            said = "a vector for 'input[1]' that is all zero or not numbers"
            refused(reply, 500, said, "input", "unusable_vector")
        assert ask(client, words(3)).status_code == 200
        assert "fairspan_unusable_vectors_total 3.0" in client.get("/metrics").text


def test_a_new_prompt_under_a_steady_stream(model: Model, monkeypatch: Patch) -> None:
    """Making its encoder takes long, and requests that come meanwhile wait for it. No tokenizer is
    copied for it."""
    read = DirectEncoder.read

    def slow(self: DirectEncoder, texts: Any) -> Any:
        if texts == [""]:
            time.sleep(0.3)
        return read(self, texts)

    def later(delay: float) -> int:
        time.sleep(delay)
        return int(ask(client, "w3 w4", prompt_name="clustering").status_code)

    with serving(model) as client, ThreadPoolExecutor(8) as pool:
        monkeypatch.setattr(DirectEncoder, "read", slow)
        for name in ("fairspan.encoding.direct.copy_sharing_weights", "copy.deepcopy"):
            monkeypatch.setattr(name, Mock(side_effect=AssertionError("a copy")))
        assert list(pool.map(later, np.arange(8) * 0.06)) == [200] * 8


def test_no_thread_is_left_when_the_app_ends(tiled: Model) -> None:
    before = set(threading.enumerate())
    with serving(tiled) as client:
        assert ask(client, ["w1", "w1 " * 25_000]).status_code == 200
        started = set(threading.enumerate()) - before
        assert {thread.name.partition("_")[0] for thread in started} >= {"short", "long", "large"}
    for thread in started:
        thread.join(10)
        assert not thread.is_alive(), thread.name


def test_a_long_text_beside_short_ones(tiled: Model) -> None:
    """Two passes at once through one model: every vector is that of its text alone."""
    long = words(6000)
    with serving(tiled) as client, ThreadPoolExecutor(1) as other:
        short = [words(n, n) for n in range(3, 50, 5)]
        alone = [vectors_of(ask(client, text)) for text in short]
        long_alone = vectors_of(ask(client, long))
        running = other.submit(ask, client, long)
        beside = 0
        while not running.done():
            number = beside % len(short)
            assert np.array_equal(vectors_of(ask(client, short[number])), alone[number])
            beside += 1
        assert np.array_equal(vectors_of(running.result()), long_alone)
        assert beside > 1


def test_metrics_count(model: Model) -> None:
    with serving(model) as client:
        ask(client, [words(5), words(6)])
        ask(client, "")
        lines = client.get("/metrics").text.splitlines()
    expected = {
        'requests_total{status="200"}': 1,
        'requests_total{status="400"}': 1,
        "texts_total": 2,
        "tokens_total": 5 + 6 + 6,
        "batch_texts_sum": 2,
        "batch_tokens_sum": 2 * 9,
        "queue_requests": 0,
        "queue_tokens": 0,
        "request_seconds_count": 1,
        "queue_seconds_count": 1,
        "model_seconds_count": 1,
    }
    assert {f"fairspan_{name} {value}.0" for name, value in expected.items()} <= {*lines}


def test_the_key(model: Model) -> None:
    with serving(model, key="secret") as client:
        assert client.get("/health").status_code == 200
        api = ["/v1/models", "/v1/models/tiny", "/v1/embeddings", "/info", "/metrics"]
        for path in (*api, "/", "/nowhere"):
            for sent in (None, "Bearer wrong", "secret", "ö"):
                headers = {} if sent is None else {"Authorization": sent.encode()}
                reply = client.get(path, headers=headers)
                refused(reply, 401, "API key", None, "invalid_api_key")
                assert reply.headers["WWW-Authenticate"] == "Bearer"
        for scheme in ("Bearer", "bearer"):
            reply = client.get("/v1/models", headers={"Authorization": f"{scheme} secret"})
            assert reply.status_code == 200


def test_health_follows_the_device(model: Model) -> None:
    with serving(model) as client:
        assert client.get("/health").json() == {"status": "ready"}
        client.app.state.service.batcher.long.broken = RuntimeError("CUDA error")
        reply = client.get("/health")
        assert (reply.status_code, reply.json()) == (503, {"status": "broken"})
