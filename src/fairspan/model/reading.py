"""How a calibrated module reads a batch: under a plan, in parts of texts of similar lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

from fairspan.attention.baskets import is_traced
from fairspan.attention.layers import unsupported
from fairspan.attention.pieces import in_pieces
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.attention.tiles import reading, spans_of
from fairspan.calibration.calibration import Side
from fairspan.errors import DesignError
from fairspan.model.plans import make_plan, pooled_evenly
from fairspan.model.pooling import EVENLY, PROMPT, TOKENS
from fairspan.model.probing import SEGMENTS, SIDE
from fairspan.model.splitting import (
    MOST_TOKENS,
    SPANS,
    cheapest_parts,
    columns_of,
    piece_size,
)

_FEATURES = (SIDE, SEGMENTS, EVENLY, SPANS)


class OnlyVectors(dict[str, Any]):
    """The features of a batch that is too large to keep its tokens; asking for them is an error."""

    def __missing__(self, key: str) -> Any:
        if key != "attention_mask":
            raise KeyError(key)
        raise DesignError(
            f"a batch of more than {MOST_TOKENS:,} tokens, padding included, gives vectors but no "
            "token embeddings: use a smaller batch_size."
        )


def read(
    module: Transformer, features: dict[str, Any], side: Side, **kwargs: Any
) -> dict[str, Any]:
    """The features after one pass: the tokens [N, L, d], and which texts are pooled evenly."""
    inputs = {name: value for name, value in features.items() if name not in _FEATURES}
    calibration = module.calibration
    if "input_ids" not in inputs or not calibration.on(side).reads:
        return {**Transformer.forward(module, inputs, **kwargs), EVENLY: False}
    how = (calibration, module.site, module.depth, inputs, side)
    plan = make_plan(*how, features.get(SEGMENTS), module.tiling, features.get(SPANS))
    output: dict[str, Any]
    if plan.acts:
        plan = _in_pieces(module, plan)
        output = forward_under(plan, module, inputs, **kwargs)
        module.path = plan.path
    else:
        output = Transformer.forward(module, inputs, **kwargs)
    # After the pass is launched: this waits for the GPU.
    at_once = None if module.tiling is None else module.tiling.at_once
    output[EVENLY] = pooled_evenly(calibration, side, plan.tiles, at_once)
    return output


def forward_under(
    plan: Plan, module: Transformer, inputs: dict[str, Any], **kwargs: Any
) -> dict[str, Any]:
    """The features after one pass under a plan; raise if a layer was not calibrated as planned."""
    kwargs[PLAN_ARGUMENT] = plan
    with nullcontext() if plan.tiles is None else reading(plan.tiles):
        if plan.tiles is not None:
            kwargs |= module.tiling.position_ids(plan.tiles)
        output: dict[str, Any] = Transformer.forward(module, dict(inputs), **kwargs)
    promised = sorted(plan.layers)
    plan.ended = True
    if (len(plan.asked), plan.calibrated) != (module.depth, promised):
        raise unsupported(
            module.model,
            f"should have calibrated layers {promised} of {module.depth}, but ran "
            f"{len(plan.asked)} layers and calibrated {plan.calibrated}",
        )
    return output


def _in_pieces(module: Transformer, plan: Plan) -> Plan:
    """The plan, in pieces for one long text, unless something needs all tokens of a layer."""
    size = None if plan.tiles is None or is_traced() else piece_size(plan.tiles.valid)
    if size is None or plan.layers or torch.is_grad_enabled() or not gives_only_tokens(module):
        return plan
    # The last check, as it visits every module.
    return plan if is_compiled(module.model) else in_pieces(plan, size)


def spans_in_tiles(module: Transformer, features: dict[str, Any], side: Side) -> Tensor | None:
    """The feature `SPANS` of a batch; None for one that is not read in tiles, and in a graph."""
    mask = features.get("attention_mask")
    acts = module.calibration.on(side).reads and "input_ids" in features
    if module.tiling is None or mask is None or not acts or is_traced():
        return None
    whole = module.tiling.whole(module.calibration, module.site, features.get(PROMPT))
    is_tiled = features.get(SEGMENTS) is not None or mask.shape[1] > whole
    return spans_of(mask.bool()) if is_tiled else None


def parts_of(module: Transformer, features: dict[str, Any]) -> list[Tensor]:
    """The texts [n] of each part of a batch in tiles; none if the batch is read at once.

    The texts of a part have similar lengths, the longest first.
    """
    spans = features[SPANS]
    if spans is None or len(spans) == 1 or not gives_only_tokens(module):
        return []
    lengths, order = spans[:, 1].sort(descending=True, stable=True)
    on_gpu = features["attention_mask"].device.type != "cpu"
    sizes = cheapest_parts(lengths.numpy(), on_gpu=on_gpu)
    return list(torch.split(order, sizes)) if len(sizes) > 1 else []


def join(
    module: Transformer,
    features: dict[str, Any],
    parts: Sequence[Tensor],
    outputs: Iterable[dict[str, Any]],
) -> dict[str, Any]:
    """The features of a batch, given those of its parts.

    A very large batch, padding included, keeps one token per text: its vector. It has no attention
    mask, so that nothing takes these for the texts' tokens.
    """
    mask = features["attention_mask"]
    order = torch.cat([*parts]).argsort().to(mask.device)
    pool = module.site.module
    is_large = mask.numel() > MOST_TOKENS and isinstance(pool.pooling_mode, str)
    if is_large and module.site.follows_directly:
        vectors = torch.cat([pool(output)["sentence_embedding"] for output in outputs])
        omitted = ("attention_mask", PROMPT)
        kept = {name: value for name, value in features.items() if name not in omitted}
        return OnlyVectors({**kept, TOKENS: vectors[order][:, None], EVENLY: False})
    tokens = None
    evenly = []
    for texts, output in zip(parts, outputs, strict=True):
        if tokens is None:
            tokens = output[TOKENS].new_zeros(*mask.shape, output[TOKENS].shape[-1])
        tokens[texts.to(mask.device), columns_of(features[SPANS][texts])] = output[TOKENS]
        evenly.append(_factor(output[EVENLY], output[TOKENS]))
    return {**features, TOKENS: tokens, EVENLY: torch.cat(evenly)[order]}


def _factor(evenly: Tensor | bool, tokens: Tensor) -> Tensor:
    """[n]: the feature `EVENLY` of the texts of tokens [n, L, d], as numbers."""
    if isinstance(evenly, Tensor):
        return evenly
    return torch.full((len(tokens),), 1.0 if evenly else torch.inf, device=tokens.device)


def gives_only_tokens(module: Transformer) -> bool:
    """Whether a module runs inference and returns nothing but tokens."""
    return (
        module.module_output_name == TOKENS
        and not module.training
        and not getattr(module.model.config, "output_hidden_states", False)
        and not torch.compiler.is_compiling()
    )


def is_compiled(model: nn.Module) -> bool:
    """Whether a part of the model is compiled."""
    return any(
        hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
        for part in model.modules()
    )
