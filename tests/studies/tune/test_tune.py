"""Tunings of tiny models: answers, what is written for them, guards, and runs that go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.encoding.store import Store
from fairspan.errors import UnsupportedModel
from fairspan.runs.log import RunLog
from fairspan.runs.study import Run
from fairspan.studies.evaluate.entries import IndexCost
from fairspan.studies.evaluate.searching import Searching
from fairspan.studies.logs import read_log
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.run import STUDY
from tests.builders.searches import write_beir
from tests.builders.tiny import words
from tests.builders.verbs import Recorder, article
from tests.corpus.test_corpus import write_folder

Make = Callable[..., SentenceTransformer]
Tuned = Callable[..., RunLog]
MILD, TILES = "tempscale+temperature=0.5", "tiles-8"
LARGE = "tiles-16"
DOCUMENTS = 24


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, every other document of which exceeds 64 tokens, and a collection as a guard."""
    place = tmp_path_factory.mktemp("place")
    texts = {f"a{n:02}": article(n, 12 if n % 2 else 30) for n in range(DOCUMENTS)}
    write_folder(place / "notes", {"en": texts})
    guard = [{"id": f"d{n}", "text": words(18, 7000 + n)} for n in range(20)]
    asked = [
        {"id": f"q{n}", "text": words(4, 7000 + n), "document": f"d{n}"} for n in range(len(guard))
    ]
    write_beir(place / "guard", guard, asked)
    return place


@pytest.fixture
def tuned(make_tiny: Make, place: Path, tmp_path: Path) -> Tuned:
    """A tuning of a model that reads 64 tokens; vectors are kept from one test to the next."""

    def call(folder: str = "run", **asked: Any) -> RunLog:
        model = make_tiny("bert", "mean", max_position_embeddings=300)
        model.max_seq_length = 64
        usual = {
            "corpus": str(place / "notes"),
            "candidates": [MILD, TILES],
            "store": place / "vectors.db",
            "progress": False,
        }
        return fairspan.tune(model, out=tmp_path / folder, **{**usual, **asked})

    return call


