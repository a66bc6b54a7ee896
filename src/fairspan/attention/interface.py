"""The attention function that transformers calls in every layer of a calibrated model."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

from fairspan.attention.all_rows import all_rows
from fairspan.attention.average_row import average_row
from fairspan.attention.baskets import is_exporting
from fairspan.attention.bias import hides_only_padding
from fairspan.attention.plan import BasketRule, LayerInputs, Plan
from fairspan.attention.pooled_row import pooled_row
from fairspan.attention.tile_rows import tile_rows
from fairspan.attention.tiles import Tiles, TileView, tiles_being_read
from fairspan.attention.traced import traced_attention
from fairspan.errors import CalibrationError, UnsupportedModel

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
    if plan is None and is_exporting():
        plan = Plan()
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
    if plan.tiles is not None:
        return _in_tiles(module, plan, layer, query, key, value, scale, attention_mask, position_bias, rule), None
    causal = False
    if attention_mask is None:
        given = kwargs.get("is_causal")
        causal = bool(getattr(module, "is_causal", True) if given is None else given)
    inputs = LayerInputs(layer, query, key, value, scale, attention_mask, position_bias, causal, rule)
    _show(plan, inputs)
    if is_exporting():
        plan.calibrated += [] if rule is None else [layer]
        return traced_attention(inputs), None
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

    if layer == plan.only_pooled_in:
        out = query.new_zeros(query.shape[0], query.shape[2], query.shape[1], value.shape[-1])
    else:
        out, _ = _sdpa(module, query, key, value, attention_mask, scale, position_bias, **kwargs)
        if out.requires_grad:
            out = out.clone()  # SDPA's backward pass reads its output, so nothing may be written into it
    if gpu is not None:
        gpu.pooled_row_kernel(query, key, value, out, rule.pooled, *how, mask=hidden, causal=causal)
    else:
        _write_pooled_row(out, inputs, rule)
    return out, None


def _show(plan: Plan, inputs: LayerInputs) -> None:
    """Keep or hand over what was asked of this layer, before it is computed."""
    if plan.captured_rows is not None:
        plan.captured.append(average_row(inputs, plan.captured_rows))
    if plan.watch is not None:
        plan.watch(inputs)


def _in_tiles(
    module: nn.Module,
    plan: Plan,
    layer: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    table: Tensor | None,
    position_bias: Tensor | None,
    rule: BasketRule | None,
) -> Tensor:
    """[N, L, H, D], one layer of a pass in tiles; `table` is what `mask` made of the layer's mask."""
    tiles = plan.tiles
    assert tiles is not None
    positions, tiled = tiles.positions, layer in plan.tile_layers
    if table is not None and (table.dtype != torch.bool or table.shape != (1, 1, positions, positions)):
        raise UnsupportedModel(
            f"{type(module).__name__} makes an attention mask of its own, which has no meaning for tiles. Use a "
            "model whose masks come from transformers."
        )
    shown = None if table is None else table[0, 0]
    # A bias that a model makes for all L positions begins with those that recur.
    bias = None if position_bias is None else position_bias[..., :positions, :positions]
    view = TileView(tiles, shown, bias, plan.causal, tiled)
    inputs = LayerInputs(layer, query, key, value, scale, None, None, False, rule, view)
    _show(plan, inputs)
    plan.tiled += [layer] if tiled else []
    if is_exporting():
        plan.calibrated += [] if rule is None else [layer]
        return traced_attention(inputs)
    gpu = None
    if tiled:
        # Of earlier tiles a causal row sees what positions alone would hide, and the kernel knows nothing else.
        gpu = None if plan.causal and tiles.reach else _gpu_kernels(query, None, None)
        plan.path = "torch" if gpu is None else "triton"
    only_shared = tiled and layer == plan.only_pooled_in
    attend = tile_rows if gpu is None else gpu.tile_rows_kernel
    out = attend(query, key, value, scale, view, only_shared=only_shared)
    if rule is None:
        return out
    plan.calibrated.append(layer)
    if rule.rows == "all":
        if shown is not None or bias is not None:
            raise CalibrationError(
                f"baskets for every row of {type(module).__name__}, whose attention depends on positions, cannot be "
                "combined with tiles: give tiles without baskets (strength=0)."
            )
        how = (scale, rule.baskets, rule.special, rule.strength)
        padding = tiles.valid[:, None, None, :].expand(-1, -1, query.shape[2], -1)
        return all_rows(query, key, value, *how, mask=padding).transpose(1, 2).contiguous()
    if out.requires_grad:
        out = out.clone()
    _write_pooled_row(out, inputs, rule)
    return out


def _write_pooled_row(out: Tensor, inputs: LayerInputs, rule: BasketRule) -> None:
    bias, visible = inputs.seen_by(rule.pooled)
    text = torch.arange(out.shape[0], device=out.device)
    row, how = inputs.query[text, :, rule.pooled], (rule.baskets, rule.special, rule.strength)
    out[text, rule.pooled] = pooled_row(row, inputs.key, inputs.value, bias, visible, inputs.scale, *how)


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """SDPA's mask; one that only hides padding stays one row, seen L times, instead of becoming L×L.

    In a pass in tiles it is a table [1, 1, P, P] of the positions that recur, without padding; None if all are seen.
    """
    tiles = tiles_being_read()
    if tiles is not None:
        return _table_of_positions(kwargs["mask_function"], tiles)
    if kwargs.get("mask_function") is not bidirectional_mask_function or "q_length" not in kwargs:
        full: Tensor | None = sdpa_mask(*args, **kwargs)
        return full
    one_row: Tensor | None = sdpa_mask(*args, **{**kwargs, "q_length": 1})
    return one_row if one_row is None else one_row.expand(-1, -1, kwargs["q_length"], -1)


def _table_of_positions(shows: Callable[..., Tensor], tiles: Tiles) -> Tensor | None:
    if shows is bidirectional_mask_function:
        return None
    place = torch.arange(tiles.positions, device=tiles.valid.device)
    zero = place.new_zeros(())
    return shows(zero, zero, place[:, None], place[None, :]).expand(1, 1, len(place), len(place))


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
