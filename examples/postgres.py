"""Vectors of `fairspan embed` in PostgreSQL with pgvector.

    pip install 'psycopg[binary]' pgvector pyarrow
    python postgres.py VECTORS postgresql:///DATABASE MODEL "a question"

A second call replaces the rows with the same ids.
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
        f"CREATE TABLE IF NOT EXISTS documents (id {id_type} PRIMARY KEY, "
        f"vector {vector_type}({vector.list_size}))"
    )
    for shard in shards:
        copy_shard(connection, shard, [id_type, vector_type])
    connection.execute(
        "SET maintenance_work_mem = '1GB'"
    )  # a graph that fits into it is built much faster
    connection.execute(
        "CREATE INDEX IF NOT EXISTS documents_hnsw ON documents "
        f"USING hnsw (vector {vector_type}_cosine_ops)"
    )


def copy_shard(connection: psycopg.Connection, shard: pq.ParquetFile, types: list[str]) -> None:
    """All rows of a shard or none."""
    wrap = HalfVector if types[1] == "halfvec" else Vector
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE incoming (LIKE documents) ON COMMIT DROP")
        with cursor.copy("COPY incoming FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(types)
            for batch in shard.iter_batches(10_000, columns=["id", "vector"]):
                vectors = batch["vector"].flatten().to_numpy().reshape(len(batch), -1)
                for id, vector in zip(batch["id"].to_pylist(), vectors, strict=True):
                    copy.write_row((id, wrap(vector)))
        cursor.execute(
            "INSERT INTO documents SELECT * FROM incoming "
            "ON CONFLICT (id) DO UPDATE SET vector = excluded.vector"
        )


def search(
    connection: psycopg.Connection, query: np.ndarray, top: int = 10
) -> list[tuple[str, float]]:
    """Ids and cosines, best first. For more than 40 of them, raise hnsw.ef_search first."""
    nearest = (
        "SELECT id, 1 - (vector <=> %(query)s) FROM documents "
        "ORDER BY vector <=> %(query)s LIMIT %(top)s"
    )
    return connection.execute(nearest, {"query": query, "top": top}).fetchall()


if __name__ == "__main__":
    folder, database, model, question = sys.argv[1:]
    with psycopg.connect(database, autocommit=True) as connection:
        load(connection, folder)
        for id, cosine in search(connection, fairspan.load(model).encode_query(question)):
            print(f"{cosine:.3f}  {id}")
