"""`attention_rows`: where the row that becomes the embedding looks, layer by layer (METHODS §4)."""

from __future__ import annotations

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
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.calibrated.plans import make_plan
from fairspan.calibrated.pooling import PoolingSite, pooling_of
from fairspan.calibrated.segments import SegmentedText, segment_of_tokens
from fairspan.calibrated.transformer import SEGMENTS, CalibratedTransformer, refuse_exported
from fairspan.calibrated.weights import copy_sharing_weights
from fairspan.calibration import PRESETS, Calibration
from fairspan.encoding.tokens import ModelTokens, document_prompt
from fairspan.errors import UnsupportedModel
from fairspan.temperature import Side

NO_CHARACTER = -1
_MASSES = "fairspan_masses"
_TOKENIZED_AT_A_TIME = 32


@dataclass(frozen=True, slots=True, eq=False)
class AttentionRow:
    """The attention that one text's pooled row gives to each token, averaged over heads.

    Attributes:
        masses: [layers, tokens], summing to 1 over the tokens of each layer.
        offsets: [tokens, 2], the characters of the text that each token stands for, counted without the prompt;
            `NO_CHARACTER` twice for special and prompt tokens.
        special: [tokens] bool, the tokens that the tokenizer added.
        prompt: [tokens] bool, the tokens that lie in the prompt.
    """

    masses: np.ndarray
    offsets: np.ndarray
    special: np.ndarray
    prompt: np.ndarray

    @property
    def content(self) -> np.ndarray:
        """[tokens] bool, the tokens of the text itself."""
        own: np.ndarray = ~(self.special | self.prompt)
        return own


def attention_rows(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    side: Side = "document",
    batch_tokens: int = 8192,
) -> Iterator[AttentionRow]:
    """The attention of each text's pooled row, in the order of the texts.

    The pooled row is the first token's for CLS pooling and the last token's for last-token pooling. Every other
    pooling (mean, weighted mean, max, several at once) reads all tokens: the row is then the plain average over the
    rows that are pooled, without the prompt's where the model leaves those out. In the calibrated layers of a
    calibrated model these are the calibrated weights.

    No L×L tensor is made for this; models that make one themselves, for a sliding window or a position bias, still
    do. The model stays as it is: the texts go through a copy on the same weights.

    Args:
        model: a SentenceTransformer on the torch backend, plain or calibrated.
        texts: strings. In a calibrated model a `SegmentedText` has its segments as baskets, as in `encode_segments`.
        prompt: what to put before every text; None for what `encode_document` or `encode_query` would.
        side: which of the two is meant.
        batch_tokens: how many tokens, padding counted, go through the model at once; a longer text goes alone.

    Raises:
        UnsupportedModel: at once, if the model's attention cannot be reached, or a text is longer than the model's
            window or has no tokens.
    """
    if prompt is None:
        prompt = _own_prompt(model, side)
    recorder = _recording_copy(model, side)
    counts = _count_tokens(recorder, texts, prompt, side)
    return _rows(recorder, texts, prompt, side, _runs(counts, batch_tokens))


