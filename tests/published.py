"""The coefficients of IRF's Tables 1–19 (arXiv 2601.16934), as printed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from fairspan.report.table import Table
from fairspan.studies.audit.coefficients import MEANING, coefficient_table, heading, legend
from fairspan.studies.audit.published import published_coefficients


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
    return coefficient_table(found, name, title, pair=pair, notes=notes)


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
