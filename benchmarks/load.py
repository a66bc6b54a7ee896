"""Clients of a server, in a process that imports nothing heavy: `python -m benchmarks.load <
job.json`.

A job has `port`, `bodies` and `clients`. Each client sends the next body over a connection that it
keeps, and waits for the reply, until all are sent. Printed as JSON: `seconds`, and [body, status,
seconds] of each request.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any


def as_request(body: str) -> bytes:
    coded = body.encode()
    head = "POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(coded)}\r\n\r\n".encode() + coded


async def run(job: dict[str, Any]) -> dict[str, Any]:
    left, done = enumerate(map(as_request, job["bodies"])), list[tuple[int, int, float]]()
    start = time.perf_counter()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", job["port"], limit=2**26)
        for number, request in left:
            begin = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(
                int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            )
            done.append((number, int(head[9:12]), time.perf_counter() - begin))
        writer.close()

    await asyncio.gather(*(client() for _ in range(job["clients"])))
    return {"seconds": time.perf_counter() - start, "done": done}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.load(sys.stdin)))))
