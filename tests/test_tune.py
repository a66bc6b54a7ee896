"""A tuning on tiny models: parts that decide and parts that only report, the answers, and what is written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.errors import CorpusError, FairspanError
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.runs.searching import Searching
from fairspan.runs.study import Run
from fairspan.stats.choice import make_sample
from fairspan.studies.logs import read_log
from fairspan.studies.tune import run as tune_run
from fairspan.studies.tune.options import CANDIDATES, TuneOptions
from fairspan.studies.tune.summary import decide, samples_of
from fairspan.studies.tune.view import view_of
from tests.tiny import words

Tuned = Callable[..., RunLog]
MILD, TILES = "tempscale+temperature=0.5", "tiles+tile_size=8"
QUERY, AT_FRONT = 4, 3


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidate is timed."""
    monkeypatch.setattr(tune_run, "relative_time", lambda *given, **others: 1.0)


def write_beir(folder: Path, documents: int, seed: int = 0) -> Path:
    """Every document is asked for once, by four of its words: every third time the first ones, or else the last."""
    (folder / "qrels").mkdir(parents=True)
    texts = [words(16 + number % 5, 1000 * seed + number).split() for number in range(documents)]
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
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`few` has 40 documents; `many` has 200, so that the guard part has the 50 clusters that a decision needs."""
    place = tmp_path_factory.mktemp("place")
    for name, count, seed in (("few", 40, 0), ("many", 200, 1), ("guard", 24, 5)):
        write_beir(place / name, count, seed)
    return place


@pytest.fixture
def tuned(make_tiny: Callable[..., SentenceTransformer], tmp_path: Path) -> Tuned:
    def call(tasks: Path | str | Sequence[str], folder: str = "run", **asked: Any) -> RunLog:
        given = {"candidates": [MILD, TILES], "progress": False, "store": tmp_path / "vectors.db", **asked}
        named = str(tasks) if isinstance(tasks, Path) else tasks
        return fairspan.tune(make_tiny(), named, out=tmp_path / folder, **given)

    return call


@contextmanager
def crafted(gains: Mapping[str, float], spread: float = 0.4, kept: float = 0.0) -> Iterator[None]:
    """What searches find, replaced: every arm gets 0.3, and some get more; a share of what was found is kept."""
    search = Searching.index_and_search

    def found(self: Searching, run: Run, treated: Any, plan: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
        rows, cost = search(self, run, treated, plan)
        gain = gains.get(treated.treatment.name if plan.kind == "whole" else plan.kind, 0.0)
        where = pl.col("query").hash(3) % 100 / 100
        value = 0.3 + kept * pl.col("value") + gain + spread * gain * (where - 0.5)
        return rows.with_columns(value=value), cost

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Searching, "index_and_search", found)
        yield


def part_rows(log: RunLog, *parts: str) -> pl.DataFrame:
    return log.rows.filter(pl.col("split").is_in(parts))


def calibration_of(log: RunLog) -> Calibration:
    return Calibration.from_json((log.folder / "calibration.json").read_text("utf-8"))


# --- the parts


def test_the_report_part_decides_nothing(tuned: Tuned, place: Path) -> None:
    """A leak would be caught: with other values there, only the reported figures change. The guard part decides."""
    with crafted({MILD: 0.1, TILES: 0.2}, kept=0.2):
        log = tuned(place / "many")
    found, frames = decide(log.rows, log.header), view_of(log).frames
    assert found.answer == "use"
    for part, same in (("report", True), ("guard", False)):
        lost = pl.when((pl.col("split") == part) & (pl.col("treatment") == TILES)).then(0.0).otherwise("value")
        other = replace(log, rows=log.rows.with_columns(value=lost))
        assert (repr(decide(other.rows, log.header)) == repr(found)) == same
        assert not view_of(other).frames["report"].equals(frames["report"]) or not same
        assert view_of(other).frames["candidates"].drop("outcome").equals(frames["candidates"].drop("outcome"))


def test_nothing_of_the_report_part_is_embedded_before_the_guard_is_done(
    tuned: Tuned, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, seen, fill = [], list[tuple[bool, bool]](), Run.fill

    def spy(self: Run, encoder: Any, texts: Any) -> None:
        given = list(texts)
        if not prepared:
            prepared.extend(
                text.text
                for task in self.prepared.divided  # type: ignore[attr-defined]
                for text in (*task.plan("report").flat, *task.parts["report"].queries())
            )
        begun = bool(self.header["rows"]) and "guard" in self.writer.rows["split"]
        seen.append((begun, any(text.text in prepared for text in given)))
        fill(self, encoder, given)

    monkeypatch.setattr(Run, "fill", spy)
    with crafted({TILES: 0.2}):
        log = tuned(place / "few", guards=[str(place / "guard")])
    reported = [of_report for _, of_report in seen]
    assert reported == sorted(reported)
    assert {of_report for begun, of_report in seen if not begun} == {False}
    assert log.rows["split"].unique(maintain_order=True).to_list() == ["tune", "guard", "report"]
    found = {
        task["name"]: {part: own["clusters"] for part, own in task["parts"].items()} for task in log.header["tasks"]
    }
    assert found == {"few": {"tune": 20, "guard": 10, "report": 10}, "guard": {"guard": 18, "report": 6}}
    counted = log.rows.filter(treatment="plain", part="whole").group_by("task", "split")
    for task, part, different, rows in counted.agg(pl.col("query").n_unique(), pl.len()).rows():
        assert different == rows == found[task][part]
    for task in found:
        parts = [set(own["query"]) for _, own in log.rows.filter(task=task).group_by("split")]
        assert sum(map(len, parts)) == len(set().union(*parts))


# --- the answer


@pytest.mark.slow
def test_rows_and_header_alone_decide(tuned: Tuned, place: Path, tmp_path: Path) -> None:
    """In any order of the rows, and with vectors that were computed again."""
    with crafted({MILD: 0.1, TILES: 0.2}, kept=0.2):
        log = tuned(place / "few")
        again = tuned(place / "few", "again", store=tmp_path / "other.db")
        other = tuned(place / "few", "seed", seed=1)
    assert log.rows.equals(again.rows)
    found = decide(log.rows, log.header)
    assert found.tested
    assert repr(decide(read_log(log.folder).rows, log.header)) == repr(found)
    assert repr(decide(log.rows.sample(fraction=1, shuffle=True, seed=1), log.header)) == repr(found)
    assert set(part_rows(log, "tune")["query"]) != set(part_rows(other, "tune")["query"])


def test_use_writes_the_calibration_of_the_candidate(
    tuned: Tuned, place: Path, make_tiny: Callable[..., SentenceTransformer]
) -> None:
    with crafted({MILD: 0.05, TILES: 0.2}):
        log = tuned(place / "many")
    assert log.verdicts.select("treatment", "verdict").rows() == [(TILES, "use")]
    wanted = PRESETS["tiles"].but(tile_size=8)
    assert calibration_of(log) == wanted
    model, text = make_tiny(), words(30, 7)
    given, by_hand = (fairspan.calibrate(model, own).encode_document([text]) for own in (log.folder, wanted))
    np.testing.assert_array_equal(given, by_hand)
    report = log.frame("report")
    assert report["treatment"].to_list() == ["plain", TILES, "chunk-mean"]
    assert report["change_estimate"][1] == pytest.approx(0.2, abs=0.04)
    before, after = report["quality"][:2]
    sentence = log.verdicts["sentence"][0]
    assert sentence.startswith(f"Use tiles of 8 tokens at temperature 0.8: ndcg@10 {before:.3f} → {after:.3f} (+0.")
    assert sentence.endswith("; embedding takes 1.00 × the time.")


@pytest.mark.slow
def test_keeping_writes_the_plain_calibration(tuned: Tuned, place: Path) -> None:
    """Also if averaged chunks, which are measured beside the candidates and never chosen, are the best."""
    with crafted({MILD: -0.1, TILES: -0.05, "chunk-mean": 0.5}):
        log = tuned(place / "many", chunk_tokens=8)
    assert log.verdicts.select("treatment", "verdict").rows() == [("plain", "keep")]
    assert calibration_of(log) == PRESETS["plain"]
    assert not part_rows(log, "guard").height
    assert set(part_rows(log, "report")["treatment"]) == {"plain"}
    assert log.frame("candidates")["treatment"].to_list() == ["plain", TILES, MILD, "chunk-mean"]
    assert log.frame("candidates")["change_estimate"][3] == pytest.approx(0.5, abs=0.1)


def test_a_guard_that_loses_keeps_the_plain_model(tuned: Tuned, place: Path, tmp_path: Path) -> None:
    """The same gain everywhere but on the guard's documents, where the candidate loses."""
    guard = write_beir(tmp_path / "other", 80, 7)
    with crafted({TILES: 0.2}):
        log = tuned(place / "many", guards=str(guard))
        lost = (pl.col("task") == "other") & (pl.col("treatment") == TILES)
        rows = log.rows.with_columns(value=pl.when(lost).then(pl.col("value") - 0.4).otherwise("value"))
    assert decide(log.rows, log.header).answer == "use"
    worse = view_of(replace(log, rows=rows)).frames
    assert worse["verdicts"]["verdict"][0] == "keep"
    assert "tiles of 8 tokens at temperature 0.8 loses ndcg@10 on other (" in worse["verdicts"]["sentence"][0]


