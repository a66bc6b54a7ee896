"""Classification by length: how well vectors predict labels, and how surely (LC Figs. 1 and 6)."""

import warnings
from collections.abc import Sequence
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr  # type: ignore[import-untyped, unused-ignore]

from fairspan.corpus.corpus import Corpus
from fairspan.corpus.segment import Segment
from fairspan.errors import CorpusError, DesignError, MissingExtra
from fairspan.retrieval.entries import entries_by_id
from fairspan.stats.arrays import Floats

# LC §C.1, and mteb.
ITERATIONS = 100


def read_labelled(path: Path | str, language: str) -> tuple[Corpus, dict[str, str]]:
    """The texts of a JSONL file with `text`, `label` and perhaps `id`, and their labels by id.

    Labels are texts or whole numbers. A text without an id is named after its line.
    """
    segments = []
    labels = {}
    for id, entry in entries_by_id(Path(path), "id", optional=True):
        labels[id] = entry.id("label")
        segments.append(Segment(id, language, entry.text("text")))
    classes = set(labels.values())
    if not classes:
        raise CorpusError(f"{path} is empty: it needs one text per line, with 'text' and 'label'.")
    if len(classes) == 1:
        same = f"all {len(labels)} texts have the label {classes.pop()!r}"
        raise CorpusError(f"{path}: {same}; give at least 2 classes.")
    return Corpus.from_segments("labelled", segments), labels


def training_part(
    documents: Sequence[str], labels: Sequence[str], *, seed: int = 0
) -> NDArray[np.bool_]:
    """Which texts to train on, [texts], those of about half of the documents.

    It depends on the document's name and `seed` alone, so it is the same under every treatment.
    """
    trained = {name: _draw(name, seed) < 0.5 for name in documents}
    count = sum(trained.values())
    if not 2 <= count <= len(trained) - 2:
        raise DesignError(
            f"of {len(trained)} labelled documents {count} fall into the part to train on, and "
            "both parts need at least 2: give more labelled texts."
        )
    train = np.array([trained[name] for name in documents])
    classes = set(np.array(labels)[train].tolist())
    if len(classes) < 2:
        raise DesignError(
            f"all labelled texts to train on have the label {classes.pop()!r}: give more labelled "
            "texts."
        )
    return train


def _draw(name: str, seed: int) -> float:
    """A number in [0, 1) that looks random."""
    hashed = f"classification\0{seed}\0{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(hashed, digest_size=8).digest(), "big") / 2**64


def classify(
    vectors: Floats, labels: NDArray[np.str_], train: NDArray[np.bool_]
) -> tuple[dict[str, Floats], list[str]]:
    """Predict labels[N] of some vectors[N, d] by a logistic regression on those in train[N].

    scikit-learn's, with an L2 penalty of C = 1 on vectors of whatever norm they have, and at most
    100 iterations. A label that was not trained on is never predicted.

    Returns:
        values of the tested texts, and notes. `correct` is 1 or 0; `entropy` is −Σ p ln p over the
        classes: 0 for a sure prediction, ln(classes) for a blind one.
    """
    try:
        linear = import_module("sklearn.linear_model")
        stopped = import_module("sklearn.exceptions").ConvergenceWarning
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"classification needs scikit-learn ({error}): pip install 'fairspan[collapse]'."
        ) from None
    model = linear.LogisticRegression(max_iter=ITERATIONS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", stopped)
        model.fit(vectors[train], labels[train])
    notes = []
    if any(issubclass(warning.category, stopped) for warning in caught):
        count = int(np.max(model.n_iter_))
        notes.append(f"the classifier had not converged when it stopped after {count} iterations")
    p = np.asarray(model.predict_proba(vectors[~train]), np.float64)
    correct = model.classes_[p.argmax(1)] == labels[~train]
    # A probability may exceed 1 by rounding.
    entropy = np.maximum(entr(p).sum(1), 0.0)
    return {"correct": correct.astype(np.float64), "entropy": entropy}, notes
