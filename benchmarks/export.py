"""An exported graph in onnxruntime against the torch model it was exported from, on this CPU, one thread.

    python -m benchmarks.export [--rounds 9]

all-MiniLM-L6-v2 with real weights, plain and with the preset `tiles`. Times are medians over rounds in which both ran
once, on ready token ids without padding.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from functools import partial
from pathlib import Path

import onnxruntime
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from benchmarks.cpu import commit, processor
from benchmarks.measure import time_side_by_side
from fairspan.model.loading import Loading, load_model

# (preset, longest text, tokens of the texts that are timed).
CASES = [("none", 512, [256, 512]), ("tiles", 2048, [32, 256, 2048])]


def embed(model: SentenceTransformer, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.inference_mode():
        return model(dict(inputs))["sentence_embedding"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = load_model(None, Loading(device="cpu"))
    versions = f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}"
    print(f"{datetime.date.today()}, commit {commit()}, {processor()}, 1 thread, float32, {versions}\n")
    print("| preset | tokens | torch, ms | onnxruntime, ms | ratio | lowest–highest |\n|---|---|---|---|---|---|")
    for preset, longest, lengths in CASES:
        fair = fairspan.calibrate(model, preset, max_seq_length=longest)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "graph.onnx"
            fairspan.export(fair, out)
            session = onnxruntime.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])
        for tokens in lengths:
            generator = torch.Generator().manual_seed(tokens)
            ids = torch.randint(2000, 20000, (1, tokens), generator=generator)
            ids[0, 0], ids[0, -1] = 101, 102
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": ids * 0}
            arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
            calls = {"torch": partial(embed, fair, inputs), "onnxruntime": partial(session.run, None, arrays)}
            timings = time_side_by_side(calls, "torch", rounds)
            plain, got = timings["torch"], timings["onnxruntime"]
            low, high = got.spread
            times = f"{1000 * plain.median:.1f} | {1000 * got.median:.1f}"
            print(f"| {preset} | {tokens} | {times} | {got.ratio:.2f} | {low:.2f}–{high:.2f} |", flush=True)


if __name__ == "__main__":
    main()
