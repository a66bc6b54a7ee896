"""Tables: how they are laid out, and that Markdown and CSV say what the summaries do."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from fairspan.report.beside_published import beside_published
from fairspan.report.tables.audit import audit_tables, coefficient_tables
from fairspan.report.tables.coefficients import coefficients_of, heading, paired_layout, plain_layout
from fairspan.report.tables.comparison import beside_table, comparison_tables
from fairspan.report.tables.csv import to_csv
from fairspan.report.tables.length import length_tables
from fairspan.report.tables.named import NamedTable
from fairspan.report.tables.of_run import tables_of
from fairspan.report.tables.published import published_named, published_table

from fairspan.errors import LogError
from fairspan.runs.log import RunLog
from fairspan.stats.positions import marker
from fairspan.studies.audit.comparison import Side, compare_sides
from fairspan.studies.audit.summary import Summary, summarize
from fairspan.studies.collapse.summary import LengthSummary
from tests.paper_tables import Printed, printed_tables, read_cells
from tests.test_length_report import LENGTHS, PLAIN, SPECTRA, STRONG, entries_of, study_of
from tests.test_report import simulated_log, simulated_rows

SEEDS = Path(__file__).parents[2] / "shared" / "seeds"
CELLS = Path(__file__).parent / "data" / "irf_tables.tsv"


# --- runs to make tables of

PLANS = [("en", "en"), ("de", "de"), ("de", "en"), ("zh", "en")]
EFFECTS = {"none": 0.10, "paper": 0.0, "retrieval": 0.015}


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Three treatments, sizes 2 and 3, two languages and two mixtures; retention of two treatments in one family."""
    tables = [
        simulated_rows(
            lambda position, _, effect=effect: 0.7 - effect * (position - 1),  # type: ignore[misc]
            n=n,
            plan=plan,
            treatment=treatment,
            noise=0.02,
        )
        for treatment, effect in EFFECTS.items()
        for n in (2, 3)
        for plan in PLANS
    ]
    tables += [simulated_rows(lambda p, s: 0.9, treatment=t, measure="retention") for t in ("none", "paper")]
    return summarize(simulated_log(tmp_path_factory.mktemp("audit") / "run", tables, list(EFFECTS)))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LengthSummary:
    """Geometry with raw words, a classifier, spectra, and repeated words."""
    curves = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, -0.42, 0.43], "words": [0.1, 0.2, 0.3, 0.4]}
    geometry = [entry for measure in ("cosine", "distance") for entry in entries_of(curves, LENGTHS, measure)]
    labels = {name: values for name, values in curves.items() if name != "words"}
    repeated = [
        {"treatment": name, "measure": "repeated", "document": "x", "part": str(times), "value": 0.1 * times}
        for name in (PLAIN, STRONG)
        for times in (1, 2)
    ]
    return study_of(
        tmp_path_factory.mktemp("study") / "run",
        curves,
        rows=[*SPECTRA, *repeated],
        geometry=geometry,
        classification=[
            entry for measure in ("correct", "entropy") for entry in entries_of(labels, LENGTHS, measure)
        ],
    )


@pytest.fixture(scope="module")
def everything(audit: Summary, study: LengthSummary) -> list[NamedTable]:
    first, second = Side(audit.log, "none"), Side(audit.log, "paper")
    return [
        *audit_tables(audit),
        *length_tables(study),
        *comparison_tables(compare_sides(first, second)),
        *(published_named(number) for number in range(1, 20)),
    ]


def named(tables: Sequence[NamedTable], name: str) -> NamedTable:
    [one] = [table for table in tables if table.name == name]
    return one


# --- CSV


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_coefficients_in_csv_are_the_summary_s(audit: Summary) -> None:
    """Every coefficient once over the plain tables, bit by bit."""
    cells = {(cell.measure, cell.treatment, cell.plan, cell.n): cell for cell in audit.cells}
    found = 0
    for one in audit_tables(audit):
        if "-coefficients" not in one.name:
            continue
        for line in read(to_csv(one.records)):
            cell = cells[line["measure"], line["treatment"], line["plan"], int(line["n"])]
            effects, place = cell.effects, int(line["position"]) - 1
            for name in ("estimate", "standard_error", "low", "high", "p_value", "degrees_of_freedom"):
                assert float(line[name]) == getattr(effects, name)[place]
            assert line["marker"] == marker(effects.p_value[place])
            assert (line["model"], line["coefficient"]) == ("m", f"β{place + 1 if place else 0}")
            assert int(line["sets"]) == effects.clusters
            found += 1
    assert found == sum(cell.n for cell in audit.cells)


