"""What an audit shows of simulated rows: verdicts, frames, tables and charts, recomputed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t

from fairspan.errors import FairspanError
from fairspan.report.chart import Chart, HeatMap
from fairspan.report.figure import draw
from fairspan.report.table import Table
from fairspan.report.view import View
from fairspan.runs.arms import Arm
from fairspan.runs.log import RunLog
from fairspan.stats.positions import marker, position_effects
from fairspan.studies.audit.attention import layer_groups
from fairspan.studies.audit.charts import MOST_PLANS
from fairspan.studies.audit.coefficients import coefficient_table
from fairspan.studies.audit.comparison import Pairing, compare
from fairspan.studies.audit.view import view_of
from tests.report_example import chart_of, printed, table_of
from tests.simulated import (
    DEPTH,
    attention_rows,
    audit_log,
    simulated_log,
    simulated_rows,
    with_entries,
)

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


def rows_of(log: RunLog, **values: Any) -> pl.DataFrame:
    return log.rows.filter(**values)


# --- statistics


def test_position_means_are_means(log: RunLog, view: View) -> None:
    """Up to rounding in the last place."""
    keys = ("measure", "treatment", "n", "lead", "later")
    uneven = {
        tuple(row[key] for key in keys): row
        for row in view.frame("unevenness").iter_rows(named=True)
    }
    for key, rows in view.frame("means").partition_by(keys, as_dict=True).items():
        own = rows_of(log, **dict(zip(keys, key, strict=True)))
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
        if mixed and len(means) == 2:
            assert key not in uneven
            continue
        found = uneven[key]
        assert found["from_position"] == 1 + mixed
        # In a mixed plan position 1 is in another language.
        means = means[mixed:]
        gini = np.abs(means[:, None] - means).sum() / (2 * len(means) ** 2 * means.mean())
        assert found["spread_estimate"] == pytest.approx(means.max() - means.min(), abs=1e-12)
        assert found["psi_estimate"] == pytest.approx(1 - means.min() / means.max(), abs=1e-12)
        assert found["gini_estimate"] == pytest.approx(gini, abs=1e-12)
        compared = own.filter(pl.col("position") > mixed).partition_by("document")
        smallest = [min(document["value"]) for document in compared]
        assert found["least"] == pytest.approx(np.mean(smallest), abs=1e-12)
        first_last = None if mixed else pytest.approx(1 - means[-1] / means[0], abs=1e-12)
        assert found["first_last_estimate"] == first_last


@pytest.mark.parametrize(
    ("inference", "sets", "shared", "used"),
    [
        ("auto", 8, False, "cr2"),
        ("auto", 40, False, "cr1"),
        ("auto", 8, True, "two-way"),
        ("cr1", 8, False, "cr1"),
        ("z", 40, False, "z"),
    ],
)
def test_coefficients_are_those_of_the_inference(
    tmp_path: Path, inference: str, sets: int, shared: bool, used: str
) -> None:
    """CR1 is the reported default from 40 sets on; the published tables use it with z."""
    table = falling(0.01, 0.03, sets=sets, shared=shared)
    spec = {"inference": inference}
    log = simulated_log(tmp_path / "run", [table], spec=spec, shared_segments={"3": shared})
    columns = [table[name].to_numpy() for name in ("value", "position", "set", "segment")]
    wanted = position_effects(*columns, inference=used)
    found = log.frame("coefficients")
    assert set(found["inference"]) == {used}
    for name in ("estimate", "standard_error", "p_value", "low", "high"):
        np.testing.assert_array_equal(found[name], getattr(wanted, name))
    assert found["marker"].to_list() == [marker(p) for p in wanted.p_value]
    clustered = "errors are clustered on sets and on segments"
    assert any(clustered in note for note in view_of(log).notes) == shared


def test_a_view_is_reproducible(log: RunLog, view: View) -> None:
    """The bootstrap is seeded by the run."""
    part = RunLog(log.folder, log.header, log.rows.filter(measure="retention"), view_of)
    for name in ("families", "unevenness", "coefficients", "changes"):
        assert part.frame(name).equals(view.frame(name).filter(measure="retention")), name


def test_the_joint_model_is_told_where_there_are_several_languages(
    view: View, single: RunLog
) -> None:
    assert "joint" not in view_of(single).frames
    assert view_of(single).remarks == ()
    chosen = {"measure": "representation", "treatment": "plain", "n": 3}
    rows = view.frame("joint").filter(**chosen)
    # The truth is −0.1 and −0.2; rows of noise 0.014 give about 0.005.
    position = rows.filter(effect="position")
    assert position["position"].to_list() == [2, 3]
    np.testing.assert_allclose(position["estimate"], [-0.1, -0.2], atol=0.02)
    # English and German documents; Chinese leads English documents, as German does.
    language = rows.filter(effect="language")
    assert language.select("language", "against", "averaged_over").rows() == [
        ("en", "de", "1, 2, 3"),
        ("zh", "de", "1 (mixed)"),
    ]
    np.testing.assert_allclose(language["estimate"], 0, atol=0.02)
    slope = rows.filter(effect="log_tokens").select("estimate", "low", "high").row(0)
    [sentence] = [
        one
        for one in view.remarks
        if one.startswith("plain, n=3, representation, all plans together: ")
    ]
    estimate, low, high = position.select("estimate", "low", "high").row(0)
    where = "position against 1 in documents of one language"
    assert f"{where}: 2 {estimate:+.3f} [{low:+.3f}, {high:+.3f}], 3 ".replace("-", "−") in sentence
    estimate, low, high = (one * np.log(2) for one in slope)
    twice = f"a segment twice as long: {estimate:+.3f} [{low:+.3f}, {high:+.3f}]"
    assert sentence.endswith(twice.replace("-", "−"))


# --- verdicts


def test_verdicts_of_one_family_are_its_sentence(single: RunLog) -> None:
    """0.1 a position is biased and worst at the last; 0 is fair; little in much noise is open."""
    verdicts = single.verdicts.select("treatment", "verdict").rows()
    assert verdicts == list(zip(EFFECTS, ("biased", "fair", "inconclusive"), strict=True))
    said, fair, undecided = single.verdicts["sentence"]
    assert fair.startswith("fair within ±0.02; against plain, position 1 ")
    assert re.match(
        r"inconclusive: about \d+ more sets would decide; against plain, position 1 ", undecided
    )
    last = single.frame("coefficients").filter(treatment="plain", position=3).row(0, named=True)
    assert said.startswith(
        f"biased: position 3 is {-last['estimate']:.2f} less represented than position 1 ["
    )
    ends = [float(end.replace("−", "-")) for end in re.findall(r"−?\d\.\d+(?=[,\]])", said)]
    np.testing.assert_allclose(ends, [last["low"], last["high"]], atol=0.005)
    cards = single.view.cards
    assert [(card.name, card.badge) for card in cards] == verdicts
    assert cards[1].sentences[0] == fair.removeprefix("fair ")
    spread = single.frame("unevenness").filter(treatment="plain")["spread_estimate"][0]
    assert cards[0].sentences[1] == f"spread between positions {spread:.3f}"


def test_verdicts_of_several_families_name_the_worst(view: View) -> None:
    # Two of eight families have one segment in each of two languages: positions are not compared.
    left_out = "; in mixed plans position 1 is not compared with later positions, which are in "
    left_out += "another language"
    verdicts = view.frame("verdicts").filter(measure="representation")
    assert verdicts["verdict"].to_list() == ["biased", "fair", "inconclusive"]
    biased, fair, undecided = verdicts["sentence"]
    assert fair.startswith("fair within ±0.02 in all 6 families of documents; against plain, ")
    assert fair.endswith(left_out)
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
        f"biased in 6 of 6 families, strongest for {worst['plan']}, n=3: position 3 is 0.2"
    )
    count = families.filter(treatment="retrieval", verdict="inconclusive").height
    assert undecided.startswith(f"inconclusive in {count} of 6 families, strongest for ")
    open_ = families.filter(treatment="retrieval", verdict="inconclusive").sort(
        "sets_needed", descending=True
    )
    assert f"strongest for {open_['plan'][0]}, n={open_['n'][0]}:" in undecided, (
        "the one that needs the most sets"
    )
    none = families.filter(pl.col("verdict") == "not compared")
    assert {(one["n"], one["lead"] != one["later"]) for one in none.iter_rows(named=True)} == {
        (2, True)
    }


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
    """By t intervals of the means of sets, which are all as large, over sizes 3 and 4."""
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
        "treatment", index=["n", "set", "order", "position", "segment"], values="value"
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
        changes = own.group_by("set").agg(pl.col("change").mean())["change"]
        half = t.ppf(0.975, 7) * changes.std() / np.sqrt(8)
        record = log.frame("gains").row(place - 1, named=True)
        ends = [record[f"change_{end}"] for end in ("estimate", "low", "high")]
        np.testing.assert_allclose(ends, changes.mean() + np.array([0, -half, half]), atol=1e-12)
        size = "" if "no clear" in verb else f" {abs(changes.mean()):.3f}"
        name = ("position 1", "later positions")[place - 1]
        parts.append(f"{name} {verb}{size} ({own['plain'].mean():.3f} → {own['paper'].mean():.3f})")
    sentence = f"against plain, {' and '.join(parts)}"
    assert log.verdicts["sentence"][1].endswith(f"; {sentence}")
    assert "against" not in log.verdicts["sentence"][0]
    assert sentence in " ".join(printed(log.view).split())


# --- JSON and odd runs


def strict(log: RunLog) -> Any:
    return json.loads(json.dumps(log.to_dict(), allow_nan=False))


def test_the_frames_are_strict_json(log: RunLog, view: View) -> None:
    found = strict(log)
    assert found["run"] == "m-12345678"
    assert set(view.frames) == {
        *(
            "verdicts",
            "families",
            "coefficients",
            "means",
            "unevenness",
            "joint",
            "attention",
            "changes",
        ),
        *("roles", "gains"),
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
@pytest.mark.parametrize("inference", ["auto", "z", "cr2"])
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
    tables = [falling(0.0, 0.01, plan=(name, name), sets=3, stream=0) for name in ("en", "de")]
    log = simulated_log(tmp_path / "run", tables)
    strict(log)
    assert "all plans together" in printed(log.view, 120)


def test_a_run_that_was_stopped_shows_what_it_has(tmp_path: Path) -> None:
    """After the first of two treatments: what there is is summarised, what is missing is not."""
    tables = [falling(0.0, 0.01), attention_rows("plain")]
    log = simulated_log(tmp_path / "run", tables, ["plain", "paper"], status="interrupted")
    assert log.verdicts["treatment"].to_list() == ["plain"]
    assert log.view.switch == ("plain",)
    assert [table.name for table in log.view.tables() if "attention" not in table.name] == [
        "representation-coefficients",
        "verdicts",
        "representation-unevenness",
    ]
    drawn = {
        series.name
        for chart in log.view.charts()
        if isinstance(chart, Chart)
        for panel in chart.panels
        for series in panel.series
    }
    assert drawn == {"plain"}


def test_attention_alone_has_no_verdicts(tmp_path: Path) -> None:
    log = simulated_log(
        tmp_path / "run", [attention_rows("plain")], spec={"measures": ["attention"]}
    )
    assert log.verdicts.columns == ["model", "measure", "treatment", "verdict", "sentence"]
    assert log.verdicts.is_empty()
    assert set(log.view.frames) == {"verdicts", "attention"}
    assert log.view.picture == "attention-segments"
    assert [chart.name for chart in log.view.charts()] == [
        f"attention-{what}" for what in ("segments", "baskets", "relative")
    ]
    assert "log: here" in printed(log.view, ending="log: here")
    assert strict(log)["verdicts"] == []


# --- tables


def cells_of(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_the_plain_layout(view: View) -> None:
    """Sizes and positions down, a column per language; mixed documents in tables of their own."""
    alone = table_of(view, "representation-coefficients-paper")
    assert [column.name for column in alone.columns] == ["en", "de"]
    assert [row.heads for row in alone.rows] == [
        ("2", "β0 (Intercept)"),
        ("2", "β2 (2 vs. 1)"),
        ("3", "β0 (Intercept)"),
        ("3", "β2 (2 vs. 1)"),
        ("3", "β3 (3 vs. 1)"),
    ]
    own = view.frame("coefficients").filter(
        measure="representation", treatment="paper", plan="de", n=3
    )
    expected = [
        f"{value:.3f}".replace("-", "−") + marker(p)
        for value, p in own.select("estimate", "p_value").iter_rows()
    ]
    assert [row.cells[1].text for row in alone.rows if row.heads[0] == "3"] == expected
    mixed = table_of(view, "representation-coefficients-paper-mixed-en")
    assert [column.name for column in mixed.columns] == ["[de, en, ..., en]", "[zh, en, ..., en]"]
    assert "later segments in en" in mixed.title


def test_sizes_that_were_not_measured_are_left_empty(tmp_path: Path) -> None:
    log = simulated_log(
        tmp_path / "run", [falling(0.0, 0.01, n=2), falling(0.0, 0.01, n=3, plan=("de", "de"))]
    )
    table = coefficient_table(log.frame("coefficients"), "t", "t")
    assert [[text == "" for text in row] for row in cells_of(table)] == [[False, True]] * 2 + [
        [True, False]
    ] * 3


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("Alibaba-NLP/gte-multilingual-base", ["IRF: mGTE", "IRF: mGTE 128-last_half"]),
        ("jinaai/jina-embeddings-v3-hf", ["IRF: jina-v3"]),
        ("m", ["IRF: mGTE", "IRF: jina-v3", "IRF: mGTE 128-last_half"]),
    ],
)
def test_published_coefficients_are_beside_those_of_the_run(
    tmp_path: Path, model: str, names: list[str]
) -> None:
    """Of the run's model where the paper has it; what it does not have is empty."""
    treatments = ["plain", "paper", "tiles-64"]
    tables = [falling(0.1, 0.01, n=n, treatment=name) for name in treatments for n in (2, 3)]
    asked = {"sizes": [2, 3], "published": "irf"}
    named = {"name": model, "fingerprint": "f"}
    log = simulated_log(tmp_path / "run", tables, treatments, spec=asked, model=named)
    table = next(table for table in log.view.tables() if table.name.endswith("-coefficients"))
    assert [column.name for column in table.columns] == [*treatments, *names]
    # Tables 1, 16 and 2 of the paper.
    shown = {"IRF: mGTE": "0.75 −0.05 −0.11", "IRF: mGTE 128-last_half": "0.70 0.02 −0.00"}
    shown["IRF: jina-v3"] = "0.79 −0.28 −0.33"
    by_column = dict(zip([*treatments, *names], zip(*cells_of(table), strict=True), strict=True))
    for name in names:
        assert by_column[name] == ("", "", *shown[name].split())
    assert any("arXiv 2601.16934, Tables " in note for note in table.notes)
    pairs = replace(log, rows=log.rows.filter(n=2))
    assert any("IRF published no coefficients" in note for note in pairs.view.notes)


