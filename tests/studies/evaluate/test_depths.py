"""Found by depth: steps of tokens before the evidence, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.depths import LEAST_QUERIES, depth_steps, merged
from tests.builders.searches import Value, log_of, rows_of, usual
from tests.report.example import printed


@pytest.mark.parametrize(
    ("counts", "numbers"),
    [
        ([20, 20, 30], [1, 2, 3]),
        ([19, 1, 20], [1, 1, 2]),
        ([30, 5, 14], [1, 1, 1]),
        ([5, 5], [1, 1]),
        ([30, 0, 40, 3], [1, 2, 2, 2]),
    ],
)
def test_neighbours_with_few_queries_are_counted_together(
    counts: list[int], numbers: list[int]
) -> None:
    assert LEAST_QUERIES == 20
    assert merged(np.array(counts)) == numbers


def test_what_is_read_is_a_step_of_its_own() -> None:
    """Steps have 20 tokens, but for the first two; without enough queries the window of 10 lies in
    the first."""
    depths = np.repeat(np.arange(0, 240, 2), 10)
    assert depth_steps(depths, 10)[:4] == [0, 10, 20, 40]
    assert depth_steps(depths[::4], 10)[:2] == [0, 20]


DEPTHS = [*range(40), *range(50, 90), *range(1000, 1005)]
"""40 queries before the window of 50 ends, 25 within half a window after it, 15 after these, and 5
far beyond, which are counted with the 15."""


def cut(count: int, of: int) -> list[dict[str, Any]]:
    """Plain reads 50 tokens, and so much evidence is beyond them; fair reads all."""
    read = [("plain", 50, count), ("fair", None, 0)]
    entry = {"texts": "evidence", "count": of}
    return [{**entry, "treatment": n, "window": w, "cut": c} for n, w, c in read]


def logged(
    folder: Path, value: Value = usual, depths: list[int] | None = None, **changes: Any
) -> RunLog:
    """17 documents with five queries each."""
    listed = DEPTHS if depths is None else depths
    changes = {"metrics": ("mrr", "recall@1"), "windows": cut(45, 85), **changes}
    rows = rows_of(value, clusters=len(listed) // 5, metrics=changes.pop("metrics"))
    numbers = (pl.col("cluster") * 5 + pl.col("fifth") - 1).cast(pl.Int64)
    rows = rows.with_columns(depth=pl.lit(pl.Series(listed)).gather(numbers).cast(pl.Int32))
    return log_of(folder, rows, **changes)


def test_means_of_every_step(tmp_path: Path) -> None:
    log = logged(tmp_path)
    frame = log.frame("depths")
    steps = [(0, 50, 40), (50, 75, 25), (75, None, 20)]
    told = frame.select("treatment", "tokens_from", "tokens_to", "queries").rows()
    assert told == [(name, *step) for name in ("plain", "fair") for step in steps]
    assert frame["metric"].unique().to_list() == ["recall@1"], "the only recall"
    assert frame["chance"].unique().to_list() == [1 / 17]
    rows = log.rows.filter(measure="recall@1")
    for row in frame.iter_rows(named=True):
        inside = rows.filter(
            pl.col("depth") >= row["tokens_from"], pl.col("depth") < (row["tokens_to"] or 9999)
        )
        means = {name: inside.filter(treatment=name)["value"].mean() for name in ("plain", "fair")}
        assert row["estimate"] == pytest.approx(means[row["treatment"]], abs=1e-12)
        if row["treatment"] == "fair":
            change = means["fair"] - means["plain"]
            assert row["change_estimate"] == pytest.approx(change, abs=1e-12)


def test_the_chart(tmp_path: Path) -> None:
    """Points in the middle of steps; of the last one, which has no end, half as far again."""
    view = logged(tmp_path).view
    assert view.picture == "found-by-depth"
    chart = view.chart()
    assert (chart.kind, chart.scale, chart.names) == ("lines", "linear", ["plain", "fair"])
    assert chart.frame["tokens"].to_list() == [25, 62, 112] * 2
    assert chart.frame["depth"].to_list() == ["0–49", "50–74", "≥ 75"] * 2
    depths = view.frame("depths")
    assert chart.frame.select(depths.columns).equals(depths)
    assert chart.edge == (50, "plain reads to here")
    assert chart.level == (1 / 17, "by chance")
    assert "by chance" in printed(view)


def test_without_evidence_that_is_cut_there_are_no_depths(tmp_path: Path) -> None:
    for name, windows in (("whole", cut(0, 85)), ("unknown", [])):
        assert "depths" not in logged(tmp_path / name, windows=windows).view.frames
    nowhere = rows_of(usual, metrics=("recall@1",))
    assert "depths" not in log_of(tmp_path / "none", nowhere, windows=cut(45, 85)).view.frames


@pytest.mark.parametrize(
    ("documents", "recalls", "words"),
    [
        (90, (1, 3, 10), "found among the first 10: 50 of 100 passages with plain, 60 with fair"),
        (20, (1, 3), "found among the first 3: 0 of 100 passages with plain, 0 with fair"),
        (20, (1, 10), "found first: 0 of 100 passages with plain, 0 with fair"),
        (90, (5,), "found among the first 5: 0 of 100 passages with plain, 10 with fair"),
    ],
)
def test_the_recall_is_the_deepest_that_chance_has_little_of(
    tmp_path: Path, documents: int, recalls: tuple[int, ...], words: str
) -> None:
    """Plain ranks evenly from 6 to 15 and fair one rank better; of 20 documents 10 are the first by
    chance in every second query."""

    def is_hit(treatment: str, metric: str, position: int, cluster: int) -> float:
        rank = cluster % 10 + 6 - (treatment == "fair")
        return float(rank <= int(metric.removeprefix("recall@")))

    task = {"source": "passages", "names": ["t"], "queries": 100, "documents": documents}
    log = logged(
        tmp_path,
        is_hit,
        [30 * (number % 5 + 1) for number in range(100)],
        metrics=[f"recall@{cut}" for cut in recalls],
        windows=cut(60, 100),
        task=task,
    )
    chart = log.view.chart("found-by-depth")
    assert chart.below == words
    assert chart.y_title == words.partition(":")[0]
