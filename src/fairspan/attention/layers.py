"""Reaching the attention layers of a model, and counting them by running it once."""

import inspect
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from fairspan.attention.interface import NAME
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.attention.relative import route_mpnet, route_t5
from fairspan.errors import UnsupportedModel

# Checkpoints that bring their own code, and the ports that transformers implements.
NATIVE_PORTS = {
    "Alibaba-NLP/gte-multilingual-base": "alibaba-nlp-community/gte-multilingual-base",
    "jinaai/jina-embeddings-v3": "jinaai/jina-embeddings-v3-hf",
}


def route_attention(model: PreTrainedModel) -> None:
    """Switch `model` to fairspan's attention function. Nothing else about it changes."""
    if route_mpnet(model):
        return
    route_t5(model)
    # transformers only warns where fairspan refuses; one message is enough.
    logger = logging.getLogger("transformers.modeling_utils")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        model.set_attn_implementation(NAME)
    finally:
        logger.setLevel(level)


def attention_modules(model: PreTrainedModel) -> list[nn.Module]:
    """What asks for attention, layer by layer, found by sending one short text through a routed
    model.

    Raises:
        UnsupportedModel: if the model, or a part of it, does not ask the attention function.
    """
    plan = Plan()
    parameters = inspect.signature(model.forward).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        probe(model, plan)
    count = len(plan.asked)
    if count == 0:
        raise unsupported(
            model, "does not compute its attention through transformers' attention interface"
        )
    expected = getattr(model.config.get_text_config(), "num_hidden_layers", count)
    if count != expected:
        raise unsupported(
            model,
            f"has {expected} layers, but only {count} compute softmax attention through "
            "transformers' attention interface",
        )
    return plan.asked


def layers_around(model: nn.Module, attention: Collection[nn.Module]) -> tuple[nn.Module, ...]:
    """The layers of a model, each with one of these modules inside; none if it has no such layers.

    A layer is an item of a list of modules, the innermost where such lists are nested.
    """
    layers: dict[nn.Module, nn.Module] = {}
    for items in model.modules():
        for layer in items if isinstance(items, nn.ModuleList) else ():
            inside = [part for part in layer.modules() if part in attention and part is not layer]
            # Inner lists come later.
            layers |= dict.fromkeys(inside, layer)
    different = set(layers.values())
    return tuple(different) if len(different) == len(set(attention)) else ()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """`module` without dropout inside this block, and as it was after it."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def probe_input(model: PreTrainedModel) -> Tensor:
    """One text of a few arbitrary tokens, [1, 4]."""
    vocabulary = int(getattr(model.config.get_text_config(), "vocab_size", 8))
    return torch.tensor([[token % vocabulary for token in (2, 3, 5, 7)]], device=model.device)


def probe(
    model: PreTrainedModel, plan: Plan, input_ids: Tensor | None = None, **options: Any
) -> Any:
    """What a routed model gives for one short text under a plan."""
    input_ids = probe_input(model) if input_ids is None else input_ids
    valid = torch.ones_like(input_ids)
    with evaluating(model), torch.inference_mode():
        return model(input_ids=input_ids, attention_mask=valid, **{PLAN_ARGUMENT: plan}, **options)


def unsupported(model: PreTrainedModel, reason: str) -> UnsupportedModel:
    """The refusal, with the architecture's name and what to load instead."""
    name = str(model.config.name_or_path or type(model).__name__)
    folder = PurePath(name).name
    ports = [port for original, port in NATIVE_PORTS.items() if folder == PurePath(original).name]
    if ports:
        advice = f"Load {ports[0]} instead, the same weights for transformers' own implementation"
    else:
        advice = (
            "Load a checkpoint that transformers implements with the attention interface (BERT, "
            "RoBERTa, XLM-R, ModernBERT, GTE, Qwen3, Gemma 3, MPNet and most others)"
        )
    return UnsupportedModel(
        f"{name}: {type(model).__name__} (model type {model.config.model_type!r}) {reason}. "
        f"{advice}, with the torch backend and without trust_remote_code."
    )
