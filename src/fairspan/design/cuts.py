"""Texts of known length: the same documents cut to several lengths, or whole documents by length."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError

Start = Literal["beginning", "random"]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LengthText:
    """A text and its length.

    Attributes:
        document: the id of the segment that it is, or is a part of.
        length: the length asked for, or where its bin begins.
        tokens: the length it has, prompt and special tokens aside.
    """

    document: str
    language: str
    length: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """Texts ordered by length and then by document, and what a reader should know of how they were made."""

    texts: tuple[LengthText, ...]
    notes: tuple[str, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths asked for, or the beginnings of the bins, ascending."""
        return tuple(dict.fromkeys(text.length for text in self.texts))

    @property
    def paired(self) -> bool:
        """Whether every length has the same documents."""
        return (
            len({tuple(text.document for text in self.at(length)) for length in self.lengths}) == 1
        )

    def at(self, length: int) -> tuple[LengthText, ...]:
        """The texts of one length, ordered by document."""
        return tuple(text for text in self.texts if text.length == length)


def cut_documents(
    corpus: Corpus,
    language: str,
    lengths: Sequence[int],
    counter: TokenCounter,
    *,
    documents: int | None = None,
    seed: int = 0,
    tolerance: float = 0.1,
    start: Start = "beginning",
) -> Cuts:
    """Each document cut to every one of `lengths`: texts of different length do not differ in what they are about.

    A text ends at the sentence border nearest to the wanted length, the shorter one of two, and never beyond the
    model's window. A document is used if every length has a border of its own within `tolerance`, a share of that
    length; a note counts the others.

    Args:
        documents: how many to use at most, drawn at random.
        start: the document's "beginning", or a "random" sentence among those from which every length is reached. All
            texts of a document start there, so that a longer one holds the shorter ones.
    """
    wanted = np.array(sorted(set(lengths)), dtype=np.int64)
    if not len(wanted) or wanted[0] < 1:
        raise DesignError(
            f"lengths are numbers of tokens from 1, got {', '.join(map(str, wanted)) or 'none'}."
        )
    if not 0 <= tolerance < 1:
        raise DesignError(f"tolerance is a share of the length from 0 to below 1, got {tolerance}.")
    room = None if counter.window is None else counter.window - counter.count_whole([""])[0]
    if room is not None and wanted[-1] > room:
        beyond = ", ".join(str(length) for length in wanted if length > room)
        raise DesignError(
            f"texts of {beyond} {counter.unit} do not fit: the model reads {counter.window}, of which {room} are "
            f"text. Use lengths up to {room}, or a model with a longer window."
        )
    ids = sorted(corpus.ids([language]))
    rng = np.random.default_rng(seed)
    order, chances = rng.permutation(len(ids)), rng.random(len(ids))
    kept: dict[str, list[LengthText]] = {}
    seen, reached = 0, np.zeros(len(wanted), dtype=np.int64)
    for number in order:
        if len(kept) == documents:
            break
        text = corpus.text(ids[number], language)
        until, spans = _count_sentences(text, language, counter)
        begins = (until - np.diff(until, prepend=0))[: 1 if start == "beginning" else None]
        ends, tokens = _nearest(until, begins, wanted, room)
        close = _close(tokens, wanted, tolerance)
        seen, reached = seen + 1, reached + close.any(0)
        reaching = np.flatnonzero(close.all(1) & (np.diff(ends, axis=1) > 0).all(1))
        if not len(reaching):
            continue
        first = int(reaching[int(chances[number] * len(reaching))])
        parts = [text[spans[first][0] : spans[end][1]] for end in ends[first]]
        # A text of several sentences may have a token more or less than these together.
        counts = counter.count(parts)
        whole = max(counter.count_whole(parts))
        if _close(np.array(counts), wanted, tolerance).all() and whole <= (counter.window or whole):
            rows = zip(wanted.tolist(), parts, counts, strict=True)
            kept[ids[number]] = [LengthText(ids[number], language, *row) for row in rows]
    if not kept:
        by_length = ", ".join(
            f"{length}: {count}" for length, count in zip(wanted, reached, strict=True)
        )
        other = ", start at a random sentence" if start == "beginning" else ""
        raise DesignError(
            f"none of {seen} documents in {language!r} has a sentence border within {tolerance:.0%} of every length "
            f"(documents that have one, by length in {counter.unit}: {by_length}). Raise the tolerance, name fewer "
            f"lengths{other}, or use longer documents."
        )
    notes = []
    if len(kept) < seen:
        notes.append(
            f"{seen - len(kept)} of {seen} documents have no sentence border within {tolerance:.0%} of every length "
            "and were not used"
        )
    if documents is not None and len(kept) < documents:
        notes.append(f"{len(kept)} documents instead of {documents}: no others reach every length")
    names = sorted(kept)
    return Cuts(
        tuple(kept[name][number] for number in range(len(wanted)) for name in names), tuple(notes)
    )


