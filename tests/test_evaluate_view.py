"""The view of an evaluation: simulated rows in; means, changes, advice, frames, tables, charts and text out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from rich.console import Console

from fairspan.errors import LogError, StatisticsError
from fairspan.report.chart import Chart
from fairspan.report.figure import draw
from fairspan.report.frames import to_csv, to_records
from fairspan.report.latex import to_latex
from fairspan.report.markdown import to_markdown
from fairspan.report.page import Part, make_page
from fairspan.report.table import Table
from fairspan.report.terminal import print_view
from fairspan.report.text import number, p_value, with_bounds
from fairspan.report.view import View
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.studies.evaluate.comparison import compare, compare_searches
from fairspan.studies.evaluate.findings import advice_of
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary, by_length, summarize_search
from fairspan.studies.evaluate.view import view_of
from tests.searches import METRICS, ONLY, PLANS, Value, log_of, noise, rows_of, usual


def summary_of(
    folder: Path, value: Value, *, log: Mapping[str, Any] | None = None, **options: Any
) -> RetrievalSummary:
    return summarize_search(log_of(folder, rows_of(value, **options), **(log or {})))


def printed(view: View, width: int = 80) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_view(console, view)
    return console.export_text()


def table(view: View, name: str) -> Table:
    (found,) = [one for one in view.tables() if one.name == name]
    return found


def chart(view: View, name: str) -> Chart:
    found = view.chart(name)
    assert isinstance(found, Chart)
    return found


def texts(one: Table) -> list[list[str]]:
    return [[*row.heads, *(cell.text for cell in row.cells)] for row in one.rows]


def ends(found: Interval | None) -> list[float | None]:
    """An interval as JSON has it."""
    values = [np.nan] * 3 if found is None else [found.estimate, found.low, found.high]
    return [None if np.isnan(value) else value for value in values]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> RetrievalSummary:
    """Two metrics, three plans, two editions, a second index."""
    return summary_of(
        tmp_path_factory.mktemp("wide") / "run",
        usual,
        metrics=METRICS,
        plans=PLANS,
        editions=2,
        indexes=[("none", "chunk-max")],
    )


# Numbers.


def test_every_mean_is_that_of_the_rows(wide: RetrievalSummary) -> None:
    """Overall and by position, for every arm, metric and plan, and for all plans together."""
    named = pl.when(pl.col("lead") == pl.col("later")).then("lead").otherwise(pl.format("{}:{}", "lead", "later"))
    rows = wide.log.rows.with_columns(plan=named)
    assert wide.plans == ["", "en", "de", "de:en"] or sorted(wide.plans) == sorted(["", "en", "de", "de:en"])
    assert len(wide.results) == 4 * 2 * 4
    for result in wide.results:
        own = rows.filter(
            (pl.col("treatment") == result.arm.treatment)
            & (pl.col("part") == result.arm.index)
            & (pl.col("measure") == result.metric)
            & ((pl.col("plan") == result.plan) | (pl.lit(result.plan) == ""))
        )
        assert len(own) == 12 * 4 * 2 * (1 if result.plan else 3)
        assert result.effects.overall.estimate == pytest.approx(own["value"].mean(), abs=1e-12)
        means = dict(own.group_by("position").agg(pl.col("value").mean()).rows())
        assert result.groups == ("1", "2", "3", "4")
        found = [mean.estimate for mean in result.effects.groups]
        assert found == pytest.approx([means[position] for position in (1, 2, 3, 4)], abs=1e-12)
        assert result.effects.psi.estimate == pytest.approx(1 - min(found) / max(found), abs=1e-12)
        assert result.effects.harmonic.estimate == pytest.approx(4 / sum(1 / mean for mean in found), abs=1e-12)
        assert (result.effects.counts.queries, result.effects.counts.clusters) == (len(own), 12)


def test_every_change_is_paired(wide: RetrievalSummary) -> None:
    """Query by query, joined by hand: the rows were shuffled."""
    keys = ["lead", "later", "order", "query"]
    rows = wide.log.rows
    assert wide.baseline == Arm("none", "whole")
    changed = [result for result in wide.results if result.change is not None]
    assert len(changed) == 3 * 2 * 4
    for result in changed:
        change = result.change
        assert change is not None
        plan = (
            pl.lit(True)
            if not result.plan
            else (pl.col("lead") == result.plan.split(":")[0]) & (pl.col("later") == result.plan.split(":")[-1])
        )
        own = rows.filter((pl.col("measure") == result.metric) & plan)
        before = own.filter((pl.col("treatment") == "none") & (pl.col("part") == "whole"))
        chosen = (pl.col("treatment") == result.arm.treatment) & (pl.col("part") == result.arm.index)
        joined = before.join(own.filter(chosen), on=keys, suffix="_after")
        assert len(joined) == len(before)
        difference = joined["value_after"] - joined["value"]
        assert change.overall.estimate == pytest.approx(difference.mean(), abs=1e-12)
        means = joined.group_by("position").agg(before=pl.col("value").mean(), after=pl.col("value_after").mean())
        ordered = means.sort("position")
        assert [one.estimate for one in change.groups] == pytest.approx(
            (ordered["after"] - ordered["before"]).to_list(), abs=1e-12
        )
        psi = [1 - ordered[side].min() / ordered[side].max() for side in ("before", "after")]
        assert change.psi.estimate == pytest.approx(psi[1] - psi[0], abs=1e-12)
        worst = ordered["after"].min() - ordered["before"].min()
        assert change.worst.estimate == pytest.approx(worst, abs=1e-12)


def test_pairs_are_known_better_than_means(tmp_path: Path) -> None:
    """Clusters differ much, and every query gains 0.01: the interval of the change has no width."""
    summary = summary_of(
        tmp_path, lambda t, m, p, c: 0.05 * c + (0.01 if t == "paper" else 0.0), treatments=("none", "paper")
    )
    first, second = summary.results
    assert first.effects.overall.high - first.effects.overall.low > 0.1
    assert second.change is not None
    assert second.change.overall.high - second.change.overall.low < 1e-9
    assert second.change.overall.estimate == pytest.approx(0.01)


def test_p_values_by_hand(tmp_path: Path) -> None:
    """Eight clusters: all 256 ways to swap the two treatments' values in whole clusters."""
    summary = summary_of(tmp_path, usual, treatments=("none", "paper", "retrieval"), clusters=8)
    rows = summary.log.rows
    for result in summary.results[1:]:
        sums = [
            rows.filter(pl.col("treatment") == name).group_by("set").agg(pl.col("value").sum()).sort("set")["value"]
            for name in ("none", result.arm.treatment)
        ]
        differences = (sums[1] - sums[0]).to_numpy()
        swapped = [abs(float(np.dot(signs, differences))) for signs in product((1, -1), repeat=8)]
        seen = abs(float(differences.sum()))
        by_hand = np.mean([value >= seen * (1 - 1e-9) for value in swapped])
        assert result.change is not None
        assert result.change.p_value == pytest.approx(by_hand, abs=1e-12)


