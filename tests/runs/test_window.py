"""One window everywhere: what a study measures is what is calibrated, served, embedded, exported.

Tiny models with 60 positions are limited to 40 tokens. Tiles are as large as the window, and texts
that fit into it are left alone, so that another window gives other vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.cli.options import Calibrating
from fairspan.encoding.text import Text
from fairspan.exporting.export import relative_difference
from fairspan.model.build import copy_sharing_weights
from fairspan.model.loading import load_model
from fairspan.model.source import Loading
from fairspan.model.window import ANY_LENGTH, Window, set_window, window_of
from fairspan.runs.subject import open_subject
from tests.builders.saying import said_by
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]
LIMIT, POSITIONS = 40, 60
PRESET = "tiles-64+tile_size=window+short_texts=leave+pooling=model"
CALIBRATION = as_treatment(PRESET).calibration
POOLINGS = {"bert": "mean", "xlm-roberta": "cls", "mpnet": "mean", "modernbert": "mean"}
POOLINGS |= {"qwen3": "lasttoken"}
ASKED = [None, 30, 50, 100]
# Special tokens included: within every window, beyond the limit, beyond the positions, and beyond
# all that is asked for.
TEXTS = [words(tokens - 2, tokens) for tokens in (20, 50, 90, 150)]
# Of a vector's length. float32 has seven digits, and routes differ in their batches only, so that
# sums of a few hundred products in four layers are in another order: a hundred roundings.
ROUNDING = 1e-5
# What another window changes: a thousand times as much.
OTHER = 1e-2


def limited(make: Make, architecture: str = "bert", **options: Any) -> SentenceTransformer:
    """A model of 60 positions whose own limit is 40 tokens."""
    # Their positions begin after the padding's.
    offset = 2 if architecture in ("xlm-roberta", "mpnet") else 0
    options["max_position_embeddings"] = POSITIONS + offset
    model = copy_sharing_weights(make(architecture, POOLINGS[architecture], **options))
    model.max_seq_length = LIMIT
    return model


def by_hand(model: SentenceTransformer, asked: int | None) -> np.ndarray:
    """The rule in other words: a model whose own limit is the window, on texts that are cut."""
    limited = copy_sharing_weights(model)
    limited.max_seq_length = min(asked or LIMIT, POSITIONS)
    read = [" ".join(text.split()[: asked and asked - 2]) for text in TEXTS]
    return np.asarray(fairspan.calibrate(limited, CALIBRATION).encode_document(read, batch_size=1))


def studied(folder: Path, preset: str, asked: int | None) -> np.ndarray:
    subject = open_subject(str(folder), loading=Loading(max_seq_length=asked))
    encoder = subject.under(as_treatment(preset)).documents
    return np.stack(encoder.vectors([Text(text, 2 + len(text.split())) for text in TEXTS]))


def embedded(folder: Path, calibration: Calibration | None, asked: int | None) -> np.ndarray:
    rows = [{"id": str(number), "text": text} for number, text in enumerate(TEXTS)]
    out = folder.with_name(f"vectors of {folder.name}")
    options: Any = {"calibration": calibration, "max_seq_length": asked, "progress": False}
    return fairspan.embed(str(folder), rows, out, **options).scan().collect()["vector"].to_numpy()


def calibrated(folder: Path, preset: str | None, asked: int | None) -> SentenceTransformer:
    """As `calibrate`, `serve` and `export` make it."""
    return Calibrating(preset=preset, max_seq_length=asked).load(str(folder), Loading())


def served(model: SentenceTransformer) -> np.ndarray:
    pytest.importorskip("starlette", reason="needs fairspan[serve]")
    from starlette.testclient import TestClient

    from fairspan.serving.app import make_app
    from fairspan.serving.service import Service

    service = Service(model, name="tiny", truncate=True)
    with TestClient(make_app(service), base_url="http://localhost") as client:
        reply = client.post("/v1/embeddings", json={"model": "tiny", "input": TEXTS}).json()
    return np.array([row["embedding"] for row in reply["data"]], dtype=np.float32)


def assert_all(vectors: dict[str, np.ndarray], expected: np.ndarray) -> None:
    differences = {route: relative_difference(found, expected) for route, found in vectors.items()}
    assert max(differences.values()) <= ROUNDING, differences


@pytest.mark.parametrize(
    ("architecture", "asked"),
    [
        ("bert", None),
        ("qwen3", 100),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                *(("bert", 30), ("bert", 50), ("bert", 100), ("qwen3", None)),
                *(("xlm-roberta", 100), ("mpnet", 50), ("modernbert", 30)),
            )
        ),
    ],
)
def test_every_route_gives_the_same_vectors(
    make_tiny: Make, tmp_path: Path, architecture: str, asked: int | None
) -> None:
    """From the plain model and from a calibrated one that was saved, with another limit or not."""
    model = limited(make_tiny, architecture)
    plain, saved = tmp_path / "plain", tmp_path / "saved"
    model.save_pretrained(str(plain), create_model_card=False)
    fairspan.calibrate(model, CALIBRATION).save_pretrained(str(saved))
    again = calibrated(saved, None, asked)
    anew = fairspan.calibrate(str(saved), CALIBRATION, max_seq_length=asked)
    again.save_pretrained(str(tmp_path / "twice"))
    by_name = fairspan.calibrate(str(plain), CALIBRATION, max_seq_length=asked)
    vectors = {
        "study": studied(plain, PRESET, asked),
        "calibrate": np.asarray(by_name.encode(TEXTS)),
        "serve": served(calibrated(plain, PRESET, asked)),
        "embed": embedded(plain, CALIBRATION, asked),
        "study of a saved one as it is": studied(saved, "plain", asked),
        "study of a saved one": studied(saved, PRESET, asked),
        "calibrate a saved one": np.asarray(anew.encode_document(TEXTS)),
        "load a saved one": np.asarray(again.encode_document(TEXTS)),
        "serve a saved one": served(again),
        "embed with a saved one": embedded(saved, None, asked),
        "saved twice": np.asarray(fairspan.load(tmp_path / "twice").encode_document(TEXTS)),
    }
    expected = by_hand(model, asked)
    assert_all(vectors, expected)
    # The premise: the text of 90 tokens would be read otherwise in another window.
    others = [by_hand(model, other)[2:3] for other in ASKED if other != asked]
    assert min(relative_difference(other, expected[2:3]) for other in others) > OTHER


@pytest.mark.parametrize(("architecture", "asked"), [("bert", None), ("qwen3", 50)])
def test_every_route_gives_the_plain_vectors(
    make_tiny: Make, tmp_path: Path, architecture: str, asked: int | None
) -> None:
    model, folder = limited(make_tiny, architecture), tmp_path / "plain"
    model.save_pretrained(str(folder), create_model_card=False)
    plain = calibrated(folder, "plain", asked)
    expected = copy_sharing_weights(model)
    expected.max_seq_length = asked or LIMIT
    vectors = {
        "study": studied(folder, "plain", asked),
        "load": np.asarray(plain.encode_document(TEXTS)),
        "serve": served(plain),
        "embed": embedded(folder, as_treatment("plain").calibration, asked),
    }
    assert_all(vectors, np.asarray(expected.encode_document(TEXTS, batch_size=1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "asked"), [("bert", None), ("mpnet", 100), ("qwen3", 100)]
)
def test_an_exported_graph_gives_them_too(
    make_tiny: Make, tmp_path: Path, architecture: str, asked: int | None
) -> None:
    from tests.exporting.test_export import embed

    model = limited(make_tiny, architecture, num_hidden_layers=1)
    plain, saved = tmp_path / "plain", tmp_path / "saved"
    model.save_pretrained(str(plain), create_model_card=False)
    fairspan.calibrate(model, CALIBRATION).save_pretrained(str(saved))
    vectors = {}
    for folder, preset in ((plain, PRESET), (saved, None)):
        out = tmp_path / f"graph of {folder.name}"
        fairspan.export(calibrated(folder, preset, asked), out)
        vectors[folder.name] = embed(out, TEXTS)
    assert_all(vectors, by_hand(model, asked))


@pytest.mark.parametrize("asked", [None, 1, 50, 60, 61])
def test_the_rule(make_tiny: Make, asked: int | None) -> None:
    """With and without tiles, on the plain model and on a calibrated one."""
    model = limited(make_tiny)
    plain = min(asked or LIMIT, POSITIONS)
    for start in (model, *(fairspan.calibrate(model, how) for how in ("paper", "tiles-16"))):
        tiled = fairspan.calibrate(start, "tiles-16", max_seq_length=asked)[0]
        assert Window.of(tiled, tiled=True) == Window(plain, asked)
        assert (tiled.untiled_length, tiled.max_seq_length) == (plain, asked or ANY_LENGTH)
        assert tiled.tiling.at_once == plain
        if asked is not None and asked > POSITIONS:
            said = said_by(fairspan.calibrate, start, "paper", max_seq_length=asked)
            assert f"={asked} is more than the model's 60 pos" in said
        else:
            untiled = fairspan.calibrate(start, "paper", max_seq_length=asked)[0]
            assert Window.of(untiled, tiled=False) == Window(plain, plain)
            assert (untiled.untiled_length, untiled.max_seq_length) == (None, plain)


def test_more_than_the_positions_is_for_tiles_of_a_study(make_tiny: Make, tmp_path: Path) -> None:
    """The plain model beside them reads its positions."""
    model = limited(make_tiny)
    model.save_pretrained(str(tmp_path / "plain"), create_model_card=False)
    model.max_seq_length = POSITIONS
    plain = np.asarray(model.encode_document(TEXTS, batch_size=1))
    assert_all({"study": studied(tmp_path / "plain", "plain", 100)}, plain)
    said = said_by(calibrated, tmp_path / "plain", "plain", 100)
    assert "max_seq_length=100 is more than the model's 60 pos" in said


def test_what_has_no_window_is_one_line(
    make_tiny: Make, bag_of_words: SentenceTransformer, tmp_path: Path
) -> None:
    for asked in (0, -1, 1.5, "9"):
        said = said_by(set_window, make_tiny()[0], asked)
        assert "max_seq_length must be a whole number" in said
    bag_of_words.save_pretrained(str(tmp_path / "bag"), create_model_card=False)
    said = said_by(load_model, str(tmp_path / "bag"), Loading(max_seq_length=20))
    assert "has no Transformer module: omit max_seq_length" in said


def test_a_saved_window_is_kept(make_tiny: Make, tmp_path: Path) -> None:
    """Also one of tiles in the model's own window that read no further than was set by hand."""
    fair = fairspan.calibrate(limited(make_tiny), CALIBRATION)
    fair.max_seq_length = 100
    fair.save_pretrained(str(tmp_path / "saved"))
    loaded = fairspan.load(tmp_path / "saved")
    assert Window.of(loaded[0], tiled=True) == Window(LIMIT, 100)
    vectors = {
        "load": np.asarray(loaded.encode_document(TEXTS)),
        "study": studied(tmp_path / "saved", "plain", None),
        "serve": served(loaded),
    }
    assert_all(vectors, np.asarray(fair.encode_document(TEXTS, batch_size=1)))


def test_each_side_of_a_router_has_its_window(make_tiny: Make) -> None:
    from sentence_transformers.sentence_transformer.modules import Router

    towers = {"query": make_tiny("bert", "cls"), "document": limited(make_tiny)}
    parts = {f"{side}_modules": list(tower.children()) for side, tower in towers.items()}
    model = SentenceTransformer(modules=[Router.for_query_document(**parts)], device="cpu")
    assert {side: window_of(model, side=side) for side in towers} == {"query": 512, "document": 40}  # type: ignore[arg-type]
