"""What an audit shows of simulated rows: verdicts, frames, tables and charts, recomputed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fairspan.report.text import with_ends
from fairspan.report.view import View
from fairspan.runs.log import RunLog
from fairspan.stats.positions import marker, position_effects
from fairspan.studies.audit.rows import with_languages
from fairspan.studies.audit.view import view_of
from tests.builders.simulated import (
    DEPTH,
    attention_rows,
    audit_log,
    simulated_log,
    simulated_rows,
)
from tests.report.example import printed, table_of

PLANS = [("en", "en"), ("de", "de"), ("de", "en"), ("zh", "en")]
NAMES = ["en", "de", "de:en", "zh:en"]
# Biased, fair and undecided under these: large effects, none, and small ones in much noise.
EFFECTS: dict[str, tuple[float, float]] = {
    "plain": (0.10, 0.01),
    "paper": (0.0, 0.002),
    "retrieval": (0.015, 0.04),
}


def falling(effect: float, noise: float, **options: Any) -> pl.DataFrame:
    """Rows that lose `effect` with each position."""
    return simulated_rows(lambda position, _: 0.7 - effect * (position - 1), noise=noise, **options)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Three treatments, two sizes, two languages, two mixtures; retention and attention of one."""
    tables = []
    for name, (effect, noise) in EFFECTS.items():
        tables += [
            falling(effect, noise, n=n, plan=plan, treatment=name) for n in (2, 3) for plan in PLANS
        ]
        tables.append(falling(0.0, 0.001, treatment=name, measure="retention"))
        tables.append(attention_rows(name))
    return simulated_log(
        tmp_path_factory.mktemp("logs") / "run",
        tables,
        list(EFFECTS),
        plans=NAMES,
        spec={"sizes": [2, 3], "languages": ["en", "de"], "mixed": ["de:en", "zh:en"]},
        notes=["a note that a reader should see"],
    )


@pytest.fixture(scope="module")
def view(log: RunLog) -> View:
    return view_of(log)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """One family of documents, three treatments."""
    tables = [falling(effect, noise, treatment=name) for name, (effect, noise) in EFFECTS.items()]
    return simulated_log(tmp_path_factory.mktemp("single") / "run", tables, list(EFFECTS))


# --- statistics


def test_position_means_are_means(log: RunLog, view: View) -> None:
    """Up to rounding in the last place."""
    keys = ("measure", "treatment", "n", "lead", "later")
    uneven = {
        tuple(row[key] for key in keys): row for row in view.frame("families").iter_rows(named=True)
    }
    for key, rows in view.frame("means").partition_by(keys, as_dict=True).items():
        own = with_languages(log.rows).filter(**dict(zip(keys, key, strict=True)))
        by_position = (
            own.group_by("position").agg(pl.col("value", "tokens").mean()).sort("position")
        )
        means = by_position["value"].to_numpy()
        np.testing.assert_allclose(rows["estimate"], means, rtol=1e-12)
        np.testing.assert_allclose(rows["tokens"], by_position["tokens"], rtol=1e-12)
        coefficients = view.frame("coefficients").filter(**dict(zip(keys, key, strict=True)))[
            "estimate"
        ]
        np.testing.assert_allclose(
            coefficients, [means[0], *(means[1:] - means[0])], rtol=0, atol=1e-12
        )
        mixed = rows["lead"][0] != rows["later"][0]
        found = uneven[key]
        if mixed and len(means) == 2:
            assert found["spread_estimate"] is None
            continue
        # In a mixed plan position 1 is in another language.
        means = means[mixed:]
        assert found["spread_estimate"] == pytest.approx(means.max() - means.min(), abs=1e-12)
        assert found["psi_estimate"] == pytest.approx(1 - means.min() / means.max(), abs=1e-12)


