"""Basket geometry and shares: counted by hand, and by properties on random texts."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairspan.attention.baskets import BOS, CONTENT, EOS, NO_BASKET, fixed_baskets
from fairspan.attention.shares import SpecialShares, target_shares
from tests.attention.reference import calibrate_weights

SHARE = st.sampled_from([None, "equal", "original"])


def test_baskets_of_one_text_by_hand() -> None:
    baskets = fixed_baskets(torch.ones(1, 9, dtype=torch.bool), 3, own_bos=True, own_eos=False)
    assert baskets.slot.tolist() == [[BOS, 2, 2, 2, 3, 3, 3, 4, 4]]
    assert baskets.content.tolist() == [8]
    both = fixed_baskets(torch.ones(1, 9, dtype=torch.bool), 3, own_bos=True, own_eos=True)
    assert both.slot.tolist() == [[BOS, 2, 2, 2, 3, 3, 3, 4, EOS]]
    alone = fixed_baskets(torch.ones(1, 1, dtype=torch.bool), 3, own_bos=True, own_eos=True)
    assert alone.slot.tolist() == [[BOS]]
    neither = fixed_baskets(torch.ones(1, 9, dtype=torch.bool), 3, own_bos=False, own_eos=False)
    assert neither.slot.tolist() == [[2, 2, 2, 3, 3, 3, 4, 4, 4]]


@pytest.mark.parametrize("length", [2, 3, 128, 129, 130, 257, 300])
def test_the_paper_counts_its_baskets_so(length: int) -> None:
    """IRF, footnote 3: ceil((L - 1) / B) + 1 baskets for L tokens."""
    baskets = fixed_baskets(
        torch.ones(1, length, dtype=torch.bool), 128, own_bos=True, own_eos=False
    )
    assert len(set(baskets.slot[0].tolist())) == math.ceil((length - 1) / 128) + 1


@st.composite
def padded_texts(draw: st.DrawFn) -> Tensor:
    """[N, L] of real tokens, padded on one side, every text at least one token long."""
    longest = draw(st.integers(1, 40))
    lengths = torch.tensor(draw(st.lists(st.integers(1, longest), min_size=1, max_size=4)))[:, None]
    position = torch.arange(longest)
    return position < lengths if draw(st.booleans()) else position >= longest - lengths


@settings(deadline=None)
@given(padded_texts(), st.integers(1, 50), st.booleans(), st.booleans())
def test_every_token_is_in_a_slot_and_padding_in_none(
    valid: Tensor, size: int, own_bos: bool, own_eos: bool
) -> None:
    baskets = fixed_baskets(valid, size, own_bos=own_bos, own_eos=own_eos)
    assert ((baskets.slot == NO_BASKET) == ~valid).all()
    assert int(baskets.slot.max()) < baskets.count
    for slots, content in zip(baskets.slot, baskets.content.tolist(), strict=True):
        counts = torch.bincount(slots[slots >= CONTENT] - CONTENT)
        assert int(counts.sum()) == content
        assert (counts[:-1] == size).all()


@st.composite
def attention_rows(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """A random attention matrix [N, 2, 3, L] over the real tokens [N, L] of padded texts."""
    valid = draw(padded_texts())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    scores = (
        torch.randn(valid.shape[0], 2, 3, valid.shape[1], generator=generator, dtype=torch.float64)
        * 4
    )
    return torch.softmax(scores.masked_fill(~valid[:, None, None], -torch.inf), dim=-1), valid


@settings(deadline=None)
@given(attention_rows(), st.integers(1, 50), SHARE, SHARE, st.floats(0, 1))
def test_calibrated_rows_are_attention(
    rows: tuple[Tensor, Tensor], size: int, bos: str | None, eos: str | None, strength: float
) -> None:
    """Rows sum to 1, none is negative, padding has nothing, proportions inside a basket stay."""
    p, valid = rows
    baskets = fixed_baskets(valid, size, own_bos=bos is not None, own_eos=eos is not None)
    special = SpecialShares(bos, eos)  # type: ignore[arg-type]
    strengths = torch.full((valid.shape[0],), strength, dtype=torch.float64)
    calibrated = calibrate_weights(p, baskets, special, strengths)
    assert torch.allclose(calibrated.sum(dim=-1), torch.ones(1, dtype=torch.float64))
    assert (calibrated >= 0).all()
    assert (calibrated.transpose(1, 3)[~valid] == 0).all()
    for text in range(valid.shape[0]):
        for slot in range(baskets.count):
            inside = baskets.slot[text] == slot
            before, after = p[text][..., inside], calibrated[text][..., inside]
            cross = before * after.sum(dim=-1, keepdim=True) - after * before.sum(
                dim=-1, keepdim=True
            )
            assert (cross.abs() < 1e-12).all()


@settings(deadline=None)
@given(attention_rows(), st.integers(1, 50), st.booleans(), st.booleans())
def test_full_strength_gives_every_basket_the_same_mass(
    rows: tuple[Tensor, Tensor], size: int, own_bos: bool, own_eos: bool
) -> None:
    """IRF §5: 1/m for each of the m baskets that are not empty."""
    p, valid = rows
    baskets = fixed_baskets(valid, size, own_bos=own_bos, own_eos=own_eos)
    special = SpecialShares("equal" if own_bos else None, "equal" if own_eos else None)
    calibrated = calibrate_weights(
        p, baskets, special, torch.ones(valid.shape[0], dtype=torch.float64)
    )
    for text in range(valid.shape[0]):
        used = sorted(set(baskets.slot[text][valid[text]].tolist()))
        for slot in used:
            mass = calibrated[text][..., baskets.slot[text] == slot].sum(dim=-1)
            assert torch.allclose(mass, torch.tensor(1 / len(used), dtype=torch.float64))


def test_an_equal_special_basket_holds_one_of_m_beside_another_share() -> None:
    """By hand, on the row 0.3 | 0.1 0.1 | 0.2 0.1 | 0.2 of baskets of two, m = 4: the last token
    holds 1/4, the first one its 0.3, and two content baskets divide 0.45. At strength 0.5 it is the
    mean of both rows."""
    p = torch.tensor([0.3, 0.1, 0.1, 0.2, 0.1, 0.2], dtype=torch.float64).expand(1, 1, 1, 6)
    baskets = fixed_baskets(torch.ones(1, 6, dtype=torch.bool), 2, own_bos=True, own_eos=True)
    full = torch.ones(1, dtype=torch.float64)
    wanted = [0.3, 0.1125, 0.1125, 0.15, 0.075, 0.25]
    found = calibrate_weights(p, baskets, SpecialShares("original", "equal"), full)
    assert found.flatten().tolist() == pytest.approx(wanted, abs=1e-15)
    half = calibrate_weights(p, baskets, SpecialShares("original", "equal"), full / 2)
    mixed = [(new + old) / 2 for new, old in zip(wanted, p.flatten().tolist(), strict=True)]
    assert half.flatten().tolist() == pytest.approx(mixed, abs=1e-15)
    # The other way round, 1/4 + 0.2.
    found = calibrate_weights(p, baskets, SpecialShares("equal", "original"), full)
    assert found.flatten().tolist() == pytest.approx(
        [0.25, 0.1375, 0.1375, 0.55 / 3, 0.275 / 3, 0.2], abs=1e-15
    )


def test_special_tokens_alone_share_everything() -> None:
    """An empty text between <s> and </s>: there is no content to take the rest."""
    mass, present = torch.tensor([0.9, 0.1, 0.0]), torch.tensor([True, True, False])
    assert target_shares(mass, present, SpecialShares("equal", "equal")).tolist() == pytest.approx(
        [0.5, 0.5, 0]
    )
    both = SpecialShares("original", "original")
    assert target_shares(mass, present, both).tolist() == pytest.approx([0.9, 0.1, 0])
    # 0.9 and 1/2, or 0.1 and 1/2, in proportion.
    beside = SpecialShares("original", "equal")
    assert target_shares(mass, present, beside).tolist() == pytest.approx([9 / 14, 5 / 14, 0])
    small = torch.tensor([0.1, 0.9, 0.0])
    assert target_shares(small, present, beside).tolist() == pytest.approx([1 / 6, 5 / 6, 0])


def test_special_shares_of_more_than_one_are_scaled_and_leave_content_nothing() -> None:
    """0.9 that stays and 1/4 of four baskets are 1.15, as in the authors' last-token vectors."""
    mass = torch.tensor([0.9, 0.02, 0.05, 0.03])
    shares = target_shares(
        mass, torch.ones(4, dtype=torch.bool), SpecialShares("original", "equal")
    )
    assert shares.tolist() == pytest.approx([0.9 / 1.15, 0.25 / 1.15, 0, 0])
