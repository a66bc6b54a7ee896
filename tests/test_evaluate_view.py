"""The summary and the view of an evaluation: simulated rows in; means, changes, verdicts, tables
and charts out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.random import default_rng
from polars.testing import assert_frame_equal

from fairspan.errors import FairspanError
from fairspan.report.chart import Chart
from fairspan.report.figure import draw
from fairspan.report.frames import interval, to_csv, to_records
from fairspan.report.markdown import to_markdown
from fairspan.report.page import Part, make_page
from fairspan.report.table import Table
from fairspan.report.text import number, with_bounds
from fairspan.report.view import View
from fairspan.runs.arms import Arm
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.queries import query_change
from fairspan.studies.evaluate.comparison import changes, compare, compare_searches
from fairspan.studies.evaluate.depths import depth_steps
from fairspan.studies.evaluate.measures import merged
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.summary import frames_of
from fairspan.studies.evaluate.view import view_of
from tests.report_example import chart_of, printed, table_of
from tests.searches import METRICS, ONLY, PLANS, log_of, noise, rows_of, usual
from tests.simulated import with_entries


def texts(one: Table) -> list[list[str]]:
    return [[*row.heads, *(cell.text for cell in row.cells)] for row in one.rows]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Two metrics, three plans, two editions, a second index, and ranks of documents of several
    lengths.
    """
    rows = rows_of(
        usual, metrics=METRICS, plans=PLANS, editions=2, indexes=[("plain", "chunk-max")]
    )
    ranks = rows.filter(measure="mrr").with_columns(
        measure=pl.lit("rank"), value=1 + 10 * pl.col("value")
    )
    rows = pl.concat([rows, ranks]).with_columns(tokens=(100 + 40 * pl.col("set")).cast(pl.Int32))
    return log_of(tmp_path_factory.mktemp("wide") / "run", rows)


@pytest.fixture(scope="module")
def view(wide: RunLog) -> View:
    return view_of(wide)


# Numbers.


def by_position(rows: pl.DataFrame, column: str = "value") -> list[float]:
    found = rows.group_by("position").agg(pl.col(column).mean()).sort("position")[column]
    return [float(value) for value in found]


