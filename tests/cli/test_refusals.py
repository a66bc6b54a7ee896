"""What cannot be calibrated is refused in one clear message; odd texts are not refused."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)
from torch import nn

import fairspan
from tests.builders.tiny import HIDDEN, LAYERS, save_tiny, tiny_model, tiny_tokenizer, words

Make = Callable[..., SentenceTransformer]

# Importing DeBERTa decorates functions with torch.jit.script, which torch calls deprecated.
DEBERTA_IMPORTS = "ignore:`torch.jit.script` is deprecated:DeprecationWarning"

UNSUPPORTED: dict[str, dict[str, Any]] = {
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    "longformer": {"attention_window": [16] * LAYERS, "sep_token_id": 2},
    "big_bird": {},
    "fnet": {},
}


def refusal(
    model: Any, kind: type[fairspan.FairspanError] = fairspan.UnsupportedModel, **fields: Any
) -> str:
    """The message that `calibrate` refuses with: one line, with no other error behind it."""
    with pytest.raises(kind) as caught:
        fairspan.calibrate(model, **fields)
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    assert message.endswith(".")
    assert caught.value.__cause__ is None
    return message


@contextmanager
def said_by_transformers(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Its logger hands nothing on to the root logger, where pytest listens."""
    logger = logging.getLogger("transformers")
    caplog.clear()
    logger.addHandler(caplog.handler)
    try:
        yield
    finally:
        logger.removeHandler(caplog.handler)


# Models whose attention cannot be reached


@pytest.mark.filterwarnings(DEBERTA_IMPORTS)
@pytest.mark.parametrize("architecture", UNSUPPORTED)
def test_an_architecture_with_attention_of_its_own_is_named_and_others_are_suggested(
    tmp_path: Path, architecture: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The plain model works; calibrating would change nothing in it, so it is refused once."""
    model = tiny_model(tmp_path, architecture, "cls", **UNSUPPORTED[architecture])
    before = model.encode(words(20))
    assert np.isfinite(before).all()
    with said_by_transformers(caplog):
        message = refusal(model)
    assert caplog.messages == []
    assert repr(architecture) in message
    assert type(model[0].model).__name__ in message
    assert str(tmp_path) in message
    for suggestion in ("attention interface", "BERT", "ModernBERT", "Qwen3", "torch backend"):
        assert suggestion in message
    assert np.array_equal(model.encode(words(20)), before)
    assert type(model[0]) is Transformer


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("Alibaba-NLP/gte-multilingual-base", "alibaba-nlp-community/gte-multilingual-base"),
        ("jinaai/jina-embeddings-v3", "jinaai/jina-embeddings-v3-hf"),
        ("/models/gte-multilingual-base", "alibaba-nlp-community/gte-multilingual-base"),
    ],
)
def test_checkpoints_with_code_of_their_own_are_pointed_to_their_ports(
    tmp_path: Path, name: str, port: str
) -> None:
    """An unsupported model under that name stands in for the checkpoint's own code."""
    model = tiny_model(tmp_path, "fnet", "cls")
    model[0].model.config._name_or_path = name
    message = refusal(model)
    assert name in message
    assert f"Load {port} instead" in message


@pytest.mark.parametrize("backend", ["onnx", "openvino"])
def test_an_exported_backend_is_named_and_the_torch_backend_suggested(
    make_tiny: Make, backend: str
) -> None:
    model = copy.deepcopy(make_tiny())
    model[0].backend = backend
    message = refusal(model)
    assert backend in message
    assert "backend='torch'" in message


def test_a_softmax_without_a_definition_of_baskets_is_refused(make_tiny: Make) -> None:
    """Gemma 2 caps its scores inside the softmax."""
    message = refusal(
        make_tiny(
            "gemma2",
            "mean",
            num_key_value_heads=2,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=12,
        )
    )
    assert "softcap" in message
    assert "plain softmax" in message


# Things that are not such models


@pytest.mark.parametrize(
    "given", [None, 3, b"BAAI/bge-m3", nn.Linear(2, 2), SentenceTransformer, CrossEncoder]
)
def test_anything_but_a_sentence_transformer_is_named_by_its_type(given: Any) -> None:
    message = refusal(given)
    assert f"got {type(given).__name__}." in message


def test_a_model_by_name_or_folder_is_loaded_as_by_load(tmp_path: Path, make_tiny: Make) -> None:
    make_tiny().save_pretrained(str(tmp_path / "saved"))
    expected = fairspan.calibrate(fairspan.load(tmp_path / "saved")).encode(words(900))
    for place in (tmp_path / "saved", str(tmp_path / "saved")):
        assert np.array_equal(fairspan.calibrate(place).encode(words(900)), expected)
    assert "BAAI/bge-m3 could not be loaded" in refusal("BAAI/bge-m3")


def test_a_model_without_a_transformer_is_refused_with_the_modules_it_has() -> None:
    static = StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=HIDDEN)
    message = refusal(SentenceTransformer(modules=[static, Normalize()], device="cpu"))
    assert "StaticEmbedding, Normalize" in message
    assert "no attention" in message


class OwnTransformer(Transformer):
    """A Transformer module with code that fairspan does not know."""


