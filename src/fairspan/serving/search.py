"""`Search`: how a few documents rank for one query under every treatment, and what the page says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from fairspan.report.table import Cell, Column, Row, Table
from fairspan.report.text import number
from fairspan.report.view import Card


@dataclass(frozen=True, slots=True)
class Match:
    """One document and a query under one treatment.

    Attributes:
        cosine: of the query's vector and the document's.
        rank: among the documents of the search, 1 for the first.
        segments: cosines of the query's vector and that of each segment embedded alone.
        status: what the treatment sees of each segment inside the document.
    """

    cosine: float
    rank: int
    segments: tuple[float, ...]
    status: tuple[str, ...]

    @property
    def closest(self) -> int:
        """The place of the segment that is closest to the query."""
        return max(range(len(self.segments)), key=self.segments.__getitem__)


@dataclass(frozen=True, slots=True)
class Search:
    """What a query finds.

    Attributes:
        labels: of each document's segments.
        matches: by treatment, one for each document.
    """

    query: str
    documents: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    matches: Mapping[str, tuple[Match, ...]]

    def closest(self, treatment: str) -> int:
        """The place of the document that has the segment closest to the query."""
        own = self.matches[treatment]
        return max(range(len(own)), key=lambda place: max(own[place].segments))

    @property
    def cards(self) -> list[Card]:
        """Each treatment in a few sentences: where the closest segment is, and how its document ranks."""
        return [self._card(treatment) for treatment in self.matches]

    @property
    def table(self) -> Table:
        """All documents, in the order that the last treatment finds them in."""
        last = list(self.matches.values())[-1]
        order = sorted(range(len(last)), key=lambda place: last[place].rank)
        numbers = [Column(what, name) for name in self.matches for what in ("rank", "cosine")]
        columns = [*numbers, *(Column(name, "closest segment", "wrap") for name in self.matches)]
        rows, tidy = [], []
        for place in order:
            found = {name: own[place] for name, own in self.matches.items()}
            segments = {name: self._segment(place, one.closest) for name, one in found.items()}
            cells = [
                cell
                for one in found.values()
                for cell in (Cell(one.rank, "d", tone="good" if one.rank == 1 else "plain"), Cell(one.cosine))
            ]
            cells += [Cell(segment) for segment in segments.values()]
            rows.append(Row((self.documents[place],), tuple(cells)))
            tidy += [
                (self.documents[place], name, one.rank, one.cosine, segments[name]) for name, one in found.items()
            ]
        frame = pl.DataFrame(tidy, schema=["document", "treatment", "rank", "cosine", "segment"], orient="row")
        return Table("search", "All documents for this query", ("document",), tuple(columns), tuple(rows), frame)

    def _card(self, treatment: str) -> Card:
        own, place = self.matches[treatment], self.closest(treatment)
        found, document, count = own[place], self.documents[place], len(own)
        nearest = found.closest
        where = (
            f"Segment {self._segment(place, nearest)} of {document} is closest to the query: cosine "
            f"{number(found.segments[nearest])} with the segment alone, {number(found.cosine)} with the vector of "
            "the whole document."
        )
        said = [where]
        match found.status[nearest]:
            case "never seen":
                said.append("The model never sees this segment: the vector has nothing of it.")
            case "cut":
                said.append("The model sees only a part of this segment.")
        if found.rank > 1:
            first = next(place for place, one in enumerate(own) if one.rank == 1)
            said.append(f"First is {self.documents[first]} with {number(own[first].cosine)}.")
        if count == 1:
            return Card(treatment, f"cosine {number(found.cosine)}", "plain", tuple(said))
        badge = f"rank {found.rank} of {count}"
        return Card(treatment, badge, "good" if found.rank == 1 else "open", tuple(said))

    def _segment(self, document: int, place: int) -> str:
        return f"{place + 1} “{self.labels[document][place]}”"


def ranks(cosines: Sequence[float]) -> list[int]:
    """1 for the highest; equal ones share a rank.

    >>> ranks([0.2, 0.5, 0.2])
    [2, 1, 2]
    """
    return [1 + sum(other > one for other in cosines) for one in cosines]
