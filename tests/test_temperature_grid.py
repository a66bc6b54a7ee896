"""A grid of temperatures: what is embedded, what each cell says against a search by hand, and how it is shown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import Calibration, PerSide
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.errors import CalibrationError, TaskError
from fairspan.report.chart import Chart, HeatMap
from fairspan.report.figure import draw
from fairspan.report.frames import to_records
from fairspan.report.terminal import print_view
from fairspan.report.text import number, p_value, with_bounds
from fairspan.report.view import View
from fairspan.runs.log import RunLog
from fairspan.stats.bootstrap import Interval
from fairspan.stats.distributions import holm
from fairspan.stats.queries import query_change
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.evaluate.spec import make_evaluation
from fairspan.studies.evaluate.summary import Arm, RetrievalSummary, summarize_search
from fairspan.studies.evaluate.temperature_grid import TemperatureGrid, temperature_grid
from fairspan.studies.evaluate.view import view_of
from tests.commands import Run
from tests.test_evaluate import Collection, in_beir, ranked, text_of, unit, worth
from tests.tiny import tiny_model, words

Make = Callable[..., SentenceTransformer]
VALUES = (1.0, 0.7, 0.4)


@pytest.fixture(scope="module")
def collection() -> Collection:
    """Each query is eight words of the document that answers it, among others."""
    documents = {f"d{n:02}": text_of(n) for n in range(24)}
    queries = {f"q{n}": f"{words(6, 300 + n)} " + " ".join(documents[f"d{n:02}"].split()[3:6]) for n in range(20)}
    return Collection(documents, queries, {f"q{n}": {f"d{n:02}": 1.0} for n in range(20)})


@pytest.fixture(scope="module")
def beir(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    return "beir:" + in_beir(tmp_path_factory.mktemp("beir") / "tiny", collection)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    return tiny_model(tmp_path_factory.mktemp("checkpoint"), "bert", "mean")


@pytest.fixture(scope="module")
def log(model: SentenceTransformer, beir: str, tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    folder = tmp_path_factory.mktemp("grid")
    return evaluate(model, beir, temperature_grid=VALUES, out=folder / "run", store=folder / "store.sqlite")


@pytest.fixture(scope="module")
def summary(log: RunLog) -> RetrievalSummary:
    return summarize_search(log)


@pytest.fixture(scope="module")
def grid(summary: RetrievalSummary) -> TemperatureGrid:
    found = temperature_grid(summary)
    assert found is not None
    return found


def by_hand(model: SentenceTransformer, collection: Collection, query: float, document: float) -> dict[str, float]:
    """nDCG@10 of every query, by the calibrated model's own encode_query and encode_document."""
    sides = Calibration(strength=0, temperature=PerSide(query=query, document=document))
    fair = fairspan.calibrate(model, sides)
    read = {name: [unit(fair.encode_document(text))] for name, text in collection.documents.items()}
    found = {}
    for name, text in collection.queries.items():
        possible = ranked(unit(fair.encode_query(text)), read)
        worths = {worth("ndcg@10", ranking, collection.relevant[name]) for ranking in possible}
        assert len(worths) == 1, "the premise: rounding does not decide"
        found[name] = worths.pop()
    return found


# What is asked for.


def test_pairs_are_treatments_that_can_be_typed() -> None:
    spec = make_evaluation(temperature_grid=[0.8, 0.9])
    assert spec.temperature_grid == (1.0, 0.9, 0.8), "1 belongs to every grid"
    assert [one.name for one in spec.treatments] == ["none"], "the default beside a grid"
    assert len(spec.grid) == 8
    assert spec.measured == (*spec.treatments, *spec.grid), "no documents-only forms, which the grid has"
    for one in spec.grid:
        assert as_treatment(one.name) == one
    assert {one.calibration.temperature for one in spec.grid} == {
        PerSide(query, document) for query in (1.0, 0.9, 0.8) for document in (1.0, 0.9, 0.8)
    } - {PerSide(1.0, 1.0)}


