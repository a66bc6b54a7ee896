"""How a calibrated module reads a batch: under a plan, in parts of texts of similar lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn

from fairspan.attention.baskets import is_traced
from fairspan.attention.pieces import in_pieces
from fairspan.attention.plan import Plan
from fairspan.calibration.calibration import Side
from fairspan.errors import DesignError
from fairspan.model.plans import make_plan, pooled_evenly
from fairspan.model.pooling import EVENLY, PROMPT, TOKENS
from fairspan.model.probing import SEGMENTS, SIDE
from fairspan.model.splitting import MOST_TOKENS, few_at_a_time, piece_size
from fairspan.model.tiling import forward_under

_FEATURES = (SIDE, SEGMENTS, EVENLY)


class OnlyVectors(dict[str, Any]):
    """The features of a batch too large for its tokens to be kept: who asks for them is told."""

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
    """The features after one pass, with the tokens [N, L, d] and what is pooled evenly."""
    inputs = {name: value for name, value in features.items() if name not in _FEATURES}
    calibration = module.calibration
    if "input_ids" not in inputs or not calibration.reads_on(side):
        return {**Transformer.forward(module, inputs, **kwargs), EVENLY: False}
    how = (calibration, module.site, module.depth, inputs, side)
    plan = make_plan(*how, features.get(SEGMENTS), module.tiling)
    output: dict[str, Any]
    if plan.acts:
        plan = _in_pieces(module, plan)
        output = forward_under(plan, module, inputs, **kwargs)
        module.path = plan.path
    else:
        output = Transformer.forward(module, inputs, **kwargs)
    # Not before the pass is launched: a GPU would have to wait for it.
    window = None if module.tiling is None else module.tiling.window
    output[EVENLY] = pooled_evenly(calibration, side, plan.tiles, window)
    return output


def _in_pieces(module: Transformer, plan: Plan) -> Plan:
    """The plan, in pieces if it is of one long text and nothing needs all tokens in a layer."""
    size = None if plan.tiles is None or is_traced() else piece_size(plan.tiles.valid)
    if size is None or plan.layers or torch.is_grad_enabled() or not gives_only_tokens(module):
        return plan
    # Last: it visits every module.
    return plan if is_compiled(module.model) else in_pieces(plan, size)


def parts_of(module: Transformer, features: dict[str, Any], side: Side) -> list[Tensor]:
    """The texts of each part in which a batch in tiles is read; none if it is read at once."""
    mask = features.get("attention_mask")
    acts = module.calibration.reads_on(side) and "input_ids" in features
    if module.tiling is None or mask is None or not acts or not gives_only_tokens(module):
        return []
    # Not before: a graph must not depend on the number of texts.
    if len(mask) == 1:
        return []
    whole = module.tiling.whole(module.calibration, module.site, features.get(PROMPT))
    is_tiled = features.get(SEGMENTS) is not None or mask.shape[1] > whole
    parts = few_at_a_time(mask) if is_tiled else []
    return parts if len(parts) > 1 else []


def join(
    module: Transformer,
    features: dict[str, Any],
    parts: Sequence[Tensor],
    outputs: Iterable[dict[str, Any]],
) -> dict[str, Any]:
    """The features of a batch, given those of its parts.

    Of a very large batch, padding included, one token a text is left, which is its vector; without
    an attention mask, nothing takes it for the text's tokens.
    """
    mask = features["attention_mask"]
    order = torch.cat([*parts]).argsort()
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
        columns = mask[texts].any(dim=0).nonzero()[:, 0]
        tokens[texts[:, None], columns] = output[TOKENS]
        evenly.append(_factor(output[EVENLY], texts))
    return {**features, TOKENS: tokens, EVENLY: torch.cat(evenly)[order]}


def _factor(evenly: Tensor | bool, texts: Tensor) -> Tensor:
    """[n]: `EVENLY` of each of some texts, as a number."""
    if isinstance(evenly, Tensor):
        return evenly
    return torch.full((len(texts),), 1.0 if evenly else torch.inf, device=texts.device)


def gives_only_tokens(module: Transformer) -> bool:
    """Whether a module is used to infer tokens, and gives nothing beside them."""
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
