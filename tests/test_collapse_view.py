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
import pytest
from rich.console import Console

from fairspan.errors import LogError
from fairspan.report.chart import Chart, Panel, Series
from fairspan.report.figure import draw
from fairspan.report.table import Table
from fairspan.report.terminal import print_view
from fairspan.runs.log import RunLog
from fairspan.studies.collapse.summary import LengthSummary, summarize_length
from fairspan.studies.collapse.tables import bound_sentences
from fairspan.studies.collapse.view import view_of
from tests.length_studies import (
    HALF,
    LENGTHS,
    MILD,
    PLAIN,
    SPECTRA,
    STRONG,
    Curves,
    above,
    entries_of,
    spectrum_row,
    study_of,
)

CURVES = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, -0.42, 0.43], "words": [0.1, 0.2, 0.3, 0.4]}
FACTORS = {"cosine": 1.0, "distance": 2.0, "rank": 10.0}
REPEATED = {PLAIN: {1: 1.0, 2: 0.5, 4: 0.25}, STRONG: {1: 0.9, 2: 0.4, 4: 0.2}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> LengthSummary:
    """A study with everything there is to show."""
    labels = {name: values for name, values in CURVES.items() if name != "words"}
    geometry = [
        entry
        for measure, factor in FACTORS.items()
        for entry in entries_of({name: [factor * v for v in own] for name, own in CURVES.items()}, LENGTHS, measure)
    ]
    classification = [entry for measure in ("correct", "entropy") for entry in entries_of(labels, LENGTHS, measure)]
    repeated = [
        {"treatment": name, "measure": "repeated", "document": "dog / cat", "part": str(times), "value": value}
        for name, values in REPEATED.items()
        for times, value in values.items()
    ]
    folder = tmp_path_factory.mktemp("study") / "run"
    rows = [*SPECTRA, *repeated]
    return study_of(folder, CURVES, rows=rows, geometry=geometry, classification=classification, notes=["a note"])


def table(summary: LengthSummary, name: str) -> Table:
    [found] = [one for one in summary.log.view.tables() if one.name == name]
    return found


def chart(summary: LengthSummary, name: str) -> Chart:
    found = summary.log.view.chart(name)
    assert isinstance(found, Chart)
    return found


def estimates(series: Series) -> list[float | None]:
    return [None if one is None else one.estimate for one in series.points]


def lines(panel: Panel, *, dashed: bool = False) -> dict[str, list[float | None]]:
    return {one.name: estimates(one) for one in panel.series if one.dashed == dashed}


# --- verdicts


@pytest.mark.parametrize(
    ("last", "word", "sentence"),
    [
        (
            0.62,
            "collapses",
            "long texts are more similar: mean cosine 0.500 at 50 tokens, 0.620 at 400 (+0.120 [+0.110, +0.130])",
        ),
        (
            0.42,
            "spreads",
            "long texts are less similar: mean cosine 0.500 at 50 tokens, 0.420 at 400 (−0.080 [−0.090, −0.070])",
        ),
        (
            0.505,
            "stable",
            "long texts are about as similar: mean cosine 0.500 at 50 tokens, 0.505 at 400 (+0.005 [−0.005, +0.015])",
        ),
    ],
)
def test_verdicts(tmp_path: Path, last: float, word: str, sentence: str) -> None:
    log = study_of(tmp_path, {PLAIN: [0.5, 0.9, 0.1, last]}).log
    assert log.verdicts.rows() == [(PLAIN, word, sentence)]
    [card] = log.view.cards
    assert (card.name, card.badge, card.sentences) == (PLAIN, word, (sentence,))
    assert repr(log) == f"<m on c: 20 documents cut to 50, 100, 200, 400 tokens | none: {word}>"


def test_a_verdict_is_of_the_treatment_itself(tmp_path: Path) -> None:
    """Against its own shortest texts, not against those of the plain model."""
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.5, 0.5, 0.7], MILD: [0.2, 0.2, 0.2, 0.4]})
    assert summary.verdict(MILD).startswith(
        "long texts are more similar: mean cosine 0.200 at 50 tokens, 0.400 at 400"
    )


def test_one_length_has_no_verdict(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])
    assert summary.verdict(PLAIN) == "one length only: nothing to compare"


def unknown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As three documents leave them: differences with no interval."""
    return [{**entry, **({"low": None, "high": None} if entry["against"] else {})} for entry in entries]


def test_an_unknown_interval_decides_nothing(tmp_path: Path) -> None:
    curves = {PLAIN: above(0, 0.1, 0.2, 0.3)}
    summary = study_of(tmp_path, curves, geometry=unknown(entries_of(curves, LENGTHS)))
    assert "about as similar" not in summary.verdict(PLAIN)
    assert "not more similar" not in summary.advice()


# --- advice


@pytest.mark.parametrize(
    ("curves", "suggestion", "advice"),
    [
        pytest.param(
            {PLAIN: above(0, 0, 0.05, 0.1), MILD: above(-0.1, -0.05, 0, 0.05), STRONG: above(-0.2, -0.1, -0.05, 0)},
            [1, 1, 0.9, 0.8],
            "0.9 for texts of 200 tokens; 0.8 for texts of 400 tokens and more",
            id="monotone",
        ),
        pytest.param(
            {PLAIN: above(0, 0.009, -0.2, 0.005), MILD: above(0.3, 0.3, 0.3, 0.3)},
            [1, 1, 1, 1],
            "none: long texts are not more similar than short ones",
            id="none needed",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0.02, 0.1, 0.1)},
            [1, None, None, None],
            "nothing that was tried is enough for texts of 100 tokens and more",
            id="none enough",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0, 0, 0.1), STRONG: above(0, 0, 0, 0.05)},
            [1, 0.9, 0.9, None],
            "0.9 for texts of 100 to 200 tokens; nothing that was tried is enough for texts of 400 tokens and more",
            id="one step, then none",
        ),
        pytest.param(
            {PLAIN: above(0, 0.05, 0.1, 0.2), MILD: above(0, 0.02, 0.1, 0.1), STRONG: above(0, 0, 0, 0)},
            [1, 0.8, 0.8, 0.8],
            "0.8 for texts of 100 tokens and more",
            id="a temperature passed over",
        ),
        pytest.param(
            {PLAIN: above(0, HALF + 1e-6), MILD: above(0, HALF - 1e-6)},
            [1, 0.9],
            "0.9 for texts of 100 tokens and more",
            id="the interval decides",
        ),
    ],
)
def test_advice(tmp_path: Path, curves: Curves, suggestion: list[float | None], advice: str) -> None:
    lengths = LENGTHS[: len(suggestion)]
    summary = study_of(tmp_path, curves, lengths=lengths)
    assert summary.suggestion() == list(zip(lengths, suggestion, strict=True))
    assert summary.advice() == advice


def test_the_order_of_temperatures_does_not_matter(tmp_path: Path) -> None:
    """But for the first, which is what the others are measured against."""
    mild, strong = above(0, 0, 0, 0.05), above(0, 0, 0, 0)
    plain = above(0, 0, 0.05, 0.1)
    one = study_of(tmp_path / "a", {PLAIN: plain, MILD: mild, STRONG: strong})
    other = study_of(tmp_path / "b", {PLAIN: plain, STRONG: strong, MILD: mild})
    assert one.suggestion() == other.suggestion() == [(50, 1), (100, 1), (200, 0.9), (400, 0.8)]


def test_other_treatments_are_not_suggested(tmp_path: Path) -> None:
    """A temperature of queries alone, baskets, and a schedule are no temperature to suggest."""
    others = ["paper", f"{MILD}+sides=query", "tempscale+temperature=[[100,0.5]]"]
    summary = study_of(tmp_path, {PLAIN: above(0, 0.1, 0.1, 0.1), **{name: above(0, 0, 0, 0) for name in others}})
    assert summary.suggestion() == [(50, 1), (100, None), (200, None), (400, None)]


def test_advice_says_where_a_temperature_is_not_needed_again(tmp_path: Path) -> None:
    """Only texts of 100 tokens are more similar: "0.9 for texts of 100 tokens and more" is not what was found."""
    summary = study_of(tmp_path, {PLAIN: above(0, 0.05, 0, 0), MILD: above(0, 0, 0, 0)})
    assert summary.suggestion() == [(50, 1), (100, 0.9), (200, 1), (400, 1)]
    assert "100 tokens and more" not in summary.advice() or "200" in summary.advice()


def test_advice_about_a_length_that_is_not_reached_stays_with_it(tmp_path: Path) -> None:
    """At 400 tokens 0.8 is enough, so "from 200 tokens on no temperature is enough" is wrong."""
    summary = study_of(tmp_path, {PLAIN: above(0, 0, 0.1, 0.1), STRONG: above(0, 0, 0.05, 0)})
    assert summary.suggestion() == [(50, 1), (100, 1), (200, None), (400, 0.8)]
    assert "from 200 tokens on no temperature" not in summary.advice()


def test_no_advice_without_temperatures(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {"paper": above(0, 0.1, 0.1, 0.1)})
    assert "from 50 tokens on no temperature that was tried is enough" not in summary.advice()


@pytest.mark.parametrize(
    ("treatment", "temperature"),
    [("tempscale", 0.8), ({"name": "cold", "preset": "tempscale", "temperature": 0.7}, 0.7)],
)
def test_a_temperature_is_one_whatever_its_name(tmp_path: Path, treatment: Any, temperature: float) -> None:
    name = treatment if isinstance(treatment, str) else treatment["name"]
    curves = {PLAIN: above(0, 0.1, 0.1, 0.1), name: above(0, 0, 0, 0)}
    summary = study_of(tmp_path, curves, treatments=[PLAIN, treatment])
    assert summary.suggestion()[-1] == (400, temperature)


def test_no_advice_of_one_length(tmp_path: Path) -> None:
    assert "not more similar" not in study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50]).advice()


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
    assert said["geometry"] == study.log.header["geometry"]
    assert said["classification"] == study.log.header["classification"]
    assert said["notes"] == ["a note"]
    assert said["lengths"] == study.log.header["lengths"]
    assert said["suggestion"] == [{"length": n, "temperature": v} for n, v in study.suggestion()]
    assert [one["treatment"] for one in said["verdicts"]] == [PLAIN, STRONG]
    assert {(one["treatment"], one["times"], one["cosine"]) for one in said["repeated"]} == {
        (name, times, value) for name, values in REPEATED.items() for times, value in values.items()
    }
    # Two texts of every length share a row.
    assert len(said["spectra"]) == len(SPECTRA) / 2
    assert [one["measure"] for one in said["spectra"]][:12] == ["hc_dc"] * 12
    assert said["advice"][0] == {"source": "geometry", "sentence": f"suggested by geometry alone: {study.advice()}"}


def test_unknown_intervals_are_null(tmp_path: Path) -> None:
    entries = unknown(entries_of(CURVES, LENGTHS))
    summary = study_of(tmp_path, CURVES, geometry=entries)
    assert json.loads(json.dumps(summary.log.to_dict(), allow_nan=False))["geometry"] == entries
    assert set(summary.log.verdicts["verdict"]) == {"unknown"}
    assert [card.tone for card in summary.log.view.cards] == ["open"] * 2


def test_both_schedules_are_told(tmp_path: Path) -> None:
    """What geometry suggests, and what was fitted on labels, each with the special tokens."""
    fitted = {
        "acts": True,
        "steps": [{"length": 50, "temperature": 1.0}, {"length": 400, "temperature": 0.9}],
        "schedule": [[402, 0.9]],
        "fitted_documents": 10,
        "tested_documents": 12,
        "tested_change": {"estimate": -0.012, "low": -0.05, "high": 0.025},
    }
    curves = {PLAIN: above(0, 0, 0.05, 0.1), MILD: above(-0.1, -0.05, 0, 0)}
    log = study_of(tmp_path, curves, fitted=fitted, added_tokens=2).log
    assert log.frame("schedule").rows() == [("geometry", 202, 0.9), ("labels", 402, 0.9)]
    [row] = log.frame("fitted").to_dicts()
    assert (row["fitted_documents"], row["tested_documents"]) == (10, 12)
    assert (row["change_estimate"], row["change_low"], row["change_high"]) == (-0.012, -0.05, 0.025)
    assert log.view.remarks[1] == "as a schedule, special tokens counted: temperature=[[202,0.9]]"
    assert "0.9 from 400 tokens on; accuracy on 12 others −0.012 [−0.050, +0.025]" in log.view.remarks[2]


def test_other_logs_are_refused(study: LengthSummary) -> None:
    log = study.log
    with pytest.raises(LogError, match="not to a study of length"):
        summarize_length(RunLog(log.folder, {**log.header, "verb": "audit"}, log.rows, view_of))
    header = {**log.header, "geometry": [], "status": "interrupted"}
    with pytest.raises(LogError, match="has no results yet"):
        _ = RunLog(log.folder, header, log.rows, view_of).view


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
    slope = (3 * 0.2 + 0.05) / 10
    assert found.rows[0].cells[4].text == f"+{slope:.3f} [+{slope - HALF:.3f}, +{slope + HALF:.3f}]"
    assert found.frame.equals(study.log.frame("geometry"))


def test_a_star_where_a_treatment_changes_the_classifier(study: LengthSummary) -> None:
    """Every interval is 0.02 wide, and every difference larger."""
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
    assert alone.series[0].points[3].told == f"none\ntokens: 400\n{alone.title}: 0.700 [0.690, 0.710]"  # type: ignore[union-attr]


def test_classified_curves(study: LengthSummary) -> None:
    panels = chart(study, "length-classification").panels
    assert [panel.title for panel in panels] == list(LABELLED)
    for panel in panels:
        assert lines(panel) == {name: values for name, values in CURVES.items() if name != "words"}


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


def test_a_length_without_a_value_leaves_a_gap(tmp_path: Path) -> None:
    """Too few documents of one length: the others are drawn."""
    entries = entries_of({PLAIN: [0.5, 0.6, 0.7, 0.8]}, LENGTHS)
    for entry in entries:
        if entry["length"] == 200:
            entry |= {"estimate": None, "low": None, "high": None}
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7, 0.8]}, geometry=entries)
    [panel] = chart(summary, "length-similarity").panels
    assert lines(panel) == {PLAIN: [0.5, 0.6, None, 0.8]}


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
    entries = [e for measure in ("cosine", "distance", "rank") for e in entries_of(curves, lengths, measure)]
    return study_of(folder, curves, lengths=lengths, rows=rows, geometry=entries)


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
    assert text.startswith("m on c: 20 documents cut to 50, 100, 200 tokens\n")
    for name in summary.treatments:
        assert re.search(rf"{re.escape(name)} +collapses: {re.escape(summary.verdict(name))}", text)
    assert f"suggested by geometry alone: {summary.advice()}" in text
    assert re.search(r"none +0\.500 +0\.600 +0\.700 +\+0\.100 \[\+0\.090, \+0\.110\]", text)
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
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, lengths=[0, 100, 300], paired=False, rows=rows)
    assert "at 0–99 tokens, 0.700 at 300–399" in summary.verdict(PLAIN)
    [panel] = chart(summary, "length-similarity").panels
    assert panel.labels == ("0–99", "100–199", "300–399")
    assert panel.spots == pytest.approx((0, 1 / 3, 1))
    assert "0.700" in printed(summary, 120)
    assert "of 0–99, 100–199, 300–399 tokens" in summary.log.view.heading
    assert summary.theory() is None, "no bin is a reference"
    json.dumps(summary.log.to_dict(), allow_nan=False)
