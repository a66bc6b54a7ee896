"""What a treatment gains and loses at position 1 and later, on the same documents."""

from collections.abc import Iterator, Sequence

import polars as pl

from fairspan.report.text import number
from fairspan.stats.positions import position_effects
from fairspan.studies.audit.measures import Columns, arrays, contrast
from fairspan.studies.audit.options import AuditAnalysis

_PLACE = ["measure", "document", "position"]


def gain_rows(
    rows: pl.DataFrame, treatments: Sequence[str], analysis: AuditAnalysis
) -> Iterator[Columns]:
    """Changes from the first treatment in the mean of position 1 and of the later positions."""
    if not treatments:
        return
    first, *others = treatments
    before = rows.filter(treatment=first).select(*_PLACE, before="value")
    # Sets are numbered anew for every size.
    sets = pl.concat_str("n", "set", separator="/").alias("set")
    first_or_later = pl.col("position").clip(upper_bound=2)
    change = pl.col("value") - pl.col("before")
    keys = ["measure", "set", "segment", "position"]
    for treatment in others:
        paired = rows.filter(treatment=treatment).join(before, on=_PLACE, maintain_order="left")
        paired = paired.with_columns(sets, first_or_later, change=change)
        groups = paired.group_by(keys, maintain_order=True)
        means = groups.agg(pl.col("before", "value", "change").mean())
        parts = means.partition_by("measure", as_dict=True, maintain_order=True)
        for (measure,), part in parts.items():
            places = arrays(part, "position", "set", "segment")
            effects = position_effects(part["change"], *places, inference=analysis.inference)
            changes = effects.means
            for place, positions in enumerate(("position 1", "later positions")):
                of_place = part.filter(position=place + 1)
                yield {
                    "measure": measure,
                    "treatment": treatment,
                    "against": first,
                    "positions": positions,
                    "before": of_place["before"].mean(),
                    "after": of_place["value"].mean(),
                    **contrast(changes[place], "change_"),
                }


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
        ends = f"{number(gain['before'])} → {number(gain['after'])}"
        parts.append(f"{gain['positions']} {words} ({ends})")
    return f"against {gains[0]['against']}, {' and '.join(parts)}"
