"""A SentenceTransformer as one traced graph: token ids in, embeddings out, for any length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from torch import Tensor, nn
from torch.nn.functional import normalize

from fairspan.attention.layers import attention_modules, route_attention
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights, require_transformers
from fairspan.model.even import EvenPooling
from fairspan.model.level import Level
from fairspan.model.pooling import TOKENS
from fairspan.model.probing import side_of
from fairspan.model.transformer import CalibratedTransformer

OUTPUTS = ("sentence_embedding", "last_hidden_state")
"""The vector of each text, and those of its tokens as the transformer leaves them; in a text that
is pooled evenly, or level, these are moved together, so that programs which pool them get the even
vector, and the direction of the level one."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Moving all tokens moves what these pool just as far.
_MOVED = ("mean", "cls", "lasttoken", "max", "weightedmean")


class Graph(nn.Module):
    """All modules of a model; `constant` is what a batch has besides tokens: a prompt's length."""

    def __init__(self, model: SentenceTransformer, constant: dict[str, Any]) -> None:
        super().__init__()
        self.model = _traceable_copy(model)
        self.constant = constant

    @classmethod
    def of(
        cls, model: SentenceTransformer, texts: list[str], prompt: str, side: str
    ) -> tuple["Graph", dict[str, Tensor]]:
        """The graph of a model, and its inputs for a batch of texts on one side."""
        features: dict[str, Any] = model.preprocess(texts, prompt=prompt or None, task=side)
        constant = {key: value for key, value in features.items() if key not in INPUTS}
        for key, value in constant.items():
            if isinstance(value, Tensor):
                message = f"the model takes {key!r} besides token ids"
                raise UnsupportedModel(f"{message}, which a graph has no input for.")
        return cls(model, constant), {name: features[name] for name in INPUTS if name in features}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """[batch, dimension] and [batch, length, hidden], of inputs [batch, length]."""
        features = {**self.constant, "input_ids": input_ids, "attention_mask": attention_mask}
        if token_type_ids is not None:
            features["token_type_ids"] = token_type_ids
        transformer, *others = self.model.children()
        features = transformer(features)
        tokens: Tensor = features[TOKENS]
        for module in others:
            features = module(features)
            if isinstance(module, EvenPooling):
                mean = Pooling.forward(module, {**features, TOKENS: tokens})[OUTPUTS[0]]
                tokens = tokens + (features[OUTPUTS[0]] - mean)[:, None]
            if isinstance(module, Pooling):
                pooled = features[OUTPUTS[0]]
        if levels_tokens(self.model) and side_of(features) == "document":
            length = torch.linalg.vector_norm(pooled, dim=1, keepdim=True)
            tokens = tokens + (length * normalize(features[OUTPUTS[0]]) - pooled)[:, None]
        return features[OUTPUTS[0]][:, : self.model.truncate_dim], tokens


def levels_tokens(model: SentenceTransformer) -> bool:
    """Whether programs that pool and normalise the graph's tokens get level vectors.

    They do not if a module between pooling and `Level` changes directions.
    """
    modules = [module for module in model.children() if not isinstance(module, Normalize)][1:]
    if len(modules) != 2 or not isinstance(modules[0], Pooling):
        return False
    return isinstance(modules[1], Level) and modules[0].pooling_mode in _MOVED


def exportable_copy(model: SentenceTransformer) -> SentenceTransformer:
    """A copy on the CPU, in float32; raises if the model has a part that no graph can have."""
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(f"export takes a SentenceTransformer, got {type(model).__name__}.")
    require_transformers(model, "export")
    first, *others = model.children()
    if not isinstance(first, Transformer):
        raise UnsupportedModel(
            "the model has a Router: build a SentenceTransformer from the modules of one side, and "
            "export that."
        )
    traceable = ("sentence_transformers.", "transformers.", "fairspan.")
    for part in (first.model, *others):
        if not type(part).__module__.startswith(traceable):
            what = f"{type(part).__name__}, a module with custom code"
            raise UnsupportedModel(f"the model has {what}, which cannot be exported.")
    if "message" in first.modality_config or not getattr(first.tokenizer, "is_fast", False):
        raise UnsupportedModel(
            "the model wraps texts in a chat template, or has no fast tokenizer that could be "
            "written beside a graph."
        )
    return copy_sharing_weights(model).to("cpu").float().eval()


def _traceable_copy(model: SentenceTransformer) -> SentenceTransformer:
    """A copy whose pooling and attention torch can trace."""
    copied = copy_sharing_weights(model)
    for module in copied.modules():
        if isinstance(module, Pooling):
            # torch cannot trace code that depends on the values of a mask.
            module._exclude_prompt_from_mask = _without_prompt
    transformer = copied[0]
    if isinstance(transformer, CalibratedTransformer) and transformer.depth > 0:
        return copied
    routed = copy_sharing_weights(transformer.model)
    with suppress(UnsupportedModel):  # a model's own attention may be traceable as well
        route_attention(routed)
        attention_modules(routed)
        transformer.model = routed
    return copied


def _without_prompt(attention_mask: Tensor, prompt_length: int) -> Tensor:
    """[batch, length]: what the pooling module does, for padding on either side at once."""
    first = attention_mask.int().argmax(dim=1, keepdim=True)
    place = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    return torch.where(place < first + prompt_length, 0, attention_mask)


def trace(graph: Graph, example: dict[str, Tensor], window: int | None) -> Any:
    """The ONNX program of a graph, for batches of any size and texts up to the window."""
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=window)}
    shapes = dict.fromkeys(example, shape)
    with quiet(), torch.no_grad():
        try:
            program = torch.export.export(graph, (), example, dynamic_shapes=shapes, strict=False)
            traced: Any = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                output_names=list(OUTPUTS),
                dynamic_shapes=shapes,
            )
        except Exception as error:
            name = type(graph.model[0].model).__name__
            message = f"{name} cannot be exported for texts of any length: {_reason(error)}"
            raise UnsupportedModel(message) from None
    for node in traced.model.graph:
        node.metadata_props.clear()  # local paths of the files that were traced
    return traced


def _reason(error: Exception) -> str:
    """The line of an error that says most; torch puts advice around it."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    causes = ("Not all values", "<class", "Could not guard")
    matches = [line for line in lines if line.startswith(causes)]
    return (matches or lines or [type(error).__name__])[0]


@contextmanager
def quiet() -> Iterator[None]:
    """No messages of torch, onnxscript and onnxruntime, and none of their logging handlers."""
    root = logging.root
    level = root.level
    handlers = root.handlers[:]
    disabled = root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers
