"""The two fast paths on random tensors, against the readable reference in float64."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from fairspan.attention import interface, rows
from fairspan.attention.baskets import Baskets, fixed_baskets
from fairspan.attention.interface import attention
from fairspan.attention.plan import BasketRule, LayerInputs, Plan
from fairspan.attention.rows import all_rows, pooled_row
from fairspan.attention.shares import SpecialShares
from fairspan.attention.tiles import lay_tiles
from tests.attention.reference import attention_weights, calibrate_weights
from tests.attention.test_architectures import error

Inputs = tuple[Tensor, Tensor, Tensor]
N, H, K, L, D = 4, 4, 2, 37, 8
LENGTHS = [37, 20, 2, 1]
SHARES = [None, "equal", "original"]
SCALE = D**-0.5
FIRST = torch.zeros(N, dtype=torch.long)


def tensors(dtype: torch.dtype = torch.float32, seed: int = 0) -> Inputs:
    generator = torch.Generator().manual_seed(seed)
    # Sharp enough for masses to differ by orders of magnitude.
    q = torch.randn(N, H, L, D, generator=generator) * 3
    k = torch.randn(N, K, L, D, generator=generator)
    v = torch.randn(N, K, L, D, generator=generator)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def padding(side: str) -> Tensor:
    position = torch.arange(L)
    lengths = torch.tensor(LENGTHS)[:, None]
    return position < lengths if side == "right" else position >= L - lengths


def exact(
    qkv: Inputs, bias: Tensor, baskets: Baskets, special: SpecialShares, strength: Tensor | None
) -> Tensor:
    """[N, H, L, D] of the reference in float64."""
    q, k, v = (x.repeat_interleave(H // x.shape[1], dim=1).double() for x in qkv)
    p = attention_weights(q, k, bias.double(), SCALE, torch.ones(N, dtype=torch.float64))
    return calibrate_weights(p.nan_to_num(), baskets, special, strength) @ v


def every_row(
    qkv: Inputs,
    baskets: Baskets,
    strength: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    scale: float = SCALE,
) -> Tensor:
    """[N, H, L, D] of the fast path for all rows."""
    rule = BasketRule(baskets, SpecialShares(), strength, None)
    return all_rows(LayerInputs(0, *qkv, scale, mask, bias, causal, rule)).transpose(1, 2)


def one_row(
    qkv: Inputs,
    mask: Tensor | None,
    pooled: Tensor,
    baskets: Baskets,
    special: SpecialShares,
    strength: Tensor | None = None,
    *,
    scale: float = SCALE,
) -> Tensor:
    rule = BasketRule(baskets, special, strength, pooled)
    return pooled_row(LayerInputs(0, *qkv, scale, mask, None, False, rule), pooled)


def closeness(fast: Tensor, reference: Tensor, rows: Tensor) -> float:
    """The error over the rows of real tokens."""
    return error(fast.transpose(1, 2)[rows], reference.transpose(1, 2)[rows])


@pytest.mark.parametrize(
    ("visibility", "side", "size"),
    [
        *(("all", "left", 1), ("all", "right", 7), ("all", "right", 128)),
        *(("causal", "left", 7), ("window", "right", 7), ("window", "left", 1)),
    ],
)
def test_every_choice_of_special_baskets_and_strength(
    visibility: str, side: str, size: int
) -> None:
    """Float32 sums of at most 37 products: 1e-5 relative is ten times what was seen."""
    qkv = tensors()
    valid = padding(side)
    behind = torch.arange(L)[:, None] - torch.arange(L)
    seen = {"all": behind > -L, "causal": behind >= 0, "window": behind.abs() <= 5}[visibility]
    mask = valid[:, None, None, :] & seen
    bias = torch.zeros(N, 1, L, L).masked_fill(~mask, -torch.inf)
    text = torch.arange(N)
    pooled = valid.int().argmax(dim=1) if side == "right" else torch.full((N,), L - 1)
    for bos, eos in itertools.product(SHARES, SHARES):
        special = SpecialShares(bos, eos)  # type: ignore[arg-type]
        baskets = fixed_baskets(valid, size, own_bos=bos is not None, own_eos=eos is not None)
        for strength in (None, torch.tensor([1.0, 0.5, 0.25, 0.0])):
            reference = exact(qkv, bias, baskets, special, strength)
            if (bos, eos) == (None, None):
                fast = every_row(qkv, baskets, strength, mask=mask)
                assert closeness(fast, reference, valid) <= 1e-5, strength
            row = one_row(qkv, mask, pooled, baskets, special, strength)
            assert error(row, reference[text, :, pooled]) <= 1e-5, (bos, eos, strength)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 1e-2), (torch.float16, 2e-3)]
)
def test_dtypes(dtype: torch.dtype, tolerance: float) -> None:
    """The reference reads the same rounded inputs; what is left is rounding in between."""
    qkv = tensors(dtype)
    valid = padding("right")
    mask = valid[:, None, None, :].expand(N, 1, L, L)
    bias = torch.zeros(N, 1, L, L).masked_fill(~mask, -torch.inf)
    strength = torch.full((N,), 0.5)
    baskets = fixed_baskets(valid, 7, own_bos=False, own_eos=False)
    fast = every_row(qkv, baskets, strength, mask=mask)
    assert fast.dtype == dtype
    reference = exact(qkv, bias, baskets, SpecialShares(), strength)
    assert closeness(fast, reference, valid) <= tolerance
    special = SpecialShares("original", "equal")
    baskets = fixed_baskets(valid, 7, own_bos=True, own_eos=True)
    reference = exact(qkv, bias, baskets, special, strength)[:, :, 0]
    row = one_row(qkv, mask, FIRST, baskets, special, strength)
    assert row.dtype == dtype
    assert error(row, reference) <= tolerance


def test_position_bias_additive_masks_and_causal_order() -> None:
    """Additive masks, the lowest finite number hiding a key, and `causal` without any mask."""
    qkv = tensors()
    valid = torch.ones(N, L, dtype=torch.bool)
    generator = torch.Generator().manual_seed(1)
    position_bias = torch.randn(1, H, L, L, generator=generator)
    hide = torch.rand(N, 1, L, L, generator=generator) < 0.3
    hide[..., 0] = False  # every row sees at least one key
    numbers = torch.randn(N, 1, L, L, generator=generator).masked_fill(
        hide, torch.finfo(torch.float32).min
    )
    baskets = fixed_baskets(valid, 7, own_bos=False, own_eos=False)
    fast = every_row(qkv, baskets, mask=numbers, bias=position_bias)
    bias = (numbers + position_bias).masked_fill(hide, -torch.inf)
    assert closeness(fast, exact(qkv, bias, baskets, SpecialShares(), None), valid) <= 1e-5

    bias = torch.zeros(1, 1, L, L).masked_fill(torch.ones(L, L).triu(1).bool(), -torch.inf)
    fast = every_row(qkv, baskets, causal=True)
    assert closeness(fast, exact(qkv, bias, baskets, SpecialShares(), None), valid) <= 1e-5


def test_blocks_of_rows_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 rows at a time; a text of 200 tokens takes four blocks. In float64, so that what a kernel
    rounds in other blocks is 1e-16 in each of some hundred sums.
    """
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 200, 8, generator=generator, dtype=torch.float64)
    qkv = (q, k, v)
    valid = torch.ones(2, 200, dtype=torch.bool)
    valid[1, 150:] = False
    baskets = fixed_baskets(valid, 16, own_bos=False, own_eos=False)
    mask = valid[:, None, None, :].expand(2, 1, 200, 200)
    whole = every_row(qkv, baskets, mask=mask)
    monkeypatch.setattr(rows, "_WEIGHTS_AT_A_TIME", 2 * 2 * 200 * 64)
    in_blocks = every_row(qkv, baskets, mask=mask)
    assert torch.allclose(whole, in_blocks, rtol=0, atol=1e-13)


def test_rows_that_miss_a_basket_have_a_gradient() -> None:
    """Rows of a narrow window do not see the first baskets, and 0·∞ would be no number."""
    qkv = tensors()
    seen = (torch.arange(L)[:, None] - torch.arange(L)).abs() <= 5
    baskets = fixed_baskets(torch.ones(N, L, dtype=torch.bool), 7, own_bos=False, own_eos=False)
    query = qkv[0].requires_grad_()
    half = torch.full((N,), 0.5)
    every_row(qkv, baskets, half, mask=seen[None, None]).sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


def test_a_basket_whose_mass_vanishes_keeps_its_proportions() -> None:
    """Scores 200 apart: the second basket's mass is 0 in float32, and still gets its share."""
    q = torch.ones(1, 1, 4, 1)
    k = torch.tensor([100.0, 100.0, -100.0, -101.0]).view(1, 1, 4, 1)
    v = torch.tensor([0.0, 0.0, 1.0, 0.0]).view(1, 1, 4, 1)
    baskets = fixed_baskets(torch.ones(1, 4, dtype=torch.bool), 2, own_bos=False, own_eos=False)
    wanted = 0.5 / (1 + torch.e**-1)
    one = one_row((q, k, v), None, FIRST[:1], baskets, SpecialShares(), scale=1.0)
    many = every_row((q, k, v), baskets, scale=1.0)
    assert float(one) == pytest.approx(wanted, rel=1e-6)
    assert many.flatten().tolist() == pytest.approx([wanted] * 4, rel=1e-6)


