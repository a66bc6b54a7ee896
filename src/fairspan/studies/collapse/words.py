"""Two controls for length collapse: averages of raw word embeddings, and texts that repeat one word."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError, EncodingError, UnsupportedModel

# Texts tokenised in one call.
AT_ONCE = 256
# As far as repetitions go by themselves where a model names no window.
REPETITIONS = 512


def word_means(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    """[texts, d], the mean of the model's input embeddings of each text's own tokens (LC Fig. 3).

    Rows of the word embedding matrix alone: no positions, no layer, no special tokens, no prompt. What rises with
    length here rises by averaging more words, and not by attention. Texts are taken whole, whatever the window.
    """
    table = _input_embeddings(model)
    means = []
    for first in range(0, len(texts), AT_ONCE):
        some = list(texts[first : first + AT_ONCE])
        tokenised = model.tokenizer(some, add_special_tokens=False, truncation=False, padding=False, verbose=False)
        for number, ids in enumerate(tokenised["input_ids"], start=first):
            if not len(ids):
                raise EncodingError(f"text {number} has no tokens, so its words have no mean: omit it.")
            with torch.inference_mode():
                rows = table(torch.as_tensor(ids, device=next(table.parameters()).device))
            means.append(rows.double().mean(0).cpu().numpy())
    return np.stack(means) if means else np.empty((0, 0))


def _input_embeddings(model: SentenceTransformer) -> torch.nn.Module:
    transformer = getattr(model, "transformers_model", None)
    try:
        table = transformer.get_input_embeddings() if transformer is not None else None
    except (AttributeError, NotImplementedError):
        table = None
    if not isinstance(table, torch.nn.Module) or not callable(getattr(model, "tokenizer", None)):
        kind = type(model if transformer is None else transformer).__name__
        raise UnsupportedModel(
            f"{kind} has no input word embeddings to average: use a transformer loaded with its PyTorch weights, or "
            "omit the word control."
        )
    return table


@dataclass(frozen=True, slots=True)
class RepeatedPair:
    """Two texts that share no word, each one word repeated `times` times.

    Attributes:
        tokens: the length of each, prompt and special tokens aside.
    """

    times: int
    texts: tuple[str, str]
    tokens: tuple[int, int]


def repeated_pairs(counter: TokenCounter, *, words: tuple[str, str] = ("dog", "cat")) -> tuple[RepeatedPair, ...]:
    """The texts of LC Fig. 12, whose cosine is to be taken at 1, 2, 4, … repetitions, as far as the model reads."""
    most = _most(counter, words) or REPETITIONS
    times = [2**power for power in range(most.bit_length())]
    texts = [[" ".join([word] * count) for count in times] for word in words]
    tokens = [counter.count(some) for some in texts]
    columns = zip(times, zip(*texts, strict=True), zip(*tokens, strict=True), strict=True)
    return tuple(RepeatedPair(count, (one, two), (first, second)) for count, (one, two), (first, second) in columns)


def _most(counter: TokenCounter, words: tuple[str, str]) -> int | None:
    """How often both words can be repeated inside the window; None if nothing is known of one."""
    if counter.window is None:
        return None
    low, high = 0, counter.window + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = max(counter.count_whole([" ".join([word] * middle) for word in words])) <= counter.window
        low, high = (middle, high) if fits else (low, middle)
    if not low:
        raise DesignError(
            f"{words[0]!r} or {words[1]!r} alone does not fit into the model's {counter.window} {counter.unit}: "
            "choose shorter words."
        )
    return low
