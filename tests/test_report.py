"""Logs and reports: simulated rows in, numbers, verdicts, tables and pictures out."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fairspan.report.figures.profiles import draw_profiles, save_picture
from fairspan.report.tables import coefficient_table, show
from rich.console import Console

from fairspan.errors import FairspanError, LogError
from fairspan.report.terminal import print_summary
from fairspan.runs.log import FORMAT, LogWriter, RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.stats.positions import marker, position_effects
from fairspan.studies.audit.spec import make_spec
from fairspan.studies.audit.summary import Summary, summarize
from fairspan.studies.logs import read_log

Plan = tuple[str, str]
Value = Callable[[int, int], float]
"""The expected value at a position (from 1) in a set."""


def simulated_rows(
    value: Value,
    *,
    sets: int = 8,
    n: int = 3,
    plan: Plan = ("en", "en"),
    treatment: str = "none",
    measure: str = "representation",
    noise: float = 0.01,
    shared: bool = False,
    stream: int | None = None,
) -> pl.DataFrame:
    """A Latin design: the n rotations of every set, with noise by segment and by row.

    The noise differs by size and plan, unless they are given one `stream`.
    """
    rng = np.random.default_rng([n, *"".join(plan).encode()] if stream is None else stream)
    own = rng.normal(0, noise, (sets, n))
    rows = []
    for number in range(sets):
        for order in range(n):
            for place in range(n):
                member = (order + place) % n
                # Shared: the last set is made of the segments of the first.
                segment = f"s{0 if shared and number == sets - 1 else number}-{member}"
                rows.append(
                    {
                        "run": "r",
                        "model": "m",
                        "treatment": treatment,
                        "measure": measure,
                        "set": number,
                        "order": order,
                        "document": f"n{n}/{':'.join(plan)}/set{number}/order{order}",
                        "position": place + 1,
                        "segment": segment,
                        "language": plan[0] if place == 0 else plan[1],
                        "lead": plan[0],
                        "later": plan[1],
                        "n": n,
                        "tokens": 90 + 7 * ((3 * number + member) % 5),
                        "value": value(place + 1, number) + own[number, member] + rng.normal(0, noise),
                        "layer": None,
                        "part": None,
                    }
                )
    return pl.DataFrame(rows, schema=SCHEMA)


def header(treatments: Sequence[Any], **changes: Any) -> dict[str, Any]:
    spec = make_spec(treatments=treatments, **changes.pop("spec", {})).to_dict()
    return {
        "verb": "audit",
        "run": "m-12345678",
        "model": {"name": "m", "fingerprint": "f"},
        "corpus": {"name": "c", "fingerprint": "f"},
        "plans": ["en"],
        "documents": 24,
        "shared_segments": {},
        "seed": 0,
        "spec": spec,
        **changes,
    }


def simulated_log(
    folder: Path,
    tables: Iterable[pl.DataFrame],
    treatments: Sequence[Any] = ("none",),
    *,
    status: str = "complete",
    **changes: Any,
) -> RunLog:
    writer = LogWriter(folder, header(treatments, **changes))
    for table in tables:
        writer.add(table)
    writer.finish(status, timings={"seconds": 1.5})
    return read_log(folder)


def printed(summary: Summary, width: int) -> str:
    console = Console(record=True, width=width, file=io.StringIO())
    print_summary(console, summary)
    return console.export_text()


PLANS: list[Plan] = [("en", "en"), ("de", "de"), ("de", "en")]
# Biased, fair and undecided under these: large effects, none, and small ones in much noise.
EFFECTS: dict[str, tuple[float, float]] = {"none": (0.10, 0.01), "paper": (0.0, 0.002), "retrieval": (0.015, 0.04)}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """Three treatments, two sizes, three plans, and retention beside representation in one family."""
    tables = []
    for treatment, (effect, noise) in EFFECTS.items():
        tables += [
            simulated_rows(
                lambda position, _, effect=effect: 0.7 - effect * (position - 1),  # type: ignore[misc]
                n=n,
                plan=plan,
                treatment=treatment,
                noise=noise,
            )
            for n in (2, 3)
            for plan in PLANS
        ]
        tables.append(simulated_rows(lambda p, s: 0.9, treatment=treatment, measure="retention", noise=0.001))
    return simulated_log(
        tmp_path_factory.mktemp("logs") / "run",
        tables,
        list(EFFECTS),
        plans=["en", "de", "de:en"],
        spec={"sizes": [2, 3], "languages": ["en", "de"], "mixed": ["de:en"]},
        notes=["a note that a reader should see"],
    )


@pytest.fixture(scope="module")
def summary(log: RunLog) -> Summary:
    return summarize(log)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """One family of documents, three treatments."""
    tables = [
        simulated_rows(
            lambda position, _, effect=effect: 0.7 - effect * (position - 1),  # type: ignore[misc]
            treatment=treatment,
            noise=noise,
        )
        for treatment, (effect, noise) in EFFECTS.items()
    ]
    return summarize(simulated_log(tmp_path_factory.mktemp("single") / "run", tables, list(EFFECTS)))


def rows_of(log: RunLog, **values: Any) -> pl.DataFrame:
    return log.rows.filter(*(pl.col(name) == value for name, value in values.items()))


# --- summaries


def test_every_family_of_documents_is_a_cell(summary: Summary) -> None:
    """3 treatments × 2 sizes × 3 plans of representation, and one family of retention."""
    assert len(summary.cells) == 18 + 3
    assert summary.measures == ["representation", "retention"]
    assert {(cell.n, cell.plan) for cell in summary.cells} == {(n, p) for n in (2, 3) for p in ("en", "de", "de:en")}
    assert all(cell.effects.clusters == 8 and cell.documents == 8 * cell.n for cell in summary.cells)


def test_position_means_are_means(summary: Summary) -> None:
    """Up to rounding in the last place."""
    for cell in summary.cells:
        rows = rows_of(
            summary.log, measure=cell.measure, treatment=cell.treatment, n=cell.n, lead=cell.lead, later=cell.later
        )
        by_position = rows.group_by("position").agg(pl.col("value", "tokens").mean()).sort("position")
        means = by_position["value"].to_numpy()
        np.testing.assert_allclose(cell.effects.means.estimate, means, rtol=1e-12)
        np.testing.assert_allclose(cell.effects.estimate, [means[0], *(means[1:] - means[0])], rtol=0, atol=1e-12)
        np.testing.assert_allclose(cell.tokens, by_position["tokens"].to_numpy(), rtol=1e-12)
        assert cell.secondary.spread.estimate == pytest.approx(means.max() - means.min(), abs=1e-12)
        assert cell.secondary.psi.estimate == pytest.approx(1 - means.min() / means.max(), abs=1e-12)
        gini = np.abs(means[:, None] - means).sum() / (2 * len(means) ** 2 * means.mean())
        assert cell.secondary.gini.estimate == pytest.approx(gini, abs=1e-12)


def test_few_sets_are_a_paired_t_test_on_set_means(summary: Summary) -> None:
    """Eight equal sets: CR2 with Satterthwaite's degrees of freedom is the paired t-test."""
    stats = pytest.importorskip("scipy.stats")
    for cell in summary.cells[:6]:
        assert cell.effects.inference == "cr2"
        rows = rows_of(summary.log, measure=cell.measure, treatment=cell.treatment, n=cell.n, lead=cell.lead)
        rows = rows.filter(pl.col("later") == cell.later)
        table = rows.pivot(on="position", index="set", values="value", aggregate_function="mean").sort("set")
        for position in range(2, cell.n + 1):
            paired = stats.ttest_rel(table[str(position)].to_numpy(), table["1"].to_numpy())
            interval = paired.confidence_interval()
            found = [getattr(cell.effects, name)[position - 1] for name in ("p_value", "low", "high")]
            np.testing.assert_allclose(found, [paired.pvalue, interval.low, interval.high], rtol=1e-7)


