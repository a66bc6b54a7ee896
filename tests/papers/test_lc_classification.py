"""Classification by length: accuracy and entropy by scikit-learn alone, and faulty files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairspan
import lc_classification
from tests.builders.saying import said_by
from tests.builders.tiny import WORDS
from tests.corpus.test_corpus import write
from tests.papers.conftest import Script, refused

pytest.importorskip("sklearn")

TYPED = ["--temperatures", "0.5,1", "--bin", "50"]


def labelled(count: int, seed: int) -> list[dict[str, Any]]:
    """Texts of 20 and of 60 tokens, of two classes that prefer other words."""
    rng = np.random.default_rng(seed)
    preferred = (WORDS[50:70], WORDS[:20])
    rows = []
    for number in range(count):
        label = number // 2 % 2
        sources = [preferred[label] if rng.random() < 0.3 else WORDS for _ in range(20)]
        sources *= 1 + 2 * (number % 2)
        rows.append({"text": " ".join(map(str, map(rng.choice, sources))), "label": label})
    return rows


def test_accuracy_and_entropy_by_hand(script: Script, model: Path, tmp_path: Path) -> None:
    """With a file to learn from, and nothing of the script's."""
    from sklearn.linear_model import LogisticRegression

    rows = {"test": labelled(60, seed=0), "train": labelled(80, seed=1)}
    files = {name: write(tmp_path / f"{name}.jsonl", some) for name, some in rows.items()}
    typed = (files["test"], "--train", files["train"], *TYPED, "--out", tmp_path / "out")
    said = script(lc_classification, model, *typed).ok
    scores = pl.read_csv(tmp_path / "out" / "classification.csv")
    keys = [(temperature, length) for temperature in (0.5, 1.0) for length in (0, 50)]
    assert scores.select("temperature", "length", "texts").rows() == [(*key, 30) for key in keys]
    plain = fairspan.load(model)
    labels = {name: np.array([row["label"] for row in some]) for name, some in rows.items()}
    for temperature in (0.5, 1.0):
        treated = fairspan.calibrate(plain, "tempscale", temperature=temperature)
        vectors = {
            name: treated.encode_document([row["text"] for row in some], normalize_embeddings=True)
            for name, some in rows.items()
        }
        fit = LogisticRegression(max_iter=100)
        fit.fit(vectors["train"].astype(np.float64), labels["train"])
        shares = fit.predict_proba(vectors["test"].astype(np.float64))
        correct = fit.predict(vectors["test"]) == labels["test"]
        entropies = -(shares * np.log(shares)).sum(1)
        for place, row in enumerate(scores.filter(temperature=temperature).iter_rows(named=True)):
            accuracy = correct[place::2].mean()
            assert row["accuracy"] == pytest.approx(accuracy, abs=1e-9)
            assert row["error"] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / 30), abs=1e-9)
            assert row["entropy"] == pytest.approx(entropies[place::2].mean(), abs=1e-3)
            assert f"{row['accuracy']:.3f}".rstrip("0") in said.out
    assert scores["accuracy"].max() > 0.6, "something can be learnt"
    assert (tmp_path / "out" / "classification.png").stat().st_size > 1000


def test_half_of_each_length_is_learned_from() -> None:
    """Without another file to learn from."""
    learns = lc_classification.learning(np.array([0] * 7 + [50] * 4))
    assert (learns[:7].sum(), learns[7:].sum()) == (3, 2)


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
    file = write(tmp_path / "a.jsonl", rows)
    error = said_by(lc_classification.read_labelled, file, kind=fairspan.CorpusError)
    assert reason in error


def test_bad_input_is_one_line(script: Script, model: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", labelled(8, seed=0))
    for typed, reason in (
        ([tmp_path / "nowhere.jsonl"], "nowhere.jsonl"),
        ([file, "--texts", "0"], "texts must be a whole number of at least 1, got 0"),
    ):
        refused(script(lc_classification, model, *typed, "--out", tmp_path / "out"), reason)