def test_a_grid_is_set_on_the_first_treatment() -> None:
    """Others are measured beside it, with their documents-only forms."""
    spec = make_evaluation(treatments=["paper", "retrieval"], temperature_grid=[0.8])
    assert [one.name for one in spec.measured[:4]] == [
        "paper",
        "paper+sides=document",
        "retrieval",
        "retrieval+sides=document",
    ]
    assert all(one.calibration.strength == 1 for one in spec.grid)
    assert make_evaluation().to_dict()["temperature_grid"] == []
    assert spec.to_dict()["temperature_grid"] == [1.0, 0.8]


@pytest.mark.parametrize(
    ("options", "words_of_it"),
    [
        ({"temperature_grid": [1]}, "below 1"),
        ({"temperature_grid": []}, "below 1"),
        ({"temperature_grid": [1.2]}, "1.2"),
        ({"temperature_grid": [0]}, "above 0"),
        ({"temperature_grid": ["cold"]}, "cold"),
        ({"temperature_grid": "1,0.9"}, "must be a list"),
        ({"temperature_grid": 0.8}, "must be a list"),
        ({"temperature_grid": [0.8], "treatments": ["tempscale"]}, "tempscale, has a temperature"),
        ({"temperature_grid": [0.8], "treatments": ["paper+sides=document"]}, "side of its own"),
    ],
)
def test_refusals(options: dict[str, Any], words_of_it: str) -> None:
    with pytest.raises((TaskError, CalibrationError), match=words_of_it) as caught:
        make_evaluation(**options)
    assert "\n" not in str(caught.value)


def test_an_object_with_encode_has_no_temperature(beir: str, tmp_path: Path) -> None:
    class Constant:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.ones((len(sentences), 3))

    with pytest.raises(fairspan.UnsupportedModel, match="temperature_grid"):
        evaluate(Constant(), beir, treatments=["none"], temperature_grid=[0.8], out=tmp_path / "run")


# What is embedded.