@pytest.mark.parametrize(("inference", "use_t"), [("auto", True), ("cr1", True), ("z", False)])
def test_many_sets_are_statsmodels_clustered_errors(tmp_path: Path, inference: str, use_t: bool) -> None:
    """CR1 is the reported default from 40 sets on; the published tables use it with z."""
    smf = pytest.importorskip("statsmodels.formula.api")
    table = simulated_rows(lambda position, _: 0.6 - 0.01 * position, sets=40, noise=0.03)
    log = simulated_log(tmp_path / "run", [table], spec={"inference": inference})
    [cell] = summarize(log).cells
    fitted = smf.ols("value ~ C(position)", table.select("value", "position", "set").to_pandas()).fit(
        cov_type="cluster", cov_kwds={"groups": table["set"].to_numpy()}, use_t=use_t
    )
    np.testing.assert_allclose(cell.effects.estimate, fitted.params, rtol=1e-9)
    np.testing.assert_allclose(cell.effects.standard_error, fitted.bse, rtol=1e-9)
    np.testing.assert_allclose(cell.effects.p_value, fitted.pvalues, rtol=1e-7, atol=1e-300)
    interval = np.asarray(fitted.conf_int())
    np.testing.assert_allclose(np.stack([cell.effects.low, cell.effects.high], 1), interval, rtol=1e-9)
    described = cell.to_dict()["coefficients"]
    assert [one["marker"] for one in described] == [marker(p) for p in fitted.pvalues]


