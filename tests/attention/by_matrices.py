"""The registered attention function written again over whole matrices in float64, for comparison.

It shares nothing with the fast paths but `tests.attention.reference` and, of the plan,
temperatures and baskets. Of texts in tiles the plan is not asked: which token stands where is found
here, from the tokenizer and the calibration, and positions, masks and position biases follow from
that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any
from unittest.mock import patch

import torch
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from fairspan.attention.interface import NAME, attention, mask
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.calibration.calibration import Calibration, Side
from fairspan.calibration.temperature import temperature_of
from fairspan.model.plans import make_plan
from fairspan.model.pooling import EVENLY
from fairspan.model.probing import SEGMENTS, SIDE
from fairspan.model.transformer import CalibratedTransformer
from tests.attention.reference import (
    Place,
    attention_weights,
    bias_by_position,
    calibrate_weights,
    sees_by_position,
    sees_by_tile,
    tile_places,
)

# The first of a model's `position_ids`, where it is not 0; T5 takes none.
_FIRST_POSITION = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}


@dataclass(frozen=True)
class Layout:
    """The places of the tokens of each text of a batch.

    Attributes:
        valid: [N, L] bool, False for padding.
        places: those of each text's own tokens.
    """

    valid: Tensor
    places: list[list[Place]]

    @property
    def several(self) -> Tensor:
        """[N] bool: the texts of several tiles."""
        return torch.tensor(
            [len({place.tile for place in own} - {None}) > 1 for own in self.places]
        )

    def temperatures(self, temperature: Tensor) -> Tensor:
        """[N]: that of texts of several tiles, 1 of the others."""
        return torch.where(self.several, temperature, 1.0)

    def positions(self) -> Tensor:
        """[N, L], 0 at padding."""
        found = torch.zeros_like(self.valid, dtype=torch.long)
        for row, real, places in zip(found, self.valid, self.places, strict=True):
            row[real] = torch.tensor([place.position for place in places], dtype=torch.long)
        return found

    def mask(self, **given: Any) -> Tensor:
        """[N, 1, L, L] bool: what tokens see by order and window, in the place of transformers' own
        mask.

        Whether there is an order or a window is asked of transformers' mask function, at plain
        positions.
        """
        far, shows = 10_000, given["mask_function"]
        row, zero = torch.tensor(far), torch.tensor(0)
        seen = torch.as_tensor(shows(zero, zero, row, torch.arange(2 * far + 1))).expand(
            2 * far + 1
        )
        causal = not bool(seen[far + 1])
        window = None if bool(seen[0]) else int(seen[:far].sum())
        return self._spread(
            lambda _, places: sees_by_position(places, causal=causal, window=window)[None], False
        )

    def bias(self, full: Tensor) -> Tensor:
        """[N, H, L, L], of a model's bias for all pairs of L tokens, [N or 1, H, L, L]."""
        return self._spread(
            lambda text, places: bias_by_position(full[text % len(full)], places), 0.0
        )

    @cached_property
    def tiled(self) -> Tensor:
        """[N, 1, L, L] bool: which tokens see each other."""
        return self._spread(lambda _, places: sees_by_tile(places)[None], False)

    def _spread(self, of_text: Callable[[int, list[Place]], Tensor], padding: float) -> Tensor:
        """[N, H, L, L] from [H, l, l] of each text without padding."""
        found = []
        for text, (real, places) in enumerate(zip(self.valid, self.places, strict=True)):
            own = of_text(text, places)
            whole = own.new_full((len(own), len(real), len(real)), padding)
            found.append(whole.masked_scatter(real[:, None] & real, own))
        return torch.stack(found)


@dataclass(slots=True, eq=False)
class LaidOut(Plan):
    """A plan without tiles of its own, and the places that they give to the tokens of its batch."""

    layout: Layout | None = None


def layout_of(
    module: CalibratedTransformer, inputs: dict[str, Any], segment: Tensor | None
) -> Layout | None:
    """The tiles of a batch; None where every text is one tile, and read as the plain model reads
    it."""
    calibration, site, config = module.calibration, module.site, module.model.config
    prompt = int(inputs.get("prompt_length") or 0)
    special = module.tokenizer("w1", return_special_tokens_mask=True)["special_tokens_mask"]
    lead, trail = max(special.index(0), prompt), special[::-1].index(0)
    if site.pooling == "cls":
        lead = max(lead, prompt + 1 if site.skips_prompt else 1)
    if site.pooling == "lasttoken":
        trail = max(trail, 1)
    size = calibration.tile_size
    limits = (512, module.untiled_length or 512, module.document_length or 512)
    window = min(limits) - lead - trail
    if size == "window":
        size = window
    whole = size
    if calibration.short_texts == "leave":
        size = min(size, window)
        whole = window
    valid = inputs["attention_mask"].bool()
    if segment is None and valid.shape[1] - lead - trail <= whole:
        return None
    limit = None
    if config.model_type != "t5":
        limit = (
            config.max_position_embeddings
            - _FIRST_POSITION.get(config.model_type, 0)
            - lead
            - trail
        )
    places = []
    for text, tokens in enumerate(valid.sum(dim=1).tolist()):
        own = [-1] if segment is None else segment[text, valid[text]].tolist()
        most = size if tokens - lead - trail > whole else whole
        cut = {"longest": most} if own[:1] == [-1] else {"longest": limit, "segment": own}
        places.append(tile_places(tokens, lead=lead, trail=trail, **cut))
    return Layout(valid, places)


