"""A tuning on tiny models: parts that decide and parts that only report, rounds, costs, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.errors import TaskError
from fairspan.retrieval import mteb_reading
from fairspan.runs.log import RunLog
from fairspan.runs.runner import Run
from fairspan.runs.searching import Searching
from fairspan.runs.subject import open_subject
from fairspan.stats.choice import make_sample
from fairspan.studies.logs import read_log
from fairspan.studies.tune import measuring, prepare
from fairspan.studies.tune import run as tune_run
from fairspan.studies.tune.decision import decide, decide_on, samples_of
from fairspan.studies.tune.prepare import PreparedTuning, prepare_tuning, round_sizes
from fairspan.studies.tune.run import tune
from fairspan.studies.tune.spec import make_tuning
from tests.pytrec_eval_stand_in import stand_in_if_missing
from tests.tiny import words

Make = Callable[..., SentenceTransformer]
GRID = ["tempscale+temperature=0.5", "tiles+tile_size=8"]
QUERY, AT_FRONT = 4, 3


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate is timed, unless a test says how long it takes."""
    monkeypatch.setattr(measuring, "relative_time", lambda *given, **others: 1.0)


def write_beir(folder: Path, documents: int, seed: int = 0, *, length: int = 16) -> Path:
    """Every document is asked for once, by four of its words: every third time the first ones, or else the last."""
    (folder / "qrels").mkdir(parents=True)
    texts = [words(length + number % 5, 1000 * seed + number).split() for number in range(documents)]
    asked = [" ".join(text[:QUERY] if number % AT_FRONT == 0 else text[-QUERY:]) for number, text in enumerate(texts)]
    corpus = [{"_id": f"d{number}", "text": " ".join(text)} for number, text in enumerate(texts)]
    queries = [{"_id": f"q{number}", "text": text} for number, text in enumerate(asked)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    judged = "".join(f"q{number}\td{number}\t1\n" for number in range(documents))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged, encoding="utf-8")
    return folder


