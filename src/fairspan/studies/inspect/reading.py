"""`Reading`: what one treatment makes of a document, segment by segment."""

from dataclasses import dataclass

_LABEL = 60


@dataclass(frozen=True, slots=True)
class InspectedSegment:
    """One segment of a document, and what a treatment reads of it.

    Attributes:
        number: its position, from 1.
        seen: how many of its tokens the model reads.
        first, last: the characters of its text that the model reads; equal where it reads none.
    """

    number: int
    title: str | None
    language: str | None
    text: str
    tokens: int
    seen: int
    first: int
    last: int

    @property
    def status(self) -> str:
        """ "seen", "cut" where the model reads a part of it, or "never seen"."""
        if self.seen == self.tokens:
            return "seen"
        return "cut" if self.seen else "never seen"

    @property
    def read(self) -> str:
        """Its tokens, such as "328"; where not all of them are read, such as "74 of 328"."""
        return f"{self.tokens}" if self.status == "seen" else f"{self.seen} of {self.tokens}"

    @property
    def label(self) -> str:
        """Its title, or its first words."""
        line = " ".join(((self.title or "").strip() or self.text).split())
        return line if len(line) <= _LABEL else f"{line[: _LABEL - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one treatment makes of the document, one value per segment.

    Attributes:
        representation: cosine of the document's vector and the segment's own (IRF's σ).
        window: how many tokens it reads; None if nothing is known of a limit.
        unseen: how many tokens of the document are never seen.
        retention: cosine of the segment inside the document and its own vector (IRF's τ); empty
            unless the model takes the mean of tokens and reads the whole document.
    """

    treatment: str
    representation: tuple[float, ...]
    segments: tuple[InspectedSegment, ...]
    window: int | None
    unseen: int
    retention: tuple[float, ...] = ()

    @property
    def share(self) -> tuple[float | None, ...]:
        """Each segment's part of the sum of the cosines, weighted by how much of it is read.

        Negative cosines count as 0; all shares are None if no cosine is positive.
        """
        weighted = [
            max(0.0, cosine) * (segment.seen / segment.tokens if segment.tokens else 1.0)
            for cosine, segment in zip(self.representation, self.segments, strict=True)
        ]
        total = sum(weighted)
        return tuple(value / total if total else None for value in weighted)

    @property
    def fair(self) -> float:
        """The share that every segment would have in a fair vector."""
        return 1 / len(self.segments)
