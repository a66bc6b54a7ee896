"""The Triton kernels against the readable reference in float64, on a GPU or interpreted.

The interpreter has to be chosen before Triton is imported, so without a GPU this file runs itself
in a new process:

    TRITON_INTERPRET=1 python -m pytest tests/attention/test_kernels.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from fairspan.attention.baskets import Baskets, fixed_baskets, segment_baskets
from fairspan.attention.plan import BasketRule, LayerInputs
from fairspan.attention.reference import (
    attention_weights,
    bias_by_position,
    calibrate_weights,
    sees_by_position,
    sees_by_tile,
    tile_places,
)
from fairspan.attention.shares import SpecialShares
from fairspan.attention.tiles import FAR, TileView, lay_tiles
from fairspan.model.even import even_vector
from tests.model.test_even import difference, tokens_of

pytest.importorskip("triton", reason="needs Triton")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RUNS_HERE = torch.cuda.is_available() or INTERPRETED
SHARES: list[Any] = [None, "equal", "original"]
kernel_test = pytest.mark.skipif(not RUNS_HERE, reason="needs a GPU or TRITON_INTERPRET=1")


@pytest.mark.skipif(RUNS_HERE, reason="the kernels run in this process")
@pytest.mark.slow
def test_kernels_pass_in_the_interpreter() -> None:
    """Every test below, in a process in which Triton interprets its kernels on the CPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def error(fast: Tensor, exact: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((fast.double() - exact).abs().max() / exact.abs().max())


class Case:
    """Random tensors for one batch of texts of unequal lengths."""

    def __init__(
        self, lengths: list[int], heads: int, kv_heads: int, dim: int, seed: int, dtype: torch.dtype
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        n, self.length = len(lengths), max(lengths)
        self.n, self.heads, self.dim, self.groups = n, heads, dim, heads // kv_heads

        def draw(count: int, spread: float) -> Tensor:
            # The layout models have: [N, L, H, D] in memory, seen as [N, H, L, D].
            x = torch.randn(n, self.length, count, dim, generator=generator) * spread
            return x.to(DEVICE, dtype).transpose(1, 2)

        self.q, self.k, self.v = draw(heads, 2.0), draw(kv_heads, 1.0), draw(kv_heads, 1.0)
        self.valid = torch.arange(self.length) < torch.tensor(lengths)[:, None]
        self.valid = self.valid.to(DEVICE)
        self.strength = torch.linspace(1, 0, n).to(DEVICE)

    def inputs(
        self, mask: Tensor | None = None, causal: bool = False, rule: BasketRule | None = None
    ) -> LayerInputs:
        return LayerInputs(0, self.q, self.k, self.v, self.dim**-0.5, mask, None, causal, rule)

    def exact(
        self, mask: Tensor, baskets: Baskets, special: SpecialShares, strength: Tensor | None
    ) -> Tensor:
        k, v = (x.repeat_interleave(self.groups, dim=1).double() for x in (self.k, self.v))
        bias = torch.zeros(self.n, 1, self.length, self.length, dtype=torch.float64, device=DEVICE)
        bias = bias.masked_fill(~mask, -torch.inf)
        ones = torch.ones(self.n, dtype=torch.float64, device=DEVICE)
        p = attention_weights(self.q.double(), k, bias, self.dim**-0.5, ones).nan_to_num()
        return calibrate_weights(p, baskets, special, strength) @ v

    def check(
        self,
        baskets: Baskets,
        special: SpecialShares,
        strength: Tensor | None,
        tolerance: float,
        mask: Tensor | None = None,
        causal: bool = False,
    ) -> None:
        from fairspan.attention.kernels import all_rows_kernel, pooled_row_kernel

        pooled = self.valid.sum(dim=1) - 1
        rule = BasketRule(baskets, special, strength, pooled)
        inputs = self.inputs(mask, causal, rule)
        seen = self.valid[:, None, None, :] if mask is None else mask
        if causal:
            seen = seen & torch.ones(self.length, self.length, device=DEVICE).tril().bool()
        exact = self.exact(seen, baskets, special, strength).transpose(1, 2)
        if special == SpecialShares():
            out = all_rows_kernel(inputs, rule)
            assert error(out[self.valid], exact[self.valid]) <= tolerance
        text = torch.arange(self.n, device=DEVICE)
        rows = torch.full_like(self.q.transpose(1, 2).contiguous(), torch.nan)
        pooled_row_kernel(rows, inputs, rule)
        wanted = exact[text, pooled]
        assert error(rows[text, pooled], wanted) <= tolerance
        assert int(rows.isnan().sum()) == rows.numel() - wanted.numel()  # nothing else was written


@kernel_test
@pytest.mark.parametrize("bos", SHARES)
@pytest.mark.parametrize("eos", SHARES)
@pytest.mark.parametrize("size", [5, 16])
def test_special_baskets_and_strengths(bos: Any, eos: Any, size: int) -> None:
    """Odd lengths, down to one token. Float32 with float32 products: 1e-5.

    The interpreter takes one strength in turn, so that each pair of shares meets both.
    """
    case = Case([37, 18, 2, 1], heads=2, kv_heads=1, dim=16, seed=size, dtype=torch.float32)
    baskets = fixed_baskets(case.valid, size, own_bos=bos is not None, own_eos=eos is not None)
    turn = (SHARES.index(bos) + SHARES.index(eos) + size) % 2
    strengths = [None, case.strength]
    for strength in strengths[turn : turn + 1] if INTERPRETED else strengths:
        case.check(baskets, SpecialShares(bos, eos), strength, 1e-5)


@kernel_test
@pytest.mark.parametrize("visibility", ["window", "causal"])
@pytest.mark.parametrize("strength", [False, True])
def test_rows_that_see_part_of_the_text(visibility: str, strength: bool) -> None:
    case = Case([37, 20], heads=2, kv_heads=2, dim=16, seed=1, dtype=torch.float32)
    row, column = torch.arange(37, device=DEVICE)[:, None], torch.arange(37, device=DEVICE)
    mask = None
    if visibility == "window":
        mask = case.valid[:, None, None, :] & ((row - column).abs() <= 6)
    for special in (SpecialShares(), SpecialShares("equal", "original")):
        own = special.bos is not None
        baskets = fixed_baskets(case.valid, 7, own_bos=own, own_eos=own)
        amount = case.strength if strength else None
        case.check(baskets, special, amount, 1e-5, mask, causal=visibility == "causal")


@kernel_test
def test_segments_and_head_sizes_that_are_no_power_of_two() -> None:
    for dim in (24, 64):
        case = Case([50, 31, 12], heads=2, kv_heads=1, dim=dim, seed=dim, dtype=torch.float32)
        borders = torch.tensor([[3, 20, 21], [9, 10, 30], [40, 41, 42]])
        segment = torch.stack([torch.bucketize(torch.arange(50), b) for b in borders]).to(DEVICE)
        for special in (SpecialShares(), SpecialShares("equal", None)):
            baskets = segment_baskets(
                case.valid, segment, own_bos=special.bos is not None, own_eos=False
            )
            case.check(baskets, special, case.strength, 1e-5)


@kernel_test
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 1e-2), (torch.float16, 2e-3)])
def test_half_precision(dtype: torch.dtype, tolerance: float) -> None:
    if INTERPRETED and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter does not multiply bfloat16 correctly")
    case = Case([70, 33], heads=2, kv_heads=1, dim=32, seed=3, dtype=dtype)
    for size in (16, 200):
        baskets = fixed_baskets(case.valid, size, own_bos=False, own_eos=False)
        case.check(baskets, SpecialShares(), case.strength, tolerance)


