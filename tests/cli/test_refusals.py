"""What cannot be calibrated is refused in one clear message; odd texts are not refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
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


# Models whose attention cannot be reached


@pytest.mark.filterwarnings(DEBERTA_IMPORTS)
@pytest.mark.parametrize("architecture", UNSUPPORTED)
def test_an_architecture_with_attention_of_its_own_is_named_and_others_are_suggested(
    tmp_path: Path, architecture: str
) -> None:
    """The plain model works; calibrating would change nothing in it, so it is refused."""
    model = tiny_model(tmp_path, architecture, "cls", **UNSUPPORTED[architecture])
    before = model.encode(words(20))
    assert np.isfinite(before).all()
    message = refusal(model)
    names = [repr(architecture), type(model[0].model).__name__, str(tmp_path)]
    suggested = ["attention interface", "BERT", "ModernBERT", "Qwen3", "torch backend"]
    assert all(part in message for part in names + suggested)
    assert np.array_equal(model.encode(words(20)), before)
    assert type(model[0]) is Transformer


def static() -> SentenceTransformer:
    embedding = StaticEmbedding(tiny_tokenizer().backend_tokenizer, embedding_dim=HIDDEN)
    return SentenceTransformer(modules=[embedding, Normalize()], device="cpu")


def changed(model: SentenceTransformer, **attributes: Any) -> SentenceTransformer:
    """A copy whose transformer has other attributes."""
    model = copy.deepcopy(model)
    for name, value in attributes.items():
        setattr(model[0], name, value)
    return model


def chatting(model: SentenceTransformer) -> SentenceTransformer:
    config = model[0].modality_config
    return changed(model, modality_config={**config, "message": config["text"]})


def modules_of(*modules: nn.Module) -> SentenceTransformer:
    return SentenceTransformer(modules=list(modules), device="cpu")


# Gemma 2 caps its scores inside the softmax.
GEMMA = {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 12}


REFUSED: dict[str, tuple[Callable[[Make], Any], dict[str, Any], tuple[str, ...]]] = {
    "onnx": (lambda make: changed(make(), backend="onnx"), {}, ("onnx", "backend='torch'")),
    "openvino": (lambda make: changed(make(), backend="openvino"), {}, ("openvino",)),
    "gemma2": (lambda make: make("gemma2", "mean", **GEMMA), {}, ("softcap", "plain softmax")),
    "static": (lambda make: static(), {}, ("StaticEmbedding, Normalize", "no attention")),
    "no pooling": (
        lambda make: modules_of(make()[0], Normalize()),
        {},
        ("no Pooling module follows", "SentenceTransformer(modules=[transformer, Pooling("),
    ),
    "chat": (
        lambda make: chatting(make("qwen3", "lasttoken")),
        {"calibration": "tiles-64"},
        ("chat template",),
    ),
    "baskets of all rows": (
        lambda make: make("bert", "mean"),
        {"tile_size": 7, "strength": 0.5, "kind": fairspan.DesignError},
        ("pools over all tokens", "strength=0"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_calibrated_is_refused_with_the_reason(make_tiny: Make, name: str) -> None:
    make, fields, parts = REFUSED[name]
    message = refusal(make(make_tiny), **fields)
    assert all(part in message for part in parts)


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("Alibaba-NLP/gte-multilingual-base", "alibaba-nlp-community/gte-multilingual-base"),
        ("/models/jina-embeddings-v3", "jinaai/jina-embeddings-v3-hf"),
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


# Things that are not such models


@pytest.mark.parametrize("given", [None, b"BAAI/bge-m3", nn.Linear(2, 2), CrossEncoder])
def test_anything_but_a_sentence_transformer_is_named_by_its_type(given: Any) -> None:
    assert f"got {type(given).__name__}." in refusal(given)


def test_a_name_that_cannot_be_loaded_is_named() -> None:
    assert "BAAI/bge-m3 could not be loaded" in refusal("BAAI/bge-m3")


class OwnTransformer(Transformer):
    """A Transformer module with code that fairspan does not know."""


def test_a_transformer_module_with_code_of_its_own_is_named(tmp_path: Path) -> None:
    transformer = OwnTransformer(str(save_tiny(tmp_path, "bert")))
    message = refusal(modules_of(transformer, Pooling(HIDDEN, "cls")))
    assert "OwnTransformer" in message
    assert "sentence_transformers' Transformer" in message


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("encoder.layer.2.attention.self.key.weight", torch.float32),
        ("embeddings.LayerNorm.bias", torch.float16),
    ],
)
def test_a_weight_that_is_not_a_number_is_named(
    make_tiny: Make, name: str, dtype: torch.dtype
) -> None:
    model = copy.deepcopy(make_tiny()).to(dtype)
    model[0].model.get_parameter(name).data.view(-1)[3] = torch.nan
    message = refusal(model, fairspan.FairspanError)
    assert all(
        part in message for part in (f"'0.model.{name}'", "NaN", "load the checkpoint again")
    )


# Calibrations that do not fit


def test_a_prompt_that_leaves_no_room_for_a_tile_is_refused(make_tiny: Make) -> None:
    """600 positions are enough for a tile of 590 tokens and ten others."""
    fair = fairspan.calibrate(make_tiny(), "tiles-590", max_seq_length=700)
    assert np.isfinite(fair.encode(words(690), prompt="w1 " * 8)).all()
    said = r"and 11 special and prompt .* tiles of at most 589 tokens"
    with pytest.raises(fairspan.DesignError, match=said):
        fair.encode(words(690), prompt="w1 " * 9)


def test_positions_that_cannot_start_again_are_refused(make_tiny: Make) -> None:
    """A model that ignores the positions it is given reads two equal tiles differently."""
    model = copy.deepcopy(make_tiny())
    embeddings = model[0].model.embeddings
    forward = embeddings.forward
    embeddings.forward = lambda position_ids=None, **inputs: forward(**inputs)
    assert np.array_equal(model.encode(words(90)), make_tiny().encode(words(90)))
    for dtype in (torch.float32, torch.bfloat16):
        message = refusal(model.to(dtype), calibration="tiles-64")
        assert "positions that cannot restart in every tile" in message
        assert "'bert'" in message


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
    ("pooling", "settings"),
    [
        ("cls", {"bos": "original", "strength": 0.5}),
        ("mean", {"tile_size": 16}),
        ("lasttoken", {"tile_size": 16}),
    ],
)
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