# --- coefficients


def test_the_plain_layout(audit: Summary) -> None:
    """Sizes and positions down, one language a column; documents of one language and mixed ones stand apart."""
    tables = coefficient_tables(audit, "representation", digits=2)
    alone = named(tables, "representation-coefficients-paper").table
    assert [column.name for column in alone.columns] == ["en", "de"]
    assert [row.heads for row in alone.rows] == [
        ("2", "β0 (Intercept)"),
        ("2", "β2 (2 vs. 1)"),
        ("3", "β0 (Intercept)"),
        ("3", "β2 (2 vs. 1)"),
        ("3", "β3 (3 vs. 1)"),
    ]
    [cell] = [one for one in audit.of("representation", "paper") if (one.plan, one.n) == ("de", 3)]
    expected = [
        f"{value:.2f}".replace("-", "−") + marker(p)
        for value, p in zip(cell.effects.estimate, cell.effects.p_value, strict=True)
    ]
    assert [row.cells[1] for row in alone.rows if row.heads[0] == "3"] == expected
    mixed = named(tables, "representation-coefficients-paper-mixed-en").table
    assert [column.name for column in mixed.columns] == ["[de, en, ..., en]", "[zh, en, ..., en]"]
    assert "later segments in en" in mixed.title


def test_calibrated_beside_uncalibrated(audit: Summary) -> None:
    tables = coefficient_tables(audit, "representation")
    table = named(tables, "representation-calibrated-paper").table
    assert table.spans() == [("en", 2), ("de", 2)]
    assert [column.name for column in table.columns] == ["c.", "uc."] * 2
    assert table.rows[0].heads == ("2", "β0")
    assert table.notes[0] == "c.: paper; uc.: none"
    plain = {name: named(tables, f"representation-coefficients-{name}").table for name in ("paper", "none")}
    for row, calibrated, not_so in zip(table.rows, plain["paper"].rows, plain["none"].rows, strict=True):
        assert row.cells == (calibrated.cells[0], not_so.cells[0], calibrated.cells[1], not_so.cells[1])


def test_treatments_stand_beside_each_other_where_there_is_one_plan(audit: Summary) -> None:
    tables = coefficient_tables(audit, "retention")
    assert [one.name for one in tables] == ["retention-coefficients", "retention-calibrated-paper"]
    assert [column.name for column in tables[0].table.columns] == ["none", "paper"]


def test_the_legend_tells_only_of_markers_that_occur(audit: Summary) -> None:
    for one in coefficient_tables(audit, "representation"):
        cells = "".join(cell for row in one.table.rows for cell in row.cells)
        [told] = [note for note in one.table.notes if note.startswith("p < 0.001")]
        assert [mark in told for mark in "◇□•"] == [mark in cells for mark in "◇□•"]


def test_several_treatments_and_plans_in_one_table(audit: Summary) -> None:
    table = plain_layout(coefficients_of(audit, "representation"), "t")
    assert table.spans()[0] == ("en", 3)
    assert len(table.columns) == 12


def test_sizes_that_were_not_measured_are_left_empty(tmp_path: Path) -> None:
    rows = [simulated_rows(lambda p, s: 0.6, n=2), simulated_rows(lambda p, s: 0.6, n=3, plan=("de", "de"))]
    found = coefficients_of(summarize(simulated_log(tmp_path / "run", rows)), "representation")
    table = plain_layout(found, "t")
    assert [[cell == "" for cell in row.cells] for row in table.rows] == [[False, True]] * 2 + [[True, False]] * 3


def test_a_treatment_that_is_not_there_is_one_line(audit: Summary) -> None:
    with pytest.raises(LogError, match="no coefficients of 'papier', only of none, paper, retrieval"):
        paired_layout(coefficients_of(audit, "representation"), "t", "papier", "none")


def test_headings() -> None:
    assert [heading(plan) for plan in ("en", "zh:en")] == ["en", "[zh, en, ..., en]"]


