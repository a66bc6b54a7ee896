"""Even pooling (`model.even`): one launch for each step of the solves of a batch.

Programs share the tokens of a text. What they add up in one launch, all of them read in the next,
so no program waits for another one. A short text has one, which steps on by itself.
"""

import math
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from fairspan.attention.kernels.arguments import block_of, device_of
from fairspan.attention.kernels.softmax import load_rows

_NUMBERS = 2**12
"""Numbers of tokens that a program looks at together."""
_MOST_ROWS = 64
_WARPS = 4
_STAGES = 2
"""Loads of tokens that are under way at a time."""
_PER_PROCESSOR = 16
"""Programs that a processor may get: texts of a batch differ in length."""
_MOST_PARTS = 64
_BLOCKS_ALONE = 32
"""The most blocks of a text of one program: for fewer, launches take longer than steps."""
_AT_A_TIME = 16
"""Parts of a text whose sums are read together."""


@triton.jit
def _over_parts(sums, parts, d, AT_A_TIME: tl.constexpr, BLOCK_D: tl.constexpr):
    """[D]: the sum of what the programs of a text have added up, [parts, D]."""
    total = tl.zeros([AT_A_TIME, BLOCK_D], dtype=tl.float32)
    for first in range(0, parts, AT_A_TIME):
        part = first + tl.arange(0, AT_A_TIME)
        at = sums + part[:, None] * BLOCK_D + d[None, :]
        total += tl.load(at, mask=(part < parts)[:, None], other=0.0)
    return tl.sum(total, 0)


