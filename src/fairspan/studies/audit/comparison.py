"""`Pairing`: two treatments on the same documents, of one run or of two, and what changes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import polars as pl

from fairspan.errors import FairspanError
from fairspan.report.frames import columns_of, frame_of, interval, values_of
from fairspan.report.table import Table
from fairspan.report.text import number, with_bounds
from fairspan.runs.arms import Arm, Change, pairs_to_compare
from fairspan.runs.log import RunLog
from fairspan.stats.equivalence import LossKind, judge_loss, size_words
from fairspan.stats.positions import (
    PositionEffects,
    difference_weights,
    position_effects,
    size_changes,
    spread,
    spread_change,
)
from fairspan.studies.audit.languages import MIXED, count_pairs, effects_of
from fairspan.studies.audit.measures import (
    POSITION_MEASURES,
    AuditEntries,
    Columns,
    Family,
    Settings,
    arrays,
    contrast,
    symbol,
    with_codes,
)
from fairspan.studies.audit.tables import change_table

_FAMILY = ["measure", "n", "lead", "later"]
# A document is the same in two runs if it has the same segments at the same positions.
_PLACE = ["set", "order", "position", "segment", "language"]
_VALUES = ("value", "value_second", "value_change")
_ORDER = get_args(LossKind)


@dataclass(frozen=True, eq=False)
class Pairing:
    """The documents that two arms share. What these have in common cancels row by row.

    `familywise`: lower limits of changes hold together for all families of a measure, for a claim
    about the worst of them.
    """

    first: Arm
    second: Arm
    familywise: bool = False

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The rows that both have: `value`, `value_second` and the difference `value_change`."""
        logs = (self.first.log, self.second.log)
        openings = [log.header.part(AuditEntries).cut_to or "whole" for log in logs]
        if openings[0] != openings[1]:
            raise FairspanError(
                f"{logs[0].run} and {logs[1].run} cut segments differently (first tokens: "
                f"{openings[0]}; {openings[1]}): measure both with the same opening."
            )
        before = _position_rows(self.first)
        after = _position_rows(self.second)
        joined = before.join(after, on=_FAMILY + _PLACE, suffix="_second", maintain_order="left")
        # In another draw, a set of the same number may have only some segments in common.
        joined = joined.filter(pl.len().over([*_FAMILY, "set", "order"]) == pl.col("n"))
        if joined.is_empty():
            raise FairspanError(
                f"{self.first} and {self.second} have no document in common: paired differences "
                "need the same corpus, languages, sizes, design and seed."
            )
        change = pl.col("value_second") - pl.col("value")
        return with_codes(joined, "segment").with_columns(value_change=change)

    @property
    def names(self) -> Columns:
        columns = {}
        for side, arm in (("first", self.first), ("second", self.second)):
            columns[f"{side}_run"] = arm.log.run
            columns[f"{side}_model"] = arm.log.model
            columns[f"{side}_treatment"] = arm.treatment
        return columns

    @property
    def settings(self) -> Settings:
        return Settings.of(self.first.log)

    @cached_property
    def families(self) -> list[tuple[Family, pl.DataFrame, list[PositionEffects]]]:
        parts = self.rows.partition_by(_FAMILY, as_dict=True, maintain_order=True)
        return [(Family(*key), rows, self._effects(rows)) for key, rows in parts.items()]

    def _effects(self, rows: pl.DataFrame) -> list[PositionEffects]:
        """Under the first treatment, under the second, and of the change between them."""
        places = arrays(rows, "position", "set", "segment")
        how = self.settings.inference
        columns = arrays(rows, *_VALUES)
        return [position_effects(values, *places, inference=how) for values in columns]

    def _family_names(self, family: Family, rows: pl.DataFrame, sets: int) -> Columns:
        sizes = {"sets": sets, "documents": rows["document"].n_unique()}
        return {"measure": family.measure, **self.names, **family.labels, **sizes}

    def coefficients(self) -> Iterator[Columns]:
        """Every coefficient under both treatments with its change, and that of the mean."""
        for family, rows, (before, after, change) in self.families:
            names = self._family_names(family, rows, after.sets)
            for place in range(family.n):
                yield {
                    **names,
                    "position": place + 1,
                    "coefficient": symbol(place + 1),
                    "first_estimate": float(before.estimate[place]),
                    "second_estimate": float(after.estimate[place]),
                    **contrast(change[place], "change_"),
                    **contrast(change.means[place], "mean_change_"),
                    "inference": after.robust.inference,
                }

    def spreads(self) -> Iterator[Columns]:
        """The spread between the positions that are compared, before and after."""
        compared = [item for item in self.families if item[0].comparable]
        counts = Counter(family.measure for family, _, _ in compared)
        for family, rows, (before, after, change) in compared:
            start = family.first_compared
            kept = rows.filter(pl.col("position") >= start)
            shifted = kept.with_columns(pl.col("position") - (start - 1))
            grown = spread_change(
                *arrays(shifted, "value", "value_second", "position", "set", "segment"),
                inference=self.settings.inference,
                families=counts[family.measure] if self.familywise else 1,
            )
            yield {
                **self._family_names(family, rows, after.sets),
                "from_position": start,
                "first_spread": float(spread(before.means.estimate[start - 1 :])),
                "second_spread": float(spread(after.means.estimate[start - 1 :])),
                **columns_of(grown, "change_"),
                "p_value": change.robust.joint(difference_weights(family.n, start)),
                "inference": after.robust.inference,
            }

    def gains(self) -> Iterator[Columns]:
        """What position 1 and the later positions gain or lose in each measure."""
        position = pl.col("position").clip(upper_bound=2)
        groups = self.rows.group_by("measure", "n", "set", "segment", position, maintain_order=True)
        means = groups.agg(pl.col(_VALUES).mean())
        parts = means.partition_by("measure", as_dict=True, maintain_order=True)
        for (measure,), rows in parts.items():
            estimates = [effects.means for effects in self._effects(rows)]
            before, after, change = estimates
            for place, positions in enumerate(("position 1", "later positions")):
                yield {
                    "measure": measure,
                    **self.names,
                    "positions": positions,
                    "first_estimate": before[place].estimate,
                    "second_estimate": after[place].estimate,
                    **contrast(change[place], "change_"),
                }

    def languages(self) -> Iterator[Columns]:
        """The difference of every two languages of mixed documents, before and after.

        `absolute_change_` is of its absolute value, negative if the second arm is fairer.
        """
        mixed = self.rows.filter(MIXED)
        parts = mixed.partition_by("measure", "n", as_dict=True, maintain_order=True)
        counts = Counter[str]()
        for (measure, _), rows in parts.items():
            counts[measure] += count_pairs(rows)
        for (measure, n), rows in parts.items():
            if not count_pairs(rows):
                continue
            effects = [effects_of(rows, self.settings, column) for column in _VALUES]
            differences = [effect.differences() for effect in effects]
            before, after, change = differences
            families = counts[measure] if self.familywise else 1
            sizes = size_changes(before, after, change, families)
            model = effects[0].model
            for place, (language, against) in enumerate(effects[0].pairs):
                yield {
                    "measure": measure,
                    **self.names,
                    "n": n,
                    "sets": model.sets,
                    "documents": rows.height // n,
                    "language": language,
                    "against": against,
                    "first_estimate": float(before.estimate[place]),
                    "second_estimate": float(after.estimate[place]),
                    **contrast(change[place], "change_"),
                    **columns_of(sizes[place], "absolute_change_"),
                    "inference": model.robust.inference,
                }


