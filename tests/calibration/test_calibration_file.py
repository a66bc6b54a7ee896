"""A calibration in a file: read in Python and in commands, refused in one line with its path."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import Calibration, DesignError, PerSide
from fairspan.calibration.calibration import CALIBRATION_FILE, PRESETS
from fairspan.calibration.spelling import as_calibration, read_calibration
from tests.builders.commands import Run
from tests.builders.tiny import tiny_model, words

TILES = Calibration(strength=0.0, temperature=0.9, tile_size=5)


def write(file: Path, calibration: Calibration) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(calibration.to_json(), encoding="utf-8")
    return file


def refusal(path: str | Path) -> str:
    with pytest.raises(DesignError) as caught:
        read_calibration(path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    assert caught.value.__suppress_context__
    return said


@pytest.mark.parametrize(
    "calibration",
    [
        *PRESETS.values(),
        Calibration(layers=[5, 3], bos="original", sides="document"),
        Calibration(temperature=PerSide(query=1.0, document=0.8)),
        TILES.but(tile_size="window"),
    ],
)
def test_what_was_written_is_read(tmp_path: Path, calibration: Calibration) -> None:
    file = write(tmp_path / "run" / CALIBRATION_FILE, calibration)
    for path in (file, str(file), file.parent, str(file.parent), f"{file.parent}/"):
        assert read_calibration(path) == as_calibration(path) == calibration


def test_a_preset_comes_before_a_file_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "paper", TILES)
    write(tmp_path / "tiles-64" / CALIBRATION_FILE, TILES)
    write(tmp_path / "mine", TILES)
    monkeypatch.chdir(tmp_path)
    assert as_calibration("paper") == PRESETS["paper"]
    for file in ("mine", "./paper", "./tiles-64", Path("paper"), Path("tiles-64")):
        assert as_calibration(file) == TILES, file


# The presets of earlier versions, as these wrote them.
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
_OLD_PRESETS = {
    "tiles": _OLD,
    "long": {**_OLD, "tile_size": 128, "short_texts": "leave"},
    "even": {
        **_OLD,
        "temperature": 1.0,
        "tile_size": None,
        "pooling": "even",
        "sides": "document",
    },
}


@pytest.mark.parametrize("preset", _OLD_PRESETS)
def test_files_of_removed_presets_are_what_they_were(tmp_path: Path, preset: str) -> None:
    """A file holds fields, and none of these presets had level vectors."""
    written = _OLD_PRESETS[preset]
    (tmp_path / CALIBRATION_FILE).write_text(json.dumps(written), encoding="utf-8")
    calibration = read_calibration(tmp_path)
    assert calibration.to_dict() == {**written, "format": Calibration.FORMAT, "level": False}


@pytest.mark.parametrize("given", ["papre", "", "x" * 5000, "a\0b"])
def test_what_names_no_file_is_taken_for_a_preset(given: str) -> None:
    with pytest.raises(DesignError, match="there is no preset"):
        as_calibration(given)


def test_a_model_is_calibrated_by_a_file(
    make_tiny: Callable[..., SentenceTransformer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The premise: this calibration changes the vector of this text."""
    model, text = make_tiny("bert", "cls"), words(40)
    write(tmp_path / "runs" / "tune-1" / CALIBRATION_FILE, TILES)
    monkeypatch.chdir(tmp_path)
    wanted = fairspan.calibrate(model, TILES).encode(text)
    assert not np.allclose(wanted, model.encode(text), atol=1e-3)
    for given in ("runs/tune-1", "runs/tune-1/calibration.json", Path("runs/tune-1")):
        assert np.array_equal(fairspan.calibrate(model, given).encode(text), wanted), given
    changed = fairspan.calibrate(model, "runs/tune-1", temperature=1.0, max_seq_length=20)
    assert changed[0].calibration == TILES.but(temperature=1.0)
    assert changed.max_seq_length == 20
    for given, said in (
        ("papre", "there is no preset 'papre'. Presets: fair"),
        ("runs/tune-2", "there is no file"),
    ):
        with pytest.raises(DesignError) as caught:
            fairspan.calibrate(model, given)
        assert said in str(caught.value)


BAD = [
    ("", "not JSON: Expecting value: line 1"),
    ('{"strength": 0.5,\n "sides" "document"}', "not JSON: Expecting ':' delimiter: line 2"),
    ("[" * 200_000, "not JSON: "),
    (f'{{"basket_size": {"9" * 5000}}}', "not JSON: "),
    ("[1, 2]", "a calibration is a JSON object, got list"),
    ('"paper"', "a calibration is a JSON object, got str"),
    ("null", "a calibration is a JSON object, got NoneType"),
    ('{"colour": 1}', "Calibration has no field 'colour'. Fields: basket_size"),
    ('{"format": 1, "strength": 0.5}', "has layout 1, and this fairspan reads layout 5"),
    ('{"temperature": {"query": NaN}}', "at most 1, got nan"),
    ('{"bos": NaN}', "bos must be one of"),
]


@pytest.mark.parametrize(("text", "said"), BAD, ids=[said[:40] for _, said in BAD])
def test_a_file_that_holds_no_calibration_is_one_line_with_its_path(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / CALIBRATION_FILE
    file.write_text(text, encoding="utf-8")
    for path in (file, tmp_path):
        line = refusal(path)
        assert line.startswith(f"{file}: ")
        assert said in line


def test_a_path_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert refusal(tmp_path / "a.json") == f"there is no file {tmp_path / 'a.json'}."
    assert refusal(tmp_path) == f"there is no file {tmp_path / CALIBRATION_FILE}."
    (tmp_path / CALIBRATION_FILE).mkdir()
    assert refusal(tmp_path).startswith(f"{tmp_path / CALIBRATION_FILE} cannot be read: ")
    file = tmp_path / "b.json"
    file.write_bytes(b"\xff\xfe{}")
    assert refusal(file).startswith(f"{file} cannot be read: ")
    assert refusal(file / "deeper.json").startswith(f"{file / 'deeper.json'} cannot be read: ")
    assert refusal("a\0b.json").endswith("cannot be read: embedded null byte.")
    assert "cannot be read: " in refusal(f"{'x' * 300}.json")


# --- on the command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "cls").save_pretrained(str(path))
    return path


def test_calibrate_takes_a_file_or_its_folder(run: Run, folder: Path, tmp_path: Path) -> None:
    file, fair = write(tmp_path / "run" / CALIBRATION_FILE, TILES), tmp_path / "fair"
    done = run("calibrate", folder, fair, "--calibration", file.parent, "--json").ok
    assert Calibration.from_dict(json.loads(done.out)["calibration"]) == TILES
    assert fairspan.load(fair, device="cpu")[0].calibration == TILES
    for number, (held, said) in enumerate(
        [(TILES, "tiles of 5 tokens"), (Calibration.preset("plain"), "the plain model")]
    ):
        done = run(
            "calibrate", folder, tmp_path / f"out{number}", "--calibration", write(file, held)
        )
        assert f"{folder}, {said}" in done.out
        assert "calibrated" not in done.out


def test_a_preset_beside_a_file_is_one_line(run: Run, folder: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "mine.json", TILES)
    run(
        "calibrate", folder, tmp_path / "fair", "--preset", "paper", "--calibration", file
    ).is_one_line("preset and calibration both say what to start from: omit one of them.")
    assert not (tmp_path / "fair").exists()