def test_verdicts_and_unevenness(view: View) -> None:
    table = table_of(view, "verdicts")
    for row, one in zip(table.rows, view.frame("verdicts").iter_rows(named=True), strict=True):
        kind, words = (cell.text for cell in row.cells)
        assert (*row.heads, kind) == (one["measure"], one["treatment"], one["verdict"])
        assert one["sentence"] in (f"{kind}: {words}", f"{kind} {words}")
    uneven = table_of(view, "representation-unevenness")
    assert [row.heads[0] for row in uneven.rows[::3]] == ["en", "en", "de", "de", "de:en", "zh:en"]
    for row, record in zip(uneven.rows, uneven.frame.iter_rows(named=True), strict=True):
        assert row.heads == (record["plan"], str(record["n"]), record["treatment"])
        spread = [f"{record[f'spread_{end}']:.3f}" for end in ("estimate", "low", "high")]
        assert row.cells[0].text == f"{spread[0]} [{spread[1]}, {spread[2]}]"
        if record["n"] == 2:
            # One comparison, whose F is t².
            chosen = {name: record[name] for name in ("measure", "treatment", "plan", "n")}
            alone = view.frame("coefficients").filter(**chosen, position=2)["p_value"][0]
            assert record["joint_p"] == pytest.approx(alone, rel=1e-9)


