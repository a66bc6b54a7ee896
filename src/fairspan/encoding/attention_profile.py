"""The attention profile: where a pooled row looks, by basket."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.attention.plan import Plan
from fairspan.attention.rows import average_row
from fairspan.encoding.recording import Recorded, RecordingTransformer, record
from fairspan.model.pooling import prompt_length

NO_CHARACTER = -1


@dataclass(frozen=True, slots=True, eq=False)
class AttentionRow:
    """The attention that one text's pooled row gives to each token, averaged over heads.

    Attributes:
        masses: [layers, tokens], summing to 1 over the tokens of each layer.
        offsets: [tokens, 2], the characters of the text that each token stands for, counted without
            the prompt; `NO_CHARACTER` twice for special and prompt tokens.
        special, prompt: [tokens] bool, the tokens that the tokenizer added; those of the prompt.
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
    model: SentenceTransformer, texts: Sequence[str], *, prompt: str | None = None
) -> Iterator[AttentionRow]:
    """The attention of each document's pooled row, in the order of the texts.

    The pooled row is the first token's for CLS pooling and the last token's for last-token pooling.
    Every other pooling (mean, weighted mean, max, several at once) reads all tokens: the row is
    then the plain average over the pooled rows, without the prompt's if the model omits those. In
    the calibrated layers of a calibrated model these are the calibrated weights.

    Args:
        texts: strings.
        prompt: what to put before every text; None for the model's own for documents.
    """
    return map(_row, record(model, texts, _RowRecorder, prompt=prompt))


class _RowRecorder(RecordingTransformer):
    """Records [layers, L], the attention of the text's pooled row."""

    def recording(self, plan: Plan, inputs: dict[str, Any]) -> Callable[[dict[str, Any]], Tensor]:
        rows = self._pooled_rows(inputs)
        masses: list[Tensor] = []
        plan.watch = lambda layer: masses.append(average_row(layer, rows))
        return lambda features: torch.stack(masses)

    def _pooled_rows(self, inputs: dict[str, Any]) -> Tensor:
        """[R], the rows of the text that are pooled."""
        site = self.site[0]
        valid = inputs["attention_mask"].bool()
        prompt = prompt_length(inputs) or 0
        if site.pooling != "mean":
            return site.pooled_rows(valid, prompt)
        every = torch.arange(valid.shape[1], device=valid.device)
        return every[prompt:] if site.skips_prompt and prompt < len(every) else every


def _row(text: Recorded) -> AttentionRow:
    """The row of a recorded text.

    A token belongs to the prompt if its last character does: one that begins with the prompt's
    final space and continues into the text belongs to the text.
    """
    begin, end = text.offsets.T
    in_prompt = ~text.special & (begin < 0) & (end <= 0)
    offsets = np.maximum(text.offsets, 0)
    offsets[text.special | in_prompt] = NO_CHARACTER
    return AttentionRow(text.result.cpu().double().numpy(), offsets, text.special, in_prompt)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The attention mass of the parts of a text in every layer, [layers, m].

    With the `rest`, [layers] by name, they sum to 1: special tokens, the prompt, text in no part.
    """

    parts: np.ndarray
    rest: dict[str, np.ndarray]


def by_basket(row: AttentionRow, basket_size: int = 128) -> Profile:
    """The masses of runs of `basket_size` content tokens, of which the last may be short.

    The rest is the `first` and the `last` token, if they are special ones, and `other`.
    """
    content = np.flatnonzero(row.content)
    starts = np.arange(0, len(content), basket_size)
    baskets = row.masses[:, :0]
    if len(starts):
        # Sums of all baskets at once; it takes at least one start.
        baskets = np.add.reduceat(row.masses[:, content], starts, axis=1)
    number = np.arange(len(row.special))
    first = row.special & (number == 0)
    last = row.special & (number == len(number) - 1) & ~first
    return _profile(row, baskets, first=first, last=last, other=~(row.content | first | last))


def _profile(row: AttentionRow, parts: np.ndarray, **rest: np.ndarray) -> Profile:
    """The profile with these masses of parts; `rest` has [tokens] bool by name."""
    masses = {name: row.masses[:, tokens].sum(axis=1) for name, tokens in rest.items()}
    return Profile(parts, masses)