def test_every_mean_and_every_paired_change(wide: RunLog, view: View) -> None:
    """Overall and by position, for every arm, metric and plan, joined by hand: the rows were
    shuffled.
    """
    named = (
        pl.when(pl.col("lead") == pl.col("later"))
        .then("lead")
        .otherwise(pl.format("{}:{}", "lead", "later"))
    )
    rows, keys = wide.rows.with_columns(plan=named), ["lead", "later", "order", "query"]
    quality, positions = view.frame("quality").to_dicts(), view.frame("positions")
    assert len(quality) == 4 * 2 * 4
    for one in quality:
        of_plan = rows.filter(
            (pl.col("plan") == one["plan"]) | (pl.lit(one["plan"]) == ""), measure=one["metric"]
        )
        own = of_plan.filter(treatment=one["treatment"], part=one["index"])
        first = of_plan.filter(treatment="plain", part="whole")
        joined = first.join(own, on=keys, suffix="_after")
        assert len(joined) == len(own) == 12 * 4 * 2 * (1 if one["plan"] else 3)
        means, before = by_position(joined, "value_after"), by_position(joined)
        assert (one["queries"], one["clusters"]) == (len(own), 12)
        assert one["estimate"] == pytest.approx(own["value"].mean(), abs=1e-12)
        assert one["psi_estimate"] == pytest.approx(1 - min(means) / max(means), abs=1e-12)
        assert one["harmonic_estimate"] == pytest.approx(
            4 / sum(1 / mean for mean in means), abs=1e-12
        )
        named_so = {name: one[name] for name in ("treatment", "index", "metric", "plan")}
        groups = positions.filter(**named_so)
        assert groups["position"].to_list() == ["1", "2", "3", "4"]
        assert groups["estimate"].to_list() == pytest.approx(means, abs=1e-12)
        assert groups["queries"].to_list() == [len(own) // 4] * 4
        if (one["treatment"], one["index"]) == ("plain", "whole"):
            assert one["change_estimate"] is one["psi_change_estimate"] is None
            continue
        assert one["change_estimate"] == pytest.approx(
            (joined["value_after"] - joined["value"]).mean(), abs=1e-12
        )
        assert groups["change_estimate"].to_list() == pytest.approx(
            np.subtract(means, before).tolist(), abs=1e-12
        )
        psi = one["psi_estimate"] - (1 - min(before) / max(before))
        assert one["psi_change_estimate"] == pytest.approx(psi, abs=1e-12)
        assert one["worst_change_estimate"] == pytest.approx(min(means) - min(before), abs=1e-12)


def test_pairs_are_known_better_than_means(tmp_path: Path) -> None:
    """Clusters differ much, and every query gains 0.01: the interval of the change has no width."""
    rows = rows_of(
        lambda t, m, p, c: 0.05 * c + (0.01 if t == "paper" else 0.0), ("plain", "paper")
    )
    first, second = frames_of(log_of(tmp_path, rows))["quality"].to_dicts()
    assert first["high"] - first["low"] > 0.1
    assert [second[f"change_{end}"] for end in ("estimate", "low", "high")] == pytest.approx(
        [0.01] * 3
    )


def test_p_values_are_corrected_over_all_arms(tmp_path: Path) -> None:
    """Eight clusters, of which all 256 ways to swap are tried; Holm over all arms of a metric."""
    levels = {"plain": 0.4, "paper": 0.44, "tempscale": 0.46, "plain/chunk-max": 0.43}
    rows = rows_of(
        lambda t, m, p, c: levels[t] + noise(0.2)(t, m, p, c),
        ("plain", "paper", "tempscale"),
        metrics=METRICS,
        clusters=8,
        indexes=[("plain", "chunk-max")],
    )
    quality = frames_of(log_of(tmp_path, rows))["quality"]
    for metric in METRICS:
        _, *own = quality.filter(metric=metric).to_dicts()
        alone = []
        for one in own:
            before, after = (
                rows.filter(treatment=name, part=index, measure=metric).sort("set", "position")
                for name, index in (("plain", "whole"), (one["treatment"], one["index"]))
            )
            columns = (before["value"], after["value"], before["position"], before["set"])
            change = query_change(*(column.to_numpy() for column in columns), rng=default_rng(0))
            alone.append((change.p_value, change.p_psi))
        for name, found in zip(("p_value", "p_psi"), np.transpose(alone), strict=True):
            assert [one[name] for one in own] == pytest.approx(holm(found).tolist())


def test_the_same_log_gives_the_same_numbers(tmp_path: Path) -> None:
    """Whatever the order of its rows; another seed draws other samples."""
    rows = rows_of(usual)
    first, second, third = (
        frames_of(log_of(tmp_path / name, rows, shuffled=shuffled, seed=seed))
        for name, shuffled, seed in (("a", True, 0), ("b", False, 0), ("c", True, 1))
    )
    for name, frame in first.items():
        assert_frame_equal(frame, second[name], check_exact=True)
    for name, same in (("estimate", True), ("low", False)):
        assert (first["quality"][name][0] == third["quality"][name][0]) == same


def test_queries_without_evidence(tmp_path: Path) -> None:
    """They count overall, and in no group; fifths that nobody asks for leave the others their
    names.
    """
    rows = rows_of(usual, ("plain",), positions=(1, None, 3))
    frames = frames_of(log_of(tmp_path / "some", rows, positions="fifths"))
    assert frames["quality"]["estimate"][0] == pytest.approx(rows["value"].mean())
    assert frames["positions"]["position"].to_list() == ["1", "3"]
    assert frames["positions"]["estimate"].to_list() == pytest.approx(
        by_position(rows.drop_nulls("position"))
    )
    nowhere = rows_of(usual, ("plain", "paper"), positions=(None,), plans=[("", "")])
    log = log_of(tmp_path / "none", nowhere, positions=None)
    assert "positions" not in frames_of(log)
    assert frames_of(log)["quality"]["psi_estimate"].is_nan().all()
    assert [one.name for one in log.view.charts()] == ["search-overall"]
    assert "nan" not in printed(log.view)


# Verdicts.

Shift = Mapping[str, Sequence[float]]


def judged(
    folder: Path, shift: Shift, *, scale: float = 0.01, clusters: int = 24, **spec: Any
) -> dict[str, Any]:
    """The verdict on paper where its values are those of plain plus these, at each of four
    positions, and noise.
    """
    base = [0.7, 0.5, 0.4, 0.3]

    def value(treatment: str, metric: str, position: int, cluster: int) -> float:
        own = base[position - 1] + 0.2 * (cluster % 3) / 2 - 0.1
        if treatment not in shift:
            return own
        return own + shift[treatment][position - 1] + noise(scale)(treatment, position, cluster)

    log = log_of(folder, rows_of(value, ("plain", *shift), clusters=clusters), spec=spec)
    found = {one["treatment"]: one for one in frames_of(log)["verdicts"].to_dicts()}
    assert list(found) == [name for name in shift if not name.endswith(ONLY)]
    return found["paper"]


GAIN, LOSS, EVEN, SAME = [0.1] * 4, [-0.1] * 4, [-0.12, 0.0, 0.05, 0.07], [0.0] * 4
BETTER = [0.15] * 4
PAPER_ONLY = f"paper{ONLY}"


@pytest.mark.parametrize(
    ("shift", "verdict", "only"),
    [
        ({"paper": GAIN}, "better", False),
        ({"paper": EVEN}, "better", False),
        ({"paper": LOSS}, "worse", False),
        ({"paper": SAME}, "not worse", False),
        ({"paper": BETTER, PAPER_ONLY: GAIN}, "better", False),
        ({"paper": GAIN, PAPER_ONLY: BETTER}, "better", True),
        ({"paper": LOSS, PAPER_ONLY: GAIN}, "better", True),
        ({"paper": SAME, PAPER_ONLY: EVEN}, "better", True),
        ({"paper": LOSS, PAPER_ONLY: [0.0, 0.0, 0.0, -0.005]}, "not worse", True),
        ({"paper": SAME, PAPER_ONLY: LOSS}, "not worse", False),
        # All positions as bad as the worst: PSI falls to 0, and so does what is found.
        ({"paper": [-0.4, -0.2, -0.1, 0.0]}, "worse", False),
        # Levelling down within the margin: the first position loses 0.03, the weakest gains nearly
        # nothing.
        ({"paper": [-0.03, 0.0, 0.0, 0.0001]}, "slightly worse", False),
    ],
)
def test_verdicts_that_are_clear(tmp_path: Path, shift: Shift, verdict: str, only: bool) -> None:
    """Better if it gains, or is as good and fairer; that of documents only where that is better."""
    scale = 0.0 if 0.0001 in shift["paper"] else 0.01
    found = judged(tmp_path, shift, scale=scale)
    assert found["verdict"] == verdict, found["sentence"]
    assert found["sentence"].startswith("documents only: ") == only


def test_verdicts_that_are_not_clear(tmp_path: Path) -> None:
    """Much noise; a fairer search that may lose; so few clusters that a gain could be chance."""
    assert judged(tmp_path / "noisy", {"paper": [0.02] * 4}, scale=0.3)["verdict"] == "inconclusive"
    assert (
        judged(tmp_path / "fair", {"paper": [-0.25, 0.0, 0.1, 0.15]}, scale=0.15)["verdict"]
        == "inconclusive"
    )
    assert judged(tmp_path / "few", {"paper": GAIN}, clusters=4)["verdict"] == "not worse", (
        "all four gain: p = 1/8"
    )
    # Six clusters that all gain: p = 2/64 alone, and three times that beside two others.
    assert judged(tmp_path / "one", {"paper": GAIN}, clusters=6)["verdict"] == "better"
    three = {"paper": GAIN, "tempscale": GAIN, "64-last": GAIN}
    assert judged(tmp_path / "three", three, clusters=6)["verdict"] == "not worse"


def test_the_margin_decides(tmp_path: Path) -> None:
    """Fairer at a loss of 0.02 on average: too much with a margin of 0.01, and not with one of
    0.05.
    """
    shift = {"paper": [-0.2, 0.0, 0.05, 0.07]}
    assert judged(tmp_path / "strict", shift)["verdict"] == "worse"
    assert judged(tmp_path / "mild", shift, margin=0.05)["verdict"] == "better"
    # Worse by 0.01 give or take 0.006: all of that is below 0 and some of it beyond the margin.
    found = judged(tmp_path / "sure", {"paper": [-0.14, 0.0, 0.05, 0.05]}, scale=0.05)
    low, high = (
        float(end.replace("−", "-"))
        for end in re.findall(r"\[(.*?), (.*?)\]", found["sentence"])[0]
    )
    assert low < -0.01 < high < 0, "the premise"
    assert found["verdict"] == "inconclusive"
    assert ", a loss, which may or may not exceed the margin of 0.01)" in found["sentence"]


def test_the_sentence_has_the_numbers(tmp_path: Path) -> None:
    found = judged(tmp_path, {"paper": [-0.1, 0.0, 0.05, 0.07]}, scale=0.0)
    assert (found["verdict"], found["clusters"], found["more_clusters"]) == ("better", 24, 6)
    assert found["sentence"] == (
        "ndcg@10 0.475 → 0.480 (+0.005 [+0.005, +0.005]), weakest position 0.300 → 0.370, PSI "
        "0.57 → 0.38; only 24 clusters of queries: about 6 more would confirm it"
    )


def test_how_many_clusters_would_decide(tmp_path: Path) -> None:
    """A gain of 0.02 is 0.03 from a loss of the margin: ((1.96 + 0.84) · 0.1 / 0.03)² = 87, less
    the 40.
    """

    def value(treatment: str, metric: str, position: int, cluster: int) -> float:
        # √(39/40): the deviation of a sample divides by one less than its size.
        gap = 0.02 + 0.1 * (39 / 40) ** 0.5 * (1 - 2 * (cluster % 2))
        return 0.4 + (gap if treatment == "paper" else 0.0)

    (found,) = frames_of(log_of(tmp_path, rows_of(value, ("plain", "paper"), clusters=40)))[
        "verdicts"
    ].to_dicts()
    assert (found["verdict"], found["more_clusters"]) == ("inconclusive", 50)
    assert found["sentence"].endswith("; about 50 more clusters of queries would decide")


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ((0, 0), ""),
        ((9, 9), "; 9 of 48 documents were cut at 512 tokens under both"),
        ((9, 0), "; plain: 9 of 48 documents were cut at 512 tokens; paper: no document was cut"),
    ],
)
def test_verdicts_name_the_documents_that_were_cut(
    tmp_path: Path, cut: tuple[int, int], words: str
) -> None:
    """The window belongs to the treatment, so that a gain may be that of a longer one."""
    windows = [
        {
            "treatment": name,
            "texts": texts,
            "window": 512,
            "count": 48,
            "cut": own if texts == "documents" else 7,
        }
        for name, own in zip(("plain", "paper"), cut, strict=True)
        for texts in ("documents", "queries")
    ]
    log = log_of(tmp_path, rows_of(usual, ("plain", "paper"), clusters=30), windows=windows)
    (sentence,) = log.verdicts["sentence"]
    assert sentence.endswith(words)
    assert words or "cut" not in sentence


