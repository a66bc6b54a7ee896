"""Fill the store with the vectors that are missing, batch by batch."""

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing.pool import ThreadPool
from typing import TypeVar

import numpy as np
import torch

from fairspan.encoding.direct import usable
from fairspan.encoding.encoder import Encoder
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text, key_of
from fairspan.errors import FairspanError

# Characters removed from the end: a few words, which change the vector of a whole text.
_TAIL = 30
# Vectors of the same text are taken for the same up to this share of their length.
_SAME = 1e-6
# In half precision, vectors of the same text differ a little. A smaller change than `_NOISY` counts
# if it is `_TIMES` the difference between two answers for the same text.
_NOISY = 0.05
_TIMES = 3

Read = TypeVar("Read")
Made = TypeVar("Made")
Results = Sequence[np.ndarray]
"""What is stored of each text of a batch: [d], or [1 + spans, d]."""
Progress = Callable[[int, bool], None]
"""Called with a number of tokens, and whether their vectors were in the store."""


@dataclass(slots=True)
class Tally:
    """What a run did: computed texts and tokens, texts in the store, batches halved for memory.

    A run that `resumes` continues after a failure; otherwise it would begin again.
    """

    resumes: bool = True
    computed: int = 0
    computed_tokens: int = 0
    stored: int = 0
    halved: int = 0


