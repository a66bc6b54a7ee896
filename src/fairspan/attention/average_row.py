"""Where chosen query rows look: their attention to every key, averaged, without an L×L tensor.

The weights are computed a second time, a block of rows at a time; the layers' own computation is not changed.
"""

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET
from fairspan.attention.plan import LayerInputs
from fairspan.attention.pooled_row import accumulate, calibrated_weights

# Bounds the weights [N, H, R, L] of one block of R rows; a single row of every text is always taken at once.
_WEIGHTS_AT_A_TIME = 2**20


def average_row(inputs: LayerInputs, rows: Tensor) -> Tensor:
    """The attention weights of one layer, averaged over heads and over the chosen rows of each text.

    Args:
        rows: [N, L] bool, at least one row of each text. In a calibrated layer these must be calibrated rows, whose
            weights are p'' of IRF §5.

    Returns:
        [N, L], summing to 1 over the keys of each text. Keys that none of the rows sees, padding too, have 0.
    """
    query = inputs.query
    n, heads, length, _ = query.shape
    count = rows.sum(dim=1)
    index = rows.int().argsort(dim=1, descending=True, stable=True)[:, : int(count.max())]
    chosen = torch.arange(index.shape[1], device=rows.device) < count[:, None]
    # Texts with fewer rows repeat their first one at weight 0: a row of padding might see nothing, and be NaN.
    index = torch.where(chosen, index, index[:, :1])
    weight = chosen / count[:, None]

    key = accumulate(inputs.key).transpose(-1, -2)
    average = key.new_zeros(n, length)
    size = max(1, _WEIGHTS_AT_A_TIME // (n * heads * length))
    for first in range(0, index.shape[1], size):
        block = index[:, first : first + size].T.contiguous()  # [R, N]
        p = _weights(inputs, key, block)
        p = p.mean(dim=1).view(*block.shape, length)
        average += (p * weight[:, first : first + size].T[..., None]).sum(dim=0)
    return average


def _weights(inputs: LayerInputs, key: Tensor, block: Tensor) -> Tensor:
    """The weights [R·N, H, L] of the rows `block` [R, N], as of R·N texts of one row each, given key [N, K, D, L]."""
    query, rule = inputs.query, inputs.rule
    (n, heads, length, dim), (many, _) = query.shape, block.shape
    text = torch.arange(n, device=query.device)
    q = accumulate(query[text, :, block]) * inputs.scale  # [R, N, H, D]
    q = q.permute(1, 2, 0, 3).reshape(n, key.shape[1], -1, dim)
    scores = (q @ key).view(n, heads, many, length).permute(2, 0, 1, 3).reshape(-1, heads, length)

    row = block.reshape(-1)
    bias, visible = inputs.seen_by(row)
    if bias is not None:
        scores = scores + bias
    if rule is None:
        return (scores if visible is None else scores.masked_fill(~visible[:, None], -torch.inf)).softmax(dim=-1)
    slot = rule.baskets.slot.repeat(many, 1)
    if visible is not None:
        slot = torch.where(visible, slot, NO_BASKET)
    strength = None if rule.strength is None else rule.strength.repeat(many)
    return calibrated_weights(scores, slot, rule.baskets.count, rule.special, strength)
