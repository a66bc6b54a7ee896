"""Clients of a server, in a process that imports nothing heavy: `python -m benchmarks.load < job.json`.

A job has `port`, `bodies` with the `expected` status of each, and `clients`. Each client sends the next body over a
connection that it keeps, and waits for the reply, until all are sent or `seconds` are over. The result is printed as
JSON: `seconds` and [body, status, seconds] of each request, in the order of replies.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any


def as_request(body: str) -> bytes:
    coded = body.encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(coded)}\r\n\r\n"
    return head.encode() + coded


class Client:
    """One connection, opened anew if the server closes it after a reply."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**26)
        assert self.reader is not None
        self.writer.write(request)
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        await self.reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return int(head[9:12])

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.writer = None


async def run(job: dict[str, Any]) -> dict[str, Any]:
    requests = [as_request(body) for body in job["bodies"]]
    seconds, generator = job.get("seconds"), random.Random(0)
    done: list[tuple[int, int, float]] = []
    left = iter(range(len(requests)))
    start = time.perf_counter()

    def choose() -> int | None:
        if seconds is None:
            return next(left, None)
        return generator.randrange(len(requests)) if time.perf_counter() - start < seconds else None

    async def one() -> None:
        client = Client(job["port"])
        while (number := choose()) is not None:
            begin = time.perf_counter()
            try:
                status = await client.ask(requests[number])
            except (OSError, asyncio.IncompleteReadError):
                client.close()
                status = 0
            done.append((number, status, time.perf_counter() - begin))
            if pause := job.get("pause"):
                await asyncio.sleep(generator.expovariate(1 / pause))
        client.close()

    await asyncio.gather(*(one() for _ in range(job["clients"])))
    return {"seconds": time.perf_counter() - start, "done": done}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.load(sys.stdin)))))
