"""An evaluation, recomputed by hand from its model: rankings, metrics, rows; its log; and what is
found again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.corpus.segment import Segment
from fairspan.errors import CorpusError, UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from fairspan.runs.header import FORMAT
from fairspan.runs.identity import Identity
from fairspan.runs.log import RunLog
from fairspan.runs.progress import Silent
from fairspan.runs.subject import open_subject
from fairspan.studies.evaluate.options import EvaluateOptions
from fairspan.studies.evaluate.prepare import PreparedEvaluation, prepare_evaluation
from fairspan.studies.evaluate.run import evaluate
from fairspan.studies.logs import read_log
from tests.commands import files_in, header_of
from tests.saying import said_by
from tests.searches import write_beir
from tests.test_audit import Letters as Counting
from tests.test_chunk_mean import even_chunks
from tests.test_corpus import write
from tests.test_pages import middle
from tests.tiny import tiny_model, words
from tests.verbs import Recorder

Make = Callable[..., SentenceTransformer]
Evaluate = Callable[..., RunLog]


METRICS = ("ndcg@10", "ndcg@3", "mrr", "mrr@2", "recall@1", "recall@3")
B8 = "paper+basket_size=8"
# Float32 sums in padded batches, or on another CPU, are split otherwise than for a text alone: some
# dozens of roundings (6e-8 each) through four layers. Two documents whose cosines are nearer than
# this may change places.
BY_PADDING = 1e-5


# Collections, small enough to be searched by hand. One token a word; a sentence ends in a full stop
# of its own.


def text_of(seed: int, sentences: int = 4, shortest: int = 4) -> str:
    """Sentences of 5 to 8 words, full stop included."""
    return " ".join(
        f"{words(shortest + (seed + k) % 4, 1000 * seed + k)} ." for k in range(sentences)
    )


def sentences_of(text: str) -> list[str]:
    """By the full stops, which stand alone."""
    found: list[list[str]] = [[]]
    for word in text.split():
        found[-1].append(word)
        if word == ".":
            found.append([])
    return [" ".join(sentence) for sentence in found if sentence]


@dataclass(frozen=True)
class Collection:
    """What is searched, and for each query the gains of the documents that answer it."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    relevant: Mapping[str, Mapping[str, float]]


def in_beir(folder: Path, collection: Collection) -> str:
    documents, queries = (
        [{"id": id, "text": text} for id, text in texts.items()]
        for texts in (collection.documents, collection.queries)
    )
    return write_beir(folder, documents, queries, collection.relevant)


@pytest.fixture(scope="session")
def graded() -> Collection:
    """Two or three relevant documents a query, with gains of 1 to 3; a judgement of 0; two
    documents of one text.
    """
    documents = {f"d{n:02}": text_of(n) for n in range(14)}
    documents["d14"] = documents["d03"]
    queries = {f"q{n}": words(6 + n % 3, 500 + n) for n in range(9)}
    relevant = {
        f"q{n}": {
            f"d{n:02}": 1.0 + n % 3,
            f"d{n + 4:02}": 1.0,
            **({"d14": 2.0} if n % 4 == 0 else {}),
            "d13": 0.0,
        }
        for n in range(9)
    }
    return Collection(documents, queries, relevant)


@pytest.fixture(scope="session")
def beir(graded: Collection, tmp_path_factory: pytest.TempPathFactory) -> str:
    return "beir:" + in_beir(tmp_path_factory.mktemp("beir") / "tiny", graded)


@dataclass(frozen=True)
class Located:
    """A collection with, for each query, the document and the word at which the evidence begins."""

    collection: Collection
    places: Mapping[str, tuple[str, int]]


