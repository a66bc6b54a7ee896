"""The coefficients of IRF's Tables 1–19."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fairspan.errors import LogError

SOURCE = "Information Representation Fairness in Long-Document Embeddings (arXiv 2601.16934), Tables 1–19"
_FOLDER = files("fairspan") / "published"


@dataclass(frozen=True, slots=True)
class PublishedCoefficient:
    """One printed number.

    Attributes:
        table: the table it stands in.
        position: 1 for β0, the mean at position 1; otherwise of βp, the difference from it.
        printed: its digits, which say how exactly it is known.
        marker: as printed; Tables 16–19 have none, whatever the significance.
    """

    table: int
    model: str
    measure: str
    treatment: str
    lead: str
    later: str
    n: int
    position: int
    printed: str
    marker: str
    note: str

    @property
    def estimate(self) -> float:
        return float(self.printed)

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"


@cache
def published_coefficients() -> tuple[PublishedCoefficient, ...]:
    """Every printed number, table by table. Some stand in two tables."""
    lines = (_FOLDER / "irf.csv").read_text(encoding="utf-8").splitlines()
    return tuple(
        PublishedCoefficient(
            table=int(row["table"]),
            model=row["model"],
            measure=row["measure"],
            treatment=row["treatment"],
            lead=row["lead"],
            later=row["later"],
            n=int(row["n"]),
            position=int(row["position"]),
            printed=row["estimate"],
            marker=row["marker"],
            note=row["note"],
        )
        for row in csv.DictReader(lines)
    )


def published_model(name: str) -> str:
    """What the tables call a model, given its name on the hub, its folder or the tables' own name."""
    known: dict[str, str] = tomllib.loads((_FOLDER / "irf.toml").read_text(encoding="utf-8"))["published"]
    for full, short in known.items():
        if name.rstrip("/").split("/")[-1] in (full.split("/")[-1], short):
            return short
    raise LogError(
        f"the published tables have no model {name!r}, only {', '.join(f'{s} ({f})' for f, s in known.items())}: "
        "name the one to compare with, as in --like mGTE."
    )