def test_what_is_told_overrides_the_spec(single: Summary) -> None:
    """With a margin of 0.5 nothing is biased."""
    again = summarize(single.log, inference="z", margin=0.5)
    assert {cell.effects.inference for cell in again.cells} == {"z"}
    assert {cell.verdict.kind for cell in again.cells} == {"fair"}
    assert again.sentence("representation", "none") == "fair within ±0.5"


def test_shared_segments_are_clustered_on_too(tmp_path: Path) -> None:
    table = simulated_rows(lambda position, _: 0.6 - 0.02 * position, shared=True, noise=0.03)
    log = simulated_log(tmp_path / "run", [table], shared_segments={"3": True})
    [cell] = summarize(log).cells
    wanted = position_effects(
        *(table[name].to_numpy() for name in ("value", "position", "set", "segment")), inference="two-way"
    )
    assert cell.effects.inference == "two-way"
    np.testing.assert_array_equal(cell.effects.standard_error, wanted.standard_error)


def test_two_way_errors_can_be_asked_for_where_nothing_is_shared(tmp_path: Path) -> None:
    """Segments nested in sets add nothing, so the answer exists; it must not be refused after the whole run."""
    table = simulated_rows(lambda position, _: 0.6 - 0.02 * position)
    log = simulated_log(tmp_path / "run", [table], spec={"inference": "two-way"}, shared_segments={"3": False})
    [cell] = summarize(log).cells
    assert np.isfinite(cell.effects.standard_error).all()


def test_a_summary_is_reproducible(log: RunLog, summary: Summary) -> None:
    """The bootstrap is seeded by the run."""
    part = RunLog(log.folder, log.header, log.rows.filter(pl.col("measure") == "retention"))
    assert summarize(part).cells[0].to_dict() == summary.of("retention", "none")[0].to_dict()


# --- verdicts


def test_verdicts_of_one_family_are_its_sentence(single: Summary) -> None:
    """0.1 a position is biased and worst at the last; nothing is fair; little in much noise is undecided."""
    [none], [paper], [retrieval] = (single.of("representation", name) for name in EFFECTS)
    assert (none.verdict.kind, paper.verdict.kind, retrieval.verdict.kind) == ("biased", "fair", "inconclusive")
    assert single.sentence("representation", "paper") == "fair within ±0.02"
    said = single.sentence("representation", "none")
    assert said.startswith(
        f"biased: position 3 is {-none.effects.estimate[2]:.2f} less represented than position 1 ["
    )
    ends = [float(end.replace("−", "-")) for end in re.findall(r"−?\d\.\d+(?=[,\]])", said)]
    np.testing.assert_allclose(ends, [none.effects.low[2], none.effects.high[2]], atol=0.005)
    assert re.fullmatch(
        r"inconclusive: about \d+ more sets would decide", single.sentence("representation", "retrieval")
    )


