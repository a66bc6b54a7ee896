"""Vectors of `fairspan embed` in PostgreSQL with pgvector.

    pip install 'psycopg[binary]' pgvector pyarrow
    python postgres.py VECTORS postgresql:///DATABASE MODEL "a question"

A second call replaces the rows of the same documents and parts.
"""

import sys
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from pgvector import HalfVector, Vector
from pgvector.psycopg import register_vector

import fairspan


def load(connection: psycopg.Connection, folder: str) -> None:
    shards = [pq.ParquetFile(file) for file in sorted(Path(folder).glob("*.parquet"))]
    id, vector = (shards[0].schema_arrow.field(name).type for name in ("id", "vector"))
    id_type = "int8" if pa.types.is_integer(id) else "text"
    vector_type = "halfvec" if vector.value_type == pa.float16() else "vector"
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    register_vector(connection)
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS documents (id {id_type}, part int4, "
        f"vector {vector_type}({vector.list_size}), PRIMARY KEY (id, part))"
    )
    for shard in shards:
        copy_shard(connection, shard, [id_type, "int4", vector_type])
    connection.execute(
        "SET maintenance_work_mem = '1GB'"
    )  # a graph that fits into it is built much faster
    connection.execute(
        "CREATE INDEX IF NOT EXISTS documents_hnsw ON documents "
        f"USING hnsw (vector {vector_type}_cosine_ops)"
    )


def copy_shard(connection: psycopg.Connection, shard: pq.ParquetFile, types: list[str]) -> None:
    """All rows of a shard or none."""
    wrap = HalfVector if types[2] == "halfvec" else Vector
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE incoming (LIKE documents) ON COMMIT DROP")
        with cursor.copy("COPY incoming FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(types)
            for batch in shard.iter_batches(10_000):
                ids = batch["id"].to_pylist()
                # With several vectors per document, each is of a part.
                has_parts = "part" in batch.schema.names
                parts = batch["part"].to_pylist() if has_parts else [0] * len(ids)
                vectors = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
                for id, part, vector in zip(ids, parts, vectors, strict=True):
                    copy.write_row((id, part, wrap(vector)))
        cursor.execute(
            "INSERT INTO documents SELECT * FROM incoming "
            "ON CONFLICT (id, part) DO UPDATE SET vector = excluded.vector"
        )


def search(
    connection: psycopg.Connection, query: np.ndarray, top: int = 10
) -> list[tuple[str, float]]:
    """Ids of documents and the cosines of their best parts, best first.

    Of 40 parts: for more documents, or documents of more than four parts, raise hnsw.ef_search and
    this number.
    """
    nearest = (
        "SELECT id, max(cosine) AS best FROM (SELECT id, 1 - (vector <=> %(query)s) AS cosine "
        "FROM documents ORDER BY vector <=> %(query)s LIMIT 40) AS parts "
        "GROUP BY id ORDER BY best DESC LIMIT %(top)s"
    )
    return connection.execute(nearest, {"query": query, "top": top}).fetchall()


if __name__ == "__main__":
    folder, database, model, question = sys.argv[1:]
    with psycopg.connect(database, autocommit=True) as connection:
        load(connection, folder)
        for id, cosine in search(connection, fairspan.load(model).encode_query(question)):
            print(f"{cosine:.3f}  {id}")
