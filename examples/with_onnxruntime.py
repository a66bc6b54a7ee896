"""An exported folder with nothing but onnxruntime and tokenizers.

    pip install onnxruntime tokenizers
    python with_onnxruntime.py FOLDER

`fairspan export MODEL FOLDER` writes the folder.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


def embed(folder: str, texts: list[str]) -> np.ndarray:
    prompt = json.loads(Path(folder, "fairspan.json").read_text(encoding="utf-8"))["prompts"][
        "document"
    ]
    tokens = Tokenizer.from_file(f"{folder}/tokenizer.json").encode_batch(
        [prompt + text for text in texts]
    )
    session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx")
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    names = [one.name for one in session.get_inputs()]
    inputs = {name: np.array([getattr(text, fields[name]) for text in tokens]) for name in names}
    return session.run(["sentence_embedding"], inputs)[0]


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
