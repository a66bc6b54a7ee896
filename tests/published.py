"""The coefficients of IRF's Tables 1–19 (arXiv 2601.16934), as printed there."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs

from fairspan.report.table import Table
from fairspan.studies.audit.measures import PLAN
from fairspan.studies.audit.tables import MEANING, coefficient_table, heading, legend

FILE = Path(__file__).parent / "data" / "irf.csv"


@cache
def published_coefficients() -> pl.DataFrame:
    """Every printed number, table by table; `printed` has its digits. Some stand in two tables."""
    rows = pl.read_csv(FILE, schema_overrides={"estimate": pl.String}).with_columns(
        cs.string().fill_null("")
    )
    estimate, treatment = (
        pl.col("printed").cast(pl.Float64),
        pl.col("treatment").replace("none", "plain"),
    )
    return rows.rename({"estimate": "printed"}).with_columns(
        PLAN, estimate=estimate, treatment=treatment
    )


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
    treatments = [
        name for name in found["treatment"].unique(maintain_order=True) if name != "plain"
    ]
    name, remarks = f"published-table-{number}", _remarks(found.to_dicts())
    if not treatments:
        return coefficient_table(
            found, name, title, notes=[MEANING, legend(found), *remarks], digits=2
        )
    [treatment] = treatments
    notes = [MEANING, "printed without signs of significance", *remarks]
    return coefficient_table(found, name, title, pair=(treatment, "plain"), notes=notes, digits=2)


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