def by_holm(p_values: Sequence[float]) -> list[float]:
    """The smallest times their number, the next times one less …, never below the one before."""
    adjusted, before = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda n: p_values[n])):
        before = max(before, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = before
    return adjusted


def test_p_values_are_corrected_for_all_arms_of_a_metric(tmp_path: Path) -> None:
    levels = {"none": 0.4, "paper": 0.44, "retrieval": 0.46, "64-last": 0.405, "none/chunk-max": 0.43}
    summary = summary_of(
        tmp_path,
        lambda t, m, p, c: levels[t] + noise(0.2)(t, m, p, c),
        treatments=("none", "paper", "retrieval", "64-last"),
        metrics=METRICS,
        clusters=10,
        indexes=[("none", "chunk-max")],
    )
    for metric in METRICS:
        own = [result for result in summary.results if result.metric == metric and result.change is not None]
        alone = [result.change for result in own if result.change is not None]
        assert len(own) == 4
        assert [one.p_value for one in own] == pytest.approx(by_holm([one.p_value for one in alone]))
        assert [one.p_psi for one in own] == pytest.approx(by_holm([one.p_psi for one in alone]))
        corrected = [one.p_value for one, two in zip(own, alone, strict=True) if one.p_value != two.p_value]
        assert any(0.01 < p < 1 for p in corrected), "the premise"


def test_the_same_log_gives_the_same_numbers(tmp_path: Path) -> None:
    """Whatever the order of its rows; another seed draws other samples."""
    rows = rows_of(usual)
    first, second, third = (
        view_of(log_of(tmp_path / name, rows, shuffled=shuffled, seed=seed)).frames
        for name, shuffled, seed in (("a", True, 0), ("b", False, 0), ("c", True, 1))
    )
    assert list(first) == list(second)
    for name, frame in first.items():
        assert_frame_equal(frame, second[name], check_exact=True)
    for name, same in (("estimate", True), ("low", False)):
        assert (first["quality"][name][0] == third["quality"][name][0]) == same


# Positions.


def test_ranges_of_128_tokens(tmp_path: Path) -> None:
    """Up to 127 tokens are the first range, 128 begin the second; the last is open."""
    before = [0, 127, 128, 300, 895, 896, 5000]
    rows = rows_of(
        usual, ("none", "paper"), positions=range(1, 8), offset=lambda position, cluster: before[position - 1]
    )
    summary = summarize_search(log_of(tmp_path, rows.with_columns(position=pl.lit(1, pl.Int16)), positions="fifths"))
    expected = {"0–127": [0, 127], "128–255": [128], "256–383": [300], "768–895": [895], "896…": [896, 5000]}
    assert [one.arm for one in summary.tokens_before] == summary.arms
    for found in summary.tokens_before:
        assert found.metric == "ndcg@10"
        assert found.groups == tuple(expected)
        own = rows.filter(pl.col("treatment") == found.arm.treatment)
        means = [own.filter(pl.col("offset").is_in(there))["value"].mean() for there in expected.values()]
        assert [mean.estimate for mean in found.effects.groups] == pytest.approx(means)
        assert found.effects.counts.group_queries == tuple(12 * len(there) for there in expected.values())


def test_ranges_of_queries_without_evidence(tmp_path: Path) -> None:
    """Some queries know where their evidence lies and some do not: these count overall, and in no group."""
    rows = rows_of(usual, ("none",), positions=(1, None, 3))
    summary = summarize_search(log_of(tmp_path / "some", rows, positions="fifths"))
    (result,), (found,) = summary.results, summary.tokens_before
    assert result.groups == ("1", "3")
    assert found.groups == ("0–127", "128–255")
    for one in (result, found):
        assert one.effects.overall.estimate == pytest.approx(rows["value"].mean())
        means = [rows.filter(pl.col("position") == position)["value"].mean() for position in (1, 3)]
        assert [mean.estimate for mean in one.effects.groups] == pytest.approx(means)
    nowhere = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    summary = summarize_search(log_of(tmp_path / "none", nowhere, positions=None))
    assert summary.tokens_before == ()
    assert all(result.groups == () for result in summary.results)
    assert np.isnan(summary.results[0].effects.psi.estimate)


@pytest.mark.parametrize("there", [(1, 2, 5), (2, 3), (4,), (5, 1)])
def test_fifths_that_nobody_asks_for(tmp_path: Path, there: tuple[int, ...]) -> None:
    """They keep their names, and the others theirs."""
    rows = rows_of(lambda t, m, p, c: 0.1 * p + 0.01 * (c % 3), ("none", "paper"), positions=there)
    summary = summarize_search(log_of(tmp_path, rows, positions="fifths"))
    for result in summary.results:
        assert result.groups == tuple(str(position) for position in sorted(there))
        means = [0.1 * position + 0.01 for position in sorted(there)]
        assert [mean.estimate for mean in result.effects.groups] == pytest.approx(means)
        expected = 1 - means[0] / means[-1] if len(there) > 1 else np.nan
        assert result.effects.psi.estimate == pytest.approx(expected, nan_ok=True)


# Advice.

Shift = Mapping[str, Sequence[float]]


def advised(folder: Path, shift: Shift, *, scale: float = 0.01, **options: Any) -> tuple[str, str]:
    """The advice on paper where its values are those of none plus these, at each of four positions, and noise."""
    base = [0.7, 0.5, 0.4, 0.3]

    def value(treatment: str, metric: str, position: int, cluster: int) -> float:
        own = 0.2 * (cluster % 3) / 2 - 0.1
        return (
            base[position - 1]
            + own
            + shift.get(treatment, [0] * 4)[position - 1]
            + wobble(treatment, position, cluster)
        )

    def wobble(treatment: str, position: int, cluster: int) -> float:
        return noise(scale)(treatment, position, cluster) if treatment in shift else 0.0

    names = ("none", *shift)
    summary = summary_of(folder, value, treatments=names, clusters=options.pop("clusters", 24), **options)
    found = advice_of(summary)
    (advice,) = [one for one in found if one.treatment == "paper"]
    assert [one.treatment for one in found] == [n for n in names[1:] if not n.endswith(ONLY)]
    return advice.kind, advice.sentence


GAIN, LOSS, EVEN, SAME = [0.1] * 4, [-0.1] * 4, [-0.12, 0.0, 0.05, 0.07], [0.0] * 4
BETTER = [0.15] * 4


@pytest.mark.parametrize(
    ("shift", "kind"),
    [
        ({"paper": GAIN}, "use"),
        ({"paper": EVEN}, "use"),
        ({"paper": LOSS}, "leave"),
        ({"paper": SAME}, "leave"),
        ({"paper": GAIN, f"paper{ONLY}": SAME}, "use"),
        ({"paper": BETTER, f"paper{ONLY}": GAIN}, "use"),
        ({"paper": GAIN, f"paper{ONLY}": BETTER}, "documents only"),
        ({"paper": LOSS, f"paper{ONLY}": GAIN}, "documents only"),
        ({"paper": SAME, f"paper{ONLY}": EVEN}, "documents only"),
        ({"paper": LOSS, f"paper{ONLY}": LOSS}, "leave"),
        ({"paper": SAME, f"paper{ONLY}": LOSS}, "leave"),
    ],
    ids=[
        "gains",
        "is fairer",
        "loses",
        "changes nothing",
        "gains, nothing on documents",
        "gains, less on documents",
        "gains more on documents",
        "loses, gains on documents",
        "nothing, fairer on documents",
        "loses everywhere",
        "nothing, loses on documents",
    ],
)
def test_advice_that_is_clear(tmp_path: Path, shift: Shift, kind: str) -> None:
    """Use it if it gains, or is as good and fairer; on documents only if that is better, or alone good."""
    assert advised(tmp_path, shift)[0] == kind


def test_advice_that_needs_more_data(tmp_path: Path) -> None:
    """Much noise, or so few clusters that a gain could be chance."""
    kind, sentence = advised(tmp_path / "noisy", {"paper": [0.02] * 4}, scale=0.3)
    assert kind == "more data"
    assert sentence.startswith("ndcg@10 0.475 → ")
    assert advised(tmp_path / "few", {"paper": GAIN}, clusters=4)[0] == "more data", "all four gain: p = 1/8"
    shift = {"paper": LOSS, f"paper{ONLY}": [0.05, -0.05, 0.05, 0.0]}
    kind, sentence = advised(tmp_path / "twin", shift, clusters=4)
    assert kind == "more data", "on documents only, which may still help where both sides do not"


def test_advice_on_few_clusters_says_so(tmp_path: Path) -> None:
    """Twelve clusters with a gain of 0.018 ± 0.006: it is there, and no bare advice to use it rests on them."""

    def value(treatment: str, metric: str, position: int, cluster: int) -> float:
        own = 0.4 + 0.02 * (cluster % 3)
        return own + (0.012 + 0.012 * (cluster % 2) if treatment == "paper" else 0.0)

    for clusters in (12, 30):
        log = log_of(tmp_path / str(clusters), rows_of(value, ("none", "paper"), clusters=clusters))
        (advice,) = advice_of(summarize_search(log))
        _, card = view_of(log).cards
        assert (advice.kind, advice.clusters, advice.more_clusters) == ("use", clusters, 30 - clusters)
        assert view_of(log).frame("verdicts").select("clusters", "more_clusters").rows() == [
            (clusters, 30 - clusters)
        ]
        if clusters == 12:
            assert (card.badge, card.tone) == ("use it, on 12 clusters only", "open")
            assert card.sentences[0].endswith("; only 12 clusters of queries: about 18 more would make sure")
        else:
            assert (card.badge, card.tone) == ("use it", "good")
            assert "clusters" not in card.sentences[0]


def test_advice_that_is_not_clear_says_how_many_clusters_would_decide(tmp_path: Path) -> None:
    """A gain of 0.02 with a deviation of 0.1 between clusters: ((1.96 + 0.84) · 0.1 / 0.02)² = 196, less the 40."""

    def value(treatment: str, metric: str, position: int, cluster: int) -> float:
        # √(39/40): the deviation of a sample divides by one less than its size.
        gap = 0.02 + 0.1 * (39 / 40) ** 0.5 * (1 - 2 * (cluster % 2))
        return 0.4 + (gap if treatment == "paper" else 0.0)

    log = log_of(tmp_path, rows_of(value, ("none", "paper"), clusters=40))
    (advice,) = advice_of(summarize_search(log))
    assert (advice.kind, advice.more_clusters) == ("more data", 160)
    assert advice.sentence.endswith("; about 160 more clusters of queries would decide")
    assert advice.badge == ("needs more queries", "open")


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        ((0, 0), ""),
        ((9, 9), "; 9 of 48 documents were cut at 512 tokens under both"),
        ((9, 0), "; none: 9 of 48 documents were cut at 512 tokens; paper: no document was cut"),
    ],
)
def test_advice_names_the_documents_that_were_cut(tmp_path: Path, cut: tuple[int, int], words: str) -> None:
    """The window belongs to the treatment, so that a gain may be that of a longer one."""
    windows = [
        {"treatment": name, "texts": texts, "window": 512, "count": 48, "cut": own if texts == "documents" else 7}
        for name, own in zip(("none", "paper"), cut, strict=True)
        for texts in ("documents", "queries")
    ]
    log = log_of(tmp_path, rows_of(usual, ("none", "paper"), clusters=30), windows=windows)
    (advice,) = advice_of(summarize_search(log))
    assert advice.sentence.endswith(words)
    assert words or "cut" not in advice.sentence