@pytest.mark.parametrize(
    ("inference", "sets", "shared", "used"),
    [
        ("auto", 8, False, "jackknife"),
        ("auto", 40, False, "jackknife"),
        ("auto", 8, True, "two-way"),
        ("z", 8, True, "z"),
        ("z", 40, False, "z"),
    ],
)
def test_coefficients_are_those_of_the_inference(
    tmp_path: Path, inference: str, sets: int, shared: bool, used: str
) -> None:
    """Also of both kinds of clusters where sets share segments; published tables use z."""
    table = falling(0.01, 0.03, sets=sets, shared=shared)
    spec = {"inference": inference}
    log = simulated_log(tmp_path / "run", [table], spec=spec)
    columns = [table[name].to_numpy() for name in ("value", "position", "set", "segment")]
    wanted = position_effects(*columns, inference=used).coefficients
    found = log.frame("coefficients")
    assert set(found["inference"]) == {used}
    for name in ("estimate", "standard_error", "p", "low", "high"):
        np.testing.assert_array_equal(found[name], getattr(wanted, name))
    assert found["marker"].to_list() == [marker(p) for p in wanted.p]
    clustered = "errors are clustered on sets and on segments"
    assert any(clustered in note for note in view_of(log).notes) == (used == "two-way")


# --- verdicts


def test_verdicts_of_one_family_are_its_sentence(single: RunLog) -> None:
    """0.1 a position is biased and worst at the last; 0 is fair; little in much noise is open."""
    verdicts = single.verdicts.select("treatment", "verdict").rows()
    assert verdicts == list(zip(EFFECTS, ("biased", "fair", "inconclusive"), strict=True))
    said, fair, undecided = single.verdicts["sentence"]
    assert fair.startswith("within ±0.02; against plain, position 1 ")
    assert re.match(r"`--sets \d+` would decide it; against plain, position 1 ", undecided)
    last = single.frame("coefficients").filter(treatment="plain", position=3).row(0, named=True)
    assert said.startswith(
        f"position 3 is {-last['estimate']:.2f} less represented than position 1 ["
    )
    ends = [float(end.replace("−", "-")) for end in re.findall(r"−?\d\.\d+(?=[,\]])", said)]
    np.testing.assert_allclose(ends, [last["low"], last["high"]], atol=0.005)
    cards = single.view.cards
    assert [(card.name, card.badge) for card in cards] == verdicts
    assert cards[1].sentences[0] == fair
    spread = single.frame("families").filter(treatment="plain")["spread_estimate"][0]
    assert cards[0].sentences[1] == f"spread between positions {spread:.3f}"


def test_verdicts_of_several_families_name_the_worst(view: View) -> None:
    # Two of eight families have one segment in each of two languages: positions are not compared.
    verdicts = view.frame("verdicts").filter(measure="representation")
    assert verdicts["verdict"].to_list() == ["biased", "fair", "inconclusive"]
    biased, fair, undecided = verdicts["sentence"]
    assert fair.startswith("within ±0.02 in all 6 families of documents; against plain, ")
    families = view.frame("families").filter(measure="representation")
    own = families.filter(treatment="plain")
    # The largest effect is at the third position.
    worst = own.sort(pl.col("estimate").abs(), descending=True, nulls_last=True).row(0, named=True)
    assert (worst["n"], worst["lead"], worst["position"], worst["against"]) == (
        3,
        worst["later"],
        3,
        1,
    )
    assert biased.startswith(
        f"in 6 of 6 families of documents, strongest for {worst['plan']}, n=3: position 3 is"
    )
    still_open = families.filter(treatment="retrieval", verdict="inconclusive")
    hardest = still_open.filter(pl.col("sets_needed").is_null())
    example = re.match(r"in (\d) of 6 families of documents, such as (\w+), n=(\d): ", undecided)
    assert example is not None
    count, plan, n = example.groups()
    assert int(count) == len(still_open)
    assert (plan, int(n)) in hardest.select("plan", "n").rows(), "one that no number decides"
    assert "no realistic number of sets would decide it; against plain, " in undecided
    none = families.filter(pl.col("verdict") == "not compared")
    assert {(one["n"], one["lead"] != one["later"]) for one in none.iter_rows(named=True)} == {
        (2, True)
    }


