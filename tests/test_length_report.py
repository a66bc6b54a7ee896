"""Reports about length: logs written by hand in; verdicts, advice, tables and pictures out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fairspan.report.length_terminal import bound_sentences, print_length
from rich.console import Console

from fairspan.errors import LogError
from fairspan.runs.log import LogWriter, RunLog, read_log
from fairspan.runs.rows import SCHEMA
from fairspan.studies.collapse.spec import make_collapse
from fairspan.studies.collapse.summary import LengthSummary, summarize_length

LENGTHS = (50, 100, 200, 400)
PLAIN, MILD, STRONG = "none", "tempscale+temperature=0.9", "tempscale+temperature=0.8"
HALF = 0.01
"""Half of the width of every interval."""

Curves = Mapping[str, Sequence[float]]


def entries_of(curves: Curves, lengths: Sequence[int], measure: str = "cosine") -> list[dict[str, Any]]:
    """What a study writes of these values: themselves, and differences, each with an interval of one width."""
    first = next(iter(curves))
    found = []
    for name, values in curves.items():

        def add(length: int | None, against: str | None, value: float, name: str = name) -> None:
            entry = {"treatment": name, "measure": measure, "length": length, "against": against}
            found.append({**entry, "estimate": value, "low": value - HALF, "high": value + HALF})

        for number, length in enumerate(lengths):
            add(length, None, values[number])
            if number:
                add(length, "shortest", values[number] - values[0])
            if name != "words":
                add(length, "short_baseline", values[number] - curves[first][0])
                if name != first:
                    add(length, first, values[number] - curves[first][number])
        if len(lengths) > 1:
            add(None, "doubling", float(np.polyfit(np.log2(np.maximum(lengths, 1)), values, 1)[0]))
    return found


def rows_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    common = {"run": "r", "model": "m", "language": "en", "tokens": 9}
    return pl.DataFrame([{**dict.fromkeys(SCHEMA), **common, **row} for row in rows], schema=SCHEMA)


def spectrum_row(
    treatment: str, measure: str, document: str, length: int, layer: int, value: float
) -> dict[str, Any]:
    given = {"treatment": treatment, "measure": measure, "document": document, "part": str(length)}
    return {**given, "layer": layer, "value": value}


def study_of(
    folder: Path,
    curves: Curves,
    *,
    lengths: Sequence[int] = LENGTHS,
    rows: Sequence[Mapping[str, Any]] = (),
    geometry: Sequence[Mapping[str, Any]] | None = None,
    treatments: Sequence[Any] | None = None,
    **changes: Any,
) -> LengthSummary:
    names = [name for name in curves if name != "words"]
    spec = make_collapse(temperatures=[], treatments=names if treatments is None else treatments).to_dict()
    header = {
        "verb": "collapse",
        "run": "m-12345678",
        "model": {"name": "m", "fingerprint": "f"},
        "corpus": {"name": "c", "fingerprint": "f", "languages": ["en"]},
        "lengths": [{"length": length, "texts": 20, "tokens": float(length)} for length in lengths],
        "paired": True,
        "token_unit": "tokens",
        "seed": 0,
        "spec": spec,
        "geometry": entries_of(curves, lengths) if geometry is None else list(geometry),
        "classification": [],
        "notes": [],
        **changes,
    }
    writer = LogWriter(folder, header)
    texts = [
        {"treatment": name, "measure": "cosine", "document": "d", "part": str(length), "value": value}
        for name, values in curves.items()
        for length, value in zip(lengths, values, strict=True)
    ]
    writer.add(rows_of([*texts, *rows]))
    writer.finish("complete", timings={"seconds": 1.5}, notes=header["notes"])
    return summarize_length(read_log(folder))


def above(*excess: float, base: float = 0.5) -> list[float]:
    """A curve by how far it lies above the shortest texts of the plain model."""
    return [base + value for value in excess]


# --- verdicts


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (0.62, "long texts are more alike: mean cosine 0.500 at 50 tokens, 0.620 at 400 (+0.120 [+0.110, +0.130])"),
        (0.42, "long texts are less alike: mean cosine 0.500 at 50 tokens, 0.420 at 400 (−0.080 [−0.090, −0.070])"),
        (
            0.505,
            "long texts are about as alike: mean cosine 0.500 at 50 tokens, 0.505 at 400 (+0.005 [−0.005, +0.015])",
        ),
    ],
)
def test_verdicts(tmp_path: Path, last: float, sentence: str) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.9, 0.1, last]})
    assert summary.verdict(PLAIN) == sentence


def test_a_verdict_is_of_the_treatment_itself(tmp_path: Path) -> None:
    """Against its own shortest texts, not against those of the plain model."""
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.5, 0.5, 0.7], MILD: [0.2, 0.2, 0.2, 0.4]})
    assert summary.verdict(MILD).startswith("long texts are more alike: mean cosine 0.200 at 50 tokens, 0.400 at 400")


def test_one_length_has_no_verdict(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50])
    assert summary.verdict(PLAIN) == "one length only: nothing to compare"


def unknown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As three documents leave them: differences with no interval."""
    return [{**entry, **({"low": None, "high": None} if entry["against"] else {})} for entry in entries]


def test_an_unknown_interval_decides_nothing(tmp_path: Path) -> None:
    curves = {PLAIN: above(0, 0.1, 0.2, 0.3)}
    summary = study_of(tmp_path, curves, geometry=unknown(entries_of(curves, LENGTHS)))
    assert "about as alike" not in summary.verdict(PLAIN)
    assert "not more alike" not in summary.advice()


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
            "none: long texts are not more alike than short ones",
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
    """Only texts of 100 tokens are more alike: "0.9 for texts of 100 tokens and more" is not what was found."""
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
    assert "not more alike" not in study_of(tmp_path, {PLAIN: [0.5]}, lengths=[50]).advice()


# --- spectra and bounds

SPECTRA = [
    spectrum_row(treatment, measure, document, length, layer, base + 0.1 * layer + 0.01 * number + length / 1000)
    for treatment, shift in ((PLAIN, 0.0), (STRONG, 0.5))
    for measure, base in (
        ("hc_dc", 1.0 + shift),
        ("filter_rate", -0.5 + shift),
        ("sigma_a", 0.3 + shift),
        ("sigma_s", 0.7 + shift),
        ("theorem_2", -0.2 + shift),
        ("theorem_3", 0.35 + shift),
    )
    for number, document in enumerate(("a", "b"))
    for length in LENGTHS
    for layer in ((0, 1, 2) if measure in ("hc_dc",) else (0, 1) if measure != "sigma_a" else (1,))
]


def test_spectrum_means(tmp_path: Path) -> None:
    """Two texts that differ by 0.01: their mean is halfway."""
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=SPECTRA)
    found = summary.spectrum("hc_dc", STRONG)
    assert found.select("length", "layer").rows() == [(length, layer) for length in LENGTHS for layer in (0, 1, 2)]
    by_hand = [1.5 + 0.1 * layer + 0.005 + length / 1000 for length in LENGTHS for layer in (0, 1, 2)]
    assert found["value"].to_list() == pytest.approx(by_hand, abs=1e-12)
    assert set(found["texts"]) == {2}
    assert summary.spectrum("sigma_a", PLAIN)["layer"].unique().to_list() == [1]
    assert summary.spectrum("sigma_a", "paper").is_empty()


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
    assert summary.exceeded("sigma_a", "theorem_3", PLAIN) == (1, 4)
    assert summary.exceeded("sigma_a", "theorem_3", STRONG) == (1, 1)
    assert summary.exceeded("filter_rate", "theorem_2", PLAIN) == (0, 0)
    bounds = summary.to_dict()["bounds"]
    assert [(b["treatment"], b["bound"], b["above"], b["of"]) for b in bounds] == [
        (PLAIN, "theorem_3", 1, 4),
        (STRONG, "theorem_3", 1, 1),
    ]
    [sentence] = bound_sentences(summary)
    assert sentence.startswith("Theorem 3's bound on σ_a does not hold in 2 of 5 ")


def test_bounds_that_hold_are_said_to(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=SPECTRA)
    two, three = bound_sentences(summary)
    # 2 treatments, 2 texts, 4 lengths; 2 layers have a rate, 1 a σ_a.
    assert two.startswith("Theorem 2's bound on the filter rate holds in all 32 ")
    assert three.startswith("Theorem 3's bound on σ_a holds in all 16 ")


# --- JSON


def test_the_dictionary_is_json(tmp_path: Path) -> None:
    """Also where an interval or a value is not defined."""
    curves = {PLAIN: above(0, 0.1, 0.1, 0.1), STRONG: above(0, 0, 0, 0), "words": [0.1, 0.2, 0.3, 0.4]}
    repeated = [
        {"treatment": name, "measure": "repeated", "document": "dog / cat", "part": str(times), "value": 0.1 * times}
        for name in (PLAIN, STRONG)
        for times in (1, 2)
    ]
    entries = unknown(entries_of(curves, LENGTHS))
    summary = study_of(tmp_path, curves, rows=[*SPECTRA, *repeated], geometry=entries, notes=["a note"])
    said = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    assert said["geometry"] == entries
    assert said["notes"] == ["a note"]
    assert said["suggestion"] == [{"length": n, "temperature": v} for n, v in summary.suggestion()]
    assert [one["treatment"] for one in said["verdicts"]] == [PLAIN, STRONG]
    assert said["repeated"][2:] == [
        {"treatment": STRONG, "times": 1, "cosine": 0.1},
        {"treatment": STRONG, "times": 2, "cosine": 0.2},
    ]
    assert len(said["spectra"]) == sum(
        len(summary.spectrum(measure, name))
        for name in (PLAIN, STRONG)
        for measure in ("hc_dc", "filter_rate", "sigma_a", "sigma_s", "theorem_2", "theorem_3")
    )


def test_other_logs_are_refused(tmp_path: Path) -> None:
    log = study_of(tmp_path, {PLAIN: [0.5] * 4}).log
    with pytest.raises(LogError, match="not to a study of length"):
        summarize_length(RunLog(log.folder, {**log.header, "verb": "audit"}, log.rows))
    with pytest.raises(LogError, match="has no results yet"):
        summarize_length(RunLog(log.folder, {**log.header, "geometry": [], "status": "interrupted"}, log.rows))


# --- terminal


def printed(summary: LengthSummary, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_length(console, summary)
    return console.export_text()


def wide(folder: Path, lengths: Sequence[int], layers: int) -> LengthSummary:
    """Three temperatures and the words, rates in every layer, and the probe."""
    curve = np.linspace(0.5, 0.7, len(lengths)).tolist()
    curves = {PLAIN: curve, MILD: curve, STRONG: curve, "words": curve}
    names = (PLAIN, MILD, STRONG)
    rows = [
        spectrum_row(name, measure, "a", length, layer, -0.123)
        for name in names
        for length in lengths
        for measure in ("filter_rate", "theorem_2")
        for layer in range(layers)
    ]
    rows += [
        spectrum_row(name, measure, "a", length, layers - 1, 0.456)
        for name in names
        for length in lengths
        for measure in ("sigma_a", "sigma_s", "theorem_3")
    ]
    rows += [
        {"treatment": name, "measure": "repeated", "document": "x", "part": str(2**power), "value": 0.789}
        for name in names
        for power in range(10)
    ]
    entries = [e for measure in ("cosine", "distance", "rank") for e in entries_of(curves, lengths, measure)]
    return study_of(folder, curves, lengths=lengths, rows=rows, geometry=entries)


@pytest.mark.parametrize(
    ("lengths", "layers"),
    [
        ((50, 100, 200), 6),
        pytest.param((50, 100, 200, 400, 800), 6, id="the lengths of the issue, six layers"),
        pytest.param(
            (50, 100),
            12,
            id="twelve layers, as BERT has",
        ),
        pytest.param(
            (25, 50, 100, 200, 400, 800, 1600, 3200),
            6,
            id="eight lengths, as bge-m3 has by default",
        ),
    ],
)
def test_no_number_is_cut_off_at_80_columns(tmp_path: Path, lengths: Sequence[int], layers: int) -> None:
    text = printed(wide(tmp_path, lengths, layers), 80)
    tables = "\n".join(line for line in text.splitlines() if "dog dog" not in line)
    assert "…" not in tables
    for line in tables.splitlines():
        found = re.match(r"\s*([−+]?\d+\.\d+)", line)
        assert not found, f"the row has lost its name: {line}"
    assert text.count("−0.12 ") >= len(lengths) * (layers - 1)


def test_the_terminal_shows_what_was_found(tmp_path: Path) -> None:
    summary = wide(tmp_path, (50, 100, 200), 4)
    text = printed(summary, 200)
    for name in summary.treatments:
        assert f"{name}  {summary.verdict(name)}" in text
    assert f"suggested by geometry alone: {summary.advice()}" in text
    assert re.search(r"none +0\.500 +0\.600 +0\.700 +\+0\.100 \[\+0\.090, \+0\.110\]", text)
    assert re.search(r"raw word embeddings +0\.500 +0\.600 +0\.700", text)
    assert re.search(r"tempscale\+temperature=0\.8 +0\.456 +0\.456 +0\.456 *\n", text)
    assert re.search(r"\n +50 +−0\.12 +−0\.12 +−0\.12 +−0\.12 *\n", text)
    assert "m on c: 20 documents cut to 50, 100, 200 tokens" in text
    assert re.search(r"\n +1 +2 +4 +8 +16 +32 +64 +128 +256 +512 *\n", text)


def test_a_length_without_a_rate_is_printed(tmp_path: Path) -> None:
    """A text of one token has no HC, so no rate, and the rows leave it out."""
    rows = [row for row in SPECTRA if not (row["measure"] == "filter_rate" and row["part"] == "50")]
    summary = study_of(tmp_path, {PLAIN: [0.5] * 4, STRONG: [0.4] * 4}, rows=rows)
    assert "100" in printed(summary, 120)


# --- picture


def test_a_picture_holds_the_numbers_of_the_log(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from fairspan.report.figures.length import draw_length, save_length_picture

    curves = {PLAIN: [0.5, 0.55, 0.6, 0.7], STRONG: [0.4, 0.41, 0.42, 0.43], "words": [0.1, 0.2, 0.3, 0.4]}
    ranks = {name: [10 * value for value in values] for name, values in curves.items()}
    entries = [*entries_of(curves, LENGTHS), *entries_of(ranks, LENGTHS, "rank")]
    summary = study_of(tmp_path / "run", curves, rows=SPECTRA, geometry=entries)
    figure = draw_length(summary)
    cosine, rank, sigma, rates = figure.axes
    for axes, expected in ((cosine, curves), (rank, ranks)):
        shown = {container.get_label(): container for container in axes.containers}
        assert set(shown) == {PLAIN, STRONG, "raw word embeddings"}
        for name, values in expected.items():
            line, _, bars = shown["raw word embeddings" if name == "words" else name].lines
            assert list(line.get_xdata()) == list(LENGTHS)
            assert list(line.get_ydata()) == pytest.approx(values)
            ends = np.array([segment[:, 1] for segment in bars[0].get_segments()])
            assert ends == pytest.approx(np.array([[value - HALF, value + HALF] for value in values]))
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in sigma.lines]
    expected_lines = [
        [base + shift + 0.1 + 0.005 + length / 1000 for length in LENGTHS]
        for shift in (0.0, 0.5)
        for base in (0.3, 0.35)
    ]
    assert len(drawn) == len(expected_lines)
    for (x, y), expected_line in zip(drawn, expected_lines, strict=True):
        assert x == list(LENGTHS)
        assert y == pytest.approx(expected_line)
    by_name = {line.get_label(): line for line in rates.lines}
    for length in LENGTHS:
        line = by_name[f"{length} tokens"]
        assert list(line.get_xdata()) == [1, 2]
        assert list(line.get_ydata()) == pytest.approx([-0.5 + 0.1 * k + 0.005 + length / 1000 for k in (0, 1)])
    assert list(by_name["Theorem 2"].get_ydata()) == pytest.approx([-0.2 + 0.1 * k + 0.405 for k in (0, 1)])
    for suffix in (".png", ".svg", ".pdf"):
        save_length_picture(summary, tmp_path / f"p{suffix}")
        assert (tmp_path / f"p{suffix}").stat().st_size > 1000


def test_a_picture_without_spectra_and_rank(tmp_path: Path) -> None:
    """Bins of unequal size have no effective rank; one panel is left."""
    pytest.importorskip("matplotlib")
    from fairspan.report.figures.length import draw_length

    figure = draw_length(study_of(tmp_path, {PLAIN: [0.5, 0.55, 0.6, 0.7]}))
    assert [axes.axison for axes in figure.axes] == [True, False]
    assert len(figure.axes[0].containers) == 1


def test_the_first_natural_bin_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from fairspan.report.figures.length import draw_length

    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, lengths=[0, 100, 200], paired=False)
    axes = draw_length(summary).axes[0]
    line = axes.containers[0].lines[0]
    assert len(line.get_xdata()) == 3
    assert axes.get_xscale() != "log" or min(line.get_xdata()) > 0


def test_natural_bins_are_told_as_bins(tmp_path: Path) -> None:
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6, 0.7]}, lengths=[0, 100, 200], paired=False)
    assert "at 0 tokens" not in summary.verdict(PLAIN)


def test_natural_bins_with_spectra_are_reported(tmp_path: Path) -> None:
    rows = [
        spectrum_row(PLAIN, measure, "a", length, 0, 0.4)
        for measure in ("filter_rate", "sigma_a", "sigma_s", "theorem_3")
        for length in (0, 100)
    ]
    summary = study_of(tmp_path, {PLAIN: [0.5, 0.6]}, lengths=[0, 100], paired=False, rows=rows)
    assert "0.600" in printed(summary, 120)
    json.dumps(summary.to_dict(), allow_nan=False)
