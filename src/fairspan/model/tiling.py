"""`Tiling`: what must be known about a model before it can read in tiles, and passes in tiles."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor

from fairspan.attention.baskets import is_exporting
from fairspan.attention.layers import unsupported
from fairspan.attention.plan import PLAN_ARGUMENT, Plan
from fairspan.attention.positions import Positions
from fairspan.attention.tiles import Tiles, lay_tiles, reading
from fairspan.calibration.calibration import WIDEST_WINDOW, WINDOW, Calibration
from fairspan.errors import DesignError
from fairspan.model.pooling import PROMPT, PoolingSite


@dataclass(frozen=True, slots=True)
class Tiling:
    """What tiles need to know about a model.

    Special tokens and the prompt are global: every tile is read behind them, as if it were the
    whole text. The token that a model pools is global, whatever it is.

    Attributes:
        before, after: how many special tokens the tokenizer puts around a text.
        window: how many tokens a text has at most that fits: what the model reads without tiles,
            but at most `WIDEST_WINDOW`.
    """

    positions: Positions
    before: int
    after: int
    window: int

    def lay(
        self,
        calibration: Calibration,
        site: PoolingSite,
        valid: Tensor,
        prompt: int | None,
        segment: Tensor | None,
    ) -> Tiles | None:
        """The tiles of a batch, given [N, L] bool; None if every text is one tile.

        `segment` is [N, L], the segment of each token; None for texts without segments.
        """
        lead, trail = self.lead_and_trail(site, prompt)
        size = self.size(calibration, lead + trail)
        whole = self.whole(calibration, site, prompt)
        if segment is None and not is_exporting() and valid.shape[1] <= whole:
            return None
        if segment is None:
            return lay_tiles(valid, size, lead=lead, trail=trail, whole=whole - lead - trail)
        limit = self.positions.limit
        room = valid.shape[1] - lead - trail
        longest = max(1, room if limit is None else limit - lead - trail)
        return lay_tiles(valid, size, lead=lead, trail=trail, segment=segment, longest=longest)

    def whole(self, calibration: Calibration, site: PoolingSite, prompt: int | None) -> int:
        """The most tokens, global ones included, of a text that is one tile."""
        global_tokens = sum(self.lead_and_trail(site, prompt))
        whole = self.size(calibration, global_tokens) + global_tokens
        return max(whole, self.window) if calibration.short_texts == "leave" else whole

    def size(self, calibration: Calibration, global_tokens: int) -> int:
        """The most tokens of a tile, global ones aside."""
        limit = self.positions.limit
        size = calibration.tile_size
        if size == WINDOW:
            limit = self.window
            size = max(1, limit - global_tokens)
        elif calibration.short_texts == "leave" and int(size or 0) <= WIDEST_WINDOW:
            # The size of a preset, in a model with a small window.
            size = min(int(size or 0), max(1, self.window - global_tokens))
        if limit is not None and int(size or 0) + global_tokens > limit:
            raise DesignError(
                f"tile_size={calibration.tile_size} and {global_tokens} special and prompt tokens "
                f"need more than the model's {limit} positions: use tiles of at most "
                f"{max(limit - global_tokens, 0)} tokens."
            )
        return int(size or 0)

    def position_ids(self, tiles: Tiles) -> dict[str, Tensor]:
        """The model's `position_ids`; nothing if it takes no such argument."""
        base = self.positions.base
        return {} if base is None else {"position_ids": tiles.position + base}

    def lead_and_trail(self, site: PoolingSite, prompt_length: int | None) -> tuple[int, int]:
        """How many tokens are global in front of a text and at its end."""
        # The length of a prompt includes the special tokens in front of it.
        lead = max(self.before, prompt_length or 0)
        if site.pooling == "cls":
            lead = max(lead, (prompt_length or 0) + 1 if site.skips_prompt else 1)
        return lead, max(self.after, int(site.pooling == "lasttoken"))


def count_prompt(features: dict[str, Any], site: PoolingSite, tokenizer: Any, prompt: str) -> None:
    """Count the tokens of a prompt again, without what a text may join.

    Byte-level tokenizers make one token of the last space of a prompt and the word after it, which
    tiles must not share. A pooling that skips the prompt skips the tokens that it has alone.
    """
    if PROMPT in features and not site.skips_prompt and tokenizer.is_fast:
        end = len(prompt.rstrip(" "))
        offsets = tokenizer(prompt + "a", return_offsets_mapping=True)["offset_mapping"]
        features[PROMPT] = len(list(takewhile(lambda span: span[1] <= end, offsets)))


def forward_under(
    plan: Plan, module: Transformer, inputs: dict[str, Any], **kwargs: Any
) -> dict[str, Any]:
    """The features after one pass under a plan; raise if a layer was not calibrated as planned."""
    kwargs[PLAN_ARGUMENT] = plan
    with nullcontext() if plan.tiles is None else reading(plan.tiles):
        if plan.tiles is not None:
            kwargs |= module.tiling.position_ids(plan.tiles)
        output: dict[str, Any] = Transformer.forward(module, dict(inputs), **kwargs)
    promised = sorted(plan.layers)
    plan.ended = True
    if (len(plan.asked), plan.calibrated) != (module.depth, promised):
        raise unsupported(
            module.model,
            f"should have calibrated layers {promised} of {module.depth}, but ran "
            f"{len(plan.asked)} layers and calibrated {plan.calibrated}",
        )
    return output


def special_tokens_around(tokenizer: Any) -> tuple[int, int]:
    """How many special tokens a tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    for before in range(len(whole) - len(bare) + 1):
        if whole[before : before + len(bare)] == bare:
            return before, len(whole) - len(bare) - before
    raise DesignError(
        f"{type(tokenizer).__name__} changes a text's tokens when it adds special ones, so tiles "
        "cannot tell them from the text."
    )
