"""An exported folder in infinity: models with mean or CLS pooling, and optimum 1.24, since later
ones miss the graph.

    pip install infinity_emb optimum==1.24.0 "transformers<4.49" onnx onnxruntime torch
    python with_infinity.py FOLDER

`fairspan export MODEL FOLDER` writes the folder.
"""

import json
import sys
from pathlib import Path

from infinity_emb import EngineArgs, SyncEngineArray


def embed(folder: str, texts: list[str]) -> list:
    facts = json.loads(Path(folder, "fairspan.json").read_text(encoding="utf-8"))
    # Otherwise, infinity writes an optimised copy into the folder.
    options = {"onnx_disable_optimize": True, "model_warmup": False}
    options |= {
        "engine": "optimum",
        "pooling_method": facts["pooling"][0],
        "served_model_name": "fair",
    }
    engines = SyncEngineArray.from_args([EngineArgs(model_name_or_path=folder, **options)])
    asked = [facts["prompts"]["document"] + text for text in texts]
    vectors, _ = engines.embed(model="fair", sentences=asked).result()
    engines.stop()
    return vectors


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