@pytest.mark.parametrize("case", ["tiles", "all rows", "half strength", "pooled row"])
def test_dropout_drops_weights_with_and_without_gradients(case: str) -> None:
    """Values are a unit matrix, so that the output is the weights. A loss that computes a batch
    twice, first without gradients, has the same weights twice."""
    valid = torch.ones(N, L, dtype=torch.bool)
    draw = torch.Generator().manual_seed(0)
    query = torch.randn(N, H, L, L, generator=draw) / 3
    key = torch.randn(N, K, L, L, generator=draw) / 3
    value = torch.eye(L).expand(N, K, L, L)
    module = torch.nn.Module()
    module.num_key_value_groups = H // K

    baskets = fixed_baskets(valid, 7, own_bos=False, own_eos=False)
    strength = torch.full((N,), 0.5) if case == "half strength" else None
    pooled = FIRST if case == "pooled row" else None
    rule = BasketRule(baskets, SpecialShares(), strength, pooled)

    def weights(dropout: float, query: Tensor = query) -> Tensor:
        plan = Plan(layers=frozenset({0}), make_rule=lambda: rule)
        if case == "tiles":
            plan = Plan(tiles=lay_tiles(valid, 7, lead=1, trail=1))
        torch.manual_seed(1)
        how = {"is_causal": False, "dropout": dropout, "fairspan_plan": plan}
        return attention(module, query, key, value, None, **how)[0]

    whole = weights(0.0)
    dropped = weights(0.25)
    kept = dropped != 0
    # Float32, in other kernels.
    assert torch.allclose(dropped[kept], whole[kept] / 0.75, rtol=1e-4)
    # Of at least 5,000 weights: four standard deviations are 0.025.
    assert float(kept.sum() / (whole != 0).sum()) == pytest.approx(0.75, abs=0.025)
    assert torch.equal(weights(0.25, query.clone().requires_grad_()), dropped)


class OnGpu(Tensor):
    is_cuda = True


def test_kernels_are_not_used_where_there_are_gradients_or_dropout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An adapter may be on the values alone. The choice as on a GPU, without one."""
    monkeypatch.setattr(interface, "kernels", torch)
    qkv = [x.as_subclass(OnGpu) for x in tensors()]
    how = (SCALE, None, None, False, None, None)
    assert interface._gpu_kernels(LayerInputs(0, *qkv, *how)) is torch
    assert interface._gpu_kernels(LayerInputs(0, *qkv, *how, 0.1)) is None
    for number in range(3):
        trained = [x.clone().requires_grad_(place == number) for place, x in enumerate(qkv)]
        assert interface._gpu_kernels(LayerInputs(0, *trained, *how)) is None
