"""A SentenceTransformer as one traced graph: token ids in, sentence embeddings out, for texts of any length."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Router, Transformer
from torch import Tensor, nn

from fairspan.attention.layers import count_layers, route_attention
from fairspan.calibration.temperature import Side
from fairspan.errors import ExportError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights, require_transformers
from fairspan.model.language_module import LanguageModule
from fairspan.model.transformer import SIDE, CalibratedTransformer

OUTPUT = "sentence_embedding"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# What torch and onnxscript say of their own progress.
_LOGGERS = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")


class Graph(nn.Module):
    """All modules of a model on one side, its prompt's length known."""

    def __init__(self, model: SentenceTransformer, side: Side, prompt_length: int | None) -> None:
        super().__init__()
        self.model, self.side, self.prompt_length = _traceable_copy(model), side, prompt_length

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask, "modality": "text"}
        if token_type_ids is not None:
            features["token_type_ids"] = token_type_ids
        if self.prompt_length is not None:
            features["prompt_length"] = self.prompt_length
        if isinstance(self.model[0], CalibratedTransformer):
            features[SIDE] = self.side
        embedding: Tensor = self.model(features)[OUTPUT]
        return embedding if self.model.truncate_dim is None else embedding[:, : self.model.truncate_dim]


def exportable_copy(model: SentenceTransformer) -> SentenceTransformer:
    """A copy on the CPU, in float32.

    Raises:
        ExportError: if the model has a part that no graph can have.
    """
    _refuse_foreign_parts(model)
    try:
        require_transformers(model, "export")
    except UnsupportedModel as error:
        raise ExportError(error.message) from None
    return copy_sharing_weights(model).to("cpu").float().eval()


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


def _refuse_foreign_parts(model: SentenceTransformer) -> None:
    if not isinstance(model, SentenceTransformer):
        raise ExportError(f"export takes a SentenceTransformer, got {type(model).__name__}.")
    for module in model.modules():
        if isinstance(module, Router):
            raise ExportError(
                "the model has a Router, which sends queries and documents through different modules, and a graph "
                "has one way: build a SentenceTransformer from the modules of one side and export that."
            )
    first, *others = model.children()
    if not isinstance(first, Transformer):
        raise ExportError(f"the model begins with {type(first).__name__}: only Transformer models are exported.")
    spoken = [one for one in others if isinstance(one, LanguageModule) and one.needs_language]
    if spoken:
        raise ExportError(
            f"{spoken[0].method} corrects vectors by the language of each text, which a graph is not given: export a "
            "model with subspace, or without a correction of languages."
        )
    known = [one for one in others if not isinstance(one, LanguageModule)]
    own = [one for one in known if not type(one).__module__.startswith("sentence_transformers.")]
    if type(first.model).__module__.startswith("transformers_modules."):
        own.insert(0, first.model)
    if own:
        raise ExportError(
            f"{type(own[0]).__name__} is a module with code of its own: only modules of sentence_transformers and "
            "models that transformers implements are exported."
        )
    if "message" in first.modality_config:
        raise ExportError(
            "the model wraps texts in a chat template, which a graph with a tokenizer beside it cannot."
        )
    if first.tokenizer is None:
        raise ExportError("the model has no tokenizer that could be written beside the graph.")


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
    with _quiet(), torch.no_grad():
        try:
            program = torch.export.export(graph, (), example, dynamic_shapes=shapes, strict=False)
            made: Any = torch.onnx.export(
                program, dynamo=True, verbose=False, output_names=[OUTPUT], dynamic_shapes=shapes
            )
        except Exception as error:
            raise ExportError(
                f"{type(graph.model[0].model).__name__} cannot be exported for texts of any length: {_reason(error)}"
            ) from None
    for node in made.model.graph:
        node.metadata_props.clear()  # where in whose files the node was traced
    return made


def _reason(error: Exception) -> str:
    """The line of an error that says most; torch puts advice around it."""
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("Not all values", "<class", "Could not guard"))]
    return (telling or lines or [type(error).__name__])[0]


@contextmanager
def _quiet() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    try:
        for name in levels:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
