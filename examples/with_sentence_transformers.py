"""An exported folder in sentence-transformers' ONNX backend, which needs sentence-transformers 5
and transformers 4.

    pip install "sentence-transformers[onnx]<6"
    python with_sentence_transformers.py FOLDER

A saved model is read with fairspan installed: SentenceTransformer(folder, trust_remote_code=True).
"""

import sys

import numpy as np
from sentence_transformers import SentenceTransformer


def embed(folder: str, texts: list[str]) -> np.ndarray:
    model = SentenceTransformer(folder, backend="onnx", device="cpu")
    return model.encode_document(texts)


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