def test_a_fairer_search_that_may_lose_is_not_advised(tmp_path: Path) -> None:
    """The weakest position gains and the first loses as much; how much in all is not known to a hundredth."""
    assert advised(tmp_path / "small", {"paper": EVEN}, scale=0.01)[0] == "use"
    shift = {"paper": [-0.25, 0.0, 0.1, 0.15]}
    assert advised(tmp_path / "large", shift, scale=0.15)[0] == "more data"


def test_fairness_by_loss_is_no_fairness(tmp_path: Path) -> None:
    """All positions as bad as the worst: PSI falls to 0, and so does what is found."""
    assert advised(tmp_path / "down", {"paper": [-0.4, -0.2, -0.1, 0.0]})[0] == "leave"
    # A loss within the margin, and the weakest position a little weaker: PSI falls from 0.571 to 0.552 all the same.
    assert advised(tmp_path / "less", {"paper": [-0.03, 0.0, 0.0, -0.0001]}, scale=0.0)[0] == "leave"


def test_levelling_down_within_the_margin_is_not_advised(tmp_path: Path) -> None:
    """The first position loses 0.03, the weakest gains 0.0001: 0.475 becomes 0.468, and nobody is served better."""
    kind, sentence = advised(tmp_path, {"paper": [-0.03, 0.0, 0.0, 0.0001]}, scale=0.0)
    assert kind == "leave", sentence


