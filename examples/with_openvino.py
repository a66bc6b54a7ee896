"""An exported folder in OpenVINO.

    pip install openvino tokenizers
    python with_openvino.py FOLDER

`fairspan export MODEL FOLDER` writes the folder.
"""

import json
import sys
from pathlib import Path

import numpy as np
import openvino
from tokenizers import Tokenizer


def embed(folder: str, texts: list[str]) -> np.ndarray:
    prompt = json.loads(Path(folder, "fairspan.json").read_text(encoding="utf-8"))["prompts"][
        "document"
    ]
    tokens = Tokenizer.from_file(f"{folder}/tokenizer.json").encode_batch(
        [prompt + text for text in texts]
    )
    # Some CPUs would compute in half precision.
    model = openvino.compile_model(
        f"{folder}/onnx/model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    names = [one.any_name for one in model.inputs]
    return model(
        {name: np.array([getattr(text, fields[name]) for text in tokens]) for name in names}
    )[0]


if __name__ == "__main__":
    print(embed(sys.argv[1], ["A first text.", "A second, longer text."]))
