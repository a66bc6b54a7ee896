"""The verbs that measure, each at its smallest and on one corpus, for tests of what they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairspan
from fairspan.runs.progress import Silent
from tests.builders.commands import options_of
from tests.builders.tiny import words
from tests.corpus.test_corpus import write

LANGUAGES = ("en", "it")
STRONG = "tempscale+temperature=0.5"
GRID = [STRONG, "tiles-8"]


def article(number: int, sentences: int = 14) -> str:
    """Sentences of five words, one token a word."""
    return " ".join(words(5, 1000 * number + place) + "." for place in range(sentences))


def write_articles(folder: Path, count: int = 16) -> Path:
    """Titled articles in two languages."""
    folder.mkdir()
    for shift, language in enumerate(LANGUAGES):
        numbers = [(f"a{number:02}", number + count * shift) for number in range(count)]
        rows = [
            {"id": id, "text": article(number), "title": words(3, 1000 * number + 500)}
            for id, number in numbers
        ]
        write(folder / f"{language}.jsonl", rows)
    return folder


class Recorder(Silent):
    """Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.total, self.done, self.stages, self.stopped = 0, 0.0, list[str](), 0
        self.skipped = 0.0

    def stage(self, name: str) -> None:
        self.stages.append(name)

    def start(self, total: int) -> None:
        self.total, self.done = total, 0.0

    def advance(self, amount: float, stored: bool = False) -> None:
        self.done += amount
        self.skipped += amount * stored

    def stop(self) -> None:
        self.stopped += 1


@dataclass(frozen=True)
class Verb:
    """One verb.

    Attributes:
        asked: the keywords of a small run with two treatments, most of whose batches hold one text.
    """

    name: str
    asked: Mapping[str, Any]

    @property
    def measure(self) -> Callable[..., fairspan.RunLog]:
        measure: Callable[..., fairspan.RunLog] = getattr(fairspan, self.name)
        return measure

    @property
    def known(self) -> set[str]:
        """The keywords that the command line has options for."""
        return options_of(self.name) | {"json"}

    def typed(self, **changes: Any) -> list[str]:
        """The same on the command line, for the model and the corpus in the working folder."""
        typed = [self.name, "model"]
        asked = {"corpus": "corpus", **self.asked, **changes}
        for keyword, value in ((one, asked[one]) for one in asked if one in self.known):
            option = keyword.replace("_", "-")
            if isinstance(value, bool):
                typed += [f"--{option}"] if value else []
            else:
                values = value if isinstance(value, list) else [value]
                typed += [f"--{option}", ",".join(map(str, values))]
        return typed


SMALL = {"treatments": ["plain", STRONG], "batch_tokens": 100}
VERBS = [
    Verb(
        "audit",
        {"sizes": [2], "sets": 4, "measures": ["representation", "retention"], **SMALL},
    ),
    Verb(
        "evaluate",
        {"sets": 5, "metrics": ["mrr"], **SMALL},
    ),
    Verb(
        "collapse",
        {"lengths": [10, 20, 40], "documents": 8, "treatments": ["plain", STRONG]}
        | {"batch_tokens": 25},
    ),
]
TUNE = Verb(
    "tune",
    {"candidates": GRID, "metrics": ["mrr"], "batch_tokens": 100},
)
"""A tuning: it searches with candidates, and has no option for treatments."""
