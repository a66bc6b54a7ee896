"""`RetrievalTask`: queries, documents, which document answers which query, and where."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field

from fairspan.corpus.sentences import Span
from fairspan.errors import CorpusError

FIFTHS = 5


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. Queries of one cluster, such as a document, are not independent."""

    id: str
    text: str
    language: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of the index, with the characters of its parts where their borders are known."""

    id: str
    text: str
    language: str = ""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a document answers a query: characters of its text, and the fifth from 0 if given.

    `exact` is False where only the fifth is known; the characters are the middle of it.
    """

    document: str
    start: int
    end: int
    fifth: int | None = None
    exact: bool = field(default=True, repr=False)


@dataclass(frozen=True, slots=True)
class RetrievalTask:
    """One index, and the queries it is searched with.

    Attributes:
        relevant: for each query the gain of every document that answers it.
        evidence: where each query's answer is, if that is known.
        left_out: for some queries, documents that do not count, such as translations of the answer.
        notes: what a reader of results should know about how the task was made.
        drawn: how many documents were drawn, if not all, translations counted once.
        drawn_from: how many there are, counted likewise.
    """

    name: str
    queries: tuple[Query, ...]
    documents: tuple[Passage, ...]
    relevant: Mapping[str, Mapping[str, float]]
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    left_out: Mapping[str, frozenset[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    drawn: int | None = None
    drawn_from: int | None = None

    def __post_init__(self) -> None:
        for kind, texts in (("queries", self.queries), ("documents", self.documents)):
            if not texts:
                raise CorpusError(f"{self.name} has no {kind}.")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a result."""
        digest = hashlib.sha256()
        for document in sorted(self.documents, key=lambda document: document.id):
            digest.update(json.dumps(astuple(document)).encode())
        for query in sorted(self.queries, key=lambda query: query.id):
            evidence = self.evidence.get(query.id)
            where = None if evidence is None else astuple(evidence)
            gains = sorted(self.relevant[query.id].items())
            left_out = sorted(self.left_out.get(query.id, ()))
            digest.update(json.dumps([*astuple(query), gains, where, left_out]).encode())
        return digest.hexdigest()


def same_texts(documents: Iterable[Passage]) -> tuple[str, ...]:
    """A note if documents share their text."""
    counts = Counter(document.text for document in documents)
    repeated = sum(count for count in counts.values() if count > 1)
    return (f"Documents with identical text: {repeated}.",) if repeated else ()
