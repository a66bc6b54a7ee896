"""What of a text a model reads: all of it, or what its window holds."""

from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.encoding.tokens import ModelTokens, Span, tokens_of_spans
from fairspan.model.build import copy_sharing_weights

# A word of more tokens than this is hardly one; the cut is then not looked for any further back.
_LONGEST_WORD = 64


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The tokens of one text, and which of them the model reads.

    Attributes:
        offsets: [tokens, 2] of the whole text, as `ModelTokens.offsets` gives them.
        read: [tokens] bool; special tokens always are.
        window: how many tokens the model reads, None if nothing is known of a limit.
    """

    offsets: np.ndarray
    read: np.ndarray
    window: int | None

    @property
    def length(self) -> int:
        """Tokens of the whole text, prompt and special tokens included."""
        return len(self.offsets)

    @property
    def whole(self) -> bool:
        return bool(self.read.all())

    def count(self, spans: list[Span]) -> list[tuple[int, int]]:
        """For each span, how many tokens it has and how many of them are read."""
        numbers = tokens_of_spans(self.offsets, spans)
        return [(len(own), int(self.read[own].sum())) for own in numbers]

    @property
    def range(self) -> Span:
        """The characters of the text from the first that is read to the end of the last."""
        own = self.offsets[self.read & (self.offsets[:, 1] > self.offsets[:, 0])]
        return (max(0, int(own[:, 0].min())), max(0, int(own[:, 1].max()))) if len(own) else (0, 0)


def read_text(counter: ModelTokens, text: str) -> Seen:
    """Which tokens of a text the model reads when it is given all of it."""
    (offsets,) = counter.offsets([text])
    window = counter.window
    read = np.ones(len(offsets), dtype=bool)
    if window is None or len(offsets) <= window:
        return Seen(offsets, read, window)
    # Not every token without characters is special: a space at the end of a text may be one, too.
    special = len(offsets) - ModelTokens(counter.model).count([counter.prompt + text])[0]
    stands_for_text = offsets[:, 1] > offsets[:, 0]
    first = min(special, int(stands_for_text.argmax()))
    last = len(offsets) - (special - first)
    unread = min(len(offsets) - window, last - first)
    if getattr(counter.model.tokenizer, "truncation_side", "right") == "left":
        read[first : first + unread] = False
    else:
        read[last - unread : last] = False
    return Seen(offsets, read, window)


def cutting(model: SentenceTransformer, window: int | None) -> SentenceTransformer:
    """The model if it cuts texts at its window by itself, or else a copy on the same weights that does.

    A `max_seq_length` above the positions that a model has, or none at all, lets a long text run out of positions.
    """
    own = model.max_seq_length
    if window is None or (own is not None and own <= window):
        return model
    made = copy_sharing_weights(model)
    made.max_seq_length = window
    return made


def longest_prefix(counter: ModelTokens, text: str, seen: Seen) -> str | None:
    """The longest beginning of a text that the model reads to its end, with the tokens it has in the whole text.

    It is a few tokens shorter than what is read where the window ends inside a word. None if the model reads the end
    of the text and not its beginning, or no such beginning is found.
    """
    own = np.flatnonzero(seen.read & (seen.offsets[:, 1] > seen.offsets[:, 0]))
    if not len(own) or seen.range[0] > 0:
        return None
    for last in own[::-1][:_LONGEST_WORD]:
        end = int(seen.offsets[last, 1])
        if end <= 0:
            return None
        prefix = text[:end]
        (offsets,) = counter.offsets([prefix])
        same = offsets[offsets[:, 1] > offsets[:, 0]]
        expected = seen.offsets[: last + 1]
        expected = expected[expected[:, 1] > expected[:, 0]]
        if prefix.strip() and len(offsets) <= (seen.window or len(offsets)) and np.array_equal(same, expected):
            return prefix
    return None
