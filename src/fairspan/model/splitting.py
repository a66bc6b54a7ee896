"""A batch in parts that are read one after another: little padding, and memory is bounded."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

AT_A_TIME = 2**15
"""Tokens of a batch in tiles, padding included, that are read together."""
CPU_PASS = 48
"""Tokens that a CPU reads in the time that every pass takes more: the same for small and base."""
GPU_PASS = 2**12
"""The same on a GPU, where short passes are limited by their launches."""
CPU_PIECE = 2**10
"""Tokens of one text that a CPU reads together: all layers of a small model take under a second."""
GPU_PIECE = 2**15
"""The same on a GPU, where fewer tokens would be slower, and more would only need more memory."""


def piece_size(device: torch.device) -> int:
    """How many tokens of one text are read together."""
    return CPU_PIECE if device.type == "cpu" else GPU_PIECE


def is_longer(mask: Tensor, size: int) -> bool:
    """Whether [N, L] is one text of more than `size` tokens."""
    return mask.shape[0] == 1 and mask.shape[1] > size


def take_rows(features: Mapping[str, Any], rows: Tensor) -> dict[str, Any]:
    """The features of some tokens [L'] of a text."""
    shape = features["input_ids"].shape
    return {
        name: value[:, rows] if isinstance(value, Tensor) and value.shape == shape else value
        for name, value in features.items()
    }


def few_at_a_time(mask: Tensor, *, padded: bool) -> list[Tensor]:
    """The numbers [n] of the texts of a batch, given [N, L], that are read together, part by part.

    The texts of a part have similar lengths, the longest first: their padding costs no more than
    one more pass would. None if the batch is read as it is.
    """
    if not padded and mask.numel() <= AT_A_TIME:
        return []
    lengths, order = mask.sum(dim=1).sort(descending=True, stable=True)
    pass_cost = CPU_PASS if mask.device.type == "cpu" else GPU_PASS
    sizes: list[int] = []
    longest = 0
    padding = 0
    for length in lengths.tolist():
        padding += longest - length
        is_full = bool(sizes) and (padding > pass_cost or longest * (sizes[-1] + 1) > AT_A_TIME)
        # No model reads a part without any token.
        if not sizes or (is_full and length > 0):
            sizes.append(0)
            longest = length
            padding = 0
        sizes[-1] += 1
    return list(torch.split(order, sizes))


def take(features: Mapping[str, Any], part: Tensor) -> dict[str, Any]:
    """The features of some texts [n] of a batch, without columns that are padding in them all."""
    mask = features["attention_mask"]
    columns = mask[part].any(dim=0)
    taken = {
        name: value[part][:, columns]
        for name, value in features.items()
        if isinstance(value, Tensor) and value.shape == mask.shape
    }
    return {**features, **taken}


def put_back(mask: Tensor, parts: Sequence[Tensor], tokens: Sequence[Tensor]) -> Tensor:
    """[N, L, d], the tokens of a whole batch, given those of the parts that `take` took."""
    whole = tokens[0].new_zeros(*mask.shape, tokens[0].shape[-1])
    for part, part_tokens in zip(parts, tokens, strict=True):
        columns = mask[part].any(dim=0).nonzero()[:, 0]
        whole[part[:, None], columns] = part_tokens
    return whole
