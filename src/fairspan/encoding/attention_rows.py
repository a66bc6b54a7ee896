"""`attention_rows`: where the row that becomes the embedding looks, layer by layer (METHODS §4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sentence_transformers import SentenceTransformer

from fairspan.calibration.temperature import Side
from fairspan.encoding.recording import MASSES, Recorded, recorded, recording_copy
from fairspan.encoding.tokens import prompt_of

NO_CHARACTER = -1


@dataclass(frozen=True, slots=True, eq=False)
class AttentionRow:
    """The attention that one text's pooled row gives to each token, averaged over heads.

    Attributes:
        masses: [layers, tokens], summing to 1 over the tokens of each layer.
        offsets: [tokens, 2], the characters of the text that each token stands for, counted without the prompt;
            `NO_CHARACTER` twice for special and prompt tokens.
        special: [tokens] bool, the tokens that the tokenizer added.
        prompt: [tokens] bool, the tokens that lie in the prompt.
    """

    masses: np.ndarray
    offsets: np.ndarray
    special: np.ndarray
    prompt: np.ndarray

    @property
    def content(self) -> np.ndarray:
        """[tokens] bool, the tokens of the text itself."""
        return np.asarray(~(self.special | self.prompt))


def attention_rows(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    side: Side = "document",
    batch_tokens: int = 8192,
) -> Iterator[AttentionRow]:
    """The attention of each text's pooled row, in the order of the texts.

    The pooled row is the first token's for CLS pooling and the last token's for last-token pooling. Every other
    pooling (mean, weighted mean, max, several at once) reads all tokens: the row is then the plain average over the
    rows that are pooled, without the prompt's where the model leaves those out. In the calibrated layers of a
    calibrated model these are the calibrated weights.

    No L×L tensor is made for this; models that make one themselves, for a sliding window or a position bias, still
    do. The model stays as it is: the texts go through a copy on the same weights.

    Args:
        model: a SentenceTransformer on the torch backend, plain or calibrated.
        texts: strings. In a calibrated model a `SegmentedText` has its segments as baskets, as in `encode_segments`.
        prompt: what to put before every text; None for what `encode_document` or `encode_query` would.
        side: which of the two is meant.
        batch_tokens: how many tokens, padding counted, go through the model at once; a longer text goes alone.

    Raises:
        UnsupportedModel: at once, if the model's attention cannot be reached, or a text is longer than the model's
            window or has no tokens.
    """
    if prompt is None:
        prompt = prompt_of(model, side)
    batches = recorded(recording_copy(model, side), texts, prompt, side, batch_tokens, MASSES)
    return (_row(batch, number, len(prompt)) for batch in batches for number in range(len(batch.valid)))


def _row(batch: Recorded, number: int, shift: int) -> AttentionRow:
    """A token belongs to the prompt if its last character does: one that begins with the prompt's final space and
    goes on into the text is the text's."""
    keep = batch.valid[number]
    masses = batch.result[number].cpu().numpy()[:, keep]
    offsets, special = batch.offsets[number][keep], batch.special[number][keep]
    begin, end = offsets.T
    in_prompt = ~special & (begin < shift) & (end <= shift)
    own = np.maximum(offsets - shift, 0)
    own[special | in_prompt] = NO_CHARACTER
    return AttentionRow(masses, own, special, in_prompt)
