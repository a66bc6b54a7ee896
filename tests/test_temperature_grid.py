"""A grid of temperatures: what is embedded, what each cell says against a search by hand, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import Calibration, PerSide
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.encoder import ModelEncoder, Text
from fairspan.report.chart import HeatMap
from fairspan.report.figure import draw
from fairspan.runs.log import RunLog
from fairspan.stats.distributions import holm
from fairspan.stats.queries import query_change
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.run import evaluate
from tests.saying import said_by
from tests.test_evaluate import Collection, in_beir, ranked, text_of, unit, worth
from tests.tiny import tiny_model, words

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
def embedded() -> dict[str, list[str]]:
    return {"query": [], "document": []}


@pytest.fixture(scope="module")
def log(
    model: SentenceTransformer,
    beir: str,
    embedded: dict[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunLog:
    folder, encode = tmp_path_factory.mktemp("grid"), ModelEncoder.vectors

    def counted(self: ModelEncoder, batch: Sequence[Text]) -> list[np.ndarray]:
        embedded[self._side] += [text.text for text in batch]
        return encode(self, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelEncoder, "vectors", counted)
        # Without the looks at a text's end, which embed two texts more for each new encoder.
        patch.setattr("fairspan.runs.study.reads_to_end", lambda *_: True)
        return evaluate(model, beir, temperature_grid=VALUES, out=folder / "run", store=folder / "s.sqlite")


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


def test_pairs_are_treatments_that_can_be_typed() -> None:
    options = EvaluateOptions(temperature_grid=[0.8, 0.9])
    assert options.temperature_grid == (1.0, 0.9, 0.8), "1 belongs to every grid"
    assert [one.name for one in options.compared] == ["plain"], "the default beside a grid"
    assert options.measured == (*options.compared, *options.grid), "no documents-only forms, which the grid has"
    for one in options.grid:
        assert as_treatment(one.name) == one
    pairs = {PerSide(query, document) for query in (1.0, 0.9, 0.8) for document in (1.0, 0.9, 0.8)}
    assert {one.calibration.temperature for one in options.grid} == pairs - {PerSide(1.0, 1.0)}
    assert options.asked["temperature_grid"] == [1.0, 0.9, 0.8]
    # Other treatments are measured beside the grid, with their documents-only forms.
    options = EvaluateOptions(treatments=["paper", "tempscale"], temperature_grid=[0.8])
    both = ["paper", "paper+sides=document", "tempscale", "tempscale+sides=document"]
    assert [one.name for one in options.measured[:4]] == both
    assert all(one.calibration.strength == 1 for one in options.grid)


@pytest.mark.parametrize(
    ("options", "words_of_it"),
    [
        ({"temperature_grid": [1]}, "below 1"),
        ({"temperature_grid": []}, "below 1"),
        ({"temperature_grid": [1.2]}, "1.2"),
        ({"temperature_grid": "1,0.9"}, "must be a list"),
        ({"temperature_grid": [0.8], "treatments": ["tempscale"]}, "tempscale, has a temperature"),
        ({"temperature_grid": [0.8], "treatments": ["paper+sides=document"]}, "side of its own"),
    ],
)
def test_refusals(options: dict[str, Any], words_of_it: str) -> None:
    assert words_of_it in said_by(EvaluateOptions, **options)


def test_an_object_with_encode_has_no_temperature(beir: str, tmp_path: Path) -> None:
    class Constant:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.ones((len(sentences), 3))

    with pytest.raises(fairspan.UnsupportedModel, match="temperature_grid"):
        evaluate(Constant(), beir, temperature_grid=[0.8], out=tmp_path / "run")


def test_each_side_is_embedded_once_a_temperature(
    log: RunLog, embedded: dict[str, list[str]], collection: Collection
) -> None:
    """k temperatures take k passes over documents and k over queries, not k² of each."""
    assert len(log.treatments) == 9
    assert sorted(embedded["query"]) == sorted([*collection.queries.values()] * 3)
    assert sorted(embedded["document"]) == sorted([*collection.documents.values()] * 3)


@pytest.mark.slow
def test_cells_by_hand(log: RunLog, model: SentenceTransformer, collection: Collection) -> None:
    """Values are means of searches by hand; changes, intervals and p those of the two lists of queries."""
    baseline = by_hand(model, collection, 1.0, 1.0)
    names = sorted(baseline)
    before = np.array([baseline[name] for name in names])
    clusters = np.array([list(collection.queries).index(name) for name in names])
    cells, raw = log.frame("temperature_grid").to_dicts(), []
    assert [(one["query"], one["document"]) for one in cells] == [(q, d) for q in VALUES for d in VALUES]
    for cell in cells:
        own = by_hand(model, collection, cell["query"], cell["document"])
        after = np.array([own[name] for name in names])
        assert cell["estimate"] == pytest.approx(after.mean(), abs=1e-12)
        if cell["treatment"] == "plain":
            assert cell["change_estimate"] is None
            continue
        change = query_change(before, after, np.zeros(len(names), int), clusters, rng=np.random.default_rng(0))
        ends = [cell[f"change_{end}"] for end in ("estimate", "low", "high")]
        assert ends == pytest.approx([change.overall.estimate, change.overall.low, change.overall.high])
        raw.append(change.p_value)
    assert [cell["p_value"] for cell in cells[1:]] == pytest.approx(list(holm(raw)))
    assert len({round(cell["estimate"], 9) for cell in cells}) > 4, "the premise: temperatures change what is found"


def test_the_arms_of_a_grid_stand_in_it_alone(log: RunLog) -> None:
    """Their statistics are in the frames; the switch, the cards and other tables do not name them."""
    view = log.view
    assert set(view.frame("quality")["treatment"]) == set(log.treatments)
    assert view.switch == ("plain",)
    assert [card.name for card in view.cards] == ["plain"], "the grid is shown, and not judged"
    tables = {one.name: one for one in view.tables()}
    assert len(tables["quality"].rows) == 1
    for row, cell in zip(tables["temperature-grid"].rows, log.frame("temperature_grid").to_dicts(), strict=True):
        assert row.heads == (str(cell["query"]), str(cell["document"]))
        assert row.cells[0].text.startswith(f"{cell['estimate']:.3f} [")


def test_the_picture_is_the_grid(log: RunLog) -> None:
    pytest.importorskip("matplotlib")
    heat = log.view.chart()
    assert isinstance(heat, HeatMap)
    assert heat.name == "temperature-grid"
    frame = log.frame("temperature_grid")
    for (name, cells), query in zip(heat.rows, VALUES, strict=True):
        own = frame.filter(query=query).to_dicts()
        assert name == f"query {query:g}"
        assert [cell.values[0] for cell in cells if cell] == [one["estimate"] for one in own]
        for cell, one in zip(cells, own, strict=True):
            assert cell is not None
            low, high = one["change_low"], one["change_high"]
            assert cell.framed == (low is not None and (low > 0 or high < 0))
    draw(heat)
