"""Reports of evaluations: simulated rows in; means, changes, advice, tables and pictures out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from fairspan.errors import LogError
from fairspan.report.figures.search import draw_search, save_search_picture
from fairspan.report.retrieval_terminal import change_tables, cost_table, print_search, run_tables
from fairspan.runs.log import LogWriter, RunLog, read_log
from fairspan.runs.rows import SCHEMA
from fairspan.studies.evaluate.spec import make_evaluation
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary, compare_searches, summarize_search
from tests.commands import Run
from tests.test_report import simulated_log, simulated_rows


ONLY = "+sides=document"
Value = Callable[[str, str, int, int], float]
"""What a treatment gets under a metric at a position (from 1) in a cluster."""


def rows_of(
    value: Value,
    treatments: Sequence[str] = ("none", "paper", f"paper{ONLY}"),
    *,
    clusters: int = 12,
    positions: Sequence[int | None] = (1, 2, 3, 4),
    metrics: Sequence[str] = ("ndcg@10",),
    indexes: Sequence[tuple[str, str]] | None = None,
    plans: Sequence[tuple[str, str]] = (("en", "en"),),
    editions: int = 1,
    offset: Callable[[int, int], int | None] = lambda position, cluster: 100 * (position - 1),
) -> pl.DataFrame:
    """One query for each cluster, position, edition and plan; `indexes` are further arms, (treatment, index)."""
    arms = [*((treatment, "whole") for treatment in treatments), *(indexes or ())]
    rows = []
    for (treatment, index), metric, (lead, later) in product(arms, metrics, plans):
        for edition, cluster, position in product(range(editions), range(clusters), positions):
            name = treatment if index == "whole" else f"{treatment}/{index}"
            rows.append(
                dict.fromkeys(SCHEMA)
                | {
                    "run": "r",
                    "model": "m",
                    "treatment": treatment,
                    "measure": metric,
                    "set": cluster,
                    "order": edition,
                    "document": f"d{cluster}",
                    "position": position,
                    "language": lead or None,
                    "lead": lead or None,
                    "later": later or None,
                    "n": None if position is None else 4,
                    "tokens": 500,
                    "value": float(value(name, metric, position or 0, cluster)),
                    "part": index,
                    "query": f"q{cluster}-{position}",
                    "query_tokens": 9,
                    "offset": None if position is None else offset(position, cluster),
                }
            )
    return pl.DataFrame(rows, schema=SCHEMA)


def log_of(folder: Path, rows: pl.DataFrame, *, shuffled: bool = True, **changes: Any) -> RunLog:
    """A log of these rows, whose order means nothing."""
    treatments = list(dict.fromkeys(rows["treatment"]))
    given = [name for name in treatments if not (name.endswith(ONLY) and name.removesuffix(ONLY) in treatments)]
    settings = {"treatments": given, "documents_only": given != treatments, **changes.pop("spec", {})}
    settings["metrics"] = list(dict.fromkeys(rows["measure"]))
    spec = make_evaluation("pages", **settings).to_dict()
    positions = changes.pop("positions", "segments" if rows["lead"][0] else "fifths")
    costs = [
        {
            "treatment": treatment,
            "index": index,
            "documents": 40,
            "tokens": 20000,
            "seconds": 1.5,
            "vectors": 40 if index == "whole" else 173,
            "bytes": 40 * 384 * 4,
            "searched_documents": 40,
        }
        for treatment, index in rows.select("treatment", "part").unique(maintain_order=True).rows()
    ]
    task = {"source": "pages", "names": ["t"], "fingerprints": ["f"], "indexes": 3, "queries": 1234, "documents": 40}
    header = {
        "verb": "evaluate",
        "run": "m-12345678",
        "model": {"name": "m", "fingerprint": "f"},
        "task": {**task, "positions": positions, "clusters": rows["set"].n_unique()},
        "plans": ["en:en"],
        "token_unit": "tokens",
        "seed": 0,
        "spec": spec,
        "costs": costs,
        "notes": [],
        **changes,
    }
    writer = LogWriter(folder, header)
    writer.add(rows.sample(fraction=1, shuffle=True, seed=3) if shuffled else rows)
    writer.finish("complete", timings={"seconds": 1.5}, notes=header["notes"])
    return read_log(folder)


def summary_of(
    folder: Path, value: Value, *, log: Mapping[str, Any] | None = None, **options: Any
) -> RetrievalSummary:
    return summarize_search(log_of(folder, rows_of(value, **options), **(log or {})))


def noise(scale: float = 0.05) -> Value:
    """The same for a treatment's metric, position and cluster whenever it is asked for."""

    def draw(*key: Any) -> float:
        return float(np.random.default_rng(list("".join(map(str, key)).encode())).uniform(-scale, scale))

    return draw


