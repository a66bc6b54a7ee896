"""`RecordingTransformer`: a model on the same weights that shows what its attention does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import batch_to_device
from torch import Tensor

from fairspan.attention.layers import count_layers, route_attention, unsupported
from fairspan.attention.plan import Plan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.temperature import Side
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights, require_transformers
from fairspan.model.plans import make_plan
from fairspan.model.pooling import PoolingSite, pooling_of
from fairspan.model.segments import SegmentedText, segment_of_tokens
from fairspan.model.tiling import Tiling, forward_under
from fairspan.model.transformer import SEGMENTS

MASSES = "fairspan_masses"
_TOKENIZED_AT_A_TIME = 32


def recording_copy(model: SentenceTransformer, side: Side) -> SentenceTransformer:
    """`model` on the same weights, with transformers that record."""
    for module in require_transformers(model, "record"):
        if "message" in module.modality_config or module.tokenizer is None or not module.tokenizer.is_fast:
            raise unsupported(
                module.model, "has a tokenizer that does not map tokens back to characters, or a chat template"
            )
    recorder = copy_sharing_weights(model).eval()
    for module in recorder.modules():
        if isinstance(module, Transformer):
            module.__class__ = RecordingTransformer
            module.start_recording(recorder, side)
    return recorder


class RecordingTransformer(Transformer):  # type: ignore[misc]
    """A `Transformer` module, calibrated or not, that adds the masses of its pooled rows to the features."""

    calibration: Calibration
    side: Side
    depth: int
    tiling: Tiling | None
    site: tuple[PoolingSite]  # a tuple keeps the pooling module from being registered as a part of this one

    def start_recording(self, model: SentenceTransformer, side: Side) -> None:
        """Route the attention and count its layers."""
        self.calibration = getattr(self, "calibration", PRESETS["none"])
        self.tiling = getattr(self, "tiling", None)
        self.side = side
        self.site = (pooling_of(model, self),)
        self.can_flatten_inputs = False
        route_attention(self.model)
        self.depth = count_layers(self.model)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        inputs = {name: value for name, value in features.items() if name != SEGMENTS}
        plan = self._plan(inputs, features.get(SEGMENTS))
        plan.captured_rows = self._pooled_rows(inputs)
        features.update(forward_under(plan, self, inputs, self.tiling, **kwargs))
        if not plan.passed == len(plan.captured) == self.depth or not plan.kept:
            raise unsupported(
                self.model,
                f"has {self.depth} layers, went through {plan.passed}, calibrated {plan.calibrated} of "
                f"{sorted(plan.layers)}, tiled {plan.tiled} of {sorted(plan.tile_layers)}, and the attention of "
                f"{len(plan.captured)} was recorded",
            )
        features[MASSES] = torch.stack(plan.captured, dim=1)
        return features

    def _plan(self, inputs: dict[str, Any], segment: Tensor | None) -> Plan:
        if not self.calibration.acts_on(self.side):
            return Plan()
        how = (self.calibration, self.site[0], self.depth)
        return make_plan(*how, inputs, self.side, segment, only_pooled=False, tiling=self.tiling)

    def _pooled_rows(self, inputs: dict[str, Any]) -> Tensor:
        """[N, L] bool."""
        site, valid, prompt_length = self.site[0], inputs["attention_mask"].bool(), inputs.get("prompt_length")
        position = torch.arange(valid.shape[1], device=valid.device)
        if site.pooling != "mean":
            rows = position == site.pooled_rows(valid, prompt_length)[:, None]
        elif site.skips_prompt and prompt_length:
            rows = position >= valid.int().argmax(dim=1, keepdim=True) + prompt_length
        else:
            rows = valid
        rows = rows & valid
        return torch.where(rows.any(dim=1, keepdim=True), rows, valid)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What was recorded of a batch of texts, and their tokens.

    Attributes:
        offsets: [N, L, 2], the characters that each token stands for, counted from the start of the prompt.
        special, valid: [N, L] bool, the tokens that the tokenizer added, and those that are not padding.
    """

    result: Any
    offsets: np.ndarray
    special: np.ndarray
    valid: np.ndarray


def runs_of(counts: Sequence[int], batch_tokens: int) -> Iterator[slice]:
    """Runs of neighbouring texts that stay within the budget when they are padded to the longest."""
    first, longest = 0, 0
    for number, count in enumerate(counts):
        longest = max(longest, count)
        if number > first and longest * (number - first + 1) > batch_tokens:
            yield slice(first, number)
            first, longest = number, count
    if first < len(counts):
        yield slice(first, len(counts))


def count_tokens(model: SentenceTransformer, texts: Sequence[str], prompt: str, side: Side) -> list[int]:
    """The tokens of each text, after making sure that the model takes all of them."""
    counts: list[int] = []
    # A max_seq_length that was raised too far does not cut, but lets a text run out of positions.
    window = ModelTokens(model, prompt, side=side).window if isinstance(model[0], Transformer) else None
    for first in range(0, len(texts), _TOKENIZED_AT_A_TIME):
        part = texts[first : first + _TOKENIZED_AT_A_TIME]
        taken, whole = (
            _preprocess(model, part, prompt, side, **options)["attention_mask"].sum(dim=1).tolist()
            for options in ({}, {"truncation": False, "verbose": False})
        )
        for number, (limit, count) in enumerate(zip(taken, whole, strict=True), start=first):
            limit = limit if window is None else min(limit, window)
            if count > limit:
                raise UnsupportedModel(
                    f"text {number} has {count} tokens, prompt and special tokens counted, and the model takes "
                    f"{limit}: split it, or raise max_seq_length if the model allows it."
                )
            if count == 0:
                raise UnsupportedModel(f"text {number} has no tokens, so the model has nothing to attend to.")
        counts += whole
    return counts


def recorded(
    recorder: SentenceTransformer, texts: Sequence[str], prompt: str, side: Side, batch_tokens: int, result: str
) -> Iterator[Recorded]:
    """What the recorder adds to the features as `result`, batch by batch; lengths are checked before the first."""
    counts = count_tokens(recorder, texts, prompt, side)

    def one(run: slice) -> Recorded:
        features = _preprocess(
            recorder, texts[run], prompt, side, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        offsets, special = features.pop("offset_mapping"), features.pop("special_tokens_mask").bool()
        valid = features["attention_mask"]
        if any(isinstance(text, SegmentedText) for text in texts[run]):
            features[SEGMENTS] = segment_of_tokens(texts[run], offsets, valid, prompt)
        with torch.inference_mode():
            features = recorder(batch_to_device(features, recorder.device))
        if result not in features:
            raise _no_attention(side)
        return Recorded(features[result], offsets.numpy(), special.numpy(), valid.bool().numpy())

    return map(one, runs_of(counts, batch_tokens))


def _preprocess(
    model: SentenceTransformer, texts: Sequence[str], prompt: str, side: Side, **tokenizer_options: Any
) -> dict[str, Any]:
    options = {"text": tokenizer_options} if tokenizer_options else None
    features: dict[str, Any] = model.preprocess(list(texts), prompt=prompt, task=side, processing_kwargs=options)
    if "attention_mask" not in features:
        raise _no_attention(side)
    return features


def _no_attention(side: Side) -> UnsupportedModel:
    return UnsupportedModel(f"a {side} goes through no transformer in this model: there is no attention to record.")
