"""The published tables, rebuilt by what lays out measured coefficients."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fairspan.studies.audit.coefficients import coefficient_table
from fairspan.studies.audit.options import MEASURES
from fairspan.studies.audit.published import published_coefficients
from tests.paper_tables import Printed, printed_tables, read_cells

SEEDS = Path(__file__).parents[2] / "shared" / "seeds"
CELLS = Path(__file__).parent / "data" / "irf_tables.tsv"


# The numbers.


def test_the_published_table_is_whole() -> None:
    """1908 coefficients: every table, plan and size has each position 1…n once, β0 first."""
    rows = published_coefficients()
    assert len(rows) == 1908
    identity = ["table", "model", "measure", "treatment", "lead", "later", "n"]
    for key, members in rows.partition_by(identity, as_dict=True).items():
        n = key[-1]
        assert members["position"].to_list() == list(range(1, n + 1)), key
        assert members["coefficient"].to_list() == ["β0", *(f"β{p}" for p in range(2, n + 1))], key


def test_the_published_values_are_cosines_and_markers() -> None:
    rows = published_coefficients()
    assert rows["estimate"].is_between(-1, 1).all()
    assert set(rows["marker"]) == {"", "◇", "□", "•"}
    assert set(rows["measure"]) <= set(MEASURES)
    # A mean of position 1 is far from zero in every table.
    means = rows.filter(pl.col("position") == 1)
    assert set(means["marker"]) == {""}
    assert (means["estimate"] > 0).all()


# The layouts.


def assert_printed(number: int, printed: Printed) -> None:
    """Heads and cells, character by character; groups of columns stand over the first of each."""
    rows = published_coefficients().filter(table=number)
    calibrated = [name for name in rows["treatment"].unique() if name != "plain"]
    pair = (calibrated[0], "plain") if calibrated else None
    table = coefficient_table(rows, "t", "t", pair=pair)
    header = [*table.heads, *(column.name for column in table.columns)]
    if table.has_groups:
        above = ["n", ""] + [
            text for name, count in table.spans() for text in (name, *[""] * (count - 1))
        ]
        assert printed[:2] == [above, ["", "", *header[2:]]]
    else:
        assert printed[0] == header
    shown = zip(table.shown_heads(), table.rows, strict=True)
    found = [[*heads, *(cell.text for cell in row.cells)] for heads, row in shown]
    assert found == printed[1 + table.has_groups :]


@pytest.mark.parametrize("number", [1, 2, 16])
def test_a_published_table_is_as_printed(number: int) -> None:
    """The expected cells were taken from the paper's text, not from the numbers beside them."""
    assert_printed(number, read_cells(CELLS)[number])


@pytest.mark.parametrize("number", range(1, 20))
def test_every_published_table_is_as_in_the_text(number: int) -> None:
    files = sorted(SEEDS.glob("*.txt"))
    if not files:
        pytest.skip("needs the paper's text in ../shared/seeds")
    [printed] = [
        tables for file in files if len(tables := printed_tables(file.read_text("utf-8"))) == 19
    ]
    assert_printed(number, printed[number])
    kept = read_cells(CELLS)
    assert kept.get(number, printed[number]) == printed[number]
