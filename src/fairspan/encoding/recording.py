"""`record`: what the attention of a model does with texts, seen in a copy on the same weights."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import batch_to_device

from fairspan.attention.layers import attention_modules, route_attention, unsupported
from fairspan.attention.plan import Plan
from fairspan.calibration.calibration import PRESETS, Calibration, Side
from fairspan.encoding.tokens import prompt_of, window_of
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights, require_transformers
from fairspan.model.plans import make_plan
from fairspan.model.pooling import pooling_of
from fairspan.model.preprocessing import count_prompt, maps_to_characters
from fairspan.model.probing import SEGMENTS
from fairspan.model.reading import forward_under
from fairspan.model.segments import SegmentedText, segment_of_tokens
from fairspan.model.tiling import Tiling

_RECORDED = "fairspan_recorded"


class RecordingTransformer(Transformer):  # type: ignore[misc]
    """A `Transformer` module, calibrated or not, that adds what it recorded to the features."""

    def start(self, model: SentenceTransformer) -> None:
        """Route the attention and count its layers."""
        self.calibration: Calibration = getattr(self, "calibration", PRESETS["plain"])
        self.tiling: Tiling | None = getattr(self, "tiling", None)
        # A tuple keeps the pooling module from being registered as a part of this one.
        self.site = (pooling_of(model, self),)
        self.can_flatten_inputs = False
        route_attention(self.model)
        self.depth = len(attention_modules(self.model))

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The features of a batch, with tokens of the prompt counted as in a calibrated model."""
        features: dict[str, Any] = super().preprocess(inputs, prompt=prompt, **kwargs)
        if self.tiling is not None and prompt:
            count_prompt(features, self.site[0], self.tokenizer, prompt)
        return features

    def recording(self, plan: Plan, inputs: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
        """Prepare a pass; returns what computes the recorded result from its features."""
        raise NotImplementedError

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features after a pass, with what was recorded of it."""
        inputs = {name: value for name, value in features.items() if name != SEGMENTS}
        plan = Plan()
        if self.calibration.on("document").acts:
            side: Side = "document"
            how = (self.calibration, self.site[0], self.depth, inputs, side)
            plan = make_plan(*how, features.get(SEGMENTS), self.tiling)
        result = self.recording(plan, inputs)
        features.update(forward_under(plan, self, inputs, **kwargs))
        features[_RECORDED] = result(features)
        return features


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What was recorded of a text, and its tokens.

    Attributes:
        offsets: [L, 2], the characters of the text that each token stands for; those of the prompt
            are below 0.
        special: [L] bool, the tokens that the tokenizer added.
    """

    result: Any
    offsets: np.ndarray
    special: np.ndarray


def record(
    model: SentenceTransformer,
    texts: Sequence[str],
    kind: type[RecordingTransformer],
    *,
    prompt: str | None,
    **options: Any,
) -> Iterator[Recorded]:
    """What each document leaves in transformers of class `kind`, started with `options`.

    Everything is checked before the first text goes through.
    """
    for module in require_transformers(model, "record"):
        if not maps_to_characters(module):
            raise unsupported(
                module.model,
                "has a tokenizer that does not map tokens back to characters, or a chat template",
            )
    recorder = copy_sharing_weights(model).eval()
    for module in recorder.modules():
        if isinstance(module, Transformer):
            module.__class__ = kind
            module.start(recorder, **options)
    before = prompt_of(model, "document") if prompt is None else prompt
    tokenized = [_tokenized(recorder, text, number, before) for number, text in enumerate(texts)]

    def recorded(text: str, features: dict[str, Any]) -> Recorded:
        """What a pass over one text records."""
        offsets = features.pop("offset_mapping")
        special = features.pop("special_tokens_mask").bool()
        if isinstance(text, SegmentedText):
            mask = features["attention_mask"]
            features[SEGMENTS] = segment_of_tokens([text], offsets, mask, before)
        with torch.inference_mode():
            features = recorder(batch_to_device(features, recorder.device))
        return Recorded(features[_RECORDED], offsets[0].numpy() - len(before), special[0].numpy())

    return map(recorded, texts, tokenized)


def _tokenized(model: SentenceTransformer, text: str, number: int, prompt: str) -> dict[str, Any]:
    """The features of a text; raise if the model does not take all of it."""

    def preprocess(**options: bool) -> dict[str, Any]:
        """The features under these options of the tokenizer."""
        options |= {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        features: dict[str, Any] = model.preprocess(
            [text], prompt=prompt, task="document", processing_kwargs={"text": options}
        )
        if "attention_mask" not in features:
            raise UnsupportedModel(
                "a document goes through no transformer in this model: there is no attention to "
                "record."
            )
        return features

    features = preprocess(truncation=False, verbose=False)
    whole = features["attention_mask"].shape[1]
    if whole == 0:
        raise UnsupportedModel(
            f"text {number} has no tokens, so the model has nothing to attend to."
        )
    # A max_seq_length above the positions does not cut, but lets a text run out of them.
    window = window_of(model) if isinstance(model[0], Transformer) else None
    limit = min(preprocess()["attention_mask"].shape[1], window or whole)
    if whole > limit:
        raise UnsupportedModel(
            f"text {number} has {whole} tokens, prompt and special tokens included, and the model "
            f"reads {limit}: split it, or raise max_seq_length if the model allows it."
        )
    return features
