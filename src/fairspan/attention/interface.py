"""The attention function that transformers calls in every layer of a calibrated model."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask

from fairspan.attention.baskets import is_exporting
from fairspan.attention.plan import BasketRule, LayerInputs, Plan
from fairspan.attention.rows import all_rows, pooled_row
from fairspan.attention.tile_rows import tile_rows
from fairspan.attention.tiles import FAR, Tiles, TileView, tiles_being_read
from fairspan.attention.traced import traced_attention
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
    """SDPA, with the rows that the call's plan names calibrated. Without a plan, SDPA alone.

    Args:
        query: [N, H, L, D]. key, value: [N, K, L, D].
        attention_mask: bool or additive, [N, 1, L, L] or None.

    Returns:
        [N, L, H, D], and None for the weights.
    """
    plan = fairspan_plan
    if plan is None and is_exporting():
        plan = Plan()
    if plan is None:
        return _sdpa(module, query, key, value, attention_mask, scaling, position_bias, **kwargs)
    _refuse_unknown_softmax(module, kwargs)
    layer = plan.enter_layer(module)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    inverse_temperature = plan.inverse_temperature
    if isinstance(inverse_temperature, Tensor):
        inverse_temperature = inverse_temperature[:, None, None, None].to(query.dtype)
        query = query * inverse_temperature
    else:
        scale *= inverse_temperature
    if position_bias is not None and plan.scale_position_bias:
        position_bias = position_bias * inverse_temperature

    rule = plan.rule if layer in plan.layers else None
    causal = False
    view = None
    if plan.tiles is None:
        is_causal = kwargs.get("is_causal")
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        causal = attention_mask is None and bool(is_causal)
    else:
        view = _view(module, plan, plan.tiles, attention_mask, position_bias)
        attention_mask = None
        position_bias = None
    seen = (attention_mask, position_bias, causal, rule, view)
    dropout = float(kwargs.get("dropout") or 0)
    inputs = LayerInputs(layer, query, key, value, scale, *seen, dropout)
    if plan.watch is not None:
        plan.watch(inputs)
    if rule is not None:
        plan.calibrated.append(layer)
    if is_exporting():
        return traced_attention(inputs), None
    return _attend(module, plan, inputs, kwargs), None


def _attend(module: nn.Module, plan: Plan, inputs: LayerInputs, kwargs: dict[str, Any]) -> Tensor:
    """[N, L, H, D], what one layer gives, by the fastest path that can compute it."""
    rule = inputs.rule
    gpu = _gpu_kernels(inputs)
    if rule is not None or inputs.view is not None:
        plan.path = "torch"
    if rule is not None and rule.pooled is None:
        return all_rows(inputs)
    out: Tensor
    if inputs.view is not None:
        rows = None if plan.add_piece is None else plan.add_piece(inputs, inputs.view)
        plan.path = "torch" if gpu is None else "triton"
        by_tile = tile_rows if gpu is None else gpu.tile_rows_kernel
        out = by_tile(inputs, inputs.view)
        if rows is not None:
            out[:, inputs.view.tiles.global_rows[0]] = rows
    else:
        tensors = (inputs.query, inputs.key, inputs.value, inputs.mask)
        out, _ = _sdpa(module, *tensors, inputs.scale, inputs.position_bias, **kwargs)
    return out if rule is None else _with_pooled_row(out, inputs, rule)


def _view(
    module: nn.Module, plan: Plan, tiles: Tiles, table: Tensor | None, position_bias: Tensor | None
) -> TileView:
    """What the rows of a layer see in tiles; `table` is what `mask` made of the layer's mask."""
    positions = tiles.positions
    shape = (1, 1, 1, 2 * positions - 1)
    if table is not None and (table.dtype != torch.bool or table.shape != shape):
        raise UnsupportedModel(
            f"{type(module).__name__} builds its own attention mask, so it cannot be read in "
            "tiles. Use a model whose masks come from transformers."
        )
    # A bias that a model makes for all L positions begins with those that recur.
    bias = None if position_bias is None else position_bias[..., :positions, :positions]
    if table is None:
        return TileView(tiles, None, bias, plan.causal)
    known_band = tiles.bands.get(table.data_ptr()) if tiles.bands else None
    band = None if known_band is None else known_band[1]
    return TileView(tiles, table[0, 0, 0], bias, plan.causal, band)


