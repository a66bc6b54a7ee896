"""A saved model comes back with the same vectors, and its folder never gets to run anything."""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from torch import nn
from transformers import AutoModel

import fairspan
from fairspan.model.build import copy_sharing_weights
from fairspan.model.transformer import calibrated_transformers
from tests.builders.tiny import HIDDEN, words
from tests.model.test_sentence_transformer import two_towers

Make = Callable[..., SentenceTransformer]
Loader = Callable[..., SentenceTransformer]

TEXTS = [words(count, seed) for seed, count in enumerate((40, 3, 80, 16, 1))]
REFERENCE = "fairspan.model.CalibratedTransformer"
# Where a saved model has its transformer and tokenizer.
PART = "0_CalibratedTransformer"


def plain_loader(path: Path, **options: Any) -> SentenceTransformer:
    """What a user of sentence_transformers writes."""
    return SentenceTransformer(str(path), trust_remote_code=True, device="cpu", **options)


def own_loader(path: Path, **options: Any) -> SentenceTransformer:
    return fairspan.load(path, device="cpu", **options)


def calibrated(make_tiny: Make) -> SentenceTransformer:
    return fairspan.calibrate(make_tiny(), basket_size=16)


def dense(make_tiny: Make) -> SentenceTransformer:
    torch.manual_seed(0)
    projection = Dense(HIDDEN, 8, activation_function=nn.GELU())
    return SentenceTransformer(
        modules=[*make_tiny().children(), projection, Normalize()], device="cpu"
    )


# Each with a calibration that the defaults would not give.
FIELDS: dict[str, dict[str, Any]] = {
    "bert-cls": {"strength": 0.5, "bos": "original", "eos": "equal"},
    "bert-mean": {"temperature": {"query": 0.9, "document": 0.7}},
    "mpnet-mean": {"temperature": 0.8, "scale_position_bias": True},
    "qwen3-lasttoken": {"layers": [1, 3], "short_texts": "leave"},
    "modernbert-mean": {"tile_size": 16, "temperature": [[20, 0.9], [None, 0.8]]},
    "router": {"sides": "document"},
    "dense": {"layers": "all", "sides": "query"},
}


def build(make_tiny: Make, name: str) -> SentenceTransformer:
    if name in ("router", "dense"):
        return {"router": two_towers, "dense": dense}[name](make_tiny)
    padding = {"padding_side": "left"} if name.startswith("qwen3") else {}
    return make_tiny(*name.split("-"), **padding)


@dataclass(frozen=True)
class Saved:
    """A calibrated model and the folder it was saved to."""

    model: SentenceTransformer
    folder: Path


@pytest.fixture(scope="module")
def saved(make_tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Saved]:
    root = tmp_path_factory.mktemp("saved")
    models = {}
    for name, fields in FIELDS.items():
        model = fairspan.calibrate(build(make_tiny, name), basket_size=16, **fields)
        model.save_pretrained(str(root / name))
        models[name] = Saved(model, root / name)
    return models


def assert_same_vectors(model: SentenceTransformer, other: SentenceTransformer) -> None:
    for encode in ("encode", "encode_query", "encode_document"):
        assert np.array_equal(getattr(model, encode)(TEXTS), getattr(other, encode)(TEXTS)), encode


def save(model: SentenceTransformer, folder: Path) -> None:
    model.save_pretrained(str(folder), create_model_card=False)


def refused(match: str) -> Any:
    return pytest.raises(fairspan.UnsupportedModel, match=match)


def edit(file: Path, **changes: Any) -> None:
    """Change fields of a JSON file, which is made if there is none."""
    values = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**values, **changes}))


# The same model again


@pytest.mark.parametrize(
    ("name", "load"), list(zip(FIELDS, cycle([own_loader, plain_loader]), strict=False))
)
def test_a_loaded_model_gives_the_same_vectors(
    saved: dict[str, Saved], name: str, load: Loader
) -> None:
    """Bit for bit, on both sides, with the same calibration, by one loader or the other."""
    loaded = load(saved[name].folder)
    assert_same_vectors(loaded, saved[name].model)
    before = [module.calibration for module in calibrated_transformers(saved[name].model)]
    assert [module.calibration for module in calibrated_transformers(loaded)] == before
    assert len(before) == (2 if name == "router" else 1)