def test_verdicts_of_several_families_name_the_worst(summary: Summary) -> None:
    assert summary.sentence("representation", "paper") == "fair within ±0.02 in all 6 families of documents"
    said = summary.sentence("representation", "none")
    worst = summary.worst("representation", "none")
    # The largest effect stands at the third position.
    assert worst.n == 3
    assert said.startswith(f"biased in 6 of 6 families, most of all {worst.plan}, n=3: position 3 is 0.2")
    assert "biased: " not in said
    estimates = [abs(cell.effects.estimate[1:]).max() for cell in summary.of("representation", "none")]
    assert abs(worst.verdict.estimate) == pytest.approx(max(estimates))
    said = summary.sentence("representation", "retrieval")
    undecided = sum(cell.verdict.kind == "inconclusive" for cell in summary.of("representation", "retrieval"))
    assert said.startswith(f"inconclusive in {undecided} of 6 families, most of all ")


def test_retention_is_said_of_retention(tmp_path: Path) -> None:
    table = simulated_rows(lambda position, _: 0.9 - 0.1 * position, measure="retention")
    found = summarize(simulated_log(tmp_path / "run", [table]))
    assert "less retained than position 1" in found.sentence("retention", "none")


def test_the_joint_model_is_told_where_there_are_several_languages(summary: Summary, single: Summary) -> None:
    assert single.joint == ()
    assert {(joint.measure, joint.treatment, joint.n) for joint in summary.joint} >= {
        ("representation", treatment, n) for treatment in EFFECTS for n in (2, 3)
    }
    # Plans en, de and de:en have no English lead with German after it, but every cell of the model is occupied.
    described = next(j for j in summary.joint if (j.treatment, j.n) == ("none", 3)).to_dict()
    position = {item["name"]: item["estimate"] for item in described["position"]["differences"]}
    # The truth is −0.1 and −0.2; twelve rows of noise 0.014 each give about 0.005.
    assert position[2] == pytest.approx(-0.1, abs=0.02)
    assert position[3] == pytest.approx(-0.2, abs=0.02)
    assert described["language"]["against"] == "de"
    assert described["language"]["differences"][0]["estimate"] == pytest.approx(0, abs=0.02)


# --- JSON


