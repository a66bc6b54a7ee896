"""What a study of length shows of logs that are written by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fairspan.calibration.spelling import as_calibration
from fairspan.report.frames import values_of
from fairspan.report.page import Part, make_page
from fairspan.runs.log import RunLog
from fairspan.stats.estimates import t_estimates
from fairspan.studies.collapse.slopes import Slopes
from fairspan.studies.collapse.steps import with_steps
from fairspan.studies.collapse.summary import enough
from fairspan.studies.collapse.view import NAMES, write_results
from fairspan.studies.logs import read_log
from tests.builders.length_studies import (
    DOCUMENTS,
    HALF,
    LENGTHS,
    MILD,
    PLAIN,
    STRONG,
    above,
    rows_of,
    share_rows_of,
    slope_of,
    study_of,
)
from tests.builders.simulated import with_entries
from tests.report.example import printed, table_of

CURVES = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, -0.42, 0.43]}
SHARES = {PLAIN: (0.9, 0.91, 0.93, 0.95), STRONG: (0.8, 0.8, 0.8, 0.8)}
FLAT = above(0, 0, 0, 0)


def rising(by: float) -> list[float]:
    """A straight line over log2 of length, from 0.5 on."""
    return above(*(by * doubling for doubling in range(4)))


RISING = rising(0.05)


# Verdicts


@pytest.mark.parametrize(
    ("rise", "word", "direction"),
    [(0.05, "biased", "more"), (0.001, "fair", ""), (-0.05, "biased", "less")],
)
def test_verdicts(tmp_path: Path, rise: float, word: str, direction: str) -> None:
    """Slopes ±0.0009; the margin is 0.005."""
    curve = rising(rise)
    log = study_of(tmp_path, {PLAIN: curve})
    slope, half = slope_of(curve, LENGTHS)
    assert (slope, half) == (pytest.approx(rise), pytest.approx(0.0009, abs=1e-5)), "the premise"
    ends = [f"{end:+.4f}".replace("-", "−") for end in (slope, slope - half, slope + half)]
    sentence = (
        f"mean cosine {ends[0]} [{ends[1]}, {ends[2]}] per doubling of length (0.500 at 50 tokens, "
        f"{curve[-1]:.3f} at 400; the same documents, cut)"
    )
    if direction:
        sentence = f"long texts are {direction} alike than short ones; {sentence}"
    else:
        sentence += "; within the margin of ±0.005"
    assert log.verdicts.rows() == [(PLAIN, word, sentence)]
    [card] = log.view.cards
    assert (card.name, card.badge, card.sentences) == (PLAIN, word, (sentence,))
    cut = f"{DOCUMENTS} documents cut to 50, 100, 200, 400 tokens"
    assert repr(log) == f"<m on c: {cut} | {PLAIN}: {word}>"


@pytest.mark.parametrize(
    ("rise", "half", "word"),
    [
        (0.02, 0.001, "biased"),
        (-0.02, 0.001, "biased"),
        (0.001, 0.001, "fair"),
        (0.001, 0.05, "inconclusive"),
    ],
)
def test_the_share_counts_too(tmp_path: Path, rise: float, half: float, word: str) -> None:
    """Cosines that are the same at every length, and a share that is not or may not be: times that
    of a query, 0.9, it is what a doubling adds to scores."""
    shares = above(*(rise * doubling for doubling in range(4)), base=0.9)
    log = study_of(tmp_path, {PLAIN: FLAT}, rows=share_rows_of({PLAIN: shares}, half))
    [(_, verdict, sentence)] = log.verdicts.rows()
    assert verdict == word
    slope = np.polyfit(np.log2(LENGTHS), shares, 1)[0] * 0.9
    shown = f"{slope:+.4f}".replace("-", "−")
    assert f"; score for every query {shown} [" in sentence
    geometry = log.frame("geometry").filter(pl.col("length").is_null())
    slopes = dict(geometry.select("measure", "estimate").rows())
    assert slopes == pytest.approx({"cosine": 0.0, "share": slope / 0.9, "score": slope}, abs=1e-12)
    ends = f"(share of the common direction 0.900 at 50 tokens, {shares[-1]:.3f} at 400)"
    assert ends in sentence
    how = "higher" if rise > 0 else "lower"
    assert sentence.startswith(f"long texts score {how} for every query") is (word == "biased")


def test_two_chances_of_a_bias_share_five_percent(tmp_path: Path) -> None:
    """A cosine that is beyond the margin at 5 % and not at 2.5 %."""
    t = stats.t.ppf([0.975, 0.9875], DOCUMENTS - 1)
    error = slope_of(FLAT, LENGTHS)[1] / t[0]
    curves = {PLAIN: rising(0.005 + error * t.mean())}
    alone = study_of(tmp_path / "alone", curves)
    both = study_of(tmp_path / "both", curves, rows=share_rows_of({PLAIN: (0.9,) * 4}))
    assert [log.verdicts["verdict"][0] for log in (alone, both)] == ["biased", "inconclusive"]


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_not_shown_is_inconclusive(tmp_path: Path, sign: int) -> None:
    """±0.0047 ± 0.0009 per doubling: the margin of 0.005 is inside, on whichever side.

    The estimate lies 0.0003 within the margin and has an error of 0.00089/2.02; 5 % and 80 % power
    of one side need (1.65 + 0.84) errors in 0.0003, so about (2.49 · 0.00044 / 0.0003)² = 13.4
    times the 40 documents.
    """
    log = study_of(tmp_path, {PLAIN: rising(sign * 0.0047)})
    [(_, word, sentence)] = log.verdicts.rows()
    assert word == "inconclusive"
    said = r"40 documents; `--documents (53|54|55)0` would decide; mean cosine [+−]0\.0047 \["
    assert re.match(said, sentence), sentence
    for margin, other in ((0.003, "biased"), (0.01, "fair")):
        assert read_log(tmp_path, margin=margin).verdicts["verdict"].to_list() == [other]


def test_few_documents_are_noted(tmp_path: Path) -> None:
    assert study_of(tmp_path / "many", {PLAIN: FLAT}, texts=30).view.notes == ()
    [few] = study_of(tmp_path / "few", {PLAIN: FLAT}, texts=29).view.notes
    assert few == "29 documents: with fewer than 30, intervals may be too narrow"


def test_one_length_has_neither_verdict_nor_advice(tmp_path: Path) -> None:
    log = study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])
    assert log.verdicts.rows() == [(PLAIN, "inconclusive", "one length only: nothing to compare")]
    assert log.view.meaning == ""
    assert list(table_of(log.view, "geometry").cells) == ["50"]


# Advice

FIRST = "Before you change anything, measure with fairspan evaluate what search gains."
MORE = "With m, long texts are more alike than short ones."
ALIKE = "With m, long texts are neither more nor less alike than short ones."
LESS = "With m, long texts are less alike than short ones."
UNCLEAR = "With m, it is unclear whether long texts are more alike than short ones."
NEITHER = "An index neither prefers nor neglects them."
NONE_TRIED = f"{MORE} No treatment was tried that a model can be calibrated to. {FIRST}"
LEVEL = (0.9,) * 4


@pytest.mark.parametrize(
    ("curves", "share", "suggested", "said"),
    [
        (
            {PLAIN: RISING, MILD: rising(0.04), STRONG: FLAT},
            LEVEL,
            STRONG,
            f"{MORE} {STRONG} is shown to undo this: give this run to fairspan calibrate. {FIRST}",
        ),
        (
            # Below the shortest texts of the plain model, and steeper than these allow.
            {PLAIN: RISING, STRONG: above(-0.3, -0.25, -0.2, -0.15)},
            LEVEL,
            None,
            f"{MORE} No treatment is shown to be enough ({STRONG}). {FIRST}",
        ),
        ({PLAIN: RISING}, LEVEL, None, NONE_TRIED),
        ({PLAIN: RISING, "chunk-mean": FLAT}, LEVEL, None, NONE_TRIED),
        ({PLAIN: FLAT, STRONG: FLAT}, LEVEL, None, f"{ALIKE} {NEITHER} Nothing has to be done."),
        ({PLAIN: rising(-0.05)}, LEVEL, None, f"{LESS} {NEITHER} Nothing has to be done."),
        ({PLAIN: rising(0.0047)}, LEVEL, None, f"{UNCLEAR} {NEITHER}"),
        (
            {PLAIN: FLAT},
            None,
            None,
            f"{ALIKE} Whether an index prefers or neglects them was not measured.",
        ),
        (
            # The share may fall by more than the margin.
            {PLAIN: rising(-0.05)},
            (0.9, 0.894, 0.888, 0.882),
            None,
            f"{LESS} It is not clear yet whether an index prefers or neglects them.",
        ),
    ],
    ids=[
        "the first that is enough",
        "low and still biased",
        "nothing was tried",
        "averaged chunks are no calibration",
        "fair",
        "less alike",
        "open",
        "no share",
        "an open share",
    ],
)
def test_what_to_do(
    tmp_path: Path,
    curves: dict[str, list[float]],
    share: tuple[float, ...] | None,
    suggested: str | None,
    said: str,
) -> None:
    shares = {} if share is None else dict.fromkeys(curves, share)
    log = study_of(tmp_path, curves, rows=share_rows_of(shares, 1e-7 if share == LEVEL else 0.01))
    assert log.view.meaning == said
    assert log.frame("suggestion").rows() == [(suggested, said)]
    assert " ".join(printed(log.view).split()).startswith(f"{log.view.heading} {said}")
    write_results(log)
    assert (tmp_path / "calibration.json").exists() is (suggested is not None)
    if suggested is not None:
        text = make_page("t", Part(log.view))
        assert text.index(said) < text.index('class="verdict ')
        assert (suggested, "fair") in log.verdicts.select("treatment", "verdict").rows()
        assert as_calibration(str(tmp_path)).temperature == 0.8


def test_a_temperature_by_length_is_made_of_those_that_were_tried(tmp_path: Path) -> None:
    """No temperature is enough for all lengths. 1 up to 100 tokens and 0.8 beyond them is, with the
    slope of a treatment that is measured with these steps."""
    curves = {PLAIN: above(0, 0, 0.05, 0.05), STRONG: above(-0.05, -0.05, 0, 0)}
    shares = share_rows_of(dict.fromkeys(curves, (0.9,) * 4))
    log = study_of(tmp_path / "apart", curves, rows=shares)
    steps = "plain+temperature=1to141_0.8"
    assert log.verdicts["verdict"].to_list() == ["biased", "biased"]
    assert log.frame("suggestion")["treatment"].to_list() == [steps]
    words = f"{steps} is shown to undo this, by the length of texts: give this run"
    assert words in log.view.meaning
    write_results(log)
    assert as_calibration(str(tmp_path / "apart")).temperature == ((141, 1.0), (None, 0.8))
    made = with_steps(log, dict(zip(LENGTHS, LENGTHS, strict=True)), 0.005, paired=True)
    # Two temperatures in both orders, with a border between any two lengths.
    assert len(made) == 6
    measured = study_of(tmp_path / "together", {PLAIN: curves[PLAIN], steps: FLAT})
    slopes = measured.frame("geometry").filter(pl.col("length").is_null())
    [slope] = slopes.filter(treatment=steps, measure="cosine").iter_rows(named=True)
    cosine = made[steps].of["cosine"]
    expected = (slope["estimate"], slope["high"])
    assert (cosine.estimate, cosine.high) == pytest.approx(expected, abs=1e-12)
    assert made[steps].of["cosine, jump"].estimate == pytest.approx(0, abs=1e-12)


def test_a_treatment_has_to_be_level_as_well(tmp_path: Path) -> None:
    """Its cosines are flat and its share rises: a bias of its own, whatever the plain model's.

    With the plain model's share of the shortest texts, the slope of the share would be level, by a
    jump.
    """
    shares = {PLAIN: (0.9,) * 4, STRONG: (0.8, 0.83, 0.86, 0.89)}
    log = study_of(tmp_path, {PLAIN: RISING, STRONG: FLAT}, rows=share_rows_of(shares))
    assert log.verdicts["verdict"].to_list() == ["biased", "biased"]
    assert log.frame("suggestion")["treatment"].to_list() == [None]


def test_advice_is_rarely_wrong(tmp_path: Path) -> None:
    """No treatment is enough by a hair: 5 % ± 1.1 % of 400 studies may suggest one.

    Without a correction it is a fifth of them.
    """
    rng = np.random.default_rng(0)
    names = [f"tiles-{16 * step}" for step in range(1, 6)]
    log = study_of(tmp_path, dict.fromkeys((PLAIN, *names), FLAT))

    def slopes(estimate: float, error: float) -> Slopes:
        return Slopes({"cosine": t_estimates([estimate], [error], [30])[0]}, 0.005)

    wrong = [0, 0]
    for _ in range(400):
        tried = {PLAIN: slopes(0.02, 0.001)}
        for name in names:
            error = 0.0005 * (rng.chisquare(30) / 30) ** 0.5
            tried[name] = slopes(0.005 + 0.0005 * rng.standard_normal(), error)
        wrong[0] += enough(log, tried)[0] is not None
        wrong[1] += any(tried[name].verdict == "fair" for name in names)
    print(f"\nwrong advice {wrong[0] / 400:.1%}, without a correction {wrong[1] / 400:.1%}")
    assert wrong[0] <= 0.083 * 400 < 0.17 * 400 < wrong[1]


# Frames, table and chart


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return study_of(tmp_path_factory.mktemp("study"), CURVES, rows=share_rows_of(SHARES, 0.01))


def test_an_interrupted_study_shows_what_was_finished(tmp_path: Path) -> None:
    """One of two treatments."""
    done = study_of(tmp_path, {PLAIN: RISING}, treatments=[PLAIN, STRONG])
    log = with_entries(done, status="interrupted")
    assert log.verdicts.select("treatment", "verdict").rows() == [(PLAIN, "biased")]
    assert log.view.notes[0] == "this run was interrupted: 1 of 2 treatments were measured"


def test_a_treatment_without_a_share_is_compared_by_cosines(tmp_path: Path) -> None:
    """Nothing is said of a share that the first treatment lacks."""
    rows = share_rows_of({STRONG: (0.9,) * 4})
    log = study_of(tmp_path, {PLAIN: FLAT, STRONG: FLAT}, rows=rows)
    assert set(log.frame("geometry")["measure"]) == {"cosine"}


def test_the_table_by_length(study: RunLog) -> None:
    table = table_of(study.view, "geometry")
    assert list(table.cells) == ["50", "100", "200", "400"]
    assert [row[1:] for row in table.rows][1:3] == [
        (STRONG, "0.400", "0.410", "−0.420", "0.430"),
        (PLAIN, "0.900", "0.910", "0.930", "0.950"),
    ]


def test_curves_by_length(study: RunLog) -> None:
    [chart] = study.view.charts()
    assert (chart.name, chart.kind, chart.scale) == ("length-overview", "lines", "log")
    assert (chart.names, chart.free) == ([PLAIN, STRONG], True)
    panels = dict(chart.panels())
    assert list(panels) == [NAMES["cosine"], NAMES["share"]]
    for rows, curves in zip(panels.values(), (CURVES, SHARES), strict=True):
        for name, curve in curves.items():
            estimates = rows.filter(treatment=name)["estimate"].to_list()
            assert estimates == pytest.approx(list(curve), abs=1e-12)
    cosine = panels[NAMES["cosine"]]
    assert values_of(cosine, "length") == list(LENGTHS)
    for end, half in (("low", -HALF), ("high", HALF)):
        assert (cosine[end] - cosine["estimate"]).to_list() == pytest.approx([half] * 8)


# Natural lengths


def test_natural_bins_are_told_as_bins(tmp_path: Path) -> None:
    """Of which the first begins at 0, where a logarithmic axis has no place."""
    bins: dict[str, Any] = {"lengths": [0, 100, 300], "tokens": [60, 140, 350], "paired": False}
    log = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, **bins)
    told = "(0.500 at 0–99 tokens, 0.700 at 300–399; whole documents by their own length)"
    assert told in log.verdicts["sentence"][0]
    chart = log.view.chart()
    assert (chart.x, chart.scale) == ("tokens", "names")
    assert chart.frame["tokens"].to_list() == ["0–99", "100–199", "300–399"]
    assert "of 0–99, 100–199, 300–399 tokens" in log.view.heading


def test_natural_slopes_are_over_the_lengths_that_texts_have(tmp_path: Path) -> None:
    """Texts whose cosine rises by exactly 0.0100 per doubling, in bins from 100 tokens on.

    Over the left edges of the bins, 100, 200, 300 and 400, the slope would be 0.0086.
    """
    rng = np.random.default_rng(0)
    bins = [100, 200, 300, 400]
    log = study_of(tmp_path, {PLAIN: [0.5] * 4}, lengths=bins, paired=False)
    rows = []
    means = []
    for begin in bins:
        tokens = rng.integers(begin, begin + 100, DOCUMENTS)
        means.append(0.3 + 0.01 * np.log2(tokens).mean())
        same = {"treatment": PLAIN, "measure": "cosine", "length": begin}
        for place, n in enumerate(tokens.tolist()):
            text = {"document": f"d{begin}-{place}", "tokens": n, "value": 0.3 + 0.01 * log2(n)}
            rows.append({**same, **text})
    geometry = replace(log, rows=rows_of(rows)).frame("geometry")
    [slope] = geometry.filter(pl.col("length").is_null())["estimate"]
    assert slope == pytest.approx(0.01, abs=1e-12)
    assert np.polyfit(np.log2(bins), means, 1)[0] < 0.0095, "the premise: edges give another slope"