def test_prompts_similarity_and_limits_survive(make_tiny: Make, tmp_path: Path) -> None:
    """What a SentenceTransformer keeps beside its modules is kept for a calibrated one."""
    plain = SentenceTransformer(
        modules=list(make_tiny().children()),
        prompts={"query": "w1 w2 ", "document": "w3 "},
        default_prompt_name="document",
        similarity_fn_name="dot",
        truncate_dim=12,
        device="cpu",
    )
    model = fairspan.calibrate(plain, basket_size=16)
    model.max_seq_length = 50
    save(model, tmp_path)
    loaded = own_loader(tmp_path)
    kept = "prompts default_prompt_name similarity_fn_name truncate_dim max_seq_length"
    for name in kept.split():
        assert getattr(loaded, name) == getattr(model, name), name
    assert loaded.encode(TEXTS).shape == (len(TEXTS), 12)
    assert_same_vectors(loaded, model)


def test_a_limit_beyond_the_positions_survives(make_tiny: Make, tmp_path: Path) -> None:
    """With the limit of the side without tiles, which is the positions."""
    plain = fairspan.calibrate(make_tiny("roberta"), "plain", max_seq_length=598)
    model = fairspan.calibrate(plain, "tiles-64", sides="document", max_seq_length=2000)
    save(model, tmp_path)
    loaded, long = plain_loader(tmp_path), [words(1500), words(700)]
    assert loaded.max_seq_length == 2000
    assert_same_vectors(loaded, model)
    assert np.array_equal(loaded.encode_document(long), model.encode_document(long))
    assert np.array_equal(loaded.encode_query(long), plain.encode_query(long))
    again = fairspan.calibrate(loaded, "plain")
    assert again.max_seq_length == plain.max_seq_length
    assert np.array_equal(again.encode(long), plain.encode(long))


OWN_CARD = """---
license: other
license_name: own-1.0
language: [de, en]
tags: [x]
---
# The stock card
"""


@pytest.mark.parametrize(
    ("place", "base", "own_card"),
    [
        ("owner/tiny", "owner/tiny", OWN_CARD),
        ("/cache/models--owner--tiny/snapshots/c0ffee", "owner/tiny", "---\nlicense: mit\n---"),
        ("/home/somebody/tiny", None, "---\n: no [YAML\n---"),
    ],
)
def test_the_card_names_base_licence_calibration_and_how_to_load(
    make_tiny: Make, tmp_path: Path, place: str, base: str | None, own_card: str
) -> None:
    """As the hub's library reads it; also after the saved model was calibrated anew."""
    plain = copy_sharing_weights(make_tiny())
    plain[0].model.name_or_path, plain._model_card_text = place, own_card
    fair = fairspan.calibrate(plain, "tiles-64")
    assert "'max_seq_length': 'any length'" in repr(fair)
    for folder, how, length in (
        ("one", "tiles of 64 tokens at temperature 0.8", "texts of any length"),
        ("two", "baskets of 128 tokens", f"{plain.max_seq_length:,} tokens of a text"),
    ):
        fair.save_pretrained(str(tmp_path / folder))
        card = ModelCard.load(tmp_path / folder / "README.md")
        assert card.data.base_model == base
        licence = {OWN_CARD: "own-1.0"}.get(own_card, "mit" if base else None)
        assert (card.data.get("license_name") or card.data.license) == licence
        assert (
            f": {licence}." in card.text if licence else "Its card names no licence." in card.text
        )
        assert not re.search("/home/|/cache/", card.content)
        for said in (
            f"calibrated by fairspan: {how}. It reads {length}.",
            "fairspan.load(",
            fair[0].calibration.to_json(),
        ):
            assert said in card.text
        fair = fairspan.calibrate(own_loader(tmp_path / folder), "paper")
    assert "This is tiny, not calibrated." in (
        fairspan.calibrate(plain, "plain")._model_card_text or ""
    ).replace("[owner/tiny](https://huggingface.co/owner/tiny)", "tiny")