def test_the_first_metric_of_whole_documents_decides(tmp_path: Path) -> None:
    """One metric gains and the other loses; chunks are compared, but not judged."""
    named = f"tempscale{ONLY}"

    def value(treatment: str, measured: str, position: int, cluster: int) -> float:
        gain = 0.1 if measured == "mrr" else -0.1
        return (
            0.5
            + (gain if treatment != "plain" else 0.0)
            + noise(0.01)(treatment, position, cluster)
        )

    for metrics, verdict in ((("mrr", "ndcg@10"), "better"), (("ndcg@10", "mrr"), "worse")):
        rows = rows_of(
            value,
            ("plain", "paper", PAPER_ONLY, named),
            metrics=metrics,
            indexes=[("plain", "chunk-max")],
        )
        log = log_of(tmp_path / verdict, rows)
        assert log.verdicts.select("treatment", "verdict").rows() == [
            ("paper", verdict),
            (named, verdict),
        ]
        only = [f"{name}, documents only" for name in ("paper", "tempscale")]
        assert log.view.switch == ("plain", "paper", *only, "plain, chunk-max")


# What is shown.


def test_cards_and_tables_are_the_frames(wide: RunLog, view: View) -> None:
    assert list(view.frames) == ["verdicts", "quality", "positions", "by_length", "costs"]
    quality = view.frame("quality").filter(plan="", metric="ndcg@10").to_dicts()
    assert view.cards[0].sentences == (f"ndcg@10 {with_bounds(interval(quality[0]))}",)
    verdicts = view.frame("verdicts").select("treatment", "verdict", "sentence").rows()
    assert [(card.name, card.badge, *card.sentences) for card in view.cards[1:]] == verdicts
    reciprocal = view.frame("quality").filter(plan="", metric="mrr")["estimate"]
    for row, name, one, other in zip(
        texts(table_of(view, "quality")), view.switch, quality, reciprocal, strict=True
    ):
        change = with_bounds(interval(one, "change_"), "+.3f")
        assert row[:3] == [name, number(one["estimate"]), change]
        assert row[4:] == [
            number(one["psi_estimate"], ".2f"),
            number(one["harmonic_estimate"]),
            number(other),
        ]
    own = view.frame("positions").filter(metric="ndcg@10").to_dicts()
    for row, one in zip(texts(table_of(view, "positions")), own, strict=True):
        assert (row[0], *row[2:5]) == (
            one["plan"],
            one["position"],
            str(one["queries"]),
            with_bounds(interval(one)),
        )
    costs = {row[0]: row[1:] for row in texts(table_of(view, "index-costs"))}
    assert costs["plain, chunk-max"] == [
        f"{173 / 40:.1f}",
        "0.1",
        "20,000",
        "2",
        number(quality[3]["estimate"]),
    ]
    assert (
        texts(table_of(view, "by-length"))[0][0]
        == "mean rank of the longest documents (72 of 460–540 tokens)"
    )
    assert view.sections[-1].closed, "lengths only on demand"


