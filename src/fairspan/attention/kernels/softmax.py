"""Steps that the kernels share: loading rows, and softmaxes that grow by blocks of keys.

A running softmax is three values per row: `peak`, the largest score so far, -inf at first; `total`,
Σ 2^(score − peak); and `sums`, Σ 2^(score − peak) · value. Scores of hidden keys are -inf.
"""

import triton
import triton.language as tl


@triton.jit
def load_rows(pointer, row, stride, d, row_ok, d_ok):
    """[R, D]: the rows `row` [R] of one head, 0 where they are not there."""
    at = pointer + row[:, None] * stride + d[None, :]
    return tl.load(at, mask=row_ok[:, None] & d_ok[None, :], other=0.0)


@triton.jit
def load_columns(pointer, row, stride, d, row_ok, d_ok):
    """[D, R]: the same rows as columns, as keys enter a product."""
    at = pointer + row[None, :] * stride + d[:, None]
    return tl.load(at, mask=row_ok[None, :] & d_ok[:, None], other=0.0)


@triton.jit
def finite(peak):
    """What is subtracted from scores: the peak, or 0 for a row that sees nothing."""
    return tl.where(peak == float("-inf"), 0.0, peak)


@triton.jit
def log_total(peak, total):
    """The base-2 log-sum-exp of a softmax, -inf for a row that sees nothing."""
    return tl.where(total > 0, peak + tl.log2(tl.maximum(total, 1e-30)), float("-inf"))


@triton.jit
def add_keys(s, v, peak, total, sums, scale, PRECISION: tl.constexpr):
    """The softmax of R rows with further keys: scores `s` [R, K], values `v` [K, D].

    The scores are multiplied by `scale`, which is above 0.
    """
    higher = tl.maximum(peak, tl.max(s, 1) * scale)
    base = finite(higher)
    p = tl.exp2(s * scale - base[:, None])
    old = tl.exp2(peak - base)
    total = total * old + tl.sum(p, 1)
    sums = tl.dot(p.to(v.dtype), v, sums * old[:, None], input_precision=PRECISION)
    return higher, total, sums


@triton.jit
def add_keys_to_row(s, v, peak, total, sums):
    """The softmax of one row with further keys: scores `s` [K], values `v` [K, D]."""
    higher = tl.maximum(peak, tl.max(s, 0))
    base = finite(higher)
    p = tl.exp2(s - base)
    old = tl.exp2(peak - base)
    return higher, total * old + tl.sum(p, 0), sums * old + tl.sum(p[:, None] * v, 0)