def test_a_transformer_module_with_code_of_its_own_is_named(tmp_path: Path) -> None:
    transformer = OwnTransformer(str(save_tiny(tmp_path, "bert")))
    message = refusal(
        SentenceTransformer(modules=[transformer, Pooling(HIDDEN, "cls")], device="cpu")
    )
    assert "OwnTransformer" in message
    assert "sentence_transformers' Transformer" in message


@pytest.mark.parametrize("after", [[], [Normalize()]])
def test_a_model_without_pooling_is_refused_and_told_where_to_put_it(
    make_tiny: Make, after: list[nn.Module]
) -> None:
    message = refusal(SentenceTransformer(modules=[make_tiny()[0], *after], device="cpu"))
    assert "no Pooling module follows" in message
    assert "SentenceTransformer(modules=[transformer, Pooling(" in message


@pytest.mark.parametrize(
    "name", ["encoder.layer.2.attention.self.key.weight", "embeddings.LayerNorm.bias"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_weight_that_is_not_a_number_is_named(
    make_tiny: Make, name: str, dtype: torch.dtype
) -> None:
    model = copy.deepcopy(make_tiny()).to(dtype)
    model[0].model.get_parameter(name).data.view(-1)[3] = torch.nan
    message = refusal(model, fairspan.FairspanError)
    assert f"'0.model.{name}'" in message
    assert "NaN" in message
    assert "load the checkpoint again" in message


# Calibrations that do not fit


def test_baskets_of_all_rows_and_tiles_are_refused(make_tiny: Make) -> None:
    message = refusal(make_tiny("bert", "mean"), fairspan.DesignError, tile_size=7, strength=0.5)
    assert "pools over all tokens" in message
    assert "strength=0" in message


def test_a_prompt_that_leaves_no_room_for_a_tile_is_refused(make_tiny: Make) -> None:
    """600 positions are enough for a tile of 590 tokens and ten others."""
    fair = fairspan.calibrate(make_tiny(), "tiles-590", max_seq_length=700)
    assert np.isfinite(fair.encode(words(690), prompt="w1 " * 8)).all()
    with pytest.raises(
        fairspan.DesignError, match=r"and 11 special and prompt .* tiles of at most 589 tokens"
    ):
        fair.encode(words(690), prompt="w1 " * 9)


def test_positions_that_cannot_start_again_are_refused(make_tiny: Make) -> None:
    """A model that ignores the positions it is given reads two equal tiles differently."""
    model = copy.deepcopy(make_tiny())
    embeddings = model[0].model.embeddings
    own = embeddings.forward

    def forward(position_ids: Any = None, **inputs: Any) -> Any:
        return own(**inputs)

    embeddings.forward = forward
    assert np.array_equal(model.encode(words(90)), make_tiny().encode(words(90)))
    for dtype in (torch.float32, torch.bfloat16):
        message = refusal(model.to(dtype), calibration="tiles-64")
        assert "positions that cannot restart in every tile" in message
        assert "'bert'" in message


def test_a_chat_template_is_refused(make_tiny: Make) -> None:
    model = copy.deepcopy(make_tiny("qwen3", "lasttoken"))
    model[0].modality_config = {
        **model[0].modality_config,
        "message": model[0].modality_config["text"],
    }
    assert "chat template" in refusal(model, calibration="tiles-64")


# Odd texts

LONG = words(700)  # the tiny models take 512 tokens


def test_odd_texts_have_the_vectors_that_follow_from_their_tokens(
    representative: SentenceTransformer,
) -> None:
    """White space is the empty text, a long text its beginning; short texts are left if asked."""
    plain, fair = representative, fairspan.calibrate(representative, basket_size=16)
    assert np.array_equal(fair.encode(" \n"), fair.encode(""))
    assert np.array_equal(fair.encode(LONG), fair.encode(" ".join(LONG.split()[:510])))
    assert not np.array_equal(fair.encode(LONG), fair.encode(" ".join(LONG.split()[:509])))
    left = fairspan.calibrate(plain, basket_size=16, short_texts="leave")
    for text in ("", "w1", words(5)):
        # 1e-5: the same sums in another order, four layers deep, with components of up to 2.5.
        assert np.abs(left.encode(text) - plain.encode(text)).max() < 1e-5
    assert np.abs(left.encode(LONG) - plain.encode(LONG)).max() > 1e-2


@pytest.mark.parametrize(
    "settings", [{"bos": "original", "strength": 0.5}, {"tile_size": 16}], ids=str
)
@pytest.mark.parametrize("pooling", ["cls", "mean", "lasttoken"])
def test_a_text_without_any_token_beside_others_stays_out_of_their_way(
    tmp_path: Path, pooling: str, settings: dict[str, Any]
) -> None:
    """Without special tokens an empty text is all padding, which plain models accept."""
    plain = tiny_model(tmp_path, "bert", pooling)
    plain.tokenizer.backend_tokenizer.post_processor = None
    fair = fairspan.calibrate(plain, basket_size=16, **settings)
    texts = ["", words(40), "w1"]
    assert np.isfinite(plain.encode(texts)).all()
    vectors = fair.encode(texts)
    assert np.isfinite(vectors).all()
    alone = np.stack([fair.encode(text) for text in texts[1:]])
    assert np.abs(vectors[1:] - alone).max() < 1e-5  # as above
    with pytest.raises((IndexError, RuntimeError)):
        plain.encode("")
    with pytest.raises((IndexError, RuntimeError)):
        fair.encode("")
