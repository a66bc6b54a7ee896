"""Classification by length: against scipy's optimiser and sums by hand; faulty files."""

from __future__ import annotations

import gzip
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fairspan.errors import CorpusError, DesignError, MissingExtra
from fairspan.studies.collapse.classification import classify, read_labelled, training_part
from tests.saying import said_by


def write(path: Path, *rows: object) -> Path:
    path.write_text(
        "".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), "utf-8"
    )
    return path


def test_labels_are_texts_or_numbers_and_ids_may_be_missing(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl",
        {"id": "x", "label": 0, "text": "bad"},
        "\n",
        {"label": "good", "text": "fine"},
        {"id": 7, "label": "good", "text": "nice"},
    )
    corpus, labels = read_labelled(file, "en")
    assert labels == {"x": "0", "a.jsonl, line 3": "good", "7": "good"}
    assert [corpus.text(name, "en") for name in labels] == ["bad", "fine", "nice"]
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert list(read_labelled(str(zipped), "en")[1].values()) == ["0", "good", "good"]


GOOD = {"id": "a", "label": 1, "text": "t"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, {"label": 1}], "a.jsonl, line 2: there is no field 'text'. Fields there: label."),
        (
            [GOOD, "\n", {"label": 0.5, "text": "t"}],
            "a.jsonl, line 3: 'label' must be text or a whole number",
        ),
        ([GOOD, {"label": 1, "text": ""}], "a.jsonl, line 2: 'text' is empty"),
        ([GOOD, GOOD], "a.jsonl, line 2: the id 'a' was already used at a.jsonl, line 1"),
        ([GOOD, {"label": 1, "text": "u"}], "all 2 texts have the label '1'"),
        ([], "is empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, rows: list[object], said: str) -> None:
    file = write(tmp_path / "a.jsonl", *rows)
    assert said in said_by(read_labelled, file, "en", kind=CorpusError)


def test_texts_of_a_document_fall_together_and_stay_there() -> None:
    names = [f"doc-{number}" for number in range(400)]

    def part(documents: list[str], seed: int = 0) -> np.ndarray:
        return training_part(documents, ["a", "b"] * (len(documents) // 2), seed=seed)

    train = part([name for name in names for _ in range(3)]).reshape(400, 3)
    assert (train.all(1) | ~train.any(1)).all()
    # Five standard errors of a share of 400.
    assert train.mean() == pytest.approx(0.5, abs=5 * math.sqrt(0.25 / 400))
    np.testing.assert_array_equal(part(names), train[:, 0])
    np.testing.assert_array_equal(part(names[100:200]), train[100:200, 0])
    assert (part(names, seed=1) != train[:, 0]).any()
    # Fixed for good: a change of the hash would move tested texts into the training part.
    assert np.flatnonzero(train[:12, 0]).tolist() == [0, 1, 3, 5, 10, 11]
    with pytest.raises(DesignError, match="both parts need at least 2"):
        training_part(names[:2], ["a", "b"])
    with pytest.raises(DesignError, match="to train on have the label 'a'"):
        training_part(names, ["a"] * 400)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_the_penalised_likelihood(classes: int) -> None:
    """Maximised by scipy: Σ ln p − ‖w‖²/2, the intercepts free. Both stop at a slope of about 1e-4.

    With two classes there is one vector, whose penalty is half of that of two opposite ones.
    """
    optimize, special = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.special")
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(200, 5))
    y = (x[:, :classes] + rng.normal(size=(200, classes))).argmax(1)
    train, test = slice(0, 120), slice(120, 200)

    def logits(flat: np.ndarray, rows: np.ndarray) -> np.ndarray:
        w = flat.reshape(-1, 6)
        scores = rows @ w[:, :5].T + w[:, 5]
        return np.column_stack([np.zeros(len(rows)), scores]) if classes == 2 else scores

    def loss(flat: np.ndarray) -> float:
        logs = special.log_softmax(logits(flat, x[train]), axis=1)
        penalty = (flat.reshape(-1, 6)[:, :5] ** 2).sum() / 2
        return float(penalty - logs[np.arange(120), y[train]].sum())

    fitted = optimize.minimize(loss, np.zeros(6 if classes == 2 else 6 * classes), tol=1e-10).x
    p = special.softmax(logits(fitted, x[test]), axis=1)
    found, notes = classify(x, y.astype(str), np.arange(200) < 120)
    assert notes == []
    np.testing.assert_array_equal(found["correct"], p.argmax(1) == y[test])
    assert 0 < found["correct"].mean() < 1
    by_hand = [-sum(share * math.log(share) for share in row) for row in p]
    np.testing.assert_allclose(found["entropy"], by_hand, atol=2e-3)


def test_stopping_early_is_a_note_and_unknown_labels_are_wrong() -> None:
    """pytest turns warnings into errors here."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 8)) * np.geomspace(1, 1e5, 8)
    labels = rng.integers(0, 2, 200).astype(str)
    labels[-1] = "9"
    found, notes = classify(vectors, labels, np.arange(200) < 100)
    assert notes == ["the classifier had not converged when it stopped after 100 iterations"]
    assert found["correct"][-1] == 0


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)  # type: ignore[arg-type]
    said = r"classification needs scikit-learn .*pip install 'fairspan\[collapse\]'"
    with pytest.raises(MissingExtra, match=said):
        classify(np.eye(4), np.array(["a", "b"] * 2), np.arange(4) < 2)
