"""The attention function that transformers calls in every layer of a calibrated model."""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

from fairspan.attention.all_rows import all_rows
from fairspan.attention.average_row import average_row
from fairspan.attention.bias import hides_only_padding, pooled_row_of
from fairspan.attention.plan import LayerInputs, Plan
from fairspan.attention.pooled_row import pooled_row
from fairspan.errors import UnsupportedModel

kernels: ModuleType | None
try:
    from fairspan.attention import kernels
except ImportError:  # Triton comes with GPU builds of torch only
    kernels = None

NAME = "fairspan"


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    fairspan_plan: Plan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """SDPA, with the rows that the call's plan names calibrated. Without a plan, SDPA as it is.

    Args:
        query: [N, H, L, D]. key, value: [N, K, L, D]. attention_mask: bool or additive, [N, 1, L, L] or None.

    Returns:
        [N, L, H, D], and None for the weights.
    """
    plan = fairspan_plan
    if plan is None:
        return _sdpa(module, query, key, value, attention_mask, scaling, position_bias, **kwargs)
    _refuse_unknown_softmax(module, kwargs)
    layer = plan.enter_layer()
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(plan.inverse_temperature, Tensor):
        per_text = plan.inverse_temperature[:, None, None, None].to(query.dtype)
        query = query * per_text
        if position_bias is not None and plan.scale_position_bias:
            position_bias = position_bias * per_text
    elif plan.inverse_temperature != 1.0:
        scale = scale * plan.inverse_temperature
        if position_bias is not None and plan.scale_position_bias:
            position_bias = position_bias * plan.inverse_temperature

    rule = plan.rule if layer in plan.layers else None
    causal = False
    if attention_mask is None:
        given = kwargs.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if given is None else given)
    inputs = LayerInputs(layer, query, key, value, scale, attention_mask, position_bias, causal, rule)
    if plan.captured_rows is not None:
        plan.captured.append(average_row(inputs, plan.captured_rows))
    if plan.watch is not None:
        plan.watch(inputs)
    if rule is None:
        return _sdpa(module, query, key, value, attention_mask, scale, position_bias, **kwargs)
    plan.calibrated.append(layer)
    gpu = _gpu_kernels(query, attention_mask, position_bias)
    plan.path = "torch" if gpu is None else "triton"
    how = (scale, rule.baskets, rule.special, rule.strength)
    # Padding is in no basket, so the kernels do not need a mask that hides nothing else.
    hidden = None if hides_only_padding(attention_mask) else attention_mask
    if rule.rows == "all":
        if gpu is not None:
            out = gpu.all_rows_kernel(query, key, value, *how, mask=hidden, causal=causal)
        else:
            out = all_rows(query, key, value, *how, mask=attention_mask, position_bias=position_bias, causal=causal)
        return out.transpose(1, 2).contiguous(), None

    if layer == rule.only_pooled_in:
        out = query.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
    else:
        out, _ = _sdpa(module, query, key, value, attention_mask, scale, position_bias, **kwargs)
        if out.requires_grad:
            out = out.clone()  # SDPA's backward pass reads its output, so nothing may be written into it
    if gpu is not None:
        gpu.pooled_row_kernel(query, key, value, out, rule.pooled, *how, mask=hidden, causal=causal)
        return out, None
    bias, visible = pooled_row_of(attention_mask, position_bias, rule.pooled)
    if causal:
        visible = torch.arange(key.shape[2], device=key.device) <= rule.pooled[:, None]
    text = torch.arange(query.shape[0], device=query.device)
    out[text, rule.pooled] = pooled_row(query[text, :, rule.pooled], key, value, bias, visible, *how)
    return out, None


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """SDPA's mask; one that only hides padding stays one row, seen L times, instead of becoming L×L."""
    if kwargs.get("mask_function") is not bidirectional_mask_function or "q_length" not in kwargs:
        full: Tensor | None = sdpa_mask(*args, **kwargs)
        return full
    one_row: Tensor | None = sdpa_mask(*args, **{**kwargs, "q_length": 1})
    return one_row if one_row is None else one_row.expand(-1, -1, kwargs["q_length"], -1)


def register() -> None:
    """Make the attention function and its mask known to transformers under `NAME`."""
    AttentionInterface.register(NAME, attention)
    # Without a mask function of the same name transformers would pass no mask at all, and padding would leak in.
    AttentionMaskInterface.register(NAME, mask)


def _sdpa(*inputs: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """SDPA of (module, query, key, value, mask, scaling, position bias); of models without a bias it gets none."""
    *before, scaling, position_bias = inputs
    bias = {} if position_bias is None else {"position_bias": position_bias}
    out, _ = sdpa_attention_forward(*before, scaling=scaling, **bias, **kwargs)
    return out, None


def _gpu_kernels(query: Tensor, mask: Tensor | None, position_bias: Tensor | None) -> ModuleType | None:
    """The kernels, or None where plain torch has to do: no GPU, no Triton, gradients, additive masks or biases."""
    usable = query.is_cuda and not query.requires_grad and position_bias is None
    known = query.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return kernels if usable and known and (mask is None or mask.dtype == torch.bool) else None


def _refuse_unknown_softmax(module: nn.Module, kwargs: dict[str, Any]) -> None:
    """Attention sinks and soft caps change the softmax itself; basket shares are not defined for them."""
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise UnsupportedModel(
                f"{type(module).__name__} passes {name!r} to its attention, a softmax that fairspan does not "
                "define baskets for. Use a model with plain softmax attention."
            )
