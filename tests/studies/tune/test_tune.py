"""Tunings of tiny models: answers, what is written for them, guards, and runs that go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.runs.study import Run as StudyRun
from fairspan.studies.evaluate.entries import IndexCost
from fairspan.studies.evaluate.searching import Searching
from fairspan.studies.logs import read_log
from fairspan.studies.tune.options import TuneOptions
from fairspan.studies.tune.run import STUDY
from tests.builders.commands import Run
from tests.builders.searches import write_beir
from tests.builders.tiny import words
from tests.builders.verbs import article
from tests.corpus.test_corpus import write_folder

Make = Callable[..., SentenceTransformer]
Tuned = Callable[..., RunLog]
MILD, TILES = "tempscale+temperature=0.5", "tiles-8"
LARGE = "tiles-16"


def write_guard(folder: Path, length: int = 18) -> str:
    """A collection of twenty documents of so many words."""
    documents = [{"id": f"d{n}", "text": words(length, 7000 + n)} for n in range(20)]
    queries = [{"id": f"q{n}", "text": words(4, 7000 + n), "document": f"d{n}"} for n in range(20)]
    return write_beir(folder, documents, queries)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, every other document of which exceeds 64 tokens, and a collection as a guard."""
    place = tmp_path_factory.mktemp("place")
    texts = {f"a{n:02}": article(n, 12 if n % 2 else 20) for n in range(20)}
    write_folder(place / "notes", {"en": texts})
    write_guard(place / "guard")
    return place


@pytest.fixture(scope="module")
def asked(make_tiny: Make, place: Path) -> dict[str, Any]:
    """A tuning of a model that reads 64 tokens; vectors are kept from one test to the next."""
    model = copy_sharing_weights(make_tiny("bert", "mean", max_position_embeddings=300))
    model.max_seq_length = 64
    asked = {"model": model, "corpus": str(place / "notes"), "candidates": [MILD, TILES]}
    return {**asked, "store": place / "vectors.db", "progress": False}


@pytest.fixture
def tuned(asked: dict[str, Any], tmp_path: Path) -> Tuned:
    return lambda folder="run", **changes: fairspan.tune(
        **{**asked, "out": tmp_path / folder, **changes}
    )