def strict(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def test_the_summary_is_strict_json(summary: Summary) -> None:
    found = strict(summary.to_dict())
    assert found["run"] == "m-12345678"
    assert [(v["measure"], v["treatment"], v["verdict"]) for v in found["verdicts"][:3]] == [
        ("representation", "none", "biased"),
        ("representation", "paper", "fair"),
        ("representation", "retrieval", "inconclusive"),
    ]
    cell = found["cells"][0]
    assert [one["position"] for one in cell["coefficients"]] == [1, 2]
    assert cell["means"][0]["mean"] == cell["coefficients"][0]["estimate"]
    assert cell["sets"] == 8
    assert cell["documents"] == 16


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
@pytest.mark.parametrize("inference", ["auto", "z", "wild"])
def test_odd_values_are_strict_json_and_can_be_shown(tmp_path: Path, odd: str, inference: str) -> None:
    """Two sets are the least that a design allows; cosines may be negative; a broken model may give constants."""
    log = simulated_log(tmp_path / "run", [simulated_rows(**ODD[odd])], spec={"inference": inference})
    found = summarize(log)
    strict(found.to_dict())
    assert "log: " in printed(found, 80)


@pytest.mark.parametrize("inference", ["auto", "wild"])
@pytest.mark.parametrize("sets", [2, 3])
def test_few_sets_in_several_languages_can_be_shown(tmp_path: Path, sets: int, inference: str) -> None:
    tables = [simulated_rows(lambda p, s: 0.6 - 0.05 * p, plan=plan, sets=sets) for plan in PLANS]
    found = summarize(simulated_log(tmp_path / "run", tables, spec={"inference": inference}))
    strict(found.to_dict())
    assert "all plans together" in printed(found, 120)


@pytest.mark.parametrize("inference", ["auto", "wild"])
def test_languages_that_differ_in_nothing_can_be_shown(tmp_path: Path, inference: str) -> None:
    """The same text under two languages: a difference of exactly 0, whose variance may round to less than 0."""
    tables = [simulated_rows(lambda p, s: 0.6, plan=(name, name), sets=3, stream=0) for name in ("en", "de")]
    found = summarize(simulated_log(tmp_path / "run", tables, spec={"inference": inference}))
    strict(found.to_dict())
    assert "all plans together" in printed(found, 120)


def test_a_run_that_was_stopped_can_be_read(tmp_path: Path) -> None:
    """After the first of two treatments: what there is is summarised, what is missing is not."""
    table = simulated_rows(lambda p, s: 0.6)
    log = simulated_log(tmp_path / "run", [table], ["none", "paper"], status="interrupted")
    found = summarize(log)
    assert [verdict["treatment"] for verdict in strict(found.to_dict())["verdicts"]] == ["none"]
    assert "none" in printed(found, 80)
    assert coefficient_table(found, "representation").columns == (("en", "none"),)


def test_a_run_that_is_running_can_be_shown(tmp_path: Path) -> None:
    """Its timings are not known yet."""
    writer = LogWriter(tmp_path / "run", header(["none"]))
    writer.add(simulated_rows(lambda p, s: 0.6))
    assert "fair within" in printed(summarize(read_log(tmp_path / "run")), 80)


def test_a_run_without_position_measures_has_no_cells(tmp_path: Path) -> None:
    """Attention alone: nothing to test, and the log is still named."""
    table = simulated_rows(lambda p, s: 0.6, measure="attention_segment")
    found = summarize(simulated_log(tmp_path / "run", [table], spec={"measures": ["attention"]}))
    assert found.cells == ()
    assert strict(found.to_dict())["verdicts"] == []
    assert "log: " in printed(found, 80)


# --- tables


def test_the_coefficient_table_has_the_papers_layout(summary: Summary) -> None:
    """Rows are sizes and positions, columns plans and treatments; β0 is a mean, the others differences."""
    table = coefficient_table(summary, "representation")
    assert table.rows == ((2, 1), (2, 2), (3, 1), (3, 2), (3, 3))
    assert table.columns == tuple((plan, name) for plan in ("en", "de", "de:en") for name in EFFECTS)
    cells = {(cell.plan, cell.treatment, cell.n): cell for cell in summary.cells if cell.measure == "representation"}
    for (n, position), values in zip(table.rows, table.values, strict=True):
        for (plan, treatment), value in zip(table.columns, values, strict=True):
            effects = cells[plan, treatment, n].effects
            assert value == (effects.estimate[position - 1], effects.p_value[position - 1])


def test_what_was_not_measured_is_left_empty(tmp_path: Path) -> None:
    tables = [
        simulated_rows(lambda p, s: 0.6, n=2),
        simulated_rows(lambda p, s: 0.6, n=3, plan=("de", "de")),
    ]
    table = coefficient_table(summarize(simulated_log(tmp_path / "run", tables)), "representation")
    assert table.columns == (("en", "none"), ("de", "none"))
    assert [[value is None for value in row] for row in table.values] == [[False, True]] * 2 + [[True, False]] * 3
    assert [row[1] for row in table.cells()] == ["", "", *[row[1] for row in table.cells()[2:]]]


@pytest.mark.parametrize(
    ("p", "wanted"),
    [(0.0, ""), (0.00099, ""), (0.001, "◇"), (0.0099, "◇"), (0.01, "□"), (0.049, "□"), (0.05, "•"), (1.0, "•")],
)
def test_markers(p: float, wanted: str) -> None:
    """METHODS: plain p<0.001, ◇ p<0.01, □ p<0.05, • not significant."""
    assert show(-0.123, p) == f"−0.12{wanted}"
    assert show(0.1, p, digits=3) == f"0.100{wanted}"


# --- the terminal


@pytest.mark.parametrize("width", [80, 120])
def test_verdicts_come_first_then_the_chart_then_the_numbers(single: Summary, width: int) -> None:
    text = printed(single, width)
    marks = ["fair within ±0.02", "representation by position (en, n=3, 8 sets)", "β0", "p < 0.001 unless", "log: "]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    assert text.rstrip().endswith(str(single.log.folder))
    assert max(len(line.rstrip()) for line in text.splitlines()[:-1]) <= width
    for treatment in EFFECTS:
        assert single.sentence("representation", treatment) in " ".join(text.split())


def test_notes_and_the_run_are_told(summary: Summary) -> None:
    text = printed(summary, 120)
    assert "m on c: 24 documents of 2, 3 segments, en, de, de:en" in text
    assert "note: a note that a reader should see" in text
    assert "retention by position" in text


BAR = re.compile(r"^(?:\S.*?)?\s+\d+ ([█▏▎▍▌▋▊▉]*)\s+([-−]?\d\.\d{3})\s+\[[^\]]+\]\s*$", re.MULTILINE)


def bars(text: str) -> list[tuple[float, float]]:
    """The length in characters of each bar, and the mean printed beside it."""
    found = [(bar, float(mean.replace("−", "-"))) for bar, mean in BAR.findall(text)]
    return [(bar.count("█") + sum(" ▏▎▍▌▋▊▉".index(end) / 8 for end in bar.strip("█")), mean) for bar, mean in found]


@pytest.mark.parametrize("width", [80, 120])
def test_bars_are_as_long_as_means_are_large(single: Summary, width: int) -> None:
    """Bars are drawn in eighths of a character, so a length is right to a sixteenth, and means to 0.0005."""
    found = bars(printed(single, width))
    means = [float(mean) for cell in single.cells for mean in cell.effects.means.estimate]
    assert [mean for _, mean in found] == [pytest.approx(mean, abs=0.0005) for mean in means]
    longest = max(length for length, _ in found)
    for length, mean in found:
        assert length == pytest.approx(longest * mean / max(means), abs=1 / 16 + 0.0005 * longest / max(means) + 1e-9)


def test_negative_means_are_drawn_from_the_lowest(tmp_path: Path) -> None:
    log = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.5 - 0.3 * p, noise=0.001)])
    found = bars(printed(summarize(log), 80))
    assert [mean for _, mean in found] == [pytest.approx(mean, abs=0.005) for mean in (0.2, -0.1, -0.4)]
    first, middle, lowest = (length for length, _ in found)
    assert first > middle > lowest == 0
    assert middle == pytest.approx(first / 2, abs=0.5)


