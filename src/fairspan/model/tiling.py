"""`Tiling`: what must be known about a model before it can read in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from fairspan.attention.baskets import is_exporting
from fairspan.attention.positions import Positions
from fairspan.attention.tiles import Tiles, lay_tiles
from fairspan.calibration.calibration import WIDEST_WINDOW, WINDOW, Calibration
from fairspan.errors import DesignError
from fairspan.model.pooling import PoolingSite


@dataclass(frozen=True, slots=True)
class Tiling:
    """What tiles need to know about a model.

    Special tokens and the prompt are global: every tile is read with them, as if it were the whole
    text. The pooled token is always global.

    Attributes:
        before, after: how many special tokens the tokenizer puts around a text.
        at_once: the most tokens of a text that the model reads without tiles, but at most
            `WIDEST_WINDOW`.
    """

    positions: Positions
    before: int
    after: int
    at_once: int

    def lay(
        self,
        calibration: Calibration,
        site: PoolingSite,
        valid: Tensor,
        prompt: int | None,
        segment: Tensor | None,
        spans: Tensor | None = None,
    ) -> Tiles | None:
        """The tiles of a batch, given [N, L] bool; None if every text is one tile.

        `segment` is [N, L], the segment of each token; None for texts without segments.
        """
        lead, trail = self.lead_and_trail(site, prompt)
        size = self.size(calibration, lead + trail)
        whole = self.whole(calibration, site, prompt)
        if segment is None and not is_exporting() and valid.shape[1] <= whole:
            return None
        lay = partial(lay_tiles, valid, size, lead=lead, trail=trail, spans=spans)
        if segment is None:
            return lay(whole=whole - lead - trail)
        limit = self.positions.limit
        room = valid.shape[1] - lead - trail
        longest = max(1, room if limit is None else limit - lead - trail)
        return lay(segment=segment, longest=longest)

    def whole(self, calibration: Calibration, site: PoolingSite, prompt: int | None) -> int:
        """The most tokens, global ones included, of a text that is one tile."""
        global_tokens = sum(self.lead_and_trail(site, prompt))
        whole = self.size(calibration, global_tokens) + global_tokens
        return max(whole, self.at_once) if calibration.short_texts == "leave" else whole

    def size(self, calibration: Calibration, global_tokens: int) -> int:
        """The most tokens of a tile, global ones aside."""
        room = max(1, self.at_once - global_tokens)
        if calibration.tile_size == WINDOW:
            size = room
            limit: int | None = self.at_once
        else:
            size = int(calibration.tile_size or 0)
            limit = self.positions.limit
            if calibration.short_texts == "leave" and size <= WIDEST_WINDOW:
                # The size of a preset, in a model with a small window.
                size = min(size, room)
        if limit is not None and size + global_tokens > limit:
            raise DesignError(
                f"tile_size={calibration.tile_size} and {global_tokens} special and prompt tokens "
                f"need more than the model's {limit} positions: use tiles of at most "
                f"{max(limit - global_tokens, 0)} tokens."
            )
        return size

    def position_ids(self, tiles: Tiles) -> dict[str, Tensor]:
        """The `position_ids` argument of a pass; empty if the model takes none."""
        base = self.positions.base
        return {} if base is None else {"position_ids": tiles.position + base}

    def lead_and_trail(self, site: PoolingSite, prompt_length: int | None) -> tuple[int, int]:
        """How many tokens are global in front of a text and at its end."""
        # The length of a prompt includes the special tokens in front of it.
        lead = max(self.before, prompt_length or 0)
        if site.pooling == "cls":
            lead = max(lead, (prompt_length or 0) + 1 if site.skips_prompt else 1)
        return lead, max(self.after, int(site.pooling == "lasttoken"))


def special_tokens_around(tokenizer: Any) -> tuple[int, int]:
    """How many special tokens a tokenizer puts before and after a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    complete = tokenizer("a")["input_ids"]
    added = len(complete) - len(bare)
    for before in range(added + 1):
        if complete[before : before + len(bare)] == bare:
            return before, added - before
    raise DesignError(
        f"{type(tokenizer).__name__} changes a text's tokens when it adds special ones, so tiles "
        "cannot tell them from the text."
    )