def test_the_margin_decides(tmp_path: Path) -> None:
    """Fairer at a loss of 0.02 on average: too much with a margin of 0.01, and not with one of 0.05."""
    shift = {"paper": [-0.2, 0.0, 0.05, 0.07]}
    assert advised(tmp_path / "strict", shift)[0] == "leave"
    with_margin = {"log": {"spec": {"margin": 0.05}}}
    assert advised(tmp_path / "mild", shift, **with_margin)[0] == "use"


def test_a_loss_that_is_sure_and_may_be_large_is_one(tmp_path: Path) -> None:
    """Fairer, and worse: by 0.01 give or take 0.006. All of that is below 0 and some of it beyond the margin."""
    shift = {"paper": [-0.14, 0.0, 0.05, 0.05]}
    kind, sentence = advised(tmp_path / "strict", shift, scale=0.05)
    low, high = (float(end.replace("−", "-")) for end in re.findall(r"\[(.*?), (.*?)\]", sentence)[0])
    assert low < -0.01 < high < 0, "the premise"
    assert kind == "leave"
    assert advised(tmp_path / "mild", shift, scale=0.05, log={"spec": {"margin": 0.03}})[0] == "use"


def test_a_gain_has_to_stand_the_correction(tmp_path: Path) -> None:
    """Six clusters that all gain: p = 2/64 alone, and three times that beside two others."""
    assert advised(tmp_path / "one", {"paper": GAIN}, clusters=6)[0] == "use"
    three = {"paper": GAIN, "retrieval": GAIN, "64-last": GAIN}
    assert advised(tmp_path / "three", three, clusters=6)[0] == "more data"


def test_the_sentence_has_the_numbers(tmp_path: Path) -> None:
    kind, sentence = advised(tmp_path, {"paper": [-0.1, 0.0, 0.05, 0.07]}, scale=0.0)
    assert kind == "use"
    assert sentence == (
        "ndcg@10 0.475 → 0.480 (+0.005 [+0.005, +0.005]), weakest position 0.300 → 0.370, PSI 0.57 → 0.38; "
        "only 24 clusters of queries: about 6 more would make sure"
    )
    _, sentence = advised(tmp_path / "less", {"paper": [-0.1] * 4}, scale=0.0)
    assert "(−0.100 [−0.100, −0.100]), weakest position 0.300 → 0.200" in sentence


@pytest.mark.parametrize("metric", ["mrr", "ndcg@10"])
def test_the_first_metric_decides(tmp_path: Path, metric: str) -> None:
    """One gains and the other loses."""
    metrics = (metric, "ndcg@10" if metric == "mrr" else "mrr")

    def value(treatment: str, measured: str, position: int, cluster: int) -> float:
        gain = 0.1 if measured == "mrr" else -0.1
        return 0.5 + (gain if treatment == "paper" else 0.0) + noise(0.01)(treatment, position, cluster)

    summary = summary_of(tmp_path, value, treatments=("none", "paper"), metrics=metrics)
    assert summary.metrics == list(metrics)
    assert [advice.kind for advice in advice_of(summary)] == ["use" if metric == "mrr" else "leave"]


def test_advice_is_about_treatments_of_whole_documents(tmp_path: Path) -> None:
    """Chunks are compared, and not advised; a documents-only treatment without its twin is advised as it is."""
    named = f"retrieval{ONLY}"
    rows = rows_of(
        lambda t, m, p, c: 0.4 + 0.1 * (t != "none") + noise(0.01)(t, p, c),
        ("none", "paper", f"paper{ONLY}", named),
        indexes=[("none", "chunk-max")],
    )
    summary = summarize_search(log_of(tmp_path, rows))
    first, *others = advice_of(summary)
    assert [(one.treatment, one.kind) for one in others] == [(named, "use")]
    assert first.treatment == "paper"
    assert [str(arm) for arm in summary.arms] == [
        "none",
        "paper",
        "paper, documents only",
        "retrieval, documents only",
        "none, chunk-max",
    ]


def test_one_treatment_gets_no_advice(tmp_path: Path) -> None:
    view = view_of(log_of(tmp_path, rows_of(usual, ("none",))))
    assert [card.name for card in view.cards] == ["none"]
    assert view.frame("verdicts").is_empty()
    assert view.frame("quality")["change_estimate"].is_nan().all()
    assert "note" not in printed(view)


# Frames.


@pytest.fixture(scope="module")
def view(wide: RetrievalSummary) -> View:
    return view_of(wide.log)


def record_ends(record: Mapping[str, Any], prefix: str = "") -> list[float | None]:
    return [record[f"{prefix}{name}"] for name in ("estimate", "low", "high")]


def test_frames_are_the_summary(wide: RetrievalSummary, view: View) -> None:
    """Every number of every result, in the order of the summary."""
    assert list(view.frames) == ["verdicts", "quality", "positions", "tokens_before", "costs"]
    quality = to_records(view.frame("quality"))
    positions = iter(to_records(view.frame("positions")))
    for record, result in zip(quality, wide.results, strict=True):
        named = ("treatment", "index", "metric", "plan")
        assert [record[name] for name in named] == [
            result.arm.treatment,
            result.arm.index,
            result.metric,
            result.plan,
        ]
        effects, change = result.effects, result.change
        assert (record["queries"], record["clusters"]) == (effects.counts.queries, effects.counts.clusters)
        assert record_ends(record) == ends(effects.overall)
        assert record_ends(record, "psi_") == ends(effects.psi)
        assert record_ends(record, "harmonic_") == ends(effects.harmonic)
        for prefix, name in (("", "overall"), ("psi_", "psi"), ("harmonic_", "harmonic"), ("worst_", "worst")):
            assert record_ends(record, f"{prefix}change_") == ends(change and getattr(change, name))
        assert record["p_value"] == (None if change is None else result.p_value)
        assert record["p_value_alone"] == (None if change is None else change.p_value)
        for place, group in enumerate(result.groups):
            one = next(positions)
            assert ([one[name] for name in named], one["position"]) == ([record[name] for name in named], group)
            assert one["queries"] == effects.counts.group_queries[place]
            assert record_ends(one) == ends(effects.groups[place])
            assert record_ends(one, "change_") == ends(change and change.groups[place])
    assert next(positions, None) is None
    before = to_records(view.frame("tokens_before"))
    means = [mean for one in wide.tokens_before for mean in one.effects.groups]
    assert [record_ends(record) for record in before] == [ends(mean) for mean in means]
    costs = to_records(view.frame("costs"))
    assert [record["vectors"] for record in costs] == [wide.cost(arm)["vectors"] for arm in wide.arms]
    verdicts = [(one["treatment"], one["verdict"], one["sentence"]) for one in to_records(view.frame("verdicts"))]
    assert verdicts == [(one.treatment, one.kind, one.sentence) for one in advice_of(wide)]


