"""An exported folder in fastembed.

    pip install fastembed
    python with_fastembed.py FOLDER

`fairspan export MODEL FOLDER` writes the folder.
"""

import json
import sys
from pathlib import Path

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType


def embed(folder: str, texts: list[str]) -> np.ndarray:
    facts = json.loads(Path(folder, "fairspan.json").read_text(encoding="utf-8"))
    if folder not in {one["model"] for one in TextEmbedding.list_supported_models()}:
        pooled = {
            "pooling": PoolingType.DISABLED,
            "normalization": False,
            "output_name": "sentence_embedding",
        }
        TextEmbedding.add_custom_model(
            folder, sources=ModelSource(hf=folder), dim=facts["dimension"], **pooled
        )
    model = TextEmbedding(folder, specific_model_path=folder)
    # A batch is as wide as its longest text, and the default is 256 texts.
    return np.array(
        list(model.embed([facts["prompts"]["document"] + text for text in texts], batch_size=8))
    )


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
