"""Classification by length: how well labels are predicted from vectors, and how surely (LC Figs. 1 and 6).

`correct` and `entropy` are values of the tested texts, with a text's length bin as its group and its document as its
cluster: what `stats.queries` needs for means with intervals by bin, and for paired differences between treatments.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairspan.errors import MissingExtra, StatisticsError, TaskError
from fairspan.retrieval.records import records
from fairspan.studies.collapse.schedules import split

Floats = NDArray[np.float64]
Labels = NDArray[np.str_]

# LC §C.1, and mteb.
ITERATIONS = 100


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and the class that it belongs to; the id names its document."""

    id: str
    label: str
    text: str


def read_labelled(path: Path | str) -> tuple[LabelledText, ...]:
    """The texts of a JSONL file, plain or gzipped, with the fields `text`, `label` and perhaps `id`.

    Labels are texts or whole numbers. A text without an id is named after its line.
    """
    found: list[LabelledText] = []
    places: dict[str, str] = {}
    for record in records(Path(path)):
        name = record.place if record.fields.get("id") is None else record.id("id")
        one = LabelledText(name, record.id("label"), record.text("text"))
        if one.id in places:
            raise record.fault(f"the id {one.id!r} was already used at {places[one.id]}.")
        places[one.id] = record.place
        found.append(one)
    if not found:
        raise TaskError(f"{path} is empty: it needs one text per line, with 'text' and 'label'.")
    if len({one.label for one in found}) < 2:
        raise TaskError(f"{path}: all {len(found)} texts have the label {found[0].label!r}; give at least 2 classes.")
    return tuple(found)


def training_part(documents: Sequence[str], *, seed: int = 0, share: float = 0.5) -> NDArray[np.bool_]:
    """Which texts to train on, given the document of each: about `share` of the documents, with all of their texts.

    A document's part depends on its name, `seed` and `share` alone, so that it is the same under every treatment.
    """
    return split(documents, seed, share, purpose="classification").in_fit(documents)


@dataclass(frozen=True, slots=True, eq=False)
class Classified:
    """The predictions for N tested texts.

    Attributes:
        correct: [N], 1 where the predicted label is the text's own, otherwise 0; its mean is the accuracy.
        entropy: [N], −Σ p ln p over the classes: 0 for a sure prediction, ln(classes) for a blind one.
    """

    correct: Floats
    entropy: Floats
    notes: tuple[str, ...]


def classify(
    vectors_train: ArrayLike,
    labels_train: Sequence[str | int],
    vectors_test: ArrayLike,
    labels_test: Sequence[str | int],
    *,
    iterations: int = ITERATIONS,
) -> Classified:
    """Train scikit-learn's logistic regression on some vectors [N, d] and predict the labels of others.

    With its own settings (an L2 penalty of C = 1) and at most `iterations` iterations. Vectors are taken
    unmodified, and what the penalty does depends on their norms.
    """
    train, known = _columns(vectors_train, labels_train, "training")
    test, wanted = _columns(vectors_test, labels_test, "test")
    if train.shape[1] != test.shape[1]:
        raise StatisticsError(
            f"training vectors have {train.shape[1]} dimensions and test vectors {test.shape[1]}: embed both with "
            "the same model."
        )
    if len(set(known.tolist())) < 2:
        raise StatisticsError(
            f"all {len(known)} training texts have the label {str(known[0])!r}: give at least 2 classes."
        )
    model, notes = _train(train, known, iterations)
    p = np.asarray(model.predict_proba(test), np.float64)
    predicted = np.asarray(model.classes_[p.argmax(1)], dtype=np.str_)
    unknown = int((~np.isin(wanted, known)).sum())
    if unknown:
        notes.append(f"{unknown} of {len(test)} tested texts have a label that was not trained on and count as wrong")
    return Classified((predicted == wanted).astype(np.float64), entropies(p), tuple(notes))


def entropies(p: Floats) -> Floats:
    """−Σ p ln p of each row of p[N, K], in nats."""
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    # A sum of probabilities may exceed 1 by rounding.
    return np.asarray(np.maximum(-(p * logs).sum(1), 0.0))


def _train(vectors: Floats, labels: Labels, iterations: int) -> tuple[Any, list[str]]:
    """A fitted LogisticRegression, and whether it converged."""
    if iterations < 1:
        raise StatisticsError(f"iterations must be at least 1, got {iterations}.")
    try:
        linear, exceptions = import_module("sklearn.linear_model"), import_module("sklearn.exceptions")
    except ModuleNotFoundError as error:
        own = (error.name or "").partition(".")[0] == "sklearn"
        missing = "scikit-learn" if own else f"{error.name}, which scikit-learn imports"
        raise MissingExtra(f"classification needs {missing}: pip install 'fairspan[collapse]'.") from None
    model = linear.LogisticRegression(max_iter=iterations)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", exceptions.ConvergenceWarning)
        model.fit(vectors, labels)
    early = [one for one in caught if issubclass(one.category, exceptions.ConvergenceWarning)]
    for one in caught:
        if one not in early:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if not early:
        return model, []
    taken = int(np.max(model.n_iter_))
    return model, [f"the classifier had not converged when it stopped after {taken} iterations"]


def _columns(vectors: ArrayLike, labels: Sequence[str | int], name: str) -> tuple[Floats, Labels]:
    rows, column = np.asarray(vectors, np.float64), np.array([str(label) for label in labels], dtype=np.str_)
    if rows.ndim != 2 or not rows.size:
        raise StatisticsError(f"{name} vectors must be [texts, dimensions], got shape {rows.shape}.")
    wrong = np.flatnonzero(~np.isfinite(rows).all(1))
    if len(wrong):
        raise StatisticsError(
            f"{len(wrong)} of {len(rows)} {name} vectors are not finite, the first in row {wrong[0]}: omit those "
            "texts or embed them again."
        )
    if len(column) != len(rows):
        raise StatisticsError(f"there are {len(rows)} {name} vectors and {len(column)} labels: give one each.")
    return rows, column