def test_no_more_is_counted_than_was_announced(tuned: Tuned, place: Path) -> None:
    """Both candidates gain on what is tuned on and lose after it: how many would be tested was not known before."""
    counts, gains = list[list[int]](), {MILD: 0.1, TILES: 0.2}

    class Counted(Silent):
        def start(self, total: int) -> None:
            gains.update(dict.fromkeys(gains, -0.1) if counts else {})
            counts.append([total, 0])

        def advance(self, amount: int) -> None:
            counts[-1][1] += amount

    with crafted(gains):
        log = tuned(place / "many", progress=Counted())
    assert part_rows(log, "guard")["treatment"].n_unique() == 3, "the premise"
    assert [done for _, done in counts] == [total for total, _ in counts]


@pytest.mark.slow
def test_few_clusters_are_inconclusive_whatever_is_gained(tuned: Tuned, place: Path) -> None:
    with crafted({TILES: 0.2}):
        log = tuned(place / "few")
    found = decide(log.rows, log.header)
    assert (found.answer, found.chosen, found.lacking) == ("inconclusive", "plain", {"few": 40})
    assert len(found.tested) == 1
    assert log.verdicts["more_clusters"][0] == 160
    assert "about 160 more documents with their queries in few would decide" in log.verdicts["sentence"][0]
    assert calibration_of(log) == PRESETS["plain"]