@pytest.fixture(scope="session")
def located() -> Located:
    """Documents of 20 to 66 words, four questions each; two gains."""
    documents = {f"d{n}": text_of(50 + n, 3 + n) for n in range(7)}
    queries, relevant, places = {}, {}, {}
    for number, (name, text) in enumerate(documents.items()):
        length = len(text.split())
        for part in range(4):
            query = f"q{number}{part}"
            queries[query] = " ".join(text.split()[part * length // 4 :][:5]) + f" w{number + part}"
            relevant[query] = {name: 1.0 + part % 2}
            places[query] = (name, part * length // 4)
    return Located(Collection(documents, queries, relevant), places)


@pytest.fixture(scope="session")
def evidence(located: Located, tmp_path_factory: pytest.TempPathFactory) -> str:
    documents, queries = located.collection.documents, located.collection.queries
    rows = []
    for query, (document, word) in located.places.items():
        start = len(" ".join(documents[document].split()[:word])) + (word > 0)
        gain = located.collection.relevant[query][document]
        rows.append(
            {
                "id": query,
                "text": queries[query],
                "document": document,
                "start": start,
                "gain": gain,
            }
        )
    passages = [{"id": id, "text": text, "language": "en"} for id, text in documents.items()]
    return write_beir(tmp_path_factory.mktemp("evidence") / "located", passages, rows)


LANGUAGES = ("en", "it")
SEGMENTS = 14


@pytest.fixture(scope="session")
def articles() -> dict[tuple[str, str], Segment]:
    return {
        (f"s{n:02}", language): Segment(
            f"s{n:02}", language, text_of(100 * shift + n, 4), words(4, 90 * shift + n)
        )
        for shift, language in enumerate(LANGUAGES)
        for n in range(SEGMENTS)
    }


@pytest.fixture(scope="session")
def corpus(
    articles: Mapping[tuple[str, str], Segment], tmp_path_factory: pytest.TempPathFactory
) -> str:
    folder = tmp_path_factory.mktemp("corpus") / "tiny"
    folder.mkdir()
    for language in LANGUAGES:
        own = [asdict(segment) for (_, spoken), segment in articles.items() if spoken == language]
        write(folder / f"{language}.jsonl", own)
    return str(folder)


@pytest.fixture
def measured(corpus: str, tmp_path: Path) -> Evaluate:
    """An evaluation with everything it writes in tmp_path; of pages of three if nothing else is
    said.
    """

    def measure(model: Any, task: str = "pages", **options: Any) -> RunLog:
        settings: dict[str, Any] = {
            "treatments": ["plain"],
            "metrics": METRICS,
            "store": tmp_path / "s.sqlite",
        }
        if task == "pages":
            settings |= {"corpus": corpus, "size": 3, "sets": 4}
        return evaluate(model, task, **{**settings, "out": tmp_path / "run", **options})

    return measure


def prepared(
    model: Any, task: str = "pages", name: str | None = None, **options: Any
) -> PreparedEvaluation:
    """An evaluation before anything is embedded."""
    asked = EvaluateOptions(None, task, **options)
    return prepare_evaluation(open_subject(model, name=name), asked, Silent())


# Search by hand.

Embed = Callable[[str], np.ndarray]


def unit(vector: Any) -> np.ndarray:
    vector = np.asarray(vector, dtype=np.float64)
    return vector / math.sqrt(float(vector @ vector))


def embedder(encode: Callable[..., Any], **options: Any) -> Embed:
    """Each text alone, each once."""
    found: dict[str, np.ndarray] = {}

    def embed(text: str) -> np.ndarray:
        if text not in found:
            found[text] = np.asarray(encode(text, **options), dtype=np.float64)
        return found[text]

    return embed


def chunks_of(text: str, size: int) -> list[str]:
    """Whole sentences in the fewest and most even chunks, counted in words."""
    return even_chunks(sentences_of(text), size)


def late_chunks(model: SentenceTransformer, text: str, size: int) -> list[np.ndarray]:
    """Means of the chunks' last hidden states, one token a word, after <s>."""
    tokens = model.encode_document(text, output_value="token_embeddings").double().numpy()
    found, begin = [], 1
    for chunk in chunks_of(text, size):
        end = begin + len(chunk.split())
        found.append(tokens[begin:end].mean(axis=0))
        begin = end
    assert begin == len(tokens) - 1
    return found


def held(
    index: str, text: str, embed: Embed, late: Callable[[str], list[np.ndarray]], size: int
) -> list[np.ndarray]:
    """The unit vectors that an index holds of a document."""
    if index == "whole":
        return [unit(embed(text))]
    parts = [
        unit(one)
        for one in (late(text) if index.startswith("late") else map(embed, chunks_of(text, size)))
    ]
    return parts if index.endswith("max") else [unit(np.mean(parts, axis=0))]


def ranked(
    query: np.ndarray, vectors: Mapping[str, Sequence[np.ndarray]], exact: Sequence[set[str]] = ()
) -> list[list[str]]:
    """Ids by their best inner product, in every order that rounding allows, that of the scores
    themselves first.

    `exact` are pairs of the same text, of which the later id comes first. All other neighbours may
    change places only if their scores are nearer than rounding, which few are.
    """
    scores = {id: max(float(query @ vector) for vector in own) for id, own in vectors.items()}
    order = sorted(scores, key=lambda id: (scores[id], id), reverse=True)
    runs: list[list[str]] = [order[:1]]
    for one, other in pairwise(order):
        if scores[one] - scores[other] > BY_PADDING:
            runs.append([])
        runs[-1].append(other)
    found = [
        [id for run in orders for id in run]
        for orders in product(*(permutations(run) for run in runs))
    ]
    pairs = [(max(pair), min(pair)) for pair in exact]
    found = [
        one
        for one in found
        if all(one.index(later) < one.index(earlier) for later, earlier in pairs)
    ]
    assert len(found) <= 24, "the premise: nearly all documents can be told apart"
    return found


def worth(metric: str, ranking: Sequence[str], gains: Mapping[str, float]) -> float:
    """nDCG, recall and reciprocal rank, as textbooks have them."""
    kind, _, cut = metric.partition("@")
    k = int(cut) if cut else len(ranking)
    found = [max(gains.get(id, 0.0), 0.0) for id in ranking[:k]]
    best = sorted((gain for gain in gains.values() if gain > 0), reverse=True)
    if kind == "recall":
        return sum(gain > 0 for gain in found) / len(best)
    if kind == "mrr":
        return next((1 / rank for rank, gain in enumerate(found, 1) if gain > 0), 0.0)
    dcg, ideal = (
        sum(gain / math.log2(r + 1) for r, gain in enumerate(row, 1)) for row in (found, best[:k])
    )
    return dcg / ideal


def values(
    rows: pl.DataFrame, treatment: str, metric: str, index: str = "whole"
) -> dict[Any, float]:
    own = rows.filter(
        (pl.col("treatment") == treatment)
        & (pl.col("measure") == metric)
        & (pl.col("part") == index)
    )
    keys = own.select("lead", "later", "order", "query").rows()
    found = dict(zip(keys, own["value"].to_list(), strict=True))
    assert len(found) == len(own), "no row is there twice"
    return found


def assert_searched(
    rows: pl.DataFrame,
    treatment: str,
    collection: Collection,
    asked: Embed,
    read: Callable[[str], Sequence[np.ndarray]],
    *,
    index: str = "whole",
    exact: Sequence[set[str]] = (),
    metrics: Sequence[str] = METRICS,
) -> None:
    """Every row of a collection that has one index: all metrics, and the rank of every relevant
    document.
    """
    vectors = {id: read(text) for id, text in collection.documents.items()}
    chosen = (
        (pl.col("treatment") == treatment)
        & (pl.col("part") == index)
        & (pl.col("measure") == "rank")
    )
    ranks: dict[str, dict[str, float]] = {id: {} for id in collection.queries}
    for query, document, rank in rows.filter(chosen).select("query", "document", "value").rows():
        assert document not in ranks[query], "no row is there twice"
        ranks[query][document] = rank
    rankings = {}
    for id, text in collection.queries.items():
        answers = [document for document, gain in collection.relevant[id].items() if gain > 0]
        possible = ranked(unit(asked(text)), vectors, exact)
        fitting = [
            one
            for one in possible
            if ranks[id] == {answer: 1.0 + one.index(answer) for answer in answers}
        ]
        assert fitting, (id, ranks[id], possible)
        rankings[id] = fitting[0]
    for metric in metrics:
        found = {key[3]: value for key, value in values(rows, treatment, metric, index).items()}
        expected = {
            id: worth(metric, rankings[id], collection.relevant[id]) for id in collection.queries
        }
        assert found == pytest.approx(expected, abs=1e-12)


def sided(
    plain: SentenceTransformer, fair: SentenceTransformer
) -> dict[str, tuple[SentenceTransformer, ...]]:
    """Names of treatments, and what each embeds queries and documents with."""
    return {
        "plain": (plain, plain),
        B8: (fair, fair),
        f"{B8}+sides=document": (plain, fair),
        f"{B8}+sides=query": (fair, plain),
    }


# Rows of a BEIR folder.


@pytest.mark.parametrize(
    ("architecture", "pooling", "side"), [("bert", "cls", "right"), ("qwen3", "lasttoken", "left")]
)
def test_every_row_of_a_beir_folder(
    make_tiny: Make,
    graded: Collection,
    beir: str,
    measured: Evaluate,
    architecture: str,
    pooling: str,
    side: str,
) -> None:
    """Graded relevance, texts that two documents share, every side that a treatment can have."""
    plain = make_tiny(architecture, pooling, padding_side=side)
    models = sided(plain, fairspan.calibrate(plain, basket_size=8))
    log = measured(plain, beir, treatments=list(models), documents_only=False)
    relevant = sum(gain > 0 for gains in graded.relevant.values() for gain in gains.values())
    assert log.rows.height == 4 * (len(METRICS) * 9 + relevant)
    embed = {
        model: (embedder(model.encode_query), embedder(model.encode_document))
        for model in models[B8] + (plain,)
    }
    for name, (for_queries, for_documents) in models.items():
        asked, read = embed[for_queries][0], embed[for_documents][1]
        assert_searched(
            log.rows,
            name,
            graded,
            asked,
            lambda text, read=read: [unit(read(text))],
            exact=[{"d03", "d14"}],
        )
    found = [tuple(values(log.rows, name, "ndcg@10").values()) for name in models]
    assert len(set(found)) == 4, "the treatments can be told apart"


# Rows of known evidence.


def test_every_row_of_known_evidence(
    make_tiny: Make, located: Located, evidence: str, measured: Evaluate
) -> None:
    plain = make_tiny("bert", "mean")
    log = measured(plain, evidence)
    asked, read = embedder(plain.encode_query), embedder(plain.encode_document)
    assert_searched(log.rows, "plain", located.collection, asked, lambda text: [unit(read(text))])
    lengths = {id: len(text.split()) for id, text in located.collection.documents.items()}
    for row in log.rows.iter_rows(named=True):
        document, word = located.places[row["query"]]
        assert (row["document"], row["n"]) == (document, 5)
        assert row["position"] == 1 + 5 * word // lengths[document]
        assert row["tokens"] == 2 + lengths[document]
    by_document = log.rows.group_by("document").agg(pl.col("set").n_unique())
    assert by_document["set"].to_list() == [1] * 7, "queries about one document are one cluster"
    assert log.rows["set"].n_unique() == 7
    assert log.header.searched.positions == "fifths"


def test_long_documents_by_default(
    make_tiny: Make, evidence: str, beir: str, tmp_path: Path
) -> None:
    """Left out where positions are known, cut elsewhere; what is asked for is done."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.max_seq_length = 40

    def notes(task: str, **options: Any) -> list[str]:
        return list(prepared(model, task, treatments=["plain"], **options).tasks[0].task.notes)

    assert any("were left out, with" in note for note in notes(evidence))
    assert any("were shortened" in note for note in notes(evidence, too_long="shorten"))
    assert any("only their beginning is read" in note for note in notes(evidence, too_long="cut"))
    model.max_seq_length = 25
    assert any("only their beginning is read" in note for note in notes(beir))
    with pytest.raises(
        CorpusError, match="longer than the 25 tokens that the model reads: leave them out"
    ):
        notes(beir, too_long="error")


# Rows of pages.


@dataclass(frozen=True)
class Edition:
    """An index of pages as the rows tell it: the segments of each page in order."""

    pages: Mapping[str, Sequence[Segment]]
    collection: Collection


def editions_of(
    rows: pl.DataFrame, articles: Mapping[tuple[str, str], Segment]
) -> dict[Any, Edition]:
    """What was searched, read from the rows and the articles alone: every segment of a page is
    asked for.
    """
    found: dict[Any, dict[str, dict[int, Segment]]] = {}
    own = rows.filter(
        (pl.col("measure") == METRICS[0]) & (pl.col("treatment") == rows["treatment"][0])
    )
    columns = ("lead", "later", "order", "document", "position", "segment", "language")
    for lead, later, order, document, position, segment, language in own.select(columns).rows():
        places = found.setdefault((lead, later, order), {}).setdefault(document, {})
        assert position not in places
        places[position] = articles[segment, language]
    made = {}
    for key, pages in found.items():
        told = {
            name: [places[position] for position in sorted(places)]
            for name, places in pages.items()
        }
        documents = {
            name: " ".join(middle(segment) for segment in parts) for name, parts in told.items()
        }
        queries, relevant = {}, {}
        for name, parts in told.items():
            for segment in parts:
                id = f"{segment.id}/{segment.language}"
                queries[id] = segment.text[len(middle(segment)) :].strip()
                relevant[id] = {name: 1.0}
        made[key] = Edition(told, Collection(documents, queries, relevant))
    return made


def test_every_row_of_pages(
    make_tiny: Make, articles: Mapping[tuple[str, str], Segment], measured: Evaluate
) -> None:
    """English, and Italian led by English; four sets in three orders; four treatments, one of them
    by segments.
    """
    plain = make_tiny("bert", "cls")
    fair = fairspan.calibrate(plain, basket_size=8)
    by_segments = f"{B8}+baskets=segments"
    names = ["plain", B8, f"{B8}+sides=document", by_segments]
    log = measured(plain, treatments=names, documents_only=False, languages=["en"], mixed=["en:it"])
    editions = editions_of(log.rows, articles)
    assert set(editions) == {("en", later, order) for later in LANGUAGES for order in range(3)}
    assert log.rows.height == len(names) * (len(METRICS) + 1) * 6 * 12
    embed = {
        model: (embedder(model.encode_query), embedder(model.encode_document))
        for model in (plain, fair)
    }
    different = set()
    for key, edition in editions.items():
        segmented = {
            edition.collection.documents[name]: unit(
                fairspan.encode_segments(fair, [[middle(segment) for segment in parts]])[0]
            )
            for name, parts in edition.pages.items()
        }
        reads: dict[str, Callable[[str], list[np.ndarray]]] = {
            "plain": lambda text: [unit(embed[plain][1](text))],
            B8: lambda text: [unit(embed[fair][1](text))],
            f"{B8}+sides=document": lambda text: [unit(embed[fair][1](text))],
            by_segments: lambda text, segmented=segmented: [segmented[text]],
        }
        lead, later, order = key
        where = (pl.col("lead") == lead) & (pl.col("later") == later) & (pl.col("order") == order)
        for name, read in reads.items():
            asked = embed[fair if name in (B8, by_segments) else plain][0]
            assert_searched(log.rows.filter(where), name, edition.collection, asked, read)
            different.add((key, tuple(values(log.rows.filter(where), name, "ndcg@10").values())))
    assert len(different) > 3 * len(editions), "the treatments can be told apart"


def test_what_the_rows_of_pages_say(
    make_tiny: Make, articles: Mapping[tuple[str, str], Segment], measured: Evaluate
) -> None:
    log = measured(make_tiny(), languages=["it"], mixed=["en:it"], metrics=METRICS)
    editions = editions_of(log.rows, articles)
    for row in log.rows.iter_rows(named=True):
        edition = editions[row["lead"], row["later"], row["order"]]
        parts = edition.pages[row["document"]]
        assert row["language"] == (row["lead"] if row["position"] == 1 else row["later"])
        assert row["query"] == f"{row['segment']}/{row['language']}"
        assert row["n"] == len(parts) == 3
        assert row["tokens"] == 2 + len(edition.collection.documents[row["document"]].split())
        assert row["query_tokens"] == 2 + len(edition.collection.queries[row["query"]].split())
    members = log.rows.group_by("set").agg(pl.col("segment").unique().sort())
    assert members.height == 4
    assert all(len(segments) == 3 for segments in members["segment"])
    assert log.header.searched.positions == "segments"
    assert log.header.searched.documents == 2 * 3 * 4
    assert log.header.searched.queries == 2 * 3 * 12
    assert log.header.searched.indexes == 6
    assert log.header.plans == ["it:it", "en:it"]


# Indexes.


@pytest.mark.parametrize("pooling", ["mean", pytest.param("cls", marks=pytest.mark.slow)])
def test_every_index_by_hand(
    make_tiny: Make, graded: Collection, beir: str, measured: Evaluate, pooling: str
) -> None:
    """Chunks of at most 14 words, two sentences or fewer, under both treatments."""
    plain = make_tiny("bert", pooling)
    fair = fairspan.calibrate(plain, basket_size=8)
    indexes = ["whole", "chunk-mean", "chunk-max", "late-max"]
    log = measured(
        plain, beir, treatments=["plain", B8], indexes=indexes, cross=True, chunk_tokens=14
    )
    found = set()
    for name, model in (("plain", plain), (B8, fair)):
        asked, read = embedder(model.encode_query), embedder(model.encode_document)
        for index in indexes:
            assert_searched(
                log.rows,
                name,
                graded,
                asked,
                lambda text, index=index, read=read, model=model: held(
                    index, text, read, lambda text: late_chunks(model, text, 14), 14
                ),
                index=index,
                exact=[{"d03", "d14"}],
            )
            found.add(tuple(values(log.rows, name, "ndcg@10", index).values()))
    assert len(found) >= 7, "the indexes can be told apart"


def test_what_indexes_cost(
    make_tiny: Make, graded: Collection, beir: str, measured: Evaluate, tmp_path: Path
) -> None:
    """Late chunks and whole documents come from one pass, both kinds of chunks from the same
    vectors; a run that finds everything in the store knows no times."""
    model, indexes = make_tiny("bert", "mean"), ["whole", "chunk-mean", "chunk-max", "late-max"]
    log = measured(model, beir, indexes=indexes, chunk_tokens=14)
    costs = {cost["index"]: cost for cost in log.header.to_json()["costs"]}
    chunks = sum(len(chunks_of(text, 14)) for text in graded.documents.values())
    length = sum(len(text.split()) for text in graded.documents.values())
    assert chunks > 15, "the premise"
    counted = {
        index: (cost["vectors"], cost["bytes"], cost["tokens"]) for index, cost in costs.items()
    }
    assert counted == {
        "whole": (15, 15 * 32 * 4, length + 2 * 15),
        "chunk-mean": (15, 15 * 32 * 4, length + 2 * chunks),
        "chunk-max": (chunks, chunks * 32 * 4, length + 2 * chunks),
        "late-max": (chunks, chunks * 32 * 4, length + 2 * 15),
    }
    assert all(cost["documents"] == cost["searched_documents"] == 15 for cost in costs.values())
    assert all(cost["treatment"] == "plain" for cost in costs.values())
    seconds = dict(log.frame("costs").select("index", "seconds").rows())
    assert {index for index, took in seconds.items() if took is None} == {"whole", "chunk-max"}
    again = measured(model, beir, indexes=indexes, chunk_tokens=14, out=tmp_path / "again")
    assert set(again.frame("costs")["seconds"]) == {None}


# Prompts and similarities.


def test_prompts_of_the_model_and_of_the_spec(
    make_tiny: Make, graded: Collection, beir: str, measured: Evaluate, tmp_path: Path
) -> None:
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.prompts = {"query": "w1 w2 ", "passage": "w3 "}
    plain = make_tiny("bert", "mean")
    given = {"own": {}, "one": {"query_prompt": "w5 "}, "plain": {"prompt": "", "query_prompt": ""}}
    used = {"own": ("w1 w2 ", "w3 "), "one": ("w5 ", "w3 "), "plain": ("", "")}
    found = set()
    for name, options in given.items():
        log = measured(model, beir, out=tmp_path / name, **options)
        for_queries, for_documents = used[name]
        assert log.header.model.prompts == {"query": for_queries, "document": for_documents}
        read = embedder(plain.encode)
        assert_searched(
            log.rows,
            "plain",
            graded,
            lambda text, prompt=for_queries, read=read: read(prompt + text),
            lambda text, prompt=for_documents, read=read: [unit(read(prompt + text))],
            exact=[{"d03", "d14"}],
        )
        found.add(tuple(log.rows["value"]))
    assert len(found) == 3


def test_inner_products(make_tiny: Make, graded: Collection, beir: str, measured: Evaluate) -> None:
    """A model that compares by dot: lengths of documents count, for chunks and means as well."""
    model = copy_sharing_weights(make_tiny("bert", "mean"))
    model.similarity_fn_name = "dot"
    log = measured(model, beir, indexes=["whole", "chunk-mean", "chunk-max"], chunk_tokens=14)
    asked, read = embedder(model.encode_query), embedder(model.encode_document)
    chunked = {
        text: [read(chunk) for chunk in chunks_of(text, 14)] for text in graded.documents.values()
    }
    lengths = [np.linalg.norm(read(text)) for text in graded.documents.values()]
    assert max(lengths) / min(lengths) > 1.01, "the premise"
    reads: dict[str, Callable[[str], list[np.ndarray]]] = {
        "whole": lambda text: [read(text)],
        "chunk-mean": lambda text: [np.mean(chunked[text], axis=0)],
        "chunk-max": lambda text: chunked[text],
    }
    for index, own in reads.items():
        assert_searched(log.rows, "plain", graded, asked, own, index=index, exact=[{"d03", "d14"}])
    with pytest.raises(UnsupportedModel, match="late chunks have no length of their own"):
        measured(model, beir, indexes=["late-max"])
    model.similarity_fn_name = "euclidean"
    with pytest.raises(
        UnsupportedModel, match="this model compares vectors by euclidean: only cosine and dot"
    ):
        measured(model, beir)


# Objects that only encode.


class Letters(Counting):
    """Weighed by roots of different numbers, so that no two sums are the same by chance."""

    @staticmethod
    def one(sentence: str) -> list[float]:
        return [
            0.5 + sentence.count(letter) * math.sqrt(2 + n)
            for n, letter in enumerate("0123456789.")
        ]


def test_any_object_with_encode(
    graded: Collection, beir: str, measured: Evaluate, tmp_path: Path
) -> None:
    model = Letters()
    log = measured(model, beir)
    read = embedder(Letters.one)
    assert_searched(
        log.rows, "plain", graded, read, lambda text: [unit(read(text))], exact=[{"d03", "d14"}]
    )
    # The queries; then the longest document with and without its end; then each different document.
    queries, (longest, without), documents = model.asked[:9], model.asked[9:11], model.asked[11:]
    assert sorted(queries) == sorted(graded.queries.values())
    assert longest == max(graded.documents.values(), key=len)
    assert longest.startswith(without)
    assert sorted(documents) == sorted(set(graded.documents.values()))
    assert log.header.to_json()["model"] == {"name": "Letters", "fingerprint": None}
    assert log.header.token_unit == "characters"
    assert not (tmp_path / "s.sqlite").exists()
    assert not Path(":memory:").exists()
    again = measured(model, beir)
    assert again.rows.equals(log.rows)
    assert len(model.asked) == 2 * (9 + 2 + 14), "asked anew"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"indexes": ["whole", "late-max"]}, "omit late-max."),
        ({"treatments": ["tempscale"], "indexes": ["late-max"]}, "omit tempscale, late-max."),
    ],
)
def test_what_objects_cannot(
    beir: str, measured: Evaluate, options: dict[str, Any], named: str
) -> None:
    model = Letters()
    with pytest.raises(UnsupportedModel, match="Letters is not a SentenceTransformer") as error:
        measured(model, beir, **options)
    assert str(error.value).endswith(named)
    assert model.asked == []
    with pytest.raises(UnsupportedModel, match=r"dict has no encode\(list\[str\]\)"):
        measured({}, beir)


class Turning(Letters):
    """Texts are numbers, at ever larger angles to 0."""

    @staticmethod
    def one(sentence: str) -> list[float]:
        return [1.0, int(sentence) / 500]


def test_as_many_ranks_as_a_metric_asks_for(tmp_path: Path, measured: Evaluate) -> None:
    """The last of 1,100 documents is wanted: beyond the 1,000 ranks of a reciprocal rank that names
    no number.
    """
    documents = {f"d{n:04}": str(n) for n in range(1, 1101)}
    task = in_beir(
        tmp_path / "turning",
        Collection(documents, {"q": "0", "r": "0"}, {q: {"d1100": 1} for q in "qr"}),
    )
    by_hand = {
        "mrr": 0.0,
        "mrr@1099": 0.0,
        "mrr@2000": 1 / 1100,
        "recall@1099": 0.0,
        "recall@1100": 1.0,
    }
    by_hand["ndcg@1100"] = 1 / math.log2(1101)
    for metrics in (["mrr"], list(by_hand)):
        log = measured(Turning(), task, metrics=metrics, out=tmp_path / f"{len(metrics)}")
        for metric in metrics:
            assert list(values(log.rows, "plain", metric).values()) == pytest.approx(
                [by_hand[metric]] * 2
            )


# Twins: treatments on documents only.


def test_twins_are_measured_beside_their_treatments() -> None:
    def names(treatments: Sequence[Any], **options: Any) -> list[str]:
        return [
            one.name for one in EvaluateOptions(treatments=treatments, **options).all_treatments
        ]

    only = f"{B8}+sides=document"
    assert names(["plain", B8]) == ["plain", B8, only]
    assert names(["plain", B8], documents_only=False) == ["plain", B8]
    assert names([only, "plain"]) == [only, "plain"]
    assert names(["plain", f"{B8}+sides=query"]) == ["plain", f"{B8}+sides=query"]
    assert sorted(names(["plain", only, B8])) == sorted(["plain", only, B8]), (
        "none is measured twice"
    )
    assert names([{"name": "mine", "preset": "tempscale"}]) == ["mine", "mine+sides=document"]
    spec = EvaluateOptions(treatments=["plain", f"{B8}+baskets=segments"])
    assert spec.all_treatments[-1].by_segments
    assert (
        spec.all_treatments[-1].for_queries.acts,
        spec.all_treatments[-1].for_documents.acts,
    ) == (
        False,
        True,
    )
    assert spec.twin_of(spec.all_treatments[-1]) == spec.all_treatments[1]
    assert all(spec.twin_of(one) is None for one in spec.all_treatments[:2])


def test_a_twin_of_unchanged_queries_is_passed_over(
    make_tiny: Make, beir: str, measured: Evaluate, tmp_path: Path
) -> None:
    """Texts that fill no basket are left as they are: queries of 6 to 8 words do not, documents of
    22 and more do.
    """
    leave = "retrieval+basket_size=12"
    log = measured(make_tiny("bert", "cls"), beir, treatments=["plain", leave])
    assert set(log.rows["treatment"]) == {"plain", leave}
    said = f"{leave} does not change these queries, so it is the same on documents only"
    assert said in log.header.to_json()["details"]
    assert values(log.rows, "plain", "ndcg@10") != values(log.rows, leave, "ndcg@10")
    by_name = measured(
        make_tiny("bert", "cls"),
        beir,
        treatments=["plain", leave, f"{leave}+sides=document"],
        out=tmp_path / "two",
    )
    # Asked for by its name it is measured, and the same indeed.
    same = [values(by_name.rows, name, "ndcg@10") for name in (leave, f"{leave}+sides=document")]
    assert same[0] == same[1]
    assert said not in by_name.header.to_json()["details"]


# Models whose answer is known.


@pytest.mark.slow
def test_to_a_bag_of_words_all_positions_are_the_same(
    bag_of_words: SentenceTransformer, tmp_path: Path
) -> None:
    """Every segment is looked for once at every position, and every time found at the same rank."""
    log = evaluate(
        bag_of_words,
        "pages",
        treatments=["plain"],
        out=tmp_path / "run",
        store=tmp_path / "s.sqlite",
    )
    ranks = (
        log.rows.filter(pl.col("measure") == "mrr")
        .group_by("query")
        .agg(pl.col("value").n_unique())
    )
    assert ranks["value"].unique().to_list() == [1]
    for one in log.frame("quality").iter_rows(named=True):
        assert one["psi_estimate"] == pytest.approx(0, abs=1e-12)
        assert one["harmonic_estimate"] == pytest.approx(one["estimate"], abs=1e-12)
        assert 0 < one["estimate"] < 1, "the premise: it is not a search without mistakes"
    assert log.verdicts.is_empty()


# The log, and what the same call finds again.


def test_the_header(make_tiny: Make, measured: Evaluate, tmp_path: Path) -> None:
    model = make_tiny("bert", "mean")
    log = measured(model, seed=5, name="tiny/model", treatments=["plain", B8])
    header = header_of(tmp_path / "run")
    assert header == log.header.to_json()
    assert (header["format"], header["verb"], header["status"]) == (FORMAT, "evaluate", "complete")
    assert header["run"].startswith("evaluate-model-")
    assert header["seed"] == header["spec"]["seed"] == 5
    task = {
        key: value
        for key, value in header["task"].items()
        if key not in ("names", "fingerprints", "source")
    }
    assert task == {
        "indexes": 3,
        "queries": 36,
        "documents": 12,
        "positions": "segments",
        "clusters": 4,
    }
    assert header["timings"]["texts_computed"] == 2 * (12 + 12)
    assert [cost["treatment"] for cost in header["costs"]] == ["plain", B8, f"{B8}+sides=document"]
    assert files_in(tmp_path / "run") == ["rows.parquet", "run.json"]
    assert read_log(tmp_path / "run").rows.equals(log.rows)
    assert header["rows"] == log.rows.height


def test_the_folders_name_belongs_to_the_run(make_tiny: Make, corpus: str, beir: str) -> None:
    """Made of all that decides the result, and of nothing else; test_key has every option."""
    model = make_tiny("bert", "mean")
    asked: dict[str, Any] = {"corpus": corpus, "size": 3, "sets": 3, "treatments": ["plain"]}

    def name(
        model: Any = model, task: str = "pages", name: str = "org/Tiny Model", **changes: Any
    ) -> str:
        return Identity.of(prepared(model, task, name, **{**asked, **changes})).run_name

    narrower, prompted = copy_sharing_weights(model), copy_sharing_weights(model)
    narrower.max_seq_length = 100
    prompted.prompts = {"query": "w1 "}
    assert name().startswith("evaluate-Tiny-Model-")
    assert name() == name(copy_sharing_weights(model)) == name(size=3)
    changed: list[dict[str, Any]] = [
        *({"seed": 2}, {"size": 2}, {"query": "title"}),
        *({"model": make_tiny("bert", "cls")}, {"model": fairspan.calibrate(model, basket_size=8)}),
        *({"model": narrower}, {"model": prompted}, {"name": "org/Other"}),
        {"task": beir, "corpus": "sample", "size": 4, "sets": None},
    ]
    again = [name(**one) for one in changed]
    assert len({name(), *again}) == 1 + len(again)


# Beyond the window.

T8 = "tiles-8"


@pytest.fixture
def short(tmp_path: Path) -> SentenceTransformer:
    """Of 22 positions, and set to read 60."""
    model = tiny_model(tmp_path / "short", "bert", "mean", max_position_embeddings=22)
    model.max_seq_length = 60
    return model


def test_each_treatment_reads_as_far_as_it_can(
    short: SentenceTransformer, graded: Collection, beir: str, measured: Evaluate
) -> None:
    """Documents of 22 to 30 words: the plain model has the vector of the first twenty, tiles that
    of all; chunks fit both, and late chunks come from windows of 22."""
    indexes = ["whole", "chunk-max", "late-max"]
    log = measured(
        short, beir, treatments=["plain", T8], indexes=indexes, chunk_tokens=9, documents_only=False
    )
    tiled = fairspan.calibrate(short, fairspan.Calibration.preset("tiles-8"))
    plain = copy_sharing_weights(short)
    plain.max_seq_length = 22
    same = [{"d03", "d14"}]
    for name, model in (("plain", plain), (T8, tiled)):
        asked, read = embedder(model.encode_query), embedder(model.encode_document)
        assert_searched(
            log.rows, name, graded, asked, lambda text, read=read: [unit(read(text))], exact=same
        )
    lengths = [2 + len(text.split()) for text in graded.documents.values()]
    longer = sum(length > 22 for length in lengths)
    assert longer > 0, "the premise"
    found = {
        (one["treatment"], one["texts"]): (one["window"], one["cut"])
        for one in log.header.to_json()["windows"]
    }
    assert found["plain", "documents"] == (22, longer)
    assert found[T8, "documents"] == (None, 0)
    cut = f"plain: {longer} of {len(lengths)} documents were cut at 22 tokens"
    assert log.notes == [f"{cut}; Documents with identical text: 2"]
    costs = {
        (cost["treatment"], cost["index"]): cost["tokens"] for cost in log.header.to_json()["costs"]
    }
    assert costs["plain", "whole"] == sum(min(length, 22) for length in lengths)
    assert costs[T8, "whole"] == sum(lengths)
    assert costs["plain", "late-max"] >= sum(lengths), "windows hold all"
    assert [one["window"] for one in log.to_dict()["windows"] if one["texts"] == "documents"] == [
        22,
        None,
    ]


# Progress.


@pytest.mark.parametrize(
    "options",
    [
        {"treatments": ["plain", B8]},
        {
            "treatments": ["plain", "retrieval+basket_size=12"],
            "indexes": ["whole", "chunk-max"],
            "cross": True,
        },
    ],
    ids=["twin", "passed over with cross"],
)
@pytest.mark.slow
def test_progress_ends_at_what_it_announced(
    make_tiny: Make, beir: str, measured: Evaluate, options: dict[str, Any]
) -> None:
    recorder = Recorder()
    measured(make_tiny("bert", "mean"), beir, progress=recorder, chunk_tokens=14, **options)
    assert recorder.done == recorder.total > 0
    assert recorder.stopped == 1
    assert "plain: one vector per document" in recorder.stages
    assert "plain: queries" in recorder.stages


# What is asked.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": " "}, "a task is 'pages', 'passages', the folder of a collection"),
        ({"metrics": ["ndcg"]}, "there is no metric 'ndcg': choose from ndcg@k"),
        ({"metrics": []}, "metrics must name at least one"),
        ({"metrics": ["mrr", "mrr"]}, "metrics names 'mrr' twice"),
        ({"metrics": "mrr"}, "metrics must be a list, such as \\['mrr'\\], got 'mrr'"),
        (
            {"indexes": ["chunks"]},
            "indexes must be among whole, chunk-mean, chunk-max, late-max, parts-K, got",
        ),
        (
            {"too_long": "redraw"},
            "too_long must be among leave-out, shorten, cut, error, got 'redraw'",
        ),
        (
            {"chunk_tokens": 0},
            "chunk_tokens, if it is not window, must be a whole number of at least 1, got 0",
        ),
        ({"margin": 1}, "margin must be from 0 to below 1, got 1"),
        ({"task": "pages", "size": 1}, "sizes must be a whole number of at least 2, got 1"),
        ({"sets": 1}, "sets must be a whole number of at least 2, got 1"),
    ],
    ids=lambda value: "-".join(f"{k}" for k in value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_asked(options: dict[str, Any], said: str) -> None:
    assert re.search(said, said_by(EvaluateOptions, **options))


def test_one_query_has_no_error(
    make_tiny: Make, graded: Collection, measured: Evaluate, tmp_path: Path
) -> None:
    name, gains = next(iter(graded.relevant.items()))
    alone = Collection(graded.documents, {name: graded.queries[name]}, {name: gains})
    with pytest.raises(CorpusError, match="all queries are about one document, and errors need 2"):
        measured(make_tiny(), in_beir(tmp_path / "one", alone))