@contextmanager
def crafted(gains: Mapping[str, float]) -> Iterator[None]:
    """Replaces what searches find: 0.5, and a gain that differs a little between documents, of a
    treatment on all tasks or "on" one."""
    search = Searching.index_and_search

    def crafted_search(
        self: Searching, run: StudyRun, treated: Any, plan: Any, first: Any
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
        patch.setattr(Searching, "index_and_search", crafted_search)
        yield


def calibration_of(log: RunLog) -> Calibration:
    return Calibration.from_json((log.folder / "calibration.json").read_text("utf-8"))


def on_guard(log: RunLog) -> list[str]:
    """What was measured on the first guard."""
    return log.rows.filter(task=1)["treatment"].unique(maintain_order=True).to_list()


def test_the_folder_holds_what_to_use(tuned: Tuned, make_tiny: Make) -> None:
    """Also after it was lost or changed: a complete run is found without embedding anything. The
    page shows the evaluation below the answer."""
    with crafted({MILD: 0.1, TILES: 0.3}):
        log = tuned()
    assert log.verdicts.select("treatment", "verdict").row(0) == (TILES, "use")
    measured = log.rows["treatment"].unique(maintain_order=True).to_list()
    assert measured == ["plain", MILD, TILES, "keywords"]
    model, text = make_tiny("bert", "mean"), words(30, 7)
    by_hand = fairspan.calibrate(model, TILES)
    from_folder = fairspan.calibrate(model, log.folder)
    np.testing.assert_array_equal(from_folder.encode_document(text), by_hand.encode_document(text))
    page, calibration = log.folder / "tune.html", log.folder / "calibration.json"
    written = page.read_text("utf-8"), calibration.read_text("utf-8")
    assert "Which treatment to use with" in written[0]
    page.unlink()
    calibration.write_text("{}", "utf-8")
    assert tuned().header.started == log.header.started
    assert (page.read_text("utf-8"), calibration.read_text("utf-8")) == written
    view = log.view
    assert [card.badge for card in view.cards][:2] == ["use", "baseline"]
    assert view.sections[0].title == "Candidates"
    frames = {"quality", "lengths", "costs", "windows", "verdicts", "candidates"}
    assert frames <= set(view.frames)


GUARDED = {MILD: 0.1, TILES: 0.4, LARGE: 0.2}
GUARDED |= {f"{TILES} on guard-test": -0.1, f"{LARGE} on guard-test": 0.0}
"""What is gained: small tiles gain most and lose on the guard, where large ones come next."""


@pytest.fixture(scope="module")
def guarded(
    asked: dict[str, Any], place: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunLog, dict[str, Any]]:
    """A finished tuning with a guard, and what was asked of it."""
    asked = {**asked, "candidates": [MILD, TILES, LARGE], "guards": str(place / "guard")}
    folder = tmp_path_factory.mktemp("guarded")
    with crafted(GUARDED):
        return fairspan.tune(**{**asked, "store": folder / "s.db", "out": folder / "run"}), asked


def test_what_loses_on_a_guard_makes_room_for_the_next(
    guarded: tuple[RunLog, dict[str, Any]],
) -> None:
    log, _ = guarded
    assert log.verdicts.select("treatment", "verdict").rows() == [(LARGE, "use")]
    assert calibration_of(log) == as_treatment(LARGE).calibration
    assert on_guard(log) == ["plain", TILES, LARGE], "nothing that is not asked about"
    assert f"{TILES} loses on guard-test: ndcg@10" in log.verdicts["sentence"][0]


def test_what_is_not_better_is_never_measured_on_a_guard(tuned: Tuned, place: Path) -> None:
    """Without anything that helps the folder holds the plain model's calibration."""
    with crafted({TILES: -0.1}):
        log = tuned(candidates=[TILES], guards=str(place / "guard"))
    assert log.verdicts.select("treatment", "verdict").rows() == [("plain", "keep")]
    assert calibration_of(log) == as_treatment("plain").calibration
    assert on_guard(log) == []


def test_the_same_as_an_evaluation_of_the_candidates(
    tuned: Tuned, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Without anything crafted: the same vectors, rows and verdicts, from the same store."""
    log = tuned(candidates=[TILES])
    asked = {name: asked[name] for name in asked if name != "candidates"}
    evaluated = fairspan.evaluate(
        **asked, treatments=["plain", TILES], vectors=["1"], out=tmp_path / "evaluated"
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
    guarded: tuple[RunLog, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stopped on the guard, after the task."""
    whole, asked = guarded
    asked = {**asked, "store": tmp_path / "own.db", "out": tmp_path / "here"}
    put, rows = Store.put, tmp_path / "here" / "rows.parquet"

    def stopped(self: Store, vectors: Any) -> None:
        if rows.exists() and pl.read_parquet(rows)["treatment"].n_unique() == 5:
            raise KeyboardInterrupt
        put(self, vectors)

    with crafted(GUARDED):
        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", stopped)
            with pytest.raises(KeyboardInterrupt):
                fairspan.tune(**asked)
        part = read_log(tmp_path / "here")
        assert part.status == "interrupted"
        assert part.verdicts.select("verdict", "sentence").row(0) == ("keep", "Not decided yet.")
        assert part.view.cards == ()
        log = fairspan.tune(**asked)
    assert log.status == "complete"
    assert 0 < log.header.timings.texts_computed < whole.header.timings.texts_computed
    assert log.rows.equals(whole.rows)
    # The sentence says how long embedding took.
    answers = [item.verdicts.select("treatment", "verdict").rows() for item in (log, whole)]
    assert answers == [[(LARGE, "use")]] * 2


def test_a_forecast_has_every_candidate_and_one_on_each_guard(
    asked: dict[str, Any], place: Path, tmp_path: Path
) -> None:
    """Notes of guards name them; the runs of every study are compared with their forecasts in
    test_runner."""
    long = write_guard(tmp_path / "long", 100)
    options = TuneOptions(**asked, guards=[str(place / "guard"), long])
    forecast = STUDY.forecast(options)
    names = ["plain", MILD, TILES]
    names += [f"{guard}-test: {name}" for guard in ("guard", "long") for name in ("plain", MILD)]
    assert [stage.name for stage in forecast.stages] == names
    cut = [note for note in STUDY.read(options, Silent()).notes if "20 of 20 documents" in note]
    assert cut
    assert all(note.startswith("long-test: ") for note in cut)


# The command line


def test_a_folder_of_documents_and_what_to_use(
    run: Run,
    save_tiny: Callable[..., Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Documents without a language. A dry run leaves nothing, and says to the token what a run
    embeds."""
    notes = tmp_path_factory.mktemp("typed")
    for number in range(20):
        (notes / f"a{number:03}.md").write_text(article(number, 12), "utf-8")
    typed = ["tune", save_tiny("bert", "mean"), "--corpus", notes, "--candidates", MILD]
    told = json.loads(run(*typed, "--dry-run", "--json").ok.out)
    assert list(tmp_path.iterdir()) == []
    assert [stage["name"] for stage in told["stages"]] == ["plain", MILD]
    with crafted({MILD: 0.2}):
        done = run(*typed, "--out", "here").ok
    log = read_log(tmp_path / "here")
    timings = log.header.timings
    assert (timings.tokens_computed, timings.texts_computed) == (told["tokens"], 2 * 2 * 20)
    assert log.view.cards[0].sentences[0] in " ".join(done.out.split())
    ending = ["log: here", "calibration: here/calibration.json", "page: here/tune.html"]
    assert done.out.rstrip().splitlines()[-3:] == ending
    assert log.verdicts.select("treatment", "verdict").row(0) == (MILD, "use")
    assert calibration_of(log).temperature == 0.5