def test_the_folder_names_one_class_that_does_not_move(saved: dict[str, Saved]) -> None:
    """Folders outlive releases, so what they refer to is a fixed name, in a Router too."""
    modules = json.loads((saved["bert-cls"].folder / "modules.json").read_text())
    assert modules[0]["type"] == REFERENCE
    assert all(module["type"].startswith("sentence_transformers.") for module in modules[1:])
    types = json.loads((saved["router"].folder / "router_config.json").read_text())["types"]
    assert [name for name, reference in types.items() if reference == REFERENCE] == [
        "query_0_CalibratedTransformer",
        "document_0_CalibratedTransformer",
    ]


@pytest.mark.parametrize("name", ["bert-cls", "mpnet-mean"])
def test_a_subfolder_holds_the_plain_checkpoint(
    saved: dict[str, Saved], make_tiny: Make, name: str
) -> None:
    """transformers by itself reads the weights there, with the class and attention of before."""
    original = build(make_tiny, name)[0].model
    model = AutoModel.from_pretrained(saved[name].folder, subfolder=PART)
    assert type(model) is type(original)
    assert model.config._attn_implementation == original.config._attn_implementation
    for key, weight in original.state_dict().items():
        assert torch.equal(model.state_dict()[key], weight), key
    text = (saved[name].folder / PART / "config.json").read_text()
    assert "fairspan" not in text
    # vLLM, SGLang and llama.cpp go by this name, and refuse one that they do not know.
    assert json.loads(text)["architectures"] == ["CalibratedTransformer"]
    suffixes = {file.suffix for file in saved[name].folder.rglob("*")}
    assert not suffixes & {".bin", ".py", ".pkl"}


