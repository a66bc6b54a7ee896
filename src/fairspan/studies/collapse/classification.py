"""Classification by length: how well labels are predicted from vectors, and how surely (LC Figs. 1 and 6)."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr  # type: ignore[import-untyped, unused-ignore]

from fairspan.errors import CorpusError, DesignError, MissingExtra
from fairspan.retrieval.entries import entries_by_id

Floats = NDArray[np.float64]

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
    named = entries_by_id(Path(path), "id", optional=True)
    found = [LabelledText(id, record.id("label"), record.text("text")) for id, record in named]
    if not found:
        raise CorpusError(f"{path} is empty: it needs one text per line, with 'text' and 'label'.")
    if len({one.label for one in found}) < 2:
        raise CorpusError(
            f"{path}: all {len(found)} texts have the label {found[0].label!r}; give at least 2 classes."
        )
    return tuple(found)


def training_part(
    documents: Sequence[str], labels: Sequence[str], *, seed: int = 0
) -> NDArray[np.bool_]:
    """Which texts to train on, given the document and the label of each: about half of the documents.

    A document's part depends on its name and `seed` alone, so that it is the same under every treatment, and all of
    its texts fall together.
    """
    trained = {name: _draw(name, seed) < 0.5 for name in dict.fromkeys(documents)}
    if not 2 <= sum(trained.values()) <= len(trained) - 2:
        raise DesignError(
            f"of {len(trained)} labelled documents {sum(trained.values())} fall into the part to train on, and both "
            "parts need at least 2: give more labelled texts."
        )
    found = np.array([trained[name] for name in documents])
    known = {label for label, taken in zip(labels, found, strict=True) if taken}
    if len(known) < 2:
        raise DesignError(
            f"all labelled texts to train on have the label {known.pop()!r}: give more labelled texts."
        )
    return found


def _draw(name: str, seed: int) -> float:
    """A number in [0, 1) that looks random."""
    digest = blake2b(
        f"classification\0{seed}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big") / 2**64


def classify(
    vectors: Floats, labels: NDArray[np.str_], train: NDArray[np.bool_]
) -> tuple[dict[str, Floats], list[str]]:
    """Train scikit-learn's logistic regression on some of the vectors [N, d] and predict the labels of the others.

    With its own settings (an L2 penalty of C = 1) and at most 100 iterations. Vectors are taken unmodified, and what
    the penalty does depends on their norms. A label that was not trained on is never predicted.

    Returns:
        two values for each tested text, and notes. `correct` is 1 where the predicted label is its own, otherwise 0;
        `entropy` is −Σ p ln p over the classes: 0 for a sure prediction, ln(classes) for a blind one.
    """
    try:
        linear, exceptions = (
            import_module("sklearn.linear_model"),
            import_module("sklearn.exceptions"),
        )
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"classification needs scikit-learn ({error}): pip install 'fairspan[collapse]'."
        ) from None
    model = linear.LogisticRegression(max_iter=ITERATIONS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", exceptions.ConvergenceWarning)
        model.fit(vectors[train], labels[train])
    notes = []
    if any(issubclass(one.category, exceptions.ConvergenceWarning) for one in caught):
        notes.append(
            f"the classifier had not converged when it stopped after {int(np.max(model.n_iter_))} iterations"
        )
    p = np.asarray(model.predict_proba(vectors[~train]), np.float64)
    correct = model.classes_[p.argmax(1)] == labels[~train]
    # A probability may exceed 1 by rounding.
    return {
        "correct": correct.astype(np.float64),
        "entropy": np.maximum(entr(p).sum(1), 0.0),
    }, notes
