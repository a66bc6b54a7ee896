"""How long short requests wait beside large ones, at a server that is running:

    fairspan serve all-MiniLM-L6-v2 --port 8123
    python -m benchmarks.waits http://127.0.0.1:8123 [--tokens 4000 60000 290000] [--texts 2000]

A short text is sent five times a second beside each long text, then beside two requests of many
texts, and alone for comparison.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

WORDS = ("king", "town", "river", "letters", "war", "peace", "trade", "grain")


def made(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def seconds(url: str, texts: Sequence[str]) -> float:
    """What one request takes."""
    with urllib.request.urlopen(f"{url}/v1/models") as answer:
        model = json.load(answer)["data"][0]["id"]
    body = json.dumps({"model": model, "input": list(texts)}).encode()
    request = urllib.request.Request(
        f"{url}/v1/embeddings", body, {"Content-Type": "application/json"}
    )
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=3600) as answer:
        answer.read()
    return time.perf_counter() - start


def beside(url: str, name: str, large: Sequence[Sequence[str]], rng: random.Random) -> None:
    """Print how long short requests take while large ones are answered, or twenty alone."""
    waits: list[float] = []
    with ThreadPoolExecutor(8) as pool:
        running: list[Future[float]] = [pool.submit(seconds, url, texts) for texts in large]
        while len(waits) < 20 if not running else not all(one.done() for one in running):
            time.sleep(0.2)
            waits.append(seconds(url, [made(rng, 20)]))
    took = ", ".join(f"{one.result():.1f} s" for one in running) or "nothing"
    middle = statistics.median(waits)
    print(f"| {name} | {took} | {len(waits)} | {middle:.2f} s | {max(waits):.2f} s |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--tokens", type=int, nargs="*", default=[4000, 60_000])
    parser.add_argument("--texts", type=int, default=2000)
    options = parser.parse_args()
    rng = random.Random(0)
    print("| beside | which took | short requests | median | longest |\n|---|---|---|---|---|")
    beside(options.url, "nothing", [], rng)
    for tokens in options.tokens:
        beside(options.url, f"one text of {tokens:,} words", [[made(rng, tokens)]], rng)
    if options.texts:
        large = [[made(rng, 50) for _ in range(options.texts)] for _ in range(2)]
        beside(options.url, f"two requests of {options.texts:,} texts", large, rng)


if __name__ == "__main__":
    main()
