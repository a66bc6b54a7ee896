"""`Family`: documents that are analysed together; and what each measure is called."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fairspan.design.plan import LanguagePlan
from fairspan.runs.log import RunLog
from fairspan.stats.intervals import Interval

Columns = dict[str, Any]
"""The values of a frame's row by column."""

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
    """What only headers of audits say.

    `shared_segments`: by size, if some are in several sets; `cut_to`: tokens that longer segments
    were cut to.
    """

    tokens: int = 0
    shared_segments: dict[str, bool] = field(default_factory=dict)
    unseen: list[Unseen] = field(default_factory=list)
    cut_to: int | None = None


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
        """The first position that is compared: 1, if others are in its language."""
        return 2 if self.mixed else 1

    @property
    def comparable(self) -> bool:
        """Whether two positions are compared; not those of two segments in two languages."""
        return self.n > self.first_compared

    @property
    def labels(self) -> Columns:
        return {"plan": self.plan, "lead": self.lead, "later": self.later, "n": self.n}


@dataclass(frozen=True, slots=True)
class Settings:
    """How the statistics of a run are made."""

    inference: str
    seed: int
    margin: float

    @classmethod
    def of(cls, log: RunLog) -> "Settings":
        return cls(str(log.spec["inference"]), log.header.seed, float(log.spec["margin"]))

    @property
    def rng(self) -> np.random.Generator:
        """A new one, so that no result depends on what was computed before it."""
        return np.random.default_rng(self.seed)


def with_codes(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The rows with numbers in place of names, in order of appearance: these compare faster."""
    # Polars numbers its own categories for the whole process: results would depend on earlier ones.
    kinds = {name: pl.Enum(rows[name].drop_nulls().unique(maintain_order=True)) for name in names}
    return rows.with_columns(pl.col(name).cast(kind).to_physical() for name, kind in kinds.items())


def arrays(rows: pl.DataFrame, *names: str) -> list[np.ndarray]:
    """These columns, each of shape [N]."""
    return [rows[name].to_numpy() for name in names]


def symbol(position: int) -> str:
    """β0, β2, β3, …"""
    return f"β{0 if position == 1 else position}"


def contrast(interval: Interval | None, prefix: str = "") -> Columns:
    """An interval as columns, with its error and its test."""
    names = ("estimate", "standard_error", "degrees_of_freedom", "low", "high", "p_value")
    return {f"{prefix}{name}": getattr(interval, name, None) for name in names}


class Words(NamedTuple):
    """The words for a measure: what is done to a position, its figure, and its section's intro."""

    done: str
    title: str
    intro: str


POSITION_MEASURES = {
    "representation": Words(
        "represented",
        "How well one vector represents each part of a document",
        "Bars show the mean cosine between a document's vector and the vector of each of its "
        "segments alone, with 95 % intervals. In a fair embedding they are equally high. The mean "
        "length of segments at each position, in tokens, is shown below.",
    ),
    "retention": Words(
        "retained",
        "How much of its own meaning each part keeps inside a document",
        "Bars show the mean cosine between a segment's vector inside the document (late chunking) "
        "and its vector alone, with 95 % intervals.",
    ),
}


class AttentionWords(NamedTuple):
    """The words for one way to divide a text; `relative` parts are shares of its length.

    `by` has a place for the size of baskets.
    """

    name: str
    x_label: str
    by: str
    relative: bool = False


ATTENTION_MEASURES = {
    "attention_segment": AttentionWords("attention-segments", "segment", "by segment"),
    "attention_basket": AttentionWords("attention-baskets", "basket", "by basket of {} tokens"),
    "attention_bin": AttentionWords(
        "attention-relative", "place in %", "from a document's beginning to its end", relative=True
    ),
}
