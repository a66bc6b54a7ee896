"""How a model takes its positions, found by sending short texts through it."""

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from fairspan.attention.layers import probe, probe_input
from fairspan.attention.plan import Plan


@dataclass(frozen=True, slots=True)
class Positions:
    """What a pass in tiles needs to know of a model.

    Attributes:
        base: the number of the first position in `position_ids`; None for a model that takes no
            such argument, whose positions are relative.
        limit: how many positions the model was made for; None if nothing says so.
        causal: whether a token sees no token after its own.
    """

    base: int | None
    limit: int | None
    causal: bool


def find_positions(model: PreTrainedModel) -> Positions:
    """The positions of a routed model, by passes that differ in `position_ids` or in one token.

    Whether they can recur at all is shown by a pass in tiles (`recur_in`).
    """
    ids = probe_input(model)
    plain = _states(model, ids)
    place = torch.arange(ids.shape[1], device=ids.device)[None]
    config = model.config.get_text_config()
    padding = getattr(config, "pad_token_id", None)
    table = getattr(config, "max_position_embeddings", None)
    bases = [0]
    # A padding id beyond the table of positions, as GPT-2's, says nothing of where they begin.
    if padding is not None and (table is None or padding + 1 + ids.shape[1] <= table):
        bases.append(padding + 1)
    states = {base: _states(model, ids, position_ids=place + base) for base in bases}
    takes_positions = any(
        not torch.equal(_states(model, ids, position_ids=place.flip(1) + base), states[base])
        for base in bases
    )
    base = min(bases, key=lambda base: float((states[base] - plain).abs().max()))

    other = ids.clone()
    other[0, -1] = ids[0, 0]
    # To the last bit: the last token may change the first one very little.
    causal = torch.equal(_states(model, other)[:, :1], plain[:, :1])
    if not takes_positions:
        return Positions(None, None, causal)
    return Positions(base, position_limit(model), causal)


def position_limit(model: PreTrainedModel) -> int | None:
    """How many positions a model was made for; None if its configuration does not say."""
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(limit, int) or limit <= 0:
        return None
    # RoBERTa's positions begin after its padding index.
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return limit if padding is None else limit - (padding + 1)


def recur_in(states: Tensor, lead: int, width: int) -> bool:
    """Whether positions recur: a text of two equal tiles has the same states [1, L, d] in both."""
    first = states[:, lead : lead + width]
    second = states[:, lead + width : lead + 2 * width]
    # Up to rounding, by medians: a few dimensions may be very large.
    tolerance = torch.finfo(states.dtype).eps ** 0.5 * second.abs().median()
    return bool((first - second).abs().median() <= tolerance)


def _states(model: PreTrainedModel, ids: Tensor, **options: Tensor) -> Tensor:
    states: Tensor = probe(model, Plan(), ids, **options)[0]
    return states
