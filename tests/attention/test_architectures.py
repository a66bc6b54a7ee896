"""The fast paths inside whole models, against whole matrices in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

import fairspan
from tests.attention.by_matrices import matrices_instead
from tests.builders.tiny import ARCHITECTURES, POOLINGS, SIDES, mostly_slow, words

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


def outputs(model: SentenceTransformer, texts: list[str]) -> tuple[Tensor, Tensor]:
    """The texts' vectors [N, d], and the vectors of all their tokens, none left out."""
    with torch.inference_mode():
        features = model(model.preprocess(texts))
        vectors = features["sentence_embedding"]
        return vectors, features["token_embeddings"][features["attention_mask"].bool()]


def error(fast: Tensor, exact: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((fast.double() - exact.double()).abs().max() / exact.double().abs().max())


def whole_cross() -> Iterator[Any]:
    """Every architecture, pooling and side; the sixth that is quick has every architecture once."""
    for number, architecture in enumerate(ARCHITECTURES):
        for place, (pooling, side) in enumerate(product(POOLINGS, SIDES)):
            marks = () if (number + place) % 6 == 0 else pytest.mark.slow
            yield pytest.param(architecture, pooling, side, marks=marks)


@pytest.mark.parametrize(("architecture", "pooling", "padding_side"), list(whole_cross()))
def test_fast_paths_agree_with_whole_matrices(
    make_tiny: Callable[..., SentenceTransformer],
    architecture: str,
    pooling: str,
    padding_side: str,
) -> None:
    """1e-5 of the largest value: four layers of float32 arithmetic in another order."""
    model = make_tiny(architecture, pooling, padding_side=padding_side)
    for settings in SETTINGS if padding_side == "right" else SETTINGS[::2]:
        fair = fairspan.calibrate(model, **settings)
        fast_vectors, fast_tokens = outputs(fair, TEXTS)
        with matrices_instead():
            vectors, tokens = outputs(fair, TEXTS)
        assert error(fast_vectors, vectors) <= 1e-5, settings
        assert error(fast_tokens, tokens) <= 1e-5, settings


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.08), (torch.float16, 0.01)])
@pytest.mark.parametrize("pooling", mostly_slow(POOLINGS, ["mean"]))
@pytest.mark.parametrize("architecture", ["xlm-roberta", "modernbert", "qwen3", "mpnet"])
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


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(
    ("architecture", "side"), [("bert", "right"), ("gte", "left"), ("qwen3", "left")]
)
def test_batching_and_padding_do_not_change_a_text(
    make_tiny: Callable[..., SentenceTransformer], architecture: str, side: str, pooling: str
) -> None:
    """A text has the same baskets alone and beside longer ones. Left padding needs rotary."""
    fair = fairspan.calibrate(
        make_tiny(architecture, pooling, padding_side=side), basket_size=7, strength=0.7
    )
    together = fair.encode(TEXTS[:3], convert_to_tensor=True)
    alone = torch.stack([fair.encode(text, convert_to_tensor=True) for text in TEXTS[:3]])
    assert error(together, alone) <= 1e-5
