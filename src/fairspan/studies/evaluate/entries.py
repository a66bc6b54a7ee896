"""`EvaluateEntries`: what only the headers of evaluations say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexCost:
    """What an index takes.

    Attributes:
        seconds: None where all vectors were stored already.
        changed: documents whose vector is another one than under the first treatment, beyond what
            the model's own vectors of one text differ by; None for several vectors per document.
        distance: how far documents move from there on average: 1 − cosine.
    """

    treatment: str
    index: str
    documents: int
    tokens: int
    seconds: float | None
    vectors: int
    bytes: int
    changed: int | None = None
    distance: float | None = None


@dataclass(frozen=True, slots=True)
class EvaluateEntries:
    """What is searched, and what the indexes take, to which a run adds.

    Attributes:
        window: tokens that the plain model reads, which tells short documents from long ones; None
            where that is not known.
        kind: "passages", "questions", or "a task of mteb".
        drawn, drawn_from: as in `RetrievalTask`.
    """

    window: int | None
    kind: str
    drawn: int | None = None
    drawn_from: int | None = None
    costs: tuple[IndexCost, ...] = ()
