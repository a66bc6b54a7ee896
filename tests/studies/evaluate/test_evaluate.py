"""An evaluation, recomputed by hand from its model: rankings, metrics, rows, costs and notes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.encoding.parts import PartRule, part_spans
from fairspan.encoding.tokens import ModelTokens
from fairspan.errors import CorpusError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.retrieval.metrics import parse_metric
from fairspan.runs.header import FORMAT
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.run import STUDY
from fairspan.studies.logs import read_log
from tests.builders.commands import files_in, header_of
from tests.builders.saying import said_by
from tests.builders.searches import write_beir
from tests.builders.tiny import tiny_model, words
from tests.builders.verbs import Recorder, article, write_articles
from tests.retrieval.test_keywords import bm25

Make = Callable[..., SentenceTransformer]
Evaluate = Callable[..., RunLog]
Embed = Callable[[str], np.ndarray]
Scores = Mapping[str, float]

METRICS = ("ndcg@10", "ndcg@3", "mrr", "recall@1", "recall@3")
B8 = "paper+basket_size=8"
WINDOW = 22
T8 = "tiles-8+short_texts=leave"
# Float32 sums in padded batches are split otherwise than for a text alone: some dozens of roundings
# (6e-8 each) through four layers. Documents whose scores are as near as that may change places.
BY_PADDING = 1e-5


# A collection, small enough to be searched by hand. One token a word.


@dataclass(frozen=True)
class Collection:
    """What is searched, and for each query the gains of the documents that answer it."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, float]]

    def write(self, folder: Path) -> str:
        documents, queries = (
            [{"id": id, "text": text} for id, text in texts.items()]
            for texts in (self.documents, self.queries)
        )
        return write_beir(folder, documents, queries, self.relevant)

    def longer(self, window: int) -> int:
        """How many documents have more tokens than this, two special ones included."""
        return sum(len(text.split()) > window - 2 for text in self.documents.values())


@pytest.fixture(scope="session")
def graded() -> Collection:
    """Documents of 8 to 50 words, two of which are the same; one to three of them answer a query,
    with gains of 1 to 3, and one is judged as no answer."""
    documents = {f"d{n:02}": words(8 + 3 * n, seed=n) for n in range(14)}
    documents["d14"] = documents["d13"]
    queries = {f"q{n}": words(6 + n % 3, 500 + n) for n in range(9)}
    relevant = {
        f"q{n}": {f"d{n:02}": 1.0 + n % 3, f"d{n + 4:02}": 1.0, "d13": 0.0} for n in range(9)
    }
    for n in (0, 4, 8):
        relevant[f"q{n}"]["d14"] = 2.0
    return Collection(documents, queries, relevant)


