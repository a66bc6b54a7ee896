"""Even pooling: against least squares, as a set of tokens, and as a module of a model."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor
from torch.nn.functional import cosine_similarity

import fairspan
from fairspan.errors import DesignError, FairspanError
from fairspan.model import EvenPooling, even
from fairspan.model.even import pool_evenly
from tests.attention.reference import even_vector
from tests.builders.kinds import Kind
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]

RIDGES = [0.02, 0.1, 0.2, 1.0]
TILED = {"tile_size": 7, "pooling": "even"}


def tokens_of(count: int, width: int = 48, *, common: float = 0.5, seed: int = 0) -> Tensor:
    """[count, width]: tokens of different lengths that have a direction in common."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.ones(width) * common
    tokens = torch.randn(count, width, generator=generator) + direction
    return tokens * torch.rand(count, 1, generator=generator).add(0.5)


def about_something_else(count: int) -> Tensor:
    """[count, 48]: tokens with another direction in common."""
    return tokens_of(count, common=0.8, seed=1) * torch.tensor([1.0, -1.0]).repeat(24)


def pooled(tokens: Tensor, ridge: float = 0.2) -> Tensor:
    """[d]: the even vector of one text by the fast path."""
    ridges = torch.full((1, 1), ridge)
    return pool_evenly(tokens[None], torch.ones(1, len(tokens)), ridge, ridges)[0]


def states_of(model: SentenceTransformer, texts: list[str], prompt: str = "") -> list[Tensor]:
    """The hidden states [n, d] of each text, which is read alone."""
    with torch.inference_mode():
        batches = [model[0](model.preprocess([text], prompt=prompt or None)) for text in texts]
    return [features["token_embeddings"][0] for features in batches]


def difference(vector: Tensor, other: Tensor) -> float:
    """1 − cosine."""
    return 1 - float(cosine_similarity(vector.double(), other.double(), dim=-1).min())


@pytest.mark.parametrize("ridge", RIDGES)
def test_the_reference_is_a_least_squares_fit(ridge: float) -> None:
    """argmin Σ a·(1 − v·u)² + c·|m|²·|v|² over directions u and shares a of the lengths of tokens,
    as rows and right-hand sides that numpy solves."""
    tokens = tokens_of(30).double().numpy()
    length = np.linalg.norm(tokens, axis=1, keepdims=True)
    share = np.sqrt(length / length.sum())
    weight = np.sqrt(ridge) * np.linalg.norm(tokens.sum(axis=0)) / length.sum()
    rows = np.concatenate([share * tokens / length, weight * np.eye(48)])
    v, *_ = np.linalg.lstsq(rows, np.concatenate([share[:, 0], np.zeros(48)]), rcond=None)
    reference = even_vector(torch.from_numpy(tokens), ridge)
    assert difference(torch.from_numpy(v), reference) < 1e-12
    assert float(reference.norm()) == pytest.approx(np.linalg.norm(tokens.mean(axis=0)))


TEXTS = {
    "one": tokens_of(1),
    "two": tokens_of(2),
    "fewer than dimensions": tokens_of(40),
    "many": tokens_of(3000),
    "nothing in common": tokens_of(500, common=0.0),
    "nearly one direction": tokens_of(500, common=20.0),
    "almost opposite": torch.cat([tokens_of(60), -tokens_of(58)]),
    "one passage ten times": torch.cat([tokens_of(50), *[tokens_of(20, seed=1)] * 10]),
}


@pytest.mark.parametrize("ridge", RIDGES)
def test_the_fast_path_gives_the_reference(ridge: float) -> None:
    for name, tokens in TEXTS.items():
        assert difference(pooled(tokens, ridge), even_vector(tokens, ridge)) <= 1e-6, name