def _with_pooled_row(out: Tensor, inputs: LayerInputs, rule: BasketRule) -> Tensor:
    """`out` [N, L, H, D] with the pooled row of each text in baskets."""
    assert rule.pooled is not None
    if out.requires_grad:
        # SDPA's backward pass reads its output, so nothing may be written into it.
        out = out.clone()
    text = torch.arange(out.shape[0], device=out.device)
    out[text, rule.pooled] = pooled_row(inputs, rule.pooled)
    return out


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """SDPA's mask; one that only hides padding stays one row, seen L times, not L×L.

    In a pass in tiles it is a table [1, 1, 1, 2·P − 1] of how far a row may stand behind a key,
    from −(P − 1) to P − 1, of P positions that recur; None if all are seen.
    """
    tiles = tiles_being_read()
    if tiles is not None:
        return _table_of_distances(kwargs["mask_function"], tiles)
    if kwargs.get("mask_function") is not bidirectional_mask_function or "q_length" not in kwargs:
        full: Tensor | None = sdpa_mask(*args, **kwargs)
        return full
    one_row: Tensor | None = sdpa_mask(*args, **{**kwargs, "q_length": 1})
    return one_row if one_row is None else one_row.expand(-1, -1, kwargs["q_length"], -1)


def _table_of_distances(shows: Callable[..., Tensor], tiles: Tiles) -> Tensor | None:
    """The table of `mask`, of a model's mask function; None if it shows everything."""
    if shows is bidirectional_mask_function:
        return None
    last = tiles.positions - 1
    device = tiles.valid.device
    is_compiling = torch.compiler.is_compiling()
    # On the CPU, since values are looked at below: avoids a device sync.
    ahead = torch.arange(-last, last + 1, device=device if is_compiling else "cpu")
    row = ahead.clamp(min=0)
    key = (-ahead).clamp(min=0)
    zero = ahead.new_zeros(())
    table = shows(zero, zero, row, key).expand(len(ahead))
    # The same at the other end: only the distance may decide.
    if is_compiling:
        return table[None, None, None]
    if not torch.equal(table, shows(zero, zero, last - key, last - row)):
        raise UnsupportedModel(
            "the model's attention masks depend on more than the distance of two tokens, so it "
            "cannot be read in tiles. Use baskets, such as the preset 'paper'."
        )
    shown = ahead[table].tolist()
    on_device = table[None, None, None].to(device)
    if shown and shown[-1] - shown[0] + 1 == len(shown):
        nearest = -FAR if shown[0] == -last else shown[0]
        farthest = FAR if shown[-1] == last else shown[-1]
        tiles.bands[on_device.data_ptr()] = (on_device, (nearest, farthest))
    return on_device


def register() -> None:
    """Make the attention function and its mask known to transformers under `NAME`."""
    AttentionInterface.register(NAME, attention)
    # Without a mask function of that name transformers would pass no mask, not even for padding.
    AttentionMaskInterface.register(NAME, mask)


def _sdpa(*inputs: Any, **kwargs: Any) -> tuple[Tensor, None]:
    """SDPA of (module, query, key, value, mask, scaling, position bias or None)."""
    *before, scaling, position_bias = inputs
    bias = {} if position_bias is None else {"position_bias": position_bias}
    out, _ = sdpa_attention_forward(*before, scaling=scaling, **bias, **kwargs)
    return out, None


def _gpu_kernels(inputs: LayerInputs) -> ModuleType | None:
    """The kernels, or None without GPU or Triton, in training, with additive masks or biases."""
    query = inputs.query
    usable = (
        query.is_cuda
        and not inputs.need_gradients
        and inputs.dropout == 0
        and query.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and inputs.position_bias is None
        and (inputs.mask is None or inputs.mask.dtype == torch.bool)
    )
    return kernels if usable else None


def _refuse_unknown_softmax(module: nn.Module, kwargs: dict[str, Any]) -> None:
    """Refuse attention sinks and soft caps, for which basket shares are not defined."""
    for name in ("softcap", "s_aux"):
        if kwargs.get(name) is not None:
            raise UnsupportedModel(
                f"{type(module).__name__} passes {name!r} to its attention, for which baskets are "
                "not defined. Use a model with plain softmax attention."
            )
