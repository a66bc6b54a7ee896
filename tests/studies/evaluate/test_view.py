"""The frames, tables and charts of simulated evaluations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairspan.report.frames import to_csv, to_records
from fairspan.report.text import number, with_ends
from fairspan.runs.log import RunLog
from tests.builders.searches import METRICS, REFERENCES, is_long, log_of, rows_of, usual
from tests.builders.simulated import with_study
from tests.report.example import printed, table_of


def ends(row: dict[str, Any], prefix: str = "", form: str = ".3f") -> str:
    """An interval of a frame in words."""
    return with_ends(*(row[prefix + end] for end in ("estimate", "low", "high")), form=form)


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Two treatments with all references, two metrics, two languages, and ranks of documents of
    several lengths."""
    metrics = rows_of(
        usual,
        metrics=METRICS,
        indexes=REFERENCES,
        languages=("en", "de", "en"),
        tokens=lambda cluster: (900 if is_long(cluster) else 400) + cluster,
    )
    whole = metrics.filter(measure="mrr", index="whole")
    ranks = whole.with_columns(measure=pl.lit("rank"), value=1 + 10 * pl.col("value"))
    return pl.concat([metrics, ranks])


@pytest.fixture(scope="module")
def log(rows: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return log_of(tmp_path_factory.mktemp("log") / "run", rows)


ARMS = {
    ("plain", "whole"): "plain",
    ("fair", "whole"): "fair",
    ("plain", "parts-all"): "one vector per chunk",
    ("keywords", "keywords"): "keywords",
    ("plain", "fused"): "plain and keywords",
    ("fair", "fused"): "fair and keywords",
}


def means(rows: pl.DataFrame, *columns: str) -> dict[tuple[object, ...], float]:
    grouped = rows.group_by(columns).agg(pl.col("value").mean()).sort(columns)
    return {tuple(row[:-1]): row[-1] for row in grouped.rows()}


def test_every_mean_and_every_paired_change(log: RunLog, rows: pl.DataFrame) -> None:
    """Overall and in every group, for every arm and metric, from rows that were shuffled. Those
    fused with keywords are compared with the first of their kind."""
    length = pl.when(pl.col("cluster") % 2 == 1).then(pl.lit("long")).otherwise(pl.lit("short"))
    rows = rows.filter(pl.col("measure") != "rank").with_columns(
        length=length + pl.lit(" documents"), position=pl.col("fifth").cast(pl.String)
    )
    for frame, column in (
        ("quality", None),
        ("lengths", "length"),
        ("positions", "position"),
        ("languages", "language"),
    ):
        groups = [column] if column else []
        expected = means(rows, "treatment", "index", "measure", *groups)
        told = log.frame(frame).to_dicts()
        # Groups have the first metric only.
        assert len(told) == len(expected) / (2 if column else 1)
        for row in told:
            labels = {name: row[name] for name in groups}
            arm = (row["treatment"], row["index"])
            mean = expected[*arm, row["metric"], *labels.values()]
            assert row["estimate"] == pytest.approx(mean, abs=1e-12)
            inside = rows.filter(measure="mrr", treatment="keywords", **labels)
            assert (row["queries"], row["documents"]) == (len(inside), inside["cluster"].n_unique())
            before = ("plain", "fused" if row["index"] == "fused" else "whole")
            change = mean - expected[*before, row["metric"], *labels.values()]
            change = None if arm == before else pytest.approx(change, abs=1e-12)
            assert row["change_estimate"] == change
    quality = log.frame("quality").to_dicts()
    assert [(row["treatment"], row["index"]) for row in quality] == [*ARMS] * 2
    fifths = means(rows, "treatment", "index", "measure", "fifth")
    for row in quality:
        key = (row["treatment"], row["index"], row["metric"])
        by_fifth = [fifths[*key, fifth] for fifth in range(1, 6)]
        assert row["psi"] == pytest.approx(1 - min(by_fifth) / max(by_fifth), abs=1e-12)


def test_words_and_p_values_are_of_verdicts_only(log: RunLog) -> None:
    judged = log.frame("quality").filter(pl.col("change_p").is_not_null())
    assert judged.select("treatment", "index", "metric").rows() == [("fair", "whole", "ndcg@10")]
    lengths = log.frame("lengths").filter(pl.col("word").is_not_null())
    assert lengths.select("treatment", "index", "word").rows() == [("fair", "whole", "better")] * 2


def test_queries_without_evidence_count_overall(tmp_path: Path) -> None:
    """And in no fifth; fifths that nobody asks for leave the others their names."""
    rows = rows_of(usual, ("plain",), positions=(1, None, 3))
    frames = log_of(tmp_path / "some", rows).view.frames
    assert frames["quality"]["estimate"][0] == pytest.approx(rows["value"].mean())
    assert frames["positions"]["position"].to_list() == ["1", "3"]
    assert frames["positions"]["queries"].to_list() == [40, 40]
    nowhere = log_of(tmp_path / "none", rows_of(usual, positions=(None,)))
    assert "positions" not in nowhere.view.frames
    assert nowhere.view.frames["quality"]["psi"].to_list() == [None, None]
    assert "nan" not in printed(nowhere.view)


# By length (LC Table 3).

SCORES = {
    "plain": [0.1, 0.3, 0.9, 0.8, 0.7, 0.2, 0.5, 0.6, 0.4, 0.0],
    "fair": [0.2, 0.6, 0, 0, 0, 1, 1, 1, 0.5, 0.7],
}
RANKS = {"plain": [1, 2, 3, 4, 5, 6, 7, 8, 9, 30], "fair": [1, 1, 1, 1, 1, 1, 1, 1, 5, 4]}


def by_length(
    folder: Path, query_tokens: Sequence[int], tokens: Sequence[int] = (500,) * 10
) -> dict[tuple[str, str], dict[str, float]]:
    """Ten documents with a query each."""
    values = {"ndcg@10": SCORES, "rank": RANKS}
    rows = rows_of(
        lambda arm, measure, _, number: values[measure][arm][number],
        clusters=10,
        positions=(None,),
        metrics=tuple(values),
        tokens=lambda number: tokens[number],
    )
    lengths = pl.col("cluster").replace_strict(range(10), query_tokens, return_dtype=pl.Int32)
    log = log_of(folder, rows.with_columns(query_tokens=lengths))
    frame = log.view.frames.get("by_length", pl.DataFrame())
    return {(row["group"], row["treatment"]): row for row in frame.to_dicts()}


def test_the_shortest_and_the_longest_fifth_of_queries(tmp_path: Path) -> None:
    """Queries of 10 to 1 tokens: the last two are the shortest, the first two the longest."""
    rows = by_length(tmp_path, range(10, 0, -1))
    groups = {
        "shortest queries": (slice(8, 10), (1, 2)),
        "longest queries": (slice(2), (9, 10)),
    }
    assert list(rows) == [(group, name) for name in SCORES for group in groups]
    for group, (inside, tokens) in groups.items():
        plain, fair = (np.mean(SCORES[name][inside]) for name in SCORES)
        for name, mean, change in (
            ("plain", plain, None),
            ("fair", fair, pytest.approx(fair - plain)),
        ):
            row = rows[group, name]
            assert (row["measure"], row["queries"]) == ("ndcg@10", 2)
            assert (row["tokens_from"], row["tokens_to"]) == tokens
            assert row["estimate"] == pytest.approx(mean)
            assert row["change_estimate"] == change


@pytest.mark.parametrize(
    ("lengths", "short", "long"),
    [
        # Quantiles 5 and 9: four queries and three lie on them, and all of them are in.
        ([5, 5, 5, 5, 6, 7, 8, 9, 9, 9], 4, 3),
        # Between 6 and 8 of the sorted lengths: 6.8 and 8.2.
        ([6, 6, 7, 7, 7, 8, 8, 8, 9, 9], 2, 2),
        # All alike but one: there are no fifths.
        ([5] * 9 + [9], None, None),
    ],
)
def test_ties_at_a_quantile_are_inside(
    tmp_path: Path, lengths: list[int], short: int | None, long: int | None
) -> None:
    rows = by_length(tmp_path, lengths)
    groups = [rows.get((f"{name} queries", "plain"), {}) for name in ("shortest", "longest")]
    assert [group.get("queries") for group in groups] == [short, long]


def test_ranks_of_the_longest_documents(tmp_path: Path) -> None:
    tokens = [100, 110, 120, 130, 140, 150, 160, 170, 900, 1000]
    rows = by_length(tmp_path, [5] * 10, tokens)
    assert list(rows) == [("longest documents", "plain"), ("longest documents", "fair")]
    first, second = rows.values()
    assert (first["measure"], first["queries"]) == ("rank", 2)
    assert (first["tokens_from"], first["tokens_to"]) == (900, 1000)
    assert (first["estimate"], second["estimate"]) == pytest.approx((19.5, 4.5))
    assert second["change_estimate"] == pytest.approx(-15)
    assert first["high"] > 30, "ranks may be above 1"


# What is shown.


def test_tables_are_the_frames(log: RunLog) -> None:
    view = log.view
    quality = view.frame("quality").filter(metric="ndcg@10").to_dicts()
    others = view.frame("quality").filter(metric="mrr")["estimate"]
    shown = table_of(view, "quality").rows
    assert [row[0] for row in shown] == [*ARMS.values()]
    for row, one, other in zip(shown, quality, others, strict=True):
        assert row[1] == number(one["estimate"])
        assert row[2] == ends(one, "change_", "+.3f")
        assert row[-2:] == (number(one["psi"], ".2f"), number(other))
    for column in ("length", "position", "language"):
        frame = view.frame(f"{column}s").to_dicts()
        expected = [(one[column], str(one["queries"]), ends(one)) for one in frame]
        assert [row[1:4] for row in table_of(view, f"{column}s").rows] == expected
    costs = {row[0]: row[1:] for row in table_of(view, "index-costs").rows}
    assert costs["one vector per chunk"][:4] == ("4.0", "0.2", "20,000", "2")
    assert costs["fair"] == ("1.0", "0.1", "20,000", "2", "40", "0.125")
    by_length = table_of(view, "by-length").rows
    assert by_length[-1][0].startswith("mean rank of the longest documents (40 of 9")
    assert view.sections[-1].closed, "lengths only on demand"
    entries = log.header.to_json()["study"]["costs"]
    stored = with_study(log, costs=[{**entries[0], "seconds": None}, *entries[1:]])
    times = [row[4] for row in table_of(stored.view, "index-costs").rows]
    assert times == ["stored", "2", "2"]


def test_cards_are_the_baseline_verdicts_and_references(log: RunLog) -> None:
    cards = log.view.cards
    assert [(card.name, card.badge) for card in cards] == [
        ("plain", "baseline"),
        ("fair", "better"),
        ("one vector per chunk", "reference"),
        ("keywords", "reference"),
    ]
    first, *_ = log.frame("quality").to_dicts()
    assert cards[0].sentences == (f"ndcg@10 {ends(first)}",)
    assert cards[2].sentences[0].endswith(", with 4.0 vectors per document")


def test_marks_are_the_means(log: RunLog) -> None:
    """Of vectors and keywords, and of both for the last treatment."""
    drawn = [name for name in ARMS.values() if name != "plain and keywords"]
    columns = {
        "overall": "metric",
        "length": "length",
        "position": "position",
        "language": "language",
    }
    charts = [*log.view.charts()]
    assert log.view.picture == charts[0].name == "search-overall"
    for chart, (key, column) in zip(charts, columns.items(), strict=True):
        assert chart.name.endswith(f"-{key}")
        assert (chart.x, chart.by, chart.names) == (column, "arm", drawn)
        assert chart.kind == ("lines" if key == "position" else "dots")
        frame = log.frame("quality" if key == "overall" else f"{key}s")
        arms = [ARMS[row] for row in frame.select("treatment", "index").rows()]
        rows = frame.with_columns(arm=pl.Series(arms)).filter(pl.col("arm").is_in(drawn))
        assert chart.frame.select(rows.columns).to_dicts() == rows.to_dicts()


@pytest.mark.parametrize(
    ("entries", "words", "noted"),
    [
        ({}, "", True),
        ({"drawn_from": 431, "drawn": 40}, ", drawn from 431", True),
        (
            {"drawn_from": 431, "drawn": 20},
            " (20 and their translations), drawn from 431",
            True,
        ),
        ({"kind": "questions"}, "", False),
    ],
)
def test_the_heading_says_what_was_drawn(
    log: RunLog, entries: dict[str, Any], words: str, noted: bool
) -> None:
    view = with_study(log, **entries).view
    assert view.heading.endswith(f": 200 queries among 40 documents{words}, 2 s")
    note = "fewer documents make search easier: expect less in an index of more than 40"
    assert (note in view.notes) == noted


def test_nothing_is_nan(log: RunLog, tmp_path: Path) -> None:
    """Also where one treatment finds nothing at all."""
    rows = rows_of(lambda arm, m, p, c: 0.3 * (arm == "fair") * (p < 3))
    rows = rows.filter((pl.col("fifth") < 4) | (pl.col("cluster") == 0))
    nothing = log_of(tmp_path, rows)
    for one in (log, nothing):
        for frame in one.view.frames.values():
            json.dumps(to_records(frame), allow_nan=False)
            assert "NaN" not in to_csv(frame)
        assert "nan" not in printed(one.view, 120)
    assert to_records(nothing.frame("quality"))[0]["psi"] is None, "no share of nothing"