def test_a_long_text_is_pooled_in_the_memory_of_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies are made of a part at a time, whose products are summed up."""
    count = 10_000
    monkeypatch.setattr(even, "_LONG", 9_000)
    lengths = []

    def seen(tokens: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        lengths.append(tokens.shape[1])
        return scaled(tokens, *rest)

    scaled = even._scaled
    monkeypatch.setattr(even, "_scaled", seen)
    tokens = tokens_of(count)
    assert difference(pooled(tokens), even_vector(tokens, 0.2)) <= 1e-6
    assert max(lengths) <= 2**12
    assert sum(lengths) == count
    pooling = EvenPooling(48, ridge=0.2)
    vector = pooling({"token_embeddings": tokens[None]})["sentence_embedding"][0]
    assert difference(vector, even_vector(tokens, 0.2)) <= 1e-6
    assert float(vector.norm()) == pytest.approx(float(tokens.mean(dim=0).norm()), rel=1e-4)


def test_it_is_a_function_of_the_set_of_tokens() -> None:
    tokens = tokens_of(200)
    passage = about_something_else(20)
    vector = pooled(tokens)
    assert difference(pooled(tokens.flip(0)), vector) < 1e-6
    assert difference(pooled(torch.cat([tokens, tokens])), vector) < 1e-6
    assert difference(pooled(tokens[:1]), tokens[0]) < 1e-6
    # What is repeated moves the vector less than it moves the mean.
    repeated = torch.cat([tokens, *[passage] * 10])
    before, after = tokens.mean(dim=0), repeated.mean(dim=0)
    assert difference(pooled(repeated), vector) < 0.7 * difference(after, before)
    # Without bound the ridge leaves the mean.
    assert difference(pooled(tokens, 1e6), before) < 1e-6


def test_it_makes_what_is_said_once_more_visible() -> None:
    """Nine tenths of the tokens are about one thing: the tenth is nearer to the even vector."""
    theme = tokens_of(180, common=0.8)
    aside = about_something_else(20)
    text = torch.cat([theme, aside])
    mean = text.mean(dim=0)
    near = cosine_similarity(aside, pooled(text)[None]).mean()
    assert near > cosine_similarity(aside, mean[None]).mean() + 0.02


def test_gradients_are_those_of_finite_differences() -> None:
    tokens = tokens_of(12, 5).double()[None].expand(2, -1, -1).clone().requires_grad_()
    mask = torch.ones(2, 12)
    mask[1, 9:] = 0
    ridges = torch.tensor([[0.2], [0.6]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: pool_evenly(x, mask, 0.2, ridges), tokens)


CASES = [
    (("bert", "mean", "right"), {"pooling": "even"}),
    (("bert", "mean", "right"), {"pooling": "even", "basket_size": 7, "strength": 1.0}),
    (("mpnet", "mean", "right"), {**TILED, "ridge": 0.05, "temperature": 0.8}),
    (("qwen3", "mean", "left"), TILED),
]


@pytest.mark.parametrize(("kind", "fields"), CASES)
def test_a_model_pools_the_tokens_that_it_gives(
    make_kind: Make, kind: Kind, fields: dict[str, Any]
) -> None:
    """Padding on either side, with texts of one tile."""
    fair = fairspan.calibrate(make_kind(kind), "plain", **fields)
    texts = [words(count, seed=count) for count in (60, 3, 41, 0, 1)]
    vectors = fair.encode(texts, convert_to_tensor=True)
    ridge = fields.get("ridge", 0.2)
    for vector, states in zip(vectors, states_of(fair, texts), strict=True):
        expected = even_vector(states, ridge)
        assert difference(vector, expected) <= 1e-6
        assert float(vector.norm()) == pytest.approx(float(expected.norm()), rel=1e-5)


def test_the_mean_of_a_long_text_in_float16_is_finite() -> None:
    """10,000 tokens of which one number is 8: their sum is above what float16 holds, 65,504."""
    tokens = (tokens_of(10_000) + 0.5).half()
    tokens[:, 3] = 8
    features = {"token_embeddings": tokens[None], "attention_mask": torch.ones(1, len(tokens))}
    pooling = EvenPooling(tokens.shape[1], pooling_mode="mean", ridge=0.2)
    vector = pooling(features)["sentence_embedding"][0]
    assert difference(vector, even_vector(tokens, 0.2)) <= 2e-3, "float16 has 11 bits"


def test_prompts_are_not_pooled_where_the_model_says_so(make_kind: Make) -> None:
    for side in ("right", "left"):
        plain = make_kind(("bert", "mean", side))
        plain[1].include_prompt = False
        fair = fairspan.calibrate(plain, "plain", **TILED)
        texts = [words(30), words(20, seed=1)]
        vectors = fair.encode(texts, prompt="w1 w2 ", convert_to_tensor=True)
        for vector, states in zip(vectors, states_of(fair, texts, "w1 w2 "), strict=True):
            assert difference(vector, even_vector(states[3:], 0.2)) < 1e-6


def test_half_precision_is_pooled_in_float32(make_kind: Make) -> None:
    plain = make_kind(("bert", "mean", "right")).bfloat16()
    fair = fairspan.calibrate(plain, "plain", **TILED)
    vector = fair.encode(words(60), convert_to_tensor=True)
    (states,) = states_of(fair, [words(60)])
    assert vector.dtype == torch.bfloat16
    # Each number is rounded once, by 2⁻⁹ of itself at most.
    assert difference(vector, even_vector(states, 0.2)) < 2 ** (-2 * 9)


def test_texts_that_fit_keep_their_vectors(make_tiny: Make) -> None:
    """Bit for bit in a batch of such texts, and up to rounding beside longer ones."""
    plain = make_tiny("bert", "mean")
    fair = fairspan.calibrate(plain, "plain", short_texts="leave", **TILED)
    short = [words(count, seed=count) for count in (1, 20, 510)]
    expected = plain.encode(short)
    assert (fair.encode(short) == expected).all()
    with torch.inference_mode():  # `encode` would sort them
        features = fair(fair.preprocess([*short, words(1020)]))
    mixed = features["sentence_embedding"].numpy()
    every = [*expected, fair.encode(words(1020))]
    assert np.allclose(mixed, every, rtol=0, atol=1e-5 * np.abs(expected).max())
    # One token more, and the text is in tiles of 7, with a ridge that begins at its mean.
    for count in (511, 1020):
        (states,) = states_of(fair, [words(count)])
        ridge = 0.2 * (count + 2) / (count - 510)
        assert (
            difference(
                fair.encode(words(count), convert_to_tensor=True), even_vector(states, ridge)
            )
            < 1e-6
        )
    assert fair[0].tiling.at_once == 512


def test_it_is_saved_with_the_model_and_taken_out_again(make_tiny: Make, tmp_path: Path) -> None:
    plain = make_tiny("bert", "mean", normalize=True)
    fair = fairspan.calibrate(plain, "plain", ridge=0.07, **TILED)
    text = words(60)
    vector = fair.encode(text)
    assert type(plain[1]) is Pooling
    fair.save_pretrained(str(tmp_path / "fair"))
    assert '"fairspan.model.EvenPooling"' in (tmp_path / "fair" / "modules.json").read_text()
    loaded = fairspan.load(tmp_path / "fair")
    assert isinstance(loaded[1], EvenPooling)
    assert (loaded[1].ridge, loaded[1].pooling_mode) == (0.07, "mean")
    assert (loaded.encode(text) == vector).all()
    assert (pickle.loads(pickle.dumps(fair)).encode(text) == vector).all()
    assert np.allclose(fair.encode(text, truncate_dim=8), vector[:8])
    again = fairspan.calibrate(loaded, "plain", tile_size=7)
    expected = fairspan.calibrate(plain, "plain", tile_size=7).encode(text)
    assert type(again[1]) is Pooling
    assert (again.encode(text) == expected).all()
    assert (fairspan.calibrate(loaded, "plain").encode(text) == plain.encode(text)).all()


class Another(Pooling):  # type: ignore[misc]
    """A pooling module of somebody else."""


REFUSED = {
    "cls": "this model's Pooling pools by cls",
    "mean_sqrt_len_tokens": "pools by mean_sqrt_len_tokens",
    ("cls", "mean"): "pools by cls and mean",
    "another": "this model's Another pools by mean",
}


@pytest.mark.parametrize(("mode", "line"), REFUSED.items(), ids=str)
def test_other_poolings_are_refused_by_name(make_kind: Make, mode: Any, line: str) -> None:
    plain = make_kind(("bert", "mean", "right"))
    if mode == "another":
        plain[1].__class__ = Another
    else:
        plain[1].pooling_mode = mode
    with pytest.raises(DesignError, match=f"{line}, and even pooling replaces the mean"):
        fairspan.calibrate(plain, "plain", pooling="even")
    fair = fairspan.calibrate(plain, "plain", tile_size=7, pooling="auto")
    assert fair[0].calibration.pooling == "model"
    assert type(fair[1]) is type(plain[1])


def test_hidden_states_that_are_not_finite_name_their_text(make_kind: Make) -> None:
    plain = make_kind(("bert", "mean", "right"))
    fair = fairspan.calibrate(plain, "plain", pooling="even")
    for broken in (torch.nan, torch.inf):
        fair[0].model.embeddings.word_embeddings.weight.data[5 + 77] = broken
        with pytest.raises(FairspanError, match=r"text 2 of 3 in its batch, which begins '<s> w77"):
            fair.encode(["w1 w2 w3", "w77 w3", "w2"])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_large_batch_is_pooled_text_by_text(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    """With a prompt that is not pooled, and a text that has no other tokens."""
    plain = make_tiny("bert", "mean", padding_side=side)
    pooling = Pooling(plain[1].embedding_dimension, "mean", include_prompt=False)
    model = SentenceTransformer(modules=[plain[0], pooling], device="cpu")
    fair = fairspan.calibrate(model, "tiles-16", pooling="even")
    texts = [words(90), words(40), words(3), ""]
    expected = fair.encode(texts, prompt="w1 w2 ", convert_to_tensor=True)
    monkeypatch.setattr(even, "_LONG", 100)
    with patch.object(fair[1], "_pool", wraps=fair[1]._pool) as pooled:
        vectors = fair.encode(texts, prompt="w1 w2 ", convert_to_tensor=True)
    shapes = [tuple(call.args[0]["token_embeddings"].shape[:2]) for call in pooled.call_args_list]
    assert shapes == [(1, 94), (1, 44), (1, 7), (1, 4)]
    assert difference(vectors[:3], expected[:3]) <= 1e-6
    assert torch.equal(vectors[3], expected[3])
