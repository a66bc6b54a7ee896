"""Vectors of `fairspan embed` in LanceDB.

    pip install lancedb
    python lancedb_table.py VECTORS DATABASE MODEL "a question"

A second call replaces the rows of the same documents and parts.
"""

import sys
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lancedb.index import HnswSq

import fairspan

# At least as many as a document has: of so many hits, one in PARTS is another document.
PARTS = 8


def load(database: lancedb.DBConnection, folder: str) -> lancedb.table.Table:
    shards = [pq.ParquetFile(file) for file in sorted(Path(folder).glob("*.parquet"))]
    schema = shards[0].schema_arrow
    exists = "documents" in database.list_tables().tables
    table = (
        database.open_table("documents")
        if exists
        else database.create_table("documents", schema=schema)
    )
    # With several vectors per document, each is of a part.
    key = ["id", "part"] if "part" in schema.names else ["id"]
    for shard in shards:
        rows = pa.RecordBatchReader.from_batches(schema, shard.iter_batches(10_000))
        table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all().execute(
            rows
        )
    table.create_index("vector", config=HnswSq(distance_type="cosine"))
    return table


def search(table: lancedb.table.Table, query: np.ndarray, top: int = 10) -> list[tuple[str, float]]:
    """Ids of documents and the cosines of their best parts, best first."""
    found = (
        table.search(query)
        .distance_type("cosine")
        .refine_factor(4)
        .select(["id", "_distance"])
        .limit(PARTS * top)
    )
    best: dict[str, float] = {}
    for row in found.to_list():
        best.setdefault(row["id"], 1 - row["_distance"])
    return list(best.items())[:top]


if __name__ == "__main__":
    folder, database, model, question = sys.argv[1:]
    table = load(lancedb.connect(database), folder)
    for id, cosine in search(table, fairspan.load(model).encode_query(question)):
        print(f"{cosine:.3f}  {id}")
