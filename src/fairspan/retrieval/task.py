"""`RetrievalTask`: queries, documents, which document answers which query, and where."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

from fairspan.corpus.sentences import Span
from fairspan.errors import CorpusError

FIFTHS = 5
LEAST_TOKENS = 8
"""Of a query that is taken from a text: fewer do not say what is looked for."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. Queries of one cluster, such as an article, are not independent."""

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
    """Where a document answers a query: characters of its text, and the fifth from 0 if known."""

    document: str
    start: int
    end: int
    fifth: int | None = None


@dataclass(frozen=True, slots=True)
class RetrievalTask:
    """One index to search, and the queries it is searched with.

    Attributes:
        relevant: for each query the gain of every document that answers it.
        evidence: where each query's answer is, if that is known.
        edition: which of several indexes of the same queries this is, from 0.
        lead, later: the languages of a page's first segment and of its later ones.
        notes: what a reader of results should know about how the task was made.
        drawn_from: how many documents the corpus has, if not all of them are searched.
        left_out: names of documents that no passage could be cut out of.
        across: "mixed" if every document is in one of several languages, "parallel" if in all.
    """

    name: str
    queries: tuple[Query, ...]
    documents: tuple[Passage, ...]
    relevant: Mapping[str, Mapping[str, float]]
    evidence: Mapping[str, Evidence] = field(default_factory=dict)
    edition: int = 0
    lead: str = ""
    later: str = ""
    notes: tuple[str, ...] = ()
    drawn_from: int | None = None
    left_out: tuple[str, ...] = ()
    across: str = ""

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
            digest.update(json.dumps([*astuple(query), gains, where]).encode())
        return digest.hexdigest()


def make_task(
    name: str,
    documents: Sequence[Passage],
    queries: Sequence[tuple[Query, Evidence]],
    notes: tuple[str, ...] = (),
) -> RetrievalTask:
    """A task in which every query is answered by the document that has its evidence."""
    return RetrievalTask(
        name,
        queries=tuple(query for query, _ in queries),
        documents=tuple(documents),
        relevant={query.id: {where.document: 1.0} for query, where in queries},
        evidence={query.id: where for query, where in queries},
        notes=notes + same_texts(documents),
    )


def same_texts(documents: Iterable[Passage]) -> tuple[str, ...]:
    """A note if documents share their text."""
    counts = Counter(document.text for document in documents)
    repeated = sum(count for count in counts.values() if count > 1)
    return (f"Documents with identical text: {repeated}.",) if repeated else ()
