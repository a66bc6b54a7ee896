"""Classification by length: against scipy's optimiser, sums by hand, and difficulty planted by length."""

from __future__ import annotations

import gzip
import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fairspan.errors import FairspanError, MissingExtra, StatisticsError, TaskError
from fairspan.stats.queries import query_change, query_effects
from fairspan.studies.collapse.classification import (
    LabelledText,
    classify,
    entropies,
    read_labelled,
    training_part,
)

LENGTHS = (50, 200, 800)


def one_line(action: Callable[[], object], kind: type[FairspanError]) -> str:
    with pytest.raises(kind) as caught:
        action()
    said = str(caught.value)
    assert "\n" not in said
    return said


# Reading


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_labels_are_texts_or_numbers_and_ids_may_be_missing(tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.jsonl",
        {"id": "x", "label": 0, "text": "bad"},
        "\n",
        {"label": "good", "text": "fine"},
        {"id": None, "label": 1, "text": "so so"},
        {"id": 7, "label": "good", "text": "nice"},
    )
    assert read_labelled(file) == (
        LabelledText("x", "0", "bad"),
        LabelledText("a.jsonl, line 3", "good", "fine"),
        LabelledText("a.jsonl, line 4", "1", "so so"),
        LabelledText("7", "good", "nice"),
    )
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert [one.label for one in read_labelled(str(zipped))] == ["0", "good", "1", "good"]