def test_changes_against_the_first_treatment(log: RunLog, view: View) -> None:
    table = table_of(view, "representation-changes")
    found = [
        one
        for name in ("paper", "retrieval")
        for one in Pairing(Arm(log, "plain"), Arm(log, name)).spreads()
    ]
    found = [one for one in found if one["measure"] == "representation"]
    found.sort(key=lambda one: (one["second_treatment"], NAMES.index(one["plan"]), one["n"]))
    for record, row, one in zip(table.frame.iter_rows(named=True), table.rows, found, strict=True):
        assert record == one
        means = view.frame("means").filter(measure="representation", plan=one["plan"], n=one["n"])
        means = means.filter(pl.col("position") >= (2 if ":" in one["plan"] else 1))
        first, second = (
            means.filter(treatment=name)["estimate"]
            for name in (one["first_treatment"], one["second_treatment"])
        )
        spreads = [float(np.ptp(side.to_numpy())) for side in (first, second)]
        assert (one["first_spread"], one["second_spread"]) == pytest.approx(spreads)
        assert one["change_estimate"] == pytest.approx(spreads[1] - spreads[0])
        assert row.heads == (f"plain → {one['second_treatment']}", one["plan"], str(one["n"]))
        ends = f"[{one['change_low']:+.3f}, {one['change_high']:+.3f}]"
        assert row.cells[3].text == f"{one['change_estimate']:+.3f} {ends}".replace("-", "−")