def natural_lengths(
    corpus: Corpus,
    language: str,
    counter: TokenCounter,
    *,
    width: int = 100,
    documents: int | None = None,
    seed: int = 0,
) -> Cuts:
    """Whole documents in bins of `width` tokens, [0, width), [width, 2·width), …, as in LC Figs. 1 and 3.

    Long documents may be about other things than short ones; `cut_documents` rules that out. Documents longer than
    the model's window are not used, and a note counts them.

    Args:
        documents: how many to use at most in each bin, drawn at random.
    """
    ids = sorted(corpus.ids([language]))
    texts = [corpus.text(name, language) for name in ids]
    counts = counter.count(texts)
    fits = [length <= (counter.window or length) for length in counter.count_whole(texts)]
    if not any(fits):
        raise DesignError(
            f"none of {len(ids)} documents in {language!r} fits into the model's {counter.window} {counter.unit}: "
            f"the shortest has {min(counts)}. Cut them to fixed lengths, or take a model with a longer window."
        )
    bins: dict[int, list[int]] = {}
    for number in np.random.default_rng(seed).permutation(len(ids)).tolist():
        if fits[number]:
            bins.setdefault(counts[number] // width * width, []).append(number)
    found = tuple(
        LengthText(ids[number], language, begin, texts[number], counts[number])
        for begin in sorted(bins)
        for number in sorted(bins[begin][:documents])
    )
    longer = f"longer than the model's {counter.window} {counter.unit} and were not used"
    return Cuts(
        found, () if all(fits) else (f"{fits.count(False)} of {len(ids)} documents are {longer}",)
    )


def _count_sentences(text: str, language: str, counter: TokenCounter) -> tuple[Counts, list[Span]]:
    """The tokens of a text up to the end of each sentence, and the characters of the sentences."""
    spans = sentences(text, language)
    ends = [*(begin for begin, _ in spans[1:]), *(end for _, end in spans[-1:])]
    pieces = [text[begin:end] for (begin, _), end in zip(spans, ends, strict=True)]
    return np.array(counter.count(pieces), dtype=np.int64).cumsum(), spans


def _nearest(
    until: Counts, begins: Counts, wanted: Counts, room: int | None
) -> tuple[Counts, Counts]:
    """From each beginning, the sentence whose end is nearest to each length, and the tokens up to there."""
    above = np.minimum(np.searchsorted(until, begins[:, None] + wanted), len(until) - 1)
    below = np.maximum(above - 1, 0)
    tokens_above, tokens_below = until[above] - begins[:, None], until[below] - begins[:, None]
    nearer = tokens_above - wanted < wanted - tokens_below
    if room is not None:
        nearer &= tokens_above <= room
    return np.where(nearer, above, below), np.where(nearer, tokens_above, tokens_below)


def _close(tokens: Counts, wanted: Counts, tolerance: float) -> NDArray[np.bool_]:
    """Which of tokens[..., lengths] are within the tolerance."""
    # The slack keeps a length that is exactly on the limit inside it, whatever the rounding.
    return np.asarray(np.abs(tokens - wanted) <= tolerance * wanted + 1e-9)
