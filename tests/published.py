"""The coefficients of IRF's Tables 1–19 (arXiv 2601.16934), as printed there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from fairspan.report.table import Table
from fairspan.studies.audit.coefficients import MEANING, coefficient_table, heading, legend
from fairspan.studies.audit.measures import PLAN

FILE = Path(__file__).parent / "data" / "irf.csv"


@cache
def published_coefficients() -> pl.DataFrame:
    """Every printed number, table by table; `printed` has its digits. Some stand in two tables."""
    rows = pl.read_csv(FILE, schema_overrides={"estimate": pl.String})
    rows = rows.with_columns(cs.string().fill_null("")).rename({"estimate": "printed"})
    treatment = pl.col("treatment").replace("none", "plain")
    return rows.with_columns(PLAN, estimate=pl.col("printed").cast(pl.Float64), treatment=treatment)


def published_table(number: int) -> Table:
    """One of IRF's Tables 1–19, rebuilt by what lays out measured coefficients."""
    found = published_coefficients().filter(pl.col("table") == number)
    first = found.row(0, named=True)
    alone = (found["lead"] == found["later"]).all()
    setting = "monolingual" if alone else f"mixed-language, later segments in {first['later']}"
    title = (
        f"OLS coefficients of {first['measure']} ({setting}, {first['model']}), "
        f"published as Table {number}"
    )
    name = f"published-table-{number}"
    others = [other for other in found["treatment"].unique() if other != "plain"]
    signs = "printed without signs of significance" if others else legend(found)
    notes = [MEANING, signs, *_remarks(found.to_dicts())]
    pair = (others[0], "plain") if others else None
    return coefficient_table(found, name, title, pair=pair, notes=notes, digits=2)


def _remarks(printed: Sequence[dict[str, Any]]) -> list[str]:
    """What is remarked of single numbers, and of which."""
    remarks = []
    for note in dict.fromkeys(one["note"] for one in printed if one["note"]):
        where = [
            f"{heading(one['plan'])} n={one['n']} {one['coefficient']}"
            for one in printed
            if one["note"] == note
        ]
        remarks.append(f"{'; '.join(where)}: {note}")
    return remarks