def write_corpus(folder: Path, articles: int, languages: Sequence[str] = ("en",)) -> Path:
    """Articles of eight sentences of five words."""
    folder.mkdir()
    for shift, language in enumerate(languages):
        lines = []
        for number in range(articles):
            seed = 100 * (number + articles * shift)
            text = " ".join(words(5, seed + place) + "." for place in range(8))
            lines.append(json.dumps({"id": f"a{number:03}", "text": text}) + "\n")
        (folder / f"{language}.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"beir:{write_beir(tmp_path_factory.mktemp('beir') / 'asked', 40)}"


@pytest.fixture
def tuned(make_tiny: Make, tmp_path: Path) -> Callable[..., RunLog]:
    def call(tasks: str | Sequence[str], folder: str = "run", **asked: Any) -> RunLog:
        given = {"grid": GRID, "progress": False, "store": tmp_path / "vectors.db", **asked}
        return tune(given.pop("model", None) or make_tiny(), tasks, out=tmp_path / folder, **given)

    return call


def part_rows(log: RunLog, *parts: str) -> pl.DataFrame:
    return log.rows.filter(pl.col("split").is_in(parts))


@pytest.fixture
def crafted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What searches find, replaced: every arm gets 0.3, and some get more; a share of what was found is kept."""

    def craft(gains: Mapping[str, float], spread: float = 0.4, kept: float = 0.0) -> None:
        search = Searching.index_and_search

        def found(self: Searching, run: Run, treated: Any, plan: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
            rows, cost = search(self, run, treated, plan)
            gain = gains.get(treated.treatment.name, 0.0) if plan.kind == "whole" else 0.0
            place = pl.col("query").hash(3) % 100 / 100
            value = 0.3 + kept * pl.col("value") + gain + spread * gain * (place - 0.5)
            return rows.with_columns(value=value), cost

        monkeypatch.setattr(Searching, "index_and_search", found)

    return craft


# --- the parts


def permuted(prepared: PreparedTuning, part: str) -> PreparedTuning:
    """The same tuning, in which the queries of one part ask for each other's documents."""

    def shuffle(searching: Searching) -> Searching:
        tasks = []
        for one in searching.tasks:
            names = [query.id for query in one.task.queries]
            asked = dict(zip(names, (*names[1:], names[0]), strict=True))
            relevant = {query: one.task.relevant[other] for query, other in asked.items()}
            tasks.append(replace(one, task=replace(one.task, relevant=relevant, evidence={}), places={}))
        return replace(searching, tasks=tuple(tasks))

    divided = [
        replace(task, parts={name: shuffle(own) if name == part else own for name, own in task.parts.items()})
        for task in prepared.tasks
    ]
    return replace(prepared, tasks=tuple(divided))


@pytest.mark.parametrize("part", ["report", "guard"])
def test_labels_of_the_report_part_decide_nothing(
    tuned: Callable[..., RunLog],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    crafted: Callable[..., None],
    part: str,
) -> None:
    """A leak would be caught: the answer, the tests and everything before them stay. Those of the guard part do not.

    200 queries, so that the guard part has the 50 that a decision needs.
    """
    crafted({GRID[0]: 0.1, GRID[1]: 0.2}, kept=0.2)
    task = f"beir:{write_beir(tmp_path / 'asked', 200)}"
    usual = tuned(task)
    prepare = tune_run.prepare_tuning
    monkeypatch.setattr(tune_run, "prepare_tuning", lambda *given: permuted(prepare(*given), part))
    other = tuned(task, "shuffled")
    first, second = decide(usual), decide(other)
    assert part_rows(usual, "tune").drop("run").equals(part_rows(other, "tune").drop("run"))
    assert first.answer == "use"
    assert (repr(first.tested) == repr(second.tested)) == (part == "report")
    if part == "report":
        assert (first.answer, first.chosen, first.looked_at) == (second.answer, second.chosen, second.looked_at)
        assert repr(first.measured) == repr(second.measured)
        assert first.listed == second.listed
        assert repr(first.reported) != repr(second.reported)
        assert (tmp_path / "run" / "calibration.json").read_text() == (
            tmp_path / "shuffled" / "calibration.json"
        ).read_text()


def test_nothing_of_the_report_part_is_embedded_before_the_guard_is_done(
    tuned: Callable[..., RunLog],
    beir: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_tiny: Make,
    crafted: Callable[..., None],
) -> None:
    crafted({GRID[1]: 0.2})
    guard = f"beir:{write_beir(tmp_path / 'guard', 24, seed=5)}"
    spec = make_tuning([beir], guards=[guard], grid=GRID)
    prepared = prepare_tuning(open_subject(make_tiny()), spec)
    reported = {
        text.text
        for task in prepared.tasks
        for text in (*task.parts["report"].plan("whole").flat, *task.parts["report"].queries())
    }
    seen: list[tuple[bool, bool]] = []
    fill = Run.fill

    def spy(self: Run, encoder: Any, texts: Any) -> None:
        given = list(texts)
        seen.append(("guard" in self.header["parts_done"], any(text.text in reported for text in given)))
        fill(self, encoder, given)

    monkeypatch.setattr(Run, "fill", spy)
    log = tuned(beir, guards=[guard])
    assert {of_report for done, of_report in seen if not done} == {False}
    assert {of_report for done, of_report in seen if done} == {True}
    assert log.header["parts_done"] == ["tune", "guard", "report"]
    assert log.rows["split"].unique(maintain_order=True).to_list() == ["tune", "guard", "report"]


def test_parts_of_tasks_and_guards(
    tuned: Callable[..., RunLog], beir: str, tmp_path: Path, crafted: Callable[..., None]
) -> None:
    crafted({GRID[1]: 0.2})
    guard = f"beir:{write_beir(tmp_path / 'guard', 24, seed=5)}"
    log = tuned(beir, guards=[guard])
    found = {
        task["name"]: {part: own["clusters"] for part, own in task["parts"].items()} for task in log.header["tasks"]
    }
    assert found == {"asked": {"tune": 20, "guard": 10, "report": 10}, "guard": {"guard": 18, "report": 6}}
    counted = part_rows(log, "tune", "guard", "report").filter(treatment="none", part="whole")
    queries = counted.group_by("task", "split").agg(pl.col("query").n_unique(), pl.len())
    for task, part, different, rows in queries.rows():
        assert different == rows == found[task][part]
    assert not log.rows.filter(task="guard", split="tune").height
    for task in found:
        parts = [set(own["query"]) for _, own in log.rows.filter(task=task).group_by("split")]
        assert sum(map(len, parts)) == len(set().union(*parts))


# --- the answer


def test_the_same_seed_gives_the_same_rows_and_answer(
    tuned: Callable[..., RunLog], beir: str, tmp_path: Path
) -> None:
    one, two = tuned(beir), tuned(beir, "again", store=tmp_path / "other.db")
    assert one.rows.equals(two.rows)
    assert repr(decide(one)) == repr(decide(two))
    other = tuned(beir, "seed", seed=1)
    assert set(part_rows(one, "tune")["query"]) != set(part_rows(other, "tune")["query"])


def test_rows_and_header_alone_decide(
    tuned: Callable[..., RunLog], beir: str, tmp_path: Path, crafted: Callable[..., None]
) -> None:
    """In any order of the rows: that of arms decides between equal ones only, and here all differ."""
    crafted({GRID[0]: 0.1, GRID[1]: 0.2}, kept=0.2)
    log = tuned(beir)
    found = decide(log)
    assert found.tested
    assert repr(decide(read_log(tmp_path / "run"))) == repr(found)
    shuffled = decide_on(log.rows.sample(fraction=1, shuffle=True, seed=1), log.header)
    for part in ("answer", "chosen", "measured", "front", "lacking", "looked_at", "reported"):
        assert repr(getattr(shuffled, part)) == repr(getattr(found, part)), part
    assert [(one.name, one.gain) for one in shuffled.tested] == [(one.name, one.gain) for one in found.tested]


def test_use_writes_the_calibration_of_the_candidate(
    tuned: Callable[..., RunLog], tmp_path: Path, crafted: Callable[..., None], make_tiny: Make
) -> None:
    crafted({GRID[0]: 0.05, GRID[1]: 0.2})
    log = tuned(f"beir:{write_beir(tmp_path / 'asked', 200)}")
    found = decide(log)
    assert (found.answer, found.chosen) == ("use", GRID[1])
    wanted = PRESETS["tiles"].but(tile_size=8)
    assert Calibration.from_json((tmp_path / "run" / "calibration.json").read_text("utf-8")) == wanted
    model = make_tiny()
    text = words(30, 7)
    given, by_hand = (fairspan.calibrate(model, own).encode_document([text]) for own in (tmp_path / "run", wanted))
    np.testing.assert_array_equal(given, by_hand)
    assert not np.allclose(given, model.encode_document([text]))
    assert found.looked_at == GRID[1]
    assert [(one.name, one.task) for one in found.reported] == [(GRID[1], "asked"), ("chunk-mean", "asked")]
    assert found.reported[0].gain.estimate == pytest.approx(0.2, abs=0.04)


def test_doing_nothing_writes_the_plain_calibration(
    tuned: Callable[..., RunLog], tmp_path: Path, crafted: Callable[..., None]
) -> None:
    crafted({GRID[0]: -0.1, GRID[1]: -0.05})
    log = tuned(f"beir:{write_beir(tmp_path / 'asked', 200)}")
    found = decide(log)
    assert (found.answer, found.chosen, found.listed, found.looked_at) == ("do nothing", "none", (), None)
    assert Calibration.from_json((tmp_path / "run" / "calibration.json").read_text("utf-8")) == PRESETS["none"]
    assert not part_rows(log, "guard").height
    assert set(part_rows(log, "report")["treatment"]) == {"none"}


def test_few_clusters_are_inconclusive_whatever_is_gained(
    tuned: Callable[..., RunLog], beir: str, tmp_path: Path, crafted: Callable[..., None]
) -> None:
    crafted({GRID[1]: 0.2})
    found = decide(tuned(beir))
    assert (found.answer, found.chosen) == ("inconclusive", "none")
    assert [one.finding for one in found.tested] == ["use"]
    assert found.lacking == {"asked": 40}
    assert Calibration.from_json((tmp_path / "run" / "calibration.json").read_text("utf-8")) == PRESETS["none"]


def test_the_reference_is_measured_and_never_chosen(
    tuned: Callable[..., RunLog], beir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Searching.index_and_search

    def found(self: Searching, run: Run, treated: Any, plan: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
        rows, cost = search(self, run, treated, plan)
        return rows.with_columns(value=pl.lit(1.0 if plan.kind == "chunk-mean" else 0.5)), cost

    monkeypatch.setattr(Searching, "index_and_search", found)
    decision = decide(tuned(beir, chunk_tokens=8))
    assert decision.measured["chunk-mean"].quality == 1.0
    assert decision.listed == ()
    assert "chunk-mean" not in decision.front


# --- rounds, costs, groups


def test_sizes_of_rounds() -> None:
    assert round_sizes(12, 400) == [400]
    assert round_sizes(13, 400) == [100, 200, 400]
    assert round_sizes(13, 100) == [25, 50, 100]
    assert round_sizes(13, 50) == [25, 50]
    assert round_sizes(13, 49) == [49]


LARGE = [f"tempscale+temperature={0.3 + 0.05 * number:.2f}" for number in range(13)]


def test_a_large_grid_is_halved_on_growing_samples(
    tuned: Callable[..., RunLog], tmp_path: Path, crafted: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks, of which the smaller one has too few clusters for three rounds."""
    monkeypatch.setattr(prepare, "_FIRST_ROUND", 5)
    crafted({name: 0.01 * number for number, name in enumerate(LARGE)}, spread=0.0)
    tasks = [f"beir:{write_beir(tmp_path / name, count, seed=count)}" for name, count in (("one", 40), ("two", 20))]
    log = tuned(tasks, grid=LARGE)
    assert [task["rounds"] for task in log.header["tasks"]] == [[10, 20], [5, 10]]
    rows = part_rows(log, "tune").filter(part="whole")
    for task, sizes in (("one", [10, 20]), ("two", [5, 10])):
        kept = [rows.filter(task=task, round=number) for number in range(2)]
        assert [own["query"].n_unique() for own in kept] == sizes
        assert set(kept[0]["query"]) < set(kept[1]["query"])
        assert [own["treatment"].unique(maintain_order=True).to_list() for own in kept] == [
            ["none", *LARGE],
            ["none", *LARGE[6:]],
        ]
    found = decide(log)
    assert [found.measured[name].rounds_left for name in (LARGE[0], LARGE[12], "chunk-mean")] == [1, 0, 0]
    assert found.listed[0].name == LARGE[12]


def test_what_costs_too_much_is_left_out(
    tuned: Callable[..., RunLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crafted: Callable[..., None]
) -> None:
    crafted({GRID[0]: 0.1, GRID[1]: 0.3})
    # The third time is that of the chosen one, which is measured once more at the end.
    times = iter([1.1, 1.3, 1.1])
    monkeypatch.setattr(measuring, "relative_time", lambda *given, **others: next(times))
    log = tuned(f"beir:{write_beir(tmp_path / 'asked', 200)}", max_cost=1.2)
    assert log.header["times"] == {GRID[0]: 1.1, GRID[1]: 1.3}
    assert list(log.header["left_out"]) == [GRID[1]]
    assert decide(log).chosen == GRID[0]
    assert log.header["status"] == "complete"


def test_groups_by_length_are_fifths_and_equal_lengths_are_together(tuned: Callable[..., RunLog], beir: str) -> None:
    log = tuned(beir, fairness="length")
    rows = part_rows(log, "tune").filter(treatment="none", part="whole").sort("query")
    tokens = rows["tokens"].to_numpy()
    means = {length: (1 + np.flatnonzero(np.sort(tokens) == length)).mean() for length in np.unique(tokens)}
    fifth = np.array([np.ceil(means[length] / len(tokens) * 5) for length in tokens])
    numbers = np.searchsorted(np.unique(fifth), fifth) + 1
    wanted = make_sample({"none": rows["value"].to_numpy()}, numbers, rows["set"].to_numpy())
    (found,) = samples_of(log.rows, log.header, "tune").values()
    np.testing.assert_array_equal(found.sums["none"].counts, wanted.sums["none"].counts)
    np.testing.assert_array_equal(found.sums["none"].sums, wanted.sums["none"].sums)
    assert found.has_groups
    assert len({(length, group) for length, group in zip(tokens, numbers, strict=True)}) == len(means)


def test_groups_by_language_are_those_of_the_segment_that_answers(
    tuned: Callable[..., RunLog], tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path / "corpus", 48, ("en", "it"))
    options = {"size": 3, "sets": 12, "query": "first-sentence", "editions": 1, "min_tokens": 5}
    log = tuned("pages", corpus=str(corpus), languages=["en", "it"], mixed=["it:en"], fairness="language", **options)
    (sample,) = samples_of(log.rows, log.header, "tune").values()
    rows = part_rows(log, "tune").filter(treatment="none", part="whole")
    spoken = {"en": 0, "it": 0}
    for position, lead, later in rows.select("position", "lead", "later").rows():
        spoken[lead if position == 1 else later] += 1
    assert sample.sums["none"].counts.sum(0).astype(int).tolist() == [len(rows), spoken["en"], spoken["it"]]
    assert min(spoken.values()) > 0


def test_pages_are_grouped_by_position(tuned: Callable[..., RunLog], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", 36)
    log = tuned("pages", corpus=str(corpus), size=3, sets=12, query="first-sentence", editions=2, min_tokens=5)
    (sample,) = samples_of(log.rows, log.header, "tune").values()
    assert sample.sums["none"].counts.tolist() == [[6, 2, 2, 2]] * 6
    plain = part_rows(log, "tune").filter(treatment="none", part="whole")
    means = [plain.filter(position=place)["value"].mean() for place in (1, 2, 3)]
    assert decide(log).measured["none"].unfairness == pytest.approx(1 - min(means) / max(means))


def test_of_several_tasks_the_mean_counts(tuned: Callable[..., RunLog], beir: str, tmp_path: Path) -> None:
    log = tuned([beir, f"beir:{write_beir(tmp_path / 'other', 16, seed=9)}"])
    found = decide(log).measured
    for name in ("none", *GRID):
        rows = part_rows(log, "tune").filter(treatment=name, part="whole")
        means = rows.group_by("task", maintain_order=True).agg(pl.col("value").mean())["value"]
        assert found[name].quality == pytest.approx(means.mean())
        assert found[name].gain.estimate == pytest.approx(found[name].quality - found["none"].quality)


# --- models and tasks


def test_a_model_with_prompts(tuned: Callable[..., RunLog], beir: str, tmp_path: Path, make_tiny: Make) -> None:
    """As if the words of the prompts were part of every text, which scaled attention makes of them."""
    log = tuned(beir, prompt="w1 w2 ", query_prompt="w3 ", grid=GRID[:1])
    place = Path(beir.removeprefix("beir:"))
    written = tmp_path / "written"
    (written / "qrels").mkdir(parents=True)
    (written / "qrels" / "test.tsv").write_bytes((place / "qrels" / "test.tsv").read_bytes())
    for name, prompt in (("corpus", "w1 w2 "), ("queries", "w3 ")):
        rows = [json.loads(line) for line in (place / f"{name}.jsonl").read_text("utf-8").splitlines()]
        lines = [json.dumps({**row, "text": prompt + row["text"]}) + "\n" for row in rows]
        (written / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    by_hand = tuned(f"beir:{written}", "by hand", grid=GRID[:1])
    keys = ["split", "treatment", "part", "query"]
    one, two = (own.rows.filter(part="whole").sort(keys).select(*keys, "value", "tokens") for own in (log, by_hand))
    assert one.equals(two)


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Has mteb know a task whose data are in memory."""
    if find_spec("mteb") is None:
        pytest.skip("needs mteb: pip install 'fairspan[mteb]'")
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    with stand_in_if_missing():
        import mteb
    from datasets import Dataset

    def offer(documents: int = 40, subsets: Sequence[str] = ("default",), kind: str = "Retrieval") -> None:
        texts = [words(12, number) for number in range(documents)]
        corpus = [
            {"id": f"d{number}", "title": text[:3] if number else "", "text": text}
            for number, text in enumerate(texts)
        ]
        asked = [{"id": f"q{number}", "text": words(4, 500 + number)} for number in range(documents)]
        judged = {f"q{number}": {f"d{number}": 2, f"d{number + 1}": 0, "gone": 1} for number in range(documents - 1)}
        judged[f"q{documents - 1}"] = {"gone": 1}
        own = {"corpus": Dataset.from_list(corpus), "queries": Dataset.from_list(asked), "relevant_docs": judged}
        languages: Any = ["eng-Latn"] if len(subsets) == 1 else {name: [f"{name}-Latn"] for name in subsets}
        base = mteb.abstasks.AbsTaskRetrieval if kind == "Retrieval" else mteb.abstasks.AbsTaskSTS

        class Tiny(base):  # type: ignore[misc,valid-type]
            metadata = mteb.TaskMetadata(
                name="Tiny",
                description="A few random words.",
                type=kind,
                dataset={"path": "nowhere/tiny", "revision": "1"},
                eval_splits=["test"],
                eval_langs=languages,
                main_score="ndcg_at_10" if kind == "Retrieval" else "cosine_spearman",
            )

            def load_data(self, **kwargs: Any) -> None:
                self.dataset = {name: {"test": {**own, "top_ranked": None}} for name in subsets}
                self.data_loaded = True

        monkeypatch.setattr(mteb_reading, "find_task", lambda name, **given: Tiny())

    return offer


def test_a_task_of_mteb(tuned: Callable[..., RunLog], in_memory: Callable[..., None]) -> None:
    in_memory()
    task = mteb_reading.read_mteb("Tiny")
    assert [query.id for query in task.queries] == [f"q{number}" for number in range(39)]
    assert task.relevant["q5"] == {"d5": 2.0, "d6": 0.0}
    assert task.documents[0].text == words(12, 0)
    assert task.documents[5].text == f"{words(12, 5)[:3]} {words(12, 5)}"
    assert task.notes == ("1 queries that nothing answers were left out",)
    log = tuned("mteb:Tiny")
    assert [own["clusters"] for own in log.header["tasks"][0]["parts"].values()] == [21, 9, 9]
    assert decide(log).answer == "inconclusive"


def test_tasks_of_mteb_that_cannot_be_tuned_on(tuned: Callable[..., RunLog], in_memory: Callable[..., None]) -> None:
    in_memory(kind="STS")
    with pytest.raises(TaskError, match="Tiny"):
        tuned("mteb:Tiny")
    in_memory(subsets=("deu", "fra"))
    with pytest.raises(TaskError, match=r"Tiny has 2 subsets \(deu, fra"):
        tuned("mteb:Tiny")
    in_memory(documents=7)
    with pytest.raises(TaskError, match="Tiny cannot be divided: Tiny has 6 clusters"):
        tuned("mteb:Tiny")


def test_where_no_candidate_is_left_nothing_is_claimed(
    tuned: Callable[..., RunLog], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too slow, all of them: that says nothing about what they would gain."""
    monkeypatch.setattr(measuring, "relative_time", lambda *given, **others: 3.0)
    log = tuned(f"beir:{write_beir(tmp_path / 'asked', 200)}", max_cost=1.2)
    found = decide(log)
    assert (found.answer, found.chosen, found.chosen_from) == ("inconclusive", "none", 0)
    assert "no candidate was measured on all data that are tuned on (it takes 3.00 ×" in log.verdicts["sentence"][0]
