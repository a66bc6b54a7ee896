"""Vectors of `fairspan embed` in Chroma.

    pip install chromadb pyarrow
    python chroma.py VECTORS DATABASE MODEL "a question"

DATABASE is a folder. A second call replaces the rows of the same documents and parts.
"""

import sys
from pathlib import Path

import chromadb
import numpy as np
import pyarrow.parquet as pq

import fairspan

# At least as many as a document has: of so many hits, one in PARTS is another document.
PARTS = 8


def load(client: chromadb.ClientAPI, folder: str) -> chromadb.Collection:
    collection = client.get_or_create_collection(
        "documents", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
    )
    for file in sorted(Path(folder).glob("*.parquet")):
        for rows in pq.ParquetFile(file).iter_batches(client.get_max_batch_size()):
            ids = rows["id"].to_pylist()
            # With several vectors per document, each is of a part.
            parts = rows["part"].to_pylist() if "part" in rows.schema.names else [0] * len(ids)
            flat = rows["vector"].flatten().to_numpy(zero_copy_only=False)
            collection.upsert(
                ids=[f"{id}#{part}" for id, part in zip(ids, parts, strict=True)],
                embeddings=flat.reshape(len(ids), -1).astype(np.float32),
                metadatas=[{"id": id} for id in ids],
            )
    return collection


def search(
    collection: chromadb.Collection, query: np.ndarray, top: int = 10
) -> list[tuple[str, float]]:
    """Ids of documents and the cosines of their best parts, best first."""
    hits = collection.query(
        query_embeddings=[query.astype(np.float32)],
        n_results=PARTS * top,
        include=["metadatas", "distances"],
    )
    best: dict[str, float] = {}
    for row, distance in zip(hits["metadatas"][0], hits["distances"][0], strict=True):
        best.setdefault(row["id"], 1 - distance)
    return list(best.items())[:top]


if __name__ == "__main__":
    folder, database, model, question = sys.argv[1:]
    collection = load(chromadb.PersistentClient(database), folder)
    for id, cosine in search(collection, fairspan.load(model).encode_query(question)):
        print(f"{cosine:.3f}  {id}")
