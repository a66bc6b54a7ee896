"""The fast path for mean pooling: every query row calibrated, basket by basket, without an L×L tensor.

The calibrated output is the plain average over baskets of attention restricted to one basket, so each basket is one
ordinary attention call over its few keys. Rows are taken in blocks that bound every intermediate tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fairspan.attention.baskets import BOS, EOS, Baskets
from fairspan.attention.bias import additive, one_row_if_all_alike, rows_of
from fairspan.attention.precision import accumulate
from fairspan.attention.shares import SpecialShares, kept_scale

# Bounds the scores of one block of rows against one basket, for kernels that have to write them out.
_SCORES_AT_A_TIME = 2**17


@dataclass(frozen=True, slots=True)
class Piece:
    """One slot of every text: its keys and values, and what the rows see of it."""

    slot: int
    key: Tensor  # [N, H, W, D]
    value: Tensor  # [N, H, W, D]
    bias: Tensor  # [N or 1, H or 1, R, W]; where a row sees nothing of the basket, 0 instead of -inf throughout
    present: Tensor  # [N, 1, R or 1, 1] bool, the rows that see any of it


def all_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    baskets: Baskets,
    special: SpecialShares,
    strength: Tensor | None,
    *,
    mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    causal: bool = False,
) -> Tensor:
    """IRF §5 for every row.

    Args:
        query: [N, H, L, D]. key, value: [N, K, L, D] with K heads, a divisor of H.
        strength: [N], or None for 1 throughout, which saves summing up the plain attention.
        mask: bool or additive, position_bias: additive; both broadcast to [N, H, L, L].
        causal: whether a row sees no key after its own.

    Returns:
        [N, H, L, D] in the dtype of `query`.
    """
    out = torch.empty_like(query)
    mask = one_row_if_all_alike(mask)
    rows = max(64, min(1024, _SCORES_AT_A_TIME // max(baskets.widths)) // query.shape[0])
    for first in range(0, query.shape[2], rows):
        block = slice(first, min(first + rows, query.shape[2]))
        bias = additive(rows_of(mask, block), rows_of(position_bias, block), accumulate(query[:0]).dtype)
        pieces = _pieces(query[:, :, block], block.start, key, value, bias, baskets, special, causal=causal)
        out[:, :, block] = _mix(query[:, :, block], pieces, scale, special, strength)
    return out


def _mix(
    query: Tensor, pieces: Iterator[Piece], scale: float, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """Σ_b share_b · softmax(q·K_b) V_b for one block of rows, with the shares of `shares.basket_shares`."""
    fixed_slots = dict(special.slots(float))
    kept_slots = {slot for slot, _ in special.slots("original")}
    need_mass = strength is not None or special.need_mass
    dtype = accumulate(query[:0]).dtype
    column = query.new_zeros((query.shape[0], 1, query.shape[2], 1), dtype=dtype)

    equal, sharers = query.new_zeros(query.shape, dtype=dtype), column
    fixed, fixed_share = torch.zeros_like(equal) if fixed_slots else None, column
    plain = _PlainAttention(equal) if need_mass else None
    kept: list[tuple[Tensor, Tensor]] = []
    for piece in pieces:
        out, log_mass = restricted_attention(query, piece.key, piece.value, piece.bias, scale)
        out, present = accumulate(out), piece.present.to(dtype)
        if piece.slot in fixed_slots and fixed is not None:
            share = fixed_slots[piece.slot] * present
            fixed.addcmul_(out, share)
            fixed_share = fixed_share + share
        elif piece.slot in kept_slots:
            kept.append((out, log_mass.masked_fill(~piece.present, -torch.inf)))
        else:
            equal.addcmul_(out, present)
            sharers = sharers + present
        if plain is not None:
            plain.add(out, log_mass, present)

    target, reserved = fixed, fixed_share
    if plain is not None and kept:
        masses = [plain.share_of(log_mass) for _, log_mass in kept]
        kept_mass = torch.stack(masses).sum(dim=0)
        fit = kept_scale(kept_mass, 1 - reserved)
        held = torch.stack([out * (fit * mass) for (out, _), mass in zip(kept, masses, strict=True)]).sum(dim=0)
        target = held if target is None else target + held
        reserved = reserved + fit * kept_mass
    calibrated = equal * ((1 - reserved) / sharers.clamp(min=1))
    if target is not None:
        # Where no basket shares equally (texts of special tokens alone), the reserved ones take everything.
        calibrated = calibrated + target * torch.where(sharers > 0, 1, 1 / reserved.clamp(min=_tiny(dtype)))
    if plain is None:
        return calibrated.to(query.dtype)
    unreserved = (sharers == 0) & (reserved <= 0)
    calibrated = torch.where(unreserved, plain.value, calibrated)
    if strength is None:
        return calibrated.to(query.dtype)
    return torch.lerp(plain.value, calibrated, strength[:, None, None, None].to(dtype)).to(query.dtype)


class _PlainAttention:
    """Uncalibrated attention, put together from the baskets' restricted attention and their log-sum-exp."""

    def __init__(self, zeros: Tensor) -> None:
        self._sum = torch.zeros_like(zeros)
        self._peak = torch.full_like(zeros[..., :1], torch.finfo(zeros.dtype).min)
        self._mass = torch.zeros_like(self._peak)

    def add(self, out: Tensor, log_mass: Tensor, present: Tensor) -> None:
        peak = torch.where(present > 0, torch.maximum(self._peak, log_mass), self._peak)
        shrink = (self._peak - peak).exp()
        mass = torch.where(present > 0, (log_mass - peak).exp(), 0)
        self._sum.mul_(shrink).addcmul_(out, mass)
        self._mass = self._mass * shrink + mass
        self._peak = peak

    def share_of(self, log_mass: Tensor) -> Tensor:
        return (log_mass - self._peak).exp() / self._mass.clamp(min=_tiny(self._mass.dtype))

    @property
    def value(self) -> Tensor:
        return self._sum / self._mass.clamp(min=_tiny(self._mass.dtype))


