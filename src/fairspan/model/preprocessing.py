"""What a calibrated module adds to the preprocessing of a batch: its side, limit and segments.

It also pads, as arrays: lists take longer than the GPU does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from sentence_transformers.sentence_transformer.modules import Transformer

from fairspan.calibration.calibration import Side
from fairspan.errors import DesignError
from fairspan.model.pooling import PROMPT, PoolingSite
from fairspan.model.probing import SEGMENTS, SIDE
from fairspan.model.segments import SegmentedText, segment_of_tokens
from fairspan.model.window import cut_at


def processing_options(
    module: Transformer,
    inputs: Sequence[Any],
    side: Side,
    processing_kwargs: dict[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, Any] | None:
    """The `processing_kwargs` of a call, with the limit of its side and offsets for segments.

    Args:
        options: the other options of the call.
    """
    added: dict[str, Any] = {}
    if _has_segments(inputs):
        if not maps_to_characters(module):
            raise DesignError(
                "segments need a tokenizer that maps tokens back to characters, without a chat "
                "template in between."
            )
        added["return_offsets_mapping"] = True
    of_call = dict((processing_kwargs or {}).get("text", {}))
    of_module = module.processing_kwargs.get("text", {})
    limit = cut_at(module, side, {**options, **of_module, **of_call})
    if limit is not None:
        added["max_length"] = limit
    common = dict((processing_kwargs or {}).get("common", {}))
    if _pads(module, inputs, {**options, **of_module, **of_call, **common}):
        added["padding"] = False
        common["return_tensors"] = None
    if not added:
        return processing_kwargs
    return {**(processing_kwargs or {}), "text": of_call | added, "common": common}


def _pads(module: Transformer, inputs: Sequence[Any], asked: Mapping[str, Any]) -> bool:
    """Whether `add_features` pads: texts whose padding no option decides."""
    is_text = module.processor is module.tokenizer and maps_to_characters(module)
    if not is_text or asked.keys() & {"padding", "pad_to_multiple_of", "return_tensors"}:
        return False
    can_pad = module.tokenizer.pad_token_id is not None
    return can_pad and len(inputs) > 0 and all(type(text) is str for text in inputs)


def add_features(
    module: Transformer,
    features: dict[str, Any],
    inputs: Sequence[Any],
    side: Side,
    prompt: str | None,
) -> None:
    """Add to the features of a batch its side, and the segment of each token if it has any."""
    if isinstance(features.get("input_ids"), list):
        _pad(features, module.tokenizer)
    features[SIDE] = side
    if module.tiling is not None and prompt:
        count_prompt(features, module.site, module.tokenizer, prompt)
    if _has_segments(inputs):
        offsets = features.pop("offset_mapping")
        mask = features["attention_mask"]
        features[SEGMENTS] = segment_of_tokens(inputs, offsets, mask, prompt)


def _pad(features: dict[str, Any], tokenizer: Any) -> None:
    """Make tensors [N, L] of the lists of tokens."""
    fill = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    longest = max(map(len, features["input_ids"]))
    is_left = tokenizer.padding_side == "left"
    for name, texts in features.items():
        if isinstance(texts, list):
            padded = np.full((len(texts), longest), fill.get(name, 0), dtype=np.int64)
            for row, text in zip(padded, texts, strict=True):
                row[longest - len(text) if is_left else 0 :][: len(text)] = text
            features[name] = torch.from_numpy(padded)


def count_prompt(features: dict[str, Any], site: PoolingSite, tokenizer: Any, prompt: str) -> None:
    """Count the tokens of a prompt again, without one that it shares with the text.

    Byte-level tokenizers join the last space of a prompt with the word after it. That token belongs
    to a tile and cannot be global. Where the pooling skips the prompt, its count stays.
    """
    if PROMPT in features and not site.skips_prompt and tokenizer.is_fast:
        end = len(prompt.rstrip(" "))
        offsets = tokenizer(prompt + "a", return_offsets_mapping=True)["offset_mapping"]
        features[PROMPT] = len(list(takewhile(lambda span: span[1] <= end, offsets)))


def maps_to_characters(module: Transformer) -> bool:
    """Whether tokens map back to characters: a fast tokenizer, and no chat template."""
    chat = "message" in module.modality_config
    return not chat and module.tokenizer is not None and module.tokenizer.is_fast


def _has_segments(inputs: Sequence[Any]) -> bool:
    return any(isinstance(text, SegmentedText) for text in inputs)
