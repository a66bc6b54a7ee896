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
    for name in ("fair", "tiles-32", "plain", "paper", "fair+short_texts=leave+level=false"):
        fair = fairspan.calibrate(make_tiny("bert", pooling), name)
        assert fair[0].treatment.name == name
        assert fair[0].calibration.pooling != "auto"


def test_commands_do_what_calibrate_does(make_tiny: Make, tmp_path: Path) -> None:
    """To a model that is not calibrated; others keep their calibration unless one is asked for."""
    model = make_tiny("bert", "mean")
    plain = saved(model, tmp_path / "plain")
    paper = saved(fairspan.calibrate(model, "paper"), tmp_path / "paper")
    tiles = fairspan.calibrate(model, tile_size=64)
    cases = [
        (plain, {}, fairspan.calibrate(model)),
        (plain, {"tile_size": 64}, tiles),
        (paper, {}, fairspan.calibrate(model, "paper")),
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