LEVELS = {"none": 0.4, "paper": 0.5, f"paper{ONLY}": 0.6, "none/chunk-max": 0.7, "retrieval": 0.45}


def usual(treatment: str, metric: str, position: int, cluster: int) -> float:
    """Falls with the position, and rises with the treatment; metrics differ."""
    level = LEVELS[treatment] - 0.05 * position + (0.1 if metric == "mrr" else 0.0)
    return level + noise()(treatment, metric, position, cluster)


METRICS = ("ndcg@10", "mrr")
PLANS = (("en", "en"), ("de", "de"), ("de", "en"))


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
    assert len(wide.changes) == 3 * 2 * 4
    for change in wide.changes:
        plan = (
            pl.lit(True)
            if not change.plan
            else (pl.col("lead") == change.plan.split(":")[0]) & (pl.col("later") == change.plan.split(":")[-1])
        )
        own = rows.filter((pl.col("measure") == change.metric) & plan)
        before = own.filter((pl.col("treatment") == "none") & (pl.col("part") == "whole"))
        chosen = (pl.col("treatment") == change.arm.treatment) & (pl.col("part") == change.arm.index)
        joined = before.join(own.filter(chosen), on=keys, suffix="_after")
        assert len(joined) == len(before)
        difference = joined["value_after"] - joined["value"]
        assert change.change.overall.estimate == pytest.approx(difference.mean(), abs=1e-12)
        means = joined.group_by("position").agg(before=pl.col("value").mean(), after=pl.col("value_after").mean())
        ordered = means.sort("position")
        assert [one.estimate for one in change.change.groups] == pytest.approx(
            (ordered["after"] - ordered["before"]).to_list(), abs=1e-12
        )
        psi = [1 - ordered[side].min() / ordered[side].max() for side in ("before", "after")]
        assert change.change.psi.estimate == pytest.approx(psi[1] - psi[0], abs=1e-12)
        worst = ordered["after"].min() - ordered["before"].min()
        assert change.change.worst.estimate == pytest.approx(worst, abs=1e-12)


def test_pairs_are_known_better_than_means(tmp_path: Path) -> None:
    """Clusters differ much, and every query gains 0.01: the interval of the change has no width."""
    summary = summary_of(
        tmp_path, lambda t, m, p, c: 0.05 * c + (0.01 if t == "paper" else 0.0), treatments=("none", "paper")
    )
    (change,) = summary.changes
    overall = summary.result(summary.baseline, "ndcg@10").effects.overall
    assert overall.high - overall.low > 0.1
    assert change.change.overall.high - change.change.overall.low < 1e-9
    assert change.change.overall.estimate == pytest.approx(0.01)


def test_p_values_by_hand(tmp_path: Path) -> None:
    """Eight clusters: all 256 ways to swap the two treatments' values in whole clusters."""
    summary = summary_of(tmp_path, usual, treatments=("none", "paper", "retrieval"), clusters=8)
    rows = summary.log.rows
    for change in summary.changes:
        sums = [
            rows.filter(pl.col("treatment") == name).group_by("set").agg(pl.col("value").sum()).sort("set")["value"]
            for name in ("none", change.arm.treatment)
        ]
        differences = (sums[1] - sums[0]).to_numpy()
        swapped = [abs(float(np.dot(signs, differences))) for signs in product((1, -1), repeat=8)]
        seen = abs(float(differences.sum()))
        by_hand = np.mean([value >= seen * (1 - 1e-9) for value in swapped])
        assert change.change.p_value == pytest.approx(by_hand, abs=1e-12)


