"""The fast paths inside whole models, against whole matrices in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

import fairspan
from tests.attention.by_matrices import matrices_instead
from tests.builders.tiny import ARCHITECTURES, POOLINGS, SIDES, words

# Unequal lengths, so that every batch is padded: several baskets, fewer tokens than one basket, and
# next to none.
TEXTS = [words(45, seed=1), words(30, seed=2), words(5, seed=3), words(1, seed=4), ""]
SETTINGS: list[dict[str, Any]] = [
    {"basket_size": 7},
    {"basket_size": 1, "layers": "all"},
    {"basket_size": 128, "layers": "last"},
    {"basket_size": 7, "strength": 0.5, "bos": "original", "eos": "equal", "layers": [1, 3]},
    {"basket_size": 7, "strength": 0.5, "bos": "original", "eos": "original"}
    | {"short_texts": "leave"},
    {"basket_size": 16, "bos": "basket", "eos": "equal", "temperature": 0.8}
    | {"short_texts": "leave"},
    {"basket_size": 7, "temperature": 0.5, "scale_position_bias": True},
    {"strength": 0.0, "temperature": 0.7},
]


# Four layers of float32 arithmetic in another order.
TOLERANCE = 1e-5


def outputs(model: SentenceTransformer, texts: list[Any], **options: Any) -> tuple[Tensor, Tensor]:
    """The texts' vectors [N, d], and the vectors of all their tokens, none left out."""
    with torch.inference_mode():
        features = model(model.preprocess(texts, **options))
        vectors = features["sentence_embedding"]
        return vectors, features["token_embeddings"][features["attention_mask"].bool()]


def error(fast: Tensor, exact: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((fast.double() - exact.double()).abs().max() / exact.double().abs().max())


def assert_agrees(
    fair: SentenceTransformer, texts: list[Any], tolerance: float = TOLERANCE, **options: Any
) -> None:
    """Vectors and the states of all tokens, relative to the largest value."""
    vectors, tokens = outputs(fair, texts, **options)
    with matrices_instead():
        wanted_vectors, wanted_tokens = outputs(fair, texts, **options)
    assert error(vectors, wanted_vectors) <= tolerance
    assert error(tokens, wanted_tokens) <= tolerance


def whole_cross() -> Iterator[Any]:
    """Every architecture with every pooling, of which one is quick, and on both sides. The settings
    go by turns, so that every architecture and every pooling meets all of them."""
    for number, architecture in enumerate(ARCHITECTURES):
        for place, pooling in enumerate(POOLINGS):
            marks = () if (number + place) % 3 == 0 else pytest.mark.slow
            kind = (architecture, pooling, SIDES[(number // 2 + place) % 2])
            yield pytest.param(*kind, SETTINGS[(number + place) % 2 :: 2], marks=marks)


@pytest.mark.parametrize(("architecture", "pooling", "padding_side", "every"), list(whole_cross()))
def test_fast_paths_agree_with_whole_matrices(
    make_tiny: Callable[..., SentenceTransformer],
    architecture: str,
    pooling: str,
    padding_side: str,
    every: list[dict[str, Any]],
) -> None:
    model = make_tiny(architecture, pooling, padding_side=padding_side)
    for settings in every:
        assert_agrees(fairspan.calibrate(model, **settings), TEXTS)


@pytest.mark.parametrize(
    ("architecture", "pooling", "dtype", "tolerance"),
    [
        ("xlm-roberta", "cls", torch.bfloat16, 0.08),
        ("modernbert", "mean", torch.float16, 0.01),
        ("qwen3", "lasttoken", torch.bfloat16, 0.08),
        ("mpnet", "mean", torch.float16, 0.01),
    ],
)
def test_half_precision_stays_near_the_matrices(
    make_tiny: Callable[..., SentenceTransformer],
    architecture: str,
    pooling: str,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    """Rounding as in the plain model: eight (bfloat16) or eleven bits in each of four layers."""
    model = make_tiny(architecture, pooling)
    fair = fairspan.calibrate(model, basket_size=7, strength=0.5, bos="original").to(dtype)
    fast, _ = outputs(fair, TEXTS)
    with matrices_instead():
        exact, _ = outputs(fair, TEXTS)
    assert error(fast, exact) <= tolerance