def restricted_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    """softmax(q·K_b) V_b and the log of its normaliser [N, H, R, 1]."""
    if query.device.type == "cpu" and not query.requires_grad:
        out, log_mass = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, False, attn_mask=bias.to(query.dtype), scale=scale
        )
        return out, log_mass[..., None]
    scores = accumulate(query) * scale @ accumulate(key).transpose(-1, -2) + bias
    log_mass = scores.logsumexp(dim=-1, keepdim=True)
    return (scores - log_mass).exp() @ accumulate(value), log_mass


def _pieces(
    query: Tensor,
    first_row: int,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    baskets: Baskets,
    special: SpecialShares,
    *,
    causal: bool,
) -> Iterator[Piece]:
    n, heads, rows, dim = query.shape
    length, groups = key.shape[2], heads // key.shape[1]
    row = torch.arange(first_row, first_row + rows, device=key.device)[:, None]
    unused = {slot for slot, share in ((BOS, special.bos), (EOS, special.eos)) if share is None}
    for slot, width in enumerate(baskets.widths):
        if slot in unused:
            continue
        offset = torch.arange(width, device=key.device)
        position = (baskets.start[:, slot, None] + offset).clamp(max=length - 1)  # [N, W]
        hidden = (offset >= baskets.length[:, slot, None])[:, None, None, :]  # [N, 1, 1, W]
        if causal:
            hidden = hidden | (position[:, None, None, :] > row)
        part = torch.zeros((), dtype=accumulate(query[:0]).dtype, device=key.device)
        if bias is not None:
            index = position[:, None, None, :].expand(-1, bias.shape[1], bias.shape[2], -1)
            part = bias.expand(n, -1, -1, -1).gather(3, index)
        part = torch.where(hidden, -torch.inf, part)
        present = (part > -torch.inf).any(dim=-1, keepdim=True).any(dim=1, keepdim=True)
        part = torch.where(present, part, 0).expand(-1, -1, rows, -1)
        index = position[:, None, :, None].expand(n, key.shape[1], width, dim)
        yield Piece(
            slot,
            key.gather(2, index).repeat_interleave(groups, dim=1),
            value.gather(2, index).repeat_interleave(groups, dim=1),
            part,
            present,
        )


def _tiny(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny
