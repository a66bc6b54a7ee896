"""What a study of length shows of logs that are written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.report.chart import Panel, Series
from fairspan.report.page import Part, make_page
from fairspan.runs.log import RunLog
from fairspan.stats.intervals import Interval, t_interval
from fairspan.studies.collapse.summary import frames_of, suggestion
from fairspan.studies.collapse.view import NAMES, write_results
from tests.length_studies import (
    DOCUMENTS,
    HALF,
    LENGTHS,
    MILD,
    PLAIN,
    SPECTRA,
    STRONG,
    Curves,
    above,
    half_of,
    label_rows_of,
    rows_of,
    slope_of,
    spectrum_row,
    study_of,
)
from tests.report_example import chart_of, printed, table_of
from tests.simulated import with_entries

CURVES = {
    PLAIN: [0.5, 0.55, 0.6, 0.7],
    STRONG: [0.4, 0.41, -0.42, 0.43],
    "words": [0.1, 0.2, 0.3, 0.4],
}
LABELS = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, 0.42, 0.43]}
REPEATED = {PLAIN: {1: 1.0, 2: 0.5, 4: 0.25}, STRONG: {1: 0.9, 2: 0.4, 4: 0.2}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """A study with everything there is to show."""
    labelled = [row for measure in ("correct", "entropy") for row in label_rows_of(LABELS, measure)]
    repeated = [
        {"treatment": name, "measure": "repeated", "part": str(times), "value": value}
        for name, values in REPEATED.items()
        for times, value in values.items()
    ]
    rows = [*SPECTRA, *repeated, *labelled]
    return study_of(tmp_path_factory.mktemp("study") / "run", CURVES, rows=rows, notes=["a note"])


def estimates(series: Series) -> list[float | None]:
    """Means of rows, without what rounding leaves."""
    return [None if one is None else round(one.estimate, 12) for one in series.points]


def lines(panel: Panel, *, dashed: bool = False) -> dict[str, list[float | None]]:
    return {one.name: estimates(one) for one in panel.series if one.dashed == dashed}


# --- verdicts


@pytest.mark.parametrize(
    ("rise", "word", "direction"),
    [
        (0.05, "biased", "more"),
        (0.001, "fair", ""),
        (-0.001, "fair", ""),
        (-0.05, "biased", "less"),
    ],
)
def test_verdicts(tmp_path: Path, rise: float, word: str, direction: str) -> None:
    """Straight lines over log2 of length, with slopes ±0.0009; the margin is 0.005."""
    curve = above(*(rise * doubling for doubling in range(4)))
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


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_not_shown_is_inconclusive(tmp_path: Path, sign: int) -> None:
    """±0.0047 ± 0.0009 per doubling: the margin of 0.005 is inside, on whichever side.

    The estimate lies 0.0003 within the margin and has an error of 0.00089/2.02; 5 % and 80 % power
    of one side need (1.65 + 0.84) errors in 0.0003, so about (2.49 · 0.00044 / 0.0003)² = 13.4
    times the 40 documents.
    """
    log = study_of(tmp_path, {PLAIN: above(*(sign * 0.0047 * doubling for doubling in range(4)))})
    [(_, word, sentence)] = log.verdicts.rows()
    assert word == "inconclusive"
    said = r"about (49|50|51)0 more documents would decide; mean cosine [+−]0\.0047 \["
    assert re.match(said, sentence), sentence


def test_the_margin_decides(tmp_path: Path) -> None:
    log = study_of(tmp_path, {PLAIN: above(0, 0.0047, 0.0094, 0.0141)})
    words = {}
    for margin in (0.003, 0.005, 0.01):
        asked = with_entries(log, spec={**log.spec, "margin": margin})
        words[margin] = frames_of(asked)["verdicts"]["verdict"][0]
    assert words == {0.003: "biased", 0.005: "inconclusive", 0.01: "fair"}
    found = frames_of(log)["geometry"].row(0, named=True)
    assert found["high"] - found["low"] == pytest.approx(2 * HALF)


def test_few_documents_are_noted(tmp_path: Path) -> None:
    curves = {PLAIN: above(0, 0, 0, 0)}
    assert study_of(tmp_path / "many", curves, texts=30).view.notes == ()
    [few] = study_of(tmp_path / "few", curves, texts=29).view.notes
    assert few == "29 documents: with fewer than 30, intervals may be too narrow"


def test_one_length_has_neither_verdict_nor_advice(tmp_path: Path) -> None:
    log = study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])
    assert log.verdicts.rows() == [(PLAIN, "inconclusive", "one length only: nothing to compare")]
    assert log.view.remarks == ()
    assert [column.name for column in table_of(log.view, "geometry").columns] == ["50"]


# --- advice


# Half of the width of a difference between two cells, two-sided and, for equivalence, one-sided.
TWO_SIDED = half_of([1, -1])
ONE_SIDED = TWO_SIDED * stats.t.ppf(0.95, DOCUMENTS - 1) / stats.t.ppf(0.975, DOCUMENTS - 1)
JUST = 1e-6


NO_OTHER = "no temperature below 1 is shown to make long texts less alike"
OPEN = "too few documents to tell whether long texts are more alike than the shortest"


def most(temperature: float) -> str:
    return f"{temperature:g} helps most, but is not shown to be enough"


@pytest.mark.parametrize(
    ("curves", "said"),
    [
        pytest.param(
            # Whatever the order after the first treatment.
            {
                PLAIN: above(0, 0, 0.05, 0.1),
                STRONG: above(-0.2, -0.1, -0.05, 0),
                MILD: above(-0.1, -0.05, 0, 0.05),
            },
            0.8,
            id="the highest that is enough at every length",
        ),
        pytest.param(
            {PLAIN: above(0, -0.002, -0.2, 0.005), MILD: above(0.3, 0.3, 0.3, 0.3)},
            1,
            id="none needed",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0.02, 0.1, 0.1)},
            most(0.9),
            id="none enough",
        ),
        pytest.param(
            {
                PLAIN: above(0, 0.05, 0.1, 0.2),
                MILD: above(0.1, 0.1, 0.15, 0.3),
                STRONG: above(0.2, 0.1, 0.2, 0.4),
            },
            NO_OTHER,
            id="all worse",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0), MILD: above(0, 0.02, 0, 0)},
            most(0.9),
            id="enough at some lengths only",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 + TWO_SIDED + JUST), MILD: above(0, 0.005 - TWO_SIDED - JUST)},
            0.9,
            id="just enough is shown",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 + TWO_SIDED + JUST), MILD: above(0, 0.005 - TWO_SIDED + JUST)},
            most(0.9),
            id="not quite enough is shown",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 - ONE_SIDED + JUST), MILD: above(0, 0.1)},
            OPEN,
            id="not shown to be needed",
        ),
        pytest.param({PLAIN: above(0, 0.05)}, NO_OTHER, id="no other temperature"),
        pytest.param({"paper": above(0, 0.1)}, "no temperature was tried", id="no temperature"),
    ],
)
def test_the_advice_is_one_temperature_that_calibrate_applies(
    tmp_path: Path, curves: Curves, said: float | str
) -> None:
    lengths = LENGTHS[: len(next(iter(curves.values())))]
    log = study_of(tmp_path, curves, lengths=lengths)
    [remark] = log.view.remarks
    assert remark.startswith(
        f"suggested temperature, from the geometry of the vectors alone: {said}"
    )
    write_results(log)
    if isinstance(said, str):
        assert suggested(log) is None
        assert not (tmp_path / "calibration.json").exists()
    else:
        assert suggested(log) == said
        assert as_calibration(str(tmp_path)) == Calibration(strength=0.0, temperature=said)


SEEN = "the mean cosine of two different texts is {} at 50 tokens and {} at 400"
TRY = "Before you change anything, measure with fairspan evaluate what your search gains."
TO_M = "alike than short ones to m"
ALIKE = f"Long texts look more {TO_M}, which makes them harder to tell apart: {SEEN}."
FINE = f"{TO_M}: {SEEN}. Nothing has to be done."


@pytest.mark.parametrize(
    ("ends", "stronger", "said"),
    [
        (0.1, 0.0, f"{ALIKE} A softmax temperature of 0.8 is enough to undo this. {TRY}"),
        (0.1, 0.05, f"{ALIKE} Temperature: {most(0.8)}. {TRY}"),
        (0.1, 0.2, f"{ALIKE} Temperature: {NO_OTHER}. {TRY}"),
        (0.0, 0.0, f"Long texts look neither more nor less {FINE}"),
        (-0.1, 0.0, f"Long texts look less {FINE}"),
        (3 * 0.0047, 0.0, f"It is not clear yet whether long texts look more {TO_M}: {SEEN}."),
    ],
)
def test_what_it_means_comes_first(tmp_path: Path, ends: float, stronger: float, said: str) -> None:
    """Cosines rise evenly by `ends`, and by `stronger` at a temperature of 0.8."""
    rises = {PLAIN: ends, STRONG: stronger}
    curves = {name: above(*np.linspace(0, rise, 4)) for name, rise in rises.items()}
    shown = study_of(tmp_path, curves).view
    first, *_, last = curves[PLAIN]
    assert shown.meaning == said.format(f"{first:.3f}", f"{last:.3f}")
    assert " ".join(printed(shown).split()).startswith(f"{shown.heading} {shown.meaning}")
    text = make_page("t", [Part("p", shown)])
    assert text.index(shown.meaning) < text.index('class="verdict ')


def test_advice_is_rarely_wrong() -> None:
    """No temperature is enough by a hair at 400 tokens: 5 % ± 1.1 % of 400 studies may advise one.

    Without a correction it is a fifth of them.
    """
    rng = np.random.default_rng(0)
    tokens = {length: float(length) for length in LENGTHS}
    tried = [(1 - step / 10, f"at {1 - step / 10:g}") for step in range(6)]
    names = [name for _, name in tried]
    wrong = [0, 0]
    for _ in range(400):
        found: dict[Any, Interval] = {}
        for (place, length), name in product(enumerate([100, 200, 400], start=1), names):
            seen = t_interval(
                0.005 * place - (length < 400) + 0.01 * rng.standard_normal(),
                0.01 * (rng.chisquare(30) / 30) ** 0.5,
                30,
            )
            found |= dict.fromkeys(
                [(name, "cosine", length, one) for one in ("short_baseline", names[0])], seen
            )
        wrong[0] += suggestion(tried, found, tokens, 0.005, names[0])[0] is not None
        wrong[1] += any(one.below(0.015) < 0.05 for key, one in found.items() if key[2] == 400)
    assert wrong[0] <= 0.083 * 400 < 0.2 * 400 < wrong[1]


def suggested(log: RunLog) -> float | None:
    [temperature] = log.frame("suggestion")["temperature"]
    return temperature


def test_other_treatments_are_not_suggested(tmp_path: Path) -> None:
    """Neither a temperature of queries alone nor baskets are a temperature to suggest."""
    others = ["paper", f"{MILD}+sides=query"]
    log = study_of(
        tmp_path, {PLAIN: above(0, 0.1, 0.1, 0.1), **{name: above(0, 0, 0, 0) for name in others}}
    )
    assert suggested(log) is None


def test_a_temperature_is_one_whatever_its_name(tmp_path: Path) -> None:
    curves = {PLAIN: above(0, 0.1, 0.1, 0.1), "cold": above(0, 0, 0, 0)}
    cold = {"name": "cold", "preset": "tempscale", "temperature": 0.7}
    assert suggested(study_of(tmp_path, curves, treatments=["none", cold])) == 0.7


# --- spectra and bounds


def test_bounds_that_do_not_hold_are_counted(tmp_path: Path) -> None:
    """By text, length and layer; equal is within; without a bound nothing counts."""
    rows = []
    for treatment, document, length, layer, value, bound in [
        (PLAIN, "a", 50, 0, 0.5, 0.4),
        (PLAIN, "a", 50, 1, 0.5, 0.6),
        (PLAIN, "b", 50, 0, 0.5, 0.5),
        (PLAIN, "b", 50, 1, 0.9, None),
        (STRONG, "a", 50, 0, 0.9, 0.2),
        (PLAIN, "a", 100, 0, 0.1, 0.2),
    ]:
        rows.append(spectrum_row(treatment, "sigma_a", document, length, layer, value))
        if bound is not None:
            rows.append(spectrum_row(treatment, "theorem_3", document, length, layer, bound))
    log = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=rows)
    assert log.frame("bounds").rows() == [
        (PLAIN, "sigma_a", "theorem_3", 1, 4),
        (STRONG, "sigma_a", "theorem_3", 1, 1),
    ]
    found = table_of(log.view, "spectra")
    assert [column.name for column in found.columns] == ["50", "100"], "where a layer has numbers"
    shown = {row.heads: [cell.text for cell in row.cells] for row in found.rows}
    assert list(shown)[:3] == [("σ_a", "1", PLAIN), ("σ_a", "1", STRONG), ("σ_a", "2", PLAIN)]
    assert shown["σ_a", "1", PLAIN] == ["0.500", "0.100"]
    panels = chart_of(log.view, "length-attention").panels
    assert [panel.title for panel in panels] == ["layer 1", "layer 2"]
    sentence = found.notes[-1]
    assert sentence.startswith("Theorem 3's bound on σ_a does not hold in 2 of 5 ")


# --- frames


def test_frames_are_json(study: RunLog) -> None:
    said = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    # Values and differences of two treatments and the words, by two measures.
    assert len(said["geometry"]) == 2 * (4 + 3 + 4 + 1 + 4 + 3 + 4 + 4 + 1 + 4 + 3 + 1)
    assert len(said["classification"]) == 2 * (4 + 4 + 4)
    assert said["notes"] == ["a note"]
    assert said["lengths"] == [
        {**one, "name": str(one["length"])} for one in study.header.to_json()["lengths"]
    ]
    assert [one["treatment"] for one in said["verdicts"]] == [PLAIN, STRONG]
    assert {(one["treatment"], one["times"], one["cosine"]) for one in said["repeated"]} == {
        (name, times, value) for name, values in REPEATED.items() for times, value in values.items()
    }
    # Two texts of every length share a row.
    assert len(said["spectra"]) == len(SPECTRA) / 2


def test_unknown_intervals_are_null(tmp_path: Path) -> None:
    """As three documents leave the distances: without one of them there is no centre of others."""
    log = study_of(tmp_path, {PLAIN: above(0, 0, 0, 0)})
    known = pl.when(pl.col("measure") != "distance_without").then("value")
    blank = replace(log, rows=log.rows.with_columns(value=known)).to_dict()
    said = json.loads(json.dumps(blank, allow_nan=False))["geometry"]
    lows = {(one["measure"], one["low"]) for one in said if one["against"] == "shortest"}
    assert {low for measure, low in lows if measure == "distance"} == {None}
    assert ("cosine", None) not in lows


def test_an_interrupted_study_shows_what_was_finished(tmp_path: Path) -> None:
    """One of two treatments, and no control: a page, with the verdict of that treatment."""
    done = study_of(tmp_path, {PLAIN: above(0, 0.05, 0.1, 0.2)}, treatments=["none", STRONG])
    log = with_entries(done, status="interrupted")
    assert log.verdicts.select("treatment", "verdict").rows() == [(PLAIN, "biased")]
    assert log.view.notes[0] == "this run was interrupted: 1 of 2 treatments were measured"
    page = log.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "per doubling of length" in page


# --- tables and charts


def test_tables_by_length(study: RunLog) -> None:
    found = table_of(study.view, "geometry")
    assert [row.heads for row in found.rows] == [
        (measure, "raw word embeddings" if name == "words" else name)
        for measure in ("mean pairwise cosine", "distance to the centre")
        for name in CURVES
    ]
    names = [column.name for column in found.columns]
    assert names == ["50", "100", "200", "400", "each doubling [95 %]"]
    assert [cell.text for cell in found.rows[1].cells[:4]] == ["0.400", "0.410", "−0.420", "0.430"]
    # The lengths double, so the slope is (3 (x4 − x1) + (x3 − x2)) / 10.
    slope, half = (3 * 0.2 + 0.05) / 10, HALF / 5**0.5
    assert found.rows[0].cells[4].text == f"+{slope:.4f} [+{slope - half:.4f}, +{slope + half:.4f}]"
    assert found.frame.equals(study.frame("geometry"))
    last = table_of(study.view, "spectra")
    names = ["sigma_a", "theorem_3", "sigma_s", "filter_rate", "theorem_2"]
    assert [row.heads[:2] for row in last.rows[::2]] == [(NAMES[name], "2") for name in names]
    by_hand = [f"{0.3 + 0.1 + 0.005 + length / 1000:.3f}" for length in LENGTHS]
    assert [cell.text for cell in last.rows[0].cells] == by_hand
    # 2 treatments, 2 texts, 4 lengths; 2 layers have a rate, 1 a σ_a.
    assert last.notes[1].startswith("Theorem 2's bound on the filter rate holds in all 32 ")
    assert last.notes[2].startswith("Theorem 3's bound on σ_a holds in all 16 ")


def test_the_classifier_by_length(study: RunLog) -> None:
    rows = table_of(study.view, "classification").rows
    assert [row.heads for row in rows] == [
        (what, name) for what in ("accuracy", "entropy in nats") for name in (PLAIN, STRONG)
    ]
    assert [cell.text for cell in rows[1].cells] == ["0.400", "0.410", "0.420", "0.430"]


def test_every_chart_is_there_and_theory_is_closed(study: RunLog, tmp_path: Path) -> None:
    kinds = ["overview", "similarity", "classification", "repeated-words"]
    kinds += ["attention", "filter-rates", "theory"]
    assert [one.name for one in study.view.charts()] == [f"length-{kind}" for kind in kinds]
    assert study.view.chart().name == "length-overview"
    sections = [(section.title, section.closed) for section in study.view.sections]
    assert sections == [("At a glance", False), ("By length", False), ("Theory", True)]
    page = study.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<summary>Theory</summary>" in page


def test_curves_by_length(study: RunLog) -> None:
    treated = {name: values for name, values in CURVES.items() if name != "words"}
    assert lines(chart_of(study.view, "length-overview").panels[0]) == treated
    for panel, factor in zip(chart_of(study.view, "length-similarity").panels, (1, 2), strict=True):
        expected = {name: [factor * value for value in values] for name, values in CURVES.items()}
        expected["raw word embeddings"] = expected.pop("words")
        assert lines(panel) == expected
        assert panel.labels == ("50", "100", "200", "400")
        assert panel.spots == pytest.approx((0, 1 / 3, 2 / 3, 1))
        assert [one.number for one in panel.series] == [0, 1, -1]
        for one in (one for series in panel.series for one in series.points):
            assert one is not None
            assert (one.low, one.high) == pytest.approx((one.estimate - HALF, one.estimate + HALF))
    panels = chart_of(study.view, "length-classification").panels
    assert [lines(panel) for panel in panels] == [LABELS, LABELS]
    [panel] = chart_of(study.view, "length-repeated-words").panels
    assert lines(panel) == {name: list(values.values()) for name, values in REPEATED.items()}
    assert panel.spots == pytest.approx([log2(times) / 2 for times in (1, 2, 4)])


def by_layer(base: float, layers: Sequence[int], length: int) -> list[float]:
    return [base + 0.1 * layer + 0.005 + length / 1000 for layer in layers]


def test_curves_by_layer_and_bounds(study: RunLog) -> None:
    """Values as in SPECTRA; the last layer is the second, and treatments are 0.5 apart."""
    [sigma] = chart_of(study.view, "length-attention").panels
    assert sigma.title == "layer 2"
    for base, dashed in ((0.3, False), (0.35, True)):
        for name, shift in ((PLAIN, 0.0), (STRONG, 0.5)):
            expected = [
                value for length in LENGTHS for value in by_layer(base + shift, [1], length)
            ]
            assert lines(sigma, dashed=dashed)[name] == pytest.approx(expected)
    theory = chart_of(study.view, "length-theory")
    for panel, length in zip(theory.panels, LENGTHS, strict=True):
        assert lines(panel)[PLAIN] == pytest.approx(by_layer(-0.5, [0, 1], length))
        assert lines(panel, dashed=True)[PLAIN] == pytest.approx(by_layer(-0.2, [0, 1], length))
    rates = chart_of(study.view, "length-filter-rates")
    assert [panel.title for panel in rates.panels] == [f"{length} tokens" for length in LENGTHS]
    assert len({rates.domain(panel) for panel in rates.panels}) == 1, "one axis for all lengths"
    for panel, length in zip(rates.panels, LENGTHS, strict=True):
        assert panel.labels == ("1", "2")
        assert lines(panel)[PLAIN] == pytest.approx(by_layer(-0.5, [0, 1], length))
        assert not lines(panel, dashed=True)


def test_what_was_not_measured_is_not_shown(tmp_path: Path) -> None:
    """There are no spectra, labels or repeated words."""
    log = study_of(tmp_path, {PLAIN: [0.5, 0.55, 0.6, 0.7]})
    assert [one.name for one in log.view.charts()] == ["length-overview", "length-similarity"]
    assert len(chart_of(log.view, "length-overview").panels) == 1
    assert [one.name for one in log.view.tables()] == ["geometry"]


# --- natural lengths


def test_natural_bins_are_told_as_bins(tmp_path: Path) -> None:
    """Of which the first begins at 0, where a logarithmic axis has no place."""
    bins: dict[str, Any] = {"lengths": [0, 100, 300], "tokens": [60, 140, 350], "paired": False}
    rows = [spectrum_row(PLAIN, "filter_rate", "a", length, 0, 0.4) for length in bins["lengths"]]
    log = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, **bins, rows=rows)
    told = "(0.500 at 0–99 tokens, 0.700 at 300–399; whole documents by their own length)"
    assert told in log.verdicts["sentence"][0]
    panel = chart_of(log.view, "length-similarity").panels[0]
    assert panel.labels == ("0–99", "100–199", "300–399")
    assert panel.spots == (0, 0.5, 1)
    assert "of 0–99, 100–199, 300–399 tokens" in log.view.heading


def test_natural_slopes_are_over_the_lengths_that_texts_have(tmp_path: Path) -> None:
    """Texts whose cosine rises by exactly 0.0100 per doubling, in bins from 100 tokens on.

    Over the left edges of the bins, 100, 200, 300 and 400, the slope would be 0.0086.
    """
    rng = np.random.default_rng(0)
    bins = [100, 200, 300, 400]
    tokens = {begin: rng.integers(begin, begin + 100, DOCUMENTS) for begin in bins}
    log = study_of(tmp_path, {PLAIN: [0.5] * 4}, lengths=bins, paired=False)
    rows = []
    for measure, begin in product(("cosine", "distance", "distance_without"), bins):
        for i, n in enumerate(tokens[begin]):
            text = {"document": f"d{begin}-{i}", "part": str(begin), "tokens": int(n)}
            value = 0.3 + 0.01 * log2(n)
            rows.append({"treatment": PLAIN, "measure": measure, "value": value, **text})
    geometry = replace(log, rows=rows_of(rows)).frame("geometry")
    [slope] = geometry.filter(measure="cosine", against="doubling")["estimate"]
    assert slope == pytest.approx(0.01, abs=1e-12)
    means = [0.3 + 0.01 * np.log2(tokens[begin]).mean() for begin in bins]
    assert np.polyfit(np.log2(bins), means, 1)[0] < 0.0095, "the premise: edges give another slope"