def _position_rows(arm: Arm) -> pl.DataFrame:
    by_position = pl.col("measure").is_in(list(POSITION_MEASURES))
    rows = arm.log.rows.filter(by_position, treatment=arm.treatment)
    return rows.select(*_FAMILY, *_PLACE, "document", "tokens", "value")


def compare(
    first: RunLog, second: RunLog | None, treatments: Sequence[str] | None = None
) -> list[Table]:
    """Tables of what changes between treatments or runs on the same documents, by measure."""
    kinds = ("changes", "coefficient-changes", "language-changes")
    rows: dict[str, list[Columns]] = {kind: [] for kind in kinds}
    for pair in pairs_to_compare(first, second, treatments):
        pairing = Pairing(*pair)
        rows["changes"] += pairing.spreads()
        rows["coefficient-changes"] += pairing.coefficients()
        rows["language-changes"] += pairing.languages()
    frames = {kind: frame_of(of_kind) for kind, of_kind in rows.items()}
    tables = []
    for measure in values_of(frames["coefficient-changes"], "measure"):
        for kind, frame in frames.items():
            brief = kind != "coefficient-changes" or frames["changes"].is_empty()
            if len(frame) and measure in set(frame["measure"]):
                tables.append(change_table(kind, frame, measure, brief=brief))
    return tables