def by_holm(p_values: Sequence[float]) -> list[float]:
    """The smallest times their number, the next times one less …, never below the one before."""
    adjusted, before = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=lambda n: p_values[n])):
        before = max(before, min(1.0, p_values[number] * (len(p_values) - rank)))
        adjusted[number] = before
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
        own = [change for change in summary.changes if change.metric == metric]
        assert len(own) == 4
        assert [one.p_value for one in own] == pytest.approx(by_holm([one.change.p_value for one in own]))
        assert [one.p_psi for one in own] == pytest.approx(by_holm([one.change.p_psi for one in own]))
    corrected = [one.p_value for one in summary.changes if one.p_value != one.change.p_value]
    assert any(0.01 < p < 1 for p in corrected), "the premise"


def test_the_same_log_gives_the_same_numbers(tmp_path: Path) -> None:
    """Whatever the order of its rows; another seed draws other samples."""
    rows = rows_of(usual)
    first, second, third = (
        summarize_search(log_of(tmp_path / name, rows, shuffled=shuffled, seed=seed)).to_dict()
        for name, shuffled, seed in (("a", True, 0), ("b", False, 0), ("c", True, 1))
    )
    for one in (first, second, third):
        one.pop("folder")
    assert first == second
    assert first["results"][0]["overall"]["estimate"] == third["results"][0]["overall"]["estimate"]
    assert first["results"][0]["overall"]["low"] != third["results"][0]["overall"]["low"]


# Positions.


def test_runs_of_128_tokens(tmp_path: Path) -> None:
    """Up to 127 tokens are the first run, 128 begin the second; the last is open."""
    before = [0, 127, 128, 300, 895, 896, 5000]
    rows = rows_of(
        usual, ("none", "paper"), positions=range(1, 8), offset=lambda position, cluster: before[position - 1]
    )
    summary = summarize_search(log_of(tmp_path, rows.with_columns(position=pl.lit(1, pl.Int16)), positions="fifths"))
    expected = {"0–127": [0, 127], "128–255": [128], "256–383": [300], "768–895": [895], "896…": [896, 5000]}
    assert [run.arm for run in summary.runs] == summary.arms
    for found in summary.runs:
        assert found.metric == "ndcg@10"
        assert found.groups == tuple(expected)
        own = rows.filter(pl.col("treatment") == found.arm.treatment)
        means = [own.filter(pl.col("offset").is_in(there))["value"].mean() for there in expected.values()]
        assert [mean.estimate for mean in found.effects.groups] == pytest.approx(means)
        assert found.effects.counts.group_queries == tuple(12 * len(there) for there in expected.values())


def test_runs_of_queries_without_evidence(tmp_path: Path) -> None:
    """Some queries know where their evidence lies and some do not: these count overall, and in no group."""
    rows = rows_of(usual, ("none",), positions=(1, None, 3))
    summary = summarize_search(log_of(tmp_path / "some", rows, positions="fifths"))
    (result,), (found,) = summary.results, summary.runs
    assert result.groups == ("1", "3")
    assert found.groups == ("0–127", "128–255")
    for one in (result, found):
        assert one.effects.overall.estimate == pytest.approx(rows["value"].mean())
        means = [rows.filter(pl.col("position") == position)["value"].mean() for position in (1, 3)]
        assert [mean.estimate for mean in one.effects.groups] == pytest.approx(means)
    nowhere = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    summary = summarize_search(log_of(tmp_path / "none", nowhere, positions=None))
    assert summary.runs == ()
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
    assert summary.changes[0].groups == summary.results[0].groups


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
    (advice,) = [one for one in summary.advice if one.treatment == "paper"]
    assert [one.treatment for one in summary.advice] == [n for n in names[1:] if not n.endswith(ONLY)]
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
    found, sentence = advised(tmp_path, shift)
    assert found == kind
    said = {"use": "use it: ", "documents only": "use it on documents only: ", "leave": "leave it: "}[kind]
    assert sentence.startswith(said)


