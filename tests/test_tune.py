"""A tuning on tiny models: answers and what is written for them, documents, groups, options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.errors import CorpusError, DesignError
from fairspan.report.text import number
from fairspan.retrieval.indexes import ALL_PARTS
from fairspan.retrieval.source import CollectionSource, PageSource, PassageSource
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.runs.searching import Searching
from fairspan.runs.study import Run
from fairspan.stats.choice import Choice, make_sample
from fairspan.stats.intervals import Interval
from fairspan.studies.tune import run as tune_run
from fairspan.studies.tune.answer import _evenness
from fairspan.studies.tune.decision import decide
from fairspan.studies.tune.options import CANDIDATES, TuneOptions
from fairspan.studies.tune.prepare import reference
from fairspan.studies.tune.vectors import mark_enough, vectors_sentence
from fairspan.studies.tune.view import view_of
from tests.saying import said_by
from tests.searches import write_beir
from tests.test_corpus import write_folder
from tests.tiny import words
from tests.verbs import Recorder, article

Tuned = Callable[..., RunLog]
Make = Callable[..., SentenceTransformer]
Asked = dict[str, Any]
Gains = Mapping[str, float | tuple[float, float]]
MILD, TILES, CHUNKS = "tempscale+temperature=0.5", "tiles-8", "chunk-mean-8"
LONG = "tiles-128+short_texts=leave"
DOCUMENTS, WINDOW = 40, 64
PARTS: Asked = {
    "parts": True,
    "size": 2,
    "sets": 20,
    "query": "first-sentence",
    "min_tokens": 5,
    "editions": 1,
}


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate is timed, and forecasts are not timed long."""
    monkeypatch.setattr(tune_run, "relative_time", lambda *given, **others: 1.0)
    monkeypatch.setattr("fairspan.runs.forecast._TRIAL_SECONDS", 0.01)


def write_asked(
    folder: Path, documents: int, seed: int = 0, prompts: tuple[str, str] = ("", "")
) -> Path:
    """Every document is asked for once: every third by its first four words, others by the last."""
    texts = [words(16 + number % 5, 1000 * seed + number).split() for number in range(documents)]
    asked = [
        " ".join(text[:4] if number % 3 == 0 else text[-4:]) for number, text in enumerate(texts)
    ]
    found = [
        {"id": f"d{number}", "text": prompts[0] + " ".join(text)}
        for number, text in enumerate(texts)
    ]
    named = [
        {"id": f"q{n}", "document": f"d{n}", "text": prompts[1] + text}
        for n, text in enumerate(asked)
    ]
    return Path(write_beir(folder, found, named))


