"""Search tasks for `benchmarks.level`: documents of one length, of mixed lengths, in languages.

Sentences are cut out of documents and search for them; pages of unrelated segments are searched by
what follows a segment in its source; collections are searched with their own questions. In a mixed
index every second document stands whole, and the others in five pieces of at most 250 words.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import fairspan.corpus

SAMPLES = Path(fairspan.corpus.__file__).parent / "data"
LANGUAGES = ("en", "de", "it", "ko", "zh", "hi")
_SENTENCE = re.compile(r"(?<=[.!?।])\s+|\n+")
_REVIEWS = 500
_PER_LANGUAGE = 80


@dataclass(frozen=True)
class Task:
    """Documents, and queries with the numbers of the documents that answer them.

    Attributes:
        half: of each query: 0 to choose a reading, 1 to report it.
        cluster: of each query: the document of the source that it was made from.
    """

    documents: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    relevant: list[list[int]] = field(default_factory=list)
    half: list[int] = field(default_factory=list)
    cluster: list[int] = field(default_factory=list)
    fifth: list[int] = field(default_factory=list)

    def add(self, query: str, relevant: Iterable[int], half: int, cluster: int) -> None:
        self.queries.append(query)
        self.relevant.append(list(relevant))
        self.half.append(half)
        self.cluster.append(cluster)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def texts(file: Path) -> list[str]:
    return [row["text"] for row in rows(file)]


def sentences(text: str) -> list[str]:
    return [sentence for sentence in _SENTENCE.split(text) if sentence.strip()]


def cut_out(documents: Sequence[str], seed: int = 0) -> Task:
    """One sentence of each fifth of a document is cut out, and searches for the document."""
    rng = random.Random(seed)
    task = Task()
    for text in documents:
        parts = sentences(text)
        words = [len(part.split()) for part in parts]
        total = sum(words)
        if total < 400:
            continue
        starts = [sum(words[:number]) / total for number in range(len(parts))]
        chosen = []
        for fifth in range(5):
            suitable = [
                number
                for number, start in enumerate(starts)
                if int(start * 5) == fifth and 12 <= words[number] <= 45
            ]
            if suitable:
                chosen.append(rng.choice(suitable))
        if len(chosen) < 5:
            continue
        number = len(task.documents)
        for fifth, place in enumerate(chosen):
            task.add(parts[place], [number], number // 2 % 2, number)
            task.fifth.append(fifth)
        left = (part for place, part in enumerate(parts) if place not in chosen)
        task.documents.append(" ".join(left))
    return task


def mixed(task: Task, words: int = 250) -> Task:
    """The task with every second document in five pieces, one of which answers each query."""
    made = replace(task, documents=[], relevant=[])
    first: dict[int, int] = {}
    for number, text in enumerate(task.documents):
        first[number] = len(made.documents)
        if number % 2 == 0:
            made.documents.append(text)
            continue
        split = text.split()
        ends = [round(part * len(split) / 5) for part in range(6)]
        for start, end in pairwise(ends):
            made.documents.append(" ".join(split[start : min(end, start + words)]))
    for (number,), fifth in zip(task.relevant, task.fifth, strict=True):
        made.relevant.append([first[number] + (fifth if number % 2 else 0)])
    return made


def segments(documents: Iterable[str]) -> list[tuple[str, str]]:
    """The beginning of each document, 60 to 90 words, and what follows it, 12 to 45 words."""
    pairs = []
    for text in documents:
        parts: tuple[list[str], list[str]] = ([], [])
        counts = [0, 0]
        for sentence in sentences(text):
            count = len(sentence.split())
            if not parts[1] and counts[0] + count <= 90:
                place = 0
            elif counts[1] + count <= 45:
                place = 1
            else:
                break
            parts[place].append(sentence)
            counts[place] += count
        if counts[0] >= 60 and counts[1] >= 12:
            pairs.append((" ".join(parts[0]), " ".join(parts[1])))
    return pairs


def pages(pairs: Sequence[tuple[str, str]], size: int, seed: int = 0) -> Task:
    """Pages of `size` unrelated segments, searched by what follows each segment."""
    order = random.Random(seed).sample(range(len(pairs)), len(pairs) // size * size)
    task = Task()
    for start in range(0, len(order), size):
        number = len(task.documents)
        members = order[start : start + size]
        for member in members:
            task.add(pairs[member][1], [number], number % 2, number)
        task.documents.append(" ".join(pairs[member][0] for member in members))
    return task


def collection(folder: Path, halves: dict[str, int]) -> Task:
    """A collection in BEIR's layout; `halves` has the half of each of its splits."""
    documents = rows(folder / "corpus.jsonl")
    task = Task([f"{row.get('title', '')} {row['text']}".strip() for row in documents])
    place = {row["_id"]: number for number, row in enumerate(documents)}
    queries = {row["_id"]: row["text"] for row in rows(folder / "queries.jsonl")}
    for split, half in halves.items():
        relevant: dict[str, list[int]] = {}
        for line in (folder / f"qrels/{split}.tsv").read_text("utf-8").splitlines()[1:]:
            query, document, score = line.split("\t")
            if float(score) > 0 and document in place:
                relevant.setdefault(query, []).append(place[document])
        for query, numbers in relevant.items():
            task.add(queries[query], numbers, half, numbers[0])
    return task