def batches(
    lengths: Sequence[int],
    budget: int,
    most: int | None = None,
    *,
    pass_tokens: float = math.inf,
) -> list[list[int]]:
    """Numbers of texts, longest first, in batches of at most `budget` tokens and `most` texts.

    Padding counts as tokens. A batch also ends where it would have more padding than `pass_tokens`,
    what another pass costs. Batches depend on the lengths alone and are stored as a whole: an
    interrupted run forms them again and computes identical vectors.
    """
    order = sorted(range(len(lengths)), key=lambda number: (-lengths[number], number))
    formed: list[list[int]] = []
    width = 0
    room = 0
    padding = 0
    for number in order:
        padding += width - lengths[number]
        if room == 0 or padding > pass_tokens:
            formed.append([])
            width = lengths[number]
            room = min(max(1, budget // max(1, width)), most or len(lengths))
            padding = 0
        formed[-1].append(number)
        room -= 1
    return formed


def fill(
    encoder: Encoder,
    texts: Iterable[Text],
    store: Store,
    *,
    budget: int,
    tally: Tally,
    progress: Progress = lambda tokens, stored: None,
) -> None:
    """Embed every text that the store has no vector for; each batch is stored at once.

    What an encoder cuts into chunks is given in chunks.
    """
    different = {encoder.key(text): text for text in texts}
    absent = store.missing(different)
    stored = [text for key, text in different.items() if key not in absent]
    tally.stored += len(stored)
    progress(tokens_read(encoder, stored), True)
    # Batches of all texts, so that those that are missing are in the same ones as before.
    items = list(different.items())
    missing = []
    for batch in batches([text.length for _, text in items], budget, encoder.most):
        keyed = [items[number] for number in batch]
        missing.append([text for key, text in keyed if key in absent])
    for part, results in _computed(encoder, [part for part in missing if part], tally):
        pairs = zip(part, results, strict=True)
        store.put({encoder.key(text): result for text, result in pairs if _usable(result)})
        _refuse_unusable(part, results, tally)
        tokens = tokens_read(encoder, part)
        tally.computed += len(part)
        tally.computed_tokens += tokens
        progress(tokens, False)


def _computed(
    encoder: Encoder, parts: Sequence[list[Text]], tally: Tally
) -> Iterator[tuple[list[Text], Results]]:
    """Batches and their results as they come; requests to an endpoint are sent in parallel.

    After a failure no further batch begins; it is raised when those under way are yielded.
    """
    if encoder.at_once == 1:
        yield from ((part, _embed(encoder, part, tally)) for part in parts)
        return
    failures: list[Exception] = []

    def compute(part: list[Text]) -> tuple[list[Text], Results | None]:
        try:
            return part, None if failures else _embed(encoder, part, tally)
        except Exception as error:
            failures.append(error)
            return part, None

    with ThreadPool(encoder.at_once) as pool:
        for part, results in pool.imap_unordered(compute, parts):
            if results is not None:
                yield part, results
    if failures:
        raise failures[0]


def _embed(encoder: Encoder, batch: Sequence[Text], tally: Tally) -> Results:
    """What is stored of each text of a batch, from one pass."""
    has_spans = any(text.spans for text in batch)
    return embed_batch(
        encoder.with_spans if has_spans else encoder.vectors,
        batch,
        lambda text: text.length,
        tally,
        advice="use shorter documents or a smaller model",
        kept=lambda: _kept(tally),
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
    """What `run` returns for a batch, in halves if it does not fit into memory.

    Whatever fails is one line, with `advice` on a text that does not fit, and what is `kept`.
    """
    try:
        return [*run(batch)]
    except FairspanError as error:  # usually a server that stopped answering
        raise type(error)(f"{error} {kept()}".rstrip()) from None
    except Exception as error:
        reason = " ".join(str(error).split())
        if not is_out_of_memory(error):
            raise FairspanError(
                f"the model failed on a batch of {len(batch)} texts of up to "
                f"{max(map(length, batch)):,} tokens ({type(error).__name__}: "
                f"{reason[:300] or type(error).__name__}). {kept()}"
            ) from error
    # Outside the handler the failed call's frames, and the memory they hold, are gone.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(batch) == 1:
        raise FairspanError(
            f"one text of {length(batch[0]):,} tokens does not fit into memory ({reason[:120]}): "
            f"{advice}. {kept()}"
        )
    tally.halved += 1
    middle = (len(batch) + 1) // 2
    again = partial(embed_batch, run, length=length, tally=tally, advice=advice, kept=kept)
    return [*again(batch[:middle]), *again(batch[middle:])]


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on any device; some raise a plain RuntimeError for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    words = ("can't allocate memory", "out of memory")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def reads_to_end(encoder: Encoder, longest: Text, tally: Tally, store: Store | None = None) -> bool:
    """Whether the vector of a text changes without its last words, by more than when it is asked
    for again.

    Tokenizers, services and wrappers may cut texts silently, and this is the only sign of it. A
    model that should not be asked twice has its vectors kept in `store`.
    """

    def vector_of(words: str, again: bool = False) -> np.ndarray:
        """[d], from the store if it is there; `again` is a vector of its own."""
        text = replace(longest, text=words, spans=(), borders=())
        key = key_of(encoder.key(text).hex(), "again") if again else encoder.key(text)
        stored = {} if store is None else store.get([key])
        if not stored:
            vectors = _embed(encoder, [text], tally)
            _refuse_unusable([text], vectors, tally)
            stored = {key: vectors[0]}
            if store is not None:
                store.put(stored)
        return np.asarray(stored[key], dtype=np.float64)

    def change(vector: np.ndarray) -> float:
        """How far a vector is from that of the whole text, as a share of its length."""
        return float(np.linalg.norm(whole - vector) / np.linalg.norm(whole))

    without = longest.text[:-_TAIL].rstrip()
    if not without:
        return True
    whole = vector_of(longest.text)
    least = _SAME
    changed = change(vector_of(without))
    if _SAME < changed < _NOISY:
        least = max(_SAME, _TIMES * change(vector_of(longest.text, again=True)))
    if changed > least:
        return True
    # Any model that reads its input gives another vector to the reversed text and to its beginning.
    others = (longest.text[::-1], longest.text[: 1 + len(longest.text) // 8])
    if all(change(vector_of(words)) <= least for words in others):
        raise FairspanError(
            "the model gives different texts the same vector, so nothing can be measured: check "
            "the weights, the pooling and the tokenizer."
        )
    return False


def unasked(encoder: Encoder, texts: Iterable[Text], asked: set[bytes]) -> list[Text]:
    """Texts, or their chunks, whose keys are not in `asked` yet; adds their keys to it."""
    new = []
    for text in chain.from_iterable(encoder.pieces(list(texts))):
        key = encoder.key(text)
        if key not in asked:
            new.append(text)
            asked.add(key)
    return new


def tokens_read(encoder: Encoder, texts: Iterable[Text]) -> int:
    """The number of tokens of these texts that the encoder reads."""
    window = encoder.window
    return sum(text.length if window is None else min(text.length, window) for text in texts)


def _usable(vectors: np.ndarray) -> bool:
    """Whether every vector is finite and none is all zero."""
    return bool(usable(np.atleast_2d(vectors)).all())


def _refuse_unusable(texts: Sequence[Text], results: Results, tally: Tally) -> None:
    bad = [text for text, result in zip(texts, results, strict=True) if not _usable(result)]
    if bad:
        raise FairspanError(
            f"the model's vector of the text that begins {bad[0].text[:40]!r} is all zero or holds "
            f"NaN or infinity ({len(bad)} of {len(texts)} texts in its batch): check the weights "
            f"and the dtype. {_kept(tally)}"
        )


def _kept(tally: Tally) -> str:
    """What a failure does not lose. Without a number: pending requests may still be answered."""
    if not tally.resumes or not (tally.computed or tally.stored):
        return ""
    return "What was computed is in the store: the same command continues from there."
