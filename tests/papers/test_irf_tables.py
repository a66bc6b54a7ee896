"""IRF's tables: the printed numbers, cell by cell, and coefficients of runs beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import irf_tables
from fairspan.runs.log import RunLog
from irf_tables import Table, lay_out, published, to_latex, to_markdown
from tests.builders.paper_tables import Printed, printed_tables, read_cells
from tests.builders.simulated import Plan, simulated_log, simulated_rows
from tests.papers.conftest import Script, refused

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
CELLS = Path(__file__).parents[1] / "data" / "irf_tables.tsv"


# The published numbers.


def test_the_published_numbers_are_whole() -> None:
    """1908 coefficients, cosines with a marker: every table, plan and size has each position 1…n
    once, β0 first, which is far from zero."""
    rows = published()
    assert len(rows) == 1908
    assert set(rows["table"]) == set(range(1, 20))
    identity = ["table", "model", "measure", "treatment", "lead", "later", "n"]
    for key, members in rows.partition_by(identity, as_dict=True).items():
        n = key[-1]
        assert members["position"].to_list() == list(range(1, n + 1)), key
        assert members["coefficient"].to_list() == ["β0", *(f"β{p}" for p in range(2, n + 1))], key
    assert rows["estimate"].is_between(-1, 1).all()
    assert set(rows["marker"]) == {"", "◇", "□", "•"}
    assert set(rows["measure"]) == {"representation", "retention"}
    means = rows.filter(position=1)
    assert set(means["marker"]) == {""}
    assert (means["estimate"] > 0).all()


def assert_printed(number: int, printed: Printed) -> None:
    """Heads and cells, character by character; groups of columns stand over the first of each."""
    table = lay_out(published().filter(table=number))
    heads = table.heads
    if len(heads) > 1:
        plans, kinds = heads
        pairs = zip(["", *plans[:-1]], plans, strict=True)
        heads = [[plan if plan != before else "" for before, plan in pairs], kinds]
    assert [*heads, *table.rows] == printed


@pytest.mark.parametrize("number", [1, 2, 16])
def test_a_published_table_is_as_printed(number: int) -> None:
    """The expected cells were taken from the paper's text, not from the numbers beside them."""
    assert_printed(number, read_cells(CELLS)[number])


@pytest.mark.parametrize("number", range(1, 20))
def test_every_published_table_is_as_in_the_text(number: int) -> None:
    files = sorted(SEEDS.glob("*.txt"))
    if not files:
        pytest.skip("needs the paper's text")
    [printed] = [
        tables for file in files if len(tables := printed_tables(file.read_text("utf-8"))) == 19
    ]
    assert_printed(number, printed[number])
    kept = read_cells(CELLS)
    assert kept.get(number, printed[number]) == printed[number]


# Beside those of a run.


def audited(
    folder: Path, treatments: list[str], plans: list[Plan], model: str = "m", **options: Any
) -> RunLog:
    """Position 2 loses .1 and position 3 loses .2 of .7, and half of it where calibrated."""
    tables = [
        simulated_rows(
            lambda p, _, k=k: 0.7 - 0.1 * (p - 1) / (k + 1),  # type: ignore[misc]
            plan=plan,
            treatment=name,
            **options,
        )
        for k, name in enumerate(treatments)
        for plan in plans
    ]
    named = {"name": model, "fingerprint": "f"}
    return simulated_log(folder, tables, treatments, model=named)


