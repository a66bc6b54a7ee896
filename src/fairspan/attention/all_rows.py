"""The fast path for mean pooling: every query row calibrated, without an L×L tensor.

The calibrated output is the average over baskets of attention restricted to one basket, so each
basket is one attention call over its few keys. Blocks of rows bound every intermediate tensor.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fairspan.attention.baskets import CONTENT, Baskets
from fairspan.attention.bias import additive, hides_only_padding, rows_of
from fairspan.attention.plan import BasketRule, LayerInputs
from fairspan.attention.pooled_row import accumulate

# Bounds the scores of one block of rows against one basket, where they have to be written out.
_SCORES_AT_A_TIME = 2**17


@dataclass(frozen=True, slots=True)
class BasketKeys:
    """One slot of every text: its keys and values, and what the rows see of it.

    Attributes:
        key, value: [N, H, W, D].
        bias: [N or 1, H or 1, R or 1, W]; where a row sees nothing of the basket, 0 instead of -inf
            throughout. None where every row sees all of it.
        present: [N, 1, R or 1, 1] bool, the rows that see any of it; None for all of them.
    """

    key: Tensor
    value: Tensor
    bias: Tensor | None
    present: Tensor | None


def all_rows(inputs: LayerInputs, rule: BasketRule) -> Tensor:
    """IRF §5 for every row, [N, L, H, D]; no special token has a basket of its own."""
    query = inputs.query
    out = torch.empty_like(query)
    mask = inputs.mask
    if mask is not None and hides_only_padding(mask):
        mask = mask[:, :, :1]
    dtype = accumulate(query[:0]).dtype
    rows = _rows_at_a_time(inputs, rule.baskets.width)
    baskets_seen: list[BasketKeys] = []
    one_row_mask = mask is None or mask.shape[-2] == 1
    rows_are_alike = one_row_mask and not inputs.causal and inputs.position_bias is None
    if rows_are_alike:
        # The baskets are cut once and serve every block of rows.
        bias = additive(mask, None, dtype)
        baskets_seen = list(_cut_baskets(slice(0, 1), inputs, bias, rule.baskets))
    for first in range(0, query.shape[2], rows):
        block = slice(first, min(first + rows, query.shape[2]))
        if not rows_are_alike:
            bias = additive(rows_of(mask, block), rows_of(inputs.position_bias, block), dtype)
            baskets_seen = list(_cut_baskets(block, inputs, bias, rule.baskets))
        out[:, :, block] = _mix(query[:, :, block], baskets_seen, inputs, rule.strength)
    return out.transpose(1, 2).contiguous()


def _rows_at_a_time(inputs: LayerInputs, width: int) -> int:
    """As many rows as keep a block's sums in cache, more where many threads share the work."""
    texts, _, length, _ = inputs.query.shape
    if _flash(inputs):
        # A compiled graph cannot ask for the threads.
        threads = 1 if torch.compiler.is_compiling() else torch.get_num_threads()
        # At most half of all rows: the sums of a block are wider than the activations they become.
        rows = min(4096, max(1024, 256 * threads), texts * length // 2)
    else:
        rows = min(1024, _SCORES_AT_A_TIME // width)
    return max(64, rows // texts)


def _flash(inputs: LayerInputs) -> bool:
    """Whether the kernel for CPUs is used, which writes no scores out and drops none."""
    return inputs.query.device.type == "cpu" and not (inputs.need_gradients or inputs.dropout)


def _mix(
    query: Tensor,
    baskets_seen: Iterable[BasketKeys],
    inputs: LayerInputs,
    strength: Tensor | None,
) -> Tensor:
    """(1/m) Σ_b softmax(q·K_b) V_b of a block of rows [N, H, R, D], mixed with plain attention."""
    dtype = accumulate(query[:0]).dtype
    total = query.new_zeros(query.shape, dtype=dtype)
    count = query.new_zeros((query.shape[0], 1, query.shape[2], 1), dtype=dtype)
    plain = None if strength is None else _PlainAttention(total)
    for basket in baskets_seen:
        out, log_mass = restricted_attention(query, basket, inputs)
        out = accumulate(out)
        if basket.present is None:
            total.add_(out)
            count = count + 1
        else:
            total.addcmul_(out, basket.present.to(dtype))
            count = count + basket.present.to(dtype)
        if plain is not None:
            plain.add(out, log_mass, basket.present)
    calibrated = total / count.clamp(min=1)
    if plain is None or strength is None:
        return calibrated.to(query.dtype)
    weight = strength[:, None, None, None].to(dtype)
    return torch.lerp(plain.value, calibrated, weight).to(query.dtype)


class _PlainAttention:
    """Uncalibrated attention, summed up from the baskets' outputs and their log-sum-exp."""

    def __init__(self, zeros: Tensor) -> None:
        self._sum = torch.zeros_like(zeros)
        self._peak = torch.full_like(zeros[..., :1], torch.finfo(zeros.dtype).min)
        self._mass = torch.zeros_like(self._peak)

    def add(self, out: Tensor, log_mass: Tensor, present: Tensor | None) -> None:
        """Add a basket: output [N, H, R, D], log-sum-exp [N, H, R, 1], rows that see any of it."""
        if present is not None:
            log_mass = torch.where(present, log_mass, -torch.inf)
        peak = torch.maximum(self._peak, log_mass)
        shrink = (self._peak - peak).exp()
        mass = (log_mass - peak).exp()
        self._sum.mul_(shrink).addcmul_(out, mass)
        self._mass = self._mass * shrink + mass
        self._peak = peak

    @property
    def value(self) -> Tensor:
        return self._sum / self._mass.clamp(min=torch.finfo(self._mass.dtype).tiny)


def restricted_attention(
    query: Tensor, basket: BasketKeys, inputs: LayerInputs
) -> tuple[Tensor, Tensor]:
    """softmax(q·K_b) V_b of some rows of a layer, and the log of its normaliser [N, H, R, 1]."""
    bias = basket.bias
    if _flash(inputs):
        mask = None if bias is None else bias.to(query.dtype).expand(-1, -1, query.shape[2], -1)
        out, log_mass = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, basket.key, basket.value, 0.0, False, attn_mask=mask, scale=inputs.scale
        )
        return out, log_mass[..., None]
    scores = accumulate(query) * inputs.scale @ accumulate(basket.key).transpose(-1, -2)
    if bias is not None:
        scores = scores + bias
    log_mass = scores.logsumexp(dim=-1, keepdim=True)
    weights = (scores - log_mass).exp()
    if inputs.dropout:
        weights = torch.dropout(weights, inputs.dropout, train=True)
    return weights @ accumulate(basket.value), log_mass


def _cut_baskets(
    block: slice, inputs: LayerInputs, bias: Tensor | None, baskets: Baskets
) -> Iterator[BasketKeys]:
    """The content baskets as the rows of `block` see them; `bias` is what is added to scores."""
    key = inputs.key
    row = torch.arange(block.start, block.stop, device=key.device)[:, None]
    groups = inputs.query.shape[1] // key.shape[1]
    for slot, width in enumerate(baskets.widths[CONTENT:], start=CONTENT):
        offset = torch.arange(width, device=key.device)
        position = (baskets.start[:, slot, None] + offset).clamp(max=key.shape[2] - 1)  # [N, W]
        keys, values = _cut(key, inputs.value, baskets.start[:, slot], position)
        if groups > 1:
            keys = keys.repeat_interleave(groups, dim=1)
            values = values.repeat_interleave(groups, dim=1)
        plain = bias is None and not inputs.causal and _may_look(baskets.length)
        if plain and bool((baskets.length[:, slot] == width).all()):
            yield BasketKeys(keys, values, None, None)
            continue
        hidden = (offset >= baskets.length[:, slot, None])[:, None, None, :]  # [N, 1, 1, W]
        if inputs.causal:
            hidden = hidden | (position[:, None, None, :] > row)
        part = torch.zeros((), dtype=accumulate(key[:0]).dtype, device=key.device)
        if bias is not None:
            index = position[:, None, None, :].expand(-1, bias.shape[1], bias.shape[2], -1)
            part = bias.expand(key.shape[0], -1, -1, -1).gather(3, index)
        part = torch.where(hidden, -torch.inf, part)
        present = (part > -torch.inf).any(dim=-1, keepdim=True).any(dim=1, keepdim=True)
        yield BasketKeys(keys, values, torch.where(present, part, 0), present)


def _cut(key: Tensor, value: Tensor, start: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """The keys and values [N, K, W, D] of a slot that begins at `start` [N] and has tokens
    `position` [N, W]: views where it begins alike in every text."""
    if _may_look(key):
        first = int(start[0])
        end = first + position.shape[1]
        if end <= key.shape[2] and bool((start == first).all()):
            return key[:, :, first:end], value[:, :, first:end]
    index = position[:, None, :, None].expand(-1, key.shape[1], -1, key.shape[3])
    return key.gather(2, index), value.gather(2, index)


def _may_look(tensor: Tensor) -> bool:
    """Whether values may decide what is computed: not on a GPU or in a compiled graph."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()
