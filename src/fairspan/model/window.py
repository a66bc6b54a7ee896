"""How many tokens of a text a model reads.

The rule of windows, which `set_window` follows: the plain model reads the requested
`max_seq_length`, or else its own, but at most its positions. Tiles read the requested length, or
else any length. A module that reads in tiles, or that a study may read in tiles, stores the first
as `untiled_length` and the second as `max_seq_length`. Others have no `untiled_length`.

The rule of limits. sentence_transformers cuts a text, prompt and special tokens included, at the
first of these that is set:

1. `max_length` of the call, in `processing_kwargs` or from a trainer;
2. `query_length` or `document_length` of the module, for texts encoded as one of the two;
3. `max_seq_length` of the module.

In tiles, `document_length` limits the window of the tiles, and no longer cuts documents. On a side
without tiles a text is also cut at `untiled_length`, unless the limits above cut it earlier, or
queries are expanded to a fixed width.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router, Transformer
from tokenizers import Tokenizer
from torch import nn

from fairspan.attention.positions import position_limit
from fairspan.calibration.calibration import Calibration, Side
from fairspan.errors import DesignError, require_whole
from fairspan.model.probing import find_tiling

ANY_LENGTH = 10**9
"""Stands for no limit; tokenizers without a limit report larger numbers."""


@dataclass(frozen=True, slots=True)
class Window:
    """How far a module reads, in tokens, prompt and special tokens included.

    Attributes:
        plain: how many tokens the plain model reads at once; None if unknown.
        reads: how many tokens of a text are read at most; None for any length.
    """

    plain: int | None
    reads: int | None

    @classmethod
    def of(cls, module: Transformer, *, tiled: bool) -> Window:
        """The window of a module that reads in tiles or not."""
        untiled = getattr(module, "untiled_length", None)
        limit = module.max_seq_length
        if tiled and (untiled is not None or getattr(module, "tiling", None) is not None):
            return cls(untiled, _smallest([limit]))
        plain = _smallest([untiled, limit, position_limit(module.model)])
        return cls(plain, None if tiled else plain)


def set_window(
    module: Transformer, asked: int | Window | None = None, *, tiled: bool | None = None
) -> None:
    """Set how far a module reads, by the rule above.

    Args:
        asked: the longest text to read, in place of the model's own limit, or a whole window; None
            to keep the module's own.
        tiled: whether texts are read in tiles, now or under a later calibration; None for what the
            module's calibration says.
    """
    if tiled is None:
        calibration = getattr(module, "calibration", None)
        tiled = calibration is not None and calibration.tile_size is not None
    if asked is None:
        window = Window.of(module, tiled=tiled)
    elif isinstance(asked, Window):
        window = asked
    else:
        require_whole("max_seq_length", asked)
        positions = position_limit(module.model)
        if not tiled and positions is not None and asked > positions:
            raise DesignError(
                f"max_seq_length={asked} is more than the model's {positions} positions, which "
                "only texts in tiles may exceed: use the preset 'fair', or a tile_size."
            )
        window = Window(_smallest([asked, positions]), asked)
    module.untiled_length = window.plain if tiled else None
    if tiled or window.reads is not None:
        module.max_seq_length = window.reads or ANY_LENGTH
    if getattr(module, "tiling", None) is not None:
        module.tiling = find_tiling(module)


def window_of(
    model: SentenceTransformer, calibration: Calibration | None = None, side: Side = "document"
) -> int | None:
    """How many tokens of a text a model reads; None if no limit is known.

    A `calibration` that acts on the side replaces the model's own.
    """
    if not shows_tokens(model):
        return None
    limits = []
    for module in _transformers(model, side):
        acting = getattr(module, "calibration", None)
        if calibration is not None and calibration.on(side).acts:
            acting = calibration
        tiled = acting is not None and acting.on(side).tile_size is not None
        limits.append(Window.of(module, tiled=tiled).reads)
    if not limits:
        limits = [model.max_seq_length]
    if isinstance(model.tokenizer, Tokenizer):
        limits.append((model.tokenizer.truncation or {}).get("max_length"))
    return _smallest(limits)


def cut_at(module: Transformer, side: Side, options: Mapping[str, Any]) -> int | None:
    """The `max_length` that this call needs for the rule of limits; None for the module's own.

    `options` may have the `task` and the `max_length` of the call.
    """
    task = str(options.get("task"))
    call_limit = options.get("max_length")
    if module.calibration.on(side).tile_size is not None:
        overridden = task == "document" and module.document_length is not None
        return module.max_seq_length if overridden and call_limit is None else None
    has_fixed_width = (module.query_expansion or {}).get("strategy") == "fixed"
    if module.untiled_length is None or (task == "query" and has_fixed_width):
        return None
    task_limits = {"query": module.query_length, "document": module.document_length}
    limit = _smallest([call_limit or task_limits.get(task), module.max_seq_length])
    return module.untiled_length if limit is None or module.untiled_length < limit else None


def shows_tokens(model: SentenceTransformer) -> bool:
    tokenizer = getattr(model, "tokenizer", None)
    return callable(tokenizer) or isinstance(tokenizer, Tokenizer)


def _transformers(model: SentenceTransformer, side: Side) -> list[Transformer]:
    """The Transformer modules that texts of a side go through."""
    if not isinstance(model, nn.Module):
        return []
    part: nn.Module = model
    first = next(model.children(), None)
    if isinstance(first, Router) and side in first.sub_modules:
        part = first.sub_modules[side]
    return [module for module in part.modules() if isinstance(module, Transformer)]


def _smallest(limits: Iterable[int | None]) -> int | None:
    return min(
        (limit for limit in limits if limit is not None and limit < ANY_LENGTH), default=None
    )
