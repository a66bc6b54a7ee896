"""From texts to stored vectors: batches, failures, and what is resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from fairspan.encoding.encoder import Encoder, ObjectEncoder
from fairspan.encoding.fill import Tally, batches, fill, reads_to_end
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from tests.builders.saying import said_by
from tests.builders.tiny import words
from tests.model.test_identity import encoder_of

Make = Callable[..., SentenceTransformer]

# Batches.


def test_a_batch_has_no_more_padding_than_a_pass_costs() -> None:
    lengths = [450, 300, 120, 90, 60, 40, 20, 10]
    sizes = [[lengths[n] for n in batch] for batch in batches(lengths, 1000, pass_tokens=48)]
    assert sizes == [[450], [300], [120, 90], [60, 40], [20, 10]]
    assert len(batches(lengths, 10_000, pass_tokens=10_000)) == 1


@given(
    st.lists(st.integers(1, 600), max_size=80), st.integers(1, 4000), st.integers(1, 9) | st.none()
)
def test_batches_hold_every_text_once_from_long_to_short(
    lengths: list[int], budget: int, most: int | None
) -> None:
    """Longest first, so that a budget too large for memory shows in the first minute."""
    made = batches(lengths, budget, most)
    every = [number for batch in made for number in batch]
    assert sorted(every) == list(range(len(lengths)))
    assert [lengths[number] for number in every] == sorted(lengths, reverse=True)
    for number, batch in enumerate(made):
        longest = lengths[batch[0]]
        assert longest * len(batch) <= budget or len(batch) == 1
        assert most is None or len(batch) <= most
        is_full = longest * (len(batch) + 1) > budget or len(batch) == most
        assert is_full or number == len(made) - 1, "another text would have fitted"


# Filling the store, with encoders whose answers are known.


def texts_of(*lengths: int, spans: bool = False) -> list[Text]:
    return [
        Text(f"text {number} " + "x" * length, length, ((0, 4), (5, 6)) if spans else ())
        for number, length in enumerate(lengths)
    ]


def answer(text: Text) -> np.ndarray:
    """A vector that only this text has."""
    seed = int.from_bytes(hashlib.sha256(text.text.encode()).digest()[:4], "big")
    return np.random.default_rng(seed).standard_normal(6).astype(np.float32)


class Known(Encoder):
    """An encoder of known answers that counts what it is asked, and fails where it is told to."""

    def __init__(self, check: Callable[[Sequence[Text]], None] = lambda batch: None) -> None:
        self.check = check
        self.batches: list[list[str]] = []
        self.bad: dict[str, np.ndarray] = {}

    @property
    def encoded(self) -> list[str]:
        return [text for batch in self.batches for text in batch]

    def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
        self.check(batch)
        self.batches.append([text.text for text in batch])
        return [self.bad.get(text.text, answer(text)) for text in batch]

    def with_spans(self, batch: Sequence[Text]) -> list[np.ndarray]:
        return [np.outer([1.0, 2.0, 3.0], vector) for vector in self.vectors(batch)]

    def key(self, text: Text) -> bytes:
        return hashlib.sha256(f"{text.text} {text.spans}".encode()).digest()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def run_fill(
    encoder: Any, texts: Sequence[Text], store: Store, budget: int = 40, **options: Any
) -> Tally:
    tally = Tally()
    fill(encoder, texts, store, budget=budget, tally=tally, **options)
    return tally


def assert_stored(store: Store, encoder: Known, texts: Sequence[Text]) -> None:
    found = store.get(encoder.key(text) for text in texts)
    for text in texts:
        assert np.array_equal(found[encoder.key(text)], answer(text))


def test_each_text_is_encoded_once(store: Store) -> None:
    """Twice in the list, once through the model; a second round finds everything."""
    texts = texts_of(5, 9, 9, 30, 2, 17)
    encoder, told = Known(), {False: 0, True: 0}

    def tell(tokens: int, stored: bool) -> None:
        told[stored] += tokens

    tally = run_fill(encoder, texts + texts[:3], store, progress=tell)
    assert sorted(encoder.encoded) == sorted(text.text for text in texts)
    assert (tally.computed, tally.stored, tally.halved) == (6, 0, 0)
    assert tally.computed_tokens == 72
    assert_stored(store, encoder, texts)
    again = run_fill(encoder, texts, store, progress=tell)
    assert len(encoder.encoded) == 6
    assert (again.computed, again.stored) == (0, 6)
    assert told == {False: 72, True: 72}


def test_spans_come_from_the_same_pass_as_their_text(store: Store) -> None:
    """A text with spans has an entry of its own: its vector, and then theirs."""
    plain, spanned = texts_of(5, 9), texts_of(5, 9, spans=True)
    encoder = Known()
    run_fill(encoder, plain, store)
    tally = run_fill(encoder, spanned, store)
    assert tally.computed == 2
    assert_stored(store, encoder, plain)
    stored = store.get(encoder.key(text) for text in spanned)
    for text in spanned:
        by_hand = np.outer([1.0, 2.0, 3.0], answer(text)).astype(np.float32)
        assert np.array_equal(stored[encoder.key(text)].reshape(3, 6), by_hand)
    assert run_fill(encoder, spanned, store).stored == 2


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 5.00 GB)"),
    ],
    ids=["cuda", "python", "cpu", "mps"],
)
def test_batches_are_halved_until_they_fit(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """More than three texts at once do not fit: the results are the same."""

    def at_most_three(batch: Sequence[Text]) -> None:
        if len(batch) > 3:
            raise error

    monkeypatch.setattr("gc.collect", lambda: 0)  # most of a second in a process full of models
    texts = texts_of(*[10] * 7, *[4] * 5)
    encoder, told = Known(at_most_three), list[int]()
    report = lambda tokens, stored: told.append(tokens)  # noqa: E731
    tally = run_fill(encoder, texts, store, budget=1000, progress=report)
    # 12 → 6 and 6, and each 6 → 3 and 3.
    assert (tally.halved, tally.computed) == (3, 12)
    assert [len(batch) for batch in encoder.batches] == [3, 3, 3, 3]
    # Longest first, and in the order in which they came, as in the whole batch.
    assert encoder.encoded == [text.text for text in texts]
    assert_stored(store, encoder, texts)
    assert sum(told) == sum(text.length for text in texts)
    (long,) = texts_of(60)
    encoder.check = lambda batch: at_most_three([*batch] * 4)
    said = said_by(run_fill, encoder, [long], store)
    assert "one text of 60 tokens does not fit into memory" in said


@pytest.mark.parametrize(
    "bad",
    [np.full(6, np.nan), np.array([1, 2, np.inf, 4, 5, 6]), np.zeros(6)],
    ids=["nan", "infinity", "zero"],
)
def test_a_vector_that_is_none_is_refused_and_the_others_are_kept(
    store: Store, bad: np.ndarray
) -> None:
    texts = texts_of(10, 10, 10, 10, 3, 3)
    encoder = Known()
    encoder.bad[texts[1].text] = bad
    line = said_by(run_fill, encoder, texts, store, budget=40)
    assert "is all zero or holds NaN or infinity" in line
    assert "text 1" in line
    assert_stored(store, encoder, [texts[0], *texts[2:4]])
    assert store.missing(encoder.key(text) for text in texts) == {
        encoder.key(texts[n]) for n in (1, 4, 5)
    }
    # Once the model is put right, only those three are left to do.
    del encoder.bad[texts[1].text]
    tally = run_fill(encoder, texts, store, budget=40)
    assert (tally.computed, tally.stored) == (3, 3)


def test_a_batch_that_fails_loses_none_before_it(store: Store) -> None:
    """The second of three batches fails: the next run does the other two."""
    texts = texts_of(20, 20, 10, 10, 10, 10, 5)
    failing = [True]

    def fail_on_tens(batch: Sequence[Text]) -> None:
        if failing[0] and batch[0].length == 10:
            raise ValueError("wrong\nshape")

    encoder = Known(fail_on_tens)
    said = said_by(run_fill, encoder, texts, store, budget=40)
    assert "the model failed on a batch of 4 texts of up to 10 tokens (ValueError: wrong sh" in said
    assert "What was computed is in the store: the same command continues from there" in said
    assert_stored(store, encoder, texts[:2])
    failing[0] = False
    tally = run_fill(encoder, texts, store, budget=40)
    assert (tally.computed, tally.stored) == (5, 2)
    assert encoder.encoded == [text.text for text in texts], "no text went through the model twice"


def test_what_is_resumed_is_the_same_to_the_last_bit_and_what_is_shared_up_to_rounding(
    make_tiny: Make,
) -> None:
    """Batches of six texts: stopped between two of them, and begun by a run that has every third.

    A float32 has 24 bits, and a vector here is the end of some hundred sums: 1e-5 is room enough.
    """
    encoder = encoder_of(make_tiny("bert", "mean"), "paper")
    texts = [Text(words(20 + number, number), 22 + number) for number in range(24)]
    keys = [encoder.key(text) for text in texts]
    begun: list[int] = []

    def stop(tokens: int, stored: bool) -> None:
        if not stored:
            raise KeyboardInterrupt

    def vectors(first: Sequence[Text], **options: Any) -> np.ndarray:
        with Store(":memory:") as store:
            with suppress(KeyboardInterrupt):
                run_fill(encoder, first, store, 6 * 46, **options)
            begun.append(len(store.get(keys)))
            run_fill(encoder, texts, store, 6 * 46)
            stored = store.get(keys)
        return np.stack([stored[key] for key in keys])

    whole = vectors(texts)
    assert vectors(texts, progress=stop).tobytes() == whole.tobytes()
    longest = np.linalg.norm(whole, axis=1).max()
    assert np.linalg.norm(vectors(texts[::3]) - whole, axis=1).max() <= 1e-5 * longest
    assert begun == [24, 6, 8], "the premise"


class Noisy:
    """The mean of the vectors of a text's first words, off by a little on every call, as a model in
    half precision is whose texts share a batch with others."""

    def __init__(self, words: int | None, noise: float) -> None:
        self.words, self.noise = words, noise
        self.rng = np.random.default_rng(5)

    def encode(self, sentences: list[str], /) -> np.ndarray:
        rows = []
        for sentence in sentences:
            seeds = [int.from_bytes(word.encode()[:4]) for word in sentence.split()[: self.words]]
            mean = np.mean([np.random.default_rng(seed).normal(size=64) for seed in seeds], axis=0)
            rows.append(mean / np.linalg.norm(mean) + self.rng.normal(size=64) * self.noise / 8)
        return np.stack(rows)


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize(("read", "reads"), [(None, True), (50, False)])
def test_a_noisy_model_that_cuts_texts_is_told_from_one_that_does_not(
    read: int | None, reads: bool, noise: float
) -> None:
    text = words(200)
    assert reads_to_end(ObjectEncoder(Noisy(read, noise)), Text(text, 200), Tally()) is reads
