"""Attention of chosen query rows, with O(L) memory each, calibrated by baskets or not."""

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET, is_exporting
from fairspan.attention.plan import LayerInputs
from fairspan.attention.shares import SpecialShares, basket_shares

# Bounds the weights [N, H, R, L] of one block of R rows; one row per text is always taken at once.
_WEIGHTS_AT_A_TIME = 2**20


def accumulate(x: Tensor) -> Tensor:
    """`x` in the dtype in which products are summed: float32 for half precision, as in SDPA."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def pooled_row(inputs: LayerInputs, pooled: Tensor) -> Tensor:
    """[N, H, D]: IRF §5 for the row `pooled` [N] of each text."""
    return _attend(inputs, pooled[None])[0]


def all_rows(inputs: LayerInputs) -> Tensor:
    """[N, L, H, D]: IRF §5 for every row, in blocks of rows."""
    n, heads, length, _ = inputs.query.shape
    rows = torch.arange(length, device=inputs.query.device)[:, None].expand(-1, n)
    if is_exporting():
        # The length is a symbol, on which no number of blocks may depend.
        return _attend(inputs, rows).transpose(0, 1)
    blocks = torch.split(rows, max(1, _WEIGHTS_AT_A_TIME // (n * heads * length)))
    return torch.cat([_attend(inputs, block) for block in blocks]).transpose(0, 1)


def _attend(inputs: LayerInputs, block: Tensor) -> Tensor:
    """[R, N, H, D] in the dtype of the query: Σ_b share_b · softmax(q·K_b) V_b of the rows `block`
    [R, N]."""
    n, heads, length, _ = inputs.query.shape
    kv_heads = inputs.value.shape[1]
    p = row_weights(inputs, block)
    if inputs.dropout:
        p = torch.dropout(p, inputs.dropout, train=True)
    # Heads that share values are rows of one head.
    p = p.view(-1, n, kv_heads, heads // kv_heads, length).permute(1, 2, 3, 0, 4)
    out = p.flatten(2, 3) @ accumulate(inputs.value)
    out = out.view(n, heads, -1, inputs.value.shape[-1])
    return out.permute(2, 0, 1, 3).to(inputs.query.dtype)


def average_row(inputs: LayerInputs, rows: Tensor) -> Tensor:
    """The attention weights [L] of one layer over one text, averaged over heads and chosen rows.

    Args:
        rows: [R], at least one. In a calibrated layer these must be calibrated rows, whose weights
            are p'' of IRF §5.
    """
    _, heads, length, _ = inputs.query.shape
    total = accumulate(inputs.key[:0]).new_zeros(length)
    for block in torch.split(rows, max(1, _WEIGHTS_AT_A_TIME // (heads * length))):
        total += row_weights(inputs, block[:, None]).mean(dim=1).sum(dim=0)
    return total / len(rows)


def row_weights(inputs: LayerInputs, block: Tensor) -> Tensor:
    """The weights [R·N, H, L] of the rows `block` [R, N], as of R·N texts of one row each."""
    scores, bias, visible = row_scores(inputs, block)
    rule = inputs.rule
    many = block.shape[0]
    if bias is not None:
        scores = scores + bias
    if rule is None:
        if visible is not None:
            scores = scores.masked_fill(~visible[:, None], -torch.inf)
        return scores.softmax(dim=-1)
    slot = rule.baskets.slot.repeat(many, 1)
    if visible is not None:
        slot = torch.where(visible, slot, NO_BASKET)
    strength = None if rule.strength is None else rule.strength.repeat(many)
    return calibrated_weights(scores, slot, rule.baskets.count, rule.special, strength)


def row_scores(inputs: LayerInputs, block: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """q·k·scale of the rows `block` [R, N] as [R·N, H, L], and `LayerInputs.seen_by` of them."""
    key = accumulate(inputs.key).transpose(-1, -2)
    n, heads, length, dim = inputs.query.shape
    many = block.shape[0]
    text = torch.arange(n, device=key.device)
    q = accumulate(inputs.query[text, :, block]) * inputs.scale  # [R, N, H, D]
    q = q.permute(1, 2, 0, 3).reshape(n, key.shape[1], -1, dim)
    scores = (q @ key).view(n, heads, many, length).permute(2, 0, 1, 3).reshape(-1, heads, length)
    return scores, *inputs.seen_by(block.reshape(-1))


def calibrated_weights(
    scores: Tensor, slot: Tensor, count: int, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """p'' of one row per text, [N, H, L].

    Args:
        scores: [N, H, L], what the softmax is taken of.
        slot: [N, L], the basket of each key, `NO_BASKET` for keys that the row does not see.
        count: how many slots there are.
    """
    n, heads, length = scores.shape
    # One more slot collects what is in no basket.
    slot = torch.where(slot == NO_BASKET, count, slot)
    present = torch.zeros(n, count + 1, dtype=torch.bool, device=slot.device)
    present = present.scatter(1, slot, torch.ones_like(slot, dtype=torch.bool))[:, None, :count]
    slot = slot[:, None, :].expand(n, heads, length)

    floor = torch.finfo(scores.dtype).min
    peak = scores.new_full((n, heads, count + 1), floor).scatter_reduce(2, slot, scores, "amax")
    inside = (scores - peak.gather(2, slot)).exp()
    total = scores.new_zeros(n, heads, count + 1).scatter_add(2, slot, inside)[..., :count]
    # 0/0 would be masked out of the result, but not out of its gradient.
    total = total.masked_fill(~present, 1)
    log_mass = (peak[..., :count] + total.log()).masked_fill(~present, floor)
    mass = log_mass.softmax(dim=-1) * present
    amount = None if strength is None else strength[:, None, None]
    shares = basket_shares(mass, present, special, amount)
    factor = torch.where(present, shares / total, 0)
    return inside * torch.nn.functional.pad(factor, (0, 1)).gather(2, slot)
