"""`DirectEncoder` gives what `encode_document` and `encode_query` give, and tokenises once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding

import fairspan
from fairspan.encoding.direct import DirectEncoder
from tests.builders.tiny import tiny_tokenizer, words

MakeTiny = Callable[..., SentenceTransformer]
TEXTS = [words(3), words(170, 1), words(40, 2), ""]
# Sums of a few hundred float32 products in another order; the vectors are of length 1 or a few.
ROUNDING = {"rtol": 1e-4, "atol": 2e-6}


@pytest.fixture
def make_own(make_tiny: MakeTiny) -> MakeTiny:
    """Models that a test may change."""
    return lambda *kind, **options: copy.deepcopy(make_tiny(*kind, **options))


@pytest.mark.parametrize(
    ("architecture", "preset", "padding_side"),
    [
        ("bert", "plain", "right"),
        ("qwen3", "tiles-64", "left"),
        ("mpnet", "tiles-64", "right"),
        *(
            pytest.param(*kind, marks=pytest.mark.slow)
            for kind in (
                *(("modernbert", "tiles-64", "left"), ("t5", "tiles-64", "right")),
                *(("distilbert", "plain", "left"), ("mpnet", "plain", "left")),
            )
        ),
    ],
)
def test_vectors_are_those_of_the_model(
    make_own: MakeTiny, architecture: str, preset: str, padding_side: str
) -> None:
    model = make_own(architecture, "mean", padding_side=padding_side)
    model.prompts = {"query": "w1 w2 ", "document": "w7 "}
    fair = fairspan.calibrate(model, preset, sides="document") if preset != "plain" else model
    for side, encode in (("document", fair.encode_document), ("query", fair.encode_query)):
        encoder = DirectEncoder(fair, side)
        assert encoder.takes_ids
        np.testing.assert_allclose(
            encoder.vectors(encoder.read(TEXTS)), encode(TEXTS, batch_size=4), **ROUNDING
        )


@pytest.mark.parametrize("cut_side", ["right", "left"])
def test_lengths_and_what_is_cut(make_own: MakeTiny, cut_side: str) -> None:
    model = make_own("bert", "cls")
    model.max_seq_length = 20
    model.tokenizer.truncation_side = cut_side
    model.prompts = {"document": "w7 w8 "}
    encoder = DirectEncoder(model)
    short, long = encoder.read([words(5), words(100)])
    # Two special tokens and two of the prompt.
    assert (short.length, short.read, short.cut) == (9, 9, False)
    assert (long.length, long.read, long.cut) == (104, 20, True)
    np.testing.assert_allclose(
        encoder.vectors([long])[0], model.encode_document(words(100)), **ROUNDING
    )


def test_a_model_without_a_transformer_is_given_texts() -> None:
    static = StaticEmbedding(tiny_tokenizer()._tokenizer, embedding_dim=8)
    model = SentenceTransformer(modules=[static], device="cpu")
    encoder = DirectEncoder(model)
    assert not encoder.takes_ids
    np.testing.assert_array_equal(
        encoder.vectors(encoder.read(["w1 w2", "w3"])), model.encode(["w1 w2", "w3"])
    )


def test_texts_are_counted_while_others_are_computed(make_own: MakeTiny) -> None:
    """A Router is given texts, which its tokenizer cuts; one that counts cuts nothing."""
    model = make_own("bert", "mean")
    model.max_seq_length = 20
    router = Router.for_query_document(list(model.children()), list(model.children()))
    encoder = DirectEncoder(SentenceTransformer(modules=[router], device="cpu"))
    assert not encoder.takes_ids
    texts = [words(100, seed) for seed in range(4)]
    batch = encoder.read(texts)
    expected = encoder.vectors(batch)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(3):
            counting = pool.submit(encoder.read, texts * 128)
            while not counting.done():
                np.testing.assert_allclose(encoder.vectors(batch), expected, **ROUNDING)
            assert {text.length for text in counting.result()} == {102}


def test_a_model_in_training_stays_in_training_and_a_shorter_dimension_is_kept(
    make_own: MakeTiny,
) -> None:
    """Dropout is on in the caller's model, and not in the encoder, whatever comes later."""
    model = make_own("bert", "mean")
    model.truncate_dim = 8
    expected = model.encode_document(TEXTS)
    model.train()
    encoder = DirectEncoder(model)
    assert encoder.takes_ids
    assert all(module.training for module in model.modules())
    np.testing.assert_allclose(encoder.vectors(encoder.read(TEXTS)), expected, **ROUNDING)
    assert all(module.training for module in model.modules())
