"""How strongly attention filters token signals: their DC and HC parts, σ_a and σ_s.

LC §2: token signals X [L, d] have a part that is the same for every token, DC[X] = 1·mean(X), and the rest, HC[X] =
X − DC[X]. Attention shrinks the rest. By how much at most is σ_a, the largest singular value of HC[A].

All of it is in float64, for the layer of one text without padding, one head at a time.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh  # type: ignore[import-untyped]
from torch import Tensor

from fairspan.attention.plan import LayerInputs
from fairspan.attention.pooled_row import row_scores, row_weights

# Bounds the scores [R, L] of a block of R rows.
_SCORES_AT_A_TIME = 2**20
# A matrix A of at most so many entries (8,192 tokens) is kept; a larger one is computed anew each time it is needed.
_MOST_KEPT = 2**26
# The relative error that the search for σ_a² ends at.
_TOLERANCE = 1e-8


def signal_norms(x: Tensor) -> tuple[float, float]:
    """‖HC[X]‖_F and ‖DC[X]‖_F of token signals [L, d]."""
    x = x.double()
    mean = x.mean(dim=0)
    return float(torch.linalg.vector_norm(x - mean)), len(x) ** 0.5 * float(torch.linalg.vector_norm(mean))


def value_norms(value_weight: Tensor) -> Tensor:
    """‖W_V^h‖₂ of value weights [K, D, d], [K]."""
    norms: Tensor = torch.linalg.matrix_norm(value_weight.double(), ord=2)
    return norms


def sigma_a(inputs: LayerInputs) -> Tensor:
    """LC Theorem 2: σ_a = ‖(I − 11ᵀ/L) A‖₂ of each head, [H]."""
    found = [_largest(_blocks_of_a(one), one.query.shape[2]) for one in _heads(inputs)]
    return torch.tensor(found, dtype=torch.float64)


def sigma_s(inputs: LayerInputs) -> Tensor:
    """LC Theorem 3: the standard deviation of the attention scores of each head, [H].

    Over all pairs of a query and a key that it sees, around their common mean, with scale and temperature and without
    position bias. LC has scores that are Gaussian, independent and of mean 0, and no hidden keys.
    """
    return torch.tensor([_deviation(one) for one in _heads(inputs)], dtype=torch.float64)


def _heads(inputs: LayerInputs) -> Iterator[LayerInputs]:
    """The layer of one text, a head at a time, in float64."""
    groups = inputs.query.shape[1] // inputs.key.shape[1]

    def of_head(x: Tensor | None, head: int) -> Tensor | None:
        return x if x is None or x.shape[1] == 1 else x[:, head : head + 1]

    for head in range(inputs.query.shape[1]):
        key = inputs.key[:, head // groups, None].double()
        mask, position_bias = of_head(inputs.mask, head), of_head(inputs.position_bias, head)
        view = None if inputs.view is None else replace(inputs.view, bias=of_head(inputs.view.bias, head))
        query = inputs.query[:, head, None].double()
        yield replace(inputs, query=query, key=key, mask=mask, position_bias=position_bias, view=view)


def _rows(one: LayerInputs) -> Iterable[Tensor]:
    length = one.query.shape[2]
    return torch.split(torch.arange(length, device=one.query.device), _rows_at_a_time(length))


def _rows_at_a_time(length: int) -> int:
    return max(1, _SCORES_AT_A_TIME // length)


def _blocks_of_a(one: LayerInputs) -> Callable[[], Iterable[Tensor]]:
    """A = softmax(Q Kᵀ · scale + position bias), calibrated where the layer is, in blocks of rows [R, L]."""

    def weights(rows: Tensor) -> Tensor:
        rule = one.rule
        if rule is None or rule.pooled is None:
            return row_weights(one, rows[:, None])[:, 0]
        plain = row_weights(replace(one, rule=None), rows[:, None])[:, 0]
        return torch.where((rows == rule.pooled)[:, None], row_weights(one, rule.pooled[None])[:, 0], plain)

    if one.query.shape[2] ** 2 > _MOST_KEPT:
        return lambda: (weights(rows) for rows in _rows(one))
    kept = [weights(rows) for rows in _rows(one)]
    return lambda: kept


def _largest(blocks: Callable[[], Iterable[Tensor]], length: int) -> float:
    """‖HC[A]‖₂, the root of the largest eigenvalue of HC[A]ᵀHC[A], by scipy's Lanczos iteration."""
    device = next(iter(blocks())).device

    def apply(x: np.ndarray) -> np.ndarray:
        """HC[A]ᵀHC[A] x = Aᵀ(y − mean(y)) with y = Ax."""
        there = torch.from_numpy(x.reshape(-1)).to(device)
        y = torch.cat([p @ there for p in blocks()])
        # Twice: where all rows are similar, the rounding of the first mean is more than what is left.
        y = y - y.mean()
        y = y - y.mean()
        parts = zip(blocks(), torch.split(y, _rows_at_a_time(length)), strict=True)
        back = sum((part @ p for p, part in parts), start=torch.zeros_like(there))
        return back.cpu().numpy()

    start = np.random.default_rng(0).standard_normal(length)
    # Rows that are alike leave nothing of A but rounding, in which there is nothing to search.
    if np.linalg.norm(apply(start)) <= length * (16 * np.finfo(np.float64).eps) ** 2 * np.linalg.norm(start):
        return 0.0
    operator = LinearOperator((length, length), matvec=apply, dtype=np.float64)
    found = eigsh(operator, k=1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False)
    return float(max(found[0], 0.0) ** 0.5)


def _deviation(one: LayerInputs) -> float:
    count, total, square = 0.0, 0.0, 0.0
    for rows in _rows(one):
        scores, _, visible = row_scores(one, rows[:, None])
        seen = scores[:, 0] if visible is None else scores[:, 0][visible]
        count, total, square = count + seen.numel(), total + float(seen.sum()), square + float(seen.square().sum())
    return math.sqrt(max(square / count - (total / count) ** 2, 0.0))