@triton.jit
def _step(
    tokens, mask, ridge, totals, limits, inverses, lengths, states, sums,
    t_n, t_l, m_n, m_l, texts, count, parts, number, bound,
    LAUNCH: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    STAGES: tl.constexpr, AT_A_TIME: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """A step of conjugate gradients: v with Σ h·hᵀ/|h| v + weight·v = Σ h.

    The first step adds up h, the others Σ h·hᵀ/|h| direction for the step after them. States and
    sums have two halves; a step reads one and writes the other.

    Args:
        totals: [texts, D], Σ h.
        limits: [texts, 2], the weight, and of which |rest|² a text is solved.
        inverses: [texts, count], 1/|h|, and 0 for tokens that do not count.
        lengths: [texts, parts], Σ |h|.
        states: [2, texts, 3, D], the solution, the rest and the direction.
        sums: [2, texts, parts, D].
        number: of the step, of which LAUNCH is 0, 1, or 2 for all from the third on.
    """
    n = (tl.program_id(0) // parts).to(tl.int64)
    part = tl.program_id(0) % parts
    d = tl.arange(0, BLOCK_D)
    tokens += n * t_n
    mask += n * m_n
    inverses += n * count
    old = (number + 1) % 2
    new = number % 2
    read = states + (old * texts + n) * 3 * BLOCK_D + d
    write = states + (new * texts + n) * 3 * BLOCK_D + d
    added = sums + (old * texts + n) * parts * BLOCK_D
    adding = sums + ((new * texts + n) * parts + part) * BLOCK_D + d
    end = count
    if LAUNCH == 1:
        rest = _over_parts(added, parts, d, AT_A_TIME, BLOCK_D)
        left = tl.sum(rest * rest, 0)
        column = tl.arange(0, PARTS)
        length = tl.sum(tl.load(lengths + n * parts + column, mask=column < parts, other=0.0), 0)
        weight = tl.load(ridge + n) * left / tl.maximum(length, 1e-30)
        direction = rest
        if part == 0:
            tl.store(totals + n * BLOCK_D + d, rest)
            tl.store(limits + 2 * n, weight)
            tl.store(limits + 2 * n + 1, left * bound)
            tl.store(write, tl.zeros([BLOCK_D], dtype=tl.float32))
    if LAUNCH == 2:
        weight = tl.load(limits + 2 * n)
        enough = tl.load(limits + 2 * n + 1)
        solution = tl.load(read)
        rest = tl.load(read + BLOCK_D)
        direction = tl.load(read + 2 * BLOCK_D)
        left = tl.sum(rest * rest, 0)
        # The first step is always taken: where tokens are not finite, nor is the vector then.
        takes_step = (left > enough) | (number == 2)
        image = _over_parts(added, parts, d, AT_A_TIME, BLOCK_D) + weight * direction
        along = left / tl.maximum(tl.sum(direction * image, 0), 1e-30)
        solution = tl.where(takes_step, solution + along * direction, solution)
        rest = tl.where(takes_step, rest - along * image, rest)
        remaining = tl.sum(rest * rest, 0)
        turned = rest + remaining / tl.maximum(left, 1e-30) * direction
        direction = tl.where(takes_step, turned, direction)
        # A text that is solved needs no further sums.
        end = tl.where(remaining > enough, count, 0)
        if part == 0:
            tl.store(write, solution)
    if LAUNCH > 0 and part == 0:
        tl.store(write + BLOCK_D, rest)
        tl.store(write + 2 * BLOCK_D, direction)

    # Blocks of tokens are added up row by row, and the rows once, after the last block.
    total = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    total_length = tl.zeros([ROWS], dtype=tl.float32)
    for offset in tl.range(part * ROWS, end, parts * ROWS, num_stages=STAGES):
        row = (offset + tl.arange(0, ROWS)).to(tl.int64)
        if LAUNCH == 0:
            counts = tl.load(mask + row * m_l, mask=row < count, other=0) != 0
            h = load_rows(tokens, row, t_l, d, counts, d < DIM).to(tl.float32)
            length = tl.sqrt(tl.maximum(tl.sum(h * h, 1), 1e-30))
            tl.store(inverses + row, tl.where(counts, 1 / length, 0.0), mask=row < count)
            total += h
            total_length += tl.where(counts, length, 0.0)
        else:
            inverse = tl.load(inverses + row, mask=row < count, other=0.0)
            h = load_rows(tokens, row, t_l, d, inverse != 0, d < DIM).to(tl.float32)
            total += h * (tl.sum(h * direction[None, :], 1) * inverse)[:, None]
    tl.store(adding, tl.sum(total, 0))
    if LAUNCH == 0:
        tl.store(lengths + n * parts + part, tl.sum(total_length, 0))


@triton.jit(do_not_specialize=["count", "parts", "first", "last"])
def _steps(
    tokens, mask, ridge, totals, limits, inverses, lengths, states, sums,
    t_n, t_l, m_n, m_l, texts, count, parts, first, last, bound,
    LAUNCH: tl.constexpr, DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr,
    STAGES: tl.constexpr, AT_A_TIME: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Steps from `first` to before `last`: more than one only where a text has one program."""
    for number in range(first, last):
        _step(
            tokens, mask, ridge, totals, limits, inverses, lengths, states, sums,
            t_n, t_l, m_n, m_l, texts, count, parts, number, bound,
            LAUNCH, DIM, BLOCK_D, ROWS, STAGES, AT_A_TIME, PARTS,
        )  # fmt: skip
        # The threads of a program read what others of them have written.
        tl.debug_barrier()


def even_vectors_kernel(
    tokens: Tensor, mask: Tensor, ridge: Tensor, steps: int, tolerance: float
) -> tuple[Tensor, Tensor]:
    """Even vectors of texts [N, d], of any length, and the sums of their tokens [N, d], in float32.

    Texts that take more steps than these have NaN: looking at them here would be a device sync.

    Args:
        tokens: [N, L, d] in float32 or half precision, of which those count where `mask` [N, L] is
            not 0.
        ridge: [N, 1], of each text.
        steps: how many are taken, fewer for texts that are solved.
        tolerance: a text is solved when what is left of Σ h is below this share of it.
    """
    if tokens.stride(2) != 1:
        tokens = tokens.contiguous()
    texts, count, width = tokens.shape
    block = block_of(width)
    rows = block_of(count, most=min(_MOST_ROWS, max(1, _NUMBERS // block)))
    parts = _parts(tokens, rows)
    empty = partial(torch.empty, dtype=torch.float32, device=tokens.device)
    totals = empty(texts, block)
    limits = empty(texts, 2)
    inverses = empty(texts, count)
    lengths = empty(texts, parts)
    states = empty(2, texts, 3, block)
    sums = empty(2, texts, parts, block)
    ridge = ridge.float().contiguous()

    def launch(first: int, last: int) -> None:
        _steps[(texts * parts,)](
            tokens, mask, ridge, totals, limits, inverses, lengths, states, sums,
            *tokens.stride()[:2], *mask.stride(), texts, count, parts, first, last, tolerance**2,
            LAUNCH=min(first, 2), DIM=width, BLOCK_D=block, ROWS=rows, STAGES=_STAGES,
            AT_A_TIME=_AT_A_TIME, PARTS=block_of(parts), num_warps=_WARPS,
        )  # fmt: skip

    with device_of(tokens):
        launch(0, 1)
        launch(1, 2)
        at_once = steps if parts == 1 else 1
        for number in range(2, steps + 2, at_once):
            launch(number, number + at_once)
    solution, rest, _ = states[(steps + 1) % 2].unbind(dim=1)
    unsolved = rest.square().sum(dim=1) > limits[:, 1]
    even = torch.where(unsolved[:, None], torch.nan, solution)
    return even[:, :width], totals[:, :width]


def _parts(tokens: Tensor, rows: int) -> int:
    """How many programs share the tokens of a text.

    In a step, each of them reads its share of the tokens and what all of them have added up.
    """
    texts, count, _ = tokens.shape
    if count <= rows * _BLOCKS_ALONE:
        return 1
    processors = 1
    if tokens.is_cuda:
        processors = torch.cuda.get_device_properties(tokens.device).multi_processor_count
    programs = _PER_PROCESSOR * processors // texts
    # For so many, both are as much: the sums are float32.
    fastest = math.isqrt(count * tokens.element_size() // 4)
    return max(1, min(_MOST_PARTS, programs, fastest))
