"""Search across languages, by a model whose preference is planted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import fairspan
from fairspan.errors import CorpusError, FairspanError
from fairspan.report.chart import HeatMap
from fairspan.retrieval.languages import combine_languages, rotate
from fairspan.retrieval.measured import MeasuredTask, Position
from fairspan.retrieval.task import Evidence, Passage, Query, RetrievalTask
from fairspan.runs.log import RunLog
from fairspan.studies.evaluate.depths import chance_of
from fairspan.studies.logs import changes, compare
from tests.test_corpus import write

ARTICLES, QUESTIONS = 16, 2


class Speaker:
    """Knows what every text is about and in which language it is: "de a03 …".

    Queries and documents agree by 1 if they are about the same. `prefers` adds 2 for documents in
    the language of the query ("own") or in that language, so that all of these come before any
    other.
    """

    def __init__(self, prefers: str = "", identity: str = "", most: int | None = None) -> None:
        self.prefers, self.asked, self.most = prefers, list[str](), most
        if identity:
            self.identity = identity

    def encode(self, sentences: list[str], /) -> np.ndarray:
        if self.most is not None and len(self.asked) >= self.most:
            raise RuntimeError("stopped")
        self.asked += sentences
        return np.array([self.one(sentence) for sentence in sentences])

    def one(self, sentence: str) -> list[float]:
        language, topic, *others = sentence.split()
        asks = others[0] == "question"
        spoken = self.prefers if asks and self.prefers not in ("", "own") else language
        weight = (2.0 if self.prefers else 0.0) if asks else 1.0
        topics = [float(topic == f"a{number:02}") for number in range(ARTICLES)]
        # The last number says how many words were read.
        return [
            *topics,
            *(weight * (spoken == one) for one in ("en", "de", "zh")),
            0.0 if asks else 0.01 * len(others),
        ]


def write_task(
    folder: Path, languages: Sequence[str] = ("en", "de"), articles: int = ARTICLES
) -> Path:
    """Questions in a folder, and the articles in a corpus inside it."""
    (folder / "documents").mkdir(parents=True)
    for language in languages:
        texts, questions = [], []
        for number in range(articles):
            name = f"a{number:02}"
            text = f"{language} {name} begins here answer{number} and then it ends"
            texts.append({"id": name, "text": text})
            for question in range(QUESTIONS):
                start = text.index(f"answer{number}")
                row = {"qid": f"q{number}-{question}", "article": name, "answer": f"answer{number}"}
                row |= {"question": f"{language} {name} question {question}"}
                row |= {"start_in_article": start, "start_in_paragraph": start}
                questions.append(row | {"paragraph_chars": len(text)})
        for place, rows in ((folder / "documents", texts), (folder, questions)):
            write(place / f"{language}.jsonl", rows)
    return folder


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "asked")


def measured(model: Any, task: Path, folder: Path, **options: Any) -> RunLog:
    settings: dict[str, Any] = {"languages": ["en", "de"], "treatments": ["plain"]}
    settings |= {"progress": False, **options}
    settings.setdefault("out", folder / "run")
    return fairspan.evaluate(model, str(task), store=folder / "store.sqlite", **settings)


def figure(
    log: RunLog, measure: str, query: str = "", document: str = "", column: str = "estimate"
) -> float:
    where = {"measure": measure, "query_language": query, "document_language": document}
    found = log.frame("languages").filter(**where)
    assert len(found) == 1
    return float(found[column][0])


def pairs(log: RunLog, metric: str = "ndcg@10") -> dict[tuple[str, str], float]:
    rows = log.frame("language_pairs").filter(metric=metric)
    found = rows.select("query_language", "document_language", "estimate").iter_rows()
    return {(query, document): estimate for query, document, estimate in found}


# The indexes.


@pytest.mark.parametrize(("articles", "count"), [(12, 4), (13, 4), (5, 2), (47, 4)])
def test_every_document_is_in_every_language_once(articles: int, count: int) -> None:
    names, languages = [f"a{n}" for n in range(articles)], ["en", "de", "zh", "hi"][:count]
    editions = rotate(names, languages, seed=3)
    assert len(editions) == count
    assert Counter(chain(*editions)) == Counter(product(names, languages))
    for edition in editions:
        assert [name for name, _ in edition] == names
        sizes = Counter(language for _, language in edition).values()
        assert max(sizes) - min(sizes) <= 1
    assert rotate(names, languages, seed=3) == editions != rotate(names, languages, seed=4)


def in_language(language: str, articles: Sequence[str], asked: dict[str, str]) -> MeasuredTask:
    queries = tuple(
        Query(name, f"{language} {name}", language, article) for name, article in asked.items()
    )
    documents = tuple(Passage(name, f"{language} {name} text", language) for name in articles)
    evidence = {name: Evidence(article, 0, 2) for name, article in asked.items()}
    relevant = {name: {article: 1.0} for name, article in asked.items()}
    task = RetrievalTask(
        f"t-{language}", queries, documents, relevant, evidence, notes=("the same", language)
    )
    lengths = {name: 10 + len(language) for name in articles}
    return MeasuredTask(
        task, lengths, dict.fromkeys(asked, 5), {name: Position(1, 5, 0) for name in asked}
    )


def test_what_a_language_lacks_is_left_out_of_all() -> None:
    english = in_language("en", ["a", "b", "c"], {"q1": "a", "q2": "b", "q3": "c", "q4": "a"})
    german = in_language("de", ["a", "b", "d"], {"q1": "a", "q2": "b"})
    *mixed, parallel = combine_languages([english, german], seed=0)
    assert [one.task.across for one in (*mixed, parallel)] == ["mixed", "mixed", "parallel"]
    for one in mixed:
        assert {query.id for query in one.task.queries} == {"q1/en", "q1/de", "q2/en", "q2/de"}
        assert {query.cluster for query in one.task.queries} == {"a", "b"}
        languages = {own.id.split("/")[0]: own.language for own in one.task.documents}
        assert sorted(languages.values()) == ["de", "en"]
        for query in one.task.queries:
            wanted = f"{query.cluster}/{languages[query.cluster]}"
            assert one.task.relevant[query.id] == {wanted: 1.0}
            assert one.task.evidence[query.id] == Evidence(wanted, 0, 2)
        assert all(document.id.endswith(document.language) for document in one.task.documents)
    assert [document.id for document in parallel.task.documents] == ["a/en", "a/de", "b/en", "b/de"]
    assert parallel.task.relevant["q1/de"] == {"a/en": 1.0, "a/de": 1.0}
    assert not parallel.task.evidence
    assert parallel.task.notes == (
        "en, de: the same",
        "en: en",
        "de: de",
        "2 of 4 questions are missing in some language and were left out of all",
        "2 of 4 documents are missing in some language and were left out of all",
    )


def test_translations_need_the_same_ids() -> None:
    english = in_language("en", ["a", "b"], {"q1": "a"})
    for german, said in (
        (in_language("de", ["x", "y"], {"q9": "x"}), "en, de have 0 questions and 0 .* too few to"),
        (in_language("de", ["a", "b"], {"q1": "b"}), "'q1' asks for 'a' and 'b' in different lan"),
    ):
        with pytest.raises(CorpusError, match=said):
            combine_languages([english, german], seed=0)
    german = in_language("de", ["a", "b"], {"q1": "a"})
    for measured in (english, german):
        measured.task.relevant["q1"]["b"] = 1.0  # type: ignore[index]
    with pytest.raises(CorpusError, match="'q1' has 2 relevant documents, and across languages it"):
        combine_languages([english, german], seed=0)


# What is found.


def test_a_model_that_prefers_the_language_of_the_query(task: Path, tmp_path: Path) -> None:
    """Of 16 documents 8 are in each language: one in another language comes ninth."""
    log = measured(Speaker("own"), task, tmp_path)
    ninth = 1 / math.log2(10)
    assert pairs(log) == pytest.approx(
        {("en", "en"): 1.0, ("en", "de"): ninth, ("de", "en"): ninth, ("de", "de"): 1.0}
    )
    assert pairs(log, "mrr")["de", "en"] == pytest.approx(1 / 9)
    assert figure(log, "ndcg@10 within") == pytest.approx(1.0)
    assert figure(log, "ndcg@10 across") == pytest.approx(ninth)
    assert figure(log, "mrr across") == pytest.approx(1 / 9)
    assert figure(log, "ndcg@10 gap") == pytest.approx(0.0)
    assert figure(log, "rank ratio") == pytest.approx(9.0)
    assert figure(log, "rank ratio", document="de") == pytest.approx(9.0)
    # Both languages are as far behind for the other's queries.
    assert figure(log, "rank ratio to en", document="de") == pytest.approx(1.0)
    # All 16 English documents come first for an English query, and so for a German one.
    assert figure(log, "share@10", "en", "en") == figure(log, "share@10", "de", "de") == 1.0
    assert figure(log, "share@10", document="en") == pytest.approx(0.5)
    assert figure(log, "share distance") == pytest.approx(0.5)
    assert figure(log, "PEER") < 1e-4
    assert log.header.searched.languages == ["en", "de"]
    assert (log.header.searched.queries, log.header.searched.documents) == (64, 32)
    assert log.header.searched.positions is None


def test_a_model_that_prefers_english(task: Path, tmp_path: Path) -> None:
    log = measured(Speaker("en"), task, tmp_path)
    ninth = 1 / math.log2(10)
    assert pairs(log) == pytest.approx(
        {("en", "en"): 1.0, ("en", "de"): ninth, ("de", "en"): 1.0, ("de", "de"): ninth}
    )
    assert figure(log, "ndcg@10", document="de") == pytest.approx(ninth)
    assert figure(log, "ndcg@10 gap") == pytest.approx(1 - ninth)
    assert figure(log, "ndcg@10 weakest") == pytest.approx(ninth)
    assert figure(log, "rank ratio", document="de") == pytest.approx(9.0)
    assert figure(log, "rank ratio", document="en") == pytest.approx(1 / 9)
    assert figure(log, "rank ratio") == pytest.approx(1.0)
    assert figure(log, "rank ratio to en", document="de") == pytest.approx(9.0)
    assert figure(log, "share@10", document="en") == 1.0
    assert figure(log, "share distance") == pytest.approx(0.5)
    # The 15 other articles: English ones have ranks 2 to 16, German ones 18 to 32, so H is 29 ·
    # between / all.
    ranks = np.array([*range(2, 17), *range(18, 33)])
    between = 15 * 2 * (16.0 / 2) ** 2
    h = 29 * between / ((ranks - ranks.mean()) ** 2).sum()
    assert figure(log, "PEER") == pytest.approx(math.erfc(math.sqrt(h / 2)), rel=1e-9)


def test_chance_is_what_a_random_model_has(task: Path, tmp_path: Path) -> None:
    """Each of two mixed indexes has the 16 articles in one language: 10 of 16 are found by chance.

    192 answers in three runs have a standard error of √(.625 · .375 / 192) = 0.035: three of them.
    """
    values = []
    for seed in range(3):
        speaker = Speaker()
        rng = np.random.default_rng(seed)
        speaker.encode = lambda texts, rng=rng: rng.normal(size=(len(texts), 8))  # type: ignore
        log = measured(speaker, task, tmp_path / str(seed), metrics=["recall@10"])
        values += log.rows.filter(measure="recall@10")["value"].to_list()
    chance = chance_of(log.header.searched, "recall@10")
    assert chance == 10 / 16
    assert np.mean(values) == pytest.approx(chance, abs=0.105)


def test_a_stopped_run_goes_on(task: Path, tmp_path: Path) -> None:
    with pytest.raises(FairspanError):
        measured(Speaker("en", "speaker", most=65), task, tmp_path)
    model = Speaker("en", "speaker")
    log = measured(model, task, tmp_path)
    assert not any(" question " in text for text in model.asked), "the queries were there"
    whole = measured(Speaker("en"), task, tmp_path / "other", out=tmp_path / "whole")
    drop = ["run", "model"]
    assert log.rows.drop(drop).equals(whole.rows.drop(drop))
    again = Speaker("en", "speaker")
    assert measured(again, task, tmp_path).rows.equals(log.rows)
    assert again.asked == []


def test_rows_say_both_languages(task: Path, tmp_path: Path) -> None:
    log = measured(Speaker("own"), task, tmp_path, metrics=["mrr"])
    rows = log.rows.filter(measure="mrr")
    assert len(rows) == 2 * 64
    row = rows.filter(query="q3-1/de", document_language="en").to_dicts()
    told = [(one["segment"], one["language"], one["document"]) for one in row]
    assert told == [("q3-1", "de", "a03/en")]
    assert row[0]["value"] == pytest.approx(1 / 9)
    assert row[0]["position"] is not None
    assert sorted(log.rows["measure"].unique()) == ["PEER", "mrr", "rank", "share@10"]


# Two treatments.


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    """A treatment that changes every document a little: the means of chunks of 30 characters."""
    folder = tmp_path_factory.mktemp("both")
    task = write_task(folder / "asked", ("en", "de", "zh"))

    class Mild(Speaker):
        def one(self, sentence: str) -> list[float]:
            words = sentence.split()
            known = len(words) > 1 and words[1][1:].isdigit()
            other = [0.1] * ARTICLES + [0.0, 0.3, 0.0, 0.02 * len(words)]
            return super().one(sentence) if known else other

    how = {"languages": ["en", "de", "zh"], "treatments": ["plain", "chunk-mean-30"]}
    return measured(Mild("own"), task, folder, **how)


def means_of(rows: pl.DataFrame) -> dict[str, float]:
    return dict(rows.group_by("treatment").agg(pl.col("value").mean()).iter_rows())


def test_changes_are_paired(both: RunLog) -> None:
    frame = both.frame("language_pairs").filter(treatment="chunk-mean-30", metric="ndcg@10")
    rows = both.rows.filter(measure="ndcg@10")
    for one in frame.iter_rows(named=True):
        where = {"language": one["query_language"], "document_language": one["document_language"]}
        by_hand = means_of(rows.filter(**where))
        assert one["estimate"] == pytest.approx(by_hand["chunk-mean-30"])
        assert one["change_estimate"] == pytest.approx(by_hand["chunk-mean-30"] - by_hand["plain"])
    advice = both.verdicts.to_dicts()[0]
    assert "weakest languages (query " in advice["sentence"]
    figures = both.frame("languages").filter(
        treatment="chunk-mean-30", query_language="", document_language=""
    )
    assert figures["p_value"].is_between(0, 1).all()
    ratios = both.frame("languages").filter(measure="rank ratio", document_language="")
    after = ratios.filter(treatment="chunk-mean-30")["estimate"][0]
    before = ratios.filter(treatment="plain")["estimate"][0]
    change = figures.filter(measure="rank ratio")["change_estimate"][0]
    assert change == pytest.approx(after / before)
    means = means_of(both.rows.filter(measure="PEER"))
    assert figures.filter(measure="PEER")["change_estimate"][0] == pytest.approx(
        means["chunk-mean-30"] - means["plain"]
    )


def test_what_is_shown(both: RunLog) -> None:
    view = both.view
    heat = both.view.chart()
    assert isinstance(heat, HeatMap)
    assert (heat.name, heat.columns) == ("languages", ("en", "de", "zh"))
    assert heat.entries == ("plain", "chunk-mean-30")
    values = {
        (query, document): cell.values
        for query, cells in heat.rows
        for document, cell in zip(heat.columns, cells, strict=True)
        if cell
    }
    found = both.frame("language_pairs").filter(metric="ndcg@10")
    for (query, document), (before, after) in values.items():
        own = found.filter(query_language=query, document_language=document)
        assert own["estimate"].to_list() == [before, after]
    names = {table.name for table in view.tables()}
    assert {"language-fairness", "document-languages", "language-pairs"} <= names
    assert not {"positions"} & set(view.frames)
    assert view.frames["quality"]["psi_estimate"].is_finite().all()


def test_runs_are_compared_by_languages(both: RunLog) -> None:
    tables = {table.name: table for table in compare(both)}
    assert list(tables) == ["search-changes", "search-changes-by-languages"]
    assert "PEER" in tables["search-changes"].frame["metric"].to_list()
    by_pair = tables["search-changes-by-languages"].frame.filter(metric="ndcg@10")
    assert by_pair["languages"].to_list()[1] == "query en, document de"
    assert [one.measure for one in changes(both)] == ["ndcg@10"]


# Mistakes.


def test_one_language_and_several_do_not_go_together(task: Path, tmp_path: Path) -> None:
    said = "language is for a collection, a task of mteb: omit it"
    with pytest.raises(CorpusError, match=said):
        measured(Speaker(), task, tmp_path, language="en")


@pytest.mark.slow
def test_a_real_model_on_real_questions(shared: Path, tmp_path: Path) -> None:
    """Every language is easiest to find in itself, and a document in another one comes later."""
    if not (shared / "models" / "multilingual-24m").is_dir():
        pytest.skip("needs ../shared/models/multilingual-24m")
    questions = shared / "retrieval" / "xquad_positions"
    small = tmp_path / "asked"
    small.mkdir()
    (small / "documents").symlink_to(shared / "corpora" / "xquad")
    for language in ("en", "hi"):
        file = questions / f"{language}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        (small / f"{language}.jsonl").write_text("".join(lines[::10]), encoding="utf-8")
    model = str(shared / "models" / "multilingual-24m")
    log = measured(model, small, tmp_path, languages=["en", "hi"])
    found = pairs(log)
    assert found["hi", "hi"] > found["hi", "en"]
    assert figure(log, "rank ratio") > 1
    assert figure(log, "PEER") < 0.2
    assert log.frame("quality")["queries"][0] == 4 * log.rows["segment"].n_unique()