def test_a_calibrated_model_is_not_saved_beside_a_checkpoint(
    saved: dict[str, Saved], make_tiny: Make, tmp_path: Path
) -> None:
    """The folder of the plain model would go on giving the plain model to everybody else."""
    save(make_tiny(), tmp_path)
    kept = {file: file.read_bytes() for file in tmp_path.rglob("*.safetensors")}
    with refused("holds a checkpoint at its root"):
        save(saved["bert-cls"].model, tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.safetensors")} == kept


# What is refused when saving


@pytest.mark.parametrize("name", ["bert-cls", "router"])
def test_weights_are_never_pickled(saved: dict[str, Saved], tmp_path: Path, name: str) -> None:
    """`BaseModel.save` catches only TypeError, so the refusal reaches the user."""
    with refused("safetensors only: keep safe_serialization=True"):
        saved[name].model.save_pretrained(str(tmp_path), safe_serialization=False)
    assert [file for file in tmp_path.rglob("*") if file.suffix in (".bin", ".safetensors")] == []
    assert not (tmp_path / "modules.json").exists()


def test_a_model_that_is_code_from_a_folder_is_not_saved(make_tiny: Make, tmp_path: Path) -> None:
    """Its folder could not be loaded without running that code."""
    model = calibrated(make_tiny)
    kind = type(model[0].model)
    model[0].model.__class__ = type(
        "RemoteModel", (kind,), {"__module__": "transformers_modules.somewhere"}
    )
    with refused("RemoteModel is code from a model folder"):
        save(model, tmp_path)


# Code in the folder


TRAP = """
from pathlib import Path
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
Path({marker!r}).write_text("this code was run")
class EvilConfig(BertConfig):
    pass
class EvilModel(BertModel):
    config_class = EvilConfig
class EvilTokenizer(PreTrainedTokenizerFast):
    pass
class CalibratedTransformer(BertModel):
    pass
"""
MODEL_MAP = {"AutoConfig": "modeling_evil.EvilConfig", "AutoModel": "modeling_evil.EvilModel"}
TOKENIZER_MAP = {"AutoTokenizer": ["modeling_evil.EvilTokenizer", "modeling_evil.EvilTokenizer"]}
TRUST = {"trust_remote_code": True}


@dataclass(frozen=True)
class Trapped:
    """A saved model whose folder holds code that leaves a marker when it is run."""

    folder: Path
    marker: Path


@pytest.fixture
def trapped(make_tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trapped:
    """Code under every name that a loader might look for."""
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache")
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder, marker = tmp_path / "model", tmp_path / "marker"
    save(calibrated(make_tiny), folder)
    for place in (folder, folder / PART):
        (place / "fairspan").mkdir()
        names = "fairspan calibrated modeling_evil CalibratedTransformer fairspan/calibrated"
        for name in names.split():
            (place / f"{name}.py").write_text(TRAP.format(marker=str(marker)))
    return Trapped(folder, marker)


@pytest.mark.parametrize(
    ("asks", "load"),
    [
        ("", own_loader),
        ("", plain_loader),
        ("model_kwargs config_kwargs processor_kwargs", plain_loader),
        ("model_args config_args tokenizer_args", plain_loader),
    ],
)
def test_code_in_the_folder_is_not_run_where_transformers_has_its_own(
    trapped: Trapped, make_tiny: Make, asks: str, load: Loader
) -> None:
    """The model loads with transformers' own classes, though the user trusted the folder, and the
    folder asks for trust under new or old names."""
    part = trapped.folder / PART
    edit(part / "config.json", auto_map={**MODEL_MAP, **(TOKENIZER_MAP if asks else {})})
    if asks:
        edit(part / "sentence_bert_config.json", **dict.fromkeys(asks.split(), TRUST))
    else:
        edit(part / "tokenizer_config.json", auto_map=TOKENIZER_MAP)
    loaded = load(trapped.folder)
    assert not trapped.marker.exists()
    assert_same_vectors(loaded, calibrated(make_tiny))


OTHER_MODEL = {"auto_map": MODEL_MAP, "model_type": "evil"}
OTHER_PROCESSOR = {"auto_map": {"AutoProcessor": TOKENIZER_MAP["AutoTokenizer"][0]}}


@pytest.mark.parametrize(
    ("file", "fields", "load"),
    [
        ("config.json", OTHER_MODEL, own_loader),
        ("config.json", OTHER_MODEL, plain_loader),
        ("processor_config.json", OTHER_PROCESSOR, plain_loader),
    ],
)
def test_a_folder_that_needs_its_own_code_is_refused(
    trapped: Trapped, file: str, fields: dict[str, Any], load: Loader
) -> None:
    """Where transformers has no class of its own, nothing is run and the message says why."""
    edit(trapped.folder / PART / file, **fields)
    with pytest.raises(
        (fairspan.UnsupportedModel, ValueError), match="contains custom code"
    ) as refusal:
        load(trapped.folder)
    assert not trapped.marker.exists()
    if load is own_loader:
        assert isinstance(refusal.value, fairspan.UnsupportedModel)
        assert str(trapped.folder) in str(refusal.value)


KERNEL = {"attn_implementation": "evil/kernel", "allow_all_kernels": True}


@pytest.mark.parametrize(
    ("file", "fields"),
    [("config.json", KERNEL), ("sentence_bert_config.json", {"model_kwargs": KERNEL})],
)
def test_a_folder_cannot_have_a_kernel_of_its_choice_fetched_and_run(
    make_tiny: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    fields: dict[str, Any],
) -> None:
    """transformers fetches an attention "owner/kernel" from the hub, if told to allow all."""
    asked: list[tuple[str, bool]] = []

    def record(name: str, allow_all_kernels: bool = False) -> None:
        asked.append((name, allow_all_kernels))

    monkeypatch.setattr("transformers.modeling_utils.lazy_import_flash_attention", record)
    save(calibrated(make_tiny), tmp_path)
    edit(tmp_path / PART / file, **fields)
    with suppress(fairspan.UnsupportedModel):  # to refuse is as good as to ignore it
        plain_loader(tmp_path)
    assert ("evil/kernel", True) not in asked


# Pickles in the folder


class Mark:
    """An object whose pickle makes a file when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def write_pickle(file: Path, marker: Path) -> None:
    file.write_bytes(pickle.dumps({"weight": Mark(marker)}, protocol=2))


@pytest.mark.parametrize("load", [own_loader, plain_loader])
def test_pickled_weights_are_never_read(make_tiny: Make, tmp_path: Path, load: Loader) -> None:
    """A folder without safetensors is refused, whatever it or the caller asks for."""
    asked = {"model_kwargs": {"use_safetensors": False, "weights_only": False}}
    folder, marker = tmp_path / "model", tmp_path / "marker"
    save(calibrated(make_tiny), folder)
    (folder / PART / "model.safetensors").unlink()
    write_pickle(folder / PART / "pytorch_model.bin", marker)
    edit(folder / PART / "sentence_bert_config.json", **asked)
    with pytest.raises((fairspan.UnsupportedModel, OSError), match="safetensors") as refusal:
        load(folder, **asked)
    assert not marker.exists()
    if load is own_loader:
        assert isinstance(refusal.value, fairspan.UnsupportedModel)
        assert "pytorch_model.bin" in str(refusal.value)
    pickle.loads((folder / PART / "pytorch_model.bin").read_bytes())
    assert marker.exists()  # the premise: reading it would have been noticed


@pytest.mark.parametrize(
    "file", ["2_Dense/pytorch_model.bin", "training_args.bin", "1_Pooling/state.pt"]
)
def test_fairspan_load_refuses_any_file_that_may_be_a_pickle(
    saved: dict[str, Saved], tmp_path: Path, file: str
) -> None:
    """Modules behind the transformer would read theirs, so the folder must hold none."""
    folder, marker = tmp_path / "model", tmp_path / "marker"
    save(saved["dense"].model, folder)
    write_pickle(folder / file, marker)
    with refused("may be a pickle.*convert it to safetensors") as refusal:
        fairspan.load(folder)
    assert str(folder / file) in str(refusal.value)
    assert not marker.exists()


# What fairspan.load refuses, and how


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("bert-cls", "elsewhere.Calibration"),
        ("router", "modeling_evil.EvilModel"),
    ],
)
def test_fairspan_load_refuses_foreign_module_classes(
    saved: dict[str, Saved], tmp_path: Path, name: str, reference: str
) -> None:
    """In modules.json and inside a Router."""
    save(saved[name].model, tmp_path)
    if name == "router":
        file = tmp_path / "router_config.json"
        config = json.loads(file.read_text())
        edit(file, types={**config["types"], "query_1_Pooling": reference})
    else:
        file = tmp_path / "modules.json"
        modules = json.loads(file.read_text())
        file.write_text(json.dumps([modules[0], {**modules[1], "type": reference}]))
    with refused("neither sentence_transformers' nor fairspan's") as refusal:
        fairspan.load(tmp_path)
    assert reference in str(refusal.value)


@pytest.mark.parametrize("kind", ["model.LanguageCorrection", "calibrated.CalibratedTransformer"])
def test_classes_of_an_earlier_fairspan_are_refused_with_what_to_do(
    make_tiny: Make, tmp_path: Path, kind: str
) -> None:
    fairspan.calibrate(make_tiny("bert", "cls")).save_pretrained(str(tmp_path))
    file = tmp_path / "modules.json"
    modules = json.loads(file.read_text())
    last = {"idx": len(modules), "name": "earlier", "path": "2_Earlier", "type": f"fairspan.{kind}"}
    file.write_text(json.dumps([*modules, last]))
    with refused(rf"was saved with fairspan\.{kind}, .*: calibrate its base model again"):
        fairspan.load(tmp_path)


class Square(nn.Module):
    """An activation function that torch does not have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


def test_fairspan_load_does_not_replace_an_activation_function_it_may_not_import(
    make_tiny: Make, tmp_path: Path
) -> None:
    """sentence_transformers puts Tanh in its place and only logs it."""
    projection = Dense(HIDDEN, 8, activation_function=Square())
    plain = SentenceTransformer(modules=[*make_tiny().children(), projection], device="cpu")
    model = fairspan.calibrate(plain, basket_size=16)
    save(model, tmp_path)
    assert_same_vectors(plain_loader(tmp_path), model)
    with refused("Square"):
        fairspan.load(tmp_path)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"calibration": {"format": 99}}', "layout 99, and this fairspan reads"),
        ('{"calibration": {"baskets": 3}}', "no field 'baskets'"),
        ("{}", "holds no calibration"),
        ("{", "could not be loaded: Expecting property name"),
    ],
    ids=["newer-layout", "unknown-field", "missing", "not-json"],
)
def test_a_damaged_calibration_is_one_clear_message(
    saved: dict[str, Saved], tmp_path: Path, written: str, said: str
) -> None:
    """A folder edited by hand never gives a calibration that nobody wrote."""
    save(saved["bert-cls"].model, tmp_path)
    (tmp_path / PART / "sentence_bert_config.json").write_text(written)
    with pytest.raises(fairspan.FairspanError, match=said):
        fairspan.load(tmp_path)
