"""`TuneEntries`: what only the headers of tunings say."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairspan.runs.header import IndexCost


@dataclass(frozen=True, slots=True)
class SearchedTask:
    """A task or a guard; `positions` are "segments" or "fifths" of documents."""

    name: str
    role: str
    clusters: int
    queries: int
    documents: int
    positions: str

    @property
    def is_guard(self) -> bool:
        return self.role == "guard"


@dataclass(frozen=True, slots=True)
class TuneEntries:
    """What is searched, and what became known while the run went on.

    Attributes:
        query_tokens: by task, the length of its longest queries; None if they were not shortened.
        costs: of the choice: `time` relative to the plain model's, the share of the text that the
            plain model `read`, the number of `documents` and of those whose vectors `changed`;
            empty where the plain model is kept.
        indexes: by task, what indexes of several vectors per document take; empty if one vector per
            chunk is one per document.
    """

    tasks: list[SearchedTask]
    query_tokens: dict[str, int | None] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    indexes: list[IndexCost] = field(default_factory=list)
