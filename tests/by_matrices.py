"""The registered attention function written again over whole matrices in float64, for comparison.

It shares nothing with the fast paths but the plan that it reads and `fairspan.attention.reference`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from fairspan.attention.interface import NAME, attention
from fairspan.attention.plan import Plan
from fairspan.attention.reference import attention_weights, calibrate_weights


def attention_by_matrices(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    fairspan_plan: Plan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    groups = query.shape[1] // key.shape[1]
    q, k, v = query.double(), key.double(), value.double()
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    n, _, length, dim = q.shape
    temperature = torch.ones(n, dtype=torch.float64)
    if fairspan_plan is not None:
        temperature = temperature / fairspan_plan.inverse_temperature

    bias = torch.zeros(n, 1, length, length, dtype=torch.float64)
    if attention_mask is None:
        if kwargs.get("is_causal", getattr(module, "is_causal", False)):
            bias = bias.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    elif attention_mask.dtype == torch.bool:
        bias = bias.masked_fill(~attention_mask, -torch.inf)
    else:
        bias = bias + attention_mask
    if position_bias is not None:
        divisor = temperature[:, None, None, None] if _divides_bias(fairspan_plan) else 1
        bias = bias + position_bias.double() / divisor

    scale = dim**-0.5 if scaling is None else scaling
    p = attention_weights(q, k, bias, scale, temperature).nan_to_num()
    if fairspan_plan is not None:
        layer = fairspan_plan.enter_layer()
        if layer in fairspan_plan.layers:
            rule = fairspan_plan.rule
            fairspan_plan.calibrated.append(layer)
            strength = torch.ones(n) if rule.strength is None else rule.strength
            calibrated = calibrate_weights(p, rule.baskets, rule.special, strength.double())
            if rule.rows == "all":
                p = calibrated
            else:
                p = p.clone()
                text = torch.arange(n)
                p[text, :, rule.pooled] = calibrated[text, :, rule.pooled]
    return (p @ v).transpose(1, 2).contiguous().to(query.dtype), None


@contextmanager
def matrices_instead() -> Iterator[None]:
    """Calibrated models compute by whole matrices inside this block."""
    AttentionInterface.register(NAME, attention_by_matrices)
    try:
        yield
    finally:
        AttentionInterface.register(NAME, attention)


def _divides_bias(plan: Plan | None) -> bool:
    return plan is not None and plan.scale_position_bias
