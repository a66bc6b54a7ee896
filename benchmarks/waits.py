"""How long short requests wait beside large ones, and beside clients that misbehave:

    python -m benchmarks.waits [--model NAME] [--tokens 60000 290000] [--texts 2000]

A server of its own, on this machine. A text of 20 words is sent five times a second beside every
long text, beside one request of many texts, beside 60 requests whose bodies do not end, and alone
for comparison; then a request with 20,000 headers, after which the server has to answer.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import time
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.serving import served

WORDS = ("king", "town", "river", "letters", "war", "peace", "trade", "grain")
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
LEAST = 20


def made(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def seconds(port: int, texts: Sequence[str]) -> float:
    """What one request takes."""
    body = json.dumps({"input": list(texts), "encoding_format": "base64"}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/embeddings", body, headers)
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=3600) as answer:
        answer.read()
    return time.perf_counter() - start


def beside(port: int, name: str, large: Callable[[], str], rng: random.Random) -> None:
    """Print how long short requests take while a function runs, and what it returns."""
    waits: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(large)
        while not running.done() or len(waits) < LEAST:
            time.sleep(0.2)
            waits.append(seconds(port, [made(rng, 20)]))
    middle = statistics.median(waits)
    row = [name, running.result(), f"{len(waits)}", f"{middle:.2f} s", f"{max(waits):.2f} s"]
    print(f"| {' | '.join(row)} |", flush=True)


def unfinished_bodies(port: int, count: int = 60) -> str:
    """Bodies of 4 MB that lack their end, held for ten seconds."""
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for connection in connections:
        connection.sendall(HEAD + b"Content-Length: 4000000\r\n\r\n" + b" " * 3_900_000)
    time.sleep(10)
    for connection in connections:
        connection.close()
    return "10 s"


def many_headers(port: int, count: int = 20_000) -> str:
    """The status of a reply to a request with so many headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(HEAD + b"a: b\r\n" * count + b"\r\n")
            reply = connection.recv(100).split(b"\r\n")[0].decode()
        except ConnectionError as error:
            reply = type(error).__name__
    return reply


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--tokens", type=int, nargs="*", default=[60_000, 290_000])
    parser.add_argument("--texts", type=int, default=2000)
    options = parser.parse_args()
    rng = random.Random(0)

    def took(texts: list[str]) -> str:
        return f"{seconds(port, texts):.1f} s"

    with served([options.model]) as port:
        print("| beside | which took | short requests | median | longest |\n|---|---|---|---|---|")
        beside(port, "nothing", lambda: "", rng)
        for tokens in options.tokens:
            # All of these words are one token, and two tokens are special.
            text = made(rng, tokens - 2)
            beside(port, f"one text of {tokens:,} tokens", lambda text=text: took([text]), rng)
        texts = [made(rng, 50) for _ in range(options.texts)]
        beside(port, f"{options.texts:,} texts of 50 words", lambda: took(texts), rng)
        beside(port, "60 unfinished bodies", lambda: unfinished_bodies(port), rng)
        beside(port, "20,000 headers", lambda: many_headers(port), rng)


if __name__ == "__main__":
    main()