def _rows(
    recorder: SentenceTransformer, texts: Sequence[str], prompt: str, side: Side, runs: Iterator[slice]
) -> Iterator[AttentionRow]:
    for run in runs:
        features = _preprocess(
            recorder, texts[run], prompt, side, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        offsets, valid = features.pop("offset_mapping"), features["attention_mask"]
        special = features.pop("special_tokens_mask").bool().numpy()
        if any(isinstance(text, SegmentedText) for text in texts[run]):
            features[SEGMENTS] = segment_of_tokens(texts[run], offsets, valid, prompt)
        with torch.inference_mode():
            features = recorder(batch_to_device(features, recorder.device))
        if _MASSES not in features:
            raise _no_attention(side)
        masses = features[_MASSES].cpu().numpy()
        for number, keep in enumerate(valid.bool().numpy()):
            yield _row(masses[number][:, keep], offsets.numpy()[number][keep], special[number][keep], prompt)


def _row(masses: np.ndarray, offsets: np.ndarray, special: np.ndarray, prompt: str) -> AttentionRow:
    """A token belongs to the prompt if its last character does: one that begins with the prompt's final space and
    goes on into the text is the text's."""
    shift = len(prompt)
    begin, end = offsets.T
    in_prompt = ~special & (begin < shift) & (end <= shift)
    own = np.maximum(offsets - shift, 0)
    own[special | in_prompt] = NO_CHARACTER
    return AttentionRow(masses, own, special, in_prompt)


def _runs(counts: Sequence[int], batch_tokens: int) -> Iterator[slice]:
    """Runs of neighbouring texts that stay within the budget when they are padded to the longest."""
    first, longest = 0, 0
    for number, count in enumerate(counts):
        longest = max(longest, count)
        if number > first and longest * (number - first + 1) > batch_tokens:
            yield slice(first, number)
            first, longest = number, count
    if first < len(counts):
        yield slice(first, len(counts))


def _count_tokens(model: SentenceTransformer, texts: Sequence[str], prompt: str, side: Side) -> list[int]:
    """The tokens of each text, after making sure that the model takes all of them."""
    counts: list[int] = []
    # A max_seq_length that was raised too far does not cut, but lets a text run out of positions.
    window = ModelTokens(model, prompt).window if isinstance(model[0], Transformer) else None
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


def _own_prompt(model: SentenceTransformer, side: Side) -> str:
    """What `encode_document` or `encode_query` puts before a text."""
    if side == "document":
        return document_prompt(model)
    prompts = model.prompts or {}
    return str(prompts.get("query" if "query" in prompts else model.default_prompt_name) or "")


def _recording_copy(model: SentenceTransformer, side: Side) -> SentenceTransformer:
    """`model` on the same weights, with transformers that record."""
    given = [module for module in model.modules() if isinstance(module, Transformer)]
    if not given:
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(f"the model has no Transformer module, only {kinds}: there is no attention to record.")
    for module in given:
        refuse_exported(module)
        if type(module) not in (Transformer, CalibratedTransformer):
            raise UnsupportedModel(
                f"{type(module).__name__} is a Transformer module with code of its own, which fairspan would "
                "bypass: rebuild the model with sentence_transformers' Transformer."
            )
        if "message" in module.modality_config or module.tokenizer is None or not module.tokenizer.is_fast:
            raise unsupported(
                module.model, "has a tokenizer that does not map tokens back to characters, or a chat template"
            )
    recorder = copy_sharing_weights(model).eval()
    for module in recorder.modules():
        if isinstance(module, Transformer):
            module.__class__ = _RecordingTransformer
            module.start_recording(recorder, side)
    return recorder


class _RecordingTransformer(Transformer):  # type: ignore[misc]
    """A `Transformer` module, calibrated or not, that adds the masses of its pooled rows to the features."""

    calibration: Calibration
    side: Side
    depth: int
    site: tuple[PoolingSite]  # a tuple keeps the pooling module from being registered as a part of this one

    def start_recording(self, model: SentenceTransformer, side: Side) -> None:
        """Route the attention and count its layers."""
        self.calibration = getattr(self, "calibration", PRESETS["none"])
        self.side = side
        self.site = (pooling_of(model, self),)
        self.can_flatten_inputs = False
        route_attention(self.model)
        self.depth = count_layers(self.model)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        inputs = {name: value for name, value in features.items() if name != SEGMENTS}
        plan = self._plan(inputs, features.get(SEGMENTS))
        plan.captured_rows = self._pooled_rows(inputs)
        features.update(super().forward(dict(inputs), **{PLAN_ARGUMENT: plan}, **kwargs))
        if not plan.passed == len(plan.captured) == self.depth or plan.calibrated != sorted(plan.layers):
            raise unsupported(
                self.model,
                f"has {self.depth} layers, went through {plan.passed}, calibrated {plan.calibrated} of "
                f"{sorted(plan.layers)}, and the attention of {len(plan.captured)} was recorded",
            )
        features[_MASSES] = torch.stack(plan.captured, dim=1)
        return features

    def _plan(self, inputs: dict[str, Any], segment: Tensor | None) -> Plan:
        if not self.calibration.acts_on(self.side):
            return Plan()
        return make_plan(self.calibration, self.site[0], self.depth, inputs, self.side, segment, only_pooled=False)

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
