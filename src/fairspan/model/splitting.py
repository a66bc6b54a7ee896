"""Parts of a batch, read one after another: they have little padding and bound the memory."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

SPANS = "fairspan_spans"
"""The feature with the first token of each text of a batch in tiles and how many it has, [N, 2], on
the host."""
AT_A_TIME = 2**15
"""The most tokens of a part, padding included."""
MOST_TOKENS = 2**18
"""Tokens of a batch, padding included, above which only its vectors are kept."""
CPU_PASS = 48
"""The fixed cost of a pass on a CPU, in tokens: the same for small and base models."""
GPU_PASS = 2**12
"""Tokens below which a pass on a GPU is no faster: its launches take as long."""
CPU_PIECE = 2**10
"""Tokens of a piece of a long text on a CPU, which fit into its cache."""
GPU_PIECE = 2**15
"""The same on a GPU: fewer tokens are slower, and more only need more memory."""


def piece_size(valid: Tensor) -> int | None:
    """The tokens of a piece of a text [1, L]; None for a batch or a shorter text."""
    size = CPU_PIECE if valid.device.type == "cpu" else GPU_PIECE
    return size if valid.shape[0] == 1 and valid.shape[1] > size else None


def cheapest_parts(lengths: np.ndarray, *, on_gpu: bool) -> list[int]:
    """How many texts, of falling lengths [N], each part has in the fastest split.

    A part costs its tokens, padding included, and one pass.
    """
    at_once = len(lengths) * lengths[0]
    # The least that two parts take; on a CPU beside the pass that one part takes, too.
    two_parts = max(lengths.sum(), 2 * GPU_PASS) if on_gpu else lengths.sum() + CPU_PASS
    if at_once <= min(AT_A_TIME, two_parts):
        return [len(lengths)]
    least = np.zeros(len(lengths) + 1)  # the time of the first texts, by their number
    first = np.zeros(len(lengths) + 1, dtype=int)  # of the last part of these
    # Texts without tokens join the part before them: no model reads such texts alone.
    with_tokens = max(1, int(np.count_nonzero(lengths)))
    number = np.arange(len(lengths), 0, -1)
    lowest = 0
    for end in range(1, len(lengths) + 1):
        last = min(end, with_tokens) - 1
        # The earlier a part begins, the more tokens it has.
        while lowest < last and (end - lowest) * lengths[lowest] > AT_A_TIME:
            lowest += 1
        starts = slice(lowest, last + 1)
        tokens = number[len(lengths) - end :][starts] * lengths[starts]
        time = np.maximum(tokens, GPU_PASS) if on_gpu else tokens + CPU_PASS
        total = least[starts] + time
        first[end] = lowest + total.argmin()
        least[end] = total[first[end] - lowest]
    sizes: list[int] = []
    end = len(lengths)
    while end > 0:
        sizes.insert(0, int(end - first[end]))
        end = int(first[end])
    return sizes


def columns_of(spans: Tensor) -> slice:
    """The columns of a batch that have tokens of texts, given their spans [n, 2]."""
    return slice(int(spans[:, 0].min()), int(spans.sum(dim=1).max()))


def part_of(features: Mapping[str, Any], texts: Tensor) -> dict[str, Any]:
    """The features of some texts [n] of a batch, without the columns that only pad them."""
    mask = features["attention_mask"]
    spans = features[SPANS][texts]
    columns = columns_of(spans)
    on_device = texts.to(mask.device)
    part = {
        name: value[on_device, columns]
        if isinstance(value, Tensor) and value.shape == mask.shape
        else value
        for name, value in features.items()
    }
    return {**part, SPANS: torch.stack([spans[:, 0] - columns.start, spans[:, 1]], dim=1)}
