"""Classification by length: accuracy and entropy by scikit-learn alone, and faulty files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
import lc_classification
from tests.builders.saying import said_by
from tests.builders.tiny import WORDS
from tests.papers.conftest import Script, written_commands

pytest.importorskip("sklearn")

TYPED = ["--temperatures", "0.5,1", "--bin", "50"]


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def labelled(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts of 20 and of 60 tokens, of two classes that prefer other words."""
    rng = np.random.default_rng(seed)
    preferred = (WORDS[50:70], WORDS[:20])
    rows = []
    for number in range(count):
        label = number // 2 % 2
        drawn = [
            str(rng.choice(preferred[label] if rng.random() < 0.3 else WORDS))
            for _ in range(20 + 40 * (number % 2))
        ]
        rows.append({"text": " ".join(drawn), "label": label})
    return rows


@pytest.fixture
def model(save_tiny: Callable[..., Path]) -> Path:
    return save_tiny("bert", "mean")


def test_accuracy_and_entropy_by_hand(script: Script, model: Path, tmp_path: Path) -> None:
    """With a file to learn from, and nothing of the script's."""
    from sklearn.linear_model import LogisticRegression

    tested, learned = labelled(60, seed=0), labelled(80, seed=1)
    test_file = write(tmp_path / "test.jsonl", *tested)
    train_file = write(tmp_path / "train.jsonl", *learned)
    typed = (test_file, "--train", train_file, *TYPED, "--out", tmp_path / "out")
    said = script(lc_classification, model, *typed).ok
    scores = pl.read_csv(tmp_path / "out" / "classification.csv")
    assert scores.select("temperature", "length", "texts").rows() == [
        (temperature, length, 30) for temperature in (0.5, 1.0) for length in (0, 50)
    ]
    plain = fairspan.load(model)
    for temperature in (0.5, 1.0):
        treated = fairspan.calibrate(plain, "tempscale", temperature=temperature)
        vectors = {
            name: treated.encode_document([row["text"] for row in rows], normalize_embeddings=True)
            for name, rows in (("test", tested), ("train", learned))
        }
        fit = LogisticRegression(max_iter=100).fit(
            vectors["train"].astype(np.float64), [row["label"] for row in learned]
        )
        shares = fit.predict_proba(vectors["test"].astype(np.float64))
        correct = fit.predict(vectors["test"]) == [row["label"] for row in tested]
        for place, length in enumerate((0, 50)):
            row = scores.row(
                by_predicate=(pl.col("temperature") == temperature) & (pl.col("length") == length),
                named=True,
            )
            accuracy = correct[place::2].mean()
            entropy = -(shares * np.log(shares)).sum(1)[place::2].mean()
            assert row["accuracy"] == pytest.approx(accuracy, abs=1e-9)
            assert row["error"] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / 30), abs=1e-9)
            assert row["entropy"] == pytest.approx(entropy, abs=1e-3)
            assert f"{row['accuracy']:.3f}".rstrip("0") in said.out
    assert scores["accuracy"].max() > 0.6, "something can be learnt"
    assert (tmp_path / "out" / "classification.png").stat().st_size > 1000


def test_half_of_each_length_is_learned_from(script: Script, model: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "one.jsonl", *labelled(90, seed=2))
    typed = (file, *TYPED, "--texts", "33", "--out", tmp_path / "out")
    assert script(lc_classification, model, *typed).ok
    scores = pl.read_csv(tmp_path / "out" / "classification.csv")
    assert set(scores["texts"]) == {17}
    learns = lc_classification.learning(np.array([0] * 7 + [50] * 4))
    assert (learns[:7].sum(), learns[7:].sum()) == (3, 2)


def test_vectors_are_computed_once(
    script: Script, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    encode = SentenceTransformer.encode_document

    def counted(self: Any, *texts: Any, **options: Any) -> Any:
        if len(calls) == 1:
            calls.append("interrupted")
            raise KeyboardInterrupt
        calls.append("embedded")
        return encode(self, *texts, **options)

    monkeypatch.setattr(SentenceTransformer, "encode_document", counted)
    file = write(tmp_path / "one.jsonl", *labelled(30, seed=2))
    typed = (model, file, *TYPED, "--out", tmp_path / "out")
    assert script(lc_classification, *typed).code == 130
    assert script(lc_classification, *typed).ok
    assert script(lc_classification, *typed).ok
    assert calls == ["embedded", "interrupted", "embedded"]


def test_a_label_that_was_not_learned_is_wrong() -> None:
    rng = np.random.default_rng(0)
    vectors, labels = rng.normal(size=(40, 3)), np.array(["a", "b"] * 20)
    labels[-1] = "c"
    correct, entropy = lc_classification.classify(vectors, labels, np.arange(40) < 30)
    assert not correct[-1]
    assert (entropy > 0).all()
    assert (entropy <= np.log(2) + 1e-12).all()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"text": "w1", "label": 1}, {"label": 2}], "line 2: there is no field 'text'"),
        ([{"text": "w1", "label": 0.5}], "line 1: 'label' must be text or a whole number"),
        ([{"text": "w1", "label": 1}] * 2, "has 1 labels: give at least 2 classes"),
        ([], "has 0 labels"),
    ],
)
def test_a_faulty_file_is_one_line(tmp_path: Path, rows: list[object], reason: str) -> None:
    file = write(tmp_path / "a.jsonl", *rows)
    error = said_by(lc_classification.read_labelled, file, kind=fairspan.CorpusError)
    assert reason in error


def test_bad_input_is_one_line(script: Script, model: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", *labelled(8, seed=0))
    for typed, reason in (
        ([tmp_path / "nowhere.jsonl"], "nowhere.jsonl"),
        ([file, "--texts", "0"], "texts must be a whole number of at least 1, got 0"),
        ([file, "--temperatures", "0"], "temperature must be a number above 0"),
    ):
        said = script(lc_classification, model, *typed, "--out", tmp_path / "out")
        assert (said.code, said.err.count("\n")) == (2, 1)
        assert said.err.startswith("lc_classification.py: ")
        assert reason in said.err


def test_written_commands_are_accepted() -> None:
    commands = written_commands("lc_classification.py")
    assert commands
    for typed in commands:
        lc_classification.app.parse_args(typed)