def test_advice_that_needs_more_data(tmp_path: Path) -> None:
    """Much noise, or so few clusters that a gain could be chance."""
    kind, sentence = advised(tmp_path / "noisy", {"paper": [0.02] * 4}, scale=0.3)
    assert kind == "more data"
    assert sentence.startswith("more queries are needed to decide: ndcg@10 0.475 → ")
    assert advised(tmp_path / "few", {"paper": GAIN}, clusters=4)[0] == "more data", "all four gain: p = 1/8"
    shift = {"paper": LOSS, f"paper{ONLY}": [0.05, -0.05, 0.05, 0.0]}
    kind, sentence = advised(tmp_path / "twin", shift, clusters=4)
    assert kind == "more data", "on documents only, which may still help where both sides do not"


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
        "use it: ndcg@10 0.475 → 0.480 (+0.005 [+0.005, +0.005]), weakest position 0.300 → 0.370, PSI 0.57 → 0.38"
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
    assert [advice.kind for advice in summary.advice] == ["use" if metric == "mrr" else "leave"]


def test_advice_is_about_treatments_of_whole_documents(tmp_path: Path) -> None:
    """Chunks are compared, and not advised; a documents-only treatment without its twin is advised as it is."""
    named = f"retrieval{ONLY}"
    rows = rows_of(
        lambda t, m, p, c: 0.4 + 0.1 * (t != "none") + noise(0.01)(t, p, c),
        ("none", "paper", f"paper{ONLY}", named),
        indexes=[("none", "chunk-max")],
    )
    summary = summarize_search(log_of(tmp_path, rows))
    assert [(one.treatment, one.kind) for one in summary.advice][1:] == [(named, "use")]
    assert summary.advice[0].treatment == "paper"
    assert [str(arm) for arm in summary.arms] == [
        "none",
        "none, chunk-max",
        "paper",
        "paper, documents only",
        "retrieval, documents only",
    ]


def test_one_treatment_gets_no_advice(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, usual, treatments=("none",))
    assert (summary.advice, summary.changes) == ((), ())
    assert "note" not in printed(summary)


# JSON.


def test_the_summary_is_json(wide: RetrievalSummary, tmp_path: Path) -> None:
    """Also where positions are not known, or one treatment finds nothing at all."""
    nowhere = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    nothing = rows_of(lambda t, m, p, c: 0.3 * (t == "paper") * (p < 3), ("none", "paper"))
    summaries = [
        wide,
        summarize_search(log_of(tmp_path / "nowhere", nowhere, positions=None)),
        summarize_search(log_of(tmp_path / "nothing", nothing)),
    ]
    for summary in summaries:
        written = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
        assert written["run"] == summary.log.run
        assert len(written["results"]) == len(summary.results)
        assert len(written["changes"]) == len(summary.changes)
        for one, result in zip(written["results"], summary.results, strict=True):
            assert one["overall"]["estimate"] == result.effects.overall.estimate
            assert [group["group"] for group in one["groups"]] == list(result.groups)
    assert written["results"][0]["psi"]["estimate"] is None, "no share of nothing"


# The terminal.


def printed(summary: RetrievalSummary, width: int = 80) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_search(console, summary)
    return console.export_text()


