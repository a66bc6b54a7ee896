"""What audits of several languages compare: position, language and length; in logs, on pages, in
pipelines, of models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import fairspan
from fairspan.cli.gate import fail_on_run, read_conditions
from fairspan.errors import DesignError
from fairspan.runs.log import RunLog
from tests.builders.simulated import Plan, simulated_log, simulated_rows
from tests.corpus.test_corpus import write_folder
from tests.report.example import printed

MONOLINGUAL: list[Plan] = [("en", "en"), ("de", "de")]
MIXED: list[Plan] = [("en", "de"), ("de", "en")]
ALONE = 0.1
"""What a segment loses that alone is in its language."""


# Positions


def order_free(plan: Plan, *, n: int = 4, drop: float = 0.0, **options: Any) -> pl.DataFrame:
    """Rows of a model that ignores the order of segments, but the last position loses `drop`.

    German is 0.16 above English. The only segment in its language is `ALONE` less similar to a
    document that is mostly in the other one.
    """

    def value(position: int, _: int) -> float:
        language = plan[0] if position == 1 else plan[1]
        alone = plan[0] != plan[1] and (position == 1 or n == 2)
        return 0.5 + 0.16 * (language == "de") - ALONE * alone - drop * (position == n)

    return simulated_rows(value, plan=plan, n=n, sets=12, noise=0.002, **options)


def shown(log: RunLog) -> list[str]:
    """All that is said in the terminal and in JSON."""
    told = json.dumps(log.to_dict(), ensure_ascii=False, allow_nan=False)
    return [" ".join(printed(log.view).split()), told]


@pytest.mark.parametrize("plans", [MIXED, MONOLINGUAL + MIXED])
def test_a_model_without_positions_is_not_called_biased(tmp_path: Path, plans: list[Plan]) -> None:
    """Over both mixed plans language cancels, and being alone does not: 0.1 at position 1."""
    log = simulated_log(tmp_path / "run", [order_free(plan) for plan in plans])
    mixed = log.rows.filter(pl.col("plan").str.contains(":"))
    by_position = dict(mixed.group_by("position").agg(pl.col("value").mean()).iter_rows())
    assert by_position[4] - by_position[1] == pytest.approx(ALONE, abs=0.005)
    families = log.frame("families")
    assert set(families["verdict"]) == {"fair"}
    assert set(families.filter(plan="en:de")["against"]) == {2}
    expected = ("fair", "within ±0.02 in all 4 families of documents")
    if plans == MIXED:
        words = "within ±0.02 from position 2 on in all 2 families of documents"
        expected = ("inconclusive", words)
    assert log.verdicts.select("verdict", "sentence").rows() == [expected]
    [note] = [note for note in log.view.notes if "verdicts and spreads are about later" in note]
    remedy = "documents in one language would compare position 1 (languages en, de)"
    assert note.endswith(remedy) == (plans == MIXED)


def test_later_positions_of_a_mixed_plan_are_compared(tmp_path: Path) -> None:
    """They are in one language: the last loses 0.08 and is compared with those before it."""
    log = simulated_log(tmp_path / "run", [order_free(("en", "de"), drop=0.08)])
    [row] = log.verdicts.iter_rows(named=True)
    assert row["verdict"] == "biased"
    assert row["sentence"].startswith("position 4 is 0.08 less represented than position 3 [")
    for words in shown(log):
        assert "less represented than position 3" in words
        assert "than position 1" not in words
        assert "is the only segment in its language" in words
    [table] = [one for one in log.view.tables() if one.name == "representation-coefficients"]
    assert any("difference of languages as well as of positions" in note for note in table.notes)
    by_set = log.rows.pivot(on="position", index="set", values="value", aggregate_function="mean")
    difference = (by_set["4"] - by_set["3"]).to_numpy()
    [family] = log.frame("families").iter_rows(named=True)
    assert family["estimate"] == pytest.approx(difference.mean(), abs=1e-12)
    # Twelve equal sets: a paired t-test.
    interval = stats.ttest_1samp(difference, 0).confidence_interval()
    assert (family["low"], family["high"]) == pytest.approx((interval.low, interval.high), rel=1e-7)
    means = log.frame("means")["estimate"].to_list()[1:]
    assert family["spread_estimate"] == pytest.approx(max(means) - min(means), abs=1e-12)


def test_two_segments_in_two_languages_are_not_compared(tmp_path: Path) -> None:
    log = simulated_log(tmp_path / "run", [order_free(plan, n=2) for plan in MIXED])
    families = log.frame("families")
    assert families["verdict"].to_list() == ["not compared"] * 2
    for column in ("estimate", "spread_estimate", "psi_estimate"):
        assert families[column].to_list() == [None] * 2
    expected = ("inconclusive", "no two positions are compared")
    assert log.verdicts.select("verdict", "sentence").rows() == [expected]
    assert all(expected[1] in words for words in shown(log))


def test_lengths_that_do_not_vary_leave_the_other_answers(tmp_path: Path) -> None:
    """Openings of 40 tokens: languages are compared, and lengths are not."""
    tables = [order_free(plan).with_columns(tokens=pl.lit(40, pl.Int32)) for plan in MIXED]
    log = simulated_log(tmp_path / "run", tables)
    [pair] = log.frame("languages").iter_rows(named=True)
    assert pair["estimate"] == pytest.approx(-0.16, abs=0.005)
    assert not pair["same_length"]
    reason = "segment lengths do not vary within a language, so the effect of length is not"
    assert reason in " ".join(log.view.notes)


# Verdicts on languages


def spoken(
    folder: Path, leads: dict[str, float], plans: list[Plan] = MIXED, **options: Any
) -> RunLog:
    """Position 1 is .1 above; in mixed documents English is above others, by treatment."""

    def rows(plan: Plan, treatment: str, lead: float) -> pl.DataFrame:
        def value(position: int, number: int) -> float:
            language = plan[0] if position == 1 else plan[1]
            # A tenth more or less by set, so that what changes between treatments varies too.
            favour = lead * (1 + 0.1 * (-1) ** number)
            return 0.6 + 0.1 * (position == 1) + favour * (language == "en") * (plan[0] != plan[1])

        return simulated_rows(
            value, plan=plan, sets=20, treatment=treatment, noise=0.002, **options
        )

    tables = [rows(plan, name, lead) for name, lead in leads.items() for plan in plans]
    return simulated_log(folder, tables, tuple(leads), run=folder.name)


@pytest.mark.parametrize(
    ("measure", "done"), [("representation", "represented"), ("retention", "retained")]
)
def test_a_favoured_language_is_biased_everywhere(tmp_path: Path, measure: str, done: str) -> None:
    """English is .06 above German under plain, and not at all under paper."""
    leads = {"plain": 0.06, "paper": 0.0}
    log = spoken(tmp_path / "run", leads, [*MONOLINGUAL, *MIXED], measure=measure)
    biased, fair = log.frame("language_verdicts").iter_rows(named=True)
    assert (biased["verdict"], fair["verdict"]) == ("biased", "fair")
    assert biased["sentence"].startswith(f"en is 0.06 more {done} than de [0.0")
    assert biased["sentence"].endswith("; compared at the same position and length")
    assert fair["sentence"] == "within ±0.02; compared at the same position and length"
    pairs = log.frame("languages")
    assert pairs.select("language", "against").unique().rows() == [("en", "de")]
    np.testing.assert_allclose(pairs["estimate"], [0.06, 0.0], atol=0.005)
    assert all(f"more {done} than de" in words for words in shown(log))
    chart = log.view.chart(f"{measure}-languages")
    assert (chart.kind, chart.x, chart.margin) == ("dots", "pair", 0.02)
    [(title, drawn)] = chart.panels()
    assert (title, set(drawn["pair"])) == ("3 segments", {"en − de"})
    assert drawn.select(pairs.columns).equals(pairs)
    assert f"{measure}-languages" in [table.name for table in log.view.tables()]
    assert log.verdicts["treatment"].to_list() == ["plain", "paper"], "on positions as before"


def test_what_is_missing_to_compare_languages_is_noted(tmp_path: Path) -> None:
    """Documents in one language say nothing of it, and an only language needs no such note."""
    alone = spoken(tmp_path / "several", {"plain": 0.06}, MONOLINGUAL)
    assert not {"language_verdicts", "languages"} & set(alone.view.frames)
    [note] = [note for note in alone.view.notes if "languages have no verdict" in note]
    assert note.endswith("use mixed documents in both orders (mixed en:de,de:en)")
    with pytest.raises(DesignError, match=r"has no verdicts on languages, which .*"):
        fail_on_run(alone, read_conditions("audit", "language-biased"))
    single = spoken(tmp_path / "single", {"plain": 0.06}, MONOLINGUAL[:1])
    assert (single.view.notes, len(single.view.cards)) == ((), 1)
    one_order = spoken(tmp_path / "run", {"plain": 0.06}, [("de", "en")])
    assert "language_verdicts" not in one_order.view.frames
    missing = "not compared as languages: de and en, of which one order is missing (mixed en:de)"
    assert missing in one_order.view.notes
    partly = spoken(tmp_path / "partly", {"plain": 0.06}, [*MIXED, ("hi", "en")])
    assert partly.frame("language_verdicts")["verdict"].to_list() == ["biased"]
    assert partly.view.notes[-1].endswith("hi and en, of which one order is missing (mixed en:hi)")


@pytest.mark.parametrize(
    ("conditions", "fails"),
    [
        ("language-biased", True),
        ("plain:language-biased", True),
        ("biased", False),
        ("paper:language-biased,language-inconclusive", False),
    ],
)
def test_pipelines_end_on_languages(
    tmp_path: Path, conditions: str, fails: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Positions are the same in all of them: conditions on positions never fail."""
    log = spoken(tmp_path / "run", {"plain": 0.06, "paper": 0.0})
    if not fails:
        fail_on_run(log, read_conditions("audit", conditions))
        return
    with pytest.raises(SystemExit) as ended:
        fail_on_run(log, read_conditions("audit", conditions))
    assert ended.value.code == 1
    assert "on languages: biased: en is" in capsys.readouterr().err