# --- profiles


@pytest.mark.parametrize("measure", ["representation", "retention"])
def test_profiles_are_the_means(view: View, measure: str) -> None:
    chart = chart_of(view, f"{measure}-profiles")
    kinds = dict(
        view.frame("verdicts").filter(measure=measure).select("treatment", "verdict").iter_rows()
    )
    seen = 0
    for panel in chart.panels:
        n = len(panel.labels)
        assert (panel.heading, panel.detail) == (f"{n} segments", f"8 sets, {8 * n} documents")
        for series in panel.series:
            means = view.frame("means").filter(
                measure=measure, plan=panel.title, n=n, treatment=series.name
            )
            for name in ("estimate", "low", "high"):
                assert [getattr(point, name) for point in series.points] == means[name].to_list()
            assert series.number == list(EFFECTS).index(series.name)
            assert series.legend == f"{series.name} ({kinds[series.name]})"
            seen += n
            np.testing.assert_allclose(panel.strip, means["tokens"], atol=0.05)
    assert seen == view.frame("means").filter(measure=measure).height


LANGUAGES = ("en", "de", "it", "hi", "ko", "zh")
WHOLE_GRID = [(one, one) for one in LANGUAGES] + [
    (lead, later) for later in ("en", "de", "hi", "zh") for lead in LANGUAGES if lead != later
]


