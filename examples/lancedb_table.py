"""Vectors of `fairspan embed` in LanceDB.

    pip install lancedb
    python lancedb_table.py VECTORS DATABASE MODEL "a question"

A second call replaces the rows with the same ids.
"""

import sys
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from lancedb.index import HnswSq

import fairspan


def load(database: lancedb.DBConnection, folder: str) -> lancedb.table.Table:
    shards = [pq.ParquetFile(file) for file in sorted(Path(folder).glob("*.parquet"))]
    schema = shards[0].schema_arrow
    exists = "documents" in database.list_tables().tables
    table = (
        database.open_table("documents")
        if exists
        else database.create_table("documents", schema=schema)
    )
    for shard in shards:
        rows = pa.RecordBatchReader.from_batches(schema, shard.iter_batches(10_000))
        table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
            rows
        )
    table.create_index("vector", config=HnswSq(distance_type="cosine"))
    return table


def search(table: lancedb.table.Table, query: np.ndarray, top: int = 10) -> list[tuple[str, float]]:
    """Ids and cosines, best first."""
    found = (
        table.search(query)
        .distance_type("cosine")
        .refine_factor(4)
        .select(["id", "_distance"])
        .limit(top)
    )
    return [(row["id"], 1 - row["_distance"]) for row in found.to_list()]


if __name__ == "__main__":
    folder, database, model, question = sys.argv[1:]
    table = load(lancedb.connect(database), folder)
    for id, cosine in search(table, fairspan.load(model).encode_query(question)):
        print(f"{cosine:.3f}  {id}")
