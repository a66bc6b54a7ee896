"""Calibrated models on a GPU give the vectors that they give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from tests.test_architectures import TEXTS, error
from tests.tiny import ARCHITECTURES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
# The kernels take no position bias; plain torch does.
WITH_POSITION_BIAS = ("t5", "mpnet")
SETTINGS: list[dict[str, Any]] = [
    {"basket_size": 16},
    {"basket_size": 16, "strength": 0.5, "bos": "original"},
    {"tile_size": 7},
    {"tile_size": 20, "tile_layers": 2, "temperature": 0.8},
]


@pytest.mark.parametrize("pooling", ["cls", "lasttoken", "mean"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_those_of_the_cpu(
    make_tiny: Callable[..., SentenceTransformer], architecture: str, pooling: str
) -> None:
    """Padded batches, float32 without tf32: 1e-4 for four layers of other kernels throughout the model."""
    model = make_tiny(architecture, pooling)
    for settings in SETTINGS:
        wanted = fairspan.calibrate(model, **settings).encode(TEXTS, convert_to_tensor=True)
        on_gpu = fairspan.calibrate(model, **settings).to("cuda")
        got = on_gpu.encode(TEXTS, convert_to_tensor=True)
        assert got.is_cuda
        assert error(got.cpu(), wanted) <= 1e-4, settings
        by_torch = architecture in WITH_POSITION_BIAS and "tile_size" not in settings
        assert on_gpu[0].path == ("torch" if by_torch else "triton")
