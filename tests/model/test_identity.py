"""The identity of a model and of its vectors, and what a model is loaded from."""

from __future__ import annotations

import copy
import importlib
import json
import linecache
import math
import sys
from collections.abc import Callable
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
    WordEmbeddings,
)
from sentence_transformers.sentence_transformer.modules.tokenizer import WhitespaceTokenizer

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.spelling import as_calibration
from fairspan.encoding.direct import DirectEncoder
from fairspan.encoding.fill import Tally, fill
from fairspan.encoding.model_encoder import ModelEncoder
from fairspan.encoding.store import Store
from fairspan.encoding.text import Text
from fairspan.model.build import copy_sharing_weights
from fairspan.model.fingerprint import fingerprint
from fairspan.model.loading import DEFAULT_MODEL as DEFAULT
from fairspan.model.loading import Loading, load_model
from tests.builders.tiny import HIDDEN, mostly_slow, tiny_model, words

Make = Callable[..., SentenceTransformer]

# Two batches of one text split float32 sums over other padded lengths: a few roundings (6e-8 each)
# of numbers of order 1 through four layers.
BY_PADDING = 2e-5


# The identity of a model.


def changed(
    model: SentenceTransformer, change: Callable[[SentenceTransformer], Any]
) -> SentenceTransformer:
    """The model with memory of its own, changed."""
    other = copy_sharing_weights(model)
    for parameter in other.parameters():
        parameter.data = parameter.data.clone()
    result = change(other)
    return result if isinstance(result, SentenceTransformer) else other


def set_tokenizer(model: SentenceTransformer, **settings: str) -> None:
    """Change settings of the tokenizer, which the model shared with the one it was copied from."""
    model[0].processor = copy.deepcopy(model[0].processor)
    for name, value in settings.items():
        setattr(model[0].processor, name, value)


def test_the_fingerprint_knows_every_weight(make_tiny: Make) -> None:
    """The least change of one number of any tensor, float32's next one."""
    model = make_tiny("bert", "cls")
    seen = {fingerprint(model)}
    other = changed(model, lambda copy: None)
    weights = [weight.data.view(-1) for weight in other.parameters()]
    for flat in weights:
        kept = flat[-1].clone()
        flat[-1] = torch.nextafter(kept, torch.tensor(math.inf))
        seen.add(fingerprint(other))
        flat[-1] = kept
    assert len(seen) == len(weights) + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.to(torch.bfloat16),
        lambda model: model.to(torch.float64),
        lambda model: setattr(model[1], "pooling_mode", "cls"),
        lambda model: setattr(model[1], "include_prompt", False),
        lambda model: setattr(model, "truncate_dim", 8),
        lambda model: set_tokenizer(model, truncation_side="left"),
        lambda model: set_tokenizer(model, padding_side="left"),
        lambda model: SentenceTransformer(modules=[*model.children(), Normalize()], device="cpu"),
        lambda model: SentenceTransformer(
            modules=[*model.children(), Dense(HIDDEN, HIDDEN)], device="cpu"
        ),
    ],
    ids=[
        *("bfloat16", "float64", "pooling", "include_prompt", "truncate_dim"),
        *("truncation_side", "padding_side", "normalize", "dense"),
    ],
)
def test_the_fingerprint_knows_what_changes_vectors(
    make_tiny: Make, change: Callable[[SentenceTransformer], Any]
) -> None:
    model = make_tiny("bert", "mean")
    assert fingerprint(changed(model, change)) != fingerprint(model)


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("bert", {"num_attention_heads": 8}),
        ("bert", {"hidden_act": "relu"}),
        ("bert", {"layer_norm_eps": 0.1}),
        ("qwen3", {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}),
        ("mistral", {"sliding_window": 4}),
        ("modernbert", {"local_attention": 4}),
    ],
    ids=["heads", "activation", "epsilon", "rope", "window", "local"],
)
def test_the_fingerprint_knows_how_the_weights_are_used(
    make_tiny: Make, architecture: str, changes: dict[str, Any]
) -> None:
    """The same numbers in the same tensors, other vectors."""
    model = make_tiny(architecture, "mean")
    other = changed(model, lambda copy: None)
    config = {**other[0].model.config.to_dict(), **changes}
    other[0].model = type(other[0].model)(type(other[0].model.config)(**config)).eval()
    other[0].model.load_state_dict(model[0].model.state_dict())
    vectors = model.encode(words(40))
    assert not np.allclose(vectors, other.encode(words(40)), atol=1e-4), "the premise"
    assert fingerprint(other) != fingerprint(model)


def test_the_fingerprint_knows_the_tokenizer(make_tiny: Make, tmp_path: Path) -> None:
    """The same weights behind a tokenizer that gives other ids, such as one that lowercases."""
    model = tiny_model(tmp_path, "bert", "mean")
    model.save_pretrained(str(tmp_path))
    file = tmp_path / "tokenizer.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = written["model"]["vocab"]
    vocabulary["w1"], vocabulary["w2"] = vocabulary["w2"], vocabulary["w1"]
    file.write_text(json.dumps(written), encoding="utf-8")
    other = load_model(str(tmp_path))
    vectors = model.encode("w1 w3")
    assert not np.allclose(vectors, other.encode("w1 w3"), atol=1e-4), "the premise"
    assert fingerprint(other) != fingerprint(model)