def write_texts(folder: Path, sentences: Sequence[int], language: str = "") -> Path:
    """Documents of so many sentences of five words: a file of the language, or Markdown."""
    folder.mkdir()
    texts = {f"a{number:03}": article(number, count) for number, count in enumerate(sentences)}
    if language:
        return write_folder(folder, {language: texts})
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Collections, short notes, and notes of which every other one exceeds 64 tokens."""
    place = tmp_path_factory.mktemp("place")
    for seed, (name, count) in enumerate({"few": DOCUMENTS, "guard": 24}.items()):
        write_asked(place / name, count, seed)
    write_texts(place / "short", [18] * 24)
    write_texts(place / "notes", [12, 54] * 12)
    return place


@pytest.fixture
def tuned(make_tiny: Make, place: Path, tmp_path: Path) -> Tuned:
    """Vectors are kept from one test to the next."""

    def call(tasks: Path | Sequence[str] = (), folder: str = "run", **asked: Any) -> RunLog:
        given = {
            "candidates": [MILD, TILES],
            "progress": False,
            "store": place / "vectors.db",
            **asked,
        }
        named = str(tasks) if isinstance(tasks, Path) else tasks
        return fairspan.tune(given.pop("model", make_tiny()), named, out=tmp_path / folder, **given)

    return call


@contextmanager
def crafted(gains: Gains) -> Iterator[None]:
    """Replaces what searches find: 0.5 and a gain that spreads, on all tasks or "on" one."""
    search = Searching.index_and_search

    def found(
        self: Searching, run: Run, treated: Any, plan: Any
    ) -> tuple[pl.DataFrame, dict[str, Any]]:
        rows, cost = search(self, run, treated, plan)
        name = treated.treatment.name
        given = gains.get(f"{name} on {self.tasks[0].task.name}", gains.get(name, (0.0, 0.0)))
        gain, spread = given if isinstance(given, tuple) else (given, 0.02)
        return rows.with_columns(value=0.5 + gain + spread * (1 - 2 * (pl.col("set") % 2))), cost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searching, "index_and_search", found)
        yield


def limited(make_tiny: Make, pooling: str = "cls") -> SentenceTransformer:
    """A model of 300 positions that is set to read 64."""
    model = make_tiny("bert", pooling, max_position_embeddings=300)
    model.max_seq_length = WINDOW
    return model


def calibration_of(log: RunLog) -> Calibration:
    return Calibration.from_json((log.folder / "calibration.json").read_text("utf-8"))


# --- the answer

LOST, LOST_TOO = {f"{TILES} on guard-test": -0.1}, {f"{MILD} on guard-test": -0.1}
UNSURE = {f"{TILES} on guard-test": (0.0, 0.2)}
LIKELY: Gains = {MILD: -0.2, TILES: (0.02, 0.2)}
GUARDED = [{"guards": ["guard"]}, {"tasks": ["few", "guard"]}]


@pytest.mark.parametrize(
    ("gains", "given", "held", "answer", "said"),
    [
        ({MILD: 0.05, TILES: 0.2}, {}, TILES, "use", "ndcg@10 0.500 → 0.700 (+0.200"),
        (
            {MILD: 0.05, TILES: 0.2},
            {"strict": True},
            TILES,
            "use",
            "40 of 40 documents need a new vector",
        ),
        (LIKELY, {}, TILES, "probably", "is probably better: ndcg@10 0.500 → 0.520 (+0.020"),
        (LIKELY, {"strict": True}, "plain", "probably", "calibration.json holds the plain model"),
        ({MILD: -0.2, TILES: -0.05}, {}, "plain", "keep", "gain above 0.01 is ruled out"),
        (
            {MILD: -0.2, TILES: (-0.005, 0.2)},
            {},
            "plain",
            "keep",
            "no candidate is shown to find more",
        ),
        *(({MILD: 0.1, TILES: 0.4}, given, TILES, "use", "Use tiles") for given in GUARDED),
        *(
            ({MILD: 0.1, TILES: 0.4, **LOST}, given, MILD, "use", "loses ndcg@10 on guard")
            for given in GUARDED
        ),
        *(
            ({MILD: 0.1, TILES: 0.4, **LOST, **LOST_TOO}, given, "plain", "keep", "0.5 loses")
            for given in GUARDED
        ),
        *(
            ({MILD: 0.1, TILES: 0.4, **UNSURE}, given, TILES, "probably", "ruled out on guard (")
            for given in GUARDED
        ),
    ],
)
def test_every_answer(
    tuned: Tuned, place: Path, gains: Gains, given: Asked, held: str, answer: str, said: str
) -> None:
    """What loses on a guard, or on one of several tasks, makes room for the next."""
    folders = {
        option: [str(place / name) for name in names]
        for option, names in given.items()
        if option != "strict"
    }
    with crafted(gains):
        log = tuned(**{"tasks": [str(place / "few")], **given, **folders})
    assert log.verdicts.select("treatment", "verdict").row(0) == (held, answer)
    assert said in log.verdicts["sentence"][0]
    assert calibration_of(log) == as_treatment(held).calibration
    outcomes, lost = (
        log.frame("candidates").filter(outcome="loses on guard")["treatment"],
        len(gains) - 2,
    )
    assert outcomes.to_list() == ([] if answer == "probably" else [TILES, MILD][:lost])
    if "guards" in given:
        arms = ["plain", TILES, MILD] if outcomes.len() else ["plain", TILES]
        assert (
            log.rows.filter(task="guard")["treatment"].unique(maintain_order=True).to_list() == arms
        )


def test_a_choice_is_compared_with_chunks_and_can_be_used(
    tuned: Tuned, place: Path, make_tiny: Make
) -> None:
    """Chunks as long as its tiles are measured after the choice. Numbers by hand."""
    with crafted(LIKELY):
        log = tuned(place / "few")
    assert log.rows["treatment"].unique(maintain_order=True).to_list() == [
        "plain",
        MILD,
        TILES,
        CHUNKS,
    ]
    assert log.header.to_json()["costs"] == {
        "time": 1.0,
        "read": 1.0,
        "documents": DOCUMENTS,
        "changed": DOCUMENTS,
    }
    error, freedom = 0.2 / np.sqrt(DOCUMENTS - 1), DOCUMENTS - 1
    assert log.verdicts["probability"][0] == pytest.approx(
        scipy.stats.t.cdf(0.02 / error, freedom), abs=1e-6
    )
    (row,) = log.frame("candidates").filter(treatment=TILES).to_dicts()
    low = 0.02 - scipy.stats.t.ppf(0.975, freedom) * error
    assert (row["change_estimate"], row["change_low"]) == pytest.approx((0.02, low))
    wanted, text = Calibration.preset("tiles-64").but(tile_size=8), words(30, 7)
    given, by_hand = (
        fairspan.calibrate(make_tiny(), own).encode_document([text]) for own in (log.folder, wanted)
    )
    np.testing.assert_array_equal(given, by_hand)


@pytest.mark.parametrize(("gain", "answer"), [(0.2, "use"), (-0.2, "keep")])
def test_averaged_chunks_are_never_chosen(
    tuned: Tuned, place: Path, gain: float, answer: str
) -> None:
    """They are named if they are better. Candidates may have any name."""
    with crafted({MILD: -0.3, "mine": gain, CHUNKS: 0.4}):
        log = tuned(place / "few", candidates=[CHUNKS, MILD, {"name": "mine", "preset": TILES}])
    assert log.verdicts.select("treatment", "verdict").row(0) == (
        "mine" if gain > 0 else "plain",
        answer,
    )
    assert calibration_of(log) == as_treatment(TILES if gain > 0 else "plain").calibration
    assert re.search(r"chunk\S* .*finds? more", log.verdicts["sentence"][0])
    assert log.rows["treatment"].n_unique() == 4, "no other chunks are measured"


def test_no_more_is_counted_than_was_announced(tuned: Tuned, place: Path) -> None:
    """Also if all lengths of queries are tried; a second candidate is not announced on guards."""
    counted = Recorder()
    with crafted({"plain": 0.5}):
        tuned(corpus=str(place / "notes"), progress=counted)
    assert 0 < counted.done <= counted.total


# --- rows and header decide

FIRST = np.random.default_rng(0).permutation(DOCUMENTS) % 2 == 0
"""The first half of the clusters, by the seed."""


def changed(log: RunLog, gains: Mapping[str, np.ndarray]) -> RunLog:
    """The same log with other values: 0.5 and what every arm gains on each cluster."""
    cells = log.rows.select("treatment", "set").rows()
    found = [float(gains[arm][cluster]) if arm in gains else 0.0 for arm, cluster in cells]
    return replace(log, rows=log.rows.with_columns(value=0.5 + pl.Series(found)))


def test_each_half_is_judged_by_what_the_other_prefers(tuned: Tuned, place: Path) -> None:
    """By hand, from rows in any order: one half prefers tiles, the other the mild one."""
    log = changed(
        tuned(place / "few"), {TILES: np.where(FIRST, 0.2, 0.06), MILD: np.where(FIRST, 0.05, 0.19)}
    )
    found, frames = decide(log.rows, log.header), view_of(log).frames
    assert found.choice is not None
    assert (found.answer, found.choice.preferred) == ("use", (TILES, MILD))
    assert found.choice.gain.estimate == pytest.approx((0.05 + 0.06) / 2)
    sentence = frames["verdicts"]["sentence"][0]
    assert "One half of the documents prefers tiles" in sentence
    assert "ndcg@10 0.500 → 0.560 (on the half of the documents that did not choose it" in sentence
    assert "cross-checked gain +0.055 [" in sentence
    for seed in range(3):
        other = replace(log, rows=log.rows.sample(fraction=1, shuffle=True, seed=seed))
        for name, frame in view_of(other).frames.items():
            assert frame.equals(frames[name]), name


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (0.2, "as evenly as before (PSI 0.75 → 0.75)"),
        (0.3, "more evenly than before (PSI 0.75 → 0.63)"),
    ],
)
def test_an_equal_psi_is_called_equal(last: float, said: str) -> None:
    values = {"plain": [0.8, 0.2], "a": [0.801, last]}
    sample = make_sample(
        {name: pair * 2 for name, pair in values.items()}, [1, 2] * 2, [0, 0, 1, 1]
    )
    none = Interval(0.1)
    choice = Choice("a", ("a", "a"), (sample,), none, none, {})
    assert _evenness(choice) == f"The parts of a document are found {said}."


def test_a_choice_that_varies_too_much(tuned: Tuned, place: Path) -> None:
    """The halves confirm each other, and the candidate by itself does not gain."""
    sign = np.where(np.argsort(np.argsort(FIRST, kind="stable")) % 2, 1, -1)
    gains = {
        MILD: np.where(FIRST, 0.3 + sign, 0.05 + sign / 100),
        TILES: np.where(FIRST, 0.05, 0.06) + sign / 100,
    }
    log = changed(tuned(place / "few"), gains)
    found = decide(log.rows, log.header)
    assert found.choice is not None
    assert (found.choice.preferred, found.choice.gain.low > 0) == ((MILD, TILES), True), (
        "the premise"
    )
    assert (found.name, found.answer) == (MILD, "probably")
    assert not re.search(r"ruled out on \W", view_of(log).frames["verdicts"]["sentence"][0])


# --- documents as they are


def test_documents_beyond_the_window(tuned: Tuned, place: Path, make_tiny: Make) -> None:
    """Tiles that leave short texts read them whole; that the plain model cuts them is noted."""
    near = limited(make_tiny)
    asked: Asked = {"model": near, "corpus": str(place / "notes"), "candidates": [LONG, TILES]}
    with crafted({LONG: 0.2}):
        log = tuned(**asked)
    assert log.verdicts.select("treatment", "verdict").row(0) == (LONG, "use")
    texts = [
        text.text
        for text in tune_run.STUDY.ready(TuneOptions(**asked), Silent()).searched[0].plan.flat
    ]
    plain, long = (one.encode_document(texts) for one in (near, fairspan.calibrate(near, LONG)))
    lengths = np.array([len(text.split()) + 2 for text in texts])
    assert (np.abs(plain - long).max(1) > 1e-4).tolist() == (lengths > WINDOW).tolist()
    read = round(np.minimum(lengths, WINDOW).sum() / lengths.sum(), 4)
    assert log.header.to_json()["costs"] == {
        "time": 1.0,
        "read": read,
        "documents": 24,
        "changed": 12,
    }
    notes = " ".join(log.notes)
    assert "; 12 of 24 documents were cut at 64 tokens" in notes
    assert "read whole" not in notes, "what reads everything needs no note"
    assert " in und" not in notes
    assert set(log.rows["treatment"]) == {"plain", LONG, TILES, "chunk-mean-window"}
    assert log.frame("positions")["group"].to_list() == [1, 2, 3, 4, 5] * 2


def test_several_vectors_are_measured_and_never_chosen(
    tuned: Tuned, place: Path, make_tiny: Make
) -> None:
    """What is advised with four parts, and the plain model with one vector for each chunk."""
    near = limited(make_tiny)
    asked: Asked = {"model": near, "corpus": str(place / "notes"), "candidates": [LONG]}
    log = tuned(**asked, query_tokens=20)
    options = TuneOptions(**asked, query_tokens=20)
    [task] = tune_run.STUDY.ready(options, Silent()).searched[0].tasks
    advised = log.verdicts["treatment"][0]
    models = {"plain": near, LONG: fairspan.calibrate(near, LONG)}
    frame = log.frame("vectors")
    assert frame["treatment"].to_list() == [advised, advised, "plain"]
    texts = [document.text for document in task.documents]
    for row in frame.to_dicts():
        model = models[row["treatment"]]
        parts = fairspan.encode_parts(model, texts, vectors=row["vectors"])
        assert row["vectors_per_document"] == len(parts.document) / len(texts)
        assert row["mb_float32"] == 4 * row["mb_int8"]
        scores = model.encode_query([query.text for query in task.queries]) @ parts.vectors.T
        best = [scores[:, parts.document == number].max(1) for number in range(len(texts))]
        ids = [document.id for document in task.documents]
        gains = []
        for query, of_documents in zip(task.queries, np.stack(best, 1), strict=True):
            [relevant] = task.relevant[query.id]
            rank = int((of_documents > of_documents[ids.index(relevant)]).sum())
            gains.append(1 / np.log2(rank + 2) if rank < 10 else 0.0)
        assert row["quality"] == pytest.approx(np.mean(gains), abs=1e-6)
    [one, four, chunks] = (number(value) for value in frame["quality"])
    sentence = log.verdicts["sentence"][0]
    assert "With 4 vectors per document (" in sentence
    assert f" search finds {four} instead of {one}; one per chunk (" in sentence
    assert sentence.endswith(f" MB) {chunks}.")
    assert frame["enough"].to_list() == [True, False, False]


def test_the_fewest_vectors_that_are_enough_are_advised() -> None:
    """Of those that can be stored; one per chunk is a reference."""
    found = {1: 0.6, 2: 0.7, 4: 0.705, ALL_PARTS: 0.9}
    records = [
        {"vectors": most, "quality": value, "mb_float32": 10.0 * number}
        for number, (most, value) in enumerate(found.items(), 1)
    ]
    mark_enough(records, 4, 0.01)
    assert vectors_sentence(records) == (
        "Store 2 vectors per document (20 MB for 10,000 documents): search finds 0.700 instead of "
        "0.600; one per chunk (40 MB) 0.900."
    )
    assert TuneOptions(vectors=6).part_indexes == ("parts-2", "parts-4", "parts-6")
    assert TuneOptions(vectors=2).part_indexes == ("parts-2",)
    assert TuneOptions(vectors=1).part_indexes == TuneOptions().part_indexes == ("parts-4",)
    with pytest.raises(DesignError, match="vectors must be"):
        TuneOptions(vectors=0)


@pytest.mark.parametrize("candidate", ["tiles-100", MILD])
def test_all_documents_are_used(tuned: Tuned, place: Path, make_tiny: Make, candidate: str) -> None:
    """Tiles may be longer than chunks. Where nothing reads documents whole, they are shortened."""
    with crafted({candidate: 0.2}):
        log = tuned(model=limited(make_tiny), corpus=str(place / "notes"), candidates=[candidate])
    assert (log.verdicts["treatment"][0], log.header.to_json()["tasks"][0]["documents"]) == (
        candidate,
        24,
    )
    assert (log.rows["tokens"].to_numpy().max() <= WINDOW) == (candidate == MILD)


@pytest.mark.parametrize(
    ("found", "wanted"), [([0.5], 60), ([0.9, 0.81, 0.8], 15), ([1.0] * 4, 8), ([1.0], None)]
)
def test_queries_are_shortened_until_the_plain_model_misses_some(
    tuned: Tuned,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: list[float],
    wanted: int | None,
) -> None:
    """All candidates are asked the same; a length that is given stays."""
    tried, search = list[list[str]](), Searching.index_and_search

    def crafted_search(
        self: Searching, run: Run, treated: Any, plan: Any
    ) -> tuple[pl.DataFrame, dict[str, Any]]:
        rows, cost = search(self, run, treated, plan)
        tried.append([query.text for one in self.tasks for query in one.task.queries])
        return rows.with_columns(value=pl.lit(found[min(len(tried), len(found)) - 1])), cost

    monkeypatch.setattr(Searching, "index_and_search", crafted_search)
    log = tuned(corpus=str(place / "notes"), query_tokens=None if wanted else 20)
    assert log.header.to_json()["query_tokens"] == {"notes": wanted}
    shortened = [note for note in view_of(log).notes if "evaluate asks with up to 60" in note]
    is_shortened = wanted is not None and wanted < 60
    assert [f"at most {wanted} tokens, so" in note for note in shortened] == [True] * is_shortened
    attempts, used = tried[: len(found)], tried[len(found) :]
    most = [max(len(text.split()) for text in texts) for texts in attempts]
    assert most == ([50, 30, 15, 8][: len(found)] if wanted else [20])
    for texts in attempts:
        assert all(whole.startswith(text) for whole, text in zip(attempts[0], texts, strict=True))
    assert used == [attempts[-1]] * 4, "plain, two candidates, chunks"


@pytest.mark.parametrize("kind", ["collection", "documents", "parts"])
def test_a_forecast_is_exact(
    tuned: Tuned, place: Path, tmp_path: Path, make_tiny: Make, kind: str
) -> None:
    """To the token, but for chunks: here they are documents, whose vectors are stored already."""
    kinds: dict[str, Asked] = {
        "collection": {"tasks": str(place / "few"), "guards": [str(place / "guard")]},
        "documents": {"corpus": str(place / "short"), "query_tokens": 20},
        "parts": {"corpus": str(write_texts(tmp_path / "segments", [4] * 40, "en")), **PARTS},
    }
    asked: Asked = {**kinds[kind], "candidates": [TILES, MILD], "store": tmp_path / "own.db"}
    said = {
        one["name"]: one["tokens"]
        for one in tune_run.STUDY.forecast(TuneOptions(make_tiny(), **asked)).rows
    }
    first, again = Recorder(), Recorder()
    with crafted({MILD: 0.2}):
        log = tuned(**asked, progress=first)
        tuned(**asked, folder="again", progress=again)
    assert log.header.timings.tokens_computed == sum(said.values()) - said["averaged chunks"]
    assert first.total == again.total == sum(said.values())
    assert 0 < again.skipped == again.done == first.done <= again.total


# --- groups and tasks


def test_usual_candidates_that_do_not_suit_the_model_are_left_out(
    tuned: Tuned, place: Path, make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the same call finds what it left."""
    # Words that the tiny model knows.
    monkeypatch.setattr(
        "fairspan.model.level.general_texts", lambda: [words(12, n) for n in range(30)]
    )
    asked: Asked = {
        "model": limited(make_tiny),
        "corpus": str(place / "notes"),
        "candidates": CANDIDATES,
    }
    log = tuned(**asked)
    assert [one["name"] for one in log.spec["treatments"]] == ["plain", "fair"]
    notes = ["omitted: tiles-64, whose tiles are not smaller than the window of 64 tokens"]
    assert [note for note in log.notes if note.startswith("omitted")] == notes
    assert tuned(**asked).header.to_json() == log.header.to_json()


