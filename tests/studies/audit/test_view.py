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


def by_treatment(**options: Any) -> list[pl.DataFrame]:
    """Of each treatment rows with its effect and noise."""
    return [falling(*effect, treatment=name, **options) for name, effect in EFFECTS.items()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Three treatments, two sizes, two languages, two mixtures; retention and attention of one."""
    tables = [table for n in (2, 3) for plan in PLANS for table in by_treatment(n=n, plan=plan)]
    for name in EFFECTS:
        tables.append(falling(0.0, 0.001, treatment=name, measure="retention"))
        tables.append(attention_rows(name))
    return simulated_log(
        tmp_path_factory.mktemp("logs") / "run",
        tables,
        list(EFFECTS),
        plans=NAMES,
        spec={"sizes": [2, 3], "languages": ["en", "de"], "mixed": ["de:en", "zh:en"]},
    )


@pytest.fixture(scope="module")
def view(log: RunLog) -> View:
    return view_of(log)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """One family of documents, three treatments."""
    return simulated_log(tmp_path_factory.mktemp("single"), by_treatment(), list(EFFECTS))


# --- statistics


def test_position_means_are_means(log: RunLog, view: View) -> None:
    """Up to rounding in the last place."""
    keys = ("measure", "treatment", "n", "lead", "later")
    families = view.frame("families").rows_by_key(keys, named=True, unique=True)
    for key, rows in view.frame("means").partition_by(keys, as_dict=True).items():
        family = dict(zip(keys, key, strict=True))
        by_position = (
            with_languages(log.rows)
            .filter(**family)
            .group_by("position")
            .agg(pl.col("value", "tokens").mean())
            .sort("position")
        )
        means = by_position["value"].to_numpy()
        np.testing.assert_allclose(rows["estimate"], means, rtol=1e-12)
        np.testing.assert_allclose(rows["tokens"], by_position["tokens"], rtol=1e-12)
        coefficients = view.frame("coefficients").filter(**family)["estimate"]
        expected = [means[0], *(means[1:] - means[0])]
        np.testing.assert_allclose(coefficients, expected, rtol=0, atol=1e-12)
        # In a mixed plan position 1 is in another language.
        means = means[family["lead"] != family["later"] :]
        if len(means) == 1:
            assert families[key]["spread_estimate"] is None
            continue
        unevenness = [families[key][f"{name}_estimate"] for name in ("spread", "psi")]
        expected = [means.max() - means.min(), 1 - means.min() / means.max()]
        assert unevenness == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("inference", "sets", "shared", "used"),
    [
        ("auto", 40, False, "jackknife"),
        ("auto", 8, True, "two-way"),
        ("z", 8, True, "z"),
    ],
)
def test_coefficients_are_those_of_the_inference(
    tmp_path: Path, inference: str, sets: int, shared: bool, used: str
) -> None:
    """Also of both kinds of clusters where sets share segments; published tables use z."""
    table = falling(0.01, 0.03, sets=sets, shared=shared)
    log = simulated_log(tmp_path / "run", [table], spec={"inference": inference})
    columns = [table[name].to_numpy() for name in ("value", "position", "set", "segment")]
    wanted = position_effects(*columns, inference=used).coefficients
    frame = log.frame("coefficients")
    assert set(frame["inference"]) == {used}
    for name in ("estimate", "standard_error", "p", "low", "high"):
        np.testing.assert_array_equal(frame[name], getattr(wanted, name))
    assert frame["marker"].to_list() == [marker(p) for p in wanted.p]
    clustered = "errors are clustered on sets and on segments"
    assert any(clustered in note for note in log.view.notes) == (used == "two-way")


# --- verdicts


def test_verdicts_of_one_family_are_its_sentence(single: RunLog) -> None:
    """0.1 a position is biased and worst at the last; 0 is fair; little in much noise is open."""
    verdicts = single.verdicts.select("treatment", "verdict").rows()
    assert verdicts == list(zip(EFFECTS, ("biased", "fair", "inconclusive"), strict=True))
    biased, fair, undecided = single.verdicts["sentence"]
    assert fair.startswith("within ±0.02; against plain, position 1 ")
    assert re.match(r"`--sets \d+` would decide it; against plain, position 1 ", undecided)
    last = single.frame("coefficients").filter(treatment="plain", position=3).row(0, named=True)
    size = f"{-last['estimate']:.2f}"
    assert biased.startswith(f"position 3 is {size} less represented than position 1 [")
    cards = single.view.cards
    assert [(card.name, card.badge) for card in cards] == verdicts
    spread = single.frame("families").filter(treatment="plain")["spread_estimate"][0]
    assert cards[0].sentences == (biased, f"spread between positions {spread:.3f}")


def test_verdicts_of_several_families_name_the_worst(view: View) -> None:
    # Two of eight families have one segment in each of two languages: positions are not compared.
    verdicts = view.frame("verdicts").filter(measure="representation")
    assert verdicts["verdict"].to_list() == ["biased", "fair", "inconclusive"]
    biased, fair, undecided = verdicts["sentence"]
    assert fair.startswith("within ±0.02 in all 6 families of documents; against plain, ")
    families = view.frame("families").filter(measure="representation")
    # The largest effect is at the third position.
    by_effect = families.filter(treatment="plain").sort(pl.col("estimate").abs(), nulls_last=False)
    worst = by_effect.row(-1, named=True)
    assert (worst["n"], worst["position"], worst["against"]) == (3, 3, 1)
    assert biased.startswith(
        f"in 6 of 6 families of documents, strongest for {worst['plan']}, n=3: position 3 is"
    )
    still_open = families.filter(treatment="retrieval", verdict="inconclusive")
    hardest = still_open.filter(pl.col("sets_needed").is_null())
    example = re.match(r"in (\d) of 6 families of documents, such as (\w+), n=(\d): ", undecided)
    assert example is not None
    assert "no realistic number of sets would decide it; against plain, " in undecided
    count, plan, n = example.groups()
    assert int(count) == len(still_open)
    assert (plan, int(n)) in hardest.select("plan", "n").rows(), "one that no number decides"
    none = families.filter(verdict="not compared").select("n", "plan").unique().rows()
    assert sorted(none) == [(2, "de:en"), (2, "zh:en")]


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


def of_different_segments(table: pl.DataFrame) -> pl.DataFrame:
    """The same rows with segments that no other size has."""
    return table.with_columns(segment=pl.format("{}/{}", "n", "segment"))


@pytest.mark.parametrize(
    ("first", "later", "said"),
    [
        (-0.05, 0.1, ("loses", "gain")),
        (0.05, -0.05, ("gains", "lose")),
        (0.0, 0.0, ("shows no clear change", "show no clear change")),
    ],
)
def test_verdicts_say_what_position_1_and_the_others_gain(
    tmp_path: Path, first: float, later: float, said: tuple[str, str]
) -> None:
    """Over sizes 3 and 4, of which each has its own sets: four of each are eight clusters, though
    both are numbered from 0."""
    tables = [
        simulated_rows(
            lambda p, _, by=by: 0.5 + by[p > 1], n=n, sets=4, treatment=name, stream=stream + n
        )
        for stream, name, by in ((0, "plain", (0.0, 0.0)), (20, "paper", (first, later)))
        for n in (3, 4)
    ]
    tables = [of_different_segments(table) for table in tables]
    log = simulated_log(tmp_path / "run", tables, ("plain", "paper"), spec={"sizes": [3, 4]})
    segments = (
        log.rows.with_columns(place=pl.col("position").clip(1, 2))
        .group_by("n", "set", "segment", "place", "treatment")
        .agg(pl.col("value").mean())
        .pivot("treatment", values="value")
    )
    parts = []
    for place, name, verb in zip((1, 2), ("position 1", "later positions"), said, strict=True):
        means = segments.filter(place=place).select(pl.col("plain", "paper").mean()).row(0)
        change = means[1] - means[0]
        record = log.frame("gains").row(place - 1, named=True)
        assert record["change_estimate"] == pytest.approx(change, abs=1e-12)
        assert record["change_degrees_of_freedom"] == 7
        size = "" if "no clear" in verb else f" {abs(change):.3f}"
        parts.append(f"{name} {verb}{size} ({means[0]:.3f} → {means[1]:.3f})")
    sentence = f"against plain, {' and '.join(parts)}"
    assert log.verdicts["sentence"][1].endswith(f"; {sentence}")
    assert "against" not in log.verdicts["sentence"][0]


def odd_rows(**changes: Any) -> list[pl.DataFrame]:
    return [simulated_rows(**{"value": lambda p, s: 0.5, **changes})]


# --- odd runs


ODD = {
    "constant": odd_rows(noise=0.0),
    "exact": odd_rows(value=lambda p, s: 0.5 - 0.1 * p, noise=0.0),
    "negative": odd_rows(value=lambda p, s: 0.1 - 0.2 * p),
    "all negative": odd_rows(value=lambda p, s: -0.3 - 0.1 * p),
    "zero": odd_rows(value=lambda p, s: 0.0, noise=0.0),
    "two sets": odd_rows(sets=2),
    "more positions than sets": odd_rows(sets=2, n=5),
    # A difference of 0, whose variance may round below 0.
    "the same text in two languages": [
        *odd_rows(plan=("en", "de"), sets=3, stream=0),
        *odd_rows(plan=("de", "en"), sets=3, stream=0),
    ],
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_values_are_strict_json_and_can_be_shown(tmp_path: Path, odd: str) -> None:
    """The least sets that a design allows; negative cosines; constants of a broken model."""
    for inference in ("auto", "z"):
        spec = {"inference": inference}
        log = simulated_log(tmp_path / inference, ODD[odd], spec=spec)
        json.dumps(log.to_dict(), allow_nan=False)
        assert "nan" not in printed(log.view, 80)


def test_a_run_that_was_stopped_shows_what_it_has(tmp_path: Path) -> None:
    """In the second of three treatments: what there is is summarised, what is missing is not."""
    tables = [falling(0.0, 0.01, n=2), falling(0.0, 0.01, n=3), attention_rows("plain")]
    tables.append(falling(0.0, 0.01, n=3, treatment="paper"))
    names = ["plain", "paper", "retrieval"]
    log = simulated_log(
        tmp_path / "run", tables, names, spec={"sizes": [2, 3]}, status="interrupted"
    )
    assert log.verdicts["treatment"].to_list() == ["plain", "paper"]
    assert [chart.names for chart in log.view.charts()] == [["plain", "paper"], ["plain"]]
    table = table_of(log.view, "representation-coefficients")
    empty = [[text == "–" for text in row[3:]] for row in table.rows]
    assert empty == [[False, True]] * 2 + [[False, False]] * 3


def test_attention_alone_has_no_verdicts(tmp_path: Path) -> None:
    rows = [attention_rows("plain")]
    log = simulated_log(tmp_path / "run", rows, spec={"measures": ["attention"]})
    assert log.verdicts.columns == ["model", "measure", "treatment", "verdict", "sentence"]
    assert log.verdicts.is_empty()
    assert set(log.view.frames) == {"verdicts", "attention"}
    assert log.view.picture == "attention"
    assert [chart.name for chart in log.view.charts()] == ["attention"]
    assert [table.name for table in log.view.tables()] == ["attention"]
    assert json.loads(json.dumps(log.to_dict(), allow_nan=False))["verdicts"] == []


# --- tables


def test_coefficients_have_a_column_for_each_treatment(view: View) -> None:
    table = table_of(view, "representation-coefficients")
    assert list(table.cells) == list(EFFECTS)
    frame = view.frame("coefficients").filter(measure="representation")
    cells = {
        (row["plan"], str(row["n"]), row["coefficient"], row["treatment"]): with_ends(
            row["estimate"], row["low"], row["high"]
        )
        + marker(row["p"])
        for row in frame.to_dicts()
    }
    assert [row[2] for row in table.rows[:5]] == ["β0", "β2", "β0", "β2", "β3"]
    assert {
        (*row[:3], name): cell
        for row in table.rows
        for name, cell in zip(EFFECTS, row[3:], strict=True)
    } == cells


# --- profiles


def test_profiles_are_the_means(view: View) -> None:
    """By size and plan, with a line for each treatment."""
    chart = view.chart("representation-profiles")
    assert (chart.kind, chart.x, chart.names) == ("lines", "position", list(EFFECTS))
    means = view.frame("means").filter(measure="representation")
    panels = dict(chart.panels())
    assert list(panels) == [f"{name}, {n} segments" for n in (2, 3) for name in NAMES]
    for title, rows in panels.items():
        plan, _, size = title.partition(", ")
        expected = means.filter(plan=plan, n=int(size[0]))
        assert_frame_equal(rows.select(means.columns), expected, check_row_order=False)
    assert list(dict(view.chart("retention-profiles").panels())) == ["en"]


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
        part = rows.filter(basket=share["part"])
        values = part.group_by("set", "document", maintain_order=True).agg(pl.col("value").mean())
        sets = values["set"].to_numpy()
        model = api.OLS(values["value"].to_numpy(), np.ones(len(values)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": sets}, use_t=False)
        low, high = fitted.conf_int()[0]
        assert (share["low"], share["high"]) == pytest.approx((low, high), rel=1e-9)
        assert share["sets"] == len(np.unique(sets))


def test_attention_is_shown_as_shares(looked: RunLog) -> None:
    """Baskets, and then what is around the text; some intervals would end below 0 and above 1. The
    table is in percent, without parts that hold nothing."""
    panels = dict(looked.view.chart("attention").panels())
    assert list(panels) == [
        f"{plan}, {n} segments" for n in (2, 3) for plan in ("en", "zh", "zh:en")
    ]
    rows = panels["en, 2 segments"]
    assert rows["basket"].unique(maintain_order=True).to_list() == ["1", "2", "3", "first", "last"]
    frame = looked.frame("attention").filter(plan="en", n=2)
    limited = [pl.col(end).clip(0, 1) for end in ("low", "high")]
    shares = frame.filter(pl.col("part") != "other").with_columns(limited)
    drawn = rows.select(shares.columns)
    assert_frame_equal(drawn, shares, check_row_order=False, check_exact=True)
    cells = {row[:3]: row[3] for row in table_of(looked.view, "attention").rows}
    share = frame.filter(part="basket 1", treatment="plain")
    ends = share.select(pl.col("estimate", "low", "high") * 100).row(0)
    assert cells["en", "2", "basket 1"] == with_ends(*ends, form=".1f")
    assert "other" not in {part for _, _, part in cells}