def changes(
    first: RunLog,
    second: RunLog | None,
    treatments: Sequence[str] | None = None,
    margin: float | None = None,
) -> list[Change]:
    """Whether the spread between positions grows, or languages come further apart, by measure."""
    allowed = float(first.spec["margin"]) if margin is None else margin
    worst = []
    for pair in pairs_to_compare(first, second, treatments):
        pairing = Pairing(*pair, familywise=True)
        for rows in (list(pairing.spreads()), list(pairing.languages())):
            for measure in dict.fromkeys(row["measure"] for row in rows):
                of_measure = [row for row in rows if row["measure"] == measure]
                worst.append(_worst_change(pairing, of_measure, allowed))
    return worst


def _worst_change(pairing: Pairing, rows: Sequence[Columns], margin: float) -> Change:
    """The comparison that decides: worse before inconclusive, slightly worse, not worse and fairer.

    Of several that are alike, the one that loses most.
    """
    languages = "against" in rows[0]
    size = "absolute_change_" if languages else "change_"

    def judged(row: Columns) -> LossKind:
        return judge_loss(row[f"{size}low"], row[f"{size}high"], margin, "fairer")

    worst = min(rows, key=lambda row: (_ORDER.index(judged(row)), -row[f"{size}estimate"]))
    measure = worst["measure"]
    change = with_bounds(interval(worst, size), "+.3f")
    if languages:
        ends = _before_and_after(worst, "estimate", "+.3f")
        pair = f"{worst['language']} against {worst['against']}"
        words = f"{measure} of {pair} {ends} (size {change})"
        several = len({row["n"] for row in rows}) > 1
        which = f", n={worst['n']}" if several else ""
        which += f", the worst of {len(rows)} comparisons of languages"
    else:
        words = f"spread of {measure} {_before_and_after(worst, 'spread')} ({change})"
        which = f" for {worst['plan']}, n={worst['n']}, the worst of {len(rows)} families"
    if len(rows) > 1:
        words += which
    kind = judged(worst)
    words += size_words(kind, worst[f"{size}low"], margin)
    return Change(pairing.first, pairing.second, measure, kind, words, languages=languages)


def _before_and_after(row: Columns, column: str, form: str = ".3f") -> str:
    return " → ".join(number(row[f"{side}_{column}"], form) for side in ("first", "second"))


def gain_words(gains: Sequence[Columns]) -> str:
    """The gains of one measure; what may be chance is called neither a gain nor a loss."""
    parts = []
    for gain, ending in zip(gains, ("s", ""), strict=True):
        amount = number(abs(gain["change_estimate"]))
        words = f"show{ending} no clear change"
        if gain["change_low"] > 0:
            words = f"gain{ending} {amount}"
        elif gain["change_high"] < 0:
            words = f"lose{ending} {amount}"
        parts.append(f"{gain['positions']} {words} ({_before_and_after(gain, 'estimate')})")
    return f"against {gains[0]['first_treatment']}, {' and '.join(parts)}"
