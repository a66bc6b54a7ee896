"""Fill the store with what is missing, batch by batch, by a model that reads texts to their end."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.pool import ThreadPool
from threading import Event
from typing import TypeVar

import numpy as np
import torch

from fairspan.encoding.store import Store
from fairspan.encoding.text import DerivedEncoder, Encoder, Text
from fairspan.errors import FairspanError

# Characters taken from the end: a few words, which no reader of the whole text can miss.
_TAIL = 30
# Two passes over the same tokens differ by rounding only, here with room for half precision.
_SAME = 1e-6
# Texts whose vectors are made of stored ones at once.
_AT_ONCE = 1000

Read = TypeVar("Read")
Made = TypeVar("Made")
Results = list[dict[bytes, np.ndarray]]
"""What is stored of each text of a batch."""
Progress = Callable[[int], None]
"""Called with the number of tokens that were just computed or found in the store."""


@dataclass(slots=True)
class Tally:
    """What a run did: texts and tokens computed, texts that the store had, and batches halved for memory."""

    computed: int = 0
    computed_tokens: int = 0
    found: int = 0
    halved: int = 0


class OutOfMemory(Exception):  # noqa: N818 - a batch is halved for it
    pass


def batches(lengths: Sequence[int], budget: int, most: int | None = None) -> list[list[int]]:
    """Numbers of texts in batches, longest first, of at most `budget` tokens with padding and `most` texts.

    Which texts share a batch depends on the lengths alone, and every batch is stored as a whole: an interrupted run
    forms the missing batches again and computes the same vectors to the last bit. Where other runs stored a part of a
    batch, the rest is computed without it, and a text in another company differs by float32 rounding.
    """
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    made: list[list[int]] = []
    room = 0
    for number in order:
        if room == 0:
            made.append([])
            room = min(max(1, budget // max(1, lengths[number])), most or len(lengths))
        made[-1].append(number)
        room -= 1
    return made


def fill(
    encoder: Encoder,
    texts: Sequence[Text],
    store: Store,
    *,
    budget: int,
    tally: Tally,
    progress: Progress,
) -> None:
    """Embed every text that the store has no vector for. Each batch is stored as soon as it is there."""
    different = {_keys(encoder, text): text for text in texts}
    progress(_tokens(texts) - _tokens(different.values()))
    absent = store.missing([key for keys in different for key in keys])
    wanted = {keys: text for keys, text in different.items() if not absent.isdisjoint(keys)}
    tally.found += len(different) - len(wanted)
    progress(_tokens(different.values()) - _tokens(wanted.values()))
    if isinstance(encoder, DerivedEncoder):
        _derive(encoder, list(wanted.values()), store, budget, tally, progress)
        return
    every = list(different.items())
    formed = batches([text.length for text in different.values()], budget, encoder.most)
    parts = [
        [every[number][1] for number in batch if every[number][0] in wanted] for batch in formed
    ]
    for part, results in _computed(encoder, [part for part in parts if part], tally):
        store.put(
            {key: vector for result in results if _usable(result) for key, vector in result.items()}
        )
        _refuse_unusable(part, results, tally)
        tally.computed += len(part)
        tally.computed_tokens += _tokens(part)
        progress(_tokens(part))


def _derive(
    encoder: DerivedEncoder,
    texts: Sequence[Text],
    store: Store,
    budget: int,
    tally: Tally,
    progress: Progress,
) -> None:
    """Embed the parts of texts, and store beside their vectors what is made of them."""
    parts = encoder.parts(texts)
    pieces = [piece for own in parts for piece in own]
    total, done = max(1, _tokens(pieces)), 0

    def in_proportion(tokens: int) -> None:
        nonlocal done
        before, done = done, done + tokens
        progress(_tokens(texts) * done // total - _tokens(texts) * before // total)

    fill(encoder.alone, pieces, store, budget=budget, tally=tally, progress=in_proportion)
    for start in range(0, len(texts), _AT_ONCE):
        some, own = texts[start : start + _AT_ONCE], parts[start : start + _AT_ONCE]
        found = store.get(encoder.alone.key(piece) for pieces in own for piece in pieces)
        vectors = [[found[encoder.alone.key(piece)] for piece in pieces] for pieces in own]
        store.put(dict(zip(map(encoder.key, some), encoder.combine(some, vectors), strict=True)))


def _computed(
    encoder: Encoder, parts: Sequence[list[Text]], tally: Tally
) -> Iterator[tuple[list[Text], Results]]:
    """The results of batches as they come; those of an endpoint's requests side by side.

    After a failure no further batch begins; those under way are waited for and given, and then the failure is raised.
    An interrupt does not wait for them.
    """
    if encoder.at_once == 1:
        yield from ((part, _embed(encoder, part, tally)) for part in parts)
        return
    over, failures = Event(), list[Exception]()

    def compute(part: list[Text]) -> tuple[list[Text], Results | None]:
        try:
            return part, None if over.is_set() else _embed(encoder, part, tally)
        except Exception as error:
            over.set()
            failures.append(error)
            return part, None

    with ThreadPool(encoder.at_once) as pool:
        for part, results in pool.imap_unordered(compute, parts):
            if results is not None:
                yield part, results
    if failures:
        raise failures[0]


def _embed(encoder: Encoder, batch: Sequence[Text], tally: Tally) -> Results:
    """The results of one batch by key."""
    run, advice = partial(_run, encoder), "use shorter documents or a smaller model"
    return embed_batch(
        run, batch, lambda text: text.length, tally, advice=advice, kept=lambda: _kept(tally)
    )


def embed_batch(
    run: Callable[[Sequence[Read]], Iterable[Made]],
    batch: Sequence[Read],
    length: Callable[[Read], int],
    tally: Tally,
    *,
    advice: str,
    kept: Callable[[], str],
) -> list[Made]:
    """What `run` makes of the texts of a batch, in halves where it does not fit into memory; a failure is one line.

    Args:
        advice: what to do about a text that does not fit.
        kept: says what is not lost, at the end of every failure.
    """
    try:
        return [*_within_memory(run, batch)]
    except OutOfMemory as error:
        if len(batch) == 1:
            raise FairspanError(
                f"one text of {length(batch[0]):,} tokens does not fit into memory ({error}): {advice}. {kept()}"
            ) from None
        tally.halved += 1
        middle = (len(batch) + 1) // 2
        halves = (batch[:middle], batch[middle:])
        return [
            one
            for half in halves
            for one in embed_batch(run, half, length, tally, advice=advice, kept=kept)
        ]
    except FairspanError as error:  # most often a server that stopped answering
        raise type(error)(f"{error} {kept()}".rstrip()) from None
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise FairspanError(
            f"the model failed on a batch of {len(batch)} texts of up to {max(map(length, batch)):,} tokens "
            f"({type(error).__name__}: {reason}). {kept()}"
        ) from error


def _within_memory(
    run: Callable[[Sequence[Read]], Iterable[Made]], batch: Sequence[Read]
) -> Iterable[Made]:
    """What `run` returns; raise `OutOfMemory` where memory ran out, on whatever device, with it freed again."""
    try:
        return run(batch)
    except (torch.OutOfMemoryError, MemoryError) as error:
        reason = str(error)
    except RuntimeError as error:
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        reason = str(error)
    # Outside the handlers the failed call's frames, and the memory they hold, are gone.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    raise OutOfMemory(" ".join(reason.split())[:120])


def reads_to_end(encoder: Encoder, longest: Text, tally: Tally, store: Store | None = None) -> bool:
    """Whether the vector of a text changes without its last words.

    Tokenizers, services and wrappers may cut texts without saying so, and this is the only sign of it.

    Args:
        store: where vectors are looked for and kept, for a model that should not be asked twice.

    Raises:
        FairspanError: if the vectors are no numbers, all zero, or the same for any text.
    """

    def vector_of(words: str) -> np.ndarray:
        text = replace(longest, text=words, spans=(), borders=())
        found = {} if store is None else store.get([encoder.key(text)])
        if not found:
            (found,) = _embed(encoder, [text], tally)
            _refuse_unusable([text], [found], tally)
            if store is not None:
                store.put(found)
        return np.asarray(found[encoder.key(text)], dtype=np.float64)

    def is_same(words: str) -> bool:
        return bool(
            np.linalg.norm(whole - vector_of(words)) <= _SAME * float(np.linalg.norm(whole))
        )

    without = longest.text[:-_TAIL].rstrip()
    if not without:
        return True
    whole = vector_of(longest.text)
    if not is_same(without):
        return True
    # Backwards and a small part: whatever is read of a text, it is not the same in both.
    if is_same(longest.text[::-1]) and is_same(longest.text[: 1 + len(longest.text) // 8]):
        raise FairspanError(
            "the model gives different texts the same vector, so nothing can be measured: check the weights, "
            "the pooling and the tokenizer."
        )
    return False


def _run(encoder: Encoder, batch: Sequence[Text]) -> Results:
    if not any(text.spans for text in batch):
        return [
            {encoder.key(text): vector}
            for text, vector in zip(batch, encoder.vectors(batch), strict=True)
        ]
    return [
        dict(zip(_keys(encoder, text), found, strict=False))
        for text, found in zip(batch, encoder.with_spans(batch), strict=True)
    ]


def _keys(encoder: Encoder, text: Text) -> tuple[bytes, ...]:
    """Where the vector of a text is stored, and where those of its spans are, if it has any."""
    return (encoder.key(text), encoder.span_key(text)) if text.spans else (encoder.key(text),)


def _tokens(texts: Iterable[Text]) -> int:
    return sum(text.length for text in texts)


def _usable(result: dict[bytes, np.ndarray]) -> bool:
    """Whether every vector is finite and none is all zero."""
    return all(
        bool(np.isfinite(found).all()) and bool(found.any(axis=-1).all())
        for found in result.values()
    )


def _refuse_unusable(texts: Sequence[Text], results: Results, tally: Tally) -> None:
    bad = [text for text, result in zip(texts, results, strict=True) if not _usable(result)]
    if bad:
        raise FairspanError(
            f"the model's vector of the text that begins {bad[0].text[:40]!r} is all zero or holds NaN or infinity "
            f"({len(bad)} of {len(texts)} texts in its batch): check the weights and the dtype. {_kept(tally)}"
        )


def _kept(tally: Tally) -> str:
    """Without a number: requests that are under way may still be answered."""
    some = tally.computed or tally.found
    return (
        "What was computed is in the store: the same command continues from there." if some else ""
    )
