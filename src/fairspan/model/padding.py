"""Batches of very different lengths, padded as arrays: a tokenizer would pad them as lists."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

_LONG = 10_000
"""Characters of a text from which on padding others to its length takes time."""
UNPADDED: dict[str, dict[str, Any]] = {
    "common": {"return_tensors": None},
    "text": {"padding": False},
}
"""Options of a processor that keeps the lengths of texts."""


def is_ragged(inputs: Sequence[Any]) -> bool:
    """Whether at least half of a batch of long texts would be padding."""
    if not all(isinstance(text, str) for text in inputs):
        return False
    lengths = [len(text) for text in inputs]
    longest = max(lengths, default=0)
    return longest >= _LONG and len(lengths) * longest >= 2 * sum(lengths)


def pad(features: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """The features of a batch with the lists of its texts' tokens as tensors [N, L]."""
    values = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    longest = max(map(len, features["input_ids"]))
    on_the_left = tokenizer.padding_side == "left"
    padded = {}
    for name, rows in features.items():
        if not isinstance(rows, list):
            continue
        array = np.full((len(rows), longest), values.get(name, 0), dtype=np.int64)
        for row, tokens in zip(array, rows, strict=True):
            row[slice(longest - len(tokens), None) if on_the_left else slice(len(tokens))] = tokens
        padded[name] = torch.from_numpy(array)
    return {**features, **padded}
