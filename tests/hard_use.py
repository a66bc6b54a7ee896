"""`fairspan serve` under attack: how long short requests of others take, memory before and after, time to end.

    python -m tests.hard_use [--seconds 120] [--clients 50] [--only NAME]

For each attack a server with the small default model is started. Clients send one short text after another, first
alone and then beside the attack; the difference is what the attack costs. Everything stays on 127.0.0.1.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread

import urllib3

HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
MOST = 4_700_000
"""Somewhat less than the largest body that is taken, in bytes."""
QUIET = 5.0
"""Seconds without an attack, before and after."""
Attack = Callable[[int, float], None]
"""Of the server at a port, until a moment."""


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def flooding(*parts: bytes, stays: bool = True) -> Attack:
    """One connection after another that sends this, whose reply is read or whose client leaves."""

    def attack(port: int, until: float) -> None:
        while time.monotonic() < until:
            with suppress(OSError), connect(port) as one:
                for part in parts:
                    one.sendall(part)
                if stays:
                    one.recv(65536)
            time.sleep(0.05)

    return attack


def asking(content: bytes, path: str = "/v1/embeddings", *, stays: bool = True) -> Attack:
    return flooding(HEAD.format(path=path, size=len(content)).encode() + content, stays=stays)


def holding(sent: bytes, count: int) -> Attack:
    """Sockets that send this much and then nothing, until the server closes them; each is then opened again."""

    def attack(port: int, until: float) -> None:
        while time.monotonic() < until:
            held = [connect(port) for _ in range(count)]
            for one in held:
                one.sendall(sent)
            end = min(time.monotonic(), until) + 30
            for one in held:
                with suppress(OSError), one:
                    one.settimeout(max(0.1, end - time.monotonic()))
                    while one.recv(65536):
                        pass

    return attack


def texts(*given: str) -> bytes:
    return json.dumps({"input": given}).encode()


PROSE = "The quick brown fox jumps over the lazy dog. "
PAGE = json.dumps({"name": "Document 1", "text": "\n\n".join([PROSE * 20] * 90)}).encode()
ONE_TEXT = texts(PROSE * (MOST // len(PROSE)))
GET = b"GET /health HTTP/1.1\r\n"
UNFINISHED = HEAD.format(path="/v1/embeddings", size=MOST).encode() + b"{" * 10**5
# Attack, and by how many at a time.
ATTACKS: dict[str, tuple[Attack, int]] = {
    "one large text": (asking(ONE_TEXT), 3),
    "900 texts": (asking(texts(*[PROSE * (MOST // len(PROSE) // 900)] * 900)), 3),
    "brackets": (asking(b'{"input":[' + b"[]," * (MOST // 3) + b"[]]}"), 3),
    "large text, client leaves": (asking(ONE_TEXT, stays=False), 3),
    "surrogates": (asking(b'{"input":"' + rb"\ud83d" * (MOST // 6) + b'"}'), 3),
    "15 MB": (asking(b" " * 15 * 2**20), 3),
    "page, client leaves": (asking(PAGE, "/page/inspect", stays=False), 12),
    "page": (asking(PAGE, "/page/inspect"), 12),
    "header of 200 MB": (flooding(GET, *[b"x" * 65536] * 3200), 3),
    "10,000 headers": (flooding(GET, *[b"a: b\r\n" * 10_000] * 3200), 3),
    "idle sockets": (holding(b"", 300), 1),
    "unfinished headers": (holding(b"GET / HTTP/1.1\r\nHost: 127", 300), 1),
    "unfinished bodies": (holding(UNFINISHED, 100), 1),
}


def ask_often(port: int, until: float, clients: int) -> list[tuple[int, float]]:
    """Status, 0 for none, and seconds of every request of clients that send short texts all the time."""
    pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=clients, timeout=120)
    found = []

    def ask(client: int) -> None:
        while (start := time.monotonic()) < until:
            status = 0
            with suppress(urllib3.exceptions.HTTPError):
                question = {"input": "What is the capital of France?"}
                status = pool.request("POST", "/v1/embeddings", json=question, retries=False).status
            found.append((status, time.monotonic() - start))

    with pool, ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    return found


def memory(process: subprocess.Popen[str]) -> str:
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident = re.findall(r"VmRSS:\s+(\d+)", status)[0]
    return f"{int(resident) / 1000:.0f} MB"


def measure(name: str, seconds: float, clients: int) -> str:
    attack, count = ATTACKS[name]
    command = [sys.executable, "-c", "from fairspan.cli import main; main()", "serve", "all-MiniLM-L6-v2"]
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        port = next(int(found[1]) for line in process.stderr if (found := re.search(r" on http://.*:(\d+)$", line)))
        Thread(target=process.stderr.read, daemon=True).start()
        time.sleep(1)
        alone = ask_often(port, time.monotonic() + QUIET, clients)
        before, until = memory(process), time.monotonic() + seconds
        for _ in range(count):
            Thread(target=attack, args=(port, until), daemon=True).start()
        beside = ask_often(port, until, clients)
        time.sleep(QUIET)
        after, end = memory(process), time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        ended = time.monotonic() - end
    slowest = [f"{max(seconds for _, seconds in some):.2f} s" for some in (alone, beside)]
    failed = sum(status != 200 for status, _ in beside)
    return " | ".join(map(str, [name, len(beside), failed, *slowest, before, after, f"{ended:.1f} s", code]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--only", choices=ATTACKS)
    asked = parser.parse_args()
    print("attack | requests | failed | slowest alone | slowest | memory before | after | SIGTERM | exit code")
    for name in [asked.only] if asked.only else ATTACKS:
        print(measure(name, asked.seconds, asked.clients), flush=True)


if __name__ == "__main__":
    main()
