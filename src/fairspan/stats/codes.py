"""Numbers in place of names."""

import polars as pl


def with_codes(rows: pl.DataFrame, *names: str) -> pl.DataFrame:
    """The same with numbers in place of names in those columns, in order of appearance.

    Labels of a whole grid are compared millions of times. Polars' own categories are numbered for the whole process,
    so that results would depend on what was read before.
    """
    kinds = {name: pl.Enum(rows[name].drop_nulls().unique(maintain_order=True)) for name in names}
    return rows.with_columns(pl.col(name).cast(kind).to_physical() for name, kind in kinds.items())