LONG = "paper+basket_size=64+sides=query"


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> RetrievalSummary:
    """Long names, all default metrics, fifths and four runs, four further indexes."""
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


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_number_is_cut_off(crowded: RetrievalSummary, wide: RetrievalSummary, width: int) -> None:
    """Every mean, change and PSI stands there as it is."""
    for summary in (crowded, wide):
        text = printed(summary, width)
        assert "…" not in text
        assert all(len(line) <= width for line in text.splitlines() if not line.startswith(("log: ", "m on ")))
        first = summary.metrics[0]
        for arm in summary.arms:
            effects = summary.result(arm, first).effects
            assert f"{effects.overall.estimate:.3f}" in text
            assert f"{effects.psi.estimate:.2f}" in text
            change = summary.change(arm, first)
            if change is not None:
                found = change.change.overall
                shown = f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−")
                assert shown in text
            for metric in summary.metrics[1:]:
                assert f"{summary.result(arm, metric).effects.overall.estimate:.3f}" in text


def test_long_names_are_not_cut_off(tmp_path: Path) -> None:
    name = "paper+basket_size=32+layers=[1,3,5]+strength=0.25"
    rows = rows_of(lambda t, m, p, c: 0.5 + noise()(t, p, c), ("none", name))
    text = printed(summarize_search(log_of(tmp_path, rows)))
    assert "…" not in text


def test_the_chart_has_every_position(crowded: RetrievalSummary) -> None:
    text = printed(crowded)
    assert "ndcg@10 by fifth of the evidence" in text
    for arm in crowded.arms:
        if arm.index != "whole":
            continue
        for name, mean in zip(*(lambda r: (r.groups, r.effects.groups))(crowded.result(arm, "ndcg@10")), strict=True):
            line = rf"^ {name} +[█▏▎▍▌▋▊▉]+ +{mean.estimate:.3f} \[{mean.low:.3f}, {mean.high:.3f}\]"
            assert re.search(line, text, re.MULTILINE)


def test_advice_comes_first(crowded: RetrievalSummary) -> None:
    text = " ".join(printed(crowded, 300).split())
    places = [text.index(f"{one.treatment} {one.sentence}") for one in crowded.advice]
    assert len(places) == 3
    assert places == sorted(places)
    assert places[-1] < text.index("ndcg@10 by fifth")


def plain(table: Any, width: int = 120) -> list[str]:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


@pytest.fixture(scope="module")
def eight_runs(tmp_path_factory: pytest.TempPathFactory) -> RetrievalSummary:
    rows = rows_of(
        usual,
        ("none", "paper"),
        offset=lambda position, cluster: 128 * ((5 * cluster + position) % 9),
        plans=[("", "")],
    )
    return summarize_search(log_of(tmp_path_factory.mktemp("runs") / "run", rows, positions="fifths"))


