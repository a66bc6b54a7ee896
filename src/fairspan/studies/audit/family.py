"""`Family`: the documents of one size and language plan, on which statistics are computed together."""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from fairspan.design.documents import Document
from fairspan.design.plan import LanguagePlan

FAMILY = ["measure", "treatment", "n", "lead", "later"]
"""The columns of rows that are analysed together."""

PLAN = (
    pl.when(pl.col("lead") == pl.col("later"))
    .then(pl.col("lead").cast(pl.String))
    .otherwise(pl.concat_str("lead", "later", separator=":"))
    .alias("plan")
)
"""The name of each row's plan, such as "en" or "de:en"."""

COMPANY = (
    pl.when(pl.col("lead") == pl.col("later"))
    .then(0)
    .when((pl.col("position") == 1) | (pl.col("n") == 2))
    .then(1)
    .otherwise(2)
    .cast(pl.Int8)
    .alias("company")
)
"""How each row's segment stands in its document, a number that `COMPANIES` names."""

COMPANIES = ("", "alone in its language", "not alone")
"""Empty where a document is in one language."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """The documents of one size and language plan, under one measure."""

    measure: str
    n: int
    lead: str
    later: str

    @property
    def plan(self) -> str:
        return str(LanguagePlan(self.lead, self.later))

    @property
    def mixed(self) -> bool:
        return self.lead != self.later

    @property
    def first_compared(self) -> int:
        """The position that later ones are compared with.

        In a mixed plan position 1 is the only one in its language, which no set of such plans tells from being first.
        """
        return 2 if self.mixed else 1

    @property
    def comparisons(self) -> int:
        """How many there are; none for two segments in two languages."""
        return self.n - self.first_compared

    @property
    def labels(self) -> dict[str, str | int]:
        """The columns of a frame that name it."""
        return {"plan": self.plan, "lead": self.lead, "later": self.later, "n": self.n}


def by_family(documents: Iterable[Document]) -> dict[tuple[int, str], list[Document]]:
    """Documents by their size and plan."""
    found: dict[tuple[int, str], list[Document]] = {}
    for document in documents:
        found.setdefault((document.n, str(document.plan)), []).append(document)
    return found


def with_codes(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The same with numbers in place of names in those columns, in order of appearance, since comparing is faster.

    Polars numbers its own categories for the whole process, so that results would depend on what was read before.
    """
    kinds = {name: pl.Enum(rows[name].drop_nulls().unique(maintain_order=True)) for name in names}
    return rows.with_columns(pl.col(name).cast(kind).to_physical() for name, kind in kinds.items())
