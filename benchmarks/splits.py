"""Halves of the data: one to choose settings on, one to report on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fairspan.corpus.sentences import sentences

CORPORA = {
    "documentation": "corpora/ethereum_org/en.jsonl",
    "news": "corpora/ntrex/en.jsonl",
    "Wikipedia": "corpora/wikipedia_en.jsonl",
}
# Characters: a page and its query are within the first 3,000.
HEAD = 3000


def split_corpora(data: Path, into: Path, limit: int | None, seed: int) -> None:
    """Write `{corpus}-tune-pages.jsonl`, the beginnings of articles,
    `{corpus}-tune-articles.jsonl`, and report."""
    into.mkdir(parents=True, exist_ok=True)
    for name, file in CORPORA.items():
        records = [json.loads(line) for line in (data / file).read_text("utf-8").splitlines()]
        order = np.random.default_rng(seed).permutation(len(records))[:limit]
        halves = {"tune": order[: len(order) // 2], "report": order[len(order) // 2 :]}
        for half, numbers in halves.items():
            own = [(records[number]["id"], records[number]["text"]) for number in sorted(numbers)]
            _write(into / f"{name}-{half}-articles.jsonl", own)
            _write(into / f"{name}-{half}-pages.jsonl", [(id, text[:HEAD]) for id, text in own])


def write_pieces(file: Path, into: Path, size: int, most: int) -> None:
    """The first pieces of every article of a corpus, as segments of their own: each holds one and
    its query."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    pieces = [
        (f"{one['id']}.{place}", part)
        for one in records
        for place, part in enumerate(_pieces(one["text"], size, most))
    ]
    _write(into, pieces)


def _pieces(text: str, size: int, most: int) -> Iterator[str]:
    """The first pieces of an article, each of whole sentences."""
    start = made = 0
    for _, end in sentences(text[: 2 * size * most], "en"):
        if end - start >= size and made < most:
            yield text[start:end].strip()
            start, made = end, made + 1


def _write(file: Path, texts: Sequence[tuple[str, str]]) -> None:
    file.write_text(
        "".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts), "utf-8"
    )
