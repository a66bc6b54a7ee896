"""Fill the store with what is missing, batch by batch, by a model that reads texts to their end."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from fairspan.encoding.corrected import CorrectedEncoder
from fairspan.encoding.encoder import ChunkEncoder, Encoder, ObjectEncoder, Text
from fairspan.encoding.parallel import in_parallel
from fairspan.encoding.store import Store
from fairspan.errors import EncodingError, FairspanError

# Characters taken from the end: a few words, which no reader of the whole text can miss.
_TAIL = 30
# Two passes over the same tokens differ by rounding only, here with room for half precision.
_SAME = 1e-6
# Texts whose chunks are read from the store at once.
_AT_ONCE = 1000

Computed = TypeVar("Computed")
Progress = Callable[[int], None]
"""Called with the number of tokens that were just computed or found in the store."""


@dataclass(slots=True)
class Tally:
    """What a run did: texts and tokens computed, texts that the store had, and batches halved for memory."""

    computed: int = 0
    computed_tokens: int = 0
    found: int = 0
    halved: int = 0


def batches(lengths: Sequence[int], budget: int, most: int | None = None) -> list[list[int]]:
    """Numbers of texts in batches, longest first, of at most `budget` tokens with padding; one text at least.

    A batch has at most `most` texts.

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
            room = max(1, budget // max(1, lengths[number]))
            room = room if most is None else min(room, most)
        made[-1].append(number)
        room -= 1
    return made


def fill(
    encoder: Encoder, texts: Sequence[Text], store: Store, *, budget: int, tally: Tally, progress: Progress
) -> None:
    """Embed every text that the store has no vector for. Each batch is stored as soon as it is there."""
    if isinstance(encoder, ChunkEncoder):
        _fill_means(encoder, texts, store, budget=budget, tally=tally, progress=progress)
        return
    if isinstance(encoder, CorrectedEncoder):
        fill(encoder.alone, texts, store, budget=budget, tally=tally, progress=progress)
        _correct(encoder, texts, store)
        return
    different = list({(text.text, text.spans, text.borders): text for text in texts}.values())
    progress(sum(text.length for text in texts) - sum(text.length for text in different))
    absent = store.missing([key for text in different for key in _keys(encoder, text)])
    most, at_once = (encoder.most, encoder.at_once) if isinstance(encoder, ObjectEncoder) else (None, 1)
    waiting = []
    for batch in batches([text.length for text in different], budget, most):
        members = [different[number] for number in batch]
        wanted = [text for text in members if any(key in absent for key in _keys(encoder, text))]
        tally.found += len(members) - len(wanted)
        progress(sum(t.length for t in members) - sum(t.length for t in wanted))
        if wanted and at_once > 1:
            waiting.append(wanted)
        elif wanted:
            _embed(encoder, wanted, store, tally, progress)
    for part, results in in_parallel(lambda part: embed(encoder, part, tally), waiting, at_once):
        _keep(part, results, store, tally, progress)


def _fill_means(
    encoder: ChunkEncoder, texts: Sequence[Text], store: Store, *, budget: int, tally: Tally, progress: Progress
) -> None:
    """Embed the chunks of every text, and store their means beside them."""
    chunks = dict(zip(texts, encoder.chunks(texts), strict=True))
    absent = store.missing([encoder.key(text) for text in chunks])
    wanted = [text for text in chunks if encoder.key(text) in absent]
    tally.found += len(chunks) - len(wanted)
    tokens = sum(text.length for text in wanted)
    progress(sum(text.length for text in texts) - tokens)
    pieces = [chunk for text in wanted for chunk in chunks[text]]
    scaled = _in_proportion(progress, tokens, sum(piece.length for piece in pieces))
    fill(encoder.alone, pieces, store, budget=budget, tally=tally, progress=scaled)
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        found = store.get(encoder.alone.key(chunk) for text in part for chunk in chunks[text])
        vectors = {text: [found[encoder.alone.key(chunk)] for chunk in chunks[text]] for text in part}
        store.put({encoder.key(text): encoder.mean(text, own) for text, own in vectors.items()})


def _correct(encoder: CorrectedEncoder, texts: Sequence[Text], store: Store) -> None:
    """Store the corrected vectors of texts beside those that they are made of."""
    keys = {encoder.key(text): text for text in texts}
    absent = store.missing(keys)
    wanted = [(key, text) for key, text in keys.items() if key in absent]
    for start in range(0, len(wanted), _AT_ONCE):
        names, part = zip(*wanted[start : start + _AT_ONCE], strict=True)
        found = store.get(encoder.alone.key(text) for text in part)
        corrected = encoder.correct(part, [found[encoder.alone.key(text)] for text in part])
        store.put(dict(zip(names, corrected, strict=True)))


def _in_proportion(progress: Progress, tokens: int, of: int) -> Progress:
    """Scales progress over `of` tokens to progress over `tokens`."""
    done = 0

    def advance(more: int) -> None:
        nonlocal done
        before, done = done, done + more
        progress(tokens * done // max(1, of) - tokens * before // max(1, of))

    return advance


def embed(encoder: Encoder, batch: Sequence[Text], tally: Tally) -> list[dict[bytes, np.ndarray]]:
    """The results of one batch by key, whatever the model's failure in one line.

    Raises:
        OutOfMemory: if the batch has several texts and could be halved.
    """
    try:
        return within_memory(lambda: _run(encoder, batch))
    except OutOfMemory as error:
        if len(batch) > 1:
            raise
        raise EncodingError(
            f"one text of {batch[0].length} tokens does not fit into memory ({error}): use shorter documents or a "
            f"smaller model. {_kept(tally)}"
        ) from None
    except EncodingError as error:
        # Most often a server that stopped answering, while other requests may still be answered.
        kept = " What was answered is in the store: the same command continues from there." if tally.computed else ""
        raise EncodingError(error.message + kept) from None
    except FairspanError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise EncodingError(
            f"the model failed on a batch of {len(batch)} texts of up to {max(t.length for t in batch)} tokens "
            f"({type(error).__name__}: {reason}). {_kept(tally)}"
        ) from error


def refuse_unread_end(encoder: Encoder, longest: Text, tally: Tally, store: Store | None = None) -> None:
    """Raise if the vector of a text stays the same when its last words are gone."""
    if not reads_to_end(encoder, longest, tally, store):
        raise EncodingError(
            f"the model does not read its longest document ({len(longest.text)} characters) to the end: the vector "
            "stays the same without the last words. Raise the limit of the model or its tokenizer, or use shorter "
            "documents."
        )


def reads_to_end(encoder: Encoder, longest: Text, tally: Tally, store: Store | None = None) -> bool:
    """Whether the vector of a text changes when its last words are gone.

    Tokenizers, services and wrappers may cut texts without saying so, and this is the only sign of it.

    Args:
        store: where vectors are looked for and kept, for a model that should not be asked twice.

    Raises:
        EncodingError: if the vectors are no numbers, all zero, or the same for any text.
    """

    def vector_of(words: str) -> np.ndarray:
        text = Text(words, longest.length, language=longest.language, languages=longest.languages)
        found = {} if store is None else store.get([encoder.key(text)])
        if not found:
            (found,) = embed(encoder, [text], tally)
            _refuse_unusable([text], [found], tally)
            if store is not None:
                store.put(found)
        return np.asarray(found[encoder.key(text)], dtype=np.float64)

    without = longest.text[:-_TAIL].rstrip()
    if not without:
        return True
    whole = vector_of(longest.text)

    def is_same(words: str) -> bool:
        return bool(np.linalg.norm(whole - vector_of(words)) <= _SAME * float(np.linalg.norm(whole)))

    if not is_same(without):
        return True
    # Backwards and a small part: whatever is read of a text, it is not the same in both.
    if is_same(longest.text[::-1]) and is_same(longest.text[: 1 + len(longest.text) // 8]):
        raise EncodingError(
            "the model gives different texts the same vector, so that nothing can be measured: check the weights, "
            "the pooling and the tokenizer."
        )
    return False


def _embed(encoder: Encoder, batch: Sequence[Text], store: Store, tally: Tally, progress: Progress) -> None:
    waiting = [list(batch)]
    while waiting:
        part = waiting.pop(0)
        try:
            results = embed(encoder, part, tally)
        except OutOfMemory:
            tally.halved += 1
            middle = (len(part) + 1) // 2
            waiting[:0] = part[:middle], part[middle:]
            continue
        _keep(part, results, store, tally, progress)


def _keep(
    part: Sequence[Text], results: Sequence[dict[bytes, np.ndarray]], store: Store, tally: Tally, progress: Progress
) -> None:
    """Store what is usable of a batch, and raise if something is not."""
    store.put({key: vector for result in results if _usable(result) for key, vector in result.items()})
    _refuse_unusable(part, results, tally)
    tally.computed += len(part)
    tally.computed_tokens += sum(text.length for text in part)
    progress(sum(text.length for text in part))


class OutOfMemory(Exception):  # noqa: N818 - whoever forms batches halves the batch
    pass


def within_memory(compute: Callable[[], Computed]) -> Computed:
    """What `compute` returns.

    Raises:
        OutOfMemory: if memory ran out, on whatever device; what the call held is free again.
    """
    try:
        return compute()
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


def _run(encoder: Encoder, batch: Sequence[Text]) -> list[dict[bytes, np.ndarray]]:
    """The stored form of every text's results."""
    if not any(text.spans for text in batch):
        vectors = encoder.vectors(batch)
        return [{encoder.key(text): vector} for text, vector in zip(batch, vectors, strict=True)]
    both = encoder.with_spans(batch)
    return [
        {encoder.key(text): vector, **({encoder.span_key(text): spans} if text.spans else {})}
        for text, (vector, spans) in zip(batch, both, strict=True)
    ]


def _keys(encoder: Encoder, text: Text) -> list[bytes]:
    return [encoder.key(text), encoder.span_key(text)] if text.spans else [encoder.key(text)]


def _usable(result: dict[bytes, np.ndarray]) -> bool:
    """Whether every vector is finite and none is all zero."""
    return all(bool(np.isfinite(found).all()) and bool(found.any(axis=-1).all()) for found in result.values())


def _refuse_unusable(texts: Sequence[Text], results: Sequence[dict[bytes, np.ndarray]], tally: Tally) -> None:
    bad = [(text, result) for text, result in zip(texts, results, strict=True) if not _usable(result)]
    if bad:
        text, result = bad[0]
        finite = all(np.isfinite(found).all() for found in result.values())
        raise EncodingError(
            f"the model's vector of the text that begins {text.text[:40]!r} "
            f"{'is all zero' if finite else 'holds NaN or infinity'} ({len(bad)} of {len(texts)} texts in its "
            f"batch): check the weights and the dtype. {_kept(tally)}"
        )


def _kept(tally: Tally) -> str:
    return f"{tally.computed + tally.found} texts are in the store: the same command continues from there."
