"""How many tokens of a text a model reads, and how to set it."""

from collections.abc import Sequence

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

    That is what it is set to read, and never more positions than it has. In tiles it reads any length, unless a limit
    was set for them. None if nothing is known of a limit.
    """
    if not shows_tokens(model):
        return None
    if calibration is not None and calibration.acts_on(side):
        acting = [calibration]
    else:
        found = (
            getattr(module, "calibration", None) for module in getattr(model, "modules", tuple)()
        )
        acting = [one for one in found if isinstance(one, Calibration)]
    own = (
        (model.tokenizer.truncation or {}).get("max_length")
        if isinstance(model.tokenizer, Tokenizer)
        else None
    )
    limits = _known([model.max_seq_length, own])
    untiled = _known(
        [getattr(module, "untiled_length", None) for module in getattr(model, "modules", tuple)()]
    )
    if any(one.tiles_on(side) for one in acting):
        # What a model reads plain is no limit for its tiles.
        return min(limits, default=None) if untiled else None
    transformer = getattr(model, "transformers_model", None)
    return min(
        limits + untiled + _known([transformer and position_limit(transformer)]), default=None
    )


def read_up_to(module: Transformer, tokens: int) -> None:
    """Set the longest text that a module reads, special tokens and prompt included."""
    require_whole("max_seq_length", tokens, kind=DesignError)
    limit = position_limit(module.model)
    if getattr(module, "tiling", None) is None and limit is not None and tokens > limit:
        raise DesignError(
            f"max_seq_length={tokens} is more than the model's {limit} positions, which only texts in tiles may "
            "exceed: use the preset 'long' or 'tiles', or a tile_size."
        )
    module.max_seq_length = tokens


def limit_to(model: SentenceTransformer, tokens: int) -> None:
    """Limit how many tokens a model reads, in tiles as well; without tiles never more than its positions."""
    model.max_seq_length = tokens
    for module in model.modules():
        if isinstance(module, Transformer):
            known = getattr(module, "untiled_length", None) or position_limit(module.model)
            module.untiled_length = min(tokens, known or tokens)


def _known(limits: Sequence[int | None]) -> list[int]:
    return [limit for limit in limits if limit is not None and limit < ANY_LENGTH]


def shows_tokens(model: SentenceTransformer) -> bool:
    tokenizer = getattr(model, "tokenizer", None)
    return callable(tokenizer) or isinstance(tokenizer, Tokenizer)
