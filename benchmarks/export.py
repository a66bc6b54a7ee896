"""Exported graphs in onnxruntime against the torch model they were exported from, on two threads of
this CPU.

    python -m benchmarks.export [--rounds 9]

all-MiniLM-L6-v2 with real weights. Times are medians over rounds in which both ran once, on ready
token ids of one text without padding.
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

# (preset, tokens of the texts that are timed).
CASES = [("plain", [256]), ("fair", [32, 256, 512, 2048, 8192])]
THREADS = 2


def embed(model: SentenceTransformer, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.inference_mode():
        return model(dict(inputs))["sentence_embedding"]


def opened(folder: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    return onnxruntime.InferenceSession(
        str(folder / "onnx/model.onnx"), options, providers=["CPUExecutionProvider"]
    )


def speed(
    fair: SentenceTransformer, folder: Path, preset: str, lengths: list[int], rounds: int
) -> None:
    session = opened(folder)
    for tokens in lengths:
        generator = torch.Generator().manual_seed(tokens)
        ids = torch.randint(2000, 20000, (1, tokens), generator=generator)
        ids[0, 0], ids[0, -1] = 101, 102
        inputs = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "token_type_ids": ids * 0,
        }
        arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
        run = partial(session.run, None, arrays)
        # Threads of both libraries wait busily for a while, and would slow each other down.
        timings = time_side_by_side(
            {"torch": partial(embed, fair, inputs), "onnxruntime": run}, "torch", rounds, rest=0.3
        )
        exported = timings["onnxruntime"]
        low, high = exported.spread
        cells = [
            f"{1000 * timings['torch'].median:.1f}",
            f"{1000 * exported.median:.1f}",
            f"{exported.ratio:.2f} ({low:.2f}–{high:.2f})",
        ]
        print(f"| {preset} | {tokens} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    model = load_model(None, Loading(device="cpu"))
    versions = f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}"
    print(
        f"{datetime.date.today()}, commit {commit()}, {processor()}, {THREADS} threads, float32, "
        f"{versions}\n"
    )
    print("| preset | tokens | torch, ms | onnxruntime, ms | ratio |\n" + "|---" * 5 + "|")
    for preset, lengths in CASES:
        fair = fairspan.calibrate(model, preset)
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            fairspan.export(fair, folder)
            speed(fair, folder, preset, lengths, given.rounds)


if __name__ == "__main__":
    main()
