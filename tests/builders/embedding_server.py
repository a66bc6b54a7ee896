"""A small `/v1/embeddings` in a thread, which does as it is told, also what it should not."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import numpy as np
import pytest

DIMENSIONS = 16
Body = dict[str, Any]


def embed(texts: Sequence[str]) -> np.ndarray:
    """A vector per text of its words, of which early ones count more."""
    return np.stack([_embed(text) for text in texts])


def _embed(text: str) -> np.ndarray:
    found = np.zeros(DIMENSIONS)
    for place, word in enumerate(text.split()):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
        found += np.random.default_rng(seed).standard_normal(DIMENSIONS) / (1 + place / 50)
    return found.astype(np.float32)


class Words:
    """The same as an object with `encode`."""

    def encode(self, sentences: list[str], /) -> np.ndarray:
        return embed(sentences)


@dataclass
class Server:
    """What it is to do, and what it was asked.

    Attributes:
        script: what the next requests are answered with, one after another; then all get vectors.
        key: requests without it are refused.
        longest, most: characters of a text and texts in a request that are too many.
        cut: characters after which texts are cut without a word.
        wait: seconds that an answer takes.
    """

    script: deque[Callable[[Handler, Body], None]] = field(default_factory=deque)
    key: str | None = None
    longest: int | None = None
    most: int | None = None
    cut: int | None = None
    wait: float = 0.0
    change: Callable[[Body], Any] = lambda answer: answer
    over: bool = False
    bodies: list[Body] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def texts(self) -> list[str]:
        """Everything that was sent, in order."""
        return [text for body in self.bodies for text in body["input"]]

    @property
    def twice(self) -> int:
        return sum(count - 1 for count in Counter(self.texts).values())

    def answer(self, handler: Handler, body: Body) -> None:
        texts: list[str] = body["input"]
        sent = handler.headers.get("Authorization")
        if self.key is not None and sent != f"Bearer {self.key}":
            handler.say(401, {"error": {"message": f"wrong key {sent}"}})
        elif self.most is not None and len(texts) > self.most:
            sizes = f"{len(texts)} > maximum allowed batch size {self.most}"
            handler.say(422, {"error": f"batch size {sizes}"})
        elif self.longest is not None and max(map(len, texts)) > self.longest:
            handler.say(400, {"message": "This model's maximum context length is 512 tokens."})
        else:
            handler.say(200, self.change(self.vectors(body)))

    def vectors(self, body: Body) -> Body:
        read = [text[: self.cut] for text in body["input"]]
        found = embed(read)[:, : body.get("dimensions")].tolist()
        data = [{"index": place, "embedding": vector} for place, vector in enumerate(found)]
        usage = {"prompt_tokens": sum(len(text.split()) for text in read)}
        return {"model": body["model"], "data": data, "usage": usage}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: Server

    def do_POST(self) -> None:
        told = self.told
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with told.lock:
            told.bodies.append(body)
            told.keys.append(self.headers.get("Authorization"))
            told.at_once += 1
            told.most_at_once = max(told.most_at_once, told.at_once)
            act = hangs_up if told.over else told.script.popleft() if told.script else told.answer
        try:
            time.sleep(told.wait)
            act(self, body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # whoever asked was killed
        finally:
            with told.lock:
                told.at_once -= 1

    def say(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *said: Any) -> None:
        pass


def says(status: int, answer: Any = None, **headers: str) -> Callable[[Handler, Body], None]:
    """An answer for the script of a server; names of headers with _ for -."""
    written = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = answer or {"error": {"message": "told to"}}
    return lambda handler, body: handler.say(status, reply, written)


def hangs_up(handler: Handler, body: Body) -> None:
    handler.close_connection = True
    handler.connection.close()


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    pytest.importorskip("openai", reason="needs the extra endpoint")
    told = Server(**settings)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"told": told}))
    server.daemon_threads = True
    told.port = server.server_port
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield told
    finally:
        told.over = True
        server.shutdown()
        server.server_close()
