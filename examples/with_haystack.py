"""A saved model in Haystack.

    pip install fairspan sentence-transformers-haystack
    python with_haystack.py FOLDER

`fairspan calibrate MODEL FOLDER` writes the folder, as does `save_pretrained`.
"""

import sys

from haystack import Document
from haystack_integrations.components.embedders.sentence_transformers import (
    SentenceTransformersDocumentEmbedder,
)


def embed(folder: str, texts: list[str]) -> list[list[float]]:
    # Questions: SentenceTransformersTextEmbedder with {"task": "query", "prompt_name": "query"}.
    embedder = SentenceTransformersDocumentEmbedder(
        model=folder,
        trust_remote_code=True,
        progress_bar=False,
        encode_kwargs={"prompt_name": "document"},
    )
    embedder.warm_up()
    return [
        one.embedding
        for one in embedder.run([Document(content=text) for text in texts])["documents"]
    ]


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