def test_a_reference_changes_no_verdict(tmp_path: Path) -> None:
    """It has a row, a card without a verdict and its price, and takes part in no correction."""
    rows = rows_of(usual, ("plain", "paper"), indexes=[("plain", "parts-all")])
    log = log_of(tmp_path / "with", rows)
    alone = log_of(tmp_path / "without", rows.filter(part="whole")).view.frame("quality")
    quality = log.view.frame("quality")
    assert_frame_equal(quality.filter(index="whole"), alone)
    assert quality["p_value"].is_nan().to_list() == [True, False, True]
    assert "vectors" not in log.view.frames
    card = log.view.cards[-1]
    assert (card.name, card.badge) == ("one vector per chunk", "reference")
    assert card.sentences[0].endswith(f"with {173 / 40:.1f} vectors per document")


def evidence_cut(cut: int, count: int) -> list[dict[str, Any]]:
    """Plain reads 50 tokens, and so much evidence is beyond them; paper reads all."""
    read = [("plain", 50, cut), ("paper", None, 0)]
    entry = {"texts": "evidence", "count": count}
    return [{**entry, "treatment": n, "window": w, "cut": c} for n, w, c in read]


def test_found_by_depth(tmp_path: Path) -> None:
    """40 queries before the window's end, 25 soon after it, 15 after these and 5 far beyond,
    counted with the 15.
    """
    depths = [*range(40), *range(50, 90), *range(1000, 1005)]
    places = {"clusters": 17, "positions": range(1, 6), "plans": [("", "")]}
    rows = rows_of(usual, ("plain", "paper"), metrics=("mrr", "recall@1"), **places)
    numbers = (pl.col("set") * 5 + pl.col("position") - 1).cast(pl.Int64)
    rows = rows.with_columns(depth=pl.lit(pl.Series(depths)).gather(numbers).cast(pl.Int32))
    windows = evidence_cut(45, 85)
    log = log_of(tmp_path, rows, windows=windows)
    found = frames_of(log)["depths"]
    steps = [(0, 50, 40), (50, 75, 25), (75, None, 20)]
    told = found.select("treatment", "tokens_from", "tokens_to", "queries").rows()
    assert told == [(name, *step) for name in ("plain", "paper") for step in steps]
    assert found["metric"].unique().to_list() == ["recall@1"], "the only recall"
    for one in found.iter_rows(named=True):
        own = rows.filter(measure="recall@1", treatment=one["treatment"]).filter(
            pl.col("depth") >= one["tokens_from"], pl.col("depth") < (one["tokens_to"] or 9999)
        )
        assert one["estimate"] == pytest.approx(own["value"].mean(), abs=1e-12)
    shown = view_of(log)
    (panel,) = shown.chart().panels
    assert shown.picture == "found-by-depth"
    assert (panel.labels, panel.edge) == (("< 50", "< 75", "≥ 75"), (0.25, "plain reads to here"))
    assert panel.reference == 3 / 40, "one of the 40 documents in three indexes"
    assert "< 50" in printed(shown)
    figure: Any = draw(shown.chart())
    (axes,) = figure.axes
    (edge,) = [text for text in axes.texts if text.get_text() == "plain reads to here"]
    assert edge.get_window_extent().y0 >= axes.get_window_extent().y1, "above all data"
    assert figure._repr_png_().startswith(b"\x89PNG"), "a notebook shows it also without pyplot"
    nothing = [{**one, "cut": 0} for one in windows]
    assert "depths" not in frames_of(log_of(tmp_path / "read", log.rows, windows=nothing)), (
        "all read so far"
    )


