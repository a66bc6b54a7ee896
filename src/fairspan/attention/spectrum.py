"""How strongly attention filters token signals: their DC and HC parts, σ_a and σ_s.

LC §2: token signals X [L, d] have a part that is the same for every token, DC[X] = 1·mean(X), and
the rest, HC[X] = X − DC[X]. Attention shrinks the rest. By how much at most is σ_a, the largest
singular value of HC[A].

All of it is in float64, for the layer of one text without padding, one head at a time.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy.sparse.linalg import svds  # type: ignore[import-untyped]
from torch import Tensor

from fairspan.attention.plan import LayerInputs
from fairspan.attention.rows import row_scores, row_weights

# Bounds the scores [R, L] of a block of R rows.
_SCORES_AT_A_TIME = 2**20
# Its square is the relative error of σ_a² that the search ends at.
_TOLERANCE = 1e-4


def signal_norms(x: Tensor) -> tuple[float, float]:
    """‖HC[X]‖_F and ‖DC[X]‖_F of token signals [L, d]."""
    x = x.double()
    mean = x.mean(dim=0)
    hc = float(torch.linalg.vector_norm(x - mean))
    return hc, len(x) ** 0.5 * float(torch.linalg.vector_norm(mean))


def value_norms(value_weight: Tensor) -> Tensor:
    """‖W_V^h‖₂ of value weights [K, D, d], [K]."""
    norms: Tensor = torch.linalg.matrix_norm(value_weight.double(), ord=2)
    return norms


def sigma_a(inputs: LayerInputs) -> Tensor:
    """LC Theorem 2: σ_a = ‖(I − 11ᵀ/L) A‖₂ of each head, [H]."""
    sigmas = [_largest(_weights(head)) for head in _heads(inputs)]
    return torch.tensor(sigmas, dtype=torch.float64)


def sigma_s(inputs: LayerInputs) -> Tensor:
    """LC Theorem 3: the standard deviation of the attention scores of each head, [H].

    Over all pairs of a query and a key that it sees, around their common mean, with scale and
    temperature and without position bias.
    """
    return torch.tensor([_deviation(head) for head in _heads(inputs)], dtype=torch.float64)


def _heads(inputs: LayerInputs) -> Iterator[LayerInputs]:
    """The layer of one text, a head at a time, in float64."""
    groups = inputs.query.shape[1] // inputs.key.shape[1]

    def of_head(x: Tensor | None, head: int) -> Tensor | None:
        return x if x is None or x.shape[1] == 1 else x[:, head : head + 1]

    for head in range(inputs.query.shape[1]):
        view = inputs.view
        if view is not None:
            view = replace(view, bias=of_head(view.bias, head))
        yield replace(
            inputs,
            query=inputs.query[:, head, None].double(),
            key=inputs.key[:, head // groups, None].double(),
            mask=of_head(inputs.mask, head),
            position_bias=of_head(inputs.position_bias, head),
            view=view,
        )


def _blocks_of_rows(head: LayerInputs) -> Iterable[Tensor]:
    length = head.query.shape[2]
    rows = torch.arange(length, device=head.query.device)
    return torch.split(rows, max(1, _SCORES_AT_A_TIME // length))


def _weights(head: LayerInputs) -> Tensor:
    """A = softmax(Q Kᵀ · scale + position bias), calibrated where the layer is, [L, L]."""
    pooled = None if head.rule is None else head.rule.pooled
    plain = head if pooled is None else replace(head, rule=None)
    a = torch.cat([row_weights(plain, rows[:, None])[:, 0] for rows in _blocks_of_rows(head)])
    if pooled is not None:
        a[pooled] = row_weights(head, pooled[None])[:, 0]
    return a


def _largest(a: Tensor) -> float:
    """‖HC[A]‖₂, by scipy's Lanczos iteration."""
    hc = (a - a.mean(dim=0)).cpu().numpy()
    # If all rows are alike, HC[A] is only rounding, on which the search would not converge.
    if np.linalg.norm(hc) <= 16 * np.finfo(np.float64).eps * len(hc) ** 0.5:
        return 0.0
    start = np.random.default_rng(0).standard_normal(len(hc))
    return float(svds(hc, k=1, v0=start, tol=_TOLERANCE, return_singular_vectors=False)[0])


def _deviation(head: LayerInputs) -> float:
    """The standard deviation of the scores that the rows of one head see."""
    count = 0.0
    total = 0.0
    square = 0.0
    for rows in _blocks_of_rows(head):
        scores, _, visible = row_scores(head, rows[:, None])
        seen = scores[:, 0] if visible is None else scores[:, 0][visible]
        count += seen.numel()
        total += float(seen.sum())
        square += float(seen.square().sum())
    return math.sqrt(max(square / count - (total / count) ** 2, 0.0))