@pytest.fixture(scope="session")
def beir(graded: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    return graded.write(tmp_path_factory.mktemp("beir") / "tiny")


@pytest.fixture
def evaluate(beir: str, tmp_path: Path) -> Evaluate:
    """An evaluation with everything it writes in tmp_path."""
    settings: dict[str, Any] = {"treatments": ["plain"], "metrics": METRICS, "progress": False}
    settings |= {"store": tmp_path / "store", "out": tmp_path / "run"}
    return lambda model, task=beir, **options: fairspan.evaluate(
        model, task, **{**settings, **options}
    )


# Search by hand.


def unit(vector: Any) -> np.ndarray:
    vector = np.asarray(vector, dtype=np.float64)
    return vector / math.sqrt(float(vector @ vector))


def each_alone(encode: Callable[..., Any]) -> Embed:
    """Each text alone at length 1, each once."""
    return cache(lambda text: unit(encode(text)))


def ranking(scores: Scores) -> list[str]:
    """Ids by their score, of equal scores the later id first."""
    return sorted(scores, key=lambda id: (round(scores[id], 9), id), reverse=True)


def rankings_of(
    collection: Collection, asked: Embed, read: Embed | Callable[[str], Sequence[np.ndarray]]
) -> dict[str, list[str]]:
    """By query, the documents by the best inner product of their vector, or of one of several;
    without queries whose documents rounding might put in another order."""
    vectors = {id: np.atleast_2d(read(text)) for id, text in collection.documents.items()}
    rankings = {}
    for id, text in collection.queries.items():
        query = asked(text)
        scores = {name: float((several @ query).max()) for name, several in vectors.items()}
        if np.diff(sorted(set(scores.values()))).min() > BY_PADDING:
            rankings[id] = ranking(scores)
    assert len(rankings) >= len(collection.queries) - 2
    return rankings


def by_keywords(collection: Collection) -> dict[str, list[str]]:
    """Only of documents with a word of the query."""
    names, texts = list(collection.documents), list(collection.documents.values())
    rankings = {}
    for id, text in collection.queries.items():
        scores = zip(names, bm25(text, texts).tolist(), strict=True)
        rankings[id] = ranking({name: score for name, score in scores if score > 0})
    return rankings


def fused(*rankings: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """By the sum of 1/(60 + rank)."""
    combined = {}
    for id in rankings[0].keys() & rankings[1].keys():
        scores = Counter[str]()
        for one in rankings:
            scores.update({name: 1 / (60 + rank) for rank, name in enumerate(one[id], start=1)})  # type: ignore[dict-item]
        combined[id] = ranking(scores)
    return combined


def worth(metric: str, ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    """What test_metrics compares with a tiny ranking by hand and with ranx."""
    found = np.array([[max(gains.get(id, 0.0), 0.0) for id in ranking]])
    return float(parse_metric(metric)(found, [[gain for gain in gains.values() if gain > 0]])[0])


def values(rows: pl.DataFrame, treatment: str, index: str, metric: str) -> dict[str, float]:
    own = rows.filter(treatment=treatment, index=index, measure=metric)
    found = dict(own.select("query", "value").rows())
    assert len(found) == len(own), "no row is there twice"
    return found


def assert_values(
    log: RunLog,
    treatment: str,
    index: str,
    collection: Collection,
    rankings: Mapping[str, list[str]],
) -> None:
    """Every metric of every query; of whole documents the rank of everything that answers one."""
    for metric in log.spec["metrics"]:
        told = values(log.rows, treatment, index, metric)
        assert told.keys() == collection.queries.keys()
        expected = {id: worth(metric, rankings[id], collection.relevant[id]) for id in rankings}
        assert {id: told[id] for id in rankings} == pytest.approx(expected, abs=1e-12)
    rows = log.rows.filter(treatment=treatment, index=index, measure="rank")
    ranks = {(query, name): rank for query, name, rank in rows["query", "document", "value"].rows()}
    assert {key: rank for key, rank in ranks.items() if key[0] in rankings} == {
        (id, name): 1.0 + rankings[id].index(name)
        for id in rankings
        for name, gain in collection.relevant[id].items()
        if gain > 0 and index == "whole"
    }


def narrow(model: SentenceTransformer, window: int = WINDOW) -> SentenceTransformer:
    copied = copy_sharing_weights(model)
    copied.max_seq_length = window
    return copied


def test_every_row_by_hand(make_tiny: Make, graded: Collection, evaluate: Evaluate) -> None:
    """Two treatments on each side, of a model that cuts half of the documents: whole documents, one
    vector per chunk, keywords, and both rankings fused. test_audit has other kinds of model."""
    plain = narrow(make_tiny("qwen3", "lasttoken", padding_side="left"))
    fair = fairspan.calibrate(plain, basket_size=8)
    sides = {"plain": (plain, plain), B8: (fair, fair), f"{B8}+sides=document": (plain, fair)}
    log = evaluate(plain, treatments=[*sides])
    arms = {("plain", "parts-all"), ("keywords", "keywords")}
    arms |= {(name, index) for name in sides for index in ("whole", "fused")}
    assert set(log.rows.select("treatment", "index").rows()) == arms
    queries = {model: each_alone(model.encode_query) for model in (plain, fair)}
    documents = {model: each_alone(model.encode_document) for model in (plain, fair)}
    keywords = by_keywords(graded)
    assert_values(log, "keywords", "keywords", graded, keywords)
    for name, (asking, reading) in sides.items():
        whole = rankings_of(graded, queries[asking], documents[reading])
        assert_values(log, name, "whole", graded, whole)
        assert_values(log, name, "fused", graded, fused(whole, keywords))
    seen = {tuple(values(log.rows, name, "whole", "ndcg@10").values()) for name in sides}
    assert len(seen) == 3, "the treatments can be told apart"

    counter = ModelTokens(plain)

    def chunks(text: str) -> list[np.ndarray]:
        (spans,) = part_spans([text], counter, PartRule(vectors=99), WINDOW)
        return [documents[plain](text[slice(*span)]) for span in spans]

    assert max(len(chunks(text)) for text in graded.documents.values()) == 3
    assert_values(log, "plain", "parts-all", graded, rankings_of(graded, queries[plain], chunks))


@pytest.mark.parametrize(
    ("options", "query", "document"),
    [
        ({}, "w1 w2 ", "w3 "),
        ({"query_prompt": "w5 "}, "w5 ", "w3 "),
        ({"prompt": "", "query_prompt": ""}, "", ""),
    ],
    ids=["the model's", "one", "none"],
)
def test_prompts_of_the_model_and_of_the_call(
    make_tiny: Make,
    graded: Collection,
    evaluate: Evaluate,
    options: dict[str, str],
    query: str,
    document: str,
) -> None:
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.prompts = {"query": "w1 w2 ", "passage": "w3 "}
    log = evaluate(model, **options)
    assert log.header.model.prompts == {"query": query, "document": document}
    embed = each_alone(make_tiny("bert", "mean").encode)
    rankings = rankings_of(
        graded, lambda text: embed(query + text), lambda text: embed(document + text)
    )
    assert_values(log, "plain", "whole", graded, rankings)


def test_inner_products(make_tiny: Make, graded: Collection, evaluate: Evaluate) -> None:
    """Lengths of documents count for a model that compares by dot; other similarities are
    refused."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.similarity_fn_name = "dot"
    log = evaluate(model)
    lengths = np.linalg.norm(model.encode_document([*graded.documents.values()]), axis=1)
    assert max(lengths) / min(lengths) > 1.01, "the premise"
    rankings = rankings_of(graded, model.encode_query, model.encode_document)
    assert_values(log, "plain", "whole", graded, rankings)
    model.similarity_fn_name = "euclidean"
    said = "this model compares vectors by euclidean: only cosine and dot"
    with pytest.raises(UnsupportedModel, match=said):
        evaluate(model)


# Windows, costs and notes.


@pytest.fixture
def short(tmp_path: Path) -> SentenceTransformer:
    """Of 22 positions, and set to read 60."""
    model = tiny_model(tmp_path / "short", "bert", "mean", max_position_embeddings=WINDOW)
    model.max_seq_length = 60
    return model


def test_each_treatment_reads_as_far_as_it_can(
    short: SentenceTransformer, graded: Collection, evaluate: Evaluate
) -> None:
    """The plain model has the vectors of first twenty words, tiles those of all; what each index
    takes, and which documents have another vector, is counted by hand."""
    log = evaluate(short, treatments=["plain", T8])
    models = {
        "plain": narrow(short),
        T8: fairspan.calibrate(short, "tiles-8", short_texts="leave"),
    }
    for name, model in models.items():
        asked, read = each_alone(model.encode_query), each_alone(model.encode_document)
        assert_values(log, name, "whole", graded, rankings_of(graded, asked, read))
    longer = graded.longer(WINDOW)
    assert 0 < longer < 15, "the premise"
    windows = {(row.treatment, row.texts): (row.window, row.cut) for row in log.header.windows}
    assert windows["plain", "documents"] == (WINDOW, longer)
    assert windows[T8, "documents"] == (None, 0)
    assert f"plain: {longer} of 15 documents were cut at 22 tokens" in log.notes
    assert "Documents with identical text: 2" in log.notes

    rows = {(row["treatment"], row["index"]): row for row in log.frame("costs").to_dicts()}
    lengths = [2 + len(text.split()) for text in graded.documents.values()]
    chunks = sum(-(-(length - 2) // (WINDOW - 2)) for length in lengths)
    counted = {arm: (row["tokens"], row["vectors"], row["bytes"]) for arm, row in rows.items()}
    # Every chunk has two special tokens of its own; a vector of 32 numbers has 128 bytes.
    assert counted == {
        ("plain", "whole"): (sum(min(length, WINDOW) for length in lengths), 15, 15 * 128),
        ("plain", "parts-all"): (sum(lengths) + 2 * (chunks - 15), chunks, chunks * 128),
        (T8, "whole"): (sum(lengths), 15, 15 * 128),
    }
    before, after = (
        np.stack([model.encode_document(text) for text in graded.documents.values()]).astype(float)
        for model in models.values()
    )
    changes = np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1)
    assert ((changes > 0.01) | (changes < BY_PADDING)).all(), "the premise"
    moved = (changes > 0.01).sum()
    assert 0 < moved < 15
    assert rows[T8, "whole"]["changed"] == moved
    distances = [1 - unit(one) @ unit(other) for one, other in zip(before, after, strict=True)]
    # Rounded to six digits; those that did not move count as 0.
    assert rows[T8, "whole"]["distance"] == pytest.approx(np.mean(distances), abs=2e-6)
    assert rows["plain", "whole"]["changed"] is rows["plain", "parts-all"]["changed"] is None


def test_reading_beyond_the_models_limit_is_noted(
    make_tiny: Make, graded: Collection, beir: str, tmp_path: Path
) -> None:
    """A model of 600 positions that comes with a limit of 22 tokens; tiles read everything. What
    several treatments cut alike is noted once."""
    folder = str(tmp_path / "model")
    narrow(make_tiny("bert", "mean")).save_pretrained(folder, create_model_card=False)
    longer = graded.longer(WINDOW)
    for treatments, reads_on in ((["plain", B8], False), (["plain", B8, "tiles-16"], True)):
        options = EvaluateOptions(folder, beir, treatments=treatments)
        notes = STUDY.read(options, Silent()).notes
        assert f"plain, {B8}: {longer} of 15 documents were cut at 22 tokens" in notes
        beyond = [note for note in notes if "may itself explain" in note]
        limit = f"comes with a limit of 22 tokens, and {longer} of 15 documents are longer"
        assert [limit in note for note in beyond] == [True] * reads_on


# Passages.


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Documents of 70 to 1,000 words in two languages, the long ones in fifths."""
    folder = write_articles(tmp_path_factory.mktemp("mixed") / "corpus", 6)
    for start, language in ((300, "en"), (340, "it")):
        rows = [{"id": f"l{n}", "text": article(start + n, 160 + 10 * n)} for n in range(4)]
        with (folder / f"{language}.jsonl").open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return str(folder)


@pytest.fixture(scope="module")
def passages(make_tiny: Make, mixed: str, tmp_path_factory: pytest.TempPathFactory) -> RunLog:
    return fairspan.evaluate(
        narrow(make_tiny("bert", "mean"), 512),
        corpus=mixed,
        treatments=["plain", "tiles-64"],
        metrics=["ndcg@10", "recall@1", "recall@10"],
        out=tmp_path_factory.mktemp("passages") / "run",
        progress=False,
    )


def test_what_rows_of_passages_say(passages: RunLog) -> None:
    """Every document is in the index, all languages in one; of translations none counts."""
    task = passages.header.searched
    # 12 short ones with a passage each, and 8 long ones with five.
    assert (task.documents, task.queries, task.clusters) == (20, 12 + 8 * 5, 10)
    rows = passages.rows.filter(treatment="plain", index="whole", measure="ndcg@10")
    assert len(rows) == task.queries
    long = rows.filter(pl.col("tokens") > 512)
    fifths = long["fifth"].value_counts().sort("fifth").rows()
    assert fifths == [(fifth, 8) for fifth in range(1, 6)]
    assert (long["depth"] < long["tokens"]).all()
    id, language = (pl.col("document").str.split("/").list.get(place) for place in (0, 1))
    assert set(rows["language"]) == {"en", "it"}
    assert (rows.select(language).to_series() == rows["language"]).all()
    clusters = rows.group_by(id).agg(pl.col("cluster", "language").n_unique())
    assert set(clusters["cluster"]) == {1}, "translations are one cluster"
    assert set(clusters["language"]) == {2}
    assert (rows["query_tokens"] <= 2 + 30).all()
    depths = passages.view.frames["depths"].filter(treatment="plain", index="whole")
    assert depths["queries"].sum() == task.queries
    assert any("queries ask for text that was not read" in note for note in passages.notes)


def test_two_tokenizers_have_the_same_task(
    passages: RunLog, bag_of_words: SentenceTransformer, mixed: str
) -> None:
    """Passages are measured in words, so that models can be compared on the same documents."""
    options = EvaluateOptions(bag_of_words, corpus=mixed, treatments=["plain"])
    other = STUDY.read(options, Silent()).describe(passages.header)
    assert other.searched.fingerprints == passages.header.searched.fingerprints


# The log.


def test_the_log(make_tiny: Make, evaluate: Evaluate, tmp_path: Path) -> None:
    """What the header says, and on disk. One of another version is refused."""
    recorder = Recorder()
    log = evaluate(make_tiny("bert", "mean"), progress=recorder)
    header = header_of(tmp_path / "run")
    assert header == log.header.to_json()
    assert (header["format"], header["verb"], header["status"]) == (FORMAT, "evaluate", "complete")
    study = header["study"]
    assert (study["kind"], study["drawn_from"], study["window"]) == ("questions", None, 512)
    task = {key: header["task"][key] for key in ("queries", "documents", "clusters")}
    # q0, q4 and q8 share documents, q1 and q5, q2 and q6, q3 and q7.
    assert task == {"queries": 9, "documents": 15, "clusters": 4}
    assert files_in(tmp_path / "run") == ["rows.parquet", "run.json"]
    assert "parts-all" not in set(log.rows["index"]), "here each document is one chunk"
    assert recorder.done == recorder.total > 0
    assert recorder.stopped == 1
    stages = ["reading the task", "plain: queries", "plain: one vector per document"]
    assert {*stages} <= {*recorder.stages}
    del header["study"]["kind"]
    (log.folder / "run.json").write_text(json.dumps(header))
    said = said_by(lambda: read_log(log.folder).view)
    assert said.startswith(f"the run {log.run} was measured by another version of fairspan")


def test_what_cannot_be_searched(
    make_tiny: Make, graded: Collection, evaluate: Evaluate, tmp_path: Path
) -> None:
    name, gains = next(iter(graded.relevant.items()))
    alone = Collection(graded.documents, {name: graded.queries[name]}, {name: gains})
    with pytest.raises(CorpusError, match="all queries are about one document, and errors need 2"):
        evaluate(make_tiny(), alone.write(tmp_path / "one"))
    with pytest.raises(CorpusError, match="a tile, but the segments of 15 documents are not known"):
        evaluate(make_tiny(), treatments=["plain", "tiles-8+tiles=segments"])
