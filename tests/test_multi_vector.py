"""Multi-vector encoders in tiles: a vector for every token of a document of any length; queries as they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from torch import Tensor, nn

import fairspan
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model import transformer as transformer_module
from fairspan.model.loading import load_model
from tests.by_matrices import matrices_instead
from tests.tiny import HIDDEN, mostly_slow, save_tiny, words

Make = Callable[..., MultiVectorEncoder]

# Within the window of 64 tokens and beyond it, out of order.
TEXTS = [words(count, seed) for seed, count in enumerate((5, 150, 60, 90, 1))]
SKIPPED = "w3"
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    folders: dict[str, Path] = {}

    def build(architecture: str = "bert", **limits: Any) -> MultiVectorEncoder:
        if architecture not in folders:
            folders[architecture] = save_tiny(tmp_path_factory.mktemp(architecture), architecture)
        torch.manual_seed(0)
        dense = Dense(HIDDEN, 8, False, nn.Identity(), module_input_name="token_embeddings")
        transformer = Transformer(str(folders[architecture]), max_seq_length=limits.pop("longest", 64), **limits)
        modules = [transformer, dense, MultiVectorMask([SKIPPED]), Normalize(module_input_name="token_embeddings")]
        prompts = {"query": "w1 ", "document": "w2 "}
        return MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu").eval()

    return build


def error(found: list[Tensor], wanted: list[Tensor]) -> float:
    assert [one.shape for one in found] == [one.shape for one in wanted]
    return max(float((one - other).abs().max()) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("architecture", mostly_slow(["bert", "roberta", "modernbert", "qwen3", "t5"]))
@pytest.mark.parametrize("fields", [{}, {"tile_size": 7, "temperature": 0.6}])
def test_every_token_of_a_document_has_the_vector_that_the_matrices_give(
    make: Make, architecture: str, fields: dict[str, Any]
) -> None:
    """In a padded batch, prompt included, without what the model's own mask skips."""
    fair = fairspan.calibrate(make(architecture), "long", **fields)
    found = fair.encode_document(TEXTS)
    shared = 3  # <s>, the prompt and </s>
    assert [len(one) for one in found] == [shared + sum(w != SKIPPED for w in text.split()) for text in TEXTS]
    with matrices_instead():
        assert error(found, fair.encode_document(TEXTS)) < ROUNDING
    for batch_size in (1, 2):
        assert error(fair.encode_document(TEXTS, batch_size=batch_size), found) < ROUNDING
    with patch.object(transformer_module, "AT_A_TIME", 160):
        assert error(fair.encode_document(TEXTS), found) < ROUNDING
    query = fair.encode_query(TEXTS[0])
    by_hand = [float((query @ one.T).max(dim=1).values.sum()) for one in found]
    assert fair.similarity([query], found)[0].tolist() == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize(
    "limits",
    [
        {"query_expansion": {"strategy": "fixed", "attend": False, "length": 16}},
        {"query_expansion": {"strategy": "fixed", "attend": True, "length": 16}},
        {"query_expansion": {"strategy": "min", "length": 16}},
        {"query_expansion": {"strategy": "min", "length": 16}, "query_length": 40, "document_length": 50},
        {"query_length": 20},
        {},
    ],
)
def test_queries_and_documents_that_fit_are_those_of_the_plain_model(make: Make, limits: dict[str, Any]) -> None:
    plain = make(**limits)
    fair = fairspan.calibrate(plain, "long")
    assert error(fair.encode_query(TEXTS), plain.encode_query(TEXTS)) == 0
    short = [words(45, 8), words(20, 9), ""]
    assert error(fair.encode_document(short), plain.encode_document(short)) == 0
    again = fairspan.calibrate(fair, "plain")
    assert error(again.encode_document(TEXTS), plain.encode_document(TEXTS)) == 0


def test_a_limit_for_documents_is_the_window(make: Make) -> None:
    """As the limit for all texts is where there is none; one that a call or the user sets is kept."""
    fair, whole = fairspan.calibrate(make(document_length=30)), fairspan.calibrate(make(longest=30))
    assert error(fair.encode_document(TEXTS), whole.encode_document(TEXTS)) == 0
    asked = {"processing_kwargs": {"text": {"max_length": 20}}}
    assert max(map(len, fair.encode_document(TEXTS, **asked))) in range(15, 21)
    fair.max_seq_length = 80
    assert max(map(len, fair.encode_document(TEXTS))) in range(70, 81)


@pytest.mark.parametrize("load", [fairspan.load, lambda path: MultiVectorEncoder(str(path), trust_remote_code=True)])
def test_a_saved_one_gives_the_same_vectors(make: Make, tmp_path: Path, load: Callable[..., Any]) -> None:
    fair = fairspan.calibrate(make(document_length=50, query_length=20), "tiles", tile_size=9)
    fair.save_pretrained(str(tmp_path))
    loaded = load(tmp_path)
    assert type(loaded) is MultiVectorEncoder
    assert error(loaded.encode_document(TEXTS), fair.encode_document(TEXTS)) == 0
    assert error(loaded.encode_query(TEXTS), fair.encode_query(TEXTS)) == 0
    card = (tmp_path / "README.md").read_text()
    assert 'MultiVectorEncoder("…", trust_remote_code=True)' in card
    assert '"sides": "document"' in card
    with pytest.raises(UnsupportedModel, match="a multi-vector encoder, with a vector for each token"):
        load_model(str(tmp_path))
    with pytest.raises(Exception, match=r"config\.json"):
        SentenceTransformer(str(tmp_path), trust_remote_code=True)


@pytest.mark.parametrize("given", ["paper", "retrieval", "tempscale", {"tile_size": 9, "sides": "query"}])
def test_what_acts_on_a_pooled_row_or_on_queries_is_refused(make: Make, given: Any) -> None:
    calibration, fields = (given, {}) if isinstance(given, str) else (None, given)
    with pytest.raises(DesignError, match=r"only its documents can be calibrated, in tiles: use 'long' or 'tiles'"):
        fairspan.calibrate(make(), calibration, **fields)


def test_gradients_reach_every_layer_of_a_long_document(make: Make) -> None:
    fair = fairspan.calibrate(make(), "long").train()
    features = fair(fair.preprocess(TEXTS[:2], task="document"), task="document")
    features["token_embeddings"][features["attention_mask"].bool()].pow(3).sum().backward()
    missing = [name for name, weight in fair.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [name for name in missing if "pooler" not in name] == []