def test_frames_are_json(tmp_path: Path) -> None:
    """Also where positions are not known, or one treatment finds nothing at all."""
    nowhere = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    nothing = rows_of(lambda t, m, p, c: 0.3 * (t == "paper") * (p < 3), ("none", "paper"))
    for name, rows, positions in (("nowhere", nowhere, None), ("nothing", nothing, "segments")):
        shown = view_of(log_of(tmp_path / name, rows, positions=positions))
        for frame in shown.frames.values():
            json.dumps(to_records(frame), allow_nan=False)
            assert "NaN" not in to_csv(frame)
        assert ("positions" in shown.frames) == (positions is not None)
    assert to_records(shown.frame("quality"))[0]["psi_estimate"] is None, "no share of nothing"


# Cards and tables.


def test_the_baseline_and_then_the_advice(tmp_path: Path) -> None:
    level = {"none": 0.4, "paper": 0.45, f"paper{ONLY}": 0.6, "retrieval": 0.6, "64-last": 0.3, "128-last": 0.4}
    scale = {"128-last": 0.5}
    rows = rows_of(
        lambda t, m, p, c: max(0, level[t] + noise(scale.get(t, 0.01))(t, p, c)), tuple(level), clusters=30
    )
    log = log_of(tmp_path, rows, notes=["queries were left out"])
    shown = view_of(log)
    found = advice_of(summarize_search(log))
    assert [(card.name, card.badge, card.tone) for card in shown.cards] == [
        ("none", "baseline", "plain"),
        ("paper", "use it on documents only", "good"),
        ("retrieval", "use it", "good"),
        ("64-last", "do not use it", "bad"),
        ("128-last", "needs more queries", "open"),
    ]
    overall = summarize_search(log).results[0].effects.overall
    assert shown.cards[0].sentences == (f"ndcg@10 {with_bounds(overall)}",)
    assert [card.sentences for card in shown.cards[1:]] == [(one.sentence,) for one in found]
    assert texts(table(shown, "advice")) == [[c.name, c.badge, c.sentences[0]] for c in shown.cards[1:]]
    assert table(shown, "advice").notes == shown.notes == ("queries were left out",)
    assert shown.frame("verdicts")["verdict"].to_list() == ["documents only", "use", "leave", "more data"]


def test_the_table_of_quality(wide: RetrievalSummary, view: View) -> None:
    quality = table(view, "quality")
    assert quality.spans() == [("ndcg@10", 5), ("", 1)]
    rows = texts(quality)
    assert [row[0] for row in rows] == [str(arm) for arm in wide.arms]
    for arm, row in zip(wide.arms, rows, strict=True):
        result = wide.result(arm)
        changed = ["", ""]
        if result.change is not None:
            changed = [with_bounds(result.change.overall, "+.3f"), p_value(result.p_value)]
        effects = result.effects
        positions = [number(effects.psi.estimate, ".2f"), number(effects.harmonic.estimate)]
        other = number(wide.result(arm, "mrr").effects.overall.estimate)
        assert row[1:] == [number(effects.overall.estimate), *changed, *positions, other]
    assert_frame_equal(quality.frame, view.frame("quality").filter(pl.col("plan") == ""))


def test_plans_have_tables_of_their_own(wide: RetrievalSummary, view: View) -> None:
    by_plan, positions = table(view, "quality-by-plan"), table(view, "positions-by-plan")
    heads = [(plan, str(arm)) for plan in wide.plans[1:] for arm in wide.arms]
    assert [row.heads for row in by_plan.rows] == heads
    assert [row.heads for row in positions.rows] == [(*head, place) for head in heads for place in "1234"]
    for name, one in (("quality", by_plan), ("positions", positions)):
        assert_frame_equal(one.frame, view.frame(name).filter(pl.col("plan") != ""))


def test_the_table_of_positions(wide: RetrievalSummary, view: View) -> None:
    rows = iter(texts(table(view, "positions")))
    for arm in wide.arms:
        result = wide.result(arm)
        for place, mean in enumerate(result.effects.groups):
            change = "" if result.change is None else with_bounds(result.change.groups[place], "+.3f")
            assert next(rows) == [str(arm), str(place + 1), "72", with_bounds(mean), change]
    assert next(rows, None) is None


def test_the_table_of_costs(wide: RetrievalSummary, view: View) -> None:
    costs = {row[0]: row[1:] for row in texts(table(view, "index-costs"))}
    quality = number(wide.result(Arm("none", "chunk-max")).effects.overall.estimate)
    assert costs["none, chunk-max"] == [f"{173 / 40:.1f}", "0.1", "20,000", "2", quality]
    assert table(view, "index-costs").brief


def test_costs_that_were_not_measured_are_estimated(tmp_path: Path) -> None:
    """The whole documents were stored; their seconds follow from the speed of chunks, if that is known."""
    found = log_of(tmp_path, rows_of(usual, ("none",), indexes=[("none", "chunk-max")]))
    stored, timed = ({**cost, "seconds": None if cost["index"] == "whole" else 3.0} for cost in found.header["costs"])
    log = replace(found, header={**found.header, "costs": [{**stored, "tokens": 40000}, timed]})
    assert [row[4] for row in texts(table(view_of(log), "index-costs"))] == ["6~", "3"]
    log = replace(found, header={**found.header, "costs": [stored, {**timed, "seconds": None}]})
    assert [row[4] for row in texts(table(view_of(log), "index-costs"))] == ["stored"] * 2


# By tokens before the evidence, and by length.


