"""Calibrations as users write them: names, fields alone, and files, refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import Calibration
from fairspan.calibration.calibration import CALIBRATION_FILE, PRESETS
from fairspan.calibration.spelling import as_calibration, read_calibration
from tests.builders.saying import said_by
from tests.builders.tiny import words

TILES = Calibration(strength=0.0, temperature=0.9, tile_size=5)
FAIR = PRESETS["fair"]


def write(file: Path, calibration: Calibration = TILES) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    # As editors on Windows do.
    file.write_text(calibration.to_json(), encoding="utf-8-sig")
    return file


@pytest.mark.parametrize(
    ("name", "fields", "calibration"),
    [
        (None, {}, FAIR),
        (None, {"tile_size": 64}, FAIR.but(tile_size=64)),
        (None, {"sides": "both"}, FAIR.but(sides="both")),
        (None, {"basket_size": 64}, Calibration(basket_size=64)),
        (
            None,
            {"basket_size": 8, "tile_size": 64},
            PRESETS["plain"].but(basket_size=8, tile_size=64),
        ),
        ("tiles-64", {"tile_size": None, "pooling": "model"}, PRESETS["tempscale"]),
        ("paper+basket_size=64", {}, Calibration(basket_size=64)),
        ("fair+level=false", {"tile_size": 8}, FAIR.but(level=False, tile_size=8)),
        ({"strength": 0}, {}, PRESETS["plain"]),
        (TILES, {"temperature": 1}, TILES.but(temperature=1)),
    ],
)
def test_names_and_fields(name: Any, fields: dict[str, Any], calibration: Calibration) -> None:
    """Fields alone change `fair`, unless one is about baskets: their size does not bring tiles."""
    assert as_calibration(name, **fields) == calibration


@pytest.mark.parametrize("name", ["papre", "", "tiles-0", "x" * 5000, "a\0b"])
def test_what_names_no_file_is_taken_for_a_preset(name: str) -> None:
    assert "there is no preset" in said_by(as_calibration, name)


def test_what_is_no_calibration_is_refused() -> None:
    assert said_by(as_calibration, 7).endswith("or a Calibration, got 7.")


def test_a_preset_comes_before_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "paper")
    write(tmp_path / "tiles-64" / CALIBRATION_FILE)
    write(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert as_calibration("paper") == PRESETS["paper"]
    for file in ("mine", "./paper", "./tiles-64", Path("paper"), f"{tmp_path}/tiles-64/"):
        assert as_calibration(file) == TILES, file


# The preset "tiles" of an earlier version, as that wrote it.
_OLD = {
    "format": 4,
    "basket_size": 128,
    "layers": "last_half",
    "strength": 0.0,
    "bos": "auto",
    "eos": "auto",
    "short_texts": "calibrate",
    "temperature": 0.8,
    "sides": "both",
    "scale_position_bias": False,
    "tile_size": 64,
    "pooling": "auto",
    "ridge": 0.2,
}


def test_a_file_of_0_2(tmp_path: Path) -> None:
    """It had no level vectors."""
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps(_OLD), encoding="utf-8")
    assert read_calibration(tmp_path).to_dict() == {**_OLD, "format": 5, "level": False}


def test_a_model_is_calibrated_by_a_file(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path
) -> None:
    """The premise: this calibration changes the vector of this text."""
    model, text = make_tiny("bert", "cls"), words(40)
    write(tmp_path / CALIBRATION_FILE)
    wanted = fairspan.calibrate(model, TILES).encode(text)
    assert not np.allclose(wanted, model.encode(text), atol=1e-3)
    assert np.array_equal(fairspan.calibrate(model, str(tmp_path)).encode(text), wanted)
    changed = fairspan.calibrate(model, tmp_path, temperature=1.0, max_seq_length=20)
    assert changed[0].calibration == TILES.but(temperature=1.0)
    assert changed.max_seq_length == 20


BAD = [
    ("", "not JSON: Expecting value: line 1"),
    ('{"strength": 0.5,\n "sides" "document"}', "not JSON: Expecting ':' delimiter: line 2"),
    ("[" * 200_000, "not JSON: "),
    (f'{{"basket_size": {"9" * 5000}}}', "not JSON: "),
    ("[1, 2]", "a calibration is a JSON object, got list"),
    ('{"colour": 1}', "Calibration has no field 'colour'. Fields: basket_size"),
    ('{"format": 3, "strength": 0.5}', "has layout 3, and this fairspan reads layout 5"),
    ('{"bos": NaN}', "bos must be one of"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_a_file_that_holds_no_calibration_is_one_line_with_its_path(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / CALIBRATION_FILE
    file.write_text(text, encoding="utf-8")
    for path in (file, tmp_path):
        assert said_by(read_calibration, path).startswith(f"{file}: ")
        assert message in said_by(read_calibration, path)


def test_a_path_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / CALIBRATION_FILE
    assert said_by(read_calibration, tmp_path) == f"there is no file {file}."
    file.mkdir()
    assert said_by(read_calibration, tmp_path).startswith(f"{file} cannot be read: ")
    file = tmp_path / "b.json"
    file.write_bytes(b"\xff\xfe{}")
    for path in (file, file / "deeper.json"):
        assert said_by(read_calibration, path).startswith(f"{path} cannot be read: ")
    null = said_by(read_calibration, "a\0b.json")
    assert null.endswith("cannot be read: embedded null byte.")
    assert "cannot be read: " in said_by(read_calibration, f"{'x' * 300}.json")
