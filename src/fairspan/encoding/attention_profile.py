"""The attention profile: where a text's pooled row looks, by basket, segment and on a relative axis (METHODS §4)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from fairspan.attention.plan import Plan
from fairspan.attention.pooled_row import average_row
from fairspan.calibration.calibration import Side
from fairspan.encoding.recording import Recorded, RecordingTransformer, record
from fairspan.encoding.tokens import tokens_of_spans

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
) -> Iterator[AttentionRow]:
    """The attention of each text's pooled row, in the order of the texts.

    The pooled row is the first token's for CLS pooling and the last token's for last-token pooling. Every other
    pooling (mean, weighted mean, max, several at once) reads all tokens: the row is then the plain average over the
    rows that are pooled, without the prompt's where the model leaves those out. In the calibrated layers of a
    calibrated model these are the calibrated weights.

    No L×L tensor is made for this; models that make one themselves, for a sliding window or a position bias, still
    do. The model is not changed: the texts go one by one through a copy on the same weights.

    Args:
        model: a SentenceTransformer on the torch backend, plain or calibrated.
        texts: strings. In a calibrated model a `SegmentedText` has its segments as baskets, as in `encode_segments`.
        prompt: what to put before every text; None for what `encode_document` or `encode_query` would.
        side: which of the two is meant.

    Raises:
        UnsupportedModel: at once, if the model's attention cannot be reached, or a text is longer than the model's
            window or has no tokens.
    """
    return map(_row, record(model, texts, _RowRecorder, prompt=prompt, side=side))


class _RowRecorder(RecordingTransformer):
    """Records [layers, L], the attention of the text's pooled row."""

    def recording(self, plan: Plan, inputs: dict[str, Any]) -> Callable[[dict[str, Any]], Tensor]:
        rows, found = self._pooled_rows(inputs), list[Tensor]()
        plan.watch = lambda layer: found.append(average_row(layer, rows))
        return lambda features: torch.stack(found)

    def _pooled_rows(self, inputs: dict[str, Any]) -> Tensor:
        """[R], the rows of the text that are pooled."""
        site, valid, prompt_length = (
            self.site[0],
            inputs["attention_mask"].bool(),
            inputs.get("prompt_length") or 0,
        )
        if site.pooling != "mean":
            return site.pooled_rows(valid, prompt_length)
        every = torch.arange(valid.shape[1], device=valid.device)
        return every[prompt_length:] if site.skips_prompt and prompt_length < len(every) else every


def _row(text: Recorded) -> AttentionRow:
    """A token belongs to the prompt if its last character does: one that begins with the prompt's final space and
    goes on into the text is the text's."""
    begin, end = text.offsets.T
    in_prompt = ~text.special & (begin < 0) & (end <= 0)
    own = np.maximum(text.offsets, 0)
    own[text.special | in_prompt] = NO_CHARACTER
    return AttentionRow(text.result.cpu().double().numpy(), own, text.special, in_prompt)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """The attention mass of the parts of a text in every layer; with the rest they sum to 1.

    Attributes:
        parts: [layers, m], in their order.
        rest: [layers] by name, the mass of special tokens, of the prompt and of text in no part.
    """

    parts: np.ndarray
    rest: dict[str, np.ndarray]


def by_basket(row: AttentionRow, basket_size: int = 128) -> Profile:
    """The masses of runs of `basket_size` content tokens, of which the last may be short.

    The rest is the `first` and the `last` token, if they are special ones, and `other`.
    """
    content = np.flatnonzero(row.content)
    starts = np.arange(0, len(content), basket_size)
    # Sums of all baskets at once; it takes at least one start.
    baskets = (
        np.add.reduceat(row.masses[:, content], starts, axis=1)
        if len(starts)
        else row.masses[:, :0]
    )
    place = np.arange(len(row.special))
    at_start = row.special & (place == 0)
    at_end = row.special & (place == len(place) - 1) & ~at_start
    elsewhere = ~(row.content | at_start | at_end)
    rest = {"first": at_start, "last": at_end, "other": elsewhere}
    return Profile(
        baskets, {name: row.masses[:, tokens].sum(axis=1) for name, tokens in rest.items()}
    )


def by_segment(row: AttentionRow, spans: Sequence[tuple[int, int]]) -> Profile:
    """The mass of each segment, given the characters at which it begins and ends (the end not included).

    A token belongs to the segment that holds its last character: one that begins with the joining space goes with the
    word after it. A token without characters is in no segment. The rest is `special` tokens and `other`.
    """
    member = np.zeros((len(spans), row.masses.shape[1]))
    for number, tokens in enumerate(tokens_of_spans(row.offsets, spans)):
        member[number, tokens] = 1
    in_none = ~row.special & (member.sum(axis=0) == 0)
    rest = {"special": row.special, "other": in_none}
    return Profile(
        row.masses @ member.T,
        {name: row.masses[:, tokens].sum(axis=1) for name, tokens in rest.items()},
    )


def by_bins(row: AttentionRow, bins: int = 20) -> Profile:
    """The mass of `bins` equal parts of the content tokens; the rest is `special` tokens and the prompt's, `other`.

    A token that straddles a border gives each side its part: the mass up to a border is read off the cumulated masses
    by linear interpolation.
    """
    content = row.masses[:, row.content]
    count = content.shape[1]
    cumulated = np.concatenate([np.zeros((len(content), 1)), content.cumsum(axis=1)], axis=1)
    borders = np.arange(bins + 1) * count / bins
    up_to = np.stack([np.interp(borders, np.arange(count + 1), layer) for layer in cumulated])
    rest = {"special": row.special, "other": row.prompt}
    return Profile(
        np.diff(up_to, axis=1),
        {name: row.masses[:, tokens].sum(axis=1) for name, tokens in rest.items()},
    )
