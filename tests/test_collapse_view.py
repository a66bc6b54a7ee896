"""What a study of length shows: logs written by hand in; verdicts, advice, frames, tables and charts out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy import stats

from fairspan.errors import LogError
from fairspan.report.chart import Chart, Panel, Series
from fairspan.report.figure import draw
from fairspan.report.table import Table
from fairspan.report.terminal import print_view
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.advice import advice, suggestion, theory
from fairspan.studies.collapse.schedules import split
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.collapse.tables import bound_sentences
from fairspan.studies.collapse.view import view_of
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

CURVES = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, -0.42, 0.43], "words": [0.1, 0.2, 0.3, 0.4]}
LABELS = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, 0.42, 0.43]}
FACTORS = {"cosine": 1.0, "distance": 2.0, "rank": 10.0}
REPEATED = {PLAIN: {1: 1.0, 2: 0.5, 4: 0.25}, STRONG: {1: 0.9, 2: 0.4, 4: 0.2}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LengthSummary:
    """A study with everything there is to show."""
    labelled = [row for measure in ("correct", "entropy") for row in label_rows_of(LABELS, LENGTHS, measure)]
    repeated = [
        {"treatment": name, "measure": "repeated", "document": "dog / cat", "part": str(times), "value": value}
        for name, values in REPEATED.items()
        for times, value in values.items()
    ]
    folder = tmp_path_factory.mktemp("study") / "run"
    rows = [*SPECTRA, *repeated, *labelled]
    return study_of(folder, CURVES, rows=rows, measures=FACTORS, notes=["a note"])


def table(summary: LengthSummary, name: str) -> Table:
    [found] = [one for one in summary.log.view.tables() if one.name == name]
    return found


def chart(summary: LengthSummary, name: str) -> Chart:
    found = summary.log.view.chart(name)
    assert isinstance(found, Chart)
    return found


def estimates(series: Series) -> list[float | None]:
    """Means of rows, without what rounding leaves."""
    return [None if one is None else round(one.estimate, 12) for one in series.points]


def lines(panel: Panel, *, dashed: bool = False) -> dict[str, list[float | None]]:
    return {one.name: estimates(one) for one in panel.series if one.dashed == dashed}


# --- verdicts


@pytest.mark.parametrize(
    ("rise", "word", "tone"),
    [
        (0.05, "more alike", "bad"),
        (0.001, "not more alike", "good"),
        (-0.001, "not more alike", "good"),
        (-0.05, "less alike", "good"),
    ],
)
def test_verdicts(tmp_path: Path, rise: float, word: str, tone: str) -> None:
    """Straight lines over log2 of length, with intervals of ±0.0009 around their slopes; the margin is 0.005."""
    curve = above(*(rise * doubling for doubling in range(4)))
    log = study_of(tmp_path, {PLAIN: curve}).log
    slope, half = slope_of(curve, LENGTHS)
    assert (slope, half) == (pytest.approx(rise), pytest.approx(0.0009, abs=1e-5)), "the premise"
    ends = [f"{end:+.4f}".replace("-", "−") for end in (slope, slope - half, slope + half)]
    sentence = (
        f"mean cosine {ends[0]} [{ends[1]}, {ends[2]}] per doubling of length (0.500 at 50 tokens, "
        f"{curve[-1]:.3f} at 400)" + ("; less than the margin of 0.005" if word == "not more alike" else "")
    )
    assert log.verdicts.rows() == [(PLAIN, word, sentence)]
    [card] = log.view.cards
    assert (card.name, card.badge, card.tone, card.sentences) == (PLAIN, word, tone, (sentence,))
    assert repr(log) == f"<m on c: {DOCUMENTS} documents cut to 50, 100, 200, 400 tokens | none: {word}>"


def test_what_is_not_shown_is_inconclusive(tmp_path: Path) -> None:
    """+0.0047 ± 0.0009 per doubling: the margin of 0.005 is inside, and no colour but that of open questions is used.

    The estimate lies 0.0003 below the margin and has an error of 0.00089/2.02; 5 % and 80 % power of one side need
    (1.65 + 0.84) errors in 0.0003, so about (2.49 · 0.00044 / 0.0003)² = 13.4 times the 40 documents.
    """
    log = study_of(tmp_path, {PLAIN: above(0, 0.0047, 0.0094, 0.0141)}).log
    [(_, word, sentence)] = log.verdicts.rows()
    assert word == "inconclusive"
    said = r"about (49|50|51)0 more documents would decide; mean cosine \+0\.0047 \[\+0\.0038, \+0\.0056\]"
    assert re.match(said, sentence), sentence
    [card] = log.view.cards
    assert card.tone == "open"


def test_another_margin_and_level_are_computed_from_the_same_rows(tmp_path: Path) -> None:
    log = study_of(tmp_path, {PLAIN: above(0, 0.0047, 0.0094, 0.0141)}).log
    words = {margin: summarize_length(log, margin=margin).verdicts["verdict"][0] for margin in (0.003, 0.005, 0.01)}
    assert words == {0.003: "more alike", 0.005: "inconclusive", 0.01: "not more alike"}
    assert summarize_length(log, level=0.6).verdicts["verdict"].to_list() == ["not more alike"]
    wide, narrow = (summarize_length(log, level=level).value(PLAIN, "cosine", 400) for level in (0.95, 0.8))
    assert wide is not None
    assert narrow is not None
    assert narrow.high - narrow.low < wide.high - wide.low == pytest.approx(2 * HALF)
    assert study_of(tmp_path / "b", {PLAIN: above(0, 0, 0, 0)}, spec={"margin": 0.02}).margin == 0.02


def test_few_documents_are_noted(tmp_path: Path) -> None:
    lengths = [{"length": length, "texts": 12, "tokens": float(length)} for length in LENGTHS]
    notes = study_of(tmp_path, {PLAIN: above(0, 0, 0, 0)}, lengths=LENGTHS).log.view.notes
    assert not any("too narrow" in note for note in notes)
    log = study_of(tmp_path / "few", {PLAIN: above(0, 0, 0, 0)}).log
    few = RunLog(log.folder, {**log.header, "lengths": lengths}, log.rows, view_of)
    assert "12 documents: with fewer than 30, intervals may be too narrow" in few.view.notes


def test_an_effective_rank_needs_documents(tmp_path: Path) -> None:
    """Of 40 documents in 160 dimensions it is shown with its limit; in 161 it is not shown, and a note says so."""
    curves = {PLAIN: above(0, 0, 0, 0)}
    plain, limited, omitted = (
        study_of(tmp_path / str(n), curves, measures=FACTORS, dimensions=n).log.view for n in (39, 160, 161)
    )
    titles = [
        [panel.title for panel in view.chart("length-geometry").panels][-1] for view in (plain, limited, omitted)
    ]
    assert titles == ["effective rank", "effective rank, at most 39", "distance to the centre"]
    notes = [next(one for one in view.tables() if one.name == "geometry").notes[-1] for view in (plain, limited)]
    assert notes[0] == "effective rank: how many directions the texts really use"
    assert notes[1] == f"{notes[0]}; at most 39 with 40 documents, so it only compares lengths and treatments"
    assert set(omitted.frame("geometry")["measure"]) == {"cosine", "distance"}
    [note] = [note for note in omitted.notes if "effective rank" in note]
    assert note == (
        "the effective rank is not shown: with 40 documents in 161 dimensions it tells little but the number of "
        "documents, and needs at least 41"
    )


def test_a_verdict_is_of_the_treatment_itself(tmp_path: Path) -> None:
    """Against its own shortest texts, not against those of the plain model."""
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.5, 0.5, 0.7], MILD: [0.2, 0.2, 0.2, 0.4]})
    assert "(0.200 at 50 tokens, 0.400 at 400)" in summary.verdict(MILD)


def test_one_length_has_no_verdict(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])
    assert summary.verdict(PLAIN) == "one length only: nothing to compare"


# --- advice


# Half of the width of a difference between two cells, two-sided and, for equivalence, one-sided.
TWO_SIDED = half_of([1, -1])
ONE_SIDED = TWO_SIDED * stats.t.ppf(0.95, DOCUMENTS - 1) / stats.t.ppf(0.975, DOCUMENTS - 1)
JUST = 1e-6


@pytest.mark.parametrize(
    ("curves", "temperatures", "said"),
    [
        pytest.param(
            {PLAIN: above(0, 0, 0.05, 0.1), MILD: above(-0.1, -0.05, 0, 0.05), STRONG: above(-0.2, -0.1, -0.05, 0)},
            [1, 1, 0.9, 0.8],
            "0.9 for texts of 200 tokens; 0.8 for texts of 400 tokens and more",
            id="monotone",
        ),
        pytest.param(
            {PLAIN: above(0, 0.002, -0.2, 0.01), MILD: above(0.3, 0.3, 0.3, 0.3)},
            [1, 1, 1, 1],
            "none: long texts are shown not to be more alike than short ones",
            id="none needed",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0.02, 0.1, 0.1)},
            [1, None, None, None],
            "nothing; texts of 100 tokens: 0.9 helps, and is not enough; texts of 200 tokens: no temperature below 1 "
            "is shown to make them less alike; texts of 400 tokens and more: 0.9 helps, and is not enough",
            id="none enough",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0.1, 0.1, 0.15, 0.3), STRONG: above(0.2, 0.1, 0.2, 0.4)},
            [1, None, None, None],
            "nothing; texts of 100 tokens and more: every temperature below 1 makes them more alike, not less",
            id="all worse",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05), MILD: above(0.1, 0.1)},
            [1, None],
            "nothing; texts of 100 tokens and more: 0.9 makes them more alike, not less",
            id="the only one is worse",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0, 0, 0.1), STRONG: above(0, 0, 0, 0.05)},
            [1, 0.9, 0.9, None],
            "0.9 for texts of 100 to 200 tokens; texts of 400 tokens and more: 0.8 helps most, and is not enough",
            id="one step, then none",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0.02, 0.1, 0.1), STRONG: above(0, 0, 0, 0)},
            [1, 0.8, 0.8, 0.8],
            "0.8 for texts of 100 tokens and more",
            id="a temperature passed over",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 + TWO_SIDED + JUST), MILD: above(0, 0.005 - ONE_SIDED - JUST)},
            [1, 0.9],
            "0.9 for texts of 100 tokens and more",
            id="just enough is shown",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 + TWO_SIDED + JUST), MILD: above(0, 0.005 - ONE_SIDED + JUST)},
            [1, None],
            "nothing; texts of 100 tokens and more: 0.9 helps, with too few documents to tell whether it is enough",
            id="not quite enough is shown",
        ),
        pytest.param(
            {PLAIN: above(0, 0.005 - ONE_SIDED + JUST), MILD: above(0, 0.1)},
            [1, None],
            "nothing; texts of 100 tokens and more: too few documents to tell whether they are more alike than the "
            "shortest",
            id="not shown to be needed",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05)},
            [1, None],
            "nothing; texts of 100 tokens and more: more alike than the shortest, and no temperature below 1 was "
            "measured",
            id="no other temperature",
        ),
    ],
)
def test_advice(tmp_path: Path, curves: Curves, temperatures: list[float | None], said: str) -> None:
    lengths = LENGTHS[: len(temperatures)]
    summary = study_of(tmp_path, curves, lengths=lengths)
    assert suggested(summary) == list(zip(lengths, temperatures, strict=True))
    assert advice(summary) == said


def suggested(summary: LengthSummary) -> list[tuple[int, float | None]]:
    return [(one.length, one.temperature) for one in suggestion(summary)]


def test_the_order_of_temperatures_does_not_matter(tmp_path: Path) -> None:
    """But for the first, which is what the others are measured against."""
    mild, strong = above(0, 0, 0, 0.05), above(0, 0, 0, 0)
    plain = above(0, 0, 0.05, 0.1)
    one = study_of(tmp_path / "a", {PLAIN: plain, MILD: mild, STRONG: strong})
    other = study_of(tmp_path / "b", {PLAIN: plain, STRONG: strong, MILD: mild})
    assert suggested(one) == suggested(other) == [(50, 1), (100, 1), (200, 0.9), (400, 0.8)]


def test_other_treatments_are_not_suggested(tmp_path: Path) -> None:
    """A temperature of queries alone, baskets, and a schedule are no temperature to suggest."""
    others = ["paper", f"{MILD}+sides=query", "tempscale+temperature=[[100,0.5]]"]
    summary = study_of(tmp_path, {PLAIN: above(0, 0.1, 0.1, 0.1), **{name: above(0, 0, 0, 0) for name in others}})
    assert suggested(summary) == [(50, 1), (100, None), (200, None), (400, None)]


def test_advice_says_where_a_temperature_is_not_needed_again(tmp_path: Path) -> None:
    """Only texts of 100 tokens are more similar: "0.9 for texts of 100 tokens and more" is not what was found."""
    summary = study_of(tmp_path, {PLAIN: above(0, 0.05, 0, 0), MILD: above(0, 0, 0, 0)})
    assert suggested(summary) == [(50, 1), (100, 0.9), (200, 1), (400, 1)]
    assert "100 tokens and more" not in advice(summary) or "200" in advice(summary)


def test_advice_about_a_length_that_is_not_reached_stays_with_it(tmp_path: Path) -> None:
    """At 400 tokens 0.8 is enough, so "from 200 tokens on no temperature is enough" is wrong."""
    summary = study_of(tmp_path, {PLAIN: above(0, 0, 0.1, 0.1), STRONG: above(0, 0, 0.05, 0)})
    assert suggested(summary) == [(50, 1), (100, 1), (200, None), (400, 0.8)]
    assert advice(summary) == (
        "texts of 200 tokens: 0.8 helps, and is not enough; 0.8 for texts of 400 tokens and more"
    )


def test_no_advice_without_temperatures(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {"paper": above(0, 0.1, 0.1, 0.1)})
    assert advice(summary) == "nothing: no temperature was tried"


@pytest.mark.parametrize(
    ("treatment", "temperature"),
    [("tempscale", 0.8), ({"name": "cold", "preset": "tempscale", "temperature": 0.7}, 0.7)],
)
def test_a_temperature_is_one_whatever_its_name(tmp_path: Path, treatment: Any, temperature: float) -> None:
    name = treatment if isinstance(treatment, str) else treatment["name"]
    curves = {PLAIN: above(0, 0.1, 0.1, 0.1), name: above(0, 0, 0, 0)}
    summary = study_of(tmp_path, curves, treatments=[PLAIN, treatment])
    assert suggested(summary)[-1] == (400, temperature)


def test_no_advice_of_one_length(tmp_path: Path) -> None:
    assert advice(study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])) == "nothing: there is one length only"


# --- spectra and bounds


def test_spectrum_means(study: LengthSummary) -> None:
    """Two texts that differ by 0.01: their mean is halfway."""
    found = study.spectra.filter(measure="hc_dc", treatment=STRONG)
    assert found.select("length", "layer").rows() == [(length, layer) for length in LENGTHS for layer in (0, 1, 2)]
    by_hand = [1.5 + 0.1 * layer + 0.005 + length / 1000 for length in LENGTHS for layer in (0, 1, 2)]
    assert found["estimate"].to_list() == pytest.approx(by_hand, abs=1e-12)
    assert set(found["texts"]) == {2}
    assert study.spectra.filter(measure="sigma_a", treatment=PLAIN)["layer"].unique().to_list() == [1]
    assert study.spectra.filter(measure="sigma_a", treatment="paper").is_empty()


def test_bounds_that_do_not_hold_are_counted(tmp_path: Path) -> None:
    """Quantity and bound meet text by text and layer by layer; equal is within; without a bound nothing counts."""
    rows = [
        spectrum_row(treatment, measure, document, 50, layer, value)
        for treatment, measure, document, layer, value in [
            (PLAIN, "sigma_a", "a", 0, 0.5),
            (PLAIN, "theorem_3", "a", 0, 0.4),
            (PLAIN, "sigma_a", "a", 1, 0.5),
            (PLAIN, "theorem_3", "a", 1, 0.6),
            (PLAIN, "sigma_a", "b", 0, 0.5),
            (PLAIN, "theorem_3", "b", 0, 0.5),
            (PLAIN, "sigma_a", "b", 1, 0.9),
            (STRONG, "sigma_a", "a", 0, 0.9),
            (STRONG, "theorem_3", "a", 0, 0.2),
        ]
    ]
    # The same document at another length has a bound of its own.
    rows += [spectrum_row(PLAIN, "sigma_a", "a", 100, 0, 0.1), spectrum_row(PLAIN, "theorem_3", "a", 100, 0, 0.2)]
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=rows)
    assert summary.bounds.rows() == [(PLAIN, "sigma_a", "theorem_3", 1, 4), (STRONG, "sigma_a", "theorem_3", 1, 1)]
    shown = [(row.heads[1], *(cell.text for cell in row.cells)) for row in table(summary, "bounds").rows]
    assert shown == [(PLAIN, "1", "4"), (STRONG, "1", "1")]
    [sentence] = bound_sentences(summary)
    assert sentence.startswith("Theorem 3's bound on σ_a does not hold in 2 of 5 ")


def test_bounds_that_hold_are_said_to(study: LengthSummary) -> None:
    two, three = bound_sentences(study)
    # 2 treatments, 2 texts, 4 lengths; 2 layers have a rate, 1 a σ_a.
    assert two.startswith("Theorem 2's bound on the filter rate holds in all 32 ")
    assert three.startswith("Theorem 3's bound on σ_a holds in all 16 ")


# --- frames


def test_frames_are_json(study: LengthSummary) -> None:
    said = json.loads(json.dumps(study.log.to_dict(), allow_nan=False))
    assert len(said["geometry"]) == 3 * (4 + 3 + 4 + 1 + 4 + 3 + 4 + 4 + 1 + 4 + 3 + 1), "values and differences"
    assert len(said["classification"]) == 2 * (4 + 4 + 4)
    assert said["notes"] == ["a note"]
    assert said["lengths"] == study.log.header["lengths"]
    assert [(one["length"], one["temperature"]) for one in said["suggestion"]] == suggested(study)
    assert [one["treatment"] for one in said["verdicts"]] == [PLAIN, STRONG]
    assert {(one["treatment"], one["times"], one["cosine"]) for one in said["repeated"]} == {
        (name, times, value) for name, values in REPEATED.items() for times, value in values.items()
    }
    # Two texts of every length share a row.
    assert len(said["spectra"]) == len(SPECTRA) / 2
    assert [one["measure"] for one in said["spectra"]][:12] == ["hc_dc"] * 12
    assert said["advice"][0] == {"source": "geometry", "sentence": f"suggested by geometry alone: {advice(study)}"}


def test_unknown_intervals_are_null(tmp_path: Path) -> None:
    """As three documents leave the distances: without one of them there is no centre of others."""
    summary = study_of(tmp_path, {PLAIN: above(0, 0, 0, 0)}, measures={"cosine": 1.0, "distance": 2.0})
    blank = pl.when(pl.col("measure") == "distance_without").then(None).otherwise(pl.col("value")).alias("value")
    log = RunLog(summary.log.folder, summary.log.header, summary.log.rows.with_columns(blank), view_of)
    said = json.loads(json.dumps(log.to_dict(), allow_nan=False))["geometry"]
    assert {one["low"] for one in said if one["measure"] == "distance" and one["against"] == "shortest"} == {None}
    assert None not in {one["low"] for one in said if one["measure"] == "cosine"}


def test_both_schedules_are_told(tmp_path: Path) -> None:
    """What geometry suggests, and what was fitted on labels, each with the special tokens.

    0.9 tells three of four labels of 400 tokens that 1 does not.
    """
    names = [f"t{number}" for number in range(120)]
    rows = [
        {"treatment": treatment, "measure": "correct", "document": name, "part": str(length), "value": float(right)}
        for treatment in (PLAIN, MILD)
        for number, name in enumerate(names)
        for length in LENGTHS
        for right in [length < 400 or (treatment == MILD and number % 4 > 0)]
    ]
    curves = {PLAIN: above(0, 0, 0.05, 0.1), MILD: above(-0.1, -0.05, 0, 0)}
    log = study_of(tmp_path, curves, rows=rows, added_tokens=2).log
    assert log.frame("schedule").rows() == [("geometry", 202, 0.9), ("labels", 402, 0.9)]
    in_fit = split(names, seed=0).in_fit(names)
    tested = [number for number in range(120) if not in_fit[number]]
    by_hand = np.mean([number % 4 > 0 for number in tested]) / 4
    [row] = log.frame("fitted").to_dicts()
    assert (row["fitted_documents"], row["tested_documents"]) == (120 - len(tested), len(tested))
    assert row["change_estimate"] == pytest.approx(by_hand)
    assert log.view.remarks[1] == "as a schedule, special tokens counted: temperature=[[202,0.9]]"
    said = f"0.9 from 400 tokens on; accuracy on {len(tested)} others +{by_hand:.3f} ["
    assert said in log.view.remarks[2]


def test_labels_that_cannot_be_judged_are_a_note(tmp_path: Path) -> None:
    """One tested document has no interval: all else is shown."""
    rows = [
        {"treatment": PLAIN, "measure": measure, "document": "t0", "part": str(length), "value": 1.0}
        for measure in ("correct", "entropy")
        for length in LENGTHS
    ]
    log = study_of(tmp_path, {PLAIN: above(0, 0, 0, 0)}, rows=rows).log
    assert log.frame("classification").is_empty()
    assert any(note.startswith("labelled texts have no statistics: ") for note in log.view.notes)


def test_an_interrupted_study_shows_what_was_finished(tmp_path: Path) -> None:
    """One of two treatments, and no control: a page, with the verdict of that treatment."""
    done = study_of(tmp_path, {PLAIN: above(0, 0.05, 0.1, 0.2)}, treatments=[PLAIN, STRONG]).log
    log = RunLog(done.folder, {**done.header, "status": "interrupted"}, done.rows, view_of)
    assert log.verdicts.rows()[0][:2] == (PLAIN, "more alike")
    assert len(log.verdicts) == 1
    assert log.view.notes[0] == "this run was interrupted: 1 of 2 treatments were measured"
    page = log.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "per doubling of length" in page


def test_logs_of_earlier_versions(tmp_path: Path) -> None:
    """They have rows of cosines only, and what was computed of all else: the rows decide, the rest is read."""
    keys = {"treatment": PLAIN, "length": 50, "against": None}
    stored = [
        {**keys, "measure": "cosine", "estimate": 99.0, "low": 99.0, "high": 99.0},
        {**keys, "measure": "distance", "estimate": 0.9, "low": 0.8, "high": None},
    ]
    log = study_of(tmp_path, {PLAIN: above(0, 0.05, 0.1, 0.2)}, geometry=stored, classification=[], fitted=None).log
    header = {key: value for key, value in log.header.items() if key != "dimensions"}
    header["spec"] = {key: value for key, value in header["spec"].items() if key != "margin"}
    summary = summarize_length(RunLog(log.folder, header, log.rows, view_of))
    assert summary.margin == 0.005
    assert summary.verdicts["verdict"].to_list() == ["more alike"]
    assert summary.value(PLAIN, "cosine", 50).estimate == pytest.approx(0.5)  # type: ignore[union-attr]
    distance = summary.value(PLAIN, "distance", 50)
    assert distance is not None
    assert (distance.estimate, distance.low) == (0.9, 0.8)
    assert np.isnan(distance.high)


def test_other_logs_are_refused(study: LengthSummary) -> None:
    log = study.log
    with pytest.raises(LogError, match="not to a study of length"):
        summarize_length(RunLog(log.folder, {**log.header, "verb": "audit"}, log.rows, view_of))


# --- tables


def test_geometry_by_length(study: LengthSummary) -> None:
    found = table(study, "geometry")
    heads = [(measure, name) for measure in FACTORS for name in (PLAIN, STRONG, "words")]
    labels = {"cosine": "mean pairwise cosine", "distance": "distance to the centre", "words": "raw word embeddings"}
    assert [row.heads for row in found.rows] == [
        (labels.get(measure, "effective rank"), labels.get(name, name)) for measure, name in heads
    ]
    assert [column.name for column in found.columns] == ["50", "100", "200", "400", "each doubling [95 %]"]
    assert [cell.text for cell in found.rows[1].cells[:4]] == ["0.400", "0.410", "−0.420", "0.430"]
    # The lengths double, so the slope is (3 (x4 − x1) + (x3 − x2)) / 10.
    slope, half = (3 * 0.2 + 0.05) / 10, HALF / 5**0.5
    assert found.rows[0].cells[4].text == f"+{slope:.4f} [+{slope - half:.4f}, +{slope + half:.4f}]"
    assert found.frame.equals(study.log.frame("geometry"))


def test_a_star_where_a_treatment_changes_the_classifier(study: LengthSummary) -> None:
    """All texts of a treatment have one value, so that the differences have no width."""
    rows = table(study, "classification").rows
    assert [row.heads for row in rows] == [(what, name) for what in LABELLED for name in (PLAIN, STRONG)]
    for row in rows:
        assert [cell.text.endswith("*") for cell in row.cells] == [row.heads[1] == STRONG] * 4


LABELLED = ("accuracy", "entropy in nats")


def test_spectra_and_filter_rates(study: LengthSummary) -> None:
    last = table(study, "spectra")
    assert [row.heads[0] for row in last.rows[::2]] == ["σ_a", "Theorem 3's bound on σ_a", "σ_s of the scores"]
    by_hand = [f"{0.3 + 0.1 + 0.005 + length / 1000:.3f}" for length in LENGTHS]
    assert [cell.text for cell in last.rows[0].cells] == by_hand
    rates = table(study, "filter-rates")
    assert [(column.group, column.name) for column in rates.columns] == [("layer", "1"), ("layer", "2")]
    assert [row.heads for row in rates.rows] == [(name, str(n)) for name in (PLAIN, STRONG) for n in LENGTHS]
    by_hand = [f"−{0.5 - 0.1 * layer - 0.005 - 0.05:.2f}" for layer in (0, 1)]
    assert [cell.text for cell in rates.rows[0].cells] == by_hand


def test_repeated_words(study: LengthSummary) -> None:
    found = table(study, "repeated-words")
    assert [column.name for column in found.columns] == ["1", "2", "4"]
    assert [cell.text for cell in found.rows[1].cells] == ["0.900", "0.400", "0.200"]


# --- charts


def test_every_chart_is_there_and_told_in_a_sentence(study: LengthSummary) -> None:
    charts = list(study.log.view.charts())
    kinds = ("overview", "similarity", "geometry", "classification", "repeated-words", "sigma", "filter-rates")
    assert [one.name for one in charts] == [f"length-{kind}" for kind in (*kinds, "token-spread")]
    for one in charts:
        assert one.caption[0].isupper()
        assert one.caption.endswith(".")
        assert one.subtitle == "m on c"


def test_geometry_curves(study: LengthSummary) -> None:
    """The cosine alone and with the control, which the other measures always have."""
    alone, controlled = chart(study, "length-similarity").panels
    others = chart(study, "length-geometry").panels
    treated = {name: values for name, values in CURVES.items() if name != "words"}
    assert lines(alone) == treated
    for panel, factor in zip((controlled, *others), (1, 2, 10), strict=True):
        expected = {name: [factor * value for value in values] for name, values in CURVES.items()}
        expected["raw word embeddings"] = expected.pop("words")
        assert lines(panel) == expected
        assert panel.labels == ("50", "100", "200", "400")
        assert panel.spots == pytest.approx((0, 1 / 3, 2 / 3, 1))
        assert [one.number for one in panel.series] == [0, 1, -1]
        for series in panel.series:
            for one in series.points:
                assert one is not None
                assert (one.low, one.high) == pytest.approx((one.estimate - HALF, one.estimate + HALF))
    assert alone.series[0].points[3].told == f"none\ntokens: 400\n{alone.title}: 0.700 [0.698, 0.702]"  # type: ignore[union-attr]


def test_classified_curves(study: LengthSummary) -> None:
    panels = chart(study, "length-classification").panels
    assert [panel.title for panel in panels] == list(LABELLED)
    for panel in panels:
        assert lines(panel) == LABELS


def by_layer(base: float, layers: Sequence[int], length: int) -> list[float]:
    return [base + 0.1 * layer + 0.005 + length / 1000 for layer in layers]


def test_attention_stands_beside_its_bounds(study: LengthSummary) -> None:
    """Values as in SPECTRA; the last layer is the second, and treatments are 0.5 apart."""
    [sigma] = chart(study, "length-sigma").panels
    for base, dashed in ((0.3, False), (0.35, True)):
        for name, shift in ((PLAIN, 0.0), (STRONG, 0.5)):
            expected = [value for length in LENGTHS for value in by_layer(base + shift, [1], length)]
            assert lines(sigma, dashed=dashed)[name] == pytest.approx(expected)
    rates = chart(study, "length-filter-rates")
    assert [panel.title for panel in rates.panels] == [f"{length} tokens" for length in LENGTHS]
    assert len({rates.domain(panel) for panel in rates.panels}) == 1, "one axis for all lengths"
    for panel, length in zip(rates.panels, LENGTHS, strict=True):
        assert panel.labels == ("1", "2")
        for base, dashed in ((-0.5, False), (-0.2, True)):
            assert lines(panel, dashed=dashed)[PLAIN] == pytest.approx(by_layer(base, [0, 1], length))
    spread = chart(study, "length-token-spread").panels[-1]
    assert spread.labels == ("0", "1", "2")
    assert lines(spread)[STRONG] == pytest.approx(by_layer(1.5, [0, 1, 2], 400))


def test_repeated_words_on_a_logarithmic_axis(study: LengthSummary) -> None:
    [panel] = chart(study, "length-repeated-words").panels
    assert lines(panel) == {name: list(values.values()) for name, values in REPEATED.items()}
    assert panel.spots == pytest.approx([log2(times) / 2 for times in (1, 2, 4)])


def test_the_overview_has_the_panels_of_the_others(study: LengthSummary) -> None:
    cosine, rank, sigma, rates = chart(study, "length-overview").panels
    assert study.log.view.chart().name == "length-overview"
    assert lines(cosine) == lines(chart(study, "length-similarity").panels[0])
    assert lines(rank).items() <= lines(chart(study, "length-geometry").panels[1]).items()
    assert sigma == chart(study, "length-sigma").panels[0]
    assert rates.series == chart(study, "length-filter-rates").panels[-1].series
    assert (sigma.x_label, rates.x_label) == ("tokens", "layer")
    assert len({panel.y_label for panel in (cosine, rank, sigma, rates)}) == 4, "an axis each"


def test_a_picture_draws_them(study: LengthSummary) -> None:
    pytest.importorskip("matplotlib")
    axes = [one for one in draw(chart(study, "length-overview")).axes if one.axison]
    assert [one.get_title() for one in axes] == [one.title for one in chart(study, "length-overview").panels]
    drawn = {container.get_label(): container.lines[0] for container in axes[0].containers}
    assert list(drawn[PLAIN].get_ydata()) == CURVES[PLAIN]


def test_a_bound_of_one_layer_is_seen(tmp_path: Path) -> None:
    """With σ_a of the last layer only, Theorem 2 is known there alone: one point, which no line shows."""
    pytest.importorskip("matplotlib")
    rows = [row for row in SPECTRA if row["measure"] != "theorem_2" or row["layer"] == 1]
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=rows)
    axes = draw(chart(summary, "length-filter-rates")).axes[0]
    [dashed] = [line for line in axes.lines if line.get_label() == f"_{PLAIN}"]
    assert np.isnan(dashed.get_ydata()[0])  # type: ignore[index]
    assert dashed.get_marker() not in ("", "None", None)


def test_what_was_not_measured_is_not_shown(tmp_path: Path) -> None:
    """Bins of unequal size have no effective rank; there are no spectra, labels or repeated words."""
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.55, 0.6, 0.7]})
    assert [one.name for one in summary.log.view.charts()] == ["length-overview", "length-similarity"]
    assert len(chart(summary, "length-overview").panels) == 1
    assert [one.name for one in summary.log.view.tables()] == ["geometry"]


# --- terminal and page


def printed(summary: LengthSummary, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_view(console, summary.log.view, ending="log: here")
    return console.export_text()


def wide(folder: Path, lengths: Sequence[int]) -> LengthSummary:
    """Three temperatures and the words, and what attention does in the last layer."""
    curve = np.linspace(0.5, 0.7, len(lengths)).tolist()
    curves = {PLAIN: curve, MILD: curve, STRONG: curve, "words": curve}
    rows = [
        spectrum_row(name, measure, "a", length, 5, 0.456)
        for name in (PLAIN, MILD, STRONG)
        for length in lengths
        for measure in ("sigma_a", "sigma_s", "theorem_3")
    ]
    return study_of(folder, curves, lengths=lengths, rows=rows, measures=dict.fromkeys(FACTORS, 1.0))


@pytest.mark.parametrize("lengths", [(50, 100, 200), (25, 50, 100, 200, 400, 800, 1600, 3200)])
def test_no_number_is_cut_off_at_80_columns(tmp_path: Path, lengths: Sequence[int]) -> None:
    """Eight lengths are what bge-m3 has by default."""
    _, _, text = printed(wide(tmp_path, lengths), 80).partition("Vectors of texts by length")
    assert "…" not in text
    for line in text.splitlines():
        assert not re.match(r"\s*([−+]?\d+\.\d+)", line), f"the row has lost its name: {line}"
    # Three treatments and three quantities of attention.
    assert text.count("0.456") == 9 * len(lengths)


def test_the_terminal_shows_what_was_found(tmp_path: Path) -> None:
    summary = wide(tmp_path, (50, 100, 200))
    text = printed(summary, 200)
    assert text.startswith("m on c: 40 documents cut to 50, 100, 200 tokens\n")
    for name in summary.treatments:
        assert re.search(rf"{re.escape(name)} +more alike: {re.escape(summary.verdict(name))}", text)
    assert f"suggested by geometry alone: {advice(summary)}" in text
    assert re.search(r"none +0\.500 +0\.600 +0\.700 +\+0\.1000 \[\+0\.0986, \+0\.1014\]", text)
    assert re.search(r"raw word embeddings +0\.500 +0\.600 +0\.700", text)
    assert re.search(r"tempscale\+temperature=0\.8 +0\.456 +0\.456 +0\.456 *\n", text)
    assert text.rstrip().endswith("log: here")


def test_a_length_without_a_rate_is_left_out(tmp_path: Path) -> None:
    """A text of one token has no HC, so no rate, and the rows leave it out."""
    rows = [row for row in SPECTRA if not (row["measure"] == "filter_rate" and row["part"] == "50")]
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=rows)
    assert [row.heads[1] for row in table(summary, "filter-rates").rows] == ["100", "200", "400"] * 2
    assert "100" in printed(summary, 120)


def test_the_page_holds_the_numbers(study: LengthSummary, tmp_path: Path) -> None:
    page = study.log.save_page(tmp_path / "page.html").read_text(encoding="utf-8")
    drawn = [json.loads(text) for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page)]
    assert len(drawn) == sum(len(one.panels) for one in study.log.view.charts() if isinstance(one, Chart))
    assert [point["v"] for point in drawn[0]["series"][0]["points"]] == CURVES[PLAIN]
    assert "What length does to m" in page
    assert "Theorems 2 and 3 of the length-collapse paper" in page


# --- natural lengths


def test_natural_bins_are_told_as_bins_and_drawn(tmp_path: Path) -> None:
    """Of which the first begins at 0, where a logarithmic axis has no place."""
    rows = [
        spectrum_row(PLAIN, measure, "a", length, 0, 0.4)
        for measure in ("filter_rate", "sigma_a", "sigma_s", "theorem_3")
        for length in (0, 100, 300)
    ]
    bins = {"lengths": [0, 100, 300], "tokens": [60, 140, 350], "paired": False}
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, **bins, rows=rows)  # type: ignore[arg-type]
    assert "(0.500 at 0–99 tokens, 0.700 at 300–399)" in summary.verdict(PLAIN)
    [panel] = chart(summary, "length-similarity").panels
    assert panel.labels == ("0–99", "100–199", "300–399")
    assert panel.spots == pytest.approx((0, 1 / 3, 1))
    assert "0.700" in printed(summary, 120)
    assert "of 0–99, 100–199, 300–399 tokens" in summary.log.view.heading
    assert theory(summary) is None, "no bin is a reference"
    json.dumps(summary.log.to_dict(), allow_nan=False)


def test_natural_slopes_are_over_the_lengths_that_texts_have(tmp_path: Path) -> None:
    """Texts whose cosine rises by exactly 0.0100 per doubling, in bins from 100 tokens on.

    Over the left edges of the bins, 100, 200, 300 and 400, the slope would be 0.0086.
    """
    rng = np.random.default_rng(0)
    bins = [100, 200, 300, 400]
    tokens = {begin: rng.integers(begin, begin + 100, DOCUMENTS) for begin in bins}
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4}, lengths=bins, paired=False)
    rows = rows_of(
        [
            {"treatment": PLAIN, "measure": "cosine", "document": f"d{begin}-{i}", "part": str(begin)}
            | {"tokens": int(n), "value": 0.3 + 0.01 * log2(n)}
            for begin in bins
            for i, n in enumerate(tokens[begin])
        ]
    )
    log = RunLog(summary.log.folder, summary.log.header, rows, view_of)
    slope = summarize_length(log).value(PLAIN, "cosine", None, "doubling")
    assert slope is not None
    assert slope.estimate == pytest.approx(0.01, abs=1e-12)
    means = [0.3 + 0.01 * np.log2(tokens[begin]).mean() for begin in bins]
    assert np.polyfit(np.log2(bins), means, 1)[0] < 0.0095, "the premise: edges give another slope"