# --- groups and tasks


@pytest.mark.slow
def test_groups_by_length_are_fifths_and_equal_lengths_are_together(tuned: Tuned, place: Path) -> None:
    log = tuned(place / "few", fairness="length")
    rows = part_rows(log, "tune").filter(treatment="plain", part="whole").sort("query")
    tokens = rows["tokens"].to_numpy()
    means = {length: (1 + np.flatnonzero(np.sort(tokens) == length)).mean() for length in np.unique(tokens)}
    fifth = np.array([np.ceil(means[length] / len(tokens) * 5) for length in tokens])
    numbers = np.searchsorted(np.unique(fifth), fifth) + 1
    wanted = make_sample({"plain": rows["value"].to_numpy()}, numbers, rows["set"].to_numpy())
    (found,) = samples_of(log.rows, log.header, "tune").values()
    np.testing.assert_array_equal(found.sums["plain"].counts, wanted.sums["plain"].counts)
    np.testing.assert_array_equal(found.sums["plain"].sums, wanted.sums["plain"].sums)
    assert len({(length, group) for length, group in zip(tokens, numbers, strict=True)}) == len(means)


def test_groups_by_language_are_those_of_the_segment_that_answers(tuned: Tuned, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", 48, ("en", "it"))
    options = {"size": 3, "sets": 12, "query": "first-sentence", "editions": 1, "min_tokens": 5}
    log = tuned("pages", corpus=str(corpus), languages=["en", "it"], mixed=["it:en"], fairness="language", **options)
    (sample,) = samples_of(log.rows, log.header, "tune").values()
    rows = part_rows(log, "tune").filter(treatment="plain", part="whole")
    spoken = {"en": 0, "it": 0}
    for position, lead, later in rows.select("position", "lead", "later").rows():
        spoken[lead if position == 1 else later] += 1
    assert sample.sums["plain"].counts.sum(0).astype(int).tolist() == [len(rows), spoken["en"], spoken["it"]]
    assert min(spoken.values()) > 0


def test_pages_are_grouped_by_position(tuned: Tuned, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus", 36)
    log = tuned("pages", corpus=str(corpus), size=3, sets=12, query="first-sentence", editions=2, min_tokens=5)
    (sample,) = samples_of(log.rows, log.header, "tune").values()
    assert sample.sums["plain"].counts.tolist() == [[6, 2, 2, 2]] * 6
    plain = part_rows(log, "tune").filter(treatment="plain", part="whole")
    means = [plain.filter(position=place)["value"].mean() for place in (1, 2, 3)]
    assert log.frame("candidates")["psi"][0] == pytest.approx(1 - min(means) / max(means))


@pytest.mark.slow
def test_a_model_with_prompts(tuned: Tuned, place: Path, tmp_path: Path) -> None:
    """As if the words of the prompts were part of every text, which scaled attention makes of them."""
    log = tuned(place / "few", prompt="w1 w2 ", query_prompt="w3 ", candidates=[MILD])
    written = tmp_path / "written"
    (written / "qrels").mkdir(parents=True)
    (written / "qrels" / "test.tsv").write_bytes((place / "few" / "qrels" / "test.tsv").read_bytes())
    for name, prompt in (("corpus", "w1 w2 "), ("queries", "w3 ")):
        rows = [json.loads(line) for line in (place / "few" / f"{name}.jsonl").read_text("utf-8").splitlines()]
        lines = [json.dumps({**row, "text": prompt + row["text"]}) + "\n" for row in rows]
        (written / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    by_hand = tuned(written, "by hand", candidates=[MILD])
    keys = ["split", "treatment", "part", "query"]
    one, two = (own.rows.filter(part="whole").sort(keys).select(*keys, "value", "tokens") for own in (log, by_hand))
    assert one.equals(two)


# --- options


def test_candidates_are_a_list_of_treatments() -> None:
    """Names, calibrations and tables; the default ones are different and short to write."""
    given = [MILD, PRESETS["paper"], {"name": "mine", "tile_size": 48}]
    measured = TuneOptions(candidates=given).measured
    assert [one.name for one in measured][::3] == ["plain", "mine"]
    assert measured[1].calibration == as_treatment(MILD).calibration
    assert [one.name for one in TuneOptions().measured] == ["plain", *CANDIDATES]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidates": []}, "name at least one treatment"),
        ({"candidates": "tiles"}, "candidates must be a list"),
        ({"candidates": ["tile"]}, "there is no treatment 'tile'"),
        ({"candidates": ["none"]}, "'plain' is what candidates are compared with"),
        ({"candidates": [{"name": "chunk-mean", "preset": "tiles"}]}, "is what candidates are compared with"),
        ({"candidates": ["tiles", "tiles+tile_size=64"]}, "are the same calibration: omit one"),
        ({"candidates": ["tiles", "tiles"]}, "is named twice"),
        ({"candidates": ["whitening"]}, "cannot be written to calibration.json"),
        ({"candidates": ["tiles+tiles=segments"]}, "cannot be written to calibration.json"),
        ({"candidates": ["tiles+correction=lir"]}, "cannot be written to calibration.json"),
        ({"tasks": [""]}, "a task is 'pages', 'passages'"),
        ({"tasks": "pages:a", "corpus": "b"}, "corpus would do nothing for pages:a: omit it"),
        ({"tasks": "passages", "size": 3}, "size would do nothing for passages"),
        ({"tasks": "beir:a", "sets": 20}, "sets would do nothing for beir:a"),
        ({"guards": "pages"}, "pages is named twice: tasks and guards need documents of their own"),
    ],
)
def test_a_mistake_in_the_options_is_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FairspanError) as caught:
        TuneOptions(**changes)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_go_to_the_tasks_that_take_them() -> None:
    options = TuneOptions(tasks=["pages", "passages:other"], guards=["beir:a"], corpus="mine", size=3, split="dev")
    pages, passages, guard = options.searched
    assert (pages.corpus, pages.size, pages.sets, pages.split) == ("mine", 3, 220, "test")
    assert (passages.corpus, passages.size, passages.sets) == ("other", 4, 220)
    assert (guard.split, guard.sets) == ("dev", 100)


def test_tasks_that_share_documents_are_refused(tuned: Tuned, place: Path) -> None:
    with pytest.raises(CorpusError, match="share 40 documents, so that one would be judged by data"):
        tuned(place / "few", guards=[f"beir:{place / 'few'}"])