@pytest.mark.parametrize("sets", [(8, 8), (8, 12)])
def test_what_is_typed_to_decide_all_families(tmp_path: Path, sets: tuple[int, int]) -> None:
    """One number for all sizes, or one for each if they have different numbers already."""
    tables = [
        falling(0.012, 0.03, n=n, sets=count, stream=n)
        for n, count in zip((2, 3), sets, strict=True)
    ]
    log = simulated_log(tmp_path / "run", tables, spec={"sizes": [2, 3]})
    families = log.frame("families").sort("n")
    assert families["verdict"].to_list() == ["inconclusive", "inconclusive"], "the premise"
    small, large = families["sets_needed"].to_list()
    option = str(max(small, large)) if len(set(sets)) == 1 else f"2:{small},3:{large}"
    sentence = log.verdicts["sentence"][0]
    assert sentence == f"in 2 of 2 families of documents: `--sets {option}` would decide it"


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        (-0.05, 0.1, ("loses", "gain")),
        (0.05, 0.1, ("gains", "gain")),
        (0.05, -0.05, ("gains", "lose")),
        (0.0, 0.0, ("shows no clear change", "show no clear change")),
    ],
)
def test_verdicts_say_what_position_1_and_the_others_gain(
    tmp_path: Path, first: float, later: float, said: tuple[str, str]
) -> None:
    """Over sizes 3 and 4, of which each has its own sets."""
    tables = [
        simulated_rows(lambda p, _, by=by: 0.5 + by[p > 1], n=n, treatment=name, stream=stream + n)
        for stream, name, by in ((0, "plain", (0.0, 0.0)), (20, "paper", (first, later)))
        for n in (3, 4)
    ]
    tables = [
        one.with_columns(pl.format("{}/{}", "n", "segment").alias("segment")) for one in tables
    ]
    log = simulated_log(tmp_path / "run", tables, ("plain", "paper"), spec={"sizes": [3, 4]})
    wide = log.rows.pivot(
        "treatment", index=["n", "set", "document", "position", "segment"], values="value"
    )
    wide = wide.with_columns(
        place=pl.col("position").clip(1, 2), change=pl.col("paper") - pl.col("plain")
    )
    segments = wide.group_by("n", "set", "segment", "place").agg(
        pl.col("plain", "paper", "change").mean()
    )
    parts = []
    for place, verb in zip((1, 2), said, strict=True):
        own = segments.filter(place=place)
        changes = own["change"].mean()
        record = log.frame("gains").row(place - 1, named=True)
        assert record["change_estimate"] == pytest.approx(changes, abs=1e-12)
        size = "" if "no clear" in verb else f" {abs(changes):.3f}"
        name = ("position 1", "later positions")[place - 1]
        parts.append(f"{name} {verb}{size} ({own['plain'].mean():.3f} → {own['paper'].mean():.3f})")
    sentence = f"against plain, {' and '.join(parts)}"
    assert log.verdicts["sentence"][1].endswith(f"; {sentence}")
    assert "against" not in log.verdicts["sentence"][0]
    assert sentence in " ".join(printed(log.view).split())


def test_sets_of_two_sizes_are_different_clusters(tmp_path: Path) -> None:
    """Four sets of each of two sizes are eight clusters, though both are numbered from 0."""
    tables = [
        falling(0.02, 0.02, n=n, sets=4, treatment=name, stream=10 * n + place)
        for place, name in enumerate(("plain", "paper"))
        for n in (2, 3)
    ]
    tables = [
        one.with_columns(pl.format("{}/{}", "n", "segment").alias("segment")) for one in tables
    ]
    log = simulated_log(tmp_path / "run", tables, ("plain", "paper"), spec={"sizes": [2, 3]})
    freedom = log.frame("gains")["change_degrees_of_freedom"].to_list()
    assert freedom == [7, 7]


# --- JSON and odd runs


def strict(log: RunLog) -> Any:
    return json.loads(json.dumps(log.to_dict(), allow_nan=False))


def test_the_frames_are_strict_json(log: RunLog, view: View) -> None:
    found = strict(log)
    assert found["run"] == "m-12345678"
    assert set(view.frames) == {
        *("verdicts", "families", "coefficients", "means", "attention", "gains"),
    }
    for name, frame in view.frames.items():
        assert len(found[name]) == len(frame) > 0
    first = found["coefficients"][0]
    assert (first["position"], first["coefficient"], first["sets"], first["documents"]) == (
        1,
        "β0",
        8,
        16,
    )
    assert found["means"][0]["estimate"] == first["estimate"]