@pytest.mark.parametrize(
    ("calibration", "window", "chunks"),
    [
        ({"tile_size": "window"}, 8192, "512"),
        ({"tile_size": "window"}, 512, "window"),
    ],
)
def test_chunks_are_as_long_as_the_tiles_they_are_compared_with(
    calibration: Asked, window: int | None, chunks: str
) -> None:
    treatment = Treatment("mine", PRESETS["plain"].but(**calibration))
    assert reference(treatment, window) == f"chunk-mean-{chunks}"


def test_of_long_parts_the_beginnings_are_joined(tmp_path: Path, make_tiny: Make) -> None:
    """Two halves of texts of 150 tokens do not fit into a window of 64."""
    corpus = str(write_texts(tmp_path / "corpus", [30] * 40))
    options = TuneOptions(
        limited(make_tiny), corpus=corpus, parts=True, size=2, query_tokens=8, candidates=[MILD]
    )
    (one,) = tune_run.STUDY.ready(options, Silent()).searched
    assert "pages hold the first 30 tokens of every segment" in " ".join(
        one.searching.tasks[0].task.notes
    )
    assert one.info.clusters == 20


def test_parts_are_pages_grouped_by_position(tuned: Tuned, tmp_path: Path) -> None:
    corpus = str(write_texts(tmp_path / "corpus", [12] * 40, "en"))
    log = tuned(corpus=corpus, candidates=[MILD], **{**PARTS, "editions": 2})
    assert log.header.to_json()["tasks"][0]["name"] == "pages of corpus"
    (sample,) = decide(log.rows, log.header).samples.values()
    assert sample.sums["plain"].counts.tolist() == [[4, 2, 2]] * 20
    plain = log.rows.filter(treatment="plain")
    means = [plain.filter(position=place)["value"].mean() for place in (1, 2)]
    (psi,) = log.frame("candidates").filter(treatment="plain")["psi"]
    assert psi == pytest.approx(1 - min(means) / max(means))  # type: ignore[type-var, operator]


