"""The readable definition: calibrated attention and tiles by whole L×L matrices; even pooling.

Every fast path is tested against this one. It is meant to be checked by eye against the formulas,
costs quadratic memory, and is never used to embed anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET, Baskets
from fairspan.attention.shares import SpecialShares, basket_shares


def attention_weights(
    query: Tensor, key: Tensor, bias: Tensor, scale: float, temperature: Tensor
) -> Tensor:
    """LC §3, equation 6: softmax(Q Kᵀ · scale / temperature + bias), [N, H, L, L].

    Args:
        query, key: [N, H, L, D]. temperature: [N].
        bias: broadcasts to [N, H, L, L]; -inf where a key is hidden.
    """
    scores = query @ key.transpose(-1, -2) * scale / temperature[:, None, None, None]
    return torch.softmax(scores + bias, dim=-1)


def calibrate_weights(
    p: Tensor, baskets: Baskets, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """IRF §5: give every basket its share and keep the proportions inside each.

        p'_j = share(basket of j) · p_j / Σ_{k in basket of j} p_k

    Args:
        p: [N, H, R, L] attention of R query rows. strength: [N], or None for 1.
    """
    member = baskets.slot[:, None, :] == torch.arange(baskets.count, device=p.device)[:, None]
    member = member.to(p.dtype)[:, None]  # [N, 1, M, L]
    mass = p @ member.transpose(-1, -2)  # [N, H, R, M]
    amount = None if strength is None else strength[:, None, None, None].to(p.dtype)
    shares = basket_shares(mass, mass > 0, special, amount)
    factor = torch.where(mass > 0, shares / mass, 0)
    padding = (baskets.slot == NO_BASKET)[:, None, None, :]
    return torch.where(padding, 0, p * (factor @ member))


@dataclass(frozen=True, slots=True)
class Place:
    """Where one token stands: its tile, None for a global token, and its recurring position."""

    tile: int | None
    position: int


def tile_places(
    tokens: int, longest: int | None, *, lead: int, trail: int, segment: Sequence[int] | None = None
) -> list[Place]:
    """The place of each token of one text in its tile.

    Args:
        tokens: how many tokens the text has, of which `lead` in front and `trail` at the end are
            global.
        longest: how many tokens a tile holds at most; None for any number.
        segment: the segment of each token; a tile ends where it ends. None for one segment.
    """
    places = [Place(None, token) for token in range(min(lead, tokens))]
    content = range(lead, max(lead, tokens - trail))
    by_segment = groupby(content, lambda token: segment[token] if segment else 0)
    lengths = [len(list(tokens_of)) for _, tokens_of in by_segment]
    tiles = [length for count in lengths for length in balanced(count, longest or count)]
    places += [
        Place(tile, lead + offset) for tile, length in enumerate(tiles) for offset in range(length)
    ]
    after = tokens - len(places)
    return places + [Place(None, lead + max(tiles, default=0) + number) for number in range(after)]


def balanced(count: int, longest: int) -> list[int]:
    """The lengths of ceil(count / longest) tiles, which differ by at most one.

    >>> balanced(10, 4)
    [4, 3, 3]
    """
    tiles = -(-count // longest)
    return [count // tiles + (number < count % tiles) for number in range(tiles)]


def sees_by_tile(places: Sequence[Place]) -> Tensor:
    """[L, L] bool: a token sees its tile and global tokens, which see everything."""
    sees = [[row.tile is None or key.tile in (None, row.tile) for key in places] for row in places]
    return torch.tensor(sees, dtype=torch.bool)


def sees_by_position(places: Sequence[Place], *, causal: bool, window: int | None) -> Tensor:
    """[L, L] bool: causality by the order of the text, windows by position.

    Args:
        window: how far from the row a key may stand; of a causal row, how far in front of it, since
            a token of an earlier tile may be at a later position.
    """
    ahead = torch.tensor([[row.position - key.position for key in places] for row in places])
    seen = torch.ones(len(places), len(places), dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if window is not None:
        seen = seen & ((ahead if causal else ahead.abs()) <= window)
    return seen


def bias_by_position(bias: Tensor, places: Sequence[Place]) -> Tensor:
    """[H, L, L]: a position bias [H, P, P] taken at recurring positions."""
    position = torch.tensor([place.position for place in places])
    return bias[:, position[:, None], position]


def even_vector(tokens: Tensor, ridge: float) -> Tensor:
    """[d]: the even vector of the tokens [n, d] of one text, at the length of their mean.

    One solve in float64.
    """
    tokens = tokens.double()
    length = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    mean = tokens.sum(dim=0) / length.sum()
    products = tokens.T @ (tokens / length) / length.sum()
    added = ridge * mean.dot(mean) * torch.eye(len(mean))
    even: Tensor = torch.linalg.solve(products + added, mean)
    return even * (tokens.mean(dim=0).norm() / even.norm())