LONG = ["none", "64-last_half", "64-last", "64-last_half+sides=document"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_laptop_grid_is_readable(tmp_path: Path, width: int) -> None:
    """The treatments of irf-laptop in two languages: every bar beside its mean, no number broken over two lines.

    80 columns are also what rich takes for a pipe or a file.
    """
    tables = [
        simulated_rows(lambda p, s: 0.7 - 0.1 * p, n=4, plan=plan, treatment=name)
        for name in LONG
        for plan in (("en", "en"), ("de", "de"))
    ]
    found = summarize(simulated_log(tmp_path / "run", tables, LONG, plans=["en", "de"]))
    text = printed(found, width)
    assert len(bars(text)) == 2 * 4 * 4
    longest = max(length for length, _ in bars(text))
    for length, mean in bars(text):
        assert length == pytest.approx(longest * mean / max(mean for _, mean in bars(text)), abs=0.2)
    shown = coefficient_table(found, "representation").cells(digits=3)
    for row in shown:
        for cell in row:
            assert cell in text


def test_names_in_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    """Rich reads [v2] as a style and drops it, and [/v2] as the end of one, which is an error."""
    names = ["none", "mine [v2]", "mine [/v2]"]
    given = ["none", *({"name": name, "preset": "paper"} for name in names[1:])]
    tables = [simulated_rows(lambda p, s: 0.6, treatment=name) for name in names]
    log = simulated_log(
        tmp_path / "run",
        tables,
        given,
        model={"name": "models/[a]/x"},
        corpus={"name": "texts [en]"},
        notes=["n=3: see [here]"],
    )
    text = printed(summarize(RunLog(Path("runs [old]"), log.header, log.rows)), 200)
    assert "models/[a]/x on texts [en]" in text
    assert "see [here]" in text
    assert "log: runs [old]" in text
    assert all(text.count(name) >= 3 for name in names[1:])


def test_languages_keep_their_names(tmp_path: Path) -> None:
    """A minus sign is for numbers: zh-Hans stays zh-Hans."""
    tables = [
        simulated_rows(lambda p, s: 0.6 - 0.05 * p, plan=plan) for plan in (("en", "en"), ("zh-Hans", "zh-Hans"))
    ]
    text = printed(summarize(simulated_log(tmp_path / "run", tables)), 200)
    assert "zh−Hans" not in text


# --- pictures


@pytest.fixture(scope="module")
def matplotlib() -> Any:
    return pytest.importorskip("matplotlib")


def test_the_picture_shows_the_summary_s_numbers(summary: Summary, matplotlib: Any) -> None:
    """Read back from the figure: heights are position means, error bars reach to the ends of their intervals."""
    figure = draw_profiles(summary)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [
        f"{plan}, n = {n}" for n in (2, 3) for plan in ("en", "de", "de:en")
    ]
    for axes in panels:
        plan, n = axes.get_title().split(", n = ")
        drawn = [item for item in axes.containers if isinstance(item, matplotlib.container.BarContainer)]
        cells = [c for c in summary.cells if (c.measure, c.plan, c.n) == ("representation", plan, int(n))]
        assert [cell.treatment for cell in cells] == list(EFFECTS)
        for cell, container in zip(cells, drawn, strict=True):
            means = cell.effects.means
            assert container.get_label().startswith(cell.treatment)
            np.testing.assert_allclose([bar.get_height() for bar in container], means.estimate, rtol=1e-12)
            ends = np.array(container.errorbar.lines[2][0].get_segments())[:, :, 1]
            np.testing.assert_allclose(ends, np.stack([means.low, means.high], axis=1), rtol=1e-9)
            middles = [bar.get_x() + bar.get_width() / 2 for bar in container]
            # Each bar stands within half a unit of its position's tick.
            np.testing.assert_array_equal(np.round(middles), np.arange(int(n)))
        assert [label.get_text() for label in axes.get_xticklabels()] == [str(k + 1) for k in range(int(n))]
    [legend] = figure.legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert all(text.startswith(name) for text, name in zip(shown, EFFECTS, strict=True))


def test_bars_of_a_panel_do_not_overlap(summary: Summary, matplotlib: Any) -> None:
    for axes in draw_profiles(summary).axes:
        edges = sorted(
            (bar.get_x(), bar.get_x() + bar.get_width())
            for item in axes.containers
            if isinstance(item, matplotlib.container.BarContainer)
            for bar in item
        )
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(edges))


