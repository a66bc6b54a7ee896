"""A SentenceTransformer as one traced graph: token ids in, embeddings out, for texts of any length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor, nn

from fairspan.attention.layers import count_layers, route_attention
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights, require_transformers
from fairspan.model.pooling import TOKENS
from fairspan.model.transformer import CalibratedTransformer

OUTPUTS = ("sentence_embedding", "last_hidden_state")
"""The vector of each text, and those of its tokens as the transformer leaves them."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Graph(nn.Module):
    """All modules of a model; what a batch holds besides its tokens is `constant`, such as the prompt's length."""

    def __init__(self, model: SentenceTransformer, constant: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.constant = _traceable_copy(model), constant

    @classmethod
    def of(
        cls, model: SentenceTransformer, texts: list[str], prompt: str, side: str
    ) -> tuple["Graph", dict[str, Tensor]]:
        """The graph of a model, and its inputs for a batch as `encode_document` or `encode_query` makes it."""
        features: dict[str, Any] = model.preprocess(texts, prompt=prompt or None, task=side)
        constant = {key: value for key, value in features.items() if key not in INPUTS}
        unknown = [key for key, value in constant.items() if isinstance(value, Tensor)]
        if unknown:
            raise UnsupportedModel(
                f"the model takes {unknown[0]!r} besides token ids, which a graph has no input for."
            )
        return cls(model, constant), {name: features[name] for name in INPUTS if name in features}

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        given = dict(zip(INPUTS, (input_ids, attention_mask, token_type_ids), strict=True))
        transformer, *others = self.model.children()
        features = transformer(
            {**self.constant, **{name: one for name, one in given.items() if one is not None}}
        )
        tokens: Tensor = features[TOKENS]
        for module in others:
            features = module(features)
        return features[OUTPUTS[0]][:, : self.model.truncate_dim], tokens


def exportable_copy(model: SentenceTransformer) -> SentenceTransformer:
    """A copy on the CPU, in float32.

    Raises:
        UnsupportedModel: if the model has a part that no graph can have.
    """
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(f"export takes a SentenceTransformer, got {type(model).__name__}.")
    require_transformers(model, "export")
    first, *others = model.children()
    parts = [first.model, *others] if isinstance(first, Transformer) else [first]
    known = ("sentence_transformers.", "transformers.", "fairspan.")
    foreign = [type(part).__name__ for part in parts if not type(part).__module__.startswith(known)]
    if not isinstance(first, Transformer):
        why = "has a Router: build a SentenceTransformer from the modules of one side, and export that"
    elif foreign:
        why = f"has {foreign[0]}, a module with custom code, which cannot be exported"
    elif "message" in first.modality_config or not getattr(first.tokenizer, "is_fast", False):
        why = "wraps texts in a chat template, or has no fast tokenizer that could be written beside a graph"
    else:
        return copy_sharing_weights(model).to("cpu").float().eval()
    raise UnsupportedModel(f"the model {why}.")


def _traceable_copy(model: SentenceTransformer) -> SentenceTransformer:
    copied = copy_sharing_weights(model)
    for module in copied.modules():
        if isinstance(module, Pooling):
            # torch cannot trace a look at the values of a mask.
            module._exclude_prompt_from_mask = _without_prompt
    transformer = copied[0]
    if isinstance(transformer, CalibratedTransformer) and transformer.calibration.acts:
        return copied
    routed = copy_sharing_weights(transformer.model)
    with suppress(UnsupportedModel):  # a model's own attention may be traceable as well
        route_attention(routed)
        count_layers(routed)
        transformer.model = routed
    return copied


def _without_prompt(attention_mask: Tensor, prompt_length: int) -> Tensor:
    """What the pooling module does, for padding on either side at once."""
    first = attention_mask.int().argmax(dim=1, keepdim=True)
    place = torch.arange(attention_mask.shape[1], device=attention_mask.device)
    return torch.where(place < first + prompt_length, 0, attention_mask)


def trace(graph: Graph, example: dict[str, Tensor], window: int | None) -> Any:
    """The ONNX program of a graph, for batches and texts of any size up to the window.

    Args:
        example: a batch of several texts. What is found to depend on its size is an error.
    """
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=window)}
    shapes = dict.fromkeys(example, shape)
    with quiet(), torch.no_grad():
        try:
            program = torch.export.export(graph, (), example, dynamic_shapes=shapes, strict=False)
            made: Any = torch.onnx.export(
                program,
                dynamo=True,
                verbose=False,
                output_names=list(OUTPUTS),
                dynamic_shapes=shapes,
            )
        except Exception as error:
            raise UnsupportedModel(
                f"{type(graph.model[0].model).__name__} cannot be exported for texts of any length: {_reason(error)}"
            ) from None
    for node in made.model.graph:
        node.metadata_props.clear()  # where in whose files the node was traced
    return made


def _reason(error: Exception) -> str:
    """The line of an error that says most; torch puts advice around it."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    telling = [
        line for line in lines if line.startswith(("Not all values", "<class", "Could not guard"))
    ]
    return (telling or lines or [type(error).__name__])[0]


@contextmanager
def quiet() -> Iterator[None]:
    """Without what torch, onnxscript and onnxruntime say of their own progress, and the handler that one installs."""
    root = logging.root
    level, handlers, disabled = root.level, root.handlers[:], root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers
