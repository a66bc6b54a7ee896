"""Vectors of `fairspan embed` in Qdrant.

    pip install qdrant-client pyarrow
    python qdrant.py VECTORS http://localhost:6333 MODEL "a question"

A second call replaces the points of the same documents and parts.
"""

import sys
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import numpy as np
import pyarrow.parquet as pq
from qdrant_client import QdrantClient
from qdrant_client.models import Datatype, Distance, HnswConfigDiff, VectorParams

import fairspan


def load(client: QdrantClient, folder: str) -> None:
    shards = [pq.ParquetFile(file) for file in sorted(Path(folder).glob("*.parquet"))]
    size = shards[0].schema_arrow.field("vector").type.list_size
    if not client.collection_exists("documents"):
        # Datatype.FLOAT16 halves the memory.
        vectors = VectorParams(size=size, distance=Distance.COSINE, datatype=Datatype.FLOAT32)
        client.create_collection(
            "documents", vectors, hnsw_config=HnswConfigDiff(m=16, ef_construct=100)
        )
    for shard in shards:
        for batch in shard.iter_batches(10_000):
            ids = batch["id"].to_pylist()
            # With several vectors per document, each is of a part.
            parts = batch["part"].to_pylist() if "part" in batch.schema.names else [0] * len(ids)
            client.upload_collection(
                "documents",
                vectors=batch["vector"].flatten().to_numpy().reshape(-1, size).astype(np.float32),
                ids=[point_of(id, part) for id, part in zip(ids, parts, strict=True)],
                payload=[{"id": id} for id in ids],
                batch_size=256,
                wait=True,
            )


def point_of(id: str | int, part: int) -> str:
    """Qdrant takes unsigned integers and UUIDs only; the payload has the id itself."""
    return str(uuid5(NAMESPACE_OID, f"{part} {id}"))


def search(client: QdrantClient, query: np.ndarray, top: int = 10) -> list[tuple[str | int, float]]:
    """Ids of documents and the cosines of their best parts, best first."""
    found = client.query_points_groups("documents", "id", query, limit=top, group_size=1)
    return [(group.id, group.hits[0].score) for group in found.groups]


if __name__ == "__main__":
    folder, url, model, question = sys.argv[1:]
    client = QdrantClient(url)
    load(client, folder)
    for id, cosine in search(client, fairspan.load(model).encode_query(question)):
        print(f"{cosine:.3f}  {id}")