# --- published tables


def assert_printed(number: int, printed: Printed) -> None:
    """Heads and cells, character by character; groups of columns stand over the first of each."""
    table = published_table(number)
    grouped = any(column.group for column in table.columns)
    header = [*table.heads, *(column.name for column in table.columns)]
    if grouped:
        above = ["n", ""] + [text for name, count in table.spans() for text in (name, *[""] * (count - 1))]
        assert printed[:2] == [above, ["", "", *header[2:]]]
    else:
        assert printed[0] == header
    shown = zip(table.shown_heads(), table.rows, strict=True)
    assert [[*heads, *row.cells] for heads, row in shown] == printed[1 + grouped :]


@pytest.mark.parametrize("number", [1, 2, 16])
def test_a_published_table_is_as_printed(number: int) -> None:
    """The expected cells were taken from the paper's text, not from the numbers that ship."""
    assert_printed(number, read_cells(CELLS)[number])


@pytest.mark.parametrize("number", range(1, 20))
def test_every_published_table_is_as_in_the_text(number: int) -> None:
    files = sorted(SEEDS.glob("*.txt"))
    if not files:
        pytest.skip("needs the paper's text in ../shared/seeds")
    [printed] = [tables for file in files if len(tables := printed_tables(file.read_text("utf-8"))) == 19]
    assert_printed(number, printed[number])
    kept = read_cells(CELLS)
    assert kept.get(number, printed[number]) == printed[number]


def test_a_published_table_that_is_not_there() -> None:
    with pytest.raises(LogError, match="no published table 20, only 1 to 19"):
        published_table(20)


# --- audits


def test_verdicts_and_unevenness(audit: Summary) -> None:
    tables = audit_tables(audit)
    assert tables[0].name == "verdicts"
    for row in tables[0].table.rows:
        measure, treatment = row.heads
        kind, words = row.cells
        assert kind == audit.worst(measure, treatment).verdict.kind
        assert audit.sentence(measure, treatment).endswith(words)
    assert len(tables[0].records) == len(audit.cells)
    uneven = named(tables, "representation-unevenness")
    for row, record in zip(uneven.table.rows, uneven.records, strict=True):
        assert row.heads == (record["plan"], str(record["n"]), record["treatment"])
        [cell] = [
            one
            for one in audit.of("representation", row.heads[2])
            if (one.plan, str(one.n)) == (row.heads[0], row.heads[1])
        ]
        spread = cell.secondary.spread
        assert row.cells[0] == f"{spread.estimate:.3f} [{spread.low:.3f}, {spread.high:.3f}]"
        assert (record["psi"], record["gini_high"]) == (cell.secondary.psi.estimate, cell.secondary.gini.high)


def test_changes_against_the_first_treatment(audit: Summary) -> None:
    changes = named(audit_tables(audit), "representation-changes")
    found = [one for name in ("paper", "retrieval") for one in compare_sides(*sides(audit.log, name))]
    found = [one for one in found if one.measure == "representation"]
    found.sort(key=lambda one: (one.second.treatment, ["en", "de", "de:en", "zh:en"].index(one.plan), one.n))
    assert len(changes.table.rows) == len(changes.records) == len(found)
    for record, row, one in zip(changes.records, changes.table.rows, found, strict=True):
        assert (record["first_spread"], record["second_spread"]) == one.spreads
        assert (record["low"], record["high"]) == (one.paired.spread.low, one.paired.spread.high)
        assert row.heads == (f"none → {one.second.treatment}", one.plan, str(one.n))


def test_changes_can_be_left_out(audit: Summary) -> None:
    every, some = audit_tables(audit), audit_tables(audit, changes=False)
    assert [one.name for one in every[len(some) :]] == ["representation-changes", "retention-changes"]


def sides(log: RunLog, treatment: str) -> tuple[Side, Side]:
    return Side(log, "none"), Side(log, treatment)


def test_changes_of_every_coefficient(audit: Summary) -> None:
    found = compare_sides(*sides(audit.log, "paper"))
    table = named(comparison_tables(found), "representation-coefficient-changes")
    for record in table.records:
        [one] = [
            one for one in found if (one.measure, one.plan, one.n) == ("representation", record["plan"], record["n"])
        ]
        place = int(str(record["position"])) - 1
        before, after = one.paired.first.estimate[place], one.paired.second.estimate[place]
        assert (record["first"], record["second"]) == (before, after)
        assert record["change"] == pytest.approx(after - before)