def questions(data: Path, language: str) -> Task:
    """The questions of XQuAD in one language, about its articles."""
    articles = rows(data / f"corpora/xquad/{language}.jsonl")
    place = {row["id"]: number for number, row in enumerate(articles)}
    task = Task([row["text"] for row in articles])
    for row in rows(data / f"retrieval/xquad_positions/{language}.jsonl"):
        number = place[row["article"]]
        task.add(row["question"], [number], number % 2, number)
    return task


def joined(tasks: Iterable[Task]) -> Task:
    """One index of the documents of several tasks."""
    made = Task()
    for task in tasks:
        before = len(made.documents)
        made.documents.extend(task.documents)
        for query, relevant, half, cluster in zip(
            task.queries, task.relevant, task.half, task.cluster, strict=True
        ):
            made.add(query, [before + number for number in relevant], half, before + cluster)
        made.fifth.extend(task.fifth)
    return made


def english(data: Path) -> dict[str, Task]:
    """The tasks of every model; QMSum chooses nothing."""
    docs = texts(data / "corpora/ethereum_org/en.jsonl")
    wikipedia = texts(data / "corpora/wikipedia_en.jsonl")
    reviews = texts(data / "classification/movie_reviews.jsonl")[:_REVIEWS]
    pairs = segments([*docs, *wikipedia, *texts(data / "corpora/ntrex/en.jsonl")])
    cut = {
        "docs": cut_out(docs),
        "wikipedia": cut_out(wikipedia),
        "essays": cut_out(texts(SAMPLES / "long-sample/en.jsonl")),
        "reviews": cut_out(reviews),
    }
    return {
        **cut,
        **{f"mixed {name}": mixed(cut[name]) for name in ("docs", "wikipedia", "essays")},
        "xquad": questions(data, "en"),
        "pages4": pages(pairs, 4),
        "pages16": pages(pairs, 16),
        "scifact": collection(data / "retrieval/scifact", {"train": 0, "test": 1}),
        "qmsum": collection(data / "retrieval/longembed_qmsum", {"test": 1}),
    }


def multilingual(data: Path) -> dict[str, Task]:
    """Tasks of a model of several languages: each alone, and all in one index."""
    made = {f"xquad {language}": questions(data, language) for language in ("de", "zh", "hi")}
    docs = {
        language: cut_out(texts(data / f"corpora/ethereum_org/{language}.jsonl")[:_PER_LANGUAGE])
        for language in ("en", "de", "ko", "hi")
    }
    made |= {f"mixed docs {language}": mixed(docs[language]) for language in ("de", "ko", "hi")}
    made["mixed docs, 4 languages"] = joined(mixed(task) for task in docs.values())
    return made


def general_texts(languages: Sequence[str]) -> list[str]:
    """Paragraphs on many subjects, which come with fairspan."""
    return [text for name in languages for text in texts(SAMPLES / f"sample/{name}.jsonl")]