@pytest.mark.slow
def test_many_plans_come_on_pages_by_the_later_language(tmp_path: Path) -> None:
    """The plans of IRF's whole grid: six languages, and four later ones with each other lead."""
    how: dict[str, Any] = {"measures": ["representation"], "sets": 2, "treatments": ["plain"]}
    log = audit_log(tmp_path / "run", plans=WHOLE_GRID, sizes=(3, 6), **how)
    charts = [
        chart
        for chart in log.view.charts()
        if isinstance(chart, Chart) and "profiles" in chart.name
    ]
    assert [chart.name.removeprefix("representation-profiles-") for chart in charts] == [
        *("monolingual", "later-en", "later-de", "later-hi", "later-zh")
    ]
    plans = [list(dict.fromkeys(panel.title for panel in chart.panels)) for chart in charts]
    assert [plan for own in plans for plan in own] == [
        lead if lead == later else f"{lead}:{later}" for lead, later in WHOLE_GRID
    ]
    assert max(len(own) for own in plans) <= MOST_PLANS
    assert len({chart.fixed for chart in charts}) == 1
    figure = draw(charts[0])
    assert figure.get_figwidth() <= 14


def test_the_heat_map_is_the_joint_model(tmp_path: Path) -> None:
    """Its means under every treatment, with the effect of length taken out."""
    log = audit_log(
        tmp_path / "run", plans=[("en", "en"), ("zh", "zh")], measures=["representation"]
    )
    heats = {heat.name: heat for heat in log.view.charts() if isinstance(heat, HeatMap)}
    assert list(heats) == ["representation-languages-n2", "representation-languages-n3"]
    for n, heat in zip((2, 3), heats.values(), strict=True):
        for language, cells in heat.rows:
            for position, cell in enumerate(cells, start=1):
                means = log.frame("joint").filter(
                    effect="mean", n=n, language=language, position=position
                )
                assert cell is not None
                assert list(cell.values) == means["estimate"].to_list()
                assert means["treatment"].to_list() == list(heat.entries)