GOOD = {"id": "a", "label": 1, "text": "t"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, {"label": 1}], "a.jsonl, line 2: there is no field 'text'. Fields there: label."),
        ([GOOD, {"text": "t"}], "a.jsonl, line 2: there is no field 'label'."),
        ([GOOD, "\n", {"label": 0.5, "text": "t"}], "a.jsonl, line 3: 'label' must be text or a whole number"),
        ([GOOD, {"label": True, "text": "t"}], "a.jsonl, line 2: 'label' must be text or a whole number, got true"),
        ([GOOD, {"label": None, "text": "t"}], "a.jsonl, line 2: 'label' must be text or a whole number, got null"),
        ([GOOD, {"label": " ", "text": "t"}], "a.jsonl, line 2: 'label' is empty"),
        ([GOOD, {"label": 1, "text": ""}], "a.jsonl, line 2: 'text' is empty"),
        ([GOOD, {"label": 1, "text": 3}], "a.jsonl, line 2: 'text' must be text"),
        ([GOOD, {"label": 0, "text": "t", "id": []}], "a.jsonl, line 2: 'id' must be text or a whole number"),
        ([GOOD, GOOD], "a.jsonl, line 2: the id 'a' was already used at a.jsonl, line 1"),
        ([GOOD, "{nonsense\n"], "a.jsonl, line 2: not JSON"),
        ([GOOD, {"label": 1, "text": "u"}], "all 2 texts have the label '1'"),
        ([], "is empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, rows: list[object], said: str) -> None:
    file = write(tmp_path / "a.jsonl", *rows)
    assert said in one_line(lambda: read_labelled(file), TaskError)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "cannot be read" in one_line(lambda: read_labelled(tmp_path / "none.jsonl"), TaskError)


def test_the_shared_reviews(shared: Path) -> None:
    file = shared / "classification" / "movie_reviews.jsonl"
    if not file.is_file():
        pytest.skip("needs ../shared/classification/movie_reviews.jsonl")
    found = read_labelled(file)
    assert len({one.id for one in found}) == 2000
    assert [sum(one.label == label for one in found) for label in ("0", "1")] == [1000, 1000]
    train = training_part([one.id for one in found])
    for part in (train, ~train):
        share = np.mean([one.label == "1" for one, taken in zip(found, part, strict=True) if taken])
        assert share == pytest.approx(0.5, abs=0.06), "four standard errors of 1000"


# Splitting


def test_texts_of_a_document_fall_together_and_stay_there() -> None:
    names = [f"doc-{number}" for number in range(400)]
    cuts = [name for name in names for _ in LENGTHS]
    train = training_part(cuts)
    assert (train.reshape(400, 3).all(1) | ~train.reshape(400, 3).any(1)).all()
    assert train.mean() == pytest.approx(0.5, abs=0.1)
    np.testing.assert_array_equal(training_part(names), train[::3])
    np.testing.assert_array_equal(training_part(names[100:200]), train[300:600:3])
    assert (training_part(names, seed=1) != train[::3]).any()
    assert training_part(names, share=0.8).mean() == pytest.approx(0.8, abs=0.08)
    assert (training_part(names, share=0.8) >= train[::3]).all()


# Classifying


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_those_of_the_penalised_likelihood(classes: int) -> None:
    """Maximised by scipy: Σ ln p − ‖w‖²/2, the intercepts free. Both stop at a slope of about 1e-4.

    With two classes one vector tells them apart, so its penalty is half of that of two opposite ones.
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
        return float(-logs[np.arange(120), y[train]].sum() + (flat.reshape(-1, 6)[:, :5] ** 2).sum() / 2)

    fitted = optimize.minimize(loss, np.zeros(6 if classes == 2 else 6 * classes), tol=1e-10).x
    p = special.softmax(logits(fitted, x[test]), axis=1)
    found = classify(x[train], y[train].tolist(), x[test], y[test].tolist())
    assert found.notes == ()
    np.testing.assert_array_equal(found.correct, p.argmax(1) == y[test])
    assert 0 < found.correct.mean() < 1
    by_hand = [-sum(share * math.log(share) for share in row) for row in p]
    np.testing.assert_allclose(found.entropy, by_hand, atol=2e-3)


def test_entropies_by_hand() -> None:
    p = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3], [0.7, 0.2, 0.1], [1 + 1e-16, 0, 0]])
    wanted = [0, math.log(2), math.log(3), 0.7 * math.log(1 / 0.7) + 0.2 * math.log(5) + 0.1 * math.log(10), 0]
    found = entropies(p)
    np.testing.assert_allclose(found, wanted, atol=1e-15)
    assert (found >= 0).all()


@dataclass(frozen=True, slots=True)
class Cuts:
    """Vectors of two classes, of each document at every length; how far apart they lie depends on the length."""

    vectors: np.ndarray
    labels: list[str]
    documents: list[str]
    lengths: list[int]


def planted(signal: tuple[float, ...], documents: int = 300, seed: int = 0) -> Cuts:
    rng = np.random.default_rng(seed)
    side = rng.integers(0, 2, documents)
    # Noise is the same under every signal, as one document's texts are under two treatments.
    noise = rng.normal(size=(len(LENGTHS), documents, 8))
    direction = np.zeros(8)
    direction[0] = 1
    shift = np.array(signal)[:, None, None] * (2 * side - 1)[None, :, None] * direction
    return Cuts(
        (noise + shift).reshape(-1, 8),
        ["yes" if one else "no" for one in side] * len(LENGTHS),
        [f"doc-{number}" for number in range(documents)] * len(LENGTHS),
        np.repeat(LENGTHS, documents).tolist(),
    )


def run(cuts: Cuts) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Correctness, entropy, bin and document of the tested texts."""
    train = training_part(cuts.documents)
    labels = np.array(cuts.labels)
    found = classify(cuts.vectors[train], labels[train].tolist(), cuts.vectors[~train], labels[~train].tolist())
    assert found.notes == ()
    lengths, groups = np.unique(np.asarray(cuts.lengths)[~train], return_inverse=True)
    assert tuple(lengths) == LENGTHS
    return found.correct, found.entropy, groups + 1, [cuts.documents[row] for row in np.flatnonzero(~train)]


def test_what_is_planted_by_length_comes_out_by_length() -> None:
    """The signal fades with length: accuracy Φ(signal) of the best classifier, and entropy the other way round."""
    stats = pytest.importorskip("scipy.stats")
    signal = (2.0, 1.0, 0.2)
    correct, entropy, groups, documents = run(planted(signal))
    rng = np.random.default_rng(0)
    accuracy = query_effects(correct, groups, documents, rng=rng, draws=499)
    surprise = query_effects(entropy, groups, documents, rng=rng, draws=499)
    assert accuracy.counts.group_queries == (len(set(documents)),) * 3
    for number, strength in enumerate(signal, start=1):
        inside = groups == number
        one, other = accuracy.groups[number - 1], surprise.groups[number - 1]
        assert one.estimate == pytest.approx(correct[inside].mean())
        assert other.estimate == pytest.approx(entropy[inside].mean())
        assert one.low <= stats.norm.cdf(strength) <= one.high
    means = [one.estimate for one in accuracy.groups]
    assert means == sorted(means, reverse=True)
    assert accuracy.groups[0].low > accuracy.groups[2].high
    assert surprise.groups[0].high < surprise.groups[1].low < surprise.groups[2].estimate


def test_treatments_are_compared_text_by_text() -> None:
    """The second treatment gives long texts the signal of short ones, and changes nothing else."""
    correct, entropy, groups, documents = run(planted((2.0, 1.0, 0.2)))
    after, after_entropy, same_groups, same_documents = run(planted((2.0, 1.0, 2.0)))
    assert documents == same_documents
    np.testing.assert_array_equal(groups, same_groups)
    rng = np.random.default_rng(0)
    change = query_change(correct, after, groups, documents, rng=rng, swaps=499)
    for number, one in enumerate(change.groups, start=1):
        inside = groups == number
        assert one.estimate == pytest.approx((after - correct)[inside].mean())
    assert change.groups[2].low > 0.2
    assert change.groups[0].low <= 0.02
    assert query_change(entropy, after_entropy, groups, documents, rng=rng, swaps=499).groups[2].high < 0
    none = query_change(correct, correct, groups, documents, rng=rng, swaps=99)
    assert [(one.low, one.high) for one in none.groups] == [(0, 0)] * 3


def test_stopping_early_is_a_note_and_not_a_warning() -> None:
    """pytest turns warnings into errors here."""
    cuts = planted((2.0, 1.0, 0.2), 60)
    vectors, labels = cuts.vectors * np.geomspace(1, 1000, 8), cuts.labels
    found = classify(vectors, labels, vectors, labels, iterations=3)
    assert found.notes == ("the classifier had not converged when it stopped after 3 iterations",)
    assert 0.5 < found.correct.mean() < 1
    assert classify(cuts.vectors, labels, cuts.vectors, labels).notes == ()


def test_other_warnings_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    fit = LogisticRegression.fit

    def noisy(self: LogisticRegression, *given: object) -> LogisticRegression:
        warnings.warn("something else", UserWarning, stacklevel=2)
        return fit(self, *given)

    monkeypatch.setattr(LogisticRegression, "fit", noisy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = classify(np.eye(4), [0, 1, 0, 1], np.eye(4), [0, 1, 0, 1], iterations=1)
    assert [str(one.message) for one in caught] == ["something else"]
    assert len(found.notes) == 1


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)  # type: ignore[arg-type]
    said = one_line(lambda: classify(np.eye(2), [0, 1], np.eye(2), [0, 1]), MissingExtra)
    assert said == "classification needs scikit-learn: pip install 'fairspan[collapse]'."


def test_labels_that_were_not_trained_on_count_as_wrong() -> None:
    found = classify(np.eye(2) * 9, ["a", "b"], np.eye(2)[[0, 1, 1]] * 9, ["a", "b", "c"])
    assert found.correct.tolist() == [1, 1, 0]
    assert found.notes == ("1 of 3 tested texts have a label that was not trained on and count as wrong",)
    assert classify(np.eye(2) * 9, [3, 4], np.eye(2) * 9, ["3", "4"]).correct.tolist() == [1, 1]


def test_what_cannot_be_classified_is_refused() -> None:
    eye = np.eye(3)

    def said(*given: object, **more: int) -> str:
        return one_line(lambda: classify(*given, **more), StatisticsError)  # type: ignore[arg-type]

    assert "all 3 training texts have the label '1'" in said(eye, [1, 1, 1], eye, [1, 0, 1])
    assert "3 training vectors and 2 labels" in said(eye, [1, 0], eye, [1, 0, 1])
    assert "3 test vectors and 0 labels" in said(eye, [1, 0, 1], eye, [])
    assert "3 dimensions and test vectors 2" in said(eye, [1, 0, 1], eye[:, :2], [1, 0, 1])
    assert "first in row 1" in said(np.diag([1, np.nan, 1]), [1, 0, 1], eye, [1, 0, 1])
    assert "shape (3,)" in said(eye[0], [1, 0, 1], eye, [1, 0, 1])
    assert "iterations must be at least 1" in said(eye, [1, 0, 1], eye, [1, 0, 1], iterations=0)
    assert "between 0 and 1" in one_line(lambda: training_part(["a", "b"], share=0), StatisticsError)
    assert "one part" in one_line(lambda: training_part(["a", "a"]), StatisticsError)