ODD: dict[str, dict[str, Any]] = {
    "constant": {"value": lambda p, s: 0.5, "noise": 0.0},
    "exact": {"value": lambda p, s: 0.5 - 0.1 * p, "noise": 0.0},
    "negative": {"value": lambda p, s: 0.1 - 0.2 * p},
    "all negative": {"value": lambda p, s: -0.3 - 0.1 * p},
    "zero": {"value": lambda p, s: 0.0, "noise": 0.0},
    "two sets": {"value": lambda p, s: 0.5, "sets": 2},
    "more positions than sets": {"value": lambda p, s: 0.5, "sets": 2, "n": 5},
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("inference", ["auto", "z"])
@pytest.mark.slow
def test_odd_values_are_strict_json_and_can_be_shown(
    tmp_path: Path, odd: str, inference: str
) -> None:
    """The least sets that a design allows; negative cosines; constants of a broken model."""
    log = simulated_log(
        tmp_path / "run", [simulated_rows(**ODD[odd])], spec={"inference": inference}
    )
    strict(log)
    assert "nan" not in printed(log.view, 80)


def test_languages_that_differ_in_nothing_can_be_shown(tmp_path: Path) -> None:
    """The same text in two languages: a difference of 0, whose variance may round below 0."""
    tables = [
        falling(0.0, 0.01, plan=plan, sets=3, stream=0) for plan in (("en", "de"), ("de", "en"))
    ]
    log = simulated_log(tmp_path / "run", tables)
    strict(log)
    assert "en − de" in printed(log.view, 120)


def test_a_run_that_was_stopped_shows_what_it_has(tmp_path: Path) -> None:
    """After the first of two treatments: what there is is summarised, what is missing is not."""
    tables = [falling(0.0, 0.01), attention_rows("plain")]
    log = simulated_log(tmp_path / "run", tables, ["plain", "paper"], status="interrupted")
    assert log.verdicts["treatment"].to_list() == ["plain"]
    assert [table.name for table in log.view.tables() if "attention" not in table.name] == [
        "representation-coefficients",
        "verdicts",
    ]
    assert [chart.names for chart in log.view.charts()] == [["plain"], ["plain"]]


def test_attention_alone_has_no_verdicts(tmp_path: Path) -> None:
    log = simulated_log(
        tmp_path / "run", [attention_rows("plain")], spec={"measures": ["attention"]}
    )
    assert log.verdicts.columns == ["model", "measure", "treatment", "verdict", "sentence"]
    assert log.verdicts.is_empty()
    assert set(log.view.frames) == {"verdicts", "attention"}
    assert log.view.picture == "attention"
    assert [chart.name for chart in log.view.charts()] == ["attention"]
    assert [table.name for table in log.view.tables()] == ["attention"]
    assert "log: here" in printed(log.view, ending="log: here")
    assert strict(log)["verdicts"] == []


# --- tables


def test_coefficients_have_a_column_for_each_treatment(view: View) -> None:
    table = table_of(view, "representation-coefficients")
    assert list(table.cells) == list(EFFECTS)
    records = {
        (row["plan"], str(row["n"]), row["coefficient"], row["treatment"]): row
        for row in view.frame("coefficients").filter(measure="representation").to_dicts()
    }
    assert [row[:3] for row in table.rows[:5]] == [
        ("en", "2", "β0"),
        ("en", "2", "β2"),
        ("en", "3", "β0"),
        ("en", "3", "β2"),
        ("en", "3", "β3"),
    ]
    for row in table.rows:
        for name, cell in zip(EFFECTS, row[3:], strict=True):
            record = records.pop((*row[:3], name))
            ends = with_ends(record["estimate"], record["low"], record["high"])
            assert cell == ends + marker(record["p"])
    assert not records


def test_sizes_that_were_not_measured_are_left_empty(tmp_path: Path) -> None:
    """A run that was stopped in its second treatment."""
    tables = [falling(0.0, 0.01, n=2), falling(0.0, 0.01, n=3)]
    tables.append(falling(0.0, 0.01, n=3, treatment="paper"))
    log = simulated_log(
        tmp_path / "run", tables, ["plain", "paper"], spec={"sizes": [2, 3]}, status="interrupted"
    )
    table = table_of(log.view, "representation-coefficients")
    empty = [[text == "–" for text in row[3:]] for row in table.rows]
    assert empty == [[False, True]] * 2 + [[False, False]] * 3


def test_the_table_of_verdicts(view: View) -> None:
    names = ["measure", "treatment", "verdict", "sentence"]
    assert table_of(view, "verdicts").rows == view.frame("verdicts").select(names).rows()


# --- profiles


@pytest.mark.parametrize("measure", ["representation", "retention"])
def test_profiles_are_the_means(view: View, measure: str) -> None:
    """By size and plan, with a line for each treatment."""
    chart = view.chart(f"{measure}-profiles")
    assert (chart.kind, chart.x, chart.names) == ("lines", "position", list(EFFECTS))
    means = view.frame("means").filter(measure=measure)
    sizes = [f"{name}, {n} segments" for n in (2, 3) for name in NAMES]
    assert [title for title, _ in chart.panels()] == (
        sizes if measure == "representation" else ["en"]
    )
    for title, rows in chart.panels():
        plan, _, n = title.partition(", ")
        own = means.filter(plan=plan, n=int(n[:1] or 3))
        assert_frame_equal(rows.select(own.columns), own, check_row_order=False)
    assert len(chart.frame) == len(means)


# --- attention


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return audit_log(tmp_path_factory.mktemp("attention") / "run", measures=["attention"])


def test_shares_are_means_over_the_documents_that_have_the_part(looked: RunLog) -> None:
    """By hand: over the last half of the layers, then over documents."""
    frame = looked.frame("attention")
    assert frame.select("first_layer", "last_layer").unique().rows() == [(DEPTH // 2 + 1, DEPTH)]
    for share in frame.filter(plan="zh:en", n=3).iter_rows(named=True):
        rows = looked.rows.filter(n=3, plan="zh:en", treatment=share["treatment"])
        own = rows.filter(pl.col("layer") >= DEPTH // 2, basket=share["part"])
        values = own.group_by("document").agg(pl.col("value").mean())["value"]
        assert share["estimate"] == pytest.approx(np.mean(values.to_numpy()), rel=1e-12, abs=1e-15)
        assert share["documents"] == len(values)
    baskets = frame.filter(n=3, plan="zh:en", treatment="plain")
    parts = ["first", "basket 1", "basket 2", "basket 3", "last", "other"]
    assert baskets["part"].to_list() == parts
    assert baskets.drop_nulls("number")["documents"].to_list() == [8, 5, 2]


def test_intervals_of_shares_are_statsmodels_s(tmp_path: Path) -> None:
    """Least squares on a constant with errors clustered by set, and the normal distribution."""
    api = pytest.importorskip("statsmodels.api")
    log = audit_log(tmp_path / "run", measures=["attention"], spec={"inference": "z"})
    rows = log.rows.filter(pl.col("layer") >= DEPTH // 2, n=2, plan="en", treatment="plain")
    shares = log.frame("attention").filter(n=2, plan="en", treatment="plain").drop_nulls("number")
    for share in shares.head(2).iter_rows(named=True):
        own = rows.filter(basket=share["part"])
        values = own.group_by("set", "document", maintain_order=True).agg(pl.col("value").mean())
        sets = values["set"].to_numpy()
        model = api.OLS(values["value"].to_numpy(), np.ones(len(values)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": sets}, use_t=False)
        low, high = fitted.conf_int()[0]
        assert (share["low"], share["high"]) == pytest.approx((low, high), rel=1e-9)
        assert share["sets"] == len(np.unique(sets))


def test_attention_charts_hold_the_shares(looked: RunLog) -> None:
    """Baskets, and then what is around the text; some intervals would end below 0 and above 1."""
    chart = looked.view.chart("attention")
    plans = ["en", "zh", "zh:en"]
    assert [title for title, _ in chart.panels()] == [
        f"{plan}, {n} segments" for n in (2, 3) for plan in plans
    ]
    _, rows = chart.panels()[0]
    assert rows["basket"].unique(maintain_order=True).to_list() == ["1", "2", "3", "first", "last"]
    limited = [pl.col(end).clip(0, 1) for end in ("low", "high")]
    shares = looked.frame("attention").filter(pl.col("part") != "other").with_columns(limited)
    drawn = chart.frame.select(shares.columns)
    assert_frame_equal(drawn, shares, check_row_order=False, check_exact=True)
    assert chart.domain(rows)[0] == 0


def test_the_table_of_attention_is_in_percent(looked: RunLog) -> None:
    table = table_of(looked.view, "attention")
    [row] = [row for row in table.rows if row[:3] == ("en", "2", "basket 1")]
    share = looked.frame("attention").filter(plan="en", n=2, part="basket 1", treatment="plain")
    ends = share.select("estimate", "low", "high").row(0)
    assert row[3] == with_ends(*(100 * end for end in ends), form=".1f")
    assert not any(row[2] == "other" for row in table.rows), "nothing is there"
