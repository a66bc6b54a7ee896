"""Even pooling (`model.even`) in one launch: a program takes all steps of the solve of its text.

No step waits for the host, and a text that is solved takes no more of them.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.kernels.arguments import block_of, device_of
from fairspan.attention.kernels.softmax import load_rows

_NUMBERS = 2**14
"""Numbers of tokens that a program looks at together."""
_MOST_ROWS = 64
_WARPS = 8
_STAGES = 2
"""Loads of tokens that are under way at a time."""


@triton.jit
def _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM: tl.constexpr, ROWS: tl.constexpr):
    """[ROWS, D]: tokens from `offset` on, 0 where the mask is, and their lengths [ROWS]."""
    row = (offset + tl.arange(0, ROWS)).to(tl.int64)
    seen = tl.load(mask + row * m_l, mask=row < count, other=0) != 0
    h = load_rows(tokens, row, t_l, d, seen, d < DIM).to(tl.float32)
    return h, tl.sqrt(tl.maximum(tl.sum(h * h, 1), 1e-30))


@triton.jit(do_not_specialize=["count"])
def _solve(
    tokens, mask, ridge, solved, t_n, t_l, m_n, m_l, count, steps, bound,
    DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The even vector of one text: v with Σ h·hᵀ/|h| v + weight·v = Σ h, by conjugate gradients."""
    n = tl.program_id(0).to(tl.int64)
    tokens += n * t_n
    mask += n * m_n
    d = tl.arange(0, BLOCK_D)
    # Blocks of tokens are added up row by row, and the rows once, after the last block.
    sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    sizes = tl.zeros([ROWS], dtype=tl.float32)
    for offset in tl.range(0, count, ROWS, num_stages=STAGES):
        h, size = _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM, ROWS)
        sums += h
        sizes += size
    rest = tl.sum(sums, 0)
    left = tl.sum(rest * rest, 0)
    weight = tl.load(ridge + n) * left / tl.maximum(tl.sum(sizes, 0), 1e-30)
    enough = left * bound
    direction = rest
    solution = tl.zeros([BLOCK_D], dtype=tl.float32)
    step = 0
    # The first step is always taken: where tokens are not finite, nor is the vector then.
    while (step < steps) & ((left > enough) | (step == 0)):
        sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
        for offset in tl.range(0, count, ROWS, num_stages=STAGES):
            h, size = _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM, ROWS)
            sums += h * (tl.sum(h * direction[None, :], 1) / size)[:, None]
        image = tl.sum(sums, 0) + weight * direction
        along = left / tl.maximum(tl.sum(direction * image, 0), 1e-30)
        solution += along * direction
        rest -= along * image
        remaining = tl.sum(rest * rest, 0)
        direction = rest + remaining / tl.maximum(left, 1e-30) * direction
        left = remaining
        step += 1
    tl.store(solved + n * DIM + d, solution, mask=d < DIM)


def even_vectors_kernel(
    tokens: Tensor, mask: Tensor, ridge: Tensor, steps: int, tolerance: float
) -> Tensor:
    """[N, d] in float32: even vectors of texts, for tokens that need no gradients.

    Args:
        tokens: [N, L, d] in float32 or half precision, of which those count where `mask` [N, L] is
            not 0.
        ridge: [N, 1], of each text.
        steps: how many are taken at most.
        tolerance: steps end when what is left of Σ h is below this share of it.
    """
    if tokens.stride(2) != 1:
        tokens = tokens.contiguous()
    texts, count, width = tokens.shape
    block = block_of(width)
    rows = block_of(count, most=min(_MOST_ROWS, max(1, _NUMBERS // block)))
    solved = torch.empty(texts, width, dtype=torch.float32, device=tokens.device)
    with device_of(tokens):
        _solve[(texts,)](
            tokens, mask, ridge.float().contiguous(), solved,
            *tokens.stride()[:2], *mask.stride(), count, steps, tolerance**2,
            DIM=width, BLOCK_D=block, ROWS=rows, STAGES=_STAGES, num_warps=_WARPS,
        )  # fmt: skip
    return solved