def test_the_table_of_runs(eight_runs: RetrievalSummary) -> None:
    """A column for each run with its queries, a row for each arm, in a wide terminal."""
    text = "\n".join(line for table in run_tables(eight_runs, 200) for line in plain(table, 200))
    counts = eight_runs.log.rows.filter(pl.col("treatment") == "none")
    runs = counts.group_by(pl.min_horizontal(pl.col("offset") // 128, 7).alias("run")).len().sort("run").rows()
    assert len(runs) == 8
    for number, count in runs:
        name = f"{128 * number}–{128 * number + 127}" if number < 7 else "896…"
        assert f"{name} ({count})" in text
    assert all(f"{mean.estimate:.3f}" in text for found in eight_runs.runs for mean in found.effects.groups)


def test_eight_runs_fit_a_terminal(eight_runs: RetrievalSummary) -> None:
    text = " ".join(line for table in run_tables(eight_runs, 80) for line in plain(table, 80))
    assert all(name in text for name in eight_runs.runs[0].groups)
    assert all(f"{mean.estimate:.3f}" in text for found in eight_runs.runs for mean in found.effects.groups)


def test_the_table_of_costs(crowded: RetrievalSummary) -> None:
    text = plain(cost_table(crowded), 160)
    (line,) = [line for line in text if "none, chunk-max" in line]
    quality = crowded.result(Arm("none", "chunk-max"), "ndcg@10").effects.overall.estimate
    assert line.split()[2:] == ["4.3", "0.1", "20,000", "2", f"{quality:.3f}"]
    assert crowded.cost(Arm("none", "late-max"))["vectors"] == 173
    assert "what an index costs" in printed(crowded)


def test_plans_have_charts_of_their_own(wide: RetrievalSummary) -> None:
    """And the tables are of all plans together."""
    text = printed(wide)
    assert [f"ndcg@10 by segment of the evidence, {plan}" in text for plan in ("en", "de", "de:en")] == [True] * 3


def test_names_from_outside_are_not_markup(tmp_path: Path) -> None:
    """Brackets in the name of a treatment or a note are shown as they are."""
    name = "paper+layers=[1,3]"
    rows = rows_of(lambda t, m, p, c: 0.5 + noise()(t, p, c), ("none", name))
    log = log_of(tmp_path, rows, notes=["a note with [bold]brackets[/bold]"])
    text = printed(summarize_search(log), 120)
    assert name in text
    assert "note: a note with [bold]brackets[/bold]" in text


def test_a_position_of_few_clusters_has_no_nan_in_the_terminal(tmp_path: Path) -> None:
    """The fifth of one cluster alone: one in three bootstrap samples does not have it."""
    rows = rows_of(usual, ("none", "paper")).filter((pl.col("position") < 4) | (pl.col("set") == 0))
    summary = summarize_search(log_of(tmp_path, rows, positions="fifths"))
    assert np.isnan(summary.results[0].effects.groups[3].low), "the premise"
    assert "nan" not in printed(summary)


# Few queries.


def test_one_cluster_has_means_without_intervals(tmp_path: Path) -> None:
    """As docs/evaluate.md says of scores: without an interval."""
    summary = summary_of(tmp_path, usual, treatments=("none", "paper"), clusters=1)
    overall = summary.results[0].effects.overall
    assert overall.estimate == pytest.approx(summary.log.rows.filter(pl.col("treatment") == "none")["value"].mean())
    assert np.isnan(overall.low)
    assert summary.advice == ()
    json.dumps(summary.to_dict(), allow_nan=False)
    assert "nan" not in printed(summary)


# The picture.


@pytest.mark.parametrize("metric", [None, "mrr"])
def test_bars_are_the_means(wide: RetrievalSummary, metric: str | None) -> None:
    """Read back from the figure: one panel a plan, one group of bars an arm, and whiskers over the intervals."""
    pytest.importorskip("matplotlib")
    figure = draw_search(wide, metric)
    plans = ["en", "de", "de:en"]
    assert sorted(axes.get_title() for axes in figure.axes) == sorted(plans)
    drawn = wide.shown(9)
    for axes in figure.axes:
        bars = [container for container in axes.containers if hasattr(container, "patches")]
        assert len(bars) == len(drawn)
        for arm, container in zip(drawn, bars, strict=True):
            result = wide.result(arm, metric or "ndcg@10", axes.get_title())
            heights = [patch.get_height() for patch in container.patches]
            assert heights == pytest.approx([mean.estimate for mean in result.effects.groups])
            (whiskers,) = container.errorbar.lines[2]
            ends = [(segment[0][1], segment[1][1]) for segment in whiskers.get_segments()]
            for end, mean in zip(ends, result.effects.groups, strict=True):
                assert end == pytest.approx((mean.low, mean.high))
            assert container.get_label() == f"{arm} ({result.effects.overall.estimate:.3f})"
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "4"]
        assert axes.get_xlabel() == "segment of the page that is looked for"
        levels = sorted(line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--")
        overall = [wide.result(arm, metric or "ndcg@10", axes.get_title()).effects.overall.estimate for arm in drawn]
        assert levels == pytest.approx(sorted(overall))


def test_the_picture_shows_treatments_as_they_are_advised(tmp_path: Path) -> None:
    """On documents only where that is the advice, else on both sides; the baseline and other indexes always."""
    level = {"none": 0.4, "paper": 0.45, f"paper{ONLY}": 0.6, "retrieval": 0.6, f"retrieval{ONLY}": 0.45}
    rows = rows_of(
        lambda t, m, p, c: level.get(t, 0.5) + noise(0.01)(t, p, c), tuple(level), indexes=[("none", "chunk-max")]
    )
    summary = summarize_search(log_of(tmp_path, rows))
    assert {one.treatment: one.kind for one in summary.advice} == {"paper": "documents only", "retrieval": "use"}
    assert [str(arm) for arm in summary.shown(9)] == ["none", "paper, documents only", "retrieval", "none, chunk-max"]
    assert [str(arm) for arm in summary.shown(2)] == ["none", "paper, documents only"]


def test_one_bar_where_positions_are_not_known(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = rows_of(usual, ("none", "paper"), positions=(None,), plans=[("", "")])
    summary = summarize_search(log_of(tmp_path, rows, positions=None))
    (axes,) = draw_search(summary).axes
    heights = [patch.get_height() for container in axes.containers for patch in getattr(container, "patches", [])]
    assert heights == pytest.approx([result.effects.overall.estimate for result in summary.results])
    assert axes.get_xlabel() == "all queries"
    assert "nan" not in printed(summary)


def test_a_picture_of_a_metric_that_is_not_there(wide: RetrievalSummary, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has no recall@5, only ndcg@10, mrr"):
        draw_search(wide, "recall@5")
    pytest.importorskip("matplotlib")
    save_search_picture(wide, tmp_path / "deep" / "p.svg")
    assert (tmp_path / "deep" / "p.svg").stat().st_size > 1000
    with pytest.raises(LogError, match=r"a picture is one of .png, .svg, .pdf, got 'p.jpg'"):
        save_search_picture(wide, tmp_path / "p.jpg")


# Comparisons.


def test_two_runs_are_compared_query_by_query(tmp_path: Path) -> None:
    first = log_of(tmp_path / "one", rows_of(usual, ("none", "paper"), metrics=METRICS))
    higher = rows_of(usual, ("none", "paper"), metrics=METRICS).with_columns(value=pl.col("value") + 0.25)
    # The second run has fewer queries, of which one is its own.
    fewer = higher.filter(pl.col("set") < 10).with_columns(
        query=pl.when(pl.col("query") == "q9-4").then(pl.lit("new")).otherwise(pl.col("query"))
    )
    second = log_of(tmp_path / "two", fewer)
    changes = compare_searches(first, second, ("none", "none"))
    assert {(change.metric, change.arm.index) for change in changes} == {(metric, "whole") for metric in METRICS}
    for change in changes:
        assert change.change.counts.queries == 39
        assert change.change.overall.estimate == pytest.approx(0.25)
        assert [one.estimate for one in change.change.groups] == pytest.approx([0.25] * 4)
        assert (change.p_value, change.p_psi) == (change.change.p_value, change.change.p_psi)
        json.dumps(change.to_dict(), allow_nan=False)
    (crossed, _) = compare_searches(first, first, ("none", "paper"))
    rows = first.rows.filter(pl.col("measure") == crossed.metric)
    means = dict(rows.group_by("treatment").agg(pl.col("value").mean()).rows())
    assert crossed.change.overall.estimate == pytest.approx(means["paper"] - means["none"])
    assert str(crossed.arm) == "none → paper"


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    first = log_of(tmp_path / "one", rows_of(usual, ("none", "paper")))
    other = rows_of(usual, ("none", "paper")).with_columns(query=pl.lit("x") + pl.col("query"))
    second = log_of(tmp_path / "two", other, run="m-87654321")
    with pytest.raises(LogError, match="m-12345678 and m-87654321 have no query in common"):
        compare_searches(first, second, ("none", "none"))
    with pytest.raises(LogError, match="the run m-12345678 has no treatment 'retrieval', only none, paper"):
        compare_searches(first, first, ("none", "retrieval"))


def test_pages_of_the_same_name_need_not_be_the_same(tmp_path: Path) -> None:
    """The second run has every query at another position of a page of that name."""
    rows = rows_of(usual, ("none",))
    turned = rows.with_columns(position=(pl.col("position") % 4 + 1).cast(pl.Int16))
    first, second = log_of(tmp_path / "one", rows), log_of(tmp_path / "two", turned, seed=1)
    with pytest.raises(LogError, match="in common"):
        compare_searches(first, second, ("none", "none"))


def test_compare_on_the_command_line(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    log_of(one, rows_of(usual, ("none", "paper"), metrics=METRICS))
    log_of(two, rows_of(usual, ("none", "paper"), metrics=METRICS).with_columns(value=pl.col("value") / 2))
    done = run("compare", one, two, "--treatments", "none,paper", "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    by_hand = compare_searches(read_log(one), read_log(two), ("none", "paper"))
    assert said == [change.to_dict() for change in by_hand]
    shown = run("compare", one)
    assert shown.code == 0, shown.err
    assert "none → paper" in shown.out
    (change, _) = compare_searches(read_log(one), read_log(one), ("none", "paper"))
    found = change.change.overall
    assert f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]".replace("-", "−") in shown.out
    both = run("compare", one, two)
    assert both.code == 0, both.err
    assert [line.strip() for line in both.out.splitlines() if "→" in line] == ["none → none", "paper → paper"]


def test_tables_of_changes_fit(wide: RetrievalSummary) -> None:
    changes = compare_searches(wide.log, wide.log, ("none", f"paper{ONLY}"))
    for table in change_tables(changes):
        lines = plain(table, 80)
        assert "…" not in "\n".join(lines)
        assert all(any(line.split()[:1] == [metric] for line in lines) for metric in METRICS)


def an_audit(folder: Path) -> RunLog:
    return simulated_log(folder, [simulated_rows(lambda position, number: 0.5)])


def test_an_audit_and_an_evaluation_have_nothing_to_compare(run: Run, tmp_path: Path) -> None:
    log_of(tmp_path / "search", rows_of(usual, ("none",)))
    audit = an_audit(tmp_path / "audit")
    for pair in (("search", "audit"), ("audit", "search")):
        done = run("compare", *(tmp_path / name for name in pair))
        assert done.code == 2
        assert done.last == (
            "fairspan: an audit and an evaluation have nothing to compare: name two runs of the same kind."
        )
    with pytest.raises(LogError, match=f"the run {audit.run} is an audit, not an evaluation"):
        summarize_search(audit)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--treatments", "none"], "--treatments names two treatments, such as none,paper, got 'none'"),
        (["--treatments", "none,papre"], "has no treatment 'papre', only none, paper"),
        ([], "has one treatment"),
    ],
)
def test_mistakes_of_a_comparison(run: Run, tmp_path: Path, options: list[str], said: str) -> None:
    log_of(tmp_path / "one", rows_of(usual, ("none", "paper") if options else ("none",)))
    done = run("compare", tmp_path / "one", *options)
    assert done.code == 2
    assert said in done.last
    assert done.err.count("fairspan: ") == 1


def test_a_run_whose_twin_was_passed_over_can_be_compared(run: Run, tmp_path: Path) -> None:
    log_of(tmp_path / "one", rows_of(usual, ("none", "paper")), spec={"documents_only": True})
    assert f"paper{ONLY}" in read_log(tmp_path / "one").treatments, "the premise"
    done = run("compare", tmp_path / "one")
    assert done.code == 0, done.err
    assert "none → paper" in done.out


def test_an_evaluation_has_no_published_tables(run: Run, tmp_path: Path) -> None:
    log_of(tmp_path / "one", rows_of(usual, ("none", "paper")))
    done = run("compare", tmp_path / "one", "--published")
    assert done.code == 2
    assert done.err.count("fairspan: ") == 1


def test_one_cluster_can_be_compared(tmp_path: Path) -> None:
    """The difference is known, if not its interval."""
    log = log_of(tmp_path, rows_of(usual, ("none", "paper"), clusters=1))
    (change,) = compare_searches(log, log, ("none", "paper"))
    means = dict(log.rows.group_by("treatment").agg(pl.col("value").mean()).rows())
    assert change.change.overall.estimate == pytest.approx(means["paper"] - means["none"])