def test_each_side_is_embedded_once_a_temperature(
    model: SentenceTransformer, beir: str, collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """k temperatures take k passes over documents and k over queries, not k² of each."""
    seen: dict[str, list[str]] = {"query": [], "document": []}
    encode = ModelEncoder.vectors

    def counted(self: ModelEncoder, batch: Sequence[Text]) -> list[np.ndarray]:
        seen[self._side] += [text.text for text in batch]
        return encode(self, batch)

    monkeypatch.setattr(ModelEncoder, "vectors", counted)
    # Without the looks at a text's end, which embed two texts more for each new encoder.
    monkeypatch.setattr("fairspan.runs.runner.refuse_unread_end", lambda *_: None)
    log = evaluate(model, beir, temperature_grid=VALUES, out=tmp_path / "run", store=tmp_path / "store.sqlite")
    assert len(log.treatments) == 9
    assert sorted(seen["query"]) == sorted([*collection.queries.values()] * 3)
    assert sorted(seen["document"]) == sorted([*collection.documents.values()] * 3)


# What it says.


def test_cells_by_hand(grid: TemperatureGrid, model: SentenceTransformer, collection: Collection) -> None:
    """Values are means of searches by hand; changes, intervals and p those of the two lists of queries."""
    baseline = by_hand(model, collection, 1.0, 1.0)
    names = sorted(baseline)
    before = np.array([baseline[name] for name in names])
    raw, seen = [], set()
    for cell in grid.cells:
        own = by_hand(model, collection, cell.query, cell.document)
        after = np.array([own[name] for name in names])
        assert cell.value.estimate == pytest.approx(after.mean(), abs=1e-12)
        seen.add(round(float(after.mean()), 9))
        if (cell.query, cell.document) == (1.0, 1.0):
            assert cell.change is None
            assert np.isnan(cell.p_value)
            continue
        assert cell.change is not None
        assert cell.change.estimate == pytest.approx((after - before).mean(), abs=1e-12)
        clusters = np.array([list(collection.queries).index(name) for name in names])
        change = query_change(before, after, np.zeros(len(names), int), clusters, rng=np.random.default_rng(0))
        assert (cell.change.low, cell.change.high) == pytest.approx((change.overall.low, change.overall.high))
        raw.append(change.p_value)
    adjusted = [cell.p_value for cell in grid.cells if cell.change is not None]
    assert adjusted == pytest.approx(list(holm(raw)))
    assert len(seen) > 4, "the premise: temperatures change what is found"


def test_sides_are_not_mixed_up(grid: TemperatureGrid) -> None:
    """Rows are queries, columns documents, and the lines of one side leave the other at 1."""
    assert [(one.query, one.document) for one in grid.cells] == [(q, d) for q in VALUES for d in VALUES]
    sides = {name: [(one.query, one.document) for one in cells] for name, cells in grid.sides.items()}
    assert sides == {
        "document side only": [(1.0, d) for d in VALUES],
        "query side only": [(q, 1.0) for q in VALUES],
        "both sides": [(v, v) for v in VALUES],
    }
    assert grid.cell(0.7, 1.0).value != grid.cell(1.0, 0.7).value, "the premise: the sides differ"
    assert len(grid.treatments) == 8


def test_without_a_grid(model: SentenceTransformer, beir: str, tmp_path: Path) -> None:
    log = evaluate(model, beir, treatments=["none"], out=tmp_path / "run", store=tmp_path / "store.sqlite")
    assert temperature_grid(summarize_search(log)) is None


def test_a_treatment_typed_by_hand_is_no_cell_of_another_base(
    model: SentenceTransformer, beir: str, tmp_path: Path
) -> None:
    """The same temperatures on other baskets are another treatment."""
    other = 'paper+basket_size=8+temperature={"query":1.0,"document":0.7}'
    log = evaluate(
        model,
        beir,
        treatments=["none", other],
        temperature_grid=[0.7],
        documents_only=False,
        out=tmp_path / "run",
        store=tmp_path / "store.sqlite",
    )
    summary = summarize_search(log)
    found = temperature_grid(summary)
    assert found is not None
    assert other not in {cell.arm.treatment for cell in found.cells}
    assert Arm(other, "whole") in summary.arms


def test_verdicts(grid: TemperatureGrid) -> None:
    """A gain has to stand the correction; without one nothing is recommended, and losses are counted."""

    def with_changes(change: Interval, p_value: float) -> TemperatureGrid:
        value = Interval(grid.cell(1.0, 1.0).value.estimate + change.estimate, 0, 1)
        cells = [
            one if one.change is None else replace(one, value=value, change=change, p_value=p_value)
            for one in grid.cells
        ]
        return replace(grid, cells=tuple(cells))

    gain = Interval(0.1, 0.05, 0.15)
    kind, sentence, change = with_changes(gain, 0.01).verdict()
    assert (kind, change) == ("use", gain)
    assert sentence.startswith("query 1, document 0.7: ndcg@10 ")
    for change, p in ((gain, 0.2), (Interval(0.1, -0.05, 0.15), 0.01)):
        kind, sentence, best = with_changes(change, p).verdict()
        assert best is change
        assert kind == "more data"
        assert "no pair is better beyond chance" in sentence
    assert with_changes(Interval(-0.1, -0.15, -0.05), 0.01).verdict() == (
        "leave",
        "keep both at 1: no pair finds more; for 8 of 8 pairs the interval is below 0",
        None,
    )


# How it is shown.


@pytest.fixture(scope="module")
def view(log: RunLog) -> View:
    return view_of(log)


def test_the_frame_and_the_table_have_every_pair(grid: TemperatureGrid, view: View) -> None:
    """Unrounded in the frame, one row for each pair."""
    records = to_records(view.frame("temperature_grid"))
    (table,) = [one for one in view.tables() if one.name == "temperature-grid"]
    for record, row, cell in zip(records, table.rows, grid.cells, strict=True):
        assert (record["query"], record["document"]) == (cell.query, cell.document)
        assert (record["treatment"], record["estimate"]) == (cell.arm.treatment, cell.value.estimate)
        assert row.heads == (f"{cell.query:g}", f"{cell.document:g}")
        if cell.change is None:
            assert (record["change_low"], record["p_value"]) == (None, None)
            assert [one.text for one in row.cells] == [with_bounds(cell.value), "", ""]
        else:
            assert (record["change_low"], record["p_value"]) == (cell.change.low, cell.p_value)
            changed = [with_bounds(cell.change, "+.3f"), p_value(cell.p_value)]
            assert [one.text for one in row.cells] == [with_bounds(cell.value), *changed]
    assert [row.cells[1].tone for row in table.rows] == [
        {"gain": "good", "loss": "bad", "": "plain"}[cell.settled] for cell in grid.cells
    ]


def test_the_arms_of_a_grid_stand_in_it_alone(summary: RetrievalSummary, grid: TemperatureGrid, view: View) -> None:
    """Their statistics are in the frames; the terminal, the switch and the cards do not name them."""
    assert any("+temperature=" in str(arm) for arm in summary.arms), "the premise: they would be named"
    assert set(view.frame("quality")["treatment"]) == {arm.treatment for arm in summary.arms}
    assert view.switch == ("none",)
    kind, sentence, _ = grid.verdict()
    ((name, told),) = [(card.name, card.sentences[-1]) for card in view.cards][1:]
    assert name == "temperatures"
    assert told.startswith(f"{sentence}; only 20 clusters of queries")
    assert view.frame("verdicts").select("treatment", "verdict").rows() == [("temperatures", kind)]
    console = Console(width=120, record=True, file=io.StringIO())
    print_view(console, view)
    text = console.export_text()
    assert "+temperature=" not in text
    assert text.index("temperatures") < text.index("ndcg@10 by the temperature") < text.index("Search (")
    assert [one.name for one in view.tables()] == ["temperature-grid", "quality", "advice", "index-costs"]


@pytest.mark.slow
def test_json_and_picture(run: Run, model: SentenceTransformer, beir: str, tmp_path: Path) -> None:
    """The command gives what the functions give; the picture is the grid's."""
    pytest.importorskip("matplotlib")
    folder = tmp_path / "model"
    model.save_pretrained(str(folder))
    done = run("evaluate", folder, beir, "--temperature-grid", "1,0.7,0.4", "--json", "--picture", "grid.svg")
    assert done.code == 0, done.err
    found = json.loads(done.out)["temperature_grid"]
    assert [(one["query"], one["document"]) for one in found] == [(q, d) for q in VALUES for d in VALUES]
    assert found[0]["change_estimate"] is None
    assert "temperature of queries" in (tmp_path / "grid.svg").read_text(encoding="utf-8")


def test_the_map_writes_every_number(grid: TemperatureGrid, view: View) -> None:
    """So that it can be read in grey: values, changes and intervals stand in the cells."""
    pytest.importorskip("matplotlib")
    heat = view.chart()
    assert isinstance(heat, HeatMap)
    cells = [cell for _, row in heat.rows for cell in row if cell is not None]
    for found, cell in zip(cells, grid.cells, strict=True):
        assert found.values == (cell.value.estimate,)
        assert found.framed == bool(cell.settled)
        changed = "unmodified" if cell.change is None else with_bounds(cell.change, "+.3f")
        assert " ".join(found.note.split()) == changed
    written = " ".join(text.get_text() for text in draw(heat).axes[0].texts)
    assert all(number(cell.value.estimate) in written for cell in grid.cells)


def test_each_side_has_a_panel(grid: TemperatureGrid, view: View) -> None:
    """Its many arms are not drawn again as bars."""
    assert [one.name for one in view.charts()] == ["temperature-sides", "temperature-grid"]
    sides = view.chart("temperature-sides")
    assert isinstance(sides, Chart)
    for panel, (name, cells) in zip(sides.panels, grid.sides.items(), strict=True):
        assert (panel.title, panel.labels) == (name, ("1", "0.7", "0.4"))
        first, *others = panel.series[0].points
        assert first is not None
        assert (first.estimate, first.low) == (0.0, None)
        changes = [(cell.change.estimate, cell.change.low, cell.change.high) for cell in cells if cell.change]
        assert [(one.estimate, one.low, one.high) for one in others if one] == changes


@pytest.mark.parametrize(
    ("given", "said"),
    [("cold", "--temperature-grid takes numbers"), ("1,cold", "takes numbers"), (",", "needs one below 1")],
)
def test_what_is_no_grid_is_refused(run: Run, given: str, said: str) -> None:
    done = run("evaluate", "all-MiniLM-L6-v2", "pages", "--temperature-grid", given)
    assert done.code == 2
    assert said in done.err