@pytest.mark.parametrize(
    ("easier", "documents", "recalls", "words"),
    [
        (0, 90, "1 3 10", "found among the first 3: 30 of 100 passages with plain, 40 with paper"),
        (6, 90, "1 3 10", "found first: 70 of 100 passages with plain, 80 with paper"),
        (-5, 90, "1 3 10", "found among the first 10: 50 of 100 passages with plain, 60 with"),
        (-5, 20, "1 3 10", "found first: 0 of 100 passages"),
        (6, 90, "5", "found among the first 5: 100 of 100 passages with plain, 100 with paper"),
    ],
)
def test_the_cut_off_suits_the_plain_model(
    tmp_path: Path, easier: int, documents: int, recalls: str, words: str
) -> None:
    """Plain ranks evenly from 1 to 10, if no easier, and paper one rank better: .1, .3 and 1 are
    among the first 1, 3 and 10, of 20 documents half by chance."""

    def is_hit(treatment: str, metric: str, position: int, cluster: int) -> float:
        rank = cluster % 10 + 1 - easier - (treatment == "paper")
        return float(max(1, rank) <= int(metric.removeprefix("recall@")))

    metrics = [f"recall@{cut}" for cut in recalls.split()]
    places = {"clusters": 20, "positions": range(1, 6), "plans": [("", "")]}
    rows = rows_of(is_hit, ("plain", "paper"), metrics=metrics, **places)
    rows = rows.with_columns(depth=(30 * pl.col("position")).cast(pl.Int32))
    task = {"source": "passages", "names": ["t"], "queries": 100, "indexes": 1}
    task["documents"] = documents
    view = log_of(tmp_path, rows, windows=evidence_cut(80, 100), task=task).view
    chart = chart_of(view, "found-by-depth")
    assert chart.below.startswith(words)
    assert chart.y_label == words.partition(":")[0]
    assert ("of the cut-offs" in chart.below) == (len(metrics) > 1)
    assert words in " ".join(printed(view).split())


