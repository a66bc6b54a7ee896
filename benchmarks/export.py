"""Exported graphs in onnxruntime against the torch model they were exported from, on two threads of
this CPU.

    python -m benchmarks.export [--rounds 9] [--quality [TASK]]

all-MiniLM-L6-v2 with real weights. Times are medians over rounds in which all ran once, on ready
token ids of one text without padding. With --quality, what weights in 8 bits cost: nDCG@10 of a
task under `fair`, by default passages of the embedded essays.
"""

from __future__ import annotations

import argparse
import datetime
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import fairspan
from benchmarks.cpu import commit, processor
from benchmarks.measure import time_side_by_side
from fairspan.model.loading import Loading, load_model
from fairspan.retrieval.metrics import gains_of, ndcg
from fairspan.retrieval.search import search
from fairspan.retrieval.source import PASSAGES, TaskOptions, TaskSource

# (preset, tokens of the texts that are timed).
CASES = [("plain", [256]), ("fair", [32, 256, 512, 2048, 8192])]
GRAPHS = {"onnxruntime": False, "8 bits": True}
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
    sessions = {name: opened(folder / name) for name in GRAPHS}
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
        calls = {name: partial(session.run, None, arrays) for name, session in sessions.items()}
        # Threads of both libraries wait busily for a while, and would slow each other down.
        timings = time_side_by_side(
            {"torch": partial(embed, fair, inputs), **calls}, "torch", rounds, rest=0.3
        )
        cells = [f"{1000 * timings['torch'].median:.1f}"]
        for name in GRAPHS:
            low, high = timings[name].spread
            cells.append(
                f"{1000 * timings[name].median:.1f} | {timings[name].ratio:.2f} "
                f"({low:.2f}–{high:.2f})"
            )
        print(f"| {preset} | {tokens} | {' | '.join(cells)} |", flush=True)


def quality(fair: SentenceTransformer, folder: Path, name: str) -> None:
    task = TaskSource(name, TaskOptions()).task
    number = {one.id: place for place, one in enumerate(task.documents)}
    wanted = [
        {number[id]: gain for id, gain in task.relevant[one.id].items()} for one in task.queries
    ]
    tokenizer = Tokenizer.from_file(str(folder / "8 bits/tokenizer.json"))
    print(
        f"\n{len(task.documents)} documents, {len(task.queries)} queries\n\n| graph | nDCG@10 "
        "|\n|---|---|"
    )
    for name in GRAPHS:
        session = opened(folder / name)

        def vector(text: str, session: onnxruntime.InferenceSession = session) -> np.ndarray:
            ids = np.array([tokenizer.encode(text).ids])
            arrays = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": ids * 0,
            }
            return session.run(["sentence_embedding"], arrays)[0][0]

        queries, documents = (
            np.array([vector(one.text) for one in part]) for part in (task.queries, task.documents)
        )
        gains = gains_of(search(queries, documents, 10), wanted)
        print(
            f"| {name} | {ndcg(gains, [list(one.values()) for one in wanted], 10).mean():.4f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quality", nargs="?", const=PASSAGES)
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    model = load_model(None, Loading(device="cpu"))
    versions = f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}"
    print(
        f"{datetime.date.today()}, commit {commit()}, {processor()}, {THREADS} threads, float32, "
        f"{versions}\n"
    )
    if not given.quality:
        print(
            "| preset | tokens | torch, ms | onnxruntime, ms | ratio | 8 bits, ms | ratio |\n"
            + "|---" * 7
            + "|"
        )
    for preset, lengths in CASES[bool(given.quality) :]:
        fair = fairspan.calibrate(model, preset)
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for name, int8 in GRAPHS.items():
                fairspan.export(fair, folder / name, int8=int8)
            if given.quality:
                quality(fair, folder, given.quality)
            else:
                speed(fair, folder, preset, lengths, given.rounds)


if __name__ == "__main__":
    main()
