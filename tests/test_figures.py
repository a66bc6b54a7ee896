"""Figures of a run: simulated logs in; every number drawn is read back from the figure and equals the log's."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from fairspan.report.figures import NamedFigure, attention, length, profiles, style
from fairspan.report.figures.of_run import figures_of, write_figures
from rich.console import Console

from fairspan.errors import LogError
from fairspan.report.terminal import print_summary
from fairspan.runs.log import RunLog
from fairspan.runs.rows import SCHEMA
from fairspan.studies.audit.attention import AttentionSummary, layer_groups, summarize_attention
from fairspan.studies.audit.summary import Summary, summarize
from tests import test_length_report as studies
from tests.test_report import simulated_log, simulated_rows

matplotlib = pytest.importorskip("matplotlib")

DEPTH = 6
TREATMENTS = ("none", "paper", "retrieval")
PLANS = (("en", "en"), ("zh", "zh"), ("zh", "en"))


# --- logs


def attention_rows(
    treatment: str = "none", *, n: int = 3, plan: tuple[str, str] = ("en", "en"), sets: int = 4, orders: int = 2
) -> pl.DataFrame:
    """Documents of one to three baskets in which the parts of each measure sum to 1 in every layer."""
    rng = np.random.default_rng([n, *"".join((treatment, *plan)).encode()])
    rows: list[dict[str, Any]] = []
    for number in range(sets):
        for order in range(orders):
            baskets = 1 + (number + order) % 3
            parts = {
                "attention_segment": [f"segment {place + 1}" for place in range(n)] + ["special", "other"],
                "attention_basket": ["first", *(f"basket {place + 1}" for place in range(baskets)), "last", "other"],
                "attention_bin": [f"bin {place + 1}" for place in range(20)] + ["special", "other"],
            }
            for measure, names in parts.items():
                for layer in range(DEPTH):
                    masses = [*rng.dirichlet(np.full(len(names) - 1, 3.0)).tolist(), 0.0]
                    for name, mass in zip(names, masses, strict=True):
                        position = int(name.split()[1]) if name.startswith("segment") else None
                        rows.append(
                            dict.fromkeys(SCHEMA)
                            | {
                                "run": "r",
                                "model": "m",
                                "treatment": treatment,
                                "measure": measure,
                                "set": number,
                                "order": order,
                                "document": f"n{n}/{':'.join(plan)}/set{number}/order{order}",
                                "position": position,
                                "lead": plan[0],
                                "later": plan[1],
                                "n": n,
                                "value": mass,
                                "layer": layer,
                                "part": name,
                            }
                        )
    return pl.DataFrame(rows, schema=SCHEMA)


def audit_log(
    folder: Path,
    *,
    treatments: Sequence[str] = TREATMENTS,
    sizes: Sequence[int] = (2, 3),
    plans: Sequence[tuple[str, str]] = PLANS,
    measures: Sequence[str] = ("representation", "retention", "attention"),
    sets: int = 6,
    **changes: Any,
) -> RunLog:
    tables = []
    for number, treatment in enumerate(treatments):
        for n in sizes:
            for plan in plans:
                tables += [
                    simulated_rows(
                        lambda position, _, number=number: 0.8 - 0.04 * (position - 1) / (number + 1),  # type: ignore[misc]
                        n=n,
                        plan=plan,
                        treatment=treatment,
                        measure=measure,
                        sets=sets,
                    )
                    for measure in measures
                    if measure != "attention"
                ]
                if "attention" in measures:
                    tables.append(attention_rows(treatment, n=n, plan=plan, sets=min(sets, 4)))
    asked = changes.pop("asked", treatments)
    return simulated_log(folder, tables, list(asked), **changes)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return audit_log(tmp_path_factory.mktemp("figures") / "run")


@pytest.fixture(scope="module")
def summary(log: RunLog) -> Summary:
    return summarize(log)


@pytest.fixture(scope="module")
def looked(log: RunLog) -> AttentionSummary:
    return summarize_attention(log)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> studies.LengthSummary:
    """A study with everything that there is to draw."""
    curves = {"none": [0.5, 0.55, 0.6, 0.7], "tempscale+temperature=0.8": [0.4, 0.41, 0.42, 0.43]}
    with_words = {**curves, "words": [0.1, 0.2, 0.3, 0.4]}
    entries = [
        entry
        for measure, factor in (("cosine", 1), ("distance", 2), ("rank", 10))
        for entry in studies.entries_of(
            {name: [factor * value for value in values] for name, values in with_words.items()},
            studies.LENGTHS,
            measure,
        )
    ]
    told = [
        {**entry, "measure": measure, "estimate": entry["estimate"] / 2, "low": entry["low"] / 2}
        for measure in ("correct", "entropy")
        for entry in studies.entries_of(curves, studies.LENGTHS)
    ]
    repeated = [
        {
            "treatment": name,
            "measure": "repeated",
            "document": "dog cat",
            "part": str(times),
            "value": shift + 1 / times,
        }
        for name, shift in (("none", 0.0), ("tempscale+temperature=0.8", 0.1))
        for times in (1, 2, 4, 8)
    ]
    return studies.study_of(
        tmp_path_factory.mktemp("study") / "run",
        with_words,
        rows=[*studies.SPECTRA, *repeated],
        geometry=entries,
        classification=told,
    )


# --- reading figures back


def bars_of(axes: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of every set of bars its heights [N] and the ends [N, 2] of its error bars, by label."""
    from matplotlib.container import BarContainer

    found = {}
    for container in axes.containers:
        if isinstance(container, BarContainer) and container.errorbar is not None:
            ends = np.array(container.errorbar.lines[2][0].get_segments())[:, :, 1]
            found[container.get_label()] = np.array([bar.get_height() for bar in container]), ends
    return found