def test_what_is_read_is_a_step_of_its_own() -> None:
    """Steps have 20 tokens, but for the first two; without enough queries the window of 10 lies in
    the first.
    """
    depths = np.repeat(np.arange(0, 240, 2), 10)
    assert depth_steps(depths, 10)[:4] == [0, 10, 20, 40]
    assert depth_steps(depths[::4], 10)[:2] == [0, 20]


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
    assert merged(counts) == numbers


def test_what_was_stored_has_no_time(tmp_path: Path) -> None:
    found = log_of(tmp_path, rows_of(usual, ("plain",), indexes=[("plain", "chunk-max")]))
    costs = [
        {**cost, "seconds": None if cost["index"] == "whole" else 3.0}
        for cost in found.header.to_json()["costs"]
    ]
    log = with_entries(found, costs=costs)
    assert [row[4] for row in texts(table_of(view_of(log), "index-costs"))] == ["stored", "3"]


def test_bars_are_the_means(view: View) -> None:
    """One panel for each plan and one for all, one series for each arm of whole documents."""
    frame = view.frame("positions").filter(metric="ndcg@10")
    assert view.picture == "search-by-position"
    panels = chart_of(view, "search-by-position").panels
    assert {panel.title for panel in panels} == {"all plans", "en", "de", "de:en"}
    for panel in panels:
        plan = panel.title.removeprefix("all plans")
        assert tuple(series.name for series in panel.series) == view.switch[:3]
        last = panel.series[-1].points[3]
        one = frame.filter(plan=plan, treatment=PAPER_ONLY, position="4").row(0, named=True)
        assert last is not None
        assert (last.estimate, last.low, last.high) == (one["estimate"], one["low"], one["high"])
        assert f"against plain: {with_bounds(interval(one, 'change_'), '+.3f')}" in last.told
    (panel,) = chart_of(view, "search-overall").panels
    assert panel.labels == METRICS
    assert all(view.switch[series.number] == series.name for series in panel.series)


