"""An exported folder in txtai.

    pip install txtai onnxruntime
    python with_txtai.py FOLDER

A saved model: Embeddings(path=folder, method="sentence-transformers",
vectors={"trust_remote_code": True}).
"""

import json
import sys
from pathlib import Path

import numpy as np
from txtai import Embeddings


def embed(folder: str, texts: list[str]) -> np.ndarray:
    prompts = json.loads(Path(folder, "fairspan.json").read_text(encoding="utf-8"))["prompts"]
    instructions = {"data": prompts["document"], "query": prompts.get("query", "")}
    files = {"path": f"{folder}/onnx/model.onnx", "tokenizer": f"{folder}/tokenizer.json"}
    return np.array(Embeddings(**files, instructions=instructions).batchtransform(texts, "data"))


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
