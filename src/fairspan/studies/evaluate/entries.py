"""`EvaluateEntries`: what only the headers of evaluations say."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairspan.runs.header import IndexCost


@dataclass(frozen=True, slots=True)
class EvaluateEntries:
    """What the indexes take, and details of how it was measured. A run adds to both."""

    costs: list[IndexCost] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
