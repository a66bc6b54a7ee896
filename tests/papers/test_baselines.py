"""Whitening and last2avg: by hand, and as models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
    WeightedLayerPooling,
)

import baselines
from baselines import last_two, whiten
from tests.builders.saying import said_by
from tests.builders.tiny import HIDDEN, tiny_model, words

Make = Callable[..., SentenceTransformer]

TEXTS = [words(5 + number % 9, seed=number) for number in range(3 * HIDDEN)]
# Texts in padded batches against each text alone: a few float32 roundings (6e-8 each) through four
# layers, of values of order 1.
BY_PADDING = 1e-5
# Whitening divides by the spread of each direction, which multiplies those roundings by at most
# 200 here: the tests check that.
WHITENED, NARROWEST = 1e-3, 5e-3


def vectors_of(model: SentenceTransformer, texts: Sequence[str] = TEXTS) -> np.ndarray:
    return np.asarray(model.encode_document(list(texts)), dtype=np.float64)


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def test_two_dimensions_by_hand() -> None:
    """Variances 8/3 and 2/3 over N − 1 = 3 along the axes, around (5, −1)."""
    vectors = np.array([[7.0, -1], [3, -1], [5, 0], [5, -2]])
    mean, matrix = baselines.fit(vectors, 2)
    assert mean == pytest.approx([5, -1])
    assert matrix == pytest.approx(np.diag([np.sqrt(3 / 8), np.sqrt(3 / 2)]))
    assert baselines.fit(vectors, 1)[1] == pytest.approx(matrix[:, :1]), "that of larger variance"


@pytest.mark.parametrize(
    ("architecture", "pooling", "normalize", "dimensions"),
    [("bert", "cls", False, None), ("qwen3", "lasttoken", True, None), ("t5", "mean", True, 8)],
)
def test_a_whitened_model(
    make_tiny: Make, architecture: str, pooling: str, normalize: bool, dimensions: int | None
) -> None:
    """Against numpy's SVD of the centred vectors, whose signs are arbitrary."""
    model = make_tiny(architecture, pooling, normalize=normalize)
    before = vectors_of(model)
    weights = [weight.data_ptr() for weight in model.parameters()]
    whitened = whiten(model, TEXTS, dimensions)
    # The tiny BERT ends in a LayerNorm without a trained offset: components sum to zero.
    kept = dimensions or (HIDDEN - 1 if architecture == "bert" else HIDDEN)
    assert type(whitened) is SentenceTransformer
    assert whitened.get_embedding_dimension() == kept
    rotated, spreads, _ = np.linalg.svd(before - before.mean(axis=0), full_matrices=False)
    assert spreads[kept - 1] / np.sqrt(len(before) - 1) > NARROWEST, "the premise"
    wanted = rotated[:, :kept] * np.sqrt(len(before) - 1)
    wanted = unit(wanted) if normalize else wanted
    vectors = vectors_of(whitened)
    assert vectors == pytest.approx(wanted * np.sign((wanted * vectors).sum(axis=0)), abs=WHITENED)
    assert [weight.data_ptr() for weight in whitened.parameters()][: len(weights)] == weights
    assert np.array_equal(vectors_of(model), before), "the model is as it was"


def test_both_sides_get_the_map_of_the_documents(make_tiny: Make) -> None:
    """Prompts stay, and each side is read with its own."""
    plain = make_tiny("bert", "mean")
    prompts = {"query": "w1 w2 ", "document": "w3 "}
    model = SentenceTransformer(modules=list(plain.children()), prompts=prompts, device="cpu")
    whitened = whiten(model, TEXTS, 8)
    dense = list(whitened.children())[-1]
    assert isinstance(dense, Dense)
    weight, bias = dense.linear.weight.detach().numpy(), dense.linear.bias.detach().numpy()
    wanted = plain.encode([f"w1 w2 {text}" for text in TEXTS]) @ weight.T + bias
    assert whitened.encode_query(TEXTS) == pytest.approx(wanted, abs=WHITENED)
    assert np.cov(vectors_of(whitened).T) == pytest.approx(np.eye(8), abs=WHITENED)


