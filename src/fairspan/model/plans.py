"""From a calibration and a batch to the plan that travels through the attention layers."""

from typing import Any

import torch
from torch import Tensor

from fairspan.attention.baskets import Baskets, fixed_baskets
from fairspan.attention.plan import BasketRule, Plan
from fairspan.attention.shares import SpecialShares
from fairspan.attention.tiles import Tiles
from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.temperature import Steps, temperature_of
from fairspan.model.pooling import PROMPT, PoolingSite
from fairspan.model.tiling import Tiling


def make_plan(
    calibration: Calibration,
    site: PoolingSite,
    depth: int,
    inputs: dict[str, Any],
    side: Side,
    segment: Tensor | None,
    tiling: Tiling | None,
    spans: Tensor | None = None,
) -> Plan:
    """The plan of one batch through `depth` attention layers.

    Args:
        inputs: `input_ids`, and `attention_mask` and `prompt_length` if there are any.
        segment: [N, L], the segment of each token, below 0 in plain texts; None if all texts are
            plain.
        tiling: None for a calibration without tiles.
        spans: what `tiles.spans_of` gives, where it is there already.
    """
    mask = inputs.get("attention_mask")
    valid = (torch.ones_like(inputs["input_ids"]) if mask is None else mask).bool()
    prompt = inputs.get(PROMPT)
    layers = calibration.layer_numbers(depth) if calibration.strength > 0 else frozenset()
    tiles = None
    inverse_temperature = _inverse(temperature_of(calibration.temperature, side), valid)
    if tiling is not None:
        tiles = tiling.lay(calibration, site, valid, prompt, segment, spans)
        inverse_temperature = _where_several(inverse_temperature, tiles)

    def make_rule() -> BasketRule:
        pooled = None if site.pooling == "mean" else site.pooled_rows(valid, prompt)
        special, baskets, strength = _split(calibration, site, valid)
        return BasketRule(baskets, special, strength, pooled)

    return Plan(
        layers=layers,
        make_rule=make_rule,
        inverse_temperature=inverse_temperature,
        scale_position_bias=calibration.scale_position_bias,
        tiles=tiles,
        causal=tiling is not None and tiling.positions.causal,
    )


def _inverse(temperature: float | Steps, valid: Tensor) -> float | Tensor:
    """1/temperature; [N] if it goes by length (LC §4.2), the number of `valid` [N, L] tokens."""
    if not isinstance(temperature, tuple):
        return 1 / temperature
    length = valid.sum(dim=1)
    *steps, (_, last) = temperature
    inverse = torch.full_like(length, 1 / last, dtype=torch.float32)
    for end, value in reversed(steps):
        inverse = torch.where(length <= (end or 0), 1 / value, inverse)
    return inverse


def _where_several(inverse_temperature: float | Tensor, tiles: Tiles | None) -> float | Tensor:
    """The inverse temperature of texts of several tiles, 1 for others; [N] if both may occur."""
    if tiles is None or (isinstance(inverse_temperature, float) and inverse_temperature == 1):
        return 1.0
    if not tiles.padded:
        return inverse_temperature
    return torch.where(_has_several(tiles), inverse_temperature, 1.0)


def pooled_evenly(
    calibration: Calibration, side: Side, tiles: Tiles | None, at_once: int | None
) -> Tensor | bool:
    """The feature `EVENLY` of a batch.

    Where texts of up to `at_once` tokens keep their mean, the ridge of a text that is only a little
    longer is large: its vector stays close to its mean, and comparable with theirs.
    """
    calibration = calibration.on(side)
    if calibration.pooling != "even":
        return False
    if calibration.tile_size is None or calibration.short_texts != "leave":
        return True
    if tiles is None:
        return False
    count = tiles.valid.sum(dim=1).float()
    factor = count / (count - (at_once or 0)).clamp(min=1)
    return torch.where(_has_several(tiles), factor, torch.inf)


def _has_several(tiles: Tiles) -> Tensor:
    """[N] bool: the texts of several tiles."""
    return (tiles.length > 0).sum(dim=1) > 1


def _split(
    calibration: Calibration, site: PoolingSite, valid: Tensor
) -> tuple[SpecialShares, Baskets, Tensor | None]:
    """The shares of special tokens, the baskets, and the strength: [N], or None for 1."""
    shares = calibration.special_baskets(site.pooling)
    bos = None if shares[0] == "basket" else shares[0]
    eos = None if shares[1] == "basket" else shares[1]
    special = SpecialShares(bos, eos)  # type: ignore[arg-type]
    own_baskets = {"own_bos": bos is not None, "own_eos": eos is not None}
    baskets = fixed_baskets(valid, calibration.basket_size, **own_baskets)
    filled = baskets.content / calibration.basket_size
    strength = None if calibration.strength == 1 else torch.full_like(filled, calibration.strength)
    if calibration.short_texts == "leave":
        strength = (filled >= 1) * calibration.strength
    return special, baskets, strength