@pytest.mark.parametrize(
    ("suffix", "starts"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_pictures_are_written(single: Summary, matplotlib: Any, tmp_path: Path, suffix: str, starts: bytes) -> None:
    file = tmp_path / "new" / f"profiles{suffix}"
    save_picture(single, file)
    assert file.read_bytes().startswith(starts)


@pytest.mark.parametrize("name", ["profiles.jpg", "profiles", "profiles.png.txt"])
def test_another_kind_of_picture_is_one_line(single: Summary, tmp_path: Path, name: str) -> None:
    with pytest.raises(LogError) as caught:
        save_picture(single, tmp_path / name)
    assert str(caught.value) == f"a picture is one of .png, .svg, .pdf, got {name!r}."


def test_a_picture_that_cannot_be_written_is_one_line(single: Summary, matplotlib: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(LogError, match="cannot be written") as caught:
        save_picture(single, tmp_path / "file" / "p.png")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("measure", ["retention", "attention_segment"])
def test_a_run_without_representation_is_drawn_or_refused_in_one_line(
    matplotlib: Any, tmp_path: Path, measure: str
) -> None:
    """`--measures retention --picture p.png`."""
    log = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6, measure=measure)])
    refused = ""
    try:
        save_picture(summarize(log), tmp_path / "p.png")
    except FairspanError as error:
        refused = str(error)
    assert "\n" not in refused
    assert (tmp_path / "p.png").exists() == (not refused)
    if measure == "retention":
        assert not refused


def test_negative_means_are_drawn(matplotlib: Any, tmp_path: Path) -> None:
    log = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.5 - 0.3 * p)])
    axes, _ = draw_profiles(summarize(log)).axes
    heights = [bar.get_height() for bar in axes.containers[-1]]
    assert heights[0] > 0 > heights[2]


