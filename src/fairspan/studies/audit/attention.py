"""`AttentionSummary`: where the pooled row looks, by basket, by segment and on a relative axis, of an audit's log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from fairspan.errors import StatisticsError
from fairspan.report.text import finite
from fairspan.runs.log import RunLog
from fairspan.stats.means import half_widths

MEASURES = {"attention_segment": "segment", "attention_basket": "basket", "attention_bin": "bin"}
"""The measures of a log, and what their parts of the text are called."""

LEVEL = 0.95
_FAMILY = ["measure", "treatment", "n", "lead", "later"]
_AROUND = {"first": -1, "last": 1, "special": 2, "other": 3}


@dataclass(frozen=True, slots=True)
class Share:
    """The mean share of attention that one part of the text holds.

    Attributes:
        part: such as "segment 2"; or "first", "last", "special" and "other", which hold none of the text.
        number: of the part, from 1; None where it holds none of the text.
        low, high: the 95 % interval, with errors clustered by set; NaN for one set.
        equal: what it would hold if the text's attention were shared equally among its parts; NaN outside the text.
        documents, sets: that have this part.
    """

    part: str
    number: int | None
    estimate: float
    low: float
    high: float
    equal: float
    documents: int
    sets: int

    def to_dict(self) -> dict[str, Any]:
        shown = {name: finite(getattr(self, name)) for name in ("estimate", "low", "high", "equal")}
        return {"part": self.part, **shown, "documents": self.documents, "sets": self.sets}


@dataclass(frozen=True, slots=True)
class AttentionProfile:
    """One profile of one treatment on the documents of one size and language plan, over a group of layers."""

    measure: str
    treatment: str
    n: int
    lead: str
    later: str
    layers: str
    shares: tuple[Share, ...]

    @property
    def plan(self) -> str:
        return self.lead if self.lead == self.later else f"{self.lead}:{self.later}"

    @property
    def content(self) -> list[Share]:
        """The parts of the text, in its order."""
        return [share for share in self.shares if share.number is not None]

    @property
    def around(self) -> list[Share]:
        """Special tokens, the prompt and what lies between segments, where they hold anything."""
        return [share for share in self.shares if share.number is None and share.estimate > 0]

    @property
    def documents(self) -> int:
        return max(share.documents for share in self.shares)

    def to_dict(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "treatment": self.treatment,
            "n": self.n,
            "lead": self.lead,
            "later": self.later,
            "layers": self.layers,
            "shares": [share.to_dict() for share in self.shares],
        }


@dataclass(frozen=True, slots=True)
class AttentionSummary:
    """All attention profiles of one run; none if attention was not measured."""

    log: RunLog
    groups: dict[str, range]
    """The groups of layers, such as "last third"."""
    profiles: tuple[AttentionProfile, ...]

    def __bool__(self) -> bool:
        return bool(self.profiles)

    @property
    def measures(self) -> list[str]:
        return [name for name in MEASURES if any(profile.measure == name for profile in self.profiles)]

    @property
    def families(self) -> list[tuple[int, str]]:
        """The sizes and plans, in the order of the log."""
        return list(dict.fromkeys((profile.n, profile.plan) for profile in self.profiles))

    @property
    def treatments(self) -> list[str]:
        """Those that were measured; of an interrupted run not all."""
        found = {profile.treatment for profile in self.profiles}
        return [name for name in self.log.treatments if name in found]

    def of(self, measure: str, n: int, plan: str, layers: str) -> list[AttentionProfile]:
        """The profiles of one family over one group of layers, one a treatment."""
        wanted = (measure, n, plan, layers)
        found = {
            profile.treatment: profile
            for profile in self.profiles
            if (profile.measure, profile.n, profile.plan, profile.layers) == wanted
        }
        return [found[name] for name in self.treatments if name in found]

    def to_dict(self) -> dict[str, Any]:
        return {
            "layers": {name: [layers.start + 1, layers.stop] for name, layers in self.groups.items()},
            "profiles": [profile.to_dict() for profile in self.profiles],
        }


def layer_groups(depth: int) -> dict[str, range]:
    """The layers in thirds, and all of them. A model of fewer than three layers has no thirds.

    >>> layer_groups(6)
    {'first third': range(0, 2), 'middle third': range(2, 4), 'last third': range(4, 6), 'all': range(0, 6)}
    """
    if depth < 1:
        raise StatisticsError(f"depth must be at least 1, got {depth!r}.")
    everything = {"all": range(depth)}
    if depth < 3:
        return everything
    low, high = round(depth / 3), round(2 * depth / 3)
    thirds = {"first third": range(low), "middle third": range(low, high), "last third": range(high, depth)}
    return thirds | everything


def summarize_attention(log: RunLog) -> AttentionSummary:
    """Mean shares of every part of the text, over the documents that have it."""
    rows = log.rows.filter(pl.col("measure").is_in(list(MEASURES)) & pl.col("layer").is_not_null())
    if rows.is_empty():
        return AttentionSummary(log, {}, ())
    groups = layer_groups(int(rows["layer"].max()) + 1)  # type: ignore[arg-type]
    families = rows.select(_FAMILY).unique(maintain_order=True).rows()
    profiles = []
    for name, layers in groups.items():
        own = rows.filter(pl.col("layer").is_between(layers.start, layers.stop - 1))
        found = shares_of(own).partition_by(_FAMILY, as_dict=True)
        for measure, treatment, n, lead, later in families:
            shares = _shares(found[measure, treatment, n, lead, later])
            profiles.append(AttentionProfile(measure, treatment, n, lead, later, name, shares))
    return AttentionSummary(log, groups, tuple(profiles))


def shares_of(rows: pl.DataFrame) -> pl.DataFrame:
    """The mean over documents of each part, after the mean over layers, with its interval clustered by set."""
    document = [*_FAMILY, "set", "document"]
    number = pl.col("part").str.extract(r"^(?:segment|basket|bin) (\d+)$").cast(pl.Int64)
    by_document = (
        rows.group_by(*document, "part")
        .agg(pl.col("value").mean())
        .with_columns(number=number)
        .sort(*document, "part")
        .with_columns(
            equal=pl.col("value").filter(pl.col("number").is_not_null()).mean().over(document),
        )
    )
    part = [*_FAMILY, "part", "number"]
    gaps = by_document.with_columns(gap=pl.col("value") - pl.col("value").mean().over(part))
    sets = gaps.group_by(*part, "set").agg(
        pl.col("gap").sum(), pl.col("value").sum(), pl.col("equal").sum(), pl.len().alias("documents")
    )
    found = (
        sets.sort(*part, "set", nulls_last=True)
        .group_by(part, maintain_order=True)
        .agg(
            squares=(pl.col("gap") ** 2).sum(),
            total=pl.col("value").sum(),
            equal=pl.col("equal").sum(),
            documents=pl.col("documents").sum(),
            sets=pl.len(),
        )
    )
    count = found["documents"].to_numpy()
    half = half_widths(found["squares"].to_numpy(), count, found["sets"].to_numpy(), LEVEL)
    estimate = found["total"].to_numpy() / count
    inside = found["number"].is_not_null().to_numpy()
    return found.with_columns(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        equal=np.where(inside, found["equal"].to_numpy() / count, np.nan),
    )


def _shares(rows: pl.DataFrame) -> tuple[Share, ...]:
    names = ("part", "number", "estimate", "low", "high", "equal", "documents", "sets")
    found = [Share(*values) for values in rows.select(names).rows()]
    return tuple(sorted(found, key=lambda share: (_AROUND.get(share.part, 0), share.number or 0)))