def test_the_fingerprint_knows_a_tokenizer_of_words() -> None:
    """It has no rules that could be written down, only attributes."""
    seen = set()
    for stop, lower in (("one", True), ("two", True), ("two", False)):
        tokenizer = WhitespaceTokenizer(["one", "two"], stop_words=[stop], do_lower_case=lower)
        modules = [WordEmbeddings(tokenizer, np.eye(2)), Pooling(2)]
        seen.add(fingerprint(SentenceTransformer(modules=modules, device="cpu")))
    assert len(seen) == 3


def test_the_fingerprint_knows_code_that_comes_with_a_model(
    make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class has the same name, no weights, and does something else."""
    monkeypatch.syspath_prepend(tmp_path)
    model = make_tiny("bert", "mean")
    seen = set()
    for factor in ("2.0", "3.0"):
        (tmp_path / "custom_module.py").write_text(_CODE.format(factor), "utf-8")
        monkeypatch.delitem(sys.modules, "custom_module", raising=False)
        linecache.checkcache()
        custom = importlib.import_module("custom_module").Custom()
        seen.add(
            fingerprint(SentenceTransformer(modules=[*model.children(), custom], device="cpu"))
        )
    assert len(seen) == 2


_CODE = """
import torch
class Custom(torch.nn.Module):
    def forward(self, features):
        features["sentence_embedding"] = {} * features["sentence_embedding"]
        return features
"""


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")
def test_the_fingerprint_knows_the_active_adapters(tmp_path: Path) -> None:
    """Both adapters are loaded all the time, so that the weights are the same ones."""
    peft = pytest.importorskip("peft")
    model = tiny_model(tmp_path, "bert", "mean")
    seen = [fingerprint(model)]
    for name in ("first", "second"):
        options = {"r": 2, "target_modules": ["query"], "init_lora_weights": False}
        model.add_adapter(peft.LoraConfig(**options), name)
    for active in ("first", "second", ["first", "second"]):
        model.set_adapter(active)
        seen.append(fingerprint(model))
    for layer in model.modules():
        if isinstance(layer, peft.tuners.lora.LoraLayer):
            layer.scaling["first"] /= 2
    seen.append(fingerprint(model))
    model.disable_adapters()
    seen.append(fingerprint(model))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("name", ["tiles-64", "plain+pooling=even", "paper"])
def test_plain_again_is_the_model_it_was(make_tiny: Make, name: str) -> None:
    """Even pooling is undone as a whole, so that stored vectors of the plain model are found."""
    model = make_tiny("bert", "mean")
    again = fairspan.calibrate(fairspan.calibrate(model, name), "plain")
    assert fingerprint(again) == fingerprint(model)


class Quantised(torch.nn.Parameter):
    """Weights with a state of their own."""

    scale: torch.Tensor


def test_a_copy_moves_no_weights_of_another_class(make_tiny: Make) -> None:
    """It has its own parameters on the same storage; as an export, it is cast."""
    model = copy.deepcopy(make_tiny("bert", "cls"))
    layer = next(module for module in model.modules() if isinstance(module, torch.nn.Linear))
    layer.weight = Quantised(layer.weight.data)
    layer.weight.scale = torch.ones(1)
    copied = copy_sharing_weights(model)
    weight = next(weight for weight in copied.parameters() if isinstance(weight, Quantised))
    assert weight.scale is layer.weight.scale
    assert weight.data_ptr() == layer.weight.data_ptr()
    copied.double()
    assert layer.weight.dtype == torch.float32
    assert weight.dtype == torch.float64


@pytest.mark.parametrize("architecture", mostly_slow(["bert", "mpnet", "qwen3", "albert", "t5"]))
def test_the_fingerprint_stays(make_tiny: Make, tmp_path: Path, architecture: str) -> None:
    """Under another window, a calibration, use, and saving and loading, also of weights that layers
    share."""
    model = make_tiny(architecture, "mean")
    first = fingerprint(model)
    assert fingerprint(changed(model, lambda copy: setattr(copy, "max_seq_length", 77))) == first
    assert fingerprint(fairspan.calibrate(model, "paper", temperature=0.9)) == first
    model.encode("w1")
    assert fingerprint(model) == first
    model.save_pretrained(str(tmp_path))
    assert fingerprint(load_model(str(tmp_path))) == first


def encoder_of(
    model: SentenceTransformer, calibration: Any = "plain", prompt: str = ""
) -> ModelEncoder:
    wanted = as_calibration(calibration)
    return ModelEncoder(model, wanted, prompt=prompt, fingerprint=fingerprint(model))


def test_keys_know_how_texts_are_pooled(make_tiny: Make) -> None:
    """Short texts keep one vector with tiles; "auto" is "even" here."""
    pooled = [{}, {"pooling": "even"}, {"pooling": "even", "ridge": 0.1}, {"pooling": "auto"}]
    encoders = [
        encoder_of(make_tiny("bert", "mean"), PRESETS["plain"].but(**tiles, **fields))
        for tiles in ({}, {"tile_size": 8, "short_texts": "leave"})
        for fields in pooled
    ]
    long, short = Text(words(600), 602), Text(words(20), 22)
    assert len({encoder.key(long) for encoder in encoders}) == 6
    assert len({encoder.key(short) for encoder in encoders}) == 3


def test_keys_know_how_long_tiles_of_the_window_are(make_tiny: Make) -> None:
    """A short text has its plain vector under both windows, and is embedded once."""
    model = make_tiny("bert", "mean")
    encoders = []
    for window in (64, 32):
        other = copy_sharing_weights(model)
        other.max_seq_length = window
        encoders.append(encoder_of(other, "tiles-128+short_texts=leave"))
    text = Text(words(200), 202)
    vectors = [encoder.vectors([text])[0] for encoder in encoders]
    assert not np.allclose(*vectors, atol=1e-2), "the premise"
    keys = [[encoder.key(text) for text in (text, Text(words(20), 22))] for encoder in encoders]
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1]


def test_documents_are_embedded_once_whether_or_not_queries_are_treated(make_tiny: Make) -> None:
    """Queries that a model came calibrated for on documents only are its plain ones."""
    model, text = make_tiny("bert", "cls"), Text(words(40), 42)
    only = PRESETS["paper"].but(sides="document")
    assert encoder_of(model, only).key(text) == encoder_of(model, "paper").key(text)
    known = {"prompt": "", "fingerprint": fingerprint(model), "side": "query"}
    came = ModelEncoder(fairspan.calibrate(model, only), PRESETS["plain"], **known)
    assert came.key(text) != ModelEncoder(model, PRESETS["paper"], **known).key(text)


# Loading.


def test_the_default_model_reads_what_sentence_transformers_reads(
    minilm: SentenceTransformer,
) -> None:
    """Its own limit is 256 tokens of its 512 positions. Equal up to padding."""
    text, own = "river " * 298 + "end", copy_sharing_weights(minilm)
    own.max_seq_length = 256
    assert np.linalg.norm(own.encode(text) - minilm.encode(text)) > 1e-3, (
        "the end matters to this text"
    )
    for model in (
        *(load_model(name, Loading(device="cpu")) for name in (None, DEFAULT)),
        fairspan.load(DEFAULT, device="cpu"),
    ):
        assert np.array_equal(model.encode_document(text), own.encode_document(text))
        encoder = DirectEncoder(model)
        (read,) = encoder.read([text])
        assert (read.length, read.read, read.cut) == (301, 256, True)
        np.testing.assert_allclose(
            encoder.vectors([read])[0], own.encode_document(text), atol=BY_PADDING
        )
    raised = load_model(DEFAULT, Loading(device="cpu", max_seq_length=512))
    assert np.array_equal(raised.encode_document(text), minilm.encode_document(text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "cls").save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize("saved", [torch.bfloat16, torch.float16])
def test_weights_are_float32_on_a_cpu_unless_asked_otherwise(
    folder: Path, tmp_path: Path, saved: torch.dtype
) -> None:
    SentenceTransformer(str(folder), device="cpu").to(saved).save_pretrained(str(tmp_path))
    for asked, dtype in ((None, torch.float32), ("bfloat16", torch.bfloat16)):
        loaded = load_model(str(tmp_path), Loading(device="cpu", dtype=asked))
        assert {parameter.dtype for parameter in loaded.parameters()} == {dtype}
    name = str(saved).removeprefix("torch.")
    said = rf"was saved in {name}, .* loaded in float32: to keep {name}, use"
    with pytest.warns(UserWarning, match=said):
        assert fairspan.load(tmp_path, device="cpu").dtype == torch.float32
    kept = fairspan.load(tmp_path, device="cpu", model_kwargs={"dtype": "auto"})
    with pytest.warns(UserWarning, match=f"the model is in {name}, which is slow on a CPU"):
        assert fairspan.calibrate(kept, "tiles-64").dtype == kept.dtype == saved


def test_texts_with_and_without_spans_share_a_batch(tmp_path: Path) -> None:
    model = tiny_model(tmp_path, "bert", "mean")
    encoder = ModelEncoder(model, Calibration.preset("plain"), prompt="", fingerprint="f")
    spanned = Text("one two three four", 6, spans=((0, 7), (8, 18)))
    plain = Text("five six seven", 5)
    with Store(tmp_path / "store.sqlite") as store:
        fill(encoder, [spanned, plain], store, budget=100, tally=Tally())
        found = store.get([encoder.key(spanned), encoder.key(plain)])
    assert len(found[encoder.key(spanned)]) == 3 * len(found[encoder.key(plain)])
    alone = model.encode(plain.text)
    np.testing.assert_allclose(
        found[encoder.key(plain)], alone, rtol=0, atol=BY_PADDING * np.abs(alone).max()
    )
