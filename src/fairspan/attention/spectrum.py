"""How strongly attention filters token signals: their DC and HC parts, σ_a and σ_s.

LC §2: token signals X [L, d] have a part that is the same for every token, DC[X] = 1·mean(X), and the rest, HC[X] =
X − DC[X]. Attention shrinks the rest. By how much at most is σ_a, the largest singular value of HC[A].

No L×L matrix is held beyond the size of one block: A is computed a block of rows at a time, anew for every pass over
it, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from fairspan.attention.baskets import NO_BASKET
from fairspan.attention.bias import additive, hidden, hides_only_padding
from fairspan.attention.plan import BasketRule, LayerInputs
from fairspan.attention.pooled_row import calibrated_weights
from fairspan.attention.shares import SpecialShares
from fairspan.attention.tiles import TileView

# Bounds the weights [G, R, L] of one block: R rows of G heads. A matrix that is smaller is kept between passes.
_WEIGHTS_AT_A_TIME = 2**18
# Bounds the signals [R, d] that are in float64 at once.
_TOKENS_AT_A_TIME = 128
# Vectors that go through one pass together, and how many directions are kept at most to look for σ_a among.
_WIDTH, _MOST_DIRECTIONS = 8, 64
# The most passes over A: trained attention takes 3 to 13, a random matrix a few dozen.
_MOST_PASSES = 200

TOLERANCE = 1e-6

Seen: TypeAlias = Callable[[slice], tuple[Tensor | None, Tensor]]
"""Of some rows of a text, the bias [H, R, L] that is added to their scores and the keys [R, L] that they see."""


def signal_norms(x: Tensor) -> tuple[float, float]:
    """‖HC[X]‖_F and ‖DC[X]‖_F of token signals [L, d], in float64, a few tokens at a time."""
    parts = [x[first : first + _TOKENS_AT_A_TIME] for first in range(0, len(x), _TOKENS_AT_A_TIME)]
    mean = sum(part.sum(dim=0, dtype=torch.float64) for part in parts) / len(x)
    high = sum((part - mean).square().sum() for part in parts)
    return math.sqrt(high), math.sqrt(len(x)) * float(torch.linalg.vector_norm(mean))


@dataclass(frozen=True, slots=True)
class TextRule:
    """How the attention of one text is split into baskets (IRF §5).

    Attributes:
        slot: [L], the basket of each key. count: how many slots there are.
        strength: [1], or None for 1.
        row: the only row that is calibrated; None for all rows.
    """

    slot: Tensor
    count: int
    special: SpecialShares
    strength: Tensor | None
    row: int | None


@dataclass(frozen=True, slots=True, eq=False)
class TextAttention:
    """The attention of one layer over the L tokens of one text, without padding.

        A = softmax(Q Kᵀ · scale + position bias), with the rows that `rule` names calibrated

    Attributes:
        query: [H, L, D]. key: [K, L, D] with K heads, a divisor of H.
        mask: bool or additive, [1 or H, L, L]; None where it hides no key.
        position_bias: [1 or H, L, L].
        causal: whether a row sees no key after its own.
        seen: what the rows see in a pass in tiles, which has no mask and no position bias besides.
    """

    query: Tensor
    key: Tensor
    scale: float
    mask: Tensor | None = None
    position_bias: Tensor | None = None
    causal: bool = False
    rule: TextRule | None = None
    seen: Seen | None = None

    @property
    def heads(self) -> int:
        return self.query.shape[0]

    @property
    def length(self) -> int:
        return self.query.shape[1]

    def of_heads(self, heads: slice) -> TextAttention:
        """Some of the heads, each with a key of its own, in float64, scaled."""
        shared = torch.arange(self.heads, device=self.key.device)[heads] // (self.heads // self.key.shape[0])
        mask, position_bias = (
            x if x is None or x.shape[0] == 1 else x[heads] for x in (self.mask, self.position_bias)
        )
        query, key = self.query[heads].double() * self.scale, self.key[shared].double()
        seen = None if self.seen is None else _of_heads(self.seen, heads)
        return replace(self, query=query, key=key, scale=1.0, mask=mask, position_bias=position_bias, seen=seen)

    def scores(self, rows: slice) -> Tensor:
        """q·k·scale of a block of rows, [H, R, L], of `of_heads`."""
        return self.query[:, rows] @ self.key.transpose(1, 2)

    def hide(self, scores: Tensor, rows: slice, *, biased: bool) -> Tensor:
        """The scores with -inf for keys that a row does not see, and the position bias added if asked."""
        if self.seen is not None:
            added, visible = self.seen(slice(rows.start, rows.start + scores.shape[1]))
            if added is not None and biased:
                scores = scores + added
            return scores.masked_fill(~visible, -torch.inf)
        mask, position_bias = (None if x is None else x[:, rows] for x in (self.mask, self.position_bias))
        bias = additive(mask, position_bias if biased else None, scores.dtype)
        if bias is not None:
            scores = scores + bias
        if self.causal:
            row = torch.arange(rows.start, rows.start + scores.shape[1], device=scores.device)
            scores = scores.masked_fill(torch.arange(self.length, device=row.device) > row[:, None], -torch.inf)
        return scores

    def weights(self, rows: slice) -> Tensor:
        """A of a block of rows, [H, R, L], of `of_heads`."""
        scores = self.hide(self.scores(rows), rows, biased=True)
        if self.rule is None:
            return scores.softmax(dim=-1)
        if self.rule.row is None:
            return _calibrated(scores, self.rule)
        p, row = scores.softmax(dim=-1), self.rule.row - rows.start
        if 0 <= row < p.shape[1]:
            p[:, row : row + 1] = _calibrated(scores[:, row : row + 1], self.rule)
        return p


def _calibrated(scores: Tensor, rule: TextRule) -> Tensor:
    """p'' of IRF §5 for every row of scores [H, R, L]."""
    slot = torch.where(scores[0] > -torch.inf, rule.slot, NO_BASKET)
    strength = None if rule.strength is None else rule.strength.double().expand(slot.shape[0])
    p = calibrated_weights(scores.transpose(0, 1), slot, rule.count, rule.special, strength)
    return p.transpose(0, 1)


def text_attention(inputs: LayerInputs, text: int, tokens: slice) -> TextAttention:
    """One text of a batch, of which only these tokens are not padding."""
    mask, position_bias = (
        None if x is None else x[text % x.shape[0], :, tokens, tokens] for x in (inputs.mask, inputs.position_bias)
    )
    if mask is not None and (hides_only_padding(inputs.mask) or not bool(hidden(mask).any())):
        mask = None
    rule = None if inputs.rule is None else _text_rule(inputs.rule, text, tokens)
    query, key = inputs.query[text, :, tokens], inputs.key[text, :, tokens]
    seen = None if inputs.view is None else _seen(inputs.view, text, tokens)
    return TextAttention(query, key, inputs.scale, mask, position_bias, inputs.causal, rule, seen)


def _seen(view: TileView, text: int, tokens: slice) -> Seen:
    def seen(rows: slice) -> tuple[Tensor | None, Tensor]:
        row = torch.arange(rows.start, rows.stop, device=view.tiles.position.device) + tokens.start
        bias, visible = view.of_rows(torch.full_like(row, text), row)
        return None if bias is None else bias[..., tokens].transpose(0, 1), visible[:, tokens]

    return seen


def _of_heads(seen: Seen, heads: slice) -> Seen:
    def of_heads(rows: slice) -> tuple[Tensor | None, Tensor]:
        bias, visible = seen(rows)
        return None if bias is None else bias[heads], visible

    return of_heads


def _text_rule(rule: BasketRule, text: int, tokens: slice) -> TextRule:
    return TextRule(
        slot=rule.baskets.slot[text, tokens],
        count=rule.baskets.count,
        special=rule.special,
        strength=None if rule.strength is None else rule.strength[text : text + 1],
        row=None if rule.rows == "all" else int(rule.pooled[text]) - tokens.start,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SigmaA:
    """The largest singular value of HC[A] of each head, and how far it may be off.

    Attributes:
        value: [H].
        residual: [H], ‖HC[A]ᵀHC[A]v − θv‖ / θ with θ = value² and v, of norm 1, the vector that it was found with. A
            singular value lies within about half of that of `value`, relative to it; `value` is never too large.
    """

    value: Tensor
    residual: Tensor


def sigma_a(attention: TextAttention, tolerance: float = TOLERANCE) -> SigmaA:
    """LC Theorem 2: σ_a = ‖(I − 11ᵀ/L) A‖₂ of each head, by block Lanczos with restarts.

    It stops once `residual` is at most `tolerance` in every head, or after a fixed number of passes over A, and then
    `residual` says so. Where θ is too small to be told from rounding, the residual is relative to the smallest θ
    that could be.
    """
    parts = [_largest(part, tolerance) for part in _parts(attention)]
    return SigmaA(torch.cat([part.value for part in parts]), torch.cat([part.residual for part in parts]))


def _parts(attention: TextAttention) -> Iterator[TextAttention]:
    """A few heads at a time, as many as fit one block with all their rows, or one."""
    together = max(1, _WEIGHTS_AT_A_TIME // attention.length**2)
    for first in range(0, attention.heads, together):
        yield attention.of_heads(slice(first, first + together))


def _largest(attention: TextAttention, tolerance: float) -> SigmaA:
    """The Ritz values of M = HC[A]ᵀHC[A] on directions that grow by the residuals of the largest ones."""
    blocks = _blocks(attention)
    directions = _start(attention.query)
    images, noise = _apply(blocks, directions)  # M · directions
    for passes in range(1, _MOST_PASSES + 1):
        small = directions.transpose(1, 2) @ images
        theta, inside = torch.linalg.eigh((small + small.transpose(1, 2)) / 2)
        inside, largest = inside[..., -2 * _WIDTH :], theta[:, -1]
        ritz, moved = directions @ inside, images @ inside
        off = moved - ritz * theta[:, None, -2 * _WIDTH :]
        residual = off[..., -1].norm(dim=1) / torch.maximum(largest, (noise / tolerance) ** 2)
        exhausted = directions.shape[2] >= attention.length
        if exhausted or passes == _MOST_PASSES or bool((residual <= tolerance).all()):
            break
        if directions.shape[2] + _WIDTH > min(_MOST_DIRECTIONS, attention.length):
            directions, images = ritz, moved
        new = _orthonormal(off[..., -_WIDTH:], directions)
        image, _ = _apply(blocks, new)
        directions, images = torch.cat([directions, new], dim=2), torch.cat([images, image], dim=2)
    return SigmaA(largest.clamp(min=0).sqrt(), residual)


def _blocks(attention: TextAttention) -> Callable[[], Iterator[Tensor]]:
    """What goes through A block by block, [G, R, L]."""
    heads, length = attention.heads, attention.length
    size = max(1, _WEIGHTS_AT_A_TIME // (heads * length))
    if size >= length:
        whole = attention.weights(slice(0, length))
        return lambda: iter((whole,))
    return lambda: (attention.weights(slice(first, first + size)) for first in range(0, length, size))


def _apply(blocks: Callable[[], Iterator[Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """HC[A]ᵀHC[A] x for vectors x [G, L, W], in one pass, and the size [G] below which HC[A] is rounding.

        HC[A]ᵀHC[A] x = Aᵀy − c · mean(y)      y = Ax, less any constant; c = Aᵀ1, the sums of A's columns

    The constant is the mean over the first rows: where all rows are similar, nothing large is left to cancel.
    """
    out = x.new_zeros(x.shape[0], x.shape[1], x.shape[2] + 1)
    total = x.new_zeros(x.shape[0], 1, x.shape[2])
    constant = None
    for p in blocks():
        y = p @ x
        constant = y.mean(dim=1, keepdim=True) if constant is None else constant
        y = y - constant
        total += y.sum(dim=1, keepdim=True)
        out.baddbmm_(p.transpose(1, 2), torch.nn.functional.pad(y, (0, 1), value=1.0))
    out, c = out[..., :-1], out[..., -1:]
    # ‖A‖₂² is at most the largest column sum, as rows sum to 1.
    return out - c * total / x.shape[1], 16 * torch.finfo(x.dtype).eps * c.amax(dim=(1, 2)).sqrt()


def _start(like: Tensor) -> Tensor:
    """The first directions [G, L, W]: all there are of a short text, and of a long one arbitrary but fixed ones."""
    heads, length, _ = like.shape
    if length <= _MOST_DIRECTIONS:
        return torch.eye(length, dtype=like.dtype, device=like.device).expand(heads, length, length)
    drawn = torch.randn(length, _WIDTH, dtype=like.dtype, generator=torch.Generator().manual_seed(0))
    start: Tensor = torch.linalg.qr(drawn.to(like.device)).Q
    return start.expand(heads, length, _WIDTH)


def _orthonormal(x: Tensor, basis: Tensor) -> Tensor:
    """The directions of x [G, L, W] that are new to `basis`, orthonormal.

    Twice: of what is left of a direction that was in the basis already, the first round makes unit length, and only
    the second makes it orthogonal.
    """
    for _ in range(2):
        x, _ = torch.linalg.qr(x - basis @ (basis.transpose(1, 2) @ x))
    return x


def sigma_s(attention: TextAttention) -> Tensor:
    """LC Theorem 3: the standard deviation of the attention scores of each head, [H].

    Over all pairs of a query and a key that it sees, around their common mean, with scale and temperature and without
    position bias. LC has scores that are Gaussian, independent and of mean 0, and no hidden keys.
    """
    sees_all = attention.mask is None and not attention.causal and attention.seen is None
    variance = _variance_of_all if sees_all else _variance_of_seen
    return torch.cat([variance(part).clamp(min=0).sqrt() for part in _parts(attention)])


def _variance_of_all(part: TextAttention) -> Tensor:
    """Of s_ij = q_i·k_j over all i and j, from the means and covariances of q and k: no score is needed."""
    (q_mean, q_cov), (k_mean, k_cov) = (_moments(x) for x in (part.query, part.key))

    def form(x: Tensor, matrix: Tensor) -> Tensor:
        """xᵀ M x of each head."""
        return ((matrix @ x[..., None])[..., 0] * x).sum(dim=1)

    return (q_cov * k_cov).sum(dim=(1, 2)) + form(k_mean, q_cov) + form(q_mean, k_cov)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean [H, D] and covariance [H, D, D] over the tokens of x [H, L, D]."""
    mean = x.mean(dim=1, keepdim=True)
    centred = x - mean
    return mean[:, 0], centred.transpose(1, 2) @ centred / x.shape[1]


def _variance_of_seen(part: TextAttention) -> Tensor:
    """The same over the pairs that are not hidden, block by block."""
    count, total, square = (part.query.new_zeros(part.heads) for _ in range(3))
    size = max(1, _WEIGHTS_AT_A_TIME // (part.heads * part.length))
    for first in range(0, part.length, size):
        rows = slice(first, first + size)
        scores = part.scores(rows)
        seen = part.hide(torch.zeros_like(scores), rows, biased=False) > -torch.inf
        scores = torch.where(seen, scores, 0)
        count += seen.sum(dim=(1, 2))
        total += scores.sum(dim=(1, 2))
        square += scores.square().sum(dim=(1, 2))
    return square / count - (total / count) ** 2


def value_norms(value_weight: Tensor) -> Tensor:
    """‖W_V^h‖₂ of value weights [K, D, d], [K]."""
    norms: Tensor = torch.linalg.matrix_norm(value_weight.double(), ord=2)
    return norms
