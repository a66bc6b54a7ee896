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
    """Write `{corpus}-tune.jsonl` and `{corpus}-report.jsonl`."""
    into.mkdir(parents=True, exist_ok=True)
    for name, file in CORPORA.items():
        records = [json.loads(line) for line in (data / file).read_text("utf-8").splitlines()]
        order = np.random.default_rng(seed).permutation(len(records))[:limit]
        halves = {"tune": order[: len(order) // 2], "report": order[len(order) // 2 :]}
        for half, numbers in halves.items():
            heads = [(records[number]["id"], records[number]["text"][:HEAD]) for number in sorted(numbers)]
            _write(into / f"{name}-{half}.jsonl", heads)


def write_pieces(file: Path, into: Path, size: int, most: int) -> None:
    """The first pieces of every article of a corpus, as segments of their own: each holds one and its query."""
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
    file.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts), "utf-8")


def split_scifact(folder: Path, into: Path, limit: int | None, seed: int) -> None:
    """A BEIR folder with the splits tune and report: halves of the test queries, none of which share a document."""
    (into / "qrels").mkdir(parents=True, exist_ok=True)
    lines = (folder / "qrels/test.tsv").read_text("utf-8").splitlines()
    pairs = [line.split("\t") for line in lines[1:]]
    parts: list[tuple[set[str], list[list[str]]]] = []
    for pair in pairs:
        linked = [part for part in parts if part[0] & {f"q{pair[0]}", pair[1]}]
        parts = [part for part in parts if part not in linked]
        names = set().union(*(part[0] for part in linked), {f"q{pair[0]}", pair[1]})
        parts.append((names, [*(one for part in linked for one in part[1]), pair]))
    order = np.random.default_rng(seed).permutation(len(parts))[:limit]
    halves = {"tune": order[: len(order) // 2], "report": order[len(order) // 2 :]}
    for half, numbers in halves.items():
        own = ["\t".join(pair) for number in numbers for pair in parts[number][1]]
        (into / f"qrels/{half}.tsv").write_text("\n".join([lines[0], *own]) + "\n", "utf-8")
    asked = {pair[1] for number in order for pair in parts[number][1]}
    corpus = (folder / "corpus.jsonl").read_text("utf-8").splitlines(keepends=True)
    kept = [line for number, line in enumerate(corpus) if not limit or number < limit or _id(line) in asked]
    (into / "corpus.jsonl").write_text("".join(kept), "utf-8")
    (into / "queries.jsonl").write_bytes((folder / "queries.jsonl").read_bytes())


def _id(line: str) -> str:
    return str(json.loads(line)["_id"])