@pytest.mark.slow
def test_a_model_with_prompts(tuned: Tuned, place: Path, tmp_path: Path) -> None:
    """As if the words of the prompts were part of every text."""
    log = tuned(place / "few", prompt="w1 w2 ", query_prompt="w3 ", candidates=[MILD])
    written = write_asked(tmp_path / "written", DOCUMENTS, prompts=("w1 w2 ", "w3 "))
    by_hand = tuned(written, "by hand", candidates=[MILD])
    keys = ["treatment", "query"]
    one, two = (own.rows.sort(keys).select(*keys, "value", "tokens") for own in (log, by_hand))
    assert one.equals(two)


# --- options


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidates": []}, "name at least one treatment"),
        ({"candidates": "tiles-64"}, "candidates must be a list"),
        ({"candidates": ["none"]}, "'plain' is what candidates are compared with"),
        (
            {"candidates": ["tiles-64", "fair+sides=both+temperature=0.8+level=false"]},
            "are the same: omit one",
        ),
        ({"candidates": ["tiles-64", "tiles-64"]}, "is named twice"),
        ({"candidates": ["chunk-mean", "chunk-mean-64"]}, "averaged chunks cannot be chosen"),
        ({"candidates": ["whitening"]}, "cannot be written to calibration.json"),
        ({"candidates": ["tiles-64+tiles=segments"]}, "cannot be written to calibration.json"),
        ({"tasks": [""]}, "a task is 'pages', 'passages'"),
        ({"tasks": "pages:a", "corpus": "b"}, "corpus is for passages, pages: omit it for pages:a"),
        ({"size": 3}, "size is for pages: omit it for passages"),
        (
            {"tasks": "beir:a", "query_tokens": 20},
            "query_tokens is for passages, pages: omit it for beir:a",
        ),
        ({"tasks": "beir:a", "parts": True}, "parts is for documents that are made from a corpus"),
        (
            {"guards": "passages"},
            "passages is named twice: tasks and guards need documents of their own",
        ),
        ({"query_tokens": 7}, "query_tokens must be a whole number of at least 8"),
    ],
)
def test_a_mistake_in_the_options_is_one_line(changes: Asked, said: str) -> None:
    assert said in said_by(TuneOptions, **changes)


