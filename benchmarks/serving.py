"""`fairspan serve` against the bare model in a process of its own, on the same texts.

    python -m benchmarks.serving [--model NAME] [--device cuda] [--preset plain] [--rounds 3]

1. Throughput: tokens/s of 32 clients, which send a request and wait for its reply, over those of
`model.encode` on
   all the texts at once (sorted, 32 per batch). Texts are of 4 to 350 words, most of them short.
   For each number of texts per request of --inputs.
2. Latency: one short query at a time, over `model.encode_query`.

The clients run in a process of their own, which imports nothing heavy. While the bare model runs,
the server idles.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.calibration.calibration import DEFAULT, Calibration
from fairspan.corpus.corpus import Corpus
from fairspan.encoding.direct import DirectEncoder
from fairspan.model.build import calibrate_by_default
from fairspan.model.loading import Loading, load_model

ROOT = Path(__file__).parents[1]
QUERY = "which part of the document answers the question?"
CLIENTS = 32


def make_texts(count: int, generator: np.random.Generator) -> list[str]:
    """Spans of the sample corpus, of 4 to 350 words on a logarithmic scale."""
    every = " ".join(segment.text for segment in Corpus.read("sample", ["en"]).segments).split()
    lengths = np.exp(generator.uniform(np.log(4), np.log(350), count)).astype(int)
    starts = generator.integers(0, len(every) - 350, count)
    return [
        " ".join(every[start : start + length])
        for start, length in zip(starts, lengths, strict=True)
    ]


def body(texts: Sequence[str] | str, **more: Any) -> str:
    return json.dumps({"input": texts, "encoding_format": "base64", **more})


@contextmanager
def served(words: Sequence[str]) -> Iterator[int]:
    """The port of a server."""
    command = "from fairspan.cli import main; main()"
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", command, "serve", *words, "--port", "0"], stderr=said
        )
        try:
            while True:
                said.seek(0)
                text = said.read()
                if found := re.search(r"on http://127\.0\.0\.1:(\d+)$", text, re.MULTILINE):
                    break
                if process.poll() is not None:
                    raise SystemExit(text)
                time.sleep(0.1)
            time.sleep(1)
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            print(f"the server ended with code {process.wait()}", flush=True)


def load(port: int, bodies: Sequence[str], clients: int) -> dict[str, Any]:
    job = json.dumps({"port": port, "bodies": list(bodies), "clients": clients})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=job,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare_throughput(
    model: Any, port: int, texts: list[str], tokens: int, inputs: list[int], rounds: int
) -> None:
    for size in inputs:
        bodies = [body(texts[start : start + size]) for start in range(0, len(texts), size)]
        bare, over = [], []
        for turn in range(-1, rounds):
            start = time.perf_counter()
            model.encode(texts, batch_size=32, show_progress_bar=False)
            seconds = time.perf_counter() - start
            found = load(port, bodies, CLIENTS)
            assert {status for _, status, _ in found["done"]} == {200}
            if turn >= 0:
                bare.append(tokens / seconds)
                over.append(tokens / found["seconds"])
        ratios = [a / b for a, b in zip(over, bare, strict=True)]
        print(
            f"throughput, {CLIENTS} clients, {size} texts per request: "
            f"{statistics.median(over):,.0f} tokens/s over "
            f"{statistics.median(bare):,.0f} of encode: ratio {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to "
            f"{max(ratios):.3f}), target 0.90",
            flush=True,
        )


def compare_latency(model: Any, port: int, rounds: int, count: int = 100) -> None:
    bare, over = [], []
    for turn in range(-1, rounds):
        taken = []
        for _ in range(count):
            start = time.perf_counter()
            model.encode_query(QUERY)
            taken.append(time.perf_counter() - start)
        found = load(port, [body(QUERY, input_type="query")] * count, 1)
        if turn >= 0:
            bare += taken
            over += [seconds for _, _, seconds in found["done"]]
    own, other = np.percentile(bare, [50, 99]) * 1000, np.percentile(over, [50, 99]) * 1000
    print(
        f"one short query: p50 {other[0]:.2f} ms over {own[0]:.2f} ms of encode_query, p99 "
        f"{other[1]:.2f} over "
        f"{own[1]:.2f}; p50 target {1.3 * own[0] + 3:.2f} ms (1.3 times and 3 ms)",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--device")
    parser.add_argument("--dtype")
    parser.add_argument("--preset")
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--inputs", type=int, nargs="*", default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--serve", nargs="*", default=[], metavar="WORD", help="more options of fairspan serve"
    )
    chosen = parser.parse_args()

    words = [chosen.model, *chosen.serve]
    for name in ("device", "dtype", "preset"):
        if getattr(chosen, name):
            words += [f"--{name}", getattr(chosen, name)]
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    loaded = load_model(chosen.model, Loading(device=chosen.device, dtype=chosen.dtype))
    model = calibrate_by_default(
        loaded, Calibration.preset(chosen.preset) if chosen.preset else None, None
    )
    encoder = DirectEncoder(model)
    texts = make_texts(chosen.texts, np.random.default_rng(0))
    read = encoder.read(texts)
    texts = [text for text, one in zip(texts, read, strict=True) if not one.cut]
    tokens = sum(one.read for one in read if not one.cut)
    how = f"{chosen.model}, {chosen.preset or DEFAULT}, {model.device}, {model.dtype}"
    print(f"{how}: {len(texts)} texts, {tokens:,} tokens", flush=True)
    with served(words) as port:
        compare_latency(model, port, chosen.rounds)
        compare_throughput(model, port, texts, tokens, chosen.inputs, chosen.rounds)


if __name__ == "__main__":
    main()
