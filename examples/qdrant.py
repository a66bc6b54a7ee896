"""Vectors of `fairspan embed` in Qdrant.

    pip install qdrant-client pyarrow
    python qdrant.py VECTORS http://localhost:6333 MODEL "a question"

A second call replaces the points with the same ids.
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
        for batch in shard.iter_batches(10_000, columns=["id", "vector"]):
            ids = batch["id"].to_pylist()
            client.upload_collection(
                "documents",
                vectors=batch["vector"].flatten().to_numpy().reshape(-1, size).astype(np.float32),
                ids=[point_of(id) for id in ids],
                payload=[{"id": id} for id in ids],
                batch_size=256,
                wait=True,
            )


def point_of(id: str | int) -> str:
    """Qdrant takes unsigned integers and UUIDs only; the payload has the id itself."""
    return str(uuid5(NAMESPACE_OID, str(id)))


def search(client: QdrantClient, query: np.ndarray, top: int = 10) -> list[tuple[str | int, float]]:
    """Ids and cosines, best first."""
    found = client.query_points("documents", query, limit=top, with_payload=["id"])
    return [(point.payload["id"], point.score) for point in found.points]


if __name__ == "__main__":
    folder, url, model, question = sys.argv[1:]
    client = QdrantClient(url)
    load(client, folder)
    for id, cosine in search(client, fairspan.load(model).encode_query(question)):
        print(f"{cosine:.3f}  {id}")
