"""Attention in a graph that is exported, where shapes are symbols that may not decide anything.

It gives the same numbers as the fast paths, whose geometry it shares; tests compare them.
"""

import torch
from torch import Tensor

from fairspan.attention.bias import additive
from fairspan.attention.plan import LayerInputs
from fairspan.attention.rows import all_rows, pooled_row
from fairspan.attention.tile_rows import (
    all_tiles,
    global_tokens,
    group_mask,
    seen_by_global,
    tokens_of,
)
from fairspan.attention.tiles import GLOBAL, TileGroup, Tiles, TileView


def traced_attention(inputs: LayerInputs) -> Tensor:
    """[N, L, H, D], one layer: tiles tile by tile, everything else by whole L×L matrices."""
    query = inputs.query
    rule = inputs.rule
    if rule is not None and rule.pooled is None:
        return all_rows(inputs)
    if inputs.view is not None:
        out = _in_tiles(inputs, inputs.view)
    else:
        p = _weights(query, inputs.key, _seen_by_all(inputs), inputs.scale)
        out = (p @ _for_every_head(inputs.value, query)).transpose(1, 2)
    if rule is None or rule.pooled is None:
        return out
    row = pooled_row(inputs, rule.pooled)
    place = torch.arange(query.shape[2], device=query.device)
    return torch.where((place == rule.pooled[:, None])[:, :, None, None], row[:, None], out)


def _weights(
    query: Tensor, key: Tensor, mask: Tensor | None, scale: float, *, uniform: bool = False
) -> Tensor:
    """softmax(q·K), [B, H, R, L]; finite for rows that see nothing, which nothing else may read.

    Args:
        uniform: whether the mask is the same for all rows.
    """
    key = _for_every_head(key, query)
    query = query * scale
    if mask is None:
        return (query @ key.transpose(-1, -2)).softmax(dim=-1)
    # Half the range, so that a sum with it stays finite.
    floor = torch.finfo(query.dtype).min / 2
    if mask.dtype == torch.bool:
        added = torch.where(mask, 0.0, floor).to(query.dtype)
    else:
        added = mask.clamp(min=floor).to(query.dtype)
    if uniform:
        # One more dimension of the keys costs less than adding to all scores.
        more = added[:, :, 0, :, None].expand(-1, key.shape[1], -1, -1)
        query = torch.cat([query, torch.ones_like(query[..., :1])], -1)
        key = torch.cat([key, more], -1)
        return (query @ key.transpose(-1, -2)).softmax(dim=-1)
    return (query @ key.transpose(-1, -2) + added).softmax(dim=-1)


def _for_every_head(x: Tensor, query: Tensor) -> Tensor:
    groups = query.shape[1] // x.shape[1]
    return x if groups == 1 else x[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2)


def _seen_by_all(inputs: LayerInputs) -> Tensor | None:
    """What every row sees of every key, or what is added to scores; broadcasts to [N, H, L, L]."""
    query = inputs.query
    mask = inputs.mask
    if inputs.causal:
        place = torch.arange(query.shape[2], device=query.device)
        mask = (place <= place[:, None])[None, None]
    if inputs.position_bias is None:
        return mask
    return additive(mask, inputs.position_bias, query.dtype)


def _in_tiles(inputs: LayerInputs, view: TileView) -> Tensor:
    """[N, L, H, D]: content tokens see their tile, global tokens everything."""
    tiles = view.tiles
    key = inputs.key
    value = inputs.value
    n, heads, length, _ = inputs.query.shape
    if tiles.groups is None:
        # As many and as wide as the longest text needs, which is known when the graph runs.
        most_tiles = (tiles.length > 0).sum(dim=1).max()
        needed = torch.stack([most_tiles, tiles.length.max()]).clamp(min=1)
        tiles.groups = [all_tiles(tiles, *needed.tolist())]
    (group,) = tiles.groups
    mask = group_mask(view, group, slice(None), group.rows, group.keys)
    rows = tokens_of(inputs.query, group.rows)
    p = _weights(rows, tokens_of(key, group.keys), mask, inputs.scale, uniform=view.uniform)
    outputs = [p @ _for_every_head(tokens_of(value, group.keys), rows)]
    if tiles.lead + tiles.trail:
        rows = tokens_of(inputs.query, global_tokens(tiles))
        p = _weights(rows, key, seen_by_global(view), inputs.scale)
        outputs.append(p @ _for_every_head(value, rows))
    flat = torch.cat([out.transpose(1, 2).flatten(0, 1) for out in outputs])
    return flat.index_select(0, _places(tiles, group).flatten()).view(n, length, heads, -1)


def _places(tiles: Tiles, group: TileGroup) -> Tensor:
    """[N, L]: the index of each token among the rows of all tiles, followed by global tokens."""
    total, width = group.rows.shape
    n = tiles.tile.shape[0]
    text = torch.arange(n, device=tiles.tile.device)[:, None]
    position = tiles.position
    among_global = torch.where(position < tiles.lead, position, position - tiles.length[:, :1])
    among_global = total * width + text * (tiles.lead + tiles.trail) + among_global
    inside = (text * (total // n) + tiles.tile) * width + position - tiles.lead
    return torch.where(tiles.tile >= 0, inside, torch.where(tiles.tile == GLOBAL, among_global, 0))
