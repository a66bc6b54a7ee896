"""What audits of several languages compare: position, language and length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from fairspan.runs.log import RunLog
from tests.builders.simulated import Plan, simulated_log, simulated_rows
from tests.report.example import printed

MONOLINGUAL: list[Plan] = [("en", "en"), ("de", "de")]
MIXED: list[Plan] = [("en", "de"), ("de", "en")]
ALONE = 0.1
"""What a segment loses that alone is in its language."""


def order_free(plan: Plan, *, n: int = 4, drop: float = 0.0, **options: Any) -> pl.DataFrame:
    """Rows of a model that ignores the order of segments, but the last position loses `drop`.

    German is 0.16 above English. The only segment in its language is `ALONE` less similar to a
    document that is mostly in the other one.
    """

    def value(position: int, _: int) -> float:
        language = plan[0] if position == 1 else plan[1]
        alone = plan[0] != plan[1] and (position == 1 or n == 2)
        return 0.5 + 0.16 * (language == "de") - ALONE * alone - drop * (position == n)

    design: dict[str, Any] = {"plan": plan, "n": n, "sets": 12, "noise": 0.002}
    return simulated_rows(value, **design, **options)


def shown(log: RunLog) -> str:
    return " ".join(printed(log.view).split())


@pytest.mark.parametrize("plans", [MIXED, MONOLINGUAL + MIXED])
def test_a_model_without_positions_is_not_called_biased(tmp_path: Path, plans: list[Plan]) -> None:
    """Over both mixed plans language cancels, and being alone does not: 0.1 at position 1."""
    log = simulated_log(tmp_path / "run", [order_free(plan) for plan in plans])
    means = (
        log.rows.filter(pl.col("plan").str.contains(":"))
        .group_by("position")
        .agg(pl.col("value").mean())
    )
    by_position = dict(means.iter_rows())
    assert by_position[4] - by_position[1] == pytest.approx(ALONE, abs=0.005)
    families = log.frame("families")
    assert set(families["verdict"]) == {"fair"}
    assert set(families.filter(plan="en:de")["against"]) == {2}
    [row] = log.verdicts.iter_rows(named=True)
    if plans == MIXED:
        assert row["verdict"] == "inconclusive"
        assert row["sentence"] == ("within ±0.02 from position 2 on in all 2 families of documents")
    else:
        assert row["verdict"] == "fair"
        assert row["sentence"] == "within ±0.02 in all 4 families of documents"
    [note] = [note for note in log.view.notes if "verdicts and spreads are about later" in note]
    remedy = "documents in one language would compare position 1 (languages en, de)"
    assert note.endswith(remedy) == (plans == MIXED)
    assert log.view.cards[0].badge == row["verdict"]


def test_later_positions_of_a_mixed_plan_are_compared(tmp_path: Path) -> None:
    """They are in one language: the last loses 0.08 and is compared with those before it."""
    log = simulated_log(tmp_path / "run", [order_free(("en", "de"), drop=0.08)])
    [row] = log.verdicts.iter_rows(named=True)
    assert row["verdict"] == "biased"
    assert row["sentence"].startswith("position 4 is 0.08 less represented than position 3 [")
    by_set = log.rows.pivot(on="position", index="set", values="value", aggregate_function="mean")
    difference = (by_set["4"] - by_set["3"]).to_numpy()
    found = log.frame("families").row(0, named=True)
    assert found["estimate"] == pytest.approx(difference.mean(), abs=1e-12)
    # Twelve equal sets: a paired t-test.
    stats = pytest.importorskip("scipy.stats")
    interval = stats.ttest_1samp(difference, 0).confidence_interval()
    assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high), rel=1e-7)
    means = log.frame("means")["estimate"].to_list()[1:]
    assert found["spread_estimate"] == pytest.approx(max(means) - min(means), abs=1e-12)


def test_everything_shown_of_mixed_plans_agrees(tmp_path: Path) -> None:
    tables = [
        order_free(plan, drop=drop, treatment=name)
        for name, drop in (("plain", 0.06), ("paper", 0.0))
        for plan in MIXED
    ]
    log = simulated_log(tmp_path / "run", tables, ["plain", "paper"])
    text = shown(log)
    page = log.save_page(tmp_path / "page.html").read_text("utf-8")
    said = json.loads(json.dumps(log.to_dict(), allow_nan=False))
    for words in (text, page, json.dumps(said, ensure_ascii=False)):
        assert "less represented than position 2" in words
        assert "than position 1" not in words
        assert "is the only segment in its language" in words
    families = log.frame("families")
    for name, spread in (("plain", 0.06), ("paper", 0.0)):
        found = families.filter(treatment=name)["spread_estimate"]
        np.testing.assert_allclose(found, spread, atol=0.01)
    table = next(one for one in log.view.tables() if one.name == "representation-coefficients")
    assert any("difference of languages as well as of positions" in note for note in table.notes)


def test_two_segments_in_two_languages_are_not_compared(tmp_path: Path) -> None:
    tables = [
        order_free(plan, n=2, treatment=name) for name in ("plain", "paper") for plan in MIXED
    ]
    log = simulated_log(tmp_path / "run", tables, ["plain", "paper"])
    assert set(log.frame("families")["verdict"]) == {"not compared"}
    for column in ("estimate", "spread_estimate", "psi_estimate"):
        assert log.frame("families")[column].to_list() == [None] * 4
    row = log.verdicts.row(0, named=True)
    assert row["verdict"] == "inconclusive"
    assert row["sentence"] == "no two positions are compared"
    assert "no two positions are compared" in shown(log)
    json.dumps(log.to_dict(), allow_nan=False)
    log.save_page(tmp_path / "page.html")


# --- lengths


@pytest.mark.parametrize(("shortest", "hardly"), [(40, "do not vary"), (39, "vary by only 0.7 %")])
def test_lengths_that_do_not_vary_leave_the_other_answers(
    tmp_path: Path, shortest: int, hardly: str
) -> None:
    """Openings of 40 tokens, one set's of 39: languages are compared, and lengths are not.

    One in twelve is shorter by log(40/39): a deviation of √(1/12 · 11/12) · 0.0253 = 0.0070.
    """
    tokens = pl.when(pl.col("set") == 0).then(shortest).otherwise(40).cast(pl.Int32).alias("tokens")
    tables = [order_free(plan).with_columns(tokens) for plan in MIXED]
    log = simulated_log(tmp_path / "run", tables)
    [pair] = log.frame("languages").iter_rows(named=True)
    assert pair["estimate"] == pytest.approx(-0.16, abs=0.005)
    assert not pair["same_length"]
    reason = f"segment lengths {hardly} within a language, so the effect of length is not estimated"
    page = log.save_page(tmp_path / "page.html").read_text("utf-8")
    for words in (" ".join(log.to_dict()["notes"]), shown(log), page):
        assert reason in words
