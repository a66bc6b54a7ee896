"""Attention in a graph that is exported, where shapes are symbols and nothing may be decided or repeated by them.

It gives the same numbers as the fast paths, whose geometry it shares and against which it is tested.
"""

import torch
from torch import Tensor

from fairspan.attention.baskets import CONTENT, Baskets, runs
from fairspan.attention.bias import additive
from fairspan.attention.plan import BasketRule, LayerInputs
from fairspan.attention.shares import SpecialShares, basket_shares, target_shares
from fairspan.attention.tile_rows import all_tiles, group_mask, take
from fairspan.attention.tiles import TileView


def traced_attention(inputs: LayerInputs) -> Tensor:
    """[N, L, H, D], what one layer gives: tiles tile by tile, everything else by whole L×L matrices."""
    query, key, value, rule, view = inputs.query, inputs.key, inputs.value, inputs.rule, inputs.view
    text = torch.arange(query.shape[0], device=query.device)
    if rule is not None and rule.rows == "all":
        out = _in_baskets(query, key, value, _seen_by_all(inputs), inputs.scale, rule)
        return out.transpose(1, 2)
    if view is not None and view.tiled:
        out = _in_tiles(query, key, value, inputs.scale, view)
    else:
        out = _attend(query, key, value, _seen_by_all(inputs), inputs.scale).transpose(1, 2)
    if rule is None:
        return out
    bias, visible = inputs.seen_by(rule.pooled)
    mask = None if visible is None else visible[:, None, None, :]
    mask = additive(mask, None if bias is None else bias[:, :, None, :], query.dtype)
    row = _in_baskets(query[text, :, rule.pooled][:, :, None], key, value, mask, inputs.scale, rule)
    place = torch.arange(query.shape[2], device=query.device)
    pooled = (place == rule.pooled[:, None])[:, :, None, None]
    return torch.where(pooled, row.transpose(1, 2), out)


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """softmax(q·K) V, [B, H, R, D]; finite for rows that see nothing, which nothing else may read."""
    key, value = (_for_every_head(part, query) for part in (key, value))
    return _hide(query * scale @ key.transpose(-1, -2), mask).softmax(dim=-1) @ value


def _for_every_head(x: Tensor, query: Tensor) -> Tensor:
    groups = query.shape[1] // x.shape[1]
    return x if groups == 1 else x[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2)


def _hide(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores with a bool mask, or one to add, on them."""
    floor = torch.finfo(scores.dtype).min
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, floor)
    return (scores + mask).clamp(min=floor)


def _seen_by_all(inputs: LayerInputs) -> Tensor | None:
    """What every row sees of every key, or what is added to their scores; broadcasts to [N, H, L, L]."""
    query, view = inputs.query, inputs.view
    n, _, length, _ = query.shape
    if view is None:
        mask = inputs.mask
        if inputs.causal:
            place = torch.arange(length, device=query.device)
            mask = (place <= place[:, None])[None, None]
        return additive(mask, inputs.position_bias, query.dtype) if inputs.position_bias is not None else mask
    if view.mask is None and view.bias is None:
        return view.tiles.valid[:, None, None, :]
    return _seen_by(torch.arange(length, device=query.device).expand(n, -1), view)


def _seen_by(rows: Tensor, view: TileView) -> Tensor:
    """What rows [N, R] see of all keys, or what is added to their scores, [N, 1 or H, R, L]."""
    (n, count), length = rows.shape, view.tiles.valid.shape[1]
    text = torch.arange(n, device=rows.device)[:, None].expand(n, count)
    bias, visible = view.of_rows(text.flatten(), rows.flatten())
    visible = visible.view(n, 1, count, length)
    if bias is None:
        return visible
    return bias.view(n, count, -1, length).transpose(1, 2).masked_fill(~visible, -torch.inf)


def _in_tiles(query: Tensor, key: Tensor, value: Tensor, scale: float, view: TileView) -> Tensor:
    """[N, L, H, D]: content tokens see their tile, shared tokens everything."""
    tiles = view.tiles
    n, heads, length, _ = query.shape
    if tiles.groups is None:
        tiles.groups = [all_tiles(tiles)]
    (group,) = tiles.groups
    mask = group_mask(view, group, slice(None), group.rows, group.keys, length)
    out = _attend(take(query, group.rows), take(key, group.keys), take(value, group.keys), mask, scale)
    assert group.row_ok is not None
    written = [(torch.where(group.row_ok, group.rows, n * length), out)]
    if tiles.lead + tiles.trail:
        tokens = tiles.shared + torch.arange(n, device=query.device)[:, None] * length
        out = _attend(take(query, tokens), key, value, _seen_by(tiles.shared, view), scale)
        written.append((tokens, out))
    # One row more takes what is computed for tokens that are not there.
    flat = query.new_zeros(n * length + 1, heads, value.shape[-1])
    for tokens, part in written:
        flat = flat.index_put((tokens.flatten(),), part.transpose(1, 2).flatten(0, 1))
    return flat[:-1].view(n, length, heads, -1)


def _in_baskets(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, rule: BasketRule
) -> Tensor:
    """IRF §5 for rows [N, H, R, D]: Σ_b share_b · softmax(q·K_b) V_b, with the keys put in order by basket."""
    index, there = _keys_of_baskets(rule.baskets, rule.special, key.shape[2])
    width = there.shape[2]
    index, there = index.flatten(1), there.flatten(1)[:, None, None, :]  # [N, M·W]
    key, value = (
        _for_every_head(part.gather(2, index[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3])), query)
        for part in (key, value)
    )
    if mask is not None:
        mask = mask.expand(query.shape[0], -1, -1, -1)
        mask = mask.gather(3, index[:, None, None, :].expand(-1, mask.shape[1], mask.shape[2], -1))
        visible = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min
        there = there & visible
    scores = query * scale @ key.transpose(-1, -2)
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask
    floor = torch.finfo(scores.dtype).min
    split = torch.unflatten(scores.masked_fill(~there, floor), -1, (-1, width))
    there = torch.unflatten(there, -1, (-1, width))
    peak = split.amax(dim=-1, keepdim=True)
    inside = (split - peak).exp() * there
    total, present = inside.sum(dim=-1), there.any(dim=-1)  # [N, H, R, M], [N, 1 or H, 1 or R, M]
    log_mass = (peak[..., 0] + total.clamp(min=1).log()).masked_fill(~present, floor)
    mass = log_mass.softmax(dim=-1) * present
    if rule.strength is None:
        shares = target_shares(mass, present, rule.special)
    else:
        shares = basket_shares(mass, present, rule.special, rule.strength[:, None, None, None])
    weights = inside * torch.where(present, shares / total.clamp(min=1), 0)[..., None]
    return weights.flatten(-2) @ value


def _keys_of_baskets(baskets: Baskets, special: SpecialShares, length: int) -> tuple[Tensor, Tensor]:
    """[N, M, W], the keys of each slot, and which of them are there."""
    assert baskets.size is not None
    start, count = baskets.start, baskets.length
    if special == SpecialShares():
        # Without the empty slots of special tokens, in a form whose number of slots is one symbol.
        offset = torch.arange(runs(length, baskets.size)[0], device=start.device) * baskets.size
        start = start[:, CONTENT : CONTENT + 1] + offset
        count = (baskets.content[:, None] - offset).clamp(min=0, max=baskets.size)
    step = torch.arange(baskets.size, device=start.device)
    return (start[..., None] + step).clamp(max=length - 1), step < count[..., None]
