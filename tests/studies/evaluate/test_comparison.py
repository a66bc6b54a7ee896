"""Two treatments or two runs on the same queries: simulated rows in, paired changes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fairspan.errors import FairspanError
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.studies.evaluate.arms import pairs_to_compare
from fairspan.studies.logs import changes, compare
from tests.builders.saying import said_by
from tests.builders.searches import METRICS, REFERENCES, is_long, log_of, rows_of, usual
from tests.builders.simulated import with_entries


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    rows = rows_of(usual, metrics=METRICS, indexes=REFERENCES)
    return log_of(tmp_path_factory.mktemp("first") / "run", rows)


def test_two_runs_are_compared_query_by_query(first: RunLog, tmp_path: Path) -> None:
    """The second gains .25 on short and loses .05 on long documents; it has fewer queries, of which
    one is its own."""
    gain = pl.when(pl.col("cluster") % 2 == 1).then(-0.05).otherwise(0.25)
    fewer = first.rows.filter(pl.col("cluster") < 30).with_columns(
        value=pl.col("value") + gain,
        query=pl.col("query").replace("q009-4", "new"),
    )
    second = log_of(tmp_path / "run", fewer, run="m-87654321")
    overall, by_length, by_fifth = compare(first, second)
    rows = overall.frame.to_dicts()
    # Each treatment with itself, in every index and metric that both runs have.
    expected = {("plain", "whole"), ("plain", "parts-all"), ("plain", "fused")}
    expected |= {("fair", "whole"), ("fair", "fused")}
    told = {(row["first_treatment"], row["index"], row["metric"]) for row in rows}
    assert told == {(*arm, metric) for arm in expected for metric in METRICS}
    for row in rows:
        assert row["first_treatment"] == row["second_treatment"]
        assert (row["first_run"], row["second_run"]) == ("m-12345678", "m-87654321")
        assert row["queries"] == 15 * 5 + 15 * 5 - 1
        assert row["change_estimate"] == pytest.approx((75 * 0.25 - 74 * 0.05) / 149)
    for row in by_length.frame.to_dicts():
        long = row["length"] == "long documents"
        assert row["queries"] == (74 if long else 75)
        assert row["change_estimate"] == pytest.approx(-0.05 if long else 0.25)
    assert len(by_length.frame) == 2 * len(rows)
    assert by_fifth.frame["position"].unique().sort().to_list() == ["1", "2", "3", "4", "5"]
    assert [one.kind for one in changes(first, second)] == [
        "better for short, worse for long documents"
    ] * 5


def test_changes_inside_a_run_are_its_verdicts(first: RunLog) -> None:
    """On whole documents; those beside keywords are judged by the same rule, and corrected among
    themselves."""
    (verdict,) = first.verdicts.to_dicts()
    whole, fused = changes(first)
    assert (whole.kind, whole.numbers) == (verdict["verdict"], verdict["sentence"])
    assert (fused.kind, fused.measure, fused.name) == ("better", "ndcg@10", "plain → fair")
    assert fused.numbers.startswith("ndcg@10, fused: all documents +0.0")
    assert "short documents" in fused.numbers


def test_pairs_of_two_runs_are_corrected_for_their_number(tmp_path: Path) -> None:
    """Two treatments that gain with p = .03 each: not beside one another."""
    spreads = {"plain": 0.03, "fair": 0.029}

    def value(arm: str, metric: str, position: int, cluster: int) -> float:
        return 0.4 + 0.1 * np.sin(cluster)

    def later(arm: str, metric: str, position: int, cluster: int) -> float:
        noise = spreads[arm] * (1 if cluster // 2 % 2 else -1)
        return value(arm, metric, position, cluster) + 0.0105 + noise

    before = log_of(tmp_path / "before", rows_of(value, positions=(1,)))
    after = log_of(tmp_path / "after", rows_of(later, positions=(1,)), run="m-87654321")
    p_values = compare(before, after)[0].frame["change_p"].to_list()
    assert max(p_values) < 0.05 < min(holm(p_values)), "the premise"
    assert [one.kind for one in changes(before, after)] == ["not worse"] * 2
    assert [one.kind for one in changes(before, after, ["plain", "plain"])] == ["better"]


def test_documents_are_short_or_long_for_the_first_model(first: RunLog, tmp_path: Path) -> None:
    """The second has another window, and more tokens."""
    rows = first.rows.with_columns(tokens=pl.col("tokens") * 3)
    second = log_of(tmp_path / "run", rows, run="m-87654321", window=8192)
    by_length = compare(first, second)[1].frame.filter(index="whole", metric="mrr")
    assert by_length["length"].to_list() == ["short documents", "long documents"] * 2
    assert by_length["queries"].to_list() == [100] * 4
    assert sum(is_long(cluster) for cluster in range(40)) == 20


def test_what_cannot_be_compared(first: RunLog, tmp_path: Path) -> None:
    other = log_of(
        tmp_path / "other",
        first.rows.with_columns(query=pl.lit("x") + pl.col("query")),
        run="m-87654321",
    )
    with pytest.raises(FairspanError, match="have no query in common: paired differences need"):
        compare(first, other)
    for name in ("passages from t", "larger"):
        task = {**first.header.to_json()["task"], "names": [name], "fingerprints": ["g"]}
        larger = with_entries(first, task={**task, "documents": 340})
        for read in (compare, changes):
            with pytest.raises(FairspanError, match=r"read different texts.*40 doc.*340 doc"):
                read(first, larger)


# Which arms


def searched(folder: Path, run: str, *treatments: str) -> RunLog:
    return log_of(folder / run, rows_of(usual, treatments, clusters=6), run=run)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunLog]:
    measured = {
        "three": ("plain", "paper", "retrieval"),
        "two": ("paper", "plain"),
        "plain": ("plain",),
        "paper": ("paper",),
        "others": ("fair", "tiles-64"),
    }
    folder = tmp_path_factory.mktemp("sides")
    return {name: searched(folder, name, *treatments) for name, treatments in measured.items()}


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


def test_what_an_interrupted_run_lacks_is_not_asked_of_a_second_run(
    sides: dict[str, RunLog], tmp_path: Path
) -> None:
    """Two treatments were asked for and one was measured."""
    stopped = with_entries(sides["plain"], spec=sides["two"].header.spec, status="running")
    unfinished = "this run has not finished: 1 of 2 treatments were measured"
    line = said_by(pairs_to_compare, stopped)
    assert line.startswith(f"of the run plain only plain was measured: {unfinished}. Run its")
    other = searched(tmp_path, "other", "paper", "retrieval")
    line = said_by(pairs_to_compare, stopped, other)
    assert line.startswith(f"the runs share no treatment (plain; paper, retrieval): {unfinished}")


@pytest.mark.parametrize(
    ("runs", "treatments", "said"),
    [
        ("three", ["plain"], "names two treatments, such as plain and paper, got ['plain']"),
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
