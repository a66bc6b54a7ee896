"""How many tokens of a text a model reads.

The rule of limits. sentence_transformers cuts a text, prompt and special tokens included, at the
first of these that is set:

1. `max_length` of the call, in `processing_kwargs` or from a trainer;
2. `query_length` or `document_length` of the module, for texts encoded as one of the two;
3. `max_seq_length` of the module.

Tiles read any length. Calibrating with them therefore

- stores what the plain model reads, its `max_seq_length` but at most its positions, as
  `untiled_length`, and sets `max_seq_length` to `ANY_LENGTH`;
- makes `document_length` a limit of the window of the tiles, which no longer cuts documents.

On a side without tiles a text is also cut at `untiled_length`, unless the limits above cut it
earlier, or queries are expanded to a fixed width. A calibration without tiles removes
`untiled_length` and sets `max_seq_length` back to it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers import Tokenizer

from fairspan.attention.positions import position_limit
from fairspan.calibration.calibration import Calibration, Side
from fairspan.errors import DesignError, require_whole

ANY_LENGTH = 10**9
"""The limit, in tokens, of what has none; tokenizers without one name larger numbers."""


def window_of(
    model: SentenceTransformer, calibration: Calibration | None = None, side: Side = "document"
) -> int | None:
    """How many tokens of a text a model reads, under a calibration that acts or else as it is.

    In tiles it reads any length, unless a limit was set for them. None if no limit is known.
    """
    if not shows_tokens(model):
        return None
    modules = list(model.modules()) if hasattr(model, "modules") else []
    if calibration is not None and calibration.acts_on(side):
        calibrations = [calibration]
    else:
        settings = [getattr(module, "calibration", None) for module in modules]
        calibrations = [setting for setting in settings if isinstance(setting, Calibration)]
    limits = [model.max_seq_length]
    if isinstance(model.tokenizer, Tokenizer):
        limits.append((model.tokenizer.truncation or {}).get("max_length"))
    untiled = [getattr(module, "untiled_length", None) for module in modules]
    if any(acting.tiles_on(side) for acting in calibrations):
        # What a model reads plain is no limit for its tiles.
        return None if _smallest(untiled) is None else _smallest(limits)
    transformer = getattr(model, "transformers_model", None)
    if transformer is not None:
        limits.append(position_limit(transformer))
    return _smallest([*limits, *untiled])


def cut_at(module: Transformer, side: Side, options: Mapping[str, Any]) -> int | None:
    """The `max_length` that this call needs for the rule of limits; None for the module's own.

    `options` has the `task` and `max_length` of the call, where they are set.
    """
    task = str(options.get("task"))
    call_limit = options.get("max_length")
    if module.calibration.tiles_on(side):
        overridden = task == "document" and module.document_length is not None
        return module.max_seq_length if overridden and call_limit is None else None
    if module.untiled_length is None or (task == "query" and _has_fixed_width(module)):
        return None
    task_limits = {"query": module.query_length, "document": module.document_length}
    limit = _smallest([call_limit or task_limits.get(task), module.max_seq_length])
    return module.untiled_length if limit is None or module.untiled_length < limit else None


def keep_untiled_length(module: Transformer) -> None:
    """Set `untiled_length` and `max_seq_length` of a module as its calibration needs them."""
    untiled = getattr(module, "untiled_length", None)
    if module.calibration.tile_size is None:
        module.untiled_length = None
        if untiled is not None:
            module.max_seq_length = min(module.max_seq_length, untiled)
    elif untiled is None:
        module.untiled_length = _smallest([module.max_seq_length, position_limit(module.model)])
        module.max_seq_length = ANY_LENGTH


def read_up_to(module: Transformer, tokens: int) -> None:
    """Set the longest text that a module reads, special tokens and prompt included."""
    require_whole("max_seq_length", tokens, kind=DesignError)
    limit = position_limit(module.model)
    if getattr(module, "tiling", None) is None and limit is not None and tokens > limit:
        raise DesignError(
            f"max_seq_length={tokens} is more than the model's {limit} positions, which only texts "
            "in tiles may exceed: use the preset 'long' or 'tiles', or a tile_size."
        )
    module.max_seq_length = tokens


def limit_to(model: SentenceTransformer, tokens: int) -> None:
    """Limit how many tokens a model reads, in tiles too; without tiles at most its positions."""
    model.max_seq_length = tokens
    for module in model.modules():
        if isinstance(module, Transformer):
            untiled = getattr(module, "untiled_length", None) or position_limit(module.model)
            module.untiled_length = min(tokens, untiled or tokens)


def shows_tokens(model: SentenceTransformer) -> bool:
    tokenizer = getattr(model, "tokenizer", None)
    return callable(tokenizer) or isinstance(tokenizer, Tokenizer)


def _has_fixed_width(module: Transformer) -> bool:
    return (module.query_expansion or {}).get("strategy") == "fixed"


def _smallest(limits: Iterable[int | None]) -> int | None:
    return min(
        (limit for limit in limits if limit is not None and limit < ANY_LENGTH), default=None
    )
