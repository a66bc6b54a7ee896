"""The default preset: what models get under it, what commands apply, and what it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.cli.options import Calibrating
from fairspan.errors import UnsupportedModel
from fairspan.model.level import level_of
from fairspan.model.source import Loading
from fairspan.model.transformer import calibrated_transformers
from tests.builders.commands import Run
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]
TEXTS = [words(5, 1), words(60, 2), words(300, 3), words(700, 4)]
SAMPLE = [words(12 + number % 17, 100 + number) for number in range(40)]
# Four layers in float32, in other batches.
ROUNDING = 1e-5


@pytest.fixture(autouse=True)
def _known_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny models know no words of the embedded sample."""
    monkeypatch.setattr("fairspan.model.level.general_texts", lambda: SAMPLE)


def saved(model: SentenceTransformer, folder: Path) -> str:
    model.save_pretrained(str(folder), create_model_card=False)
    return str(folder)


def agree(first: SentenceTransformer, second: SentenceTransformer) -> bool:
    made = np.asarray(first.encode_document(TEXTS))
    return bool(np.abs(made - np.asarray(second.encode_document(TEXTS))).max() <= ROUNDING)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_model_is_named_by_its_preset(make_tiny: Make, pooling: str) -> None:
    """Also where "auto" has become the pooling of this model."""
    names = ["fair", "tiles-32", "plain", "paper", "fair+short_texts=leave", "fair+tile_size=32"]
    names += ["tiles-64+level=true", "fair+level=false"]
    for name in names:
        fair = fairspan.calibrate(make_tiny("bert", pooling), name)
        assert fair[0].treatment.name == name
        assert fair[0].calibration.pooling != "auto"


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_texts_that_are_left_are_the_plain_ones_made_level(make_tiny: Make, pooling: str) -> None:
    """Those above the window are read in tiles."""
    plain = make_tiny("bert", pooling, normalize=True)
    leaves = fairspan.calibrate(plain, "fair+short_texts=leave")
    whole = fairspan.calibrate(plain)
    level = level_of(leaves).level(np.asarray(plain.encode_document(TEXTS)))
    made = np.asarray(leaves.encode_document(TEXTS))
    assert np.abs(made[:3] - level[:3]).max() <= ROUNDING
    assert np.abs(made[3] - level[3]).max() > 100 * ROUNDING
    if pooling == "cls":
        # Even pooling is nearer to the mean in a text that is hardly longer than the window.
        assert np.abs(made[3] - whole.encode_document(TEXTS)[3]).max() <= ROUNDING
    assert np.abs(made[2] - whole.encode_document(TEXTS)[2]).max() > 100 * ROUNDING, "the premise"


def test_commands_do_what_calibrate_does(make_tiny: Make, tmp_path: Path) -> None:
    """To a model that is not calibrated; others keep their calibration unless one is asked for."""
    model = make_tiny("bert", "mean")
    plain = saved(model, tmp_path / "plain")
    paper = saved(fairspan.calibrate(model, "paper"), tmp_path / "paper")
    tiles = fairspan.calibrate(model, tile_size=64)
    cases = [
        (plain, {}, fairspan.calibrate(model)),
        (plain, {"max_seq_length": 200}, fairspan.calibrate(model, max_seq_length=200)),
        (plain, {"tile_size": 64}, tiles),
        (plain, {"preset": "plain"}, model),
        (paper, {}, fairspan.calibrate(model, "paper")),
        (paper, {"tile_size": 64}, tiles),
        (paper, {"preset": "plain"}, model),
    ]
    for folder, asked, expected in cases:
        loaded = Calibrating(**asked).load(folder, Loading(device="cpu"))  # type: ignore[arg-type]
        assert agree(loaded, expected), (folder, asked)
    left = Calibrating(preset="plain").load(plain, Loading(device="cpu"))
    assert not [*calibrated_transformers(left)]
    assert not agree(model, fairspan.calibrate(model)), "the premise"


def test_a_model_saved_as_plain_stays_plain(make_tiny: Make, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    folder = saved(fairspan.calibrate(model, "plain"), tmp_path / "plain")
    assert agree(Calibrating().load(folder, Loading(device="cpu")), model)


def test_a_model_without_attention_is_left_only_if_asked(
    run: Run, bag_of_words: SentenceTransformer, tmp_path: Path
) -> None:
    folder = saved(bag_of_words, tmp_path / "bag")
    with pytest.raises(UnsupportedModel, match='use calibration="plain" to leave the model as it'):
        Calibrating().load(folder, Loading(device="cpu"))
    left = Calibrating(preset="plain").load(folder, Loading(device="cpu"))
    text = "a few words"
    assert np.array_equal(left.encode(text), bag_of_words.encode(text))
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"id": "a", "text": "a few words"}')
    remedy = "use --preset plain to leave the model as it is."
    for typed in (("embed", folder, rows, "out"), ("export", folder, "graph"), ("serve", folder)):
        where = ("--port", "0") if typed[0] == "serve" else ()
        done = run(*typed, *where)
        done.is_one_line(remedy)
        assert done.last.endswith(remedy)
    # An uncalibrated model is no reason to name a preset that does not fit.
    assert "leave the model" not in run("export", folder, "graph", "--preset", "paper").last
