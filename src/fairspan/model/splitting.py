"""A batch of long texts in parts that are read one after another, so that memory is bounded."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

AT_A_TIME = 2**15
"""Tokens of a batch in tiles, padding included, that are read together."""
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


def few_at_a_time(mask: Tensor) -> list[slice]:
    """Neighbouring texts of a batch, given [N, L], that are read together."""
    if len(mask) * mask.shape[1] <= AT_A_TIME:
        return [slice(None)]
    lengths = mask.sum(dim=1).tolist()
    parts = []
    start = 0
    for stop in range(1, len(lengths) + 1):
        if stop == len(lengths) or max(lengths[start : stop + 1]) * (stop + 1 - start) > AT_A_TIME:
            parts.append(slice(start, stop))
            start = stop
    return parts


def take(features: Mapping[str, Any], part: slice) -> dict[str, Any]:
    """The features of some texts of a batch, without columns that are padding in all of them."""
    mask = features["attention_mask"]
    columns = mask[part].any(dim=0)
    taken = {
        name: value[part][:, columns]
        for name, value in features.items()
        if isinstance(value, Tensor) and value.shape == mask.shape
    }
    return {**features, **taken}


def put_back(mask: Tensor, parts: Sequence[slice], tokens: Sequence[Tensor]) -> Tensor:
    """[N, L, d], the tokens of a whole batch, given those of the parts that `take` took."""
    whole = tokens[0].new_zeros(*mask.shape, tokens[0].shape[-1])
    for part, part_tokens in zip(parts, tokens, strict=True):
        whole[part][:, mask[part].any(dim=0)] = part_tokens
    return whole
