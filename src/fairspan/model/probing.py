"""Short passes through a calibrated module that check its calibration before it is used."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import torch
from sentence_transformers.sentence_transformer.modules import Transformer

from fairspan.attention.layers import evaluating, probe, probe_input, unsupported
from fairspan.attention.plan import Plan
from fairspan.attention.positions import find_positions, recur_in
from fairspan.attention.tiles import lay_tiles, reading
from fairspan.calibration.calibration import WIDEST_WINDOW, Side
from fairspan.model.pooling import TOKENS
from fairspan.model.tiling import Tiling, special_tokens_around

# Features that fairspan adds: the side of a batch, and the segment of each token.
SIDE = "fairspan_side"
SEGMENTS = "fairspan_segments"


def side_of(features: Mapping[str, Any]) -> Side:
    """The side of a batch; plain `encode` reads documents."""
    # A Router may keep the task from `preprocess`, but leaves it in the features.
    is_query = "query" in (features.get("task"), features.get(SIDE))
    return "query" if is_query else "document"


def find_tiling(module: Transformer) -> Tiling:
    """What tiles need to know about the model of a calibrated module.

    Raises if it cannot read in tiles: two equal tiles of a text must have equal hidden states.
    """
    model = module.model
    if "message" in module.modality_config or module.tokenizer is None:
        raise unsupported(
            model, "wraps texts in a chat template, whose tokens tiles cannot tell from the text"
        )
    limits = [limit for limit in (module.untiled_length, module.document_length) if limit]
    at_once = min([*limits, WIDEST_WINDOW])
    tiling = Tiling(find_positions(model), *special_tokens_around(module.tokenizer), at_once)
    lead, trail = tiling.lead_and_trail(module.site, None)
    tiling.size(module.calibration, lead + trail)  # raises if there is no room for it
    ids = torch.tensor([[*[2] * lead, 3, 5, 3, 5, *[7] * trail]], device=model.device)
    ids = ids % model.get_input_embeddings().num_embeddings
    tiles = lay_tiles(torch.ones_like(ids, dtype=torch.bool), 2, lead=lead, trail=trail)
    plan = Plan(tiles=tiles, causal=tiling.positions.causal)
    with reading(tiles):
        states = probe(model, plan, ids, **tiling.position_ids(tiles))[0]
    if not recur_in(states, lead, 2):
        raise unsupported(model, "has positions that cannot restart in every tile")
    return tiling


def prove(module: Transformer) -> None:
    """Send short texts through a calibrated module; raise if a layer is not calibrated."""
    texts = [{"input_ids": probe_input(module.model)}]
    if module.tiling is not None:
        lead, trail = module.tiling.lead_and_trail(module.site, None)
        two_tiles = torch.tensor([[0] * (lead + 1) + [1] * (trail + 1)], device=module.model.device)
        texts.append({"input_ids": two_tiles + 2, SEGMENTS: two_tiles})
    for side, text in product(("query", "document"), texts):
        features = {**text, "attention_mask": torch.ones_like(text["input_ids"]), SIDE: side}
        with evaluating(module), torch.inference_mode():
            tokens = module(features)[TOKENS]
        if bool(tokens.isnan().any()):
            raise unsupported(module.model, "turns a short text into NaN once calibrated")
