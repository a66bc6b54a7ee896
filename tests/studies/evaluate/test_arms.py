"""Which arms of evaluations are compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.arms import pairs_to_compare
from tests.builders import searches
from tests.builders.saying import said_by
from tests.builders.simulated import with_entries

TREATMENTS = ("plain", "paper", "retrieval")


def searched(folder: Path, treatments: tuple[str, ...] = TREATMENTS, run: str = "run") -> RunLog:
    rows = searches.rows_of(searches.usual, treatments, clusters=6)
    return searches.log_of(folder, rows, run=run)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    folder = tmp_path_factory.mktemp("sides")
    return {
        "three": searched(folder / "three", run="three"),
        "two": searched(folder / "two", ("paper", "plain"), run="two"),
        "plain": searched(folder / "plain", ("plain",), run="plain"),
        "paper": searched(folder / "paper", ("paper",), run="paper"),
        "others": searched(folder / "others", ("fair", "tiles-64"), run="others"),
    }


def test_which_sides_are_compared(sides: dict[str, RunLog]) -> None:
    for runs, treatments, arms in (
        ("three", None, "three: plain, three: paper, three: plain, three: retrieval"),
        ("three two", None, "three: plain, two: plain, three: paper, two: paper"),
        ("two three", None, "two: paper, three: paper, two: plain, three: plain"),
        ("plain paper", None, "plain: plain, paper: paper"),
        ("three", ["paper", "retrieval"], "three: paper, three: retrieval"),
        ("three two", ("retrieval", "plain"), "three: retrieval, two: plain"),
    ):
        logs = [sides[run] for run in runs.split()]
        pairs = pairs_to_compare(*logs, treatments=treatments)
        assert ", ".join(str(arm) for pair in pairs for arm in pair) == arms


def test_what_an_interrupted_run_lacks_is_not_asked_of_a_second_run(tmp_path: Path) -> None:
    """Two treatments were asked for and one was measured."""
    stopped = searched(tmp_path / "a", ("plain",), run="stopped")
    asked = searched(tmp_path / "c", ("plain", "paper")).header.spec
    stopped = with_entries(stopped, spec=asked, status="running")
    line = said_by(lambda: pairs_to_compare(stopped))
    assert line == (
        "of the run stopped only plain was measured: this run has not finished: 1 of 2 treatments "
        "were measured. Run its command again, which continues where it stopped."
    )


@pytest.mark.parametrize(
    ("runs", "treatments", "said"),
    [
        ("three", ["plain"], "names two treatments, such as plain and paper, got ['plain']"),
        ("three", [], "got []"),
        ("three two", ["plain"] * 3, "got ['plain', 'plain', 'plain']"),
        ("three", ["plain", "best"], "three has no treatment 'best', only plain, paper, retrieval"),
        (
            "three two",
            ["plain", "retrieval"],
            "two has no treatment 'retrieval', only paper, plain",
        ),
        ("plain", None, "plain only plain was measured: name a second run to compare with"),
        ("three others", None, "share no treatment (plain, paper, retrieval; fair, tiles-64)"),
        ("plain others", None, "name one of each with treatments"),
    ],
)
def test_sides_that_cannot_be_compared(
    sides: dict[str, RunLog], runs: str, treatments: list[str] | None, said: str
) -> None:
    logs = [sides[run] for run in runs.split()]
    assert said in said_by(lambda: pairs_to_compare(*logs, treatments=treatments))
