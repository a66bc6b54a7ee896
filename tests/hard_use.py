"""`fairspan serve` under attack: how long short requests of others take, memory before and after, time to end.

    python -m tests.hard_use [--seconds 120] [--clients 50] [--only NAME]

For each attack a server with the small default model is started. Clients send one short text after another, first
alone and then beside the attack; the difference is what the attack costs. Everything stays on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

BYTES = 15 * 2**20
HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
QUIET = 5.0
"""Seconds without an attack, before and after."""


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    port: int

    @property
    def memory(self) -> float:
        """Resident, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1000  # type: ignore[index]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@dataclass
class Load:
    """What clients saw that sent short texts all the time."""

    seconds: list[float] = field(default_factory=list)
    failures: int = 0

    def run(self, server: Server, until: float, clients: int) -> Load:
        threads = [Thread(target=self._client, args=(server, until)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self

    def _client(self, server: Server, until: float) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        while time.monotonic() < until:
            start = time.monotonic()
            try:
                body = json.dumps({"input": "What is the capital of France?"})
                connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
                reply = connection.getresponse()
                reply.read()
                self.failures += reply.status != 200
            except (OSError, http.client.HTTPException):
                self.failures += 1
                connection.close()
            self.seconds.append(time.monotonic() - start)
        connection.close()


Attack = Callable[[Server, float], None]


def sending(content: bytes, path: str = "/v1/embeddings", *, stays: bool = True) -> Attack:
    """One request after another with this body, whose reply is read or whose client leaves."""
    sent = HEAD.format(path=path, size=len(content)).encode() + content

    def attack(server: Server, until: float) -> None:
        while time.monotonic() < until:
            with suppress(OSError), server.connect() as one:
                one.sendall(sent)
                if stays:
                    one.recv(65536)
            time.sleep(0.05)

    return attack


def holding(sent: bytes, count: int) -> Attack:
    """Sockets that send this much and then nothing, until the server closes them; each is then opened again."""

    def attack(server: Server, until: float) -> None:
        while time.monotonic() < until:
            held = [server.connect() for _ in range(count)]
            for one in held:
                with suppress(OSError):
                    one.sendall(sent)
            start = time.monotonic()
            for one in held:
                with suppress(OSError):
                    one.settimeout(max(0.1, min(start + 30, until + 30) - time.monotonic()))
                    while one.recv(65536):
                        pass
                one.close()
            time.sleep(0.05)

    return attack


def endless(line: bytes) -> Attack:
    """A head without an end, of 200 MB at most."""

    def attack(server: Server, until: float) -> None:
        while time.monotonic() < until:
            with suppress(OSError), server.connect() as one:
                one.sendall(b"GET /health HTTP/1.1\r\n")
                for _ in range(3200):
                    one.sendall(line)
            time.sleep(0.05)

    return attack


def texts(*given: str) -> bytes:
    return json.dumps({"input": given}).encode()


PROSE = "The quick brown fox jumps over the lazy dog. "
PAGE = json.dumps({"name": "Document 1", "text": "\n\n".join([PROSE * 20] * 90)}).encode()
# Attack, and by how many at a time.
ATTACKS: dict[str, tuple[Attack, int]] = {
    "15 MB in one text": (sending(texts(PROSE * (BYTES // len(PROSE)))), 3),
    "15 MB in 900 texts": (sending(texts(*[PROSE * 370] * 900)), 3),
    "15 MB of brackets": (sending(b'{"input":[' + b"[]," * (BYTES // 3) + b"[]]}"), 3),
    "15 MB, client leaves": (sending(texts(PROSE * (BYTES // len(PROSE))), stays=False), 3),
    "surrogates, 15 MB": (sending(b'{"input":"' + rb"\ud83d" * (BYTES // 6) + b'"}'), 3),
    "model name of 1 MB": (sending(json.dumps({"input": "a", "model": "x" * 10**6}).encode()), 3),
    "page, client leaves": (sending(PAGE, "/page/inspect", stays=False), 12),
    "page": (sending(PAGE, "/page/inspect"), 12),
    "header of 200 MB": (endless(b"x" * 65536), 3),
    "10,000 headers": (endless(b"a: b\r\n" * 10_000), 3),
    "idle sockets": (holding(b"", 300), 1),
    "unfinished headers": (holding(b"GET / HTTP/1.1\r\nHost: 127", 300), 1),
    "unfinished bodies": (holding(HEAD.format(path="/v1/embeddings", size=BYTES).encode() + b"{" * 10**5, 100), 1),
}


@contextmanager
def serving() -> Iterator[Server]:
    command = [
        sys.executable,
        "-c",
        "from fairspan.cli import main; main()",
        "serve",
        "all-MiniLM-L6-v2",
        "--port",
        "0",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        port = next(found[1] for line in lines if (found := re.search(rb"on http://127\.0\.0\.1:(\d+)", line)))
        Thread(target=process.stderr.read, daemon=True).start()
        yield Server(process, int(port))
    finally:
        process.kill()
        process.wait()


def measure(name: str, seconds: float, clients: int) -> str:
    attack, count = ATTACKS[name]
    with serving() as server:
        time.sleep(1)
        alone = Load().run(server, time.monotonic() + QUIET, clients)
        before, until = server.memory, time.monotonic() + seconds
        threads = [Thread(target=attack, args=(server, until), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        beside = Load().run(server, until, clients)
        time.sleep(QUIET)
        after, end = server.memory, time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(60)
        ended = time.monotonic() - end
    cells = [len(beside.seconds), beside.failures, f"{max(alone.seconds):.2f} s", f"{max(beside.seconds):.2f} s"]
    cells += [f"{before:.0f} MB", f"{after:.0f} MB", f"{ended:.1f} s", code]
    return " | ".join(map(str, [name, *cells]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--only", choices=ATTACKS)
    asked = parser.parse_args()
    print(
        "attack | requests | failed | slowest alone | slowest | memory before | after | SIGTERM | exit code",
        flush=True,
    )
    for name in [asked.only] if asked.only else ATTACKS:
        print(measure(name, asked.seconds, asked.clients), flush=True)


if __name__ == "__main__":
    main()
