"""Even pooling (`model.even`) in one launch: programs take all steps of the solve of their text.

Every step reads the tokens of the text once and leaves its vectors in registers. No step waits for
the host, and a text that is solved takes no more of them. Where there are fewer texts than
processors, a text has several programs: they share its tokens, wait for each other in every step,
and then do the same with what all have added up.
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
_MOST_PARTS = 128
_BLOCKS_PER_PART = 4
_PIECES = 16
"""Pieces of what programs have added up that are looked at together."""
# Triton can start programs that wait for each other from version 3.3 on.
_CAN_WAIT = tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 3)
_STAGES = 2
"""Loads of tokens that are under way at a time."""


@triton.jit
def _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM: tl.constexpr, ROWS: tl.constexpr):
    """[ROWS, D]: tokens from `offset` on, 0 where the mask is, and their lengths [ROWS]."""
    row = (offset + tl.arange(0, ROWS)).to(tl.int64)
    seen = tl.load(mask + row * m_l, mask=row < count, other=0) != 0
    h = load_rows(tokens, row, t_l, d, seen, d < DIM).to(tl.float32)
    return h, tl.sqrt(tl.maximum(tl.sum(h * h, 1), 1e-30))


@triton.jit
def _over_parts(
    mine, pieces, arrived, part, parts, turn, d, SHARED: tl.constexpr, PIECES: tl.constexpr,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """[D]: the sum of what all programs of a text have, at the turn that they have in common.

    `pieces` is [2, parts, D]: nobody writes into a half before all have read it two turns ago.
    """
    total = mine
    if SHARED:
        pieces += (turn % 2) * parts * BLOCK_D
        tl.store(pieces + part * BLOCK_D + d, mine)
        tl.debug_barrier()
        tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu")
        while tl.atomic_add(arrived, 0, sem="acquire", scope="gpu") < parts * (turn + 1):
            pass
        tl.debug_barrier()
        sums = tl.zeros([PIECES, BLOCK_D], dtype=tl.float32)
        for first in range(0, parts, PIECES):
            number = first + tl.arange(0, PIECES)
            at = pieces + number[:, None] * BLOCK_D + d[None, :]
            # Not from a processor's own cache, which may still hold the piece of two turns ago.
            sums += tl.load(at, mask=(number < parts)[:, None], other=0.0, cache_modifier=".cg")
        total = tl.sum(sums, 0)
    return total


@triton.jit(do_not_specialize=["count", "parts"])
def _solve(
    tokens, mask, factor, mean, pieces, arrived,
    t_n, t_l, m_n, m_l, f_n, count, parts, most, ridge, bound,
    HAS_FACTOR: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    STAGES: tl.constexpr, SHARED: tl.constexpr, PIECES: tl.constexpr,
):  # fmt: skip
    """The even vector of one text, in place of its mean and as long; SHARED: by `parts` programs.

    Solves Σ h·hᵀ/|h| v + weight·v = Σ h by conjugate gradients.
    """
    n = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    tokens += n * t_n
    mask += n * m_n
    pieces += n * 2 * parts * BLOCK_D
    arrived += n
    begin = part * ROWS
    d = tl.arange(0, BLOCK_D)
    mean += n * DIM + d
    # All programs read it here, before they first wait, and so before one of them writes.
    old = tl.load(mean, mask=d < DIM, other=0.0).to(tl.float32)
    share = tl.cast(ridge, tl.float32)
    if HAS_FACTOR:
        share *= tl.load(factor + n * f_n).to(tl.float32)
    # Blocks of tokens are added up row by row, and the rows once, after the last block.
    sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    sizes = tl.zeros([ROWS], dtype=tl.float32)
    for offset in tl.range(begin, count, parts * ROWS, num_stages=STAGES):
        h, size = _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM, ROWS)
        sums += h
        sizes += size
    rest = _over_parts(tl.sum(sums, 0), pieces, arrived, part, parts, 0, d, SHARED, PIECES, BLOCK_D)
    left = tl.sum(rest * rest, 0)
    lengths = tl.zeros([BLOCK_D], dtype=tl.float32) + tl.sum(sizes, 0)
    lengths = _over_parts(lengths, pieces, arrived, part, parts, 1, d, SHARED, PIECES, BLOCK_D)
    weight = share * left / tl.maximum(tl.max(lengths, 0), 1e-30)
    enough = left * bound
    direction = rest
    solution = tl.zeros([BLOCK_D], dtype=tl.float32)
    step = 0
    most = tl.where(share < float("inf"), most, 0)
    # The first step is always taken: where tokens are not finite, nor is the vector then.
    while (step < most) & ((left > enough) | (step == 0)):
        sums = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
        for offset in tl.range(begin, count, parts * ROWS, num_stages=STAGES):
            h, size = _tokens(tokens, mask, offset, t_l, m_l, count, d, DIM, ROWS)
            sums += h * (tl.sum(h * direction[None, :], 1) / size)[:, None]
        step += 1
        image = _over_parts(
            tl.sum(sums, 0), pieces, arrived, part, parts, step + 1, d, SHARED, PIECES, BLOCK_D
        )
        image += weight * direction
        along = left / tl.maximum(tl.sum(direction * image, 0), 1e-30)
        solution += along * direction
        rest -= along * image
        remaining = tl.sum(rest * rest, 0)
        direction = rest + remaining / tl.maximum(left, 1e-30) * direction
        left = remaining
    size = tl.sqrt(tl.maximum(tl.sum(solution * solution, 0), 1e-30))
    even = solution * (tl.sqrt(tl.sum(old * old, 0)) / size)
    tl.store(mean, tl.where(share < float("inf"), even, old), mask=d < DIM)


def even_vectors_kernel(
    mean: Tensor,
    tokens: Tensor,
    mask: Tensor,
    ridge: float,
    factor: Tensor | None,
    steps: int,
    tolerance: float,
) -> None:
    """Write even vectors over the means [N, d] of texts, for tokens that need no gradients.

    Args:
        tokens: [N, L, d] in float32 or half precision, of which those count where `mask` [N, L] is
            not 0.
        factor: [N], what the ridge of each text is multiplied by; infinity keeps the mean.
        steps: how many are taken at most.
        tolerance: steps end when what is left of Σ h is below this share of it.
    """
    if tokens.stride(2) != 1:
        tokens = tokens.contiguous()
    texts, count, width = tokens.shape
    block = block_of(width)
    rows = block_of(count, most=min(_MOST_ROWS, max(1, _NUMBERS // block)))
    parts = _parts(tokens, rows)
    pieces = torch.empty(texts, 2, parts, block, dtype=torch.float32, device=tokens.device)
    arrived = torch.zeros(texts, dtype=torch.int32, device=tokens.device)
    together = {"launch_cooperative_grid": True} if parts > 1 else {}
    with device_of(tokens):
        _solve[(texts * parts,)](
            tokens, mask, mean if factor is None else factor, mean, pieces, arrived,
            *tokens.stride()[:2], *mask.stride(), 0 if factor is None else factor.stride(0),
            count, parts, steps, ridge, tolerance**2, HAS_FACTOR=factor is not None, DIM=width,
            BLOCK_D=block, ROWS=rows, STAGES=_STAGES, SHARED=parts > 1, PIECES=_PIECES,
            num_warps=_WARPS, **together,
        )  # fmt: skip


def _parts(tokens: Tensor, rows: int) -> int:
    """How many programs share a text, a power of 2: so few that all of them run at once."""
    if not (_CAN_WAIT and tokens.is_cuda):
        return 1
    processors = torch.cuda.get_device_properties(tokens.device).multi_processor_count
    blocks = -(-tokens.shape[1] // rows)
    most = min(_MOST_PARTS, processors // len(tokens), blocks // _BLOCKS_PER_PART)
    return 1 << (max(1, most).bit_length() - 1)