# --- logs


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    first, second = (simulated_rows(lambda p, s: 0.6, treatment=name) for name in ("none", "paper"))
    log = simulated_log(tmp_path / "run", [first, second], ["none", "paper"], notes=["mind this"])
    assert log.rows.equals(pl.concat([first, second]))
    assert log.rows.schema == pl.Schema(SCHEMA)
    assert (log.run, log.status, log.model, log.treatments) == ("m-12345678", "complete", "m", ["none", "paper"])
    assert log.notes == ["mind this"]
    assert log.header["format"] == FORMAT
    assert log.header["versions"]["fairspan"]
    assert log.header["started"] <= log.header["finished"]
    again = read_log(tmp_path / "run" / "run.json")
    assert again.header == log.header
    assert again.folder == log.folder
    assert sorted(file.name for file in log.folder.iterdir()) == ["rows.parquet", "run.json"]


@pytest.mark.parametrize("name", ["runs [old]", "runs *", "a?"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Readers of Parquet may take brackets and asterisks for patterns."""
    table = simulated_rows(lambda p, s: 0.6)
    assert simulated_log(tmp_path / name, [table]).rows.equals(table)


def said_by(action: Callable[[], object]) -> str:
    with pytest.raises(LogError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def damaged(tmp_path: Path, content: bytes | Mapping[str, Any]) -> Path:
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "run.json").write_bytes(text)
    return folder


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"format": FORMAT + 1, "status": "complete"}, f"has format {FORMAT + 1}, and this fairspan reads format"),
        ({"status": "complete"}, "has format None"),
        (b"[]", "has format None"),
        (b'{"format": 1, "sta', "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_damaged_header_is_one_line(tmp_path: Path, content: bytes | dict[str, Any], said: str) -> None:
    folder = damaged(tmp_path, content)
    line = said_by(lambda: read_log(folder))
    assert said in line
    assert "run.json" in line


def test_a_header_that_lacks_its_entries_is_one_line(tmp_path: Path) -> None:
    folder = damaged(tmp_path, {"format": FORMAT})
    (folder / "rows.parquet").unlink()
    assert str(folder) in said_by(lambda: read_log(folder))


def test_a_folder_without_a_run_is_one_line(tmp_path: Path) -> None:
    assert f"{tmp_path} is not the folder of a run: it has no run.json" in said_by(lambda: read_log(tmp_path))
    assert "is not the folder of a run" in said_by(lambda: read_log(tmp_path / "nowhere"))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "cannot be read" in said_by(lambda: read_log(tmp_path / "file"))


def test_missing_and_damaged_rows_are_one_line(tmp_path: Path) -> None:
    LogWriter(tmp_path / "begun", header(["none"]))
    assert "is running and has no rows yet: run its command again" in said_by(lambda: read_log(tmp_path / "begun"))
    folder = simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)]).folder
    (folder / "rows.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-40])
    assert "rows.parquet cannot be read" in said_by(lambda: read_log(folder))


def test_every_write_replaces_a_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails half-way leaves the rows before it, and nothing beside them."""
    first = simulated_rows(lambda p, s: 0.6)
    writer = LogWriter(tmp_path / "run", header(["none", "paper"]))
    writer.add(first)

    def half(self: pl.DataFrame, file: Path) -> None:
        Path(file).write_bytes(b"PAR1 half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", half)
    line = said_by(lambda: writer.add(simulated_rows(lambda p, s: 0.6, treatment="paper")))
    assert "No space left on device" in line
    assert "make room or choose another with --out" in line
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["rows.parquet", "run.json"]
    assert read_log(tmp_path / "run").rows.equals(first)


def test_a_header_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path / "run", header(["none"]))
    writer.add(simulated_rows(lambda p, s: 0.6))

    def half(self: Path, text: str, *options: Any) -> int:
        self.write_bytes(text[:20].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    said_by(lambda: writer.finish("complete"))
    monkeypatch.undo()
    assert read_log(tmp_path / "run").status == "running"
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == ["rows.parquet", "run.json"]


def test_a_new_run_does_not_inherit_rows(tmp_path: Path) -> None:
    """A run that fails before its first rows has none, whatever lay in its folder."""
    simulated_log(tmp_path / "run", [simulated_rows(lambda p, s: 0.6)])
    LogWriter(tmp_path / "run", header(["none"], run="m-another")).finish("failed", error="no memory")
    assert "has no rows" in said_by(lambda: read_log(tmp_path / "run"))


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    line = said_by(lambda: LogWriter(tmp_path / "file", header(["none"])))
    assert "cannot be written" in line
    assert "--out" in line
