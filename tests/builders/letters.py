"""An object that embeds and is no SentenceTransformer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Letters:
    """Counts letters: an embedding that anybody can check, in the form that is asked for.

    They are weighed by roots of different numbers, so that no two sums are the same by chance.
    """

    def __init__(
        self, form: Callable[[list[list[float]]], Any] = np.asarray, limit: int | None = None
    ) -> None:
        self.form = form
        self.limit = limit
        self.asked: list[str] = []

    def encode(self, sentences: list[str], /) -> Any:
        self.asked += sentences
        return self.form([self.one(sentence[: self.limit]) for sentence in sentences])

    @staticmethod
    def one(sentence: str) -> list[float]:
        weights = enumerate("0123456789w")
        return [0.5 + sentence.count(letter) * math.sqrt(2 + n) for n, letter in weights]