def test_options_go_to_the_tasks_that_take_them() -> None:
    options = TuneOptions(
        tasks=["pages", "passages:other"], guards=["beir:a"], corpus="mine", size=3, split="dev"
    )
    assert options.searched == (
        PageSource(corpus="mine", size=3, sets=220),
        PassageSource(corpus="other", query_tokens=60),
        CollectionSource(task="beir:a", split="dev"),
    )
    assert (TuneOptions().tasks, TuneOptions(parts=True).tasks) == (("passages",), ("pages",))
    given: list[Any] = [MILD, PRESETS["paper"], {"name": "mine", "tile_size": 48}]
    assert [one.name for one in TuneOptions(candidates=given).all_treatments] == [
        "plain",
        MILD,
        "paper",
        "mine",
    ]


def test_a_guard_on_which_little_changes(tuned: Tuned, place: Path) -> None:
    """What changes 3 of 24 documents may still lose rarely. What changes none cannot."""
    with crafted({TILES: 0.4}):
        log = tuned(place / "few", guards=str(place / "guard"), candidates=[TILES])
    on_guard = (pl.col("task") == "guard") & (pl.col("treatment") == TILES)
    for changed in (3, 0):
        value = pl.when(on_guard).then(0.5 + 0.1 * (pl.col("set") < changed)).otherwise("value")
        other = replace(log, rows=log.rows.with_columns(value=value))
        said = f"only {changed} of 24 documents change: a rare loss may be missing"
        assert (said in other.verdicts["sentence"][0]) == (changed > 0)


def test_what_cannot_be_compared_is_refused(tuned: Tuned, place: Path) -> None:
    with pytest.raises(
        CorpusError, match="share 40 documents, so that one would be judged by data"
    ):
        tuned(place / "few", guards=[f"beir:{place / 'few'}"])
