"""A batch in parts that are read one after another: little padding, and memory is bounded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

AT_A_TIME = 2**15
"""Tokens of a batch in tiles, padding included, that are read together."""
MOST_TOKENS = 2**18
"""Tokens of a batch in tiles, padding included, above which only its vectors are kept."""
CPU_PASS = 48
"""Tokens that a CPU reads in the time that every pass takes more: the same for small and base."""
GPU_PASS = 2**12
"""Tokens that a GPU reads in the time that its launches take: shorter passes are no faster."""
CPU_PIECE = 2**10
"""Tokens of one text that a layer reads together on a CPU, so that they stay in its cache."""
GPU_PIECE = 2**15
"""The same on a GPU, where fewer tokens would be slower, and more would only need more memory."""


def piece_size(valid: Tensor) -> int | None:
    """How many tokens of a text [1, L] are read together; None for a batch or a shorter text."""
    size = CPU_PIECE if valid.device.type == "cpu" else GPU_PIECE
    return size if valid.shape[0] == 1 and valid.shape[1] > size else None


def few_at_a_time(mask: Tensor) -> list[Tensor]:
    """The numbers [n] of the texts of a batch, given [N, L], that are read together, part by part.

    The texts of a part have similar lengths, the longest first.
    """
    lengths, order = mask.sum(dim=1).sort(descending=True, stable=True)
    sizes = cheapest_parts(lengths.numpy(force=True), on_gpu=mask.device.type != "cpu")
    return list(torch.split(order, sizes))


def cheapest_parts(lengths: np.ndarray, *, on_gpu: bool) -> list[int]:
    """How many texts, of falling lengths [N], each part has if they take the least time together.

    A part takes the time of its tokens, padding included, and of one more pass.
    """
    least = np.zeros(len(lengths) + 1)  # the time of the first texts, by their number
    first = np.zeros(len(lengths) + 1, dtype=int)  # of the last part of these
    # Texts without tokens belong to the part before them: no model reads such texts alone.
    with_tokens = max(1, int(np.count_nonzero(lengths)))
    for end in range(1, len(lengths) + 1):
        start = np.arange(end)
        tokens = (end - start) * lengths[:end]
        time = np.maximum(tokens, GPU_PASS) if on_gpu else tokens + CPU_PASS
        is_one_text = start == min(end, with_tokens) - 1
        allowed = (start < with_tokens) & ((tokens <= AT_A_TIME) | is_one_text)
        total = np.where(allowed, least[:end] + time, np.inf)
        first[end] = total.argmin()
        least[end] = total[first[end]]
    sizes: list[int] = []
    end = len(lengths)
    while end > 0:
        sizes.insert(0, int(end - first[end]))
        end = int(first[end])
    return sizes


def part_of(features: Mapping[str, Any], texts: Tensor) -> dict[str, Any]:
    """The features of some texts [n] of a batch, without the columns that only pad them."""
    mask = features["attention_mask"]
    columns = mask[texts].any(dim=0)
    return {
        name: value[texts][:, columns]
        if isinstance(value, Tensor) and value.shape == mask.shape
        else value
        for name, value in features.items()
    }