def test_crowded_charts_show_whole_documents_first(tmp_path: Path) -> None:
    names = ("plain", "paper", PAPER_ONLY, "tempscale", f"tempscale{ONLY}")
    level = {"plain/chunk-mean": 0.1, "plain/chunk-max": 0.7, "plain/late-max": 0.6}
    rows = rows_of(
        lambda t, m, p, c: level.get(t, 0.5) + noise(0.01)(t, p, c),
        names,
        indexes=[("plain", name.removeprefix("plain/")) for name in level],
    )
    (panel,) = chart_of(view_of(log_of(tmp_path, rows)), "search-overall").panels
    drawn = [series.name for series in panel.series]
    assert (len(drawn), drawn[:2], drawn[4]) == (7, ["plain", "paper"], "tempscale, documents only")


def test_figures_tables_and_page(view: View) -> None:
    """Every chart can be drawn and every table written, and the page has a figure per panel."""
    pytest.importorskip("matplotlib")
    panels = 0
    for one in view.charts():
        assert isinstance(one, Chart)
        assert len(draw(one).axes) >= len(one.panels)
        panels += len(one.panels)
    for one_table in view.tables():
        assert to_markdown(one_table).count("\n| ") >= 2 + len(one_table.rows)
    page = make_page(view.title, [Part("m: search", view, settings=(("seed", "0"),))])
    assert page.count('<figure class="panel"') == panels


def test_frames_are_json(tmp_path: Path) -> None:
    """Also where one treatment finds nothing at all, or a position has one cluster."""
    name = "paper+layers=[1,3]"
    rows = rows_of(lambda t, m, p, c: 0.3 * (t == name) * (p < 3), ("plain", name))
    rows = rows.filter((pl.col("position") < 4) | (pl.col("set") == 0))
    shown = view_of(log_of(tmp_path, rows, positions="fifths"))
    for frame in shown.frames.values():
        json.dumps(to_records(frame), allow_nan=False)
        assert "NaN" not in to_csv(frame)
    assert to_records(shown.frame("quality"))[0]["psi_estimate"] is None, "no share of nothing"
    text = printed(shown, 120)
    assert "nan" not in text
    assert name in text


# Comparisons.


def test_two_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    first = log_of(tmp_path / "one", rows_of(usual, ("plain", "paper"), metrics=METRICS))
    higher = rows_of(usual, ("plain", "paper"), metrics=METRICS).with_columns(
        value=pl.col("value") + 0.25
    )
    # The second run has fewer queries, of which one is its own.
    fewer = higher.filter(pl.col("set") < 10).with_columns(
        query=pl.when(pl.col("query") == "q9-4").then(pl.lit("new")).otherwise(pl.col("query"))
    )
    second = log_of(tmp_path / "two", fewer, run="m-87654321")
    found = compare_searches(Arm(first, "plain"), Arm(second, "plain"))
    assert sorted((one.metric, one.index) for one in found) == [
        ("mrr", "whole"),
        ("ndcg@10", "whole"),
    ]
    for one in found:
        assert one.change.counts.queries == 39
        assert one.change.overall.estimate == pytest.approx(0.25)
        assert [change.estimate for change in one.change.groups] == pytest.approx([0.25] * 4)
    changes, positions = compare(first, second, ["plain", "plain"])
    for row, record, one in zip(texts(changes), changes.frame.to_dicts(), found, strict=True):
        assert row[:3] == ["plain → plain", one.metric, "39"]
        assert row[3] == with_bounds(one.change.overall, "+.3f")
        assert (record["first_run"], record["second_run"]) == ("m-12345678", "m-87654321")
        assert record["worst_change_low"] == one.change.worst.low
    lows = [change.low for one in found for change in one.change.groups]
    assert positions.frame["change_low"].to_list() == lows