def curves_of(axes: Any) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Of every curve with error bars x [N], y [N] and the ends [N, 2] of its bars, by label."""
    from matplotlib.container import ErrorbarContainer

    found = {}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.get_label():
            line, _, (bars,) = container.lines
            segments = bars.get_segments()
            ends = np.array([segment[:, 1] if len(segment) else [np.nan] * 2 for segment in segments])
            found[container.get_label()] = (*(np.array(part, np.float64) for part in line.get_data(orig=True)), ends)
    return found


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines}


def texts_of(figure: Any) -> Iterator[tuple[str, Any]]:
    """Every text that is seen, with its box in pixels."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    hidden: set[int] = set()
    for axes in figure.axes:
        if not axes.axison:
            hidden |= {id(text) for text in axes.findobj(Text) if text not in axes.texts}
        for axis in (axes.xaxis, axes.yaxis):
            # Ticks beyond the ends of an axis keep labels that are not drawn.
            drawn = {id(tick) for tick in axis._update_ticks()}
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            hidden |= {id(text) for tick in ticks if id(tick) not in drawn for text in (tick.label1, tick.label2)}
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and id(text) not in hidden:
            yield text.get_text(), text.get_window_extent()


def assert_legible(figure: Any) -> None:
    """All text lies on the page, and none on other text."""
    width, height = figure.bbox.width, figure.bbox.height
    found = list(texts_of(figure))
    for text, box in found:
        assert min(box.x0, box.y0, width - box.x1, height - box.y1) >= -1, text
    for (one, a), (other, b) in combinations(found, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, (one, other)


# --- position profiles


@pytest.mark.parametrize("measure", ["representation", "retention"])
def test_profiles_are_the_summary_s(summary: Summary, measure: str) -> None:
    figure = profiles.draw_grid(profiles.grid_of(summary, measure))
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert set(panels) == {f"{plan}, n = {n}" for n in (2, 3) for plan in ("en", "zh", "zh:en")}
    for title, axes in panels.items():
        plan, n = title.split(", n = ")
        drawn = bars_of(axes)
        assert len(drawn) == len(TREATMENTS)
        for cell in summary.cells:
            if (cell.measure, cell.plan, cell.n) != (measure, plan, int(n)):
                continue
            heights, ends = drawn[f"{cell.treatment} ({summary.worst(measure, cell.treatment).verdict.kind})"]
            means = cell.effects.means
            np.testing.assert_allclose(heights, means.estimate, rtol=1e-12)
            np.testing.assert_allclose(ends, np.stack([means.low, means.high], axis=1), rtol=1e-9)
        assert axes.get_ylim()[0] == 0


def test_grey_bars_are_the_mean_tokens_of_the_rows(log: RunLog, summary: Summary) -> None:
    figure = profiles.draw_grid(profiles.grid_of(summary, "representation"))
    rows, columns = 2, 3
    for row, n in enumerate((2, 3)):
        for column, (lead, later) in enumerate(PLANS):
            strip = figure.axes[(2 * row + 1) * columns + column]
            chosen = (pl.col("measure") == "representation") & (pl.col("treatment") == "none") & (pl.col("n") == n)
            own = log.rows.filter(chosen & (pl.col("lead") == lead) & (pl.col("later") == later))
            expected = own.group_by("position").agg(pl.col("tokens").mean()).sort("position")["tokens"].to_list()
            assert [bar.get_height() for bar in strip.containers[0]] == pytest.approx(expected)
            assert [text.get_text() for text in strip.texts] == [f"{value:.0f}" for value in expected]
    assert len(figure.axes) == 2 * rows * columns
    named = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert named.count("tokens") == rows


LANGUAGES = ("en", "de", "it", "hi", "ko", "zh")
WHOLE_GRID = [(one, one) for one in LANGUAGES] + [
    (lead, later) for later in ("en", "de", "hi", "zh") for lead in LANGUAGES if lead != later
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> profiles.ProfileGrid:
    """The plans of IRF's whole grid: six languages, and four later ones with each other lead."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    log = audit_log(folder, plans=WHOLE_GRID, sizes=(3, 6), measures=["representation"], sets=2)
    return profiles.bare_grid(log, "representation")


def test_many_plans_come_on_pages_by_the_later_language(whole: profiles.ProfileGrid) -> None:
    pages = profiles.pages_of(whole)
    assert [name for name, _ in pages] == ["monolingual", "later-en", "later-de", "later-hi", "later-zh"]
    assert [plan for _, plans in pages for plan in plans] == [
        lead if lead == later else f"{lead}:{later}" for lead, later in WHOLE_GRID
    ]
    assert max(len(plans) for _, plans in pages) <= profiles.MOST_COLUMNS


def test_more_languages_than_a_page_holds_go_on(tmp_path: Path) -> None:
    plans = [(f"l{number}", f"l{number}") for number in range(8)]
    log = audit_log(tmp_path / "run", plans=plans, sizes=(2,), measures=["representation"], treatments=["none"])
    summary = summarize(log)
    assert [(name, len(found)) for name, found in profiles.pages_of(profiles.grid_of(summary, "representation"))] == [
        ("monolingual", 6),
        ("monolingual-2", 2),
    ]
    files = profiles.save_picture(summary, tmp_path / "p.svg")
    assert [file.name for file in files] == ["p.svg", "p-monolingual-2.svg"]
    assert all(file.stat().st_size > 1000 for file in files)


def test_thin_bars_give_way_to_points(whole: profiles.ProfileGrid) -> None:
    _, plans = profiles.pages_of(whole)[0]
    figure = profiles.draw_grid(whole, plans)
    assert figure.get_figwidth() <= 14
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert len(panels) == 2 * len(plans)
    for profile in whole.profiles:
        if profile.plan not in plans:
            continue
        x, y, ends = curves_of(panels[f"{profile.plan}, n = {profile.n}"])[profile.treatment]
        np.testing.assert_allclose(y, profile.estimate, rtol=1e-12)
        # Without intervals the bars have no length.
        np.testing.assert_allclose(ends, np.stack([profile.estimate] * 2, axis=1), rtol=1e-12)
        np.testing.assert_array_equal(np.round(x), np.arange(profile.n))
    assert_legible(figure)


# --- attention


def test_shares_are_means_over_the_documents_that_have_the_part(log: RunLog, looked: AttentionSummary) -> None:
    """By hand: over the layers of a group, then over documents."""
    assert looked.groups == layer_groups(DEPTH)
    for profile in looked.profiles:
        layers = list(looked.groups[profile.layers])
        chosen = (
            (pl.col("measure") == profile.measure)
            & (pl.col("treatment") == profile.treatment)
            & (pl.col("n") == profile.n)
            & (pl.col("lead") == profile.lead)
            & (pl.col("later") == profile.later)
            & pl.col("layer").is_in(layers)
        )
        rows = log.rows.filter(chosen)
        if profile.plan != "zh:en" or profile.n != 3:
            continue
        for share in profile.shares:
            own = rows.filter(pl.col("part") == share.part)
            values = own.group_by("document").agg(pl.col("value").mean())["value"]
            assert share.estimate == pytest.approx(float(values.mean()), rel=1e-12, abs=1e-15)  # type: ignore[arg-type]
            assert share.documents == len(values)
        assert sum(share.number is not None for share in profile.shares) == len(profile.content)
    baskets = looked.of("attention_basket", 3, "zh:en", "all")[0]
    assert [share.part for share in baskets.shares] == ["first", "basket 1", "basket 2", "basket 3", "last", "other"]
    assert [share.documents for share in baskets.content] == [8, 5, 2]


def test_equal_shares_divide_what_the_text_gets(log: RunLog, looked: AttentionSummary) -> None:
    profile = looked.of("attention_basket", 3, "zh:en", "last third")[1]
    rows = log.rows.filter(
        (pl.col("measure") == "attention_basket")
        & (pl.col("treatment") == "paper")
        & (pl.col("n") == 3)
        & (pl.col("lead") == "zh")
        & (pl.col("later") == "en")
        & (pl.col("layer") >= 4)
        & pl.col("part").str.starts_with("basket")
    )
    by_document = rows.group_by("document", "part").agg(pl.col("value").mean())
    equal = by_document.group_by("document").agg(pl.col("value").mean(), pl.col("part").alias("parts"))
    for share in profile.content:
        having = equal.filter(pl.col("parts").list.contains(share.part))["value"]
        assert share.equal == pytest.approx(float(having.mean()), rel=1e-12)  # type: ignore[arg-type]
    assert all(np.isnan(share.equal) for share in profile.shares if share.number is None)


def test_intervals_of_shares_are_statsmodels_s(log: RunLog, looked: AttentionSummary) -> None:
    """Least squares on a constant with errors clustered by set, t with G − 1 degrees of freedom."""
    api = pytest.importorskip("statsmodels.api")
    profile = looked.of("attention_basket", 2, "en", "middle third")[0]
    rows = log.rows.filter(
        (pl.col("measure") == "attention_basket")
        & (pl.col("treatment") == "none")
        & (pl.col("n") == 2)
        & (pl.col("lead") == "en")
        & pl.col("layer").is_in([2, 3])
    )
    for share in profile.content[:2]:
        own = rows.filter(pl.col("part") == share.part)
        values = own.group_by("set", "document", maintain_order=True).agg(pl.col("value").mean())
        sets = values["set"].to_numpy()
        model = api.OLS(values["value"].to_numpy(), np.ones(len(values)))
        fitted = model.fit(cov_type="cluster", cov_kwds={"groups": sets}, use_t=True)
        low, high = fitted.conf_int()[0]
        assert (share.low, share.high) == pytest.approx((low, high), rel=1e-9)
        assert share.sets == len(np.unique(sets))


@pytest.mark.parametrize("measure", ["attention_basket", "attention_segment", "attention_bin"])
def test_attention_figures_hold_the_shares(looked: AttentionSummary, measure: str) -> None:
    (name, n, plans), *_ = attention.pages_of(looked, measure)
    assert (name, n, plans) == (f"attention-{attention.NAMES[measure]}-n2", 2, ["en", "zh", "zh:en"])
    figure = attention.draw_attention(looked, measure, n, plans)
    grid = np.array(figure.axes[: 4 * 6]).reshape(4, 6)
    for row, group in enumerate(looked.groups):
        for column, plan in enumerate(plans):
            inside, outside = grid[row][2 * column], grid[row][2 * column + 1]
            curves, bars = curves_of(inside), bars_of(outside)
            around = [label.get_text() for label in outside.get_xticklabels()] if row == 3 else None
            dashed = [line for line in inside.lines if line.get_label() == "_equal share"]
            for place, profile in enumerate(looked.of(measure, n, plan, group)):
                _, y, ends = curves[profile.treatment]
                np.testing.assert_allclose(y, [share.estimate for share in profile.content], rtol=1e-12)
                np.testing.assert_allclose(ends, [(one.low, one.high) for one in profile.content], rtol=1e-9)
                np.testing.assert_allclose(dashed[place].get_ydata(), [one.equal for one in profile.content])
                heights, whiskers = bars[profile.treatment]
                np.testing.assert_allclose(heights, [share.estimate for share in profile.around], rtol=1e-12)
                np.testing.assert_allclose(
                    whiskers, [(one.low, one.high) for one in profile.around], rtol=1e-9, atol=1e-12
                )
                assert around in (None, [share.part for share in profile.around])
            assert inside.get_ylim()[0] == outside.get_ylim()[0] == 0
    assert_legible(figure)


def test_attention_is_in_the_json_and_in_the_terminal(summary: Summary, tmp_path: Path) -> None:
    found = json.loads(json.dumps(summary.to_dict(), allow_nan=False))["attention"]
    assert found["layers"] == {"first third": [1, 2], "middle third": [3, 4], "last third": [5, 6], "all": [1, 6]}
    assert len(found["profiles"]) == len(summary.attention().profiles) == 3 * 4 * len(TREATMENTS) * 2 * 3
    console = Console(record=True, width=120, file=io.StringIO())
    print_summary(console, summary)
    text = console.export_text()
    assert "attention by segment (zh:en, n=3, 8 documents), % of the pooled row's" in text
    share = summary.attention().of("attention_segment", 3, "zh:en", "all")[0].content[0]
    assert f"{100 * share.estimate:.1f} ±{100 * (share.high - share.estimate):.1f}" in text
    without = summarize(audit_log(tmp_path / "run", measures=["representation"]))
    assert "attention" not in without.to_dict()
    assert not without.attention()


# --- length


def test_curves_by_length_are_the_study_s(study: studies.LengthSummary) -> None:
    names = [*study.treatments, "words"]
    for measures in (["cosine"], ["distance", "rank"]):
        figure = length.draw_geometry(study, measures)
        # The cosine comes a second time, without the control.
        panels = [*measures, *(["cosine"] if measures == ["cosine"] else [])]
        for number, (axes, measure) in enumerate(zip(figure.axes, panels, strict=True)):
            drawn = curves_of(axes)
            control = [length.WORDS_LABEL] if number < len(measures) else []
            assert set(drawn) == {*study.treatments, *control}
            for name in names if control else study.treatments:
                x, y, ends = drawn[length.WORDS_LABEL if name == "words" else name]
                found = [study.value(name, measure, one) for one in study.lengths]
                assert x.tolist() == study.lengths
                np.testing.assert_allclose(y, [one.estimate for one in found if one])
                np.testing.assert_allclose(ends, [(one.low, one.high) for one in found if one])
        assert_legible(figure)


def test_sigma_stands_beside_theorem_3(study: studies.LengthSummary) -> None:
    figure = length.draw_sigma(study)
    drawn = lines_of(figure.axes[0])
    for name in study.treatments:
        for measure, label in (("sigma_a", name), ("theorem_3", f"_{name} bound")):
            rows = study.spectrum(measure, name)
            last = rows.filter(rows["layer"] == rows["layer"].max())
            assert drawn[label] == (last["length"].to_list(), last["value"].to_list())
    assert_legible(figure)


def test_filter_rates_stand_beside_theorem_2(study: studies.LengthSummary) -> None:
    figure = length.draw_rates(study)
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == [f"{one} tokens" for one in study.lengths]
    for one in study.lengths:
        lines = panels[f"{one} tokens"].lines
        for place, name in enumerate(study.treatments):
            rates = study.spectrum("filter_rate", name).filter(pl.col("length") == one)
            bounds = study.spectrum("theorem_2", name).filter(pl.col("length") == one)
            (line,) = [line for line in lines if line.get_label() == name]
            assert list(line.get_xdata()) == [layer + 1 for layer in rates["layer"]]
            assert list(line.get_ydata()) == rates["value"].to_list()
            colour = style.look_of(place).colour
            dashed = [line for line in lines if line.get_label() == "_bound" and line.get_color() == colour]
            assert [list(line.get_ydata()) for line in dashed] == ([bounds["value"].to_list()] if len(bounds) else [])
    assert_legible(figure)


def test_repeated_words_and_labels_told(study: studies.LengthSummary) -> None:
    figure = length.draw_repeated(study)
    drawn = curves_of(figure.axes[0])
    for name in study.treatments:
        x, y, _ = drawn[name]
        assert list(zip(x.tolist(), y.tolist(), strict=True)) == study.repeated(name)
    assert_legible(figure)
    figure = length.draw_classified(study)
    for axes, measure in zip(figure.axes, ("correct", "entropy"), strict=True):
        for name in study.treatments:
            _, y, ends = curves_of(axes)[name]
            found = [study.classified(name, measure, one) for one in study.lengths]
            np.testing.assert_allclose(y, [one.estimate for one in found if one])
            np.testing.assert_allclose(ends, [(one.low, one.high) for one in found if one])
    assert_legible(figure)


def test_a_length_without_a_value_leaves_a_gap(tmp_path: Path) -> None:
    """Too few documents of one length: the others are drawn."""
    entries = studies.entries_of({"none": [0.5, 0.6, 0.7, 0.8]}, studies.LENGTHS)
    for entry in entries:
        if entry["length"] == 200:
            entry |= {"estimate": None, "low": None, "high": None}
    found = studies.study_of(tmp_path, {"none": [0.5, 0.6, 0.7, 0.8]}, geometry=entries)
    _, y, _ = curves_of(length.draw_geometry(found, ["cosine"]).axes[0])["none"]
    np.testing.assert_allclose(y, [0.5, 0.6, np.nan, 0.8])


# --- all figures of a run


def test_every_verb_has_its_figures(log: RunLog, study: studies.LengthSummary) -> None:
    names = {
        "audit": [one.name for one in figures_of(log)],
        "collapse": [one.name for one in figures_of(study.log)],
    }
    assert names["audit"] == [
        "representation-profiles",
        "retention-profiles",
        *(f"attention-{what}-n{n}" for what in ("segments", "baskets", "relative") for n in (2, 3)),
    ]
    assert names["collapse"] == [
        f"length-{what}"
        for what in ("similarity", "geometry", "sigma", "filter-rates", "repeated-words", "classification")
    ]


def test_all_figures_are_legible_and_told_in_a_sentence(log: RunLog, study: studies.LengthSummary) -> None:
    for named in [*figures_of(log), *figures_of(study.log)]:
        assert isinstance(named, NamedFigure)
        assert named.caption[0].isupper() or named.caption.startswith("ndcg"), named.caption
        assert named.caption.endswith(".")
        assert "\n" not in named.caption
        assert_legible(named.draw())


def test_given_statistics_are_used(log: RunLog, summary: Summary, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: RunLog) -> Summary:
        raise AssertionError("the statistics were there already")

    monkeypatch.setattr("fairspan.report.figures.of_run.summarize", fail)
    assert figures_of(log, summary=summary)


def test_a_verb_without_figures_is_one_line(log: RunLog) -> None:
    other = RunLog(log.folder, {**log.header, "verb": "tune"}, log.rows)
    with pytest.raises(LogError, match="belongs to tune, of which there are no figures"):
        figures_of(other)


def test_a_run_of_attention_alone(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "run", measures=["attention"], plans=[("en", "en")], sizes=(3,))
    files = write_figures(log, tmp_path / "out")
    assert [file.name for file in files] == [f"attention-{what}.svg" for what in ("segments", "baskets", "relative")]


def test_an_interrupted_run_shows_what_it_has(tmp_path: Path) -> None:
    log = audit_log(
        tmp_path / "run",
        treatments=["none"],
        asked=TREATMENTS,
        status="interrupted",
        plans=[("en", "en")],
        sizes=(3,),
        measures=["representation", "attention"],
    )
    for named in figures_of(log):
        figure = named.draw()
        [legend] = figure.legends
        shown = [text.get_text() for text in legend.get_texts()]
        assert shown[0].startswith("none")
        assert not any("paper" in text for text in shown)


def test_one_set_has_means_and_no_intervals(tmp_path: Path) -> None:
    log = audit_log(tmp_path / "run", sets=1, plans=[("en", "en")], sizes=(3,))
    figures = {named.name: named.draw() for named in figures_of(log)}
    assert {"representation-profiles", "retention-profiles", "attention-segments"} <= set(figures)
    heights, ends = bars_of(figures["representation-profiles"].axes[0])["none"]
    own = log.rows.filter((pl.col("measure") == "representation") & (pl.col("treatment") == "none"))
    means = own.group_by("position").agg(pl.col("value").mean()).sort("position")["value"].to_numpy()
    np.testing.assert_allclose(heights, means)
    np.testing.assert_allclose(ends, np.stack([means, means], axis=1))
    text = json.dumps(summarize_attention(log).to_dict(), allow_nan=False)
    assert '"low": null' in text