# --- attention


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return audit_log(tmp_path_factory.mktemp("attention") / "run", measures=["attention"])


def attention_of(
    log: RunLog, measure: str, n: int, lead: str, later: str, treatment: str
) -> pl.DataFrame:
    return rows_of(log, measure=measure, n=n, lead=lead, later=later, treatment=treatment)


def test_shares_are_means_over_the_documents_that_have_the_part(looked: RunLog) -> None:
    """By hand: over the layers of a group, then over documents."""
    frame = looked.frame("attention")
    groups = layer_groups(DEPTH)
    told = frame.select("layers", "first_layer", "last_layer").unique(maintain_order=True).rows()
    assert told == [(name, layers.start + 1, layers.stop) for name, layers in groups.items()]
    for share in frame.filter(plan="zh:en", n=3).iter_rows(named=True):
        rows = attention_of(looked, share["measure"], 3, "zh", "en", share["treatment"])
        own = rows.filter(
            pl.col("layer").is_in(list(groups[share["layers"]])) & (pl.col("part") == share["part"])
        )
        values = own.group_by("document").agg(pl.col("value").mean())["value"]
        assert share["estimate"] == pytest.approx(np.mean(values.to_numpy()), rel=1e-12, abs=1e-15)
        assert share["documents"] == len(values)
    baskets = frame.filter(
        measure="attention_basket", n=3, plan="zh:en", layers="all", treatment="plain"
    )
    assert baskets["part"].to_list() == [
        "first",
        "basket 1",
        "basket 2",
        "basket 3",
        "last",
        "other",
    ]
    assert baskets.drop_nulls("number")["documents"].to_list() == [8, 5, 2]


def test_equal_shares_divide_what_the_text_gets(looked: RunLog) -> None:
    chosen = {
        "measure": "attention_basket",
        "n": 3,
        "plan": "zh:en",
        "layers": "last third",
        "treatment": "paper",
    }
    shares = looked.frame("attention").filter(**chosen)
    rows = attention_of(looked, "attention_basket", 3, "zh", "en", "paper")
    rows = rows.filter((pl.col("layer") >= 4) & pl.col("part").str.starts_with("basket"))
    by_document = rows.group_by("document", "part").agg(pl.col("value").mean())
    equal = by_document.group_by("document").agg(
        pl.col("value").mean(), pl.col("part").alias("parts")
    )
    for share in shares.iter_rows(named=True):
        if share["number"] is None:
            assert np.isnan(share["equal"])
            continue
        having = equal.filter(pl.col("parts").list.contains(share["part"]))["value"]
        assert share["equal"] == pytest.approx(np.mean(having.to_numpy()), rel=1e-12)


