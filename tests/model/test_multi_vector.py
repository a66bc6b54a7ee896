"""Multi-vector encoders in tiles: a vector for every token of a document of any length; queries as
they were."""

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
from fairspan import Calibration
from fairspan.errors import DesignError, UnsupportedModel
from fairspan.model import splitting
from fairspan.model.loading import load_model
from fairspan.model.pooling import TOKENS
from tests.attention.by_matrices import matrices_instead
from tests.builders.tiny import HIDDEN, mostly_slow, save_tiny, words

Make = Callable[..., MultiVectorEncoder]
# Within the window of 64 tokens and beyond it, out of order.
TEXTS = [words(count, seed) for seed, count in enumerate((5, 150, 60, 90, 1))]
SKIPPED = "w3"
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    def build(architecture: str = "bert", longest: int = 64, **limits: Any) -> MultiVectorEncoder:
        folder = save_tiny(tmp_path_factory.mktemp("tiny"), architecture)
        transformer = Transformer(str(folder), max_seq_length=longest, **limits)
        on_tokens = {"module_input_name": TOKENS}
        dense = Dense(HIDDEN, 8, False, nn.Identity(), torch.eye(8, HIDDEN), **on_tokens)
        modules = [transformer, dense, MultiVectorMask([SKIPPED]), Normalize(**on_tokens)]
        prompts = {"query": "w1 ", "document": "w2 "}
        return MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu")

    return build


def error(found: list[Tensor], wanted: list[Tensor]) -> float:
    assert [one.shape for one in found] == [one.shape for one in wanted]
    return max(float((one - other).abs().max()) for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    "architecture", mostly_slow(["bert", "roberta", "modernbert", "qwen3", "t5"])
)
@pytest.mark.parametrize("fields", [{}, {"tile_size": 7, "temperature": 0.6}])
def test_every_token_of_a_document_has_the_vector_that_the_matrices_give(
    make: Make, architecture: str, fields: dict[str, Any]
) -> None:
    fair = fairspan.calibrate(make(architecture), "tiles-128+short_texts=leave", **fields)
    found = fair.encode_document(TEXTS)
    wanted = [f"<s> w2 {text} </s>".split() for text in TEXTS]
    assert [len(one) for one in found] == [len(text) - text.count(SKIPPED) for text in wanted]
    with matrices_instead():
        assert error(found, fair.encode_document(TEXTS)) < ROUNDING
    for batch_size in (1, 2):
        assert error(fair.encode_document(TEXTS, batch_size=batch_size), found) < ROUNDING
    with patch.object(splitting, "AT_A_TIME", 160):
        assert error(fair.encode_document(TEXTS), found) < ROUNDING
    query = fair.encode_query(TEXTS[0])
    by_hand = [float((query @ one.T).max(dim=1).values.sum()) for one in found]
    assert fair.similarity([query], found)[0].tolist() == pytest.approx(by_hand, abs=1e-4)


FIXED, AT_LEAST = ({"strategy": kind, "length": 16} for kind in ("fixed", "min"))
LIMITS: list[dict[str, Any]] = [
    {"query_expansion": FIXED},
    {"query_expansion": {**FIXED, "attend": True}},
]
LIMITS += [{"query_expansion": AT_LEAST}, {"query_length": 20}, {}]
LIMITS += [{"query_expansion": AT_LEAST, "query_length": 40, "document_length": 50}]


@pytest.mark.parametrize("limits", LIMITS)
def test_queries_and_documents_that_fit_are_those_of_the_plain_model(
    make: Make, limits: dict[str, Any]
) -> None:
    plain = make(**limits)
    fair = fairspan.calibrate(plain, "tiles-128+short_texts=leave")
    assert error(fair.encode_query(TEXTS), plain.encode_query(TEXTS)) == 0
    short = [words(45, 8), words(20, 9), ""]
    assert error(fair.encode_document(short), plain.encode_document(short)) == 0
    again = fairspan.calibrate(fair, "plain")
    assert error(again.encode_document(TEXTS), plain.encode_document(TEXTS)) == 0


def test_a_limit_for_documents_is_the_window(make: Make) -> None:
    leaves = "tiles-128+short_texts=leave"
    fair = fairspan.calibrate(make(document_length=30), leaves)
    whole = fairspan.calibrate(make(longest=30), leaves)
    assert error(fair.encode_document(TEXTS), whole.encode_document(TEXTS)) == 0
    fair.max_seq_length = 80
    assert max(map(len, fair.encode_document(TEXTS))) in range(70, 81)


@pytest.mark.parametrize(
    "load", [fairspan.load, lambda path: MultiVectorEncoder(str(path), trust_remote_code=True)]
)
def test_a_saved_one_gives_the_same_vectors(
    make: Make, tmp_path: Path, load: Callable[..., Any]
) -> None:
    fair = fairspan.calibrate(make(document_length=50, query_length=20), "tiles-9")
    fair.save_pretrained(str(tmp_path))
    loaded = load(tmp_path)
    assert type(loaded) is MultiVectorEncoder
    assert error(loaded.encode_document(TEXTS), fair.encode_document(TEXTS)) == 0
    assert error(loaded.encode_query(TEXTS), fair.encode_query(TEXTS)) == 0
    assert 'MultiVectorEncoder("…", trust_remote_code=True)' in (tmp_path / "README.md").read_text()
    with pytest.raises(
        UnsupportedModel, match="a multi-vector encoder, with a vector for each token"
    ):
        load_model(str(tmp_path))
    with pytest.raises(Exception, match=r"config\.json"):
        SentenceTransformer(str(tmp_path), trust_remote_code=True)


@pytest.mark.parametrize(
    "calibration", ["paper", "tempscale", Calibration.preset("tiles-64").but(sides="query")]
)
def test_what_acts_on_a_pooled_row_or_on_queries_is_refused(make: Make, calibration: Any) -> None:
    with pytest.raises(
        DesignError,
        match=r"only its documents can be calibrated, in tiles: use 'fair' or 'tiles-64'",
    ):
        fairspan.calibrate(make(), calibration)