@contextmanager
def crafted(gains: Mapping[str, float]) -> Iterator[None]:
    """Replaces what searches find: 0.5, and a gain that differs a little between documents, of a
    treatment on all tasks or "on" one."""
    search = Searching.index_and_search

    def found(
        self: Searching, run: Run, treated: Any, plan: Any, first: Any
    ) -> tuple[pl.DataFrame, IndexCost]:
        rows, cost = search(self, run, treated, plan, first)
        name = treated.treatment.name
        gain = gains.get(f"{name} on {self.measured.task.name}", gains.get(name, 0.0))
        # Half of the short and half of the long documents.
        sign = 1 - 2 * ((pl.col("cluster") // 2) % 2)
        value = pl.lit(0.5) if gain == 0 else 0.5 + gain + 0.02 * sign
        is_metric = pl.col("measure") != "rank"
        return rows.with_columns(value=pl.when(is_metric).then(value).otherwise("value")), cost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searching, "index_and_search", found)
        yield


def calibration_of(log: RunLog) -> Calibration:
    return Calibration.from_json((log.folder / "calibration.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("gains", "name", "answer"),
    [
        ({MILD: 0.1, TILES: 0.3}, TILES, "use"),
        ({MILD: 0.1, TILES: -0.3}, MILD, "use"),
        ({MILD: -0.1, TILES: -0.3}, "plain", "keep"),
        ({}, "plain", "keep"),
    ],
)
def test_the_folder_holds_what_to_use(
    tuned: Tuned, make_tiny: Make, gains: dict[str, float], name: str, answer: str
) -> None:
    with crafted(gains):
        log = tuned()
    assert log.verdicts.select("treatment", "verdict").row(0) == (name, answer)
    assert calibration_of(log) == as_treatment(name).calibration
    assert log.rows["treatment"].unique(maintain_order=True).to_list() == [
        "plain",
        MILD,
        TILES,
        "keywords",
    ]
    text = words(30, 7)
    by_hand = fairspan.calibrate(make_tiny("bert", "mean"), as_treatment(name).calibration)
    from_folder = fairspan.calibrate(make_tiny("bert", "mean"), log.folder)
    np.testing.assert_array_equal(from_folder.encode_document(text), by_hand.encode_document(text))


def test_what_is_lost_is_written_again(tuned: Tuned) -> None:
    """A complete run is found without embedding anything, and its results are as they were."""
    with crafted({TILES: 0.3}):
        log = tuned()
    page, calibration = log.folder / "tune.html", log.folder / "calibration.json"
    written = page.read_text("utf-8"), calibration.read_text("utf-8")
    assert "Which treatment to use with" in written[0]
    for file in (page, calibration):
        file.unlink()
        again = tuned()
        assert again.header.started == log.header.started
        assert (page.read_text("utf-8"), calibration.read_text("utf-8")) == written
    calibration.write_text("{}", "utf-8")
    tuned()
    assert calibration.read_text("utf-8") == written[1]


def on_guard(log: RunLog) -> list[str]:
    """What was measured on the first guard."""
    return log.rows.filter(task=1)["treatment"].unique(maintain_order=True).to_list()


@pytest.mark.parametrize(
    ("losses", "name", "measured"),
    [
        ({}, TILES, ["plain", TILES]),
        ({TILES: -0.1}, LARGE, ["plain", TILES, LARGE]),
        ({TILES: -0.1, LARGE: -0.1}, "plain", ["plain", TILES, LARGE]),
    ],
)
def test_a_guard_is_measured_under_plain_and_the_choice_only(
    tuned: Tuned, place: Path, losses: dict[str, float], name: str, measured: list[str]
) -> None:
    """What loses there makes room for the next that is better; what is not better is never
    measured there."""
    gains = {MILD: -0.1, TILES: 0.4, LARGE: 0.2, f"{TILES} on guard-test": 0.0}
    gains |= {f"{LARGE} on guard-test": 0.0}
    gains |= {f"{candidate} on guard-test": loss for candidate, loss in losses.items()}
    with crafted(gains):
        log = tuned(candidates=[MILD, TILES, LARGE], guards=str(place / "guard"))
    assert log.verdicts["treatment"].to_list() == [name]
    assert calibration_of(log) == as_treatment(name).calibration
    assert on_guard(log) == measured
    for candidate in losses:
        assert f"{candidate} loses on guard-test: ndcg@10" in log.verdicts["sentence"][0]


def test_a_guard_is_not_measured_if_nothing_is_better(tuned: Tuned, place: Path) -> None:
    with crafted({}):
        log = tuned(guards=[str(place / "guard")])
    assert on_guard(log) == []


def test_the_same_as_an_evaluation_of_the_candidates(
    tuned: Tuned, place: Path, make_tiny: Make, tmp_path: Path
) -> None:
    """Without anything crafted: the same vectors, rows and verdicts, from the same store."""
    log = tuned()
    model = make_tiny("bert", "mean", max_position_embeddings=300)
    evaluated = fairspan.evaluate(
        model,
        corpus=str(place / "notes"),
        treatments=["plain", MILD, TILES],
        vectors=["1"],
        store=place / "vectors.db",
        out=tmp_path / "evaluated",
        progress=False,
    )
    assert evaluated.header.timings.texts_computed == 0
    keys = ["treatment", "index", "measure", "query", "document"]
    rows = [item.rows.drop("task", strict=False).sort(keys) for item in (log, evaluated)]
    assert rows[0].equals(rows[1])
    candidates = log.frame("candidates").select("treatment", "verdict").rows()
    assert candidates == evaluated.verdicts.select("treatment", "verdict").rows()
    better = [name for name, verdict in candidates if verdict == "better"]
    assert log.verdicts["treatment"][0] in (better or ["plain"])


def test_an_interrupted_tuning_goes_on_and_ends_the_same(
    tuned: Tuned, place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stopped on the guard, after the task."""
    asked: dict[str, Any] = {"guards": [str(place / "guard")], "store": tmp_path / "own.db"}
    gains = {TILES: 0.3, f"{TILES} on guard-test": 0.0}
    with crafted(gains):
        whole = tuned("whole", **{**asked, "store": tmp_path / "other.db"})
        put, rows = Store.put, tmp_path / "here" / "rows.parquet"

        def stopped(self: Store, vectors: Any) -> None:
            if rows.exists() and pl.read_parquet(rows)["treatment"].n_unique() == 4:
                raise KeyboardInterrupt
            put(self, vectors)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", stopped)
            with pytest.raises(KeyboardInterrupt):
                tuned("here", **asked)
        part = read_log(tmp_path / "here")
        assert part.status == "interrupted"
        assert part.verdicts.select("verdict", "sentence").row(0) == ("keep", "Not decided yet.")
        assert part.view.cards == ()
        log = tuned("here", **asked)
    assert log.status == "complete"
    assert 0 < log.header.timings.texts_computed < whole.header.timings.texts_computed
    assert log.rows.equals(whole.rows)
    # The sentence says how long embedding took.
    answers = [item.verdicts.select("treatment", "verdict").rows() for item in (log, whole)]
    assert answers == [[(TILES, "use")]] * 2


def test_a_forecast_has_every_candidate_and_one_on_each_guard(
    tuned: Tuned, place: Path, tmp_path: Path, make_tiny: Make
) -> None:
    model = make_tiny("bert", "mean", max_position_embeddings=300)
    model.max_seq_length = 64
    asked: dict[str, Any] = {"guards": [str(place / "guard")], "store": tmp_path / "own.db"}
    options = TuneOptions(
        model, corpus=str(place / "notes"), candidates=[MILD, TILES], progress=False, **asked
    )
    forecast = STUDY.forecast(options)
    names = ["plain", MILD, TILES, "guard-test: plain", f"guard-test: {MILD}"]
    assert [stage.name for stage in forecast.stages] == names
    counted = Recorder()
    with crafted({TILES: 0.3, f"{TILES} on guard-test": 0.0}):
        tuned(progress=counted, **asked)
    assert counted.done == counted.total == forecast.tokens


def test_notes_of_guards_name_them(tuned: Tuned, place: Path, tmp_path: Path) -> None:
    long = [{"id": f"d{n}", "text": words(100, 9000 + n)} for n in range(20)]
    asked = [{"id": f"q{n}", "text": words(4, n), "document": f"d{n}"} for n in range(20)]
    guard = write_beir(tmp_path / "long", long, asked)
    with crafted({}):
        log = tuned(guards=[guard])
    cut = [note for note in log.notes if "20 of 20 documents" in note]
    assert cut
    assert all(note.startswith("long-test: ") for note in cut)


def test_a_model_that_is_no_sentence_transformer(place: Path, tmp_path: Path) -> None:
    class Embedder:
        def encode(self, texts: list[str]) -> Any:
            raise AssertionError("nothing was to be embedded")

    with pytest.raises(UnsupportedModel, match="tune needs a SentenceTransformer, got Embedder"):
        fairspan.tune(Embedder(), corpus=str(place / "notes"), out=tmp_path / "out", progress=False)


def test_the_page_shows_the_evaluation_below_the_answer(tuned: Tuned) -> None:
    with crafted({TILES: 0.3}):
        log = tuned()
    view = log.view
    assert [card.badge for card in view.cards][:2] == ["use", "baseline"]
    assert view.sections[0].title == "Candidates"
    evaluation = {"quality", "lengths", "costs", "windows"}
    assert evaluation | {"verdicts", "candidates"} <= set(view.frames)
    assert view.methods[0].startswith("A candidate is used if evaluate shows it to be better")
    unfinished = replace(log, header=replace(log.header, status="interrupted"))
    assert unfinished.view.cards == ()
