"""A server in a process of its own, and clients that leave, flood and lie; how it ends."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairspan.encoding.direct import DirectEncoder
from tests.builders.commands import Commands, Run, Started
from tests.builders.tiny import words

pytest.importorskip("uvicorn", reason="needs fairspan[serve]")

# A text of 50 tokens takes half a second, or as long as a test says.
_SLOW = """
import time
from fairspan.encoding.direct import DirectEncoder
vectors = DirectEncoder.vectors
def slow(self, batch):
    time.sleep({seconds} if any(one.read == 50 for one in batch) else 0)
    return vectors(self, batch)
DirectEncoder.vectors = slow
"""
SLOW = words(48)
SOON = 30.0
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@dataclass(frozen=True)
class Server:
    process: Started
    port: int

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=SOON)

    def request(self, *request: Any) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        connection.request(*request)
        reply = connection.getresponse()
        found = reply.status, reply.read().decode()
        connection.close()
        return found

    def get(self, path: str) -> tuple[int, str]:
        return self.request("GET", path)

    def ask(self, given: Any, **headers: str) -> tuple[int, Any]:
        body = json.dumps({"input": given})
        status, reply = self.request("POST", "/v1/embeddings", body, JSON | headers)
        return status, json.loads(reply)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        assert found is not None
        return float(found[1])

    def wait_for(self, name: str, value: float) -> None:
        end = time.monotonic() + SOON
        while self.metric(name) != value:
            assert time.monotonic() < end, f"{name} did not become {value}"
            time.sleep(0.01)

    def is_ready(self) -> bool:
        with suppress(ConnectionRefusedError):
            return self.get("/health")[0] == 200
        return False

    def is_well(self) -> None:
        assert self.ask(["w1", "w2"])[0] == 200


def request_bytes(given: Any) -> bytes:
    body = json.dumps({"input": given}).encode()
    return HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def read_all(connection: socket.socket) -> bytes:
    found = b""
    while part := connection.recv(65536):
        found += part
    return found


@contextmanager
def serving(
    commands: Commands,
    model: Path,
    *words: str,
    seconds: float = 0.5,
    before: str = "",
    how: signal.Signals | None = signal.SIGTERM,
) -> Iterator[Server]:
    """A server in a process of its own, ended by a signal unless a test does it.

    The model is the plain one, which reads 512 tokens.
    """
    before += _SLOW.format(seconds=seconds)
    typed = ("serve", model, "--port", "0", "--preset", "plain", *words)
    process = commands.start(model.parent, *typed, before=before)
    stop = time.monotonic() + SOON
    server = None
    while server is None or not server.is_ready():
        assert time.monotonic() < stop, process.stderr.read_text()
        time.sleep(0.02)
        said = process.stderr.read_text()
        if found := re.search(r"on http://127\.0\.0\.1:(\d+)$", said, re.MULTILINE):
            server = Server(process, int(found[1]))
    yield server
    if how is not None:
        process.signal(how)
        assert process.wait().code == 0


@pytest.fixture(scope="module")
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


@pytest.fixture(scope="module")
def server(commands: Commands, model: Path) -> Iterator[Server]:
    with serving(commands, model, "--max-request-bytes", "1000000") as server:
        yield server


def test_a_client_that_leaves_is_forgotten(server: Server) -> None:
    before = server.metric("fairspan_cancelled_requests_total")
    texts = server.metric("fairspan_texts_total")
    with server.connect() as first, server.connect() as leaves:
        first.sendall(request_bytes([SLOW]))
        server.wait_for("fairspan_queue_requests", 1.0)
        leaves.sendall(request_bytes([words(5)] * 100))
        server.wait_for("fairspan_queue_requests", 2.0)
        leaves.close()
        server.wait_for("fairspan_queue_requests", 1.0)
        assert first.recv(100).startswith(b"HTTP/1.1 200")
    server.wait_for("fairspan_cancelled_requests_total", before + 1)
    assert server.metric("fairspan_texts_total") == texts + 1
    server.is_well()


@pytest.mark.parametrize(
    ("sent", "chunked"), [(0, False), (0, True), (1_500_000, False), (20_000_000, True)]
)
def test_a_huge_body_is_refused(server: Server, sent: int, chunked: bool) -> None:
    """Also while the client is still sending: the connection is not reset before the reply."""
    head = HEAD + b"Content-Length: %d\r\n\r\n" % (sent or 10**12)
    body = b"x" * sent
    if chunked:
        head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (sent or 10**7, b"x" * (sent or 2 * 10**6))
    with server.connect() as connection:
        connection.sendall(head + body)
        assert connection.recv(100).startswith(b"HTTP/1.1 413")
    server.is_well()


def test_a_body_without_end_is_not_read_forever(commands: Commands, model: Path) -> None:
    """Here up to 10 MB beyond the limit."""
    little = "import fairspan.serving.app as app; app._DROPPED_BYTES = 10**7\n"
    part = b"%x\r\n%s\r\n" % (10**6, b"x" * 10**6)
    limit = ("--max-request-bytes", "1000000")
    with serving(commands, model, *limit, before=little) as server, server.connect() as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        with pytest.raises(ConnectionError):
            connection.sendall(part * 100)
        server.is_well()


def test_unfinished_bodies_do_not_keep_short_requests_out(server: Server) -> None:
    held = [server.connect() for _ in range(60)]
    for connection in held:
        connection.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n" + b" " * 900_000)
    server.is_well()
    for connection in held:
        connection.close()
    # Received, and read.
    assert server.ask("w1" + " " * 900_000)[0] == 200


GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"a: " + b"x" * 300_000,
        b"GARBAGE\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_request(server: Server, sent: bytes) -> None:
    """Heads without end, and what is not HTTP."""
    with server.connect() as connection, suppress(ConnectionError):
        connection.sendall(sent)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    server.is_well()


def test_the_key_from_the_environment(commands: Commands, model: Path) -> None:
    """Without the blanks around it. And the server ends by Ctrl+C."""
    key = "import os; os.environ['FAIRSPAN_API_KEY'] = ' secret\\n'\n"
    with serving(commands, model, before=key, how=signal.SIGINT) as server:
        assert server.ask("w1")[0] == 401
        assert server.ask("w1", Authorization="Bearer secret")[0] == 200


def test_what_arrives_in_part_is_no_error_of_the_server(commands: Commands, model: Path) -> None:
    """A body that ends halfway, and after a second here one that does not arrive."""
    short = "import fairspan.serving.app as app; app._BODY_SECONDS = 1.0\n"
    with serving(commands, model, before=short) as server:
        assert server.get("/")[0] == 404
        with server.connect() as connection:
            connection.sendall(request_bytes("w1")[:-3])
            assert read_all(connection).startswith(b"HTTP/1.1 408")
        with server.connect() as connection:
            connection.sendall(request_bytes("w1")[:-3])
            time.sleep(0.2)
        server.is_well()
        assert "Traceback" not in server.process.stderr.read_text()


def test_the_end_waits_for_what_is_in_flight(commands: Commands, model: Path) -> None:
    with serving(commands, model, seconds=1.0, how=None) as server, server.connect() as client:
        with server.connect() as idle:
            client.sendall(request_bytes([SLOW, "w1"]))
            server.wait_for("fairspan_queue_requests", 1.0)
            start = time.monotonic()
            server.process.signal(signal.SIGTERM)
            assert client.recv(100).startswith(b"HTTP/1.1 200")
            ended = server.process.wait()
            assert (ended.code, ended.stdout) == (0, "")
            assert len(ended.lines) == 1, ended.stderr
            assert time.monotonic() - start < 10
            assert idle.recv(10) == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()


@contextmanager
def stopping(commands: Commands, model: Path) -> Iterator[tuple[Server, socket.socket]]:
    """A server that got SIGTERM while it computes for a minute, and its client."""
    with serving(commands, model, seconds=60.0, how=None) as server, server.connect() as client:
        client.sendall(request_bytes([SLOW]))
        server.wait_for("fairspan_queue_requests", 1.0)
        server.process.signal(signal.SIGTERM)
        yield server, client


def test_ctrl_c_ends_at_once_while_it_ends(commands: Commands, model: Path) -> None:
    with stopping(commands, model) as (server, _):
        time.sleep(0.3)
        start = time.monotonic()
        server.process.signal(signal.SIGINT)
        assert server.process.wait().code == 1
        assert time.monotonic() - start < 5


@pytest.mark.slow
def test_the_end_does_not_wait_forever(commands: Commands, model: Path) -> None:
    with stopping(commands, model) as (server, client):
        start = time.monotonic()
        # Whoever waited is told.
        assert client.recv(100).startswith(b"HTTP/1.1 503")
        ended = server.process.wait()
        assert time.monotonic() - start < 10
        assert ended.code == 1
        assert "ended before all requests were answered" in ended.stderr
        assert "Traceback" not in ended.stderr


# Mistakes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--host nowhere.invalid", "cannot listen on nowhere.invalid:8000: "),
        ("--host 192.0.2.1 --port 0", "cannot listen on 192.0.2.1:0: "),
        (
            "--preset plain --max-seq-length 9999",
            "max_seq_length=9999 is more than the model's 600 positions",
        ),
        ("--preset fair --calibration x.json", "preset and calibration both"),
        ("--api-key schlüssel", "printable ASCII"),
        ("--api-key 'two words'", "and no blanks"),
    ],
)
def test_mistakes_are_one_line(run: Run, model: Path, options: str, said: str) -> None:
    run("serve", model, *shlex.split(options)).is_one_line(said)


def test_what_the_machine_lacks_is_one_line(
    run: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory for a batch, or a package."""

    def full(self: Any, batch: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB.\nMore.")

    monkeypatch.setattr(DirectEncoder, "vectors", full)
    said = "use a smaller max_batch_tokens or max_seq_length"
    run("serve", model, "--port", "0").is_one_line(said)
    monkeypatch.setattr("fairspan.cli.serve._NEEDED", ("uvicorn", "not_there"))
    run("serve", model).is_one_line("serving needs not_there: pip install 'fairspan[serve]'")