def test_what_is_compared_with_what(tmp_path: Path) -> None:
    """Inside a run all treatments that were measured with the first one, between two runs each with
    itself.
    """
    one = log_of(
        tmp_path / "one", rows_of(usual, ("plain", "paper")), spec={"documents_only": True}
    )
    two = log_of(tmp_path / "two", rows_of(usual, ("plain", "paper", "retrieval")))
    assert PAPER_ONLY in one.treatments, "the premise: it is named, and was not measured"
    for given, pairs in (
        ((one,), ["plain → paper"]),
        ((one, two), ["plain → plain", "paper → paper"]),
        ((one, two, ["plain", "retrieval"]), ["plain → retrieval"]),
    ):
        assert list(dict.fromkeys(row.heads[0] for row in compare(*given)[0].rows)) == pairs


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    """No query in common, another page of the same name or at another position."""
    rows = rows_of(usual, ("plain", "paper"))
    first = log_of(tmp_path / "one", rows)
    other = log_of(
        tmp_path / "two", rows.with_columns(query=pl.lit("x") + pl.col("query")), run="m-87654321"
    )
    turned = log_of(
        tmp_path / "three", rows.with_columns(position=(pl.col("position") % 4 + 1).cast(pl.Int16))
    )
    for second in (other, turned):
        with pytest.raises(FairspanError, match="have no query in common"):
            compare(first, second)
    for name in ("t", "larger"):
        task = {**first.header.to_json()["task"], "names": [name], "fingerprints": ["g"]}
        larger = with_entries(first, task={**task, "documents": 340})
        for read in (compare, changes):
            with pytest.raises(FairspanError, match=r"read different texts.*40 doc.*340 doc"):
                read(first, larger)


# Temperatures by side.


def test_a_grid_of_temperatures_is_a_pivot_table_and_a_heat_map(tmp_path: Path) -> None:
    """Values by hand: each cell is its score, with the difference from plain; twins are not added,
    and only the best pair has a card."""
    options = EvaluateOptions(temperature_grid=[1, 0.8, 0.5], documents_only=True)
    names = [treatment.name for treatment in options.all_treatments]
    assert names[:3] == ["plain", "q 1, d 0.8", "q 1, d 0.5"]
    assert len(names) == 9, "every pair once, and nothing on documents only"
    levels = {name: 0.4 + 0.01 * number for number, name in enumerate(names)}
    rows = rows_of(lambda name, *_: levels[name], names)
    log = log_of(tmp_path / "run", rows)
    view = log.view
    section = view.sections[0]
    assert texts(section.tables[0]) == [
        ["q 0.5", "0.480 (+0.080)", "0.470 (+0.070)", "0.460 (+0.060)"],
        ["q 0.8", "0.450 (+0.050)", "0.440 (+0.040)", "0.430 (+0.030)"],
        ["q 1", "0.420 (+0.020)", "0.410 (+0.010)", "0.400"],
    ]
    (heat,) = section.heats
    assert heat.columns == ("d 0.5", "d 0.8", "d 1")
    name, cells = heat.rows[1]
    assert (name, [cell and round(cell.values[0], 9) for cell in cells]) == (
        "q 0.8",
        [0.05, 0.04, 0.03],
    )
    assert view.picture == "temperatures"
    assert [card.name for card in view.cards] == ["plain", "q 0.5, d 0.5"]
    assert len(view.frames["verdicts"]) == 8
    assert "Temperatures of queries and documents" in make_page("t", [Part("", view)])
    assert draw(heat).axes
    assert "q 0.8" in printed(view)


@pytest.mark.parametrize(
    ("treatments", "pairs"),
    [
        (("plain", "tempscale", "tempscale+sides=document"), 0),
        (("plain", "tempscale", "tempscale+sides=document", "tempscale+sides=query"), 4),
        (("plain", "tempscale", "q 0.8, d 0.8", "q 1, d 0.8", "q 0.8, d 1"), 4),
        (("plain", "tiles-64", "tiles-64+sides=document", "tiles-64+sides=query"), 0),
    ],
)
def test_what_is_a_grid(tmp_path: Path, treatments: tuple[str, ...], pairs: int) -> None:
    """Treatments that differ in temperatures only, each pair of them once."""
    spec = {"treatments": treatments, "documents_only": False}
    log = log_of(tmp_path / "run", rows_of(lambda *_: 0.5, treatments), spec=spec)
    assert len(frames_of(log).get("temperatures", ())) == pairs