def test_intervals_of_shares_are_statsmodels_s(looked: RunLog) -> None:
    """Least squares on a constant with errors clustered by set, t with G − 1 degrees of freedom."""
    api = pytest.importorskip("statsmodels.api")
    chosen = {
        "measure": "attention_basket",
        "n": 2,
        "plan": "en",
        "layers": "middle third",
        "treatment": "plain",
    }
    rows = attention_of(looked, "attention_basket", 2, "en", "en", "plain").filter(
        pl.col("layer").is_in([2, 3])
    )
    shares = looked.frame("attention").filter(**chosen).drop_nulls("number")
    for share in shares.head(2).iter_rows(named=True):
        own = rows.filter(part=share["part"])
        values = own.group_by("set", "document", maintain_order=True).agg(pl.col("value").mean())
        sets = values["set"].to_numpy()
        model = api.OLS(values["value"].to_numpy(), np.ones(len(values)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": sets}, use_t=True)
        low, high = fitted.conf_int()[0]
        assert (share["low"], share["high"]) == pytest.approx((low, high), rel=1e-9)
        assert share["sets"] == len(np.unique(sets))


@pytest.mark.parametrize(
    ("measure", "what", "part"),
    [
        ("attention_segment", "segments", "segment"),
        ("attention_basket", "baskets", "basket"),
        ("attention_bin", "relative", "bin"),
    ],
)
def test_attention_charts_hold_the_shares(
    looked: RunLog, measure: str, what: str, part: str
) -> None:
    frame = looked.frame("attention").filter(measure=measure, n=2)
    chart = chart_of(looked.view, f"attention-{what}-n2")
    assert len(chart.panels) == 5 * 3
    for panel in chart.panels:
        layers = next(name for name in layer_groups(DEPTH) if panel.heading.startswith(name))
        for series in panel.series:
            own = frame.filter(layers=layers, plan=panel.title, treatment=series.name)
            found = {row["part"]: row for row in own.iter_rows(named=True)}
            for label, point in zip(panel.labels, series.points, strict=True):
                number = int(label) // 5 + 1 if part == "bin" else label
                share = found[label if label in found else f"{part} {number}"]
                if series.dashed:
                    assert (point.estimate if point else None) == (
                        share["equal"] if share["number"] else None
                    )
                else:
                    assert point is not None
                    assert (point.estimate, point.low, point.high) == (
                        share["estimate"],
                        max(0.0, share["low"]),
                        min(1.0, share["high"]),
                    )
        # Some intervals would end below 0 and above 1.
        low, high = chart.domain(panel)
        assert (low, high <= 1) == (0, True)
        assert panel.apart == sum(not label.isdigit() for label in panel.labels)
    shown = {panel.heading for panel in chart.shown}
    assert shown == (set() if part == "bin" else {"last half of the layers (4–6)"})
    if part == "segment":
        assert chart.panels[0].labels == ("1", "2", "special")


# --- comparisons


def test_changes_of_every_coefficient(log: RunLog) -> None:
    tables = {table.name: table for table in compare(log, None, ["plain", "paper"])}
    frame = tables["representation-coefficient-changes"].frame
    assert len(frame) == 4 * (2 + 3)
    for row in frame.iter_rows(named=True):
        place = {name: row[name] for name in ("measure", "plan", "n", "position")}
        before, after = (
            log.frame("coefficients").filter(treatment=name, **place)["estimate"][0]
            for name in ("plain", "paper")
        )
        assert (row["first_estimate"], row["second_estimate"]) == pytest.approx((before, after))
        assert row["change_estimate"] == pytest.approx(after - before, abs=2e-6), "rounding is 0"
        first, second = (
            log.frame("means").filter(treatment=name, **place)["estimate"][0]
            for name in ("plain", "paper")
        )
        assert row["mean_change_estimate"] == pytest.approx(second - first, abs=2e-6)


def test_runs_on_other_documents_are_refused(tmp_path: Path, single: RunLog) -> None:
    """Another language, another corpus of the same ids, other openings; a draw that agrees by
    chance in single rows only. More languages of the same corpus are no reason.
    """
    corpus = single.header.to_json()["corpus"]
    other = simulated_log(tmp_path / "a", [falling(0.0, 0.01, plan=("it", "it"))], run="m-2")
    turned = pl.when(pl.col("position") > 1).then(pl.lit("x") + pl.col("segment"))
    drawn = replace(single, rows=single.rows.with_columns(segment=turned.otherwise("segment")))
    two = {"languages": ["en", "de"], "fingerprint": "g"}
    wider = {**corpus, **two, "by_language": {"en": "f", "de": "h"}}
    for second, said in (
        (other, "have no document in common"),
        (drawn, "have no document in common"),
        (
            with_entries(single, corpus={**corpus, "fingerprint": "g"}),
            r"\(c, fingerprint f; c, .* g",
        ),
        (with_entries(single, corpus={**wider, "by_language": {"en": "h"}}), "different texts"),
        (with_entries(single, cut_to=20), r"cut segments differently \(first tokens: whole; 20\)"),
    ):
        with pytest.raises(FairspanError, match=said):
            compare(single, second)
    assert compare(single, with_entries(single, corpus=wider))