def test_beside_the_published_ones(tmp_path: Path) -> None:
    rows = simulated_rows(lambda position, s: 0.75 - 0.05 * (position > 1), n=3)
    beside = beside_published(summarize(simulated_log(tmp_path / "run", [rows])), "mGTE")
    table = beside_table(beside, "m")
    assert [row.cells[2] for row in table.table.rows] == ["0.75", "−0.05", "−0.11"]
    assert [record["published"] for record in table.records] == [0.75, -0.05, -0.11]
    to_csv(table.records)


def test_an_audit_without_positions_has_no_tables(tmp_path: Path) -> None:
    rows = simulated_rows(lambda p, s: 0.5, measure="attention")
    assert tables_of(simulated_log(tmp_path / "run", [rows], spec={"measures": ["attention"]})) == []


def test_an_audit_that_was_stopped_has_tables(tmp_path: Path) -> None:
    log = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.5)], ["none", "paper"], status="interrupted")
    assert [one.name for one in tables_of(log)] == [
        "verdicts",
        "representation-unevenness",
        "representation-coefficients",
    ]


# --- studies of length


def test_geometry_by_length(study: LengthSummary) -> None:
    tables = length_tables(study)
    cosine = named(tables, "geometry-cosine")
    assert [row.heads[0] for row in cosine.table.rows] == [PLAIN, STRONG, "raw word embeddings"]
    assert [column.name for column in cosine.table.columns] == ["50", "100", "200", "400", "each doubling [95 %]"]
    assert cosine.table.rows[1].cells[:4] == ("0.400", "0.410", "−0.420", "0.430")
    kept = [entry for entry in study.log.header["geometry"] if entry["measure"] == "cosine"]
    assert [{k: v for k, v in record.items() if k != "model"} for record in cosine.records] == kept


def test_a_star_where_a_treatment_changes_the_classifier(study: LengthSummary) -> None:
    """Every interval is 0.02 wide, and every difference larger."""
    table = named(length_tables(study), "classification-correct").table
    assert [cell.endswith("*") for cell in table.rows[0].cells] == [False] * 4
    assert [cell.endswith("*") for cell in table.rows[1].cells] == [True] * 4


def test_spectra_filters_bounds_and_words(study: LengthSummary) -> None:
    tables = length_tables(study)
    last = named(tables, "spectra")
    by_hand = [f"{0.3 + 0.1 + 0.005 + length / 1000:.3f}" for length in LENGTHS]
    assert list(last.table.rows[0].cells) == by_hand
    assert len(last.records) == sum(
        len(study.spectrum(m, t)) for m in {r["measure"] for r in SPECTRA} for t in study.treatments
    )
    rates = named(tables, "filter-rates").table
    assert [column.group for column in rates.columns] == ["layer", "layer"]
    assert rates.rows[0].heads == (PLAIN, "50")
    rate = study.spectrum("filter_rate", PLAIN)["value"].to_list()
    assert rates.rows[0].cells == tuple(f"{value:+.2f}".replace("-", "−") for value in rate[:2])
    above = {(row.heads[0], row.heads[1]): row.cells for row in named(tables, "bounds").table.rows}
    count, total = study.exceeded("sigma_a", "theorem_3", PLAIN)
    assert above["Theorem 3: σ_a", PLAIN] == (str(count), str(total))
    words = named(tables, "repeated-words")
    assert [(r["times"], r["cosine"]) for r in words.records if r["treatment"] == STRONG] == [(1, 0.1), (2, 0.2)]


def test_verdicts_on_length(study: LengthSummary) -> None:
    table = length_tables(study)[0].table
    assert [row.cells[0] for row in table.rows] == [study.verdict(name) for name in study.treatments]
    assert table.notes[0] == f"suggested by geometry alone: {study.advice()}"


# --- files


def test_another_verb_has_no_tables(audit: Summary) -> None:
    log = RunLog(audit.log.folder, {**audit.log.header, "verb": "tune"}, audit.log.rows)
    with pytest.raises(LogError, match="belongs to tune"):
        tables_of(log)
