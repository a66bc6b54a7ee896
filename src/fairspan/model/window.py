"""How many tokens of a text a model reads, and how to set it."""

from collections.abc import Sequence

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers import Tokenizer

from fairspan.attention.positions import position_limit
from fairspan.calibration.calibration import Calibration, Side
from fairspan.errors import DesignError, require_whole


def window_of(
    model: SentenceTransformer, calibration: Calibration | None = None, side: Side = "document"
) -> int | None:
    """How many tokens of a text a model reads, under a calibration that acts or else as it is.

    That is what it is set to read, and never more positions than it has; in tiles positions start again, so that
    they set no limit. None if nothing is known of a limit.
    """
    if not shows_tokens(model):
        return None
    if calibration is not None and calibration.acts_on(side):
        acting = [calibration]
    else:
        found = (getattr(module, "calibration", None) for module in getattr(model, "modules", tuple)())
        acting = [one for one in found if isinstance(one, Calibration)]
    own = (model.tokenizer.truncation or {}).get("max_length") if isinstance(model.tokenizer, Tokenizer) else None
    limits = _known([model.max_seq_length, own])
    if not (limits and any(one.tiles_on(side) for one in acting)):
        transformer = getattr(model, "transformers_model", None)
        limits += _known([None if transformer is None else position_limit(transformer)])
        # A model that came with tiles may have been set to read more than it does without them.
        limits += _known([getattr(module, "untiled_length", None) for module in getattr(model, "children", tuple)()])
    return min(limits, default=None)


def read_up_to(module: Transformer, tokens: int) -> None:
    """Set the longest text that a module reads, special tokens and prompt included."""
    require_whole("max_seq_length", tokens, kind=DesignError)
    limit = position_limit(module.model)
    if getattr(module, "tiling", None) is None and limit is not None and tokens > limit:
        raise DesignError(
            f"max_seq_length={tokens} is more than the model's {limit} positions, which only texts in tiles may "
            "exceed: use the preset 'tiles', or a tile_size."
        )
    module.max_seq_length = tokens


def _known(limits: Sequence[int | None]) -> list[int]:
    return [limit for limit in limits if limit is not None and limit < 1_000_000]


def shows_tokens(model: SentenceTransformer) -> bool:
    tokenizer = getattr(model, "tokenizer", None)
    return callable(tokenizer) or isinstance(tokenizer, Tokenizer)
