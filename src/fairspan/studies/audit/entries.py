"""`AuditEntries`: what only the headers of audits say."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unseen:
    """In how many documents of n segments a treatment reads a position in part only, or never."""

    treatment: str
    n: int
    position: int
    documents: int
    in_part: int
    never: int


@dataclass(frozen=True, slots=True)
class AuditEntries:
    """What was built.

    Attributes:
        tokens: of all documents.
        shared_segments: by size, whether some segment is in several sets.
        unseen: the positions that are not read whole.
    """

    tokens: int = 0
    shared_segments: dict[str, bool] = field(default_factory=dict)
    unseen: list[Unseen] = field(default_factory=list)