@kernel_test
@pytest.mark.skipif(INTERPRETED, reason="too large for the interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [64, 128, 300, 1000])
@pytest.mark.parametrize("dim", [32, 64, 128])
def test_sizes_of_real_models(dim: int, size: int, dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    case = Case([1300, 777, 129], heads=4, kv_heads=2, dim=dim, seed=size, dtype=dtype)
    for bos, eos in ((None, None), ("equal", None), ("original", "equal")):
        special = SpecialShares(bos, eos)  # type: ignore[arg-type]
        baskets = fixed_baskets(case.valid, size, own_bos=bos is not None, own_eos=eos is not None)
        for strength in (None, case.strength):
            case.check(baskets, special, strength, tolerance)


@kernel_test
@pytest.mark.parametrize("visibility", ["all", "window", "causal", "bias"])
@pytest.mark.parametrize(
    ("size", "lead", "trail"), [(7, 1, 1), (16, 1, 0), (40, 0, 1), (96, 3, 2), (7, 0, 0)]
)
def test_tiles(visibility: str, size: int, lead: int, trail: int) -> None:
    lengths = [min(100, 5 * size + 3), min(47, 3 * size), 9, 2]
    dim = 24 if size < 96 else 32
    check_tiles(Case(lengths, 2, 1, dim, size, torch.float32), visibility, size, lead, trail, 1e-5)


@kernel_test
@pytest.mark.skipif(INTERPRETED, reason="too large for the interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [32, 64, 96, 128, 700])
def test_tiles_of_real_models(size: int, dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    case = Case([1300, 777, 129], heads=4, kv_heads=2, dim=64, seed=size, dtype=dtype)
    for visibility in ("all", "window", "causal", "bias"):
        check_tiles(case, visibility, size, 1, 1, tolerance)
    check_tiles(case, "all", size, 20, 1, tolerance)


def check_tiles(
    case: Case, visibility: str, size: int, lead: int, trail: int, tolerance: float
) -> None:
    from fairspan.attention.kernels import tile_rows_kernel

    tiles = lay_tiles(case.valid, size, lead=lead, trail=trail)
    window, causal = 5 if visibility == "window" else None, visibility == "causal"
    behind = torch.arange(1 - tiles.positions, tiles.positions, device=DEVICE)
    mask = {"window": behind.abs() <= 5, "causal": behind >= 0}.get(visibility)
    bias = None
    if visibility == "bias":
        shape = (1, case.heads, tiles.positions, tiles.positions)
        bias = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(case.q)
    band = {"window": (-5, 5), "causal": (0, FAR)}.get(visibility)
    view = TileView(tiles, mask, bias, causal, band)
    out = tile_rows_kernel(case.inputs(), view)
    if band is not None:
        by_table = tile_rows_kernel(case.inputs(), TileView(tiles, mask, bias, causal))
        assert error(by_table, out.double()) <= tolerance
    shared = tile_rows_kernel(case.inputs(), view, only_shared=True)
    assert int(out[~case.valid].count_nonzero()) == 0
    for text, tokens in enumerate(case.valid.sum(dim=1).tolist()):
        places = tile_places(tokens, size, lead=lead, trail=trail)
        seen = sees_by_tile(places) & sees_by_position(places, causal=causal, window=window)
        added = torch.zeros(1, tokens, tokens)
        if bias is not None:
            added = bias_by_position(bias[0].cpu().double(), places)
        added = added.masked_fill(~seen, -torch.inf).double().to(DEVICE)
        q = case.q[text, :, :tokens].double()
        k, v = (
            x[text, :, :tokens].double().repeat_interleave(case.groups, dim=0)
            for x in (case.k, case.v)
        )
        exact = ((q @ k.transpose(1, 2) * case.dim**-0.5 + added).softmax(-1) @ v).transpose(0, 1)
        assert error(out[text, :tokens], exact) <= tolerance
        rows = [row for row, place in enumerate(places) if place.tile is None]
        assert torch.equal(shared[text, rows], out[text, rows])


@kernel_test
@pytest.mark.parametrize(
    ("width", "ridge", "side", "dtype", "mask_dtype"),
    [
        (32, 1.0, "left", torch.float16, torch.bool),
        (48, 0.02, "right", torch.float32, torch.long),
        (384, 0.2, "left", torch.bfloat16, torch.int),
        (384, 0.2, "right", torch.float32, torch.long),
    ],
)
def test_even_vectors(
    width: int, ridge: float, side: str, dtype: torch.dtype, mask_dtype: torch.dtype
) -> None:
    """Texts of a view of other strides, with NaN where nothing is to be read, and one of none."""
    lengths = [513, 40, 2, 1, 0] if INTERPRETED else [3000, 513, 40, 2, 1, 0]
    batch = torch.full((len(lengths), max(lengths) + 3, width), torch.nan, dtype=dtype)[:, 3:]
    mask = torch.zeros(batch.shape[:2], dtype=mask_dtype)
    factor = torch.linspace(1, 3, len(lengths))
    factor[1] = torch.inf
    texts = [tokens_of(count, width, seed=count).to(dtype) for count in lengths]
    for row, tokens in enumerate(texts):
        start = batch.shape[1] - len(tokens) if side == "left" else 0
        batch[row, start : start + len(tokens)] = tokens
        mask[row, start : start + len(tokens)] = 1
    moved = batch.transpose(0, 1).contiguous().to(DEVICE).transpose(0, 1)
    vectors = even_vectors(moved, mask.to(DEVICE), ridge, factor.to(DEVICE))
    for row, tokens in enumerate(texts[:-1]):
        if row != 1:
            exact = even_vector(tokens, ridge * float(factor[row]))
            assert difference(vectors[row], exact) <= 1e-6
            assert float(vectors[row].norm()) == pytest.approx(width**0.5, rel=1e-5)
    assert vectors[1].tolist() == [1.0] * width
    assert int(vectors[-1].count_nonzero()) == 0


def even_vectors(tokens: Tensor, mask: Tensor, ridge: float, factor: Tensor | None) -> Tensor:
    """What the kernel makes of means whose numbers are all 1."""
    from fairspan.attention.kernels import even_vectors_kernel

    mean = torch.ones(tokens.shape[0], tokens.shape[2], device=DEVICE)
    even_vectors_kernel(mean, tokens, mask, ridge, factor, tokens.shape[2], 1e-6)
    return mean.cpu()


@kernel_test
def test_kernels_run_on_the_device_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU is enough to see which device they ask for."""
    from fairspan.attention.kernels import all_rows, pooled_row, tile_rows
    from fairspan.attention.kernels import even_vectors as even_kernel

    asked = []

    @contextmanager
    def device_of(tensor: Tensor) -> Iterator[None]:
        asked.append(tuple(tensor.shape))
        yield

    for module in (all_rows, even_kernel, pooled_row, tile_rows):
        monkeypatch.setattr(module, "device_of", device_of)
    case = Case([20], heads=2, kv_heads=2, dim=16, seed=0, dtype=torch.float32)
    baskets = fixed_baskets(case.valid, 8, own_bos=False, own_eos=False)
    case.check(baskets, SpecialShares(), None, 1e-5)
    view = TileView(lay_tiles(case.valid, 8, lead=1, trail=1), None, None, False)
    tile_rows.tile_rows_kernel(case.inputs(), view)
    even_vectors(case.q[0], case.valid[:, :20].expand(2, -1), 0.2, None)
    assert asked == [(1, 2, 20, 16)] * 3 + [(2, 20, 16)]


@pytest.mark.skipif(DEVICE == "cpu", reason="programs that wait for each other need a GPU")
@pytest.mark.parametrize(("texts", "count"), [(1, 20_000), (1, 512), (64, 700), (300, 100)])
def test_programs_that_share_a_text(texts: int, count: int) -> None:
    """Many programs for one text, two, or one; the same vectors every time."""
    tokens = tokens_of(texts * count, 384).view(texts, count, 384)
    ones = torch.ones(texts, count, device=DEVICE)
    arguments = (tokens.to(DEVICE), ones, 0.2, None)
    vectors = even_vectors(*arguments)
    for text in (0, texts - 1):
        assert difference(vectors[text], even_vector(tokens[text], 0.2)) <= 1e-6
    for _ in range(50):
        assert torch.equal(even_vectors(*arguments), vectors)


@kernel_test
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_even_vectors_of_tokens_that_are_not_finite() -> None:
    """Nor are they, but those of other texts are."""
    tokens = tokens_of(40)[None].repeat(3, 1, 1).to(DEVICE)
    tokens[0, 7, 3] = torch.nan
    tokens[1, 7, 3] = torch.inf
    ones = torch.ones(3, 40, device=DEVICE)
    vectors = even_vectors(tokens, ones, 0.2, None)
    assert vectors.isfinite().all(dim=1).tolist() == [False, False, True]