def last_two_by_hand(model: SentenceTransformer, texts: Sequence[str]) -> np.ndarray:
    """Each text alone: transformers' own hidden states, the last two averaged, then all tokens."""
    vectors = []
    for text in texts:
        tokens = model.tokenizer(text, return_tensors="pt")
        inputs = {name: tokens[name] for name in ("input_ids", "attention_mask")}
        with torch.inference_mode():
            states = model[0].model(**inputs, output_hidden_states=True).hidden_states
        vectors.append(((states[-1] + states[-2]) / 2)[0].mean(dim=0).numpy())
    return np.stack(vectors).astype(np.float64)


@pytest.mark.parametrize(
    ("architecture", "pooling", "side"),
    [("bert", "cls", "right"), ("t5", "mean", "right"), ("qwen3", "lasttoken", "left")],
)
def test_last_two_by_hand(make_tiny: Make, architecture: str, pooling: str, side: str) -> None:
    model = make_tiny(architecture, pooling, padding_side=side)
    before = vectors_of(model)
    averaged = last_two(model)
    assert type(averaged) is SentenceTransformer
    vectors = vectors_of(averaged)
    assert vectors[:20] == pytest.approx(last_two_by_hand(model, TEXTS[:20]), abs=BY_PADDING)
    last = vectors_of(SentenceTransformer(modules=[model[0], Pooling(HIDDEN, "mean")]))
    assert all(np.abs(vectors - other).max() > 0.1 for other in (last, before)), "the premise"
    assert not model[0].model.config.output_hidden_states
    assert np.array_equal(vectors_of(model), before), "the model is as it was"


def test_modules_after_the_pooling_are_kept(make_tiny: Make) -> None:
    plain = make_tiny("t5", "mean")
    dense = Dense(HIDDEN, 5, activation_function=torch.nn.Tanh())
    model = SentenceTransformer(modules=[plain[0], plain[1], dense, Normalize()], device="cpu")
    averaged = last_two(model)
    with torch.inference_mode():
        features = {"sentence_embedding": torch.tensor(last_two_by_hand(plain, TEXTS[:20])).float()}
        wanted = dense(features)["sentence_embedding"].double().numpy()
    assert vectors_of(averaged, TEXTS[:20]) == pytest.approx(unit(wanted), abs=BY_PADDING)
    kinds = [type(module) for module in averaged.children()]
    assert kinds == [Transformer, WeightedLayerPooling, Pooling, Dense, Normalize]


@pytest.mark.parametrize("make", [lambda model: whiten(model, TEXTS), last_two])
def test_saved_and_loaded_by_sentence_transformers(
    make_tiny: Make, tmp_path: Path, make: Callable[[Any], SentenceTransformer]
) -> None:
    made = make(make_tiny("bert", "cls", normalize=True))
    made.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.array_equal(vectors_of(loaded), vectors_of(made))


def test_bad_input_is_one_line(make_tiny: Make, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    static = StaticEmbedding(model.tokenizer, embedding_dim=8)
    unsuited = SentenceTransformer(modules=[static], device="cpu")
    shallow = tiny_model(tmp_path, "bert", "mean", num_hidden_layers=1)
    few = f"needs at least {2 * HIDDEN} different texts, got {HIDDEN}: give more texts"
    for call, said in (
        ((whiten, model, TEXTS[:HIDDEN] * 3), few),
        ((whiten, model, TEXTS, 33), "from 1 to 32, got 33"),
        ((baselines.fit, np.ones((9, 3)), 3), "all 9 vectors are the same"),
        ((last_two, unsuited), "this model has StaticEmbedding"),
        ((last_two, shallow), "BertModel does not give the hidden states of two layers"),
    ):
        assert said in said_by(*call)
