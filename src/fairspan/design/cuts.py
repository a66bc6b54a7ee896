"""Texts of known length: documents cut to several lengths, or whole documents by length."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.sentences import Span, sentences
from fairspan.design.lengths import TokenCounter
from fairspan.errors import DesignError

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LengthText:
    """A text of a document, with the length asked for, or the beginning of its bin.

    `tokens` is its actual length, without prompt and special tokens.
    """

    document: str
    language: str
    length: int
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """Texts ordered by length and then by document."""

    texts: tuple[LengthText, ...]
    notes: tuple[str, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(text.length for text in self.texts))

    @property
    def paired(self) -> bool:
        """Whether every length has the same documents."""
        documents = {tuple(text.document for text in self.at(length)) for length in self.lengths}
        return len(documents) == 1

    def at(self, length: int) -> tuple[LengthText, ...]:
        """The texts of one length, ordered by document."""
        return tuple(text for text in self.texts if text.length == length)


@dataclass(frozen=True, slots=True)
class _Cutter:
    """Cuts documents to the wanted lengths; `room` is the longest text that fits into the model."""

    language: str
    wanted: Counts
    counter: TokenCounter
    tolerance: float
    room: int | None

    def cut(self, document: str, text: str, chance: float) -> tuple[list[LengthText], Counts]:
        """A text for every length, or none; and which lengths can be reached from some sentence.

        `chance` in [0, 1) chooses among the sentences to begin with.
        """
        until, spans = _count_sentences(text, self.language, self.counter)
        begins = until - np.diff(until, prepend=0)
        ends, tokens = _nearest(until, begins, self.wanted, self.room)
        close = self._close(tokens)
        reached: Counts = np.asarray(close.any(0), np.int64)
        reaching = np.flatnonzero(close.all(1) & (np.diff(ends, axis=1) > 0).all(1))
        if not len(reaching):
            return [], reached
        first = int(reaching[int(chance * len(reaching))])
        parts = [text[spans[first][0] : spans[end][1]] for end in ends[first]]
        # A text of several sentences may have a token more or less than these together.
        counts = self.counter.count(parts)
        window = self.counter.window
        fits = window is None or max(self.counter.count_whole(parts)) <= window
        if not fits or not self._close(np.array(counts)).all():
            return [], reached
        rows = zip(self.wanted.tolist(), parts, counts, strict=True)
        return [LengthText(document, self.language, *row) for row in rows], reached

    def _close(self, tokens: Counts) -> NDArray[np.bool_]:
        """Which of tokens[..., lengths] are within the tolerance, whatever the rounding."""
        gaps = np.abs(tokens - self.wanted)
        return np.asarray(gaps <= self.tolerance * self.wanted + 1e-9)


def cut_documents(
    corpus: Corpus,
    language: str,
    lengths: Sequence[int],
    counter: TokenCounter,
    *,
    documents: int | None = None,
    seed: int = 0,
    tolerance: float = 0.1,
) -> Cuts:
    """Each document cut to every one of `lengths`, so that all lengths have the same topics.

    A text ends at the sentence border nearest to the wanted length, and never beyond the model's
    window. A document is used if every length has a border of its own within `tolerance`, a share
    of that length. All its texts start at one sentence, a random one of those from which every
    length is reached.
    """
    wanted = np.array(sorted(set(lengths)), dtype=np.int64)
    room = _require_lengths(wanted, counter, tolerance)
    cutter = _Cutter(language, wanted, counter, tolerance, room)
    ids = sorted(corpus.ids([language]))
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(ids))
    chances = rng.random(len(ids))
    kept: dict[str, list[LengthText]] = {}
    seen = 0
    reached = np.zeros(len(wanted), dtype=np.int64)
    for number in order:
        if len(kept) == documents:
            break
        name = ids[number]
        texts, close = cutter.cut(name, corpus.text(name, language), chances[number])
        seen += 1
        reached += close
        if texts:
            kept[name] = texts
    border = f"sentence border within {tolerance:.0%} of every length"
    if not kept:
        counts = zip(wanted, reached, strict=True)
        by_length = ", ".join(f"{length}: {count}" for length, count in counts)
        remedy = "Raise the tolerance, name fewer lengths, or use longer documents."
        raise DesignError(
            f"none of {seen} documents in {language!r} has a {border} (documents that have one, by "
            f"length in {counter.unit}: {by_length}). {remedy}"
        )
    notes = []
    if len(kept) < seen:
        unused = seen - len(kept)
        notes.append(f"{unused} of {seen} documents have no {border} and were not used")
    if documents is not None and len(kept) < documents:
        notes.append(f"{len(kept)} documents instead of {documents}: no others reach every length")
    cuts = [kept[name][number] for number in range(len(wanted)) for name in sorted(kept)]
    return Cuts(tuple(cuts), tuple(notes))


def _require_lengths(wanted: Counts, counter: TokenCounter, tolerance: float) -> int | None:
    """The longest text that the model reads; an error for lengths that cannot be cut."""
    if not len(wanted) or wanted[0] < 1:
        listed = ", ".join(map(str, wanted)) or "none"
        raise DesignError(f"lengths are numbers of tokens from 1, got {listed}.")
    if not 0 <= tolerance < 1:
        raise DesignError(f"tolerance is a share of the length from 0 to below 1, got {tolerance}.")
    if counter.window is None:
        return None
    room = counter.window - counter.count_whole([""])[0]
    if wanted[-1] > room:
        beyond = ", ".join(str(length) for length in wanted if length > room)
        raise DesignError(
            f"texts of {beyond} {counter.unit} do not fit: the model reads {counter.window}, of "
            f"which {room} are text. Use lengths up to {room}, or a model with a longer window."
        )
    return room


def natural_lengths(
    corpus: Corpus,
    language: str,
    counter: TokenCounter,
    *,
    documents: int | None = None,
    seed: int = 0,
    width: int = 100,
) -> Cuts:
    """Whole documents in bins of `width` tokens, [0, 100), …, as in LC Figs. 1 and 3.

    Long documents may have other topics than short ones; `cut_documents` rules that out. At most
    `documents` are drawn for each bin. Those longer than the model's window are not used.
    """
    ids = sorted(corpus.ids([language]))
    texts = [corpus.text(name, language) for name in ids]
    counts = counter.count(texts)
    fits = [length <= (counter.window or length) for length in counter.count_whole(texts)]
    window = f"the model's {counter.window} {counter.unit}"
    if not any(fits):
        none = f"none of {len(ids)} documents in {language!r} fits into {window}"
        remedy = "Cut them to fixed lengths, or take a model with a longer window."
        raise DesignError(f"{none}: the shortest has {min(counts)}. {remedy}")
    bins: dict[int, list[int]] = {}
    for number in np.random.default_rng(seed).permutation(len(ids)).tolist():
        if fits[number]:
            bins.setdefault(counts[number] // width * width, []).append(number)
    binned = []
    for begin in sorted(bins):
        for number in sorted(bins[begin][:documents]):
            text = LengthText(ids[number], language, begin, texts[number], counts[number])
            binned.append(text)
    longer = f"{fits.count(False)} of {len(ids)} documents are longer than {window}"
    return Cuts(tuple(binned), () if all(fits) else (f"{longer} and were not used",))


def _count_sentences(text: str, language: str, counter: TokenCounter) -> tuple[Counts, list[Span]]:
    """The tokens of a text up to the end of each sentence [S], and the sentences."""
    spans = sentences(text, language)
    ends = [*(begin for begin, _ in spans[1:]), *(end for _, end in spans[-1:])]
    pieces = [text[begin:end] for (begin, _), end in zip(spans, ends, strict=True)]
    return np.array(counter.count(pieces), dtype=np.int64).cumsum(), spans


def _nearest(
    until: Counts, begins: Counts, wanted: Counts, room: int | None
) -> tuple[Counts, Counts]:
    """[B, L]: from each beginning, the sentence that ends nearest to each length; its tokens."""
    above = np.minimum(np.searchsorted(until, begins[:, None] + wanted), len(until) - 1)
    below = np.maximum(above - 1, 0)
    tokens_above = until[above] - begins[:, None]
    tokens_below = until[below] - begins[:, None]
    nearer = tokens_above - wanted < wanted - tokens_below
    if room is not None:
        nearer &= tokens_above <= room
    return np.where(nearer, above, below), np.where(nearer, tokens_above, tokens_below)
