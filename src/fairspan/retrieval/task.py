"""`RetrievalTask`: queries, documents, which document answers which query, and where in it the evidence lies."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairspan.errors import TaskError

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody searches for.

    Attributes:
        cluster: queries of one cluster are not independent of each other, such as those about the same article;
            empty for a query that stands for itself.
    """

    id: str
    text: str
    language: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of the index.

    Attributes:
        text: what is embedded.
        spans: the characters of its parts, where their borders are known.
    """

    id: str
    text: str
    language: str = ""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a document answers a query: characters of its text."""

    document: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RetrievalTask:
    """One index to search, and the queries it is searched with.

    Attributes:
        relevant: for each query the gain of every document that answers it; what is not named has none.
        evidence: for each query where its answer lies; empty where that is not known.
        edition: which of several indexes of the same queries this is, from 0.
        lead, later: the languages of a page's first segment and of its later ones; empty for other tasks.
        notes: what a reader of results should know about how the task came about.
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

    def __post_init__(self) -> None:
        documents = {document.id: document for document in self.documents}
        if len(documents) < len(self.documents):
            raise TaskError(f"{self.name} names a document twice.")
        if not self.queries or not self.documents:
            raise TaskError(f"{self.name} has no {'queries' if self.documents else 'documents'}.")
        if len({query.id for query in self.queries}) < len(self.queries):
            raise TaskError(f"{self.name} names a query twice.")
        for query in self.queries:
            gains = self.relevant.get(query.id, {})
            if not any(gain > 0 for gain in gains.values()):
                raise TaskError(f"{self.name}: no document is relevant to the query {query.id!r}.")
            absent = next(
                (document for document, gain in gains.items() if gain > 0 and document not in documents), None
            )
            if absent is not None:
                raise TaskError(f"{self.name}: the query {query.id!r} asks for {absent!r}, which is not there.")
            found = self.evidence.get(query.id)
            if found is not None and not self._inside(found, documents, gains):
                raise TaskError(
                    f"{self.name}: the evidence of the query {query.id!r} is not inside a relevant document "
                    f"({found.document!r}, characters {found.start} to {found.end})."
                )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides a result."""
        digest = hashlib.sha256()
        for document in sorted(self.documents, key=lambda one: one.id):
            digest.update(json.dumps([document.id, document.text, document.language, document.spans]).encode())
        for query in sorted(self.queries, key=lambda one: one.id):
            found = self.evidence.get(query.id)
            where = None if found is None else [found.document, found.start, found.end]
            gains = sorted(self.relevant[query.id].items())
            digest.update(json.dumps([query.id, query.text, query.language, query.cluster, gains, where]).encode())
        return digest.hexdigest()

    @staticmethod
    def _inside(found: Evidence, documents: Mapping[str, Passage], gains: Mapping[str, float]) -> bool:
        document = documents.get(found.document)
        return (
            document is not None
            and gains.get(found.document, 0) > 0
            and 0 <= found.start < found.end <= len(document.text)
        )
