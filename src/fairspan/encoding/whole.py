"""Proof that a model reads a text to its end, whatever it says of its limits."""

import numpy as np

from fairspan.encoding.encoder import Encoder, Text
from fairspan.encoding.fill import Tally, embed
from fairspan.errors import EncodingError

# Characters taken from the end: a few words, which no reader of the whole text can miss.
_TAIL = 30
# Two passes over the same tokens differ by rounding only, here with room for half precision.
_SAME = 1e-6


def refuse_unread_end(encoder: Encoder, longest: Text, tally: Tally) -> None:
    """Raise if the vector of a text stays the same when its last words are gone.

    Tokenizers, services and wrappers may cut texts without a word. Those that say what they read are believed and
    checked; of all others this is the only sign.
    """
    without = Text(longest.text[:-_TAIL].rstrip(), longest.length)
    if not without.text:
        return
    whole, shorter = (_vector(encoder, Text(text.text, text.length), tally) for text in (longest, without))
    scale = float(np.linalg.norm(whole)) or 1.0
    if np.linalg.norm(whole - shorter) <= _SAME * scale:
        raise EncodingError(
            f"the model does not read its longest document ({len(longest.text)} characters) to the end: the vector "
            "stays the same without the last words. Raise the limit of the model or its tokenizer, take openings of "
            "the segments, or use smaller sizes."
        )


def _vector(encoder: Encoder, text: Text, tally: Tally) -> np.ndarray:
    (found,) = embed(encoder, [text], tally)
    return np.asarray(found[encoder.key(text)], dtype=np.float64)