def forward_by_matrices(
    module: CalibratedTransformer, features: dict[str, Any], **kwargs: Any
) -> dict[str, Any]:
    """A calibrated transformer's forward pass, with the tiles of `layout_of`."""
    inputs = {name: value for name, value in features.items() if name not in (SIDE, SEGMENTS)}
    side = "query" if features.get("task") == "query" else features.get(SIDE, "document")
    features[EVENLY] = False
    if not module.calibration.on(side).acts:
        features.update(Transformer.forward(module, inputs, **kwargs))
        return features
    segment, how = features.get(SEGMENTS), (module.calibration, module.site, module.depth)
    plan = make_plan(*how, inputs, side, segment, None)
    given = {one.name: getattr(plan, one.name) for one in fields(Plan)}
    temperature = temperatures_of(module.calibration, side, inputs)
    if isinstance(module.calibration.temperature, tuple):
        given["inverse_temperature"] = 1 / temperature
    layout = None
    if module.calibration.tile_size is not None:
        layout = layout_of(module, inputs, segment)
        given["inverse_temperature"] = 1.0
    if module.calibration.pooling == "even" and module.calibration.short_texts == "calibrate":
        features[EVENLY] = True
    if layout is not None:
        if module.calibration.pooling == "even" and module.calibration.short_texts == "leave":
            features[EVENLY] = torch.where(layout.several, 1.0, torch.inf)
        given["inverse_temperature"] = 1 / layout.temperatures(temperature)
        first = _FIRST_POSITION.get(module.model.config.model_type, 0)
        if module.model.config.model_type != "t5":
            kwargs["position_ids"] = layout.positions() + first
        AttentionMaskInterface.register(NAME, layout.mask)
    try:
        plan = LaidOut(**given, layout=layout)
        features.update(Transformer.forward(module, inputs, **{PLAN_ARGUMENT: plan}, **kwargs))
    finally:
        AttentionMaskInterface.register(NAME, mask)
    assert len(plan.asked) == module.depth
    return features


def temperatures_of(calibration: Calibration, side: Side, inputs: dict[str, Any]) -> Tensor:
    """[N], LC §4.2: that of the first step that the tokens of a text do not exceed."""
    temperature = temperature_of(calibration.temperature, side)
    steps = temperature if isinstance(temperature, tuple) else ((None, temperature),)
    counts = torch.as_tensor(inputs.get("attention_mask", inputs["input_ids"] * 0 + 1)).sum(dim=1)
    found = [
        next(value for end, value in steps if end is None or count <= end)
        for count in counts.tolist()
    ]
    return torch.tensor(found, dtype=torch.float64)


def attention_by_matrices(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    position_bias: Tensor | None = None,
    fairspan_plan: Plan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    groups = query.shape[1] // key.shape[1]
    q, k, v = query.double(), key.double(), value.double()
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    n, _, length, dim = q.shape
    temperature = torch.ones(n, dtype=torch.float64)
    layer, layout = None, None
    if fairspan_plan is not None:
        temperature = temperature / fairspan_plan.inverse_temperature
        layer, layout = fairspan_plan.enter_layer(module), getattr(fairspan_plan, "layout", None)

    bias = torch.zeros(n, 1, length, length, dtype=torch.float64)
    if layout is not None:
        assert attention_mask is not None
        position_bias = None if position_bias is None else layout.bias(position_bias)
        bias = bias.masked_fill(~layout.tiled, -torch.inf)
    if attention_mask is None:
        if kwargs.get("is_causal", getattr(module, "is_causal", False)):
            bias = bias.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
    elif attention_mask.dtype == torch.bool:
        bias = bias.masked_fill(~attention_mask, -torch.inf)
    else:
        bias = bias + attention_mask
    if position_bias is not None:
        divisor = temperature[:, None, None, None] if _divides_bias(fairspan_plan) else 1
        bias = bias + position_bias.double() / divisor

    scale = dim**-0.5 if scaling is None else scaling
    p = attention_weights(q, k, bias, scale, temperature).nan_to_num()
    if fairspan_plan is not None and layer in fairspan_plan.layers:
        rule = fairspan_plan.rule
        fairspan_plan.calibrated.append(layer)
        strength = torch.ones(n) if rule.strength is None else rule.strength
        calibrated = calibrate_weights(p, rule.baskets, rule.special, strength.double())
        if rule.pooled is None:
            p = calibrated
        else:
            p = p.clone()
            text = torch.arange(n)
            p[text, :, rule.pooled] = calibrated[text, :, rule.pooled]
    return (p @ v).transpose(1, 2).contiguous().to(query.dtype), None


@contextmanager
def matrices_instead(function: Callable[..., Any] = attention_by_matrices) -> Iterator[None]:
    """Calibrated models compute by whole matrices inside this block, or by a `function` that looks
    at them."""
    AttentionInterface.register(NAME, function)
    try:
        with patch.object(CalibratedTransformer, "forward", forward_by_matrices):
            yield
    finally:
        AttentionInterface.register(NAME, attention)


def _divides_bias(plan: Plan | None) -> bool:
    return plan is not None and plan.scale_position_bias