def cells_of(file: Path) -> list[list[str]]:
    lines = [line for line in file.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_run_is_beside_the_paper(script: Script, tmp_path: Path) -> None:
    """Tables 1 (mGTE), 2 (jina-v3) and 16 (calibrated), for the only size and plan that was
    measured; markers and decimals by hand."""
    log = audited(tmp_path / "run", ["plain", "paper"], [("en", "en")])
    out = tmp_path / "out"
    said = script(irf_tables, log.folder, "--out", out).ok
    tables = {file.stem: cells_of(file) for file in sorted(out.glob("*.md"))}
    assert list(tables) == ["table-01", "table-02", "table-16"]
    measured = {
        (row["treatment"], row["position"]): f"{row['estimate']:.3f}".replace("-", "−")
        + row["marker"]
        for row in log.frame("coefficients").iter_rows(named=True)
    }
    heads, _, *rows = tables["table-01"]
    assert heads == ["n", "", "en m", "en IRF"]
    assert rows == [
        ["3", "β0 (Intercept)", measured["plain", 1], "0.75"],
        ["", "β2 (2 vs. 1)", measured["plain", 2], "−0.05"],
        ["", "β3 (3 vs. 1)", measured["plain", 3], "−0.11"],
    ]
    assert [row[3] for row in tables["table-02"][2:]] == ["0.79", "−0.28", "−0.33"]
    heads, _, *rows = tables["table-16"]
    assert heads == ["n", "", "en m c.", "en m uc.", "en IRF c.", "en IRF uc."]
    assert rows == [
        ["3", "β0", measured["paper", 1], measured["plain", 1], "0.70", "0.75"],
        ["", "β2", measured["paper", 2], measured["plain", 2], "0.02", "−0.05"],
        ["", "β3", measured["paper", 3], measured["plain", 3], "−0.00", "−0.11"],
    ]
    assert "IRF, Table 16 (mGTE): coefficients of representation" in said.out
    frame = pl.read_csv(out / "table-16.csv")
    assert frame["source"].to_list().count("m") == len(frame) / 2 == 6
    assert frame.filter(source="m")["low"].null_count() == 0
    assert frame.filter(source="IRF")["low"].null_count() == 6


@pytest.mark.parametrize(
    ("model", "tables"),
    [
        ("Alibaba-NLP/gte-multilingual-base", ["03", "06"]),
        ("models/jina-embeddings-v3-hf", ["07", "10"]),
        ("another", ["03", "06", "07", "10"]),
    ],
)
def test_a_model_of_the_paper_gets_its_own_tables(
    script: Script, tmp_path: Path, model: str, tables: list[str]
) -> None:
    """Mixed documents with later English and Chinese segments, in two runs."""
    logs = [audited(tmp_path / later, ["plain"], [("de", later)], model) for later in ("en", "zh")]
    said = script(irf_tables, *(log.folder for log in logs), "--out", tmp_path / "out").ok
    found = sorted(file.stem.removeprefix("table-") for file in (tmp_path / "out").glob("*.tex"))
    assert found == tables
    assert "[de, en, ..., en]" in said.out
    assert "[de, zh, ..., zh]" in said.out


def test_latex_has_the_rules_of_booktabs() -> None:
    heads = [["n", "", "en", "en", "de_1"], ["", "", "m", "IRF", "m"]]
    table = Table(heads, [["3", "β0", "0.70", "0.75□", "−0.1•"], ["", "β2", "1", "2", "3"]])
    assert to_latex(table, "50 %").splitlines() == [
        r"\begin{table}",
        r"\caption{50 \%}",
        r"\begin{tabular}{llrrr}",
        r"\toprule",
        r"n &  & \multicolumn{2}{c}{en} & \multicolumn{1}{c}{de\_1} \\",
        r" &  & m & IRF & m \\",
        r"\midrule",
        r"3 & $\beta$0 & 0.70 & 0.75$^{\square}$ & $-$0.1$^{\bullet}$ \\",
        r" & $\beta$2 & 1 & 2 & 3 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    assert to_markdown(table).splitlines()[0] == "| n |  | en m | en IRF | de_1 m |"


def test_bad_input_is_one_line(script: Script, tmp_path: Path) -> None:
    pairs = audited(tmp_path / "pairs", ["plain"], [("en", "en")], n=2)
    fidelity = audited(tmp_path / "none", ["plain"], [("en", "en")], measure="fidelity")
    for typed, reason in (
        ([], "name the folder of at least one run of audit"),
        ([tmp_path / "nowhere"], "is not the folder of a run"),
        ([fidelity.folder], "is no audit of representation or retention"),
        ([pairs.folder], "the paper has no table of such documents"),
    ):
        refused(script(irf_tables, *typed, "--out", tmp_path / "out"), reason)
    assert not (tmp_path / "out").exists()