# Models


class Bag:
    """Each word has its direction; inside a text, English words weigh `weight` times as much."""

    def __init__(self, texts: list[str], weight: float) -> None:
        self.places = {word: place for place, word in enumerate(" ".join(texts).split())}
        self.weight = weight

    def encode(self, sentences: list[str], /) -> Any:
        vectors = np.zeros((len(sentences), len(self.places)), np.float32)
        for row, sentence in enumerate(sentences):
            # An audit also asks for cut texts, to see whether they are read to the end.
            for word in filter(self.places.__contains__, sentence.split()):
                vectors[row, self.places[word]] += self.weight if word.startswith("en") else 1.0
        return vectors


def test_a_model_that_favours_english_inside_documents(tmp_path: Path) -> None:
    """Segments of six words, all different: D = w·A + B + C, and cosines are those of the weights.

    A segment alone has the same direction whatever its language weighs, so only documents tell.
    """
    weight = 1.5
    corpus = {
        language: {str(n): " ".join(f"{language}{n}x{k}" for k in range(6)) for n in range(24)}
        for language in ("en", "de")
    }
    log = fairspan.audit(
        Bag([text for texts in corpus.values() for text in texts.values()], weight),
        corpus=str(write_folder(tmp_path, corpus)),
        mixed="all",
        sizes=[2, 3],
        sets=8,
        treatments=["plain"],
        out=tmp_path / "run",
        progress=False,
    )

    def difference(n: int) -> float:
        later = n - 1
        leads, follows = np.sqrt(weight**2 + later), np.sqrt(1 + later * weight**2)
        first, others = weight / leads - 1 / follows, weight / follows - 1 / leads
        return float((first + later * others) / n)

    pairs = log.frame("languages")
    assert pairs["n"].to_list() == [2, 3]
    for n, language, estimate in pairs.select("n", "language", "estimate").rows():
        # Cosines of float32 vectors.
        sign = 1 if language == "en" else -1
        assert sign * estimate == pytest.approx(difference(n), abs=1e-6)
    [row] = log.frame("language_verdicts").iter_rows(named=True)
    assert row["verdict"] == "biased"
    assert "en is 0." in row["sentence"]
    assert "more represented than de" in row["sentence"]
