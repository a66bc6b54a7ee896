"""Blocks of Wikipedia articles: an introduction, and a later sentence that does not name its subject."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fairspan.corpus.sentences import sentences
from fairspan.encoding.tokens import ModelTokens

# Fewest and most tokens.
INTRODUCTION, SENTENCE, TEXT = (10, 64), (6, 40), (65, 100)
PRONOUNS = dict.fromkeys(("He", "She", "It", "They"), "") | dict.fromkeys(("His", "Her", "Its", "Their"), "'s")
OTHERS = ("The", "This", "These")
ITEMS = 5


@dataclass(frozen=True, slots=True)
class Block:
    """An article's introduction, the sentence, and the texts before and after it."""

    article: str
    title: str
    introduction: str
    before: str
    sentence: str
    after: str

    @property
    def query(self) -> str:
        """The sentence with its subject named."""
        first, rest = self.sentence.split(maxsplit=1)
        if first not in PRONOUNS:
            return f"{self.title}: {self.sentence}"
        return f"{self.title}{PRONOUNS[first]} {rest}"

    def parts(self, given: Block, layout: str) -> list[str]:
        """The block in segments, with what `given` brings in the place of its own."""
        if layout in ("near", "bare"):
            around = [self.before, self.after] if layout == "near" else []
            return [f"{self.introduction} {given.sentence}", *around]
        other = given if layout == "around" else self
        return [self.introduction, other.before, given.sentence, other.after]


def blocks_of(record: dict[str, Any], counter: ModelTokens, openings: Collection[str]) -> list[Block]:
    """Up to `ITEMS` blocks of an article, none of which share a text."""
    title = re.sub(r"\s*\(.*?\)|[=\r]", "", record["title"].replace(" @-@ ", "-")).strip()
    words = [word.lower() for word in re.findall(r"\w+", title) if len(word) > 3 or word.isdigit()]
    # Headings are no sentences, and end in a letter.
    lines = [line.strip() for line in record["text"].splitlines() if line.strip().endswith((".", "!", "?", '"'))]
    found = [line[start:end] for line in lines for start, end in sentences(line, "en")]
    if not words or "<unk>" in title or not found or "<unk>" in found[0] or not _mentions(found[0], words):
        return []
    lengths = counter.count(found)
    if not INTRODUCTION[0] <= lengths[0] <= INTRODUCTION[1]:
        return []
    usable = [not (_mentions(one, words) or "<unk>" in one) for one in found]
    made: list[Block] = []
    free = 1
    for place in range(2, len(found)):
        opens = found[place].split()[0] in openings
        if not (opens and usable[place] and SENTENCE[0] <= lengths[place] <= SENTENCE[1]):
            continue
        first = _reach(range(place - 1, free - 1, -1), lengths, usable)
        last = _reach(range(place + 1, len(found)), lengths, usable)
        if first is not None and last is not None and len(made) < ITEMS:
            before, after = " ".join(found[first:place]), " ".join(found[place + 1 : last + 1])
            made.append(Block(record["id"], title, found[0], before, found[place], after))
            free = last + 1
    return made


def _mentions(sentence: str, words: Sequence[str]) -> bool:
    """Whether a sentence has a word of the title, or one with the same beginning (anarchism, anarchist)."""
    beginnings = [word[: max(4, len(word) - 2)] for word in words]
    return any(own.startswith(tuple(beginnings)) for own in re.findall(r"\w+", sentence.lower()))


def _reach(places: range, lengths: Sequence[int], usable: Sequence[bool]) -> int | None:
    """The sentence up to which neighbours have more tokens than a tile; None if one is not usable, or too long."""
    tokens = 0
    for place in places:
        tokens += lengths[place]
        if not usable[place] or tokens > TEXT[1]:
            return None
        if tokens >= TEXT[0]:
            return place
    return None


Pair = tuple[list[Block], list[Block]]


def pair_up(file: Path, counter: ModelTokens, openings: Collection[str], limit: int | None, seed: int) -> list[Pair]:
    """Disjoint pairs of articles, each with the same number of blocks."""
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    found = [own for own in (blocks_of(record, counter, openings) for record in records) if own]
    rng = np.random.default_rng(seed)
    order = sorted(rng.permutation(len(found)).tolist(), key=lambda number: -len(found[number]))
    pairs = []
    for one, two in list(pairwise(order))[::2]:
        count = min(len(found[one]), len(found[two]))
        pairs.append((found[one][:count], found[two][:count]))
    return [pairs[number] for number in rng.permutation(len(pairs))[:limit]]