@pytest.fixture(scope="module")
def eight_ranges(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    rows = rows_of(
        usual,
        ("none", "paper"),
        offset=lambda position, cluster: 128 * ((5 * cluster + position) % 9),
        plans=[("", "")],
    )
    return log_of(tmp_path_factory.mktemp("ranges") / "run", rows, positions="fifths")


def test_the_table_and_the_chart_of_tokens_before(eight_ranges: RunLog) -> None:
    """A column for each range with its queries counted below, a row for each arm."""
    shown = view_of(eight_ranges)
    found = table(shown, "tokens-before")
    counts = eight_ranges.rows.filter(pl.col("treatment") == "none")
    ranges = counts.group_by(pl.min_horizontal(pl.col("offset") // 128, 7).alias("range")).len().sort("range").rows()
    names = [f"{128 * place}–{128 * place + 127}" if place < 7 else "896…" for place, _ in ranges]
    assert len(ranges) == 8
    assert [column.name for column in found.columns] == names
    counted = zip(names, ranges, strict=True)
    assert found.notes == ("queries: " + ", ".join(f"{name}: {count}" for name, (_, count) in counted),)
    assert found.brief, "fifths say little about how many tokens come before"
    (panel,) = chart(shown, "search-by-tokens-before").panels
    assert panel.labels == tuple(names)
    for row, series, one in zip(found.rows, panel.series, summarize_search(eight_ranges).tokens_before, strict=True):
        assert [cell.value for cell in row.cells] == [mean.estimate for mean in one.effects.groups]
        points = [[point.estimate, point.low, point.high] for point in series.points if point]
        assert points == [ends(mean) for mean in one.effects.groups]


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Three treatments, a second index, queries of several lengths, and ranks of documents of several lengths."""
    rows = rows_of(usual, plans=[("en", "en"), ("de", "de")], indexes=[("none", "chunk-max")], clusters=15)
    lengths = 5 + 3 * pl.col("set") + pl.col("position").fill_null(0)
    rows = rows.with_columns(query_tokens=lengths.cast(pl.Int32), tokens=(100 + 40 * pl.col("set")).cast(pl.Int32))
    ranks = rows.with_columns(measure=pl.lit("rank"), value=1 + 10 * pl.col("value"))
    found = log_of(tmp_path_factory.mktemp("evaluation") / "run", rows)
    costs = [{**cost, "bytes": cost["vectors"] * 1536} for cost in found.header["costs"]]
    return replace(found, header={**found.header, "costs": costs}, rows=pl.concat([found.rows, ranks]))


def test_search_by_length(evaluation: RunLog) -> None:
    """Frame, table and chart say what `by_length` does; the terminal shows them only if it is asked to."""
    groups = by_length(evaluation)
    shown = view_of(evaluation)
    records = to_records(shown.frame("by_length"))
    assert [record_ends(record) for record in records] == [ends(one.value) for one in groups]
    assert [record_ends(record, "change_") for record in records] == [ends(one.change) for one in groups]
    measures = {"rank": "mean rank", "ndcg@10": "ndcg@10"}
    spans = {one.group: "–".join(map(str, one.tokens)) for one in groups}
    told = {
        (f"{measures[one.measure]} of the {one.group} ({one.count} of {spans[one.group]} tokens)", str(one.arm)): one
        for one in groups
    }
    rows = texts(table(shown, "by-length"))
    assert {(row[0], row[1]) for row in rows} == set(told)
    for row in rows:
        one = told[row[0], row[1]]
        form = ".1f" if one.measure == "rank" else ".3f"
        change = "" if one.change is None else with_bounds(one.change, f"+{form}")
        assert row[2:] == [number(one.value.estimate, form), change]
    queries, documents = chart(shown, "search-by-length").panels
    assert documents.y_label == "mean rank (lower is better)"
    for panel, names in ((queries, ["shortest queries", "longest queries"]), (documents, ["longest documents"])):
        for series in panel.series:
            own = [one for name in names for one in groups if (str(one.arm), one.group) == (series.name, name)]
            assert [ends(one.value) for one in own] == [[p.estimate, p.low, p.high] for p in series.points if p]
    assert "Search by length" not in printed(shown)
    assert "Search by length" in printed(view_of(evaluation, lengths=True))


# The terminal.


LONG = "paper+basket_size=64+sides=query"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> RetrievalSummary:
    """Long names, all default metrics, fifths and four ranges, four further indexes."""
    names = ("none", "retrieval", f"retrieval{ONLY}", LONG, "128-last_half+strength=0.25")
    indexes = [("none", index) for index in ("chunk-mean", "chunk-max", "late-mean", "late-max")]
    rows = rows_of(
        lambda t, m, p, c: 0.5 - 0.05 * p + noise(0.2)(t, m, p, c),
        names,
        positions=(1, 2, 3, 4, 5),
        metrics=("ndcg@10", "mrr", "recall@1", "recall@10"),
        indexes=indexes,
        plans=[("", "")],
        offset=lambda position, cluster: 128 * ((5 * cluster + position) % 4),
    )
    return summarize_search(log_of(tmp_path_factory.mktemp("crowded") / "run", rows, positions="fifths"))


def test_the_terminal_has_advice_bars_quality_and_costs(crowded: RetrievalSummary) -> None:
    """In that order; bars of whole documents only."""
    text = printed(view_of(crowded.log), 250)
    places = [text.index(one.sentence) for one in advice_of(crowded)]
    places += [
        text.index(words) for words in ("ndcg@10 by fifth with the evidence", "by tokens before the evidence (")
    ]
    places += [text.index("Search (m on t)"), text.index("What an index costs")]
    assert len(places) == 7
    assert places == sorted(places)
    bars = text[places[3] : places[4]]
    for arm in crowded.arms:
        for name, mean in zip("12345", crowded.result(arm).effects.groups, strict=True):
            line = rf"^  {name} +[█▏▎▍▌▋▊▉]+ +{re.escape(with_bounds(mean))}"
            assert bool(re.search(line, bars, re.MULTILINE)) == (arm.index == "whole")
    for arm in crowded.arms:
        result = crowded.result(arm)
        assert number(result.effects.psi.estimate, ".2f") in text[places[5] :]
        if result.change is not None:
            assert with_bounds(result.change.overall, "+.3f") in text[places[5] : places[6]]


def test_pages_say_less_of_tokens_before(wide: RetrievalSummary, view: View) -> None:
    """Segments of a page are positions already; every plan has bars of its own."""
    text = printed(view, 120)
    assert "by tokens before the evidence" not in text
    queries = [f"ndcg@10 by segment with the evidence ({plan}, 96 queries)" in text for plan in wide.plans[1:]]
    assert queries == [True] * 3


def test_names_from_outside_are_not_markup(tmp_path: Path) -> None:
    """Brackets in the name of a treatment or a note are shown as they are."""
    name = "paper+layers=[1,3]"
    rows = rows_of(lambda t, m, p, c: 0.5 + noise()(t, p, c), ("none", name))
    text = printed(view_of(log_of(tmp_path, rows, notes=["a note with [bold]brackets[/bold]"])), 120)
    assert name in text
    assert "note: a note with [bold]brackets[/bold]" in text


def test_a_position_of_few_clusters_has_no_nan(tmp_path: Path) -> None:
    """The fifth of one cluster alone: one in three bootstrap samples does not have it."""
    rows = rows_of(usual, ("none", "paper")).filter((pl.col("position") < 4) | (pl.col("set") == 0))
    log = log_of(tmp_path, rows, positions="fifths")
    assert np.isnan(summarize_search(log).results[0].effects.groups[3].low), "the premise"
    assert "nan" not in printed(view_of(log))


# Few queries.


def test_one_cluster_has_means_without_intervals(tmp_path: Path) -> None:
    """And neither advice nor a search by length, whose absence is an error only if it was asked for."""
    rows = rows_of(usual, ("none", "paper"), clusters=1)
    rows = rows.with_columns(query_tokens=pl.int_range(pl.len(), dtype=pl.Int32) % 7 + 3)
    log = log_of(tmp_path, rows)
    shown = view_of(log)
    first = to_records(shown.frame("quality"))[0]
    mean = log.rows.filter(pl.col("treatment") == "none")["value"].mean()
    assert record_ends(first) == [pytest.approx(mean), None, None]
    assert [card.name for card in shown.cards] == ["none"]
    assert [one.name for one in shown.tables()] == ["quality", "index-costs"]
    assert "nan" not in printed(shown)
    for one in shown.charts():
        assert isinstance(one, Chart)
        points = [point for panel in one.panels for series in panel.series for point in series.points]
        assert all(point is not None and point.low is None for point in points)
    with pytest.raises(StatisticsError):
        view_of(log, lengths=True)


def test_scores_without_queries(tmp_path: Path) -> None:
    """As tasks of mteb that are no searches give them: one value for each treatment, and no costs."""
    rows = rows_of(usual, ("none", "paper"), clusters=1, positions=(None,), plans=[("", "")])
    blank = [pl.lit(None, rows.schema[name]).alias(name) for name in ("document", "query_tokens", "tokens", "offset")]
    found = log_of(tmp_path, rows, positions=None, costs=[], shuffled=False)
    scores = found.rows.with_columns(*blank, measure=pl.lit("cosine_spearman"), value=-pl.col("value"))
    log = replace(found, rows=scores)
    shown = view_of(log)
    before, after = (-one for one in rows["value"])
    quality = to_records(shown.frame("quality"))
    assert [record_ends(one) for one in quality] == [[before, None, None], [after, None, None]]
    assert record_ends(quality[1], "change_") == [pytest.approx(after - before), None, None]
    assert texts(table(shown, "quality")) == [
        ["none", number(before), "", ""],
        ["paper", number(after), number(after - before, "+.3f"), "–"],
    ]
    assert list(shown.frames) == ["verdicts", "quality"]
    assert [one.name for one in shown.charts()] == ["search-overall"]


# Charts.


def test_bars_are_the_means(wide: RetrievalSummary, view: View) -> None:
    """One panel for each plan and one for all, one series for each arm of whole documents."""
    whole, others = chart(view, "search-by-position"), chart(view, "search-by-position-and-index")
    assert view.picture == "search-by-position"
    assert [panel.title for panel in whole.panels] == ["all plans", *wide.plans[1:]]
    drawn = {whole.name: wide.arms[:3], others.name: [wide.arms[0], wide.arms[3]]}
    assert [arm.index for arm in wide.arms] == ["whole"] * 3 + ["chunk-max"]
    for one in (whole, others):
        for panel, plan in zip(one.panels, wide.plans, strict=True):
            assert panel.labels == ("1", "2", "3", "4")
            for series, arm in zip(panel.series, drawn[one.name], strict=True):
                result = wide.result(arm, plan=plan)
                points = [[p.estimate, p.low, p.high] for p in series.points if p]
                assert points == [ends(mean) for mean in result.effects.groups]
                assert view.switch[series.number] == series.name == str(arm)
                last = series.points[3]
                assert last is not None
                lines = [f"{arm}, 4", f"ndcg@10 {with_bounds(result.effects.groups[3])}"]
                if result.change is not None:
                    lines.append(f"against none: {with_bounds(result.change.groups[3], '+.3f')}")
                lines.append(f"{24 * (1 if plan else 3)} queries")
                assert last.told.splitlines() == lines


def test_every_metric_overall(wide: RetrievalSummary, view: View) -> None:
    (panel,) = chart(view, "search-overall").panels
    assert panel.labels == METRICS
    for series, arm in zip(panel.series, wide.arms, strict=True):
        means = [wide.result(arm, metric).effects.overall for metric in METRICS]
        assert [[p.estimate, p.low, p.high] for p in series.points if p] == [ends(mean) for mean in means]
        if arm != wide.baseline:
            assert series.points[1] is not None
            assert f", p {p_value(wide.result(arm, 'mrr').p_value)}" in series.points[1].told


def test_quality_stands_above_the_size_of_each_index(evaluation: RunLog) -> None:
    """The smallest index first; treatments that were not measured in an index have no bar there."""
    summary = summarize_search(evaluation)
    (panel,) = chart(view_of(evaluation), "search-by-index").panels
    sizes = {cost["index"]: cost["bytes"] / 2**20 for cost in evaluation.header["costs"]}
    assert panel.labels == ("whole", "chunk-max")
    assert panel.strip == (sizes["whole"], sizes["chunk-max"])
    found = {
        (series.name, label): point.estimate
        for series in panel.series
        for label, point in zip(panel.labels, series.points, strict=True)
        if point is not None
    }
    assert found == {
        (str(Arm(arm.treatment, "whole")), arm.index): summary.result(arm).effects.overall.estimate
        for arm in summary.arms
    }


def test_crowded_charts_show_treatments_as_they_are_advised(tmp_path: Path) -> None:
    """More arms than looks: documents only where that is the advice, else both sides; the baseline always."""
    level = {"none": 0.4, "paper": 0.45, f"paper{ONLY}": 0.6, "retrieval": 0.6, f"retrieval{ONLY}": 0.45}
    others = [("none", index) for index in ("chunk-mean", "chunk-max", "late-mean")]
    rows = rows_of(lambda t, m, p, c: level.get(t, 0.5) + noise(0.01)(t, p, c), tuple(level), indexes=others)
    shown = view_of(log_of(tmp_path, rows))
    (panel,) = chart(shown, "search-overall").panels
    names = [series.name for series in panel.series]
    assert names[:3] == ["none", "paper, documents only", "retrieval"]
    assert sorted(names[3:]) == [f"none, {index}" for index in ("chunk-max", "chunk-mean", "late-mean")]
    assert len(chart(shown, "search-by-position").panels[0].series) == 5, "there is room"


def test_positions_that_are_not_known(tmp_path: Path) -> None:
    rows = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    shown = view_of(log_of(tmp_path, rows, positions=None))
    assert [one.name for one in shown.charts()] == ["search-overall"]
    assert shown.picture == "search-overall"
    assert "nan" not in printed(shown)
    assert " by " not in printed(shown)


def test_figures_tables_and_page(evaluation: RunLog) -> None:
    """Every chart can be drawn and every table written, and the page has one figure for each panel."""
    pytest.importorskip("matplotlib")
    shown = view_of(evaluation)
    names = [one.name for one in shown.charts()]
    kinds = ("position", "position-and-index", "tokens-before", "index", "length")
    assert sorted(names) == sorted(["search-overall", *(f"search-by-{kind}" for kind in kinds)])
    panels = 0
    for one in shown.charts():
        assert isinstance(one, Chart)
        assert len(draw(one).axes) >= len(one.panels)
        panels += len(one.panels)
    for one_table in shown.tables():
        assert to_latex(one_table).count("tabular") >= 2
        assert to_markdown(one_table).count("\n| ") >= 2 + len(one_table.rows)
    page = make_page(shown.title, [Part("m: search", shown, settings=(("seed", "0"),))])
    assert page.count('<figure class="panel"') == panels
    assert all(paragraph[:40] in page for paragraph in shown.methods)


# Comparisons.


def test_two_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    first = log_of(tmp_path / "one", rows_of(usual, ("none", "paper"), metrics=METRICS))
    higher = rows_of(usual, ("none", "paper"), metrics=METRICS).with_columns(value=pl.col("value") + 0.25)
    # The second run has fewer queries, of which one is its own.
    fewer = higher.filter(pl.col("set") < 10).with_columns(
        query=pl.when(pl.col("query") == "q9-4").then(pl.lit("new")).otherwise(pl.col("query"))
    )
    second = log_of(tmp_path / "two", fewer, run="m-87654321")
    found = compare_searches(first, second, ("none", "none"))
    assert sorted((one.metric, one.index) for one in found) == [("mrr", "whole"), ("ndcg@10", "whole")]
    for one in found:
        assert one.change.counts.queries == 39
        assert one.change.overall.estimate == pytest.approx(0.25)
        assert [change.estimate for change in one.change.groups] == pytest.approx([0.25] * 4)
    crossed, _ = compare_searches(first, first, ("none", "paper"))
    rows = first.rows.filter(pl.col("measure") == crossed.metric)
    means = dict(rows.group_by("treatment").agg(pl.col("value").mean()).rows())
    assert crossed.change.overall.estimate == pytest.approx(means["paper"] - means["none"])
    changes, positions = compare(first, second, ["none", "none"])
    assert changes.title == "Changes on the same queries (m-12345678 → m-87654321)"
    for row, one in zip(texts(changes), found, strict=True):
        assert row[:3] == ["none → none", one.metric, "39"]
        change = one.change
        assert row[3:] == [
            with_bounds(change.overall, "+.3f"),
            p_value(change.p_value),
            with_bounds(change.psi, "+.3f"),
        ]
    for record, one in zip(to_records(changes.frame), found, strict=True):
        assert (record["first_run"], record["second_run"]) == ("m-12345678", "m-87654321")
        for prefix, name in (("", "overall"), ("psi_", "psi"), ("spread_", "spread"), ("worst_", "worst")):
            assert record_ends(record, f"{prefix}change_") == ends(getattr(one.change, name))
    groups = [change for one in found for change in one.change.groups]
    assert [record_ends(record, "change_") for record in to_records(positions.frame)] == list(map(ends, groups))


def pairs(tables: Sequence[Table]) -> list[str]:
    return list(dict.fromkeys(row.heads[0] for row in tables[0].rows))


def test_what_is_compared_with_what(tmp_path: Path) -> None:
    """Inside a run all treatments that were measured with the first one, between two runs each with itself."""
    one = log_of(tmp_path / "one", rows_of(usual, ("none", "paper")), spec={"documents_only": True})
    two = log_of(tmp_path / "two", rows_of(usual, ("none", "paper", "retrieval")))
    assert f"paper{ONLY}" in one.treatments, "the premise: it is named, and was not measured"
    assert pairs(compare(one)) == ["none → paper"]
    assert pairs(compare(one, two)) == ["none → none", "paper → paper"]
    assert pairs(compare(one, two, ["none", "retrieval"])) == ["none → retrieval"]


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    first = log_of(tmp_path / "one", rows_of(usual, ("none", "paper")))
    other = rows_of(usual, ("none", "paper")).with_columns(query=pl.lit("x") + pl.col("query"))
    second = log_of(tmp_path / "two", other, run="m-87654321")
    with pytest.raises(LogError, match="m-12345678 and m-87654321 have no query in common"):
        compare(first, second)
    with pytest.raises(LogError, match="the run m-12345678 has no treatment 'retrieval', only none, paper"):
        compare(first, None, ["none", "retrieval"])
    with pytest.raises(LogError, match="names two treatments, such as none and paper"):
        compare(first, None, ["none"])
    alone = log_of(tmp_path / "three", rows_of(usual, ("none",)))
    with pytest.raises(LogError, match="has one treatment, none: name a second run"):
        compare(alone)
    with pytest.raises(LogError, match="share no treatment"):
        compare(first, log_of(tmp_path / "four", rows_of(lambda *_: 0.5, ("64-last", "128-last"))))
    audit = replace(first, header={**first.header, "verb": "audit"})
    for pair in ((first, audit), (audit, first)):
        with pytest.raises(LogError, match="compare runs of one kind"):
            compare(*pair)
    with pytest.raises(LogError, match=f"the run {audit.run} is an audit, not an evaluation"):
        view_of(audit)


def test_pages_of_the_same_name_need_not_be_the_same(tmp_path: Path) -> None:
    """The second run has every query at another position of a page of that name, or other pages altogether."""
    rows = rows_of(usual, ("none",))
    turned = rows.with_columns(position=(pl.col("position") % 4 + 1).cast(pl.Int16))
    first, second = log_of(tmp_path / "one", rows), log_of(tmp_path / "two", turned, seed=1)
    with pytest.raises(LogError, match="in common"):
        compare(first, second)
    task = {**first.header["task"], "fingerprints": ["g"]}
    with pytest.raises(LogError, match="searched different pages"):
        compare(first, replace(first, header={**first.header, "task": task}))


def test_one_cluster_can_be_compared(tmp_path: Path) -> None:
    """The difference is known, if not its interval."""
    log = log_of(tmp_path, rows_of(usual, ("none", "paper"), clusters=1))
    (changes,) = compare(log)
    means = dict(log.rows.group_by("treatment").agg(pl.col("value").mean()).rows())
    difference = means["paper"] - means["none"]
    assert record_ends(to_records(changes.frame)[0], "change_") == [pytest.approx(difference), None, None]
    assert texts(changes)[0][3:] == [number(difference, "+.3f"), "–", "–"]
