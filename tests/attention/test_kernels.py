"""The Triton kernels against the readable reference in float64, on a GPU or interpreted.

The interpreter has to be chosen before Triton is imported, so without a GPU this file runs itself
in a new process:

    TRITON_INTERPRET=1 python -m pytest tests/attention/test_kernels.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from fairspan.attention.plan import LayerInputs
from fairspan.attention.tiles import FAR, TileView, lay_tiles
from fairspan.model import EvenPooling, even
from fairspan.model.pooling import EVENLY
from tests.attention.reference import (
    bias_by_position,
    even_vector,
    sees_by_position,
    sees_by_tile,
    tile_places,
)
from tests.attention.test_architectures import error
from tests.model.test_even import difference, tokens_of

pytest.importorskip("triton", reason="needs Triton")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RUNS_HERE = torch.cuda.is_available() or INTERPRETED
kernel_test = pytest.mark.skipif(not RUNS_HERE, reason="needs a GPU or TRITON_INTERPRET=1")


@pytest.mark.skipif(RUNS_HERE, reason="the kernels run in this process")
@pytest.mark.slow
def test_kernels_pass_in_the_interpreter() -> None:
    """Every test below, in a process in which Triton interprets its kernels on the CPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


class Case:
    """Random tensors for one batch of texts of unequal lengths."""

    def __init__(
        self, lengths: list[int], heads: int, kv_heads: int, dim: int, seed: int, dtype: torch.dtype
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        n, self.length = len(lengths), max(lengths)
        self.n, self.heads, self.dim, self.groups = n, heads, dim, heads // kv_heads

        def draw(count: int, spread: float) -> Tensor:
            # The layout models have: [N, L, H, D] in memory, seen as [N, H, L, D].
            x = torch.randn(n, self.length, count, dim, generator=generator) * spread
            return x.to(DEVICE, dtype).transpose(1, 2)

        self.q, self.k, self.v = draw(heads, 2.0), draw(kv_heads, 1.0), draw(kv_heads, 1.0)
        self.valid = torch.arange(self.length) < torch.tensor(lengths)[:, None]
        self.valid = self.valid.to(DEVICE)

    def inputs(self) -> LayerInputs:
        return LayerInputs(0, self.q, self.k, self.v, self.dim**-0.5, None, None, False, None)


@kernel_test
@pytest.mark.parametrize(
    ("visibility", "size", "lead", "trail"),
    [
        *(("all", 7, 1, 1), ("all", 16, 1, 0), ("all", 96, 3, 2), ("all", 7, 0, 0)),
        *(("window", 7, 1, 1), ("window", 40, 0, 1), ("causal", 16, 1, 0), ("causal", 96, 3, 2)),
        *(("bias", 40, 0, 1), ("bias", 7, 0, 0)),
    ],
)
def test_tiles(visibility: str, size: int, lead: int, trail: int) -> None:
    lengths = [min(100, 5 * size + 3), min(47, 3 * size), 9, 2]
    dim = 24 if size < 96 else 32
    check_tiles(Case(lengths, 2, 1, dim, size, torch.float32), visibility, size, lead, trail, 1e-5)


@kernel_test
@pytest.mark.skipif(INTERPRETED, reason="too large for the interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [32, 64, 96, 128, 700])
def test_tiles_of_real_models(size: int, dtype: torch.dtype) -> None:
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    case = Case([1300, 777, 129], heads=4, kv_heads=2, dim=64, seed=size, dtype=dtype)
    for visibility in ("all", "window", "causal", "bias"):
        check_tiles(case, visibility, size, 1, 1, tolerance)
    check_tiles(case, "all", size, 20, 1, tolerance)


def check_tiles(
    case: Case, visibility: str, size: int, lead: int, trail: int, tolerance: float
) -> None:
    from fairspan.attention.kernels import tile_rows_kernel

    tiles = lay_tiles(case.valid, size, lead=lead, trail=trail)
    window, causal = 5 if visibility == "window" else None, visibility == "causal"
    behind = torch.arange(1 - tiles.positions, tiles.positions, device=DEVICE)
    mask = {"window": behind.abs() <= 5, "causal": behind >= 0}.get(visibility)
    bias = None
    if visibility == "bias":
        shape = (1, case.heads, tiles.positions, tiles.positions)
        bias = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(case.q)
    band = {"window": (-5, 5), "causal": (0, FAR)}.get(visibility)
    view = TileView(tiles, mask, bias, causal, band)
    out = tile_rows_kernel(case.inputs(), view)
    if band is not None:
        by_table = tile_rows_kernel(case.inputs(), TileView(tiles, mask, bias, causal))
        assert error(by_table, out.double()) <= tolerance
    assert int(out[~case.valid].count_nonzero()) == 0
    for text, tokens in enumerate(case.valid.sum(dim=1).tolist()):
        places = tile_places(tokens, size, lead=lead, trail=trail)
        seen = sees_by_tile(places) & sees_by_position(places, causal=causal, window=window)
        added = torch.zeros(1, tokens, tokens)
        if bias is not None:
            added = bias_by_position(bias[0].cpu().double(), places)
        added = added.masked_fill(~seen, -torch.inf).double().to(DEVICE)
        q = case.q[text, :, :tokens].double()
        k, v = (
            x[text, :, :tokens].double().repeat_interleave(case.groups, dim=0)
            for x in (case.k, case.v)
        )
        exact = ((q @ k.transpose(1, 2) * case.dim**-0.5 + added).softmax(-1) @ v).transpose(0, 1)
        assert error(out[text, :tokens], exact) <= tolerance


@kernel_test
@pytest.mark.parametrize(
    ("width", "ridge", "side", "dtype", "mask_dtype"),
    [
        (32, 1.0, "left", torch.float16, torch.bool),
        (48, 0.02, "right", torch.float32, torch.long),
        (384, 0.2, "left", torch.bfloat16, torch.int),
        (384, 0.2, "right", torch.float32, torch.long),
    ],
)
def test_even_vectors(
    width: int, ridge: float, side: str, dtype: torch.dtype, mask_dtype: torch.dtype
) -> None:
    """Texts of a view of other strides, with NaN where nothing is to be read, and one of none."""
    lengths = [300, 40, 2, 1, 0] if INTERPRETED else [3000, 513, 40, 2, 1, 0]
    batch = torch.full((len(lengths), max(lengths) + 3, width), torch.nan, dtype=dtype)[:, 3:]
    mask = torch.zeros(batch.shape[:2], dtype=mask_dtype)
    ridges = ridge * torch.linspace(1, 3, len(lengths))[:, None]
    texts = [tokens_of(count, width, seed=count).to(dtype) for count in lengths]
    for row, tokens in enumerate(texts):
        start = batch.shape[1] - len(tokens) if side == "left" else 0
        batch[row, start : start + len(tokens)] = tokens
        mask[row, start : start + len(tokens)] = 1
    moved = batch.transpose(0, 1).contiguous().to(DEVICE).transpose(0, 1)
    vectors, totals = even_vectors(moved, mask, ridges, even._steps(ridge))
    for row, tokens in enumerate(texts[:-1]):
        assert difference(vectors[row], even_vector(tokens, float(ridges[row]))) <= 1e-6
        assert error(totals[row], tokens.double().sum(dim=0)) <= 1e-5
    assert int(vectors[-1].count_nonzero()) == 0


def even_vectors(
    tokens: Tensor, mask: Tensor, ridges: Tensor, steps: int = 10
) -> tuple[Tensor, Tensor]:
    """What the kernel gives after so many steps."""
    from fairspan.attention.kernels import even_vectors_kernel

    tensors = (tokens.to(DEVICE), mask.to(DEVICE), ridges.to(DEVICE))
    vectors, totals = even_vectors_kernel(*tensors, steps, 1e-6)
    return vectors.cpu(), totals.cpu()


@kernel_test
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_even_vectors_of_tokens_that_are_not_finite() -> None:
    """Nor are they, but those of other texts are."""
    tokens = tokens_of(40)[None].repeat(3, 1, 1)
    tokens[0, 7, 3] = torch.nan
    tokens[1, 7, 3] = torch.inf
    vectors, _ = even_vectors(tokens, torch.ones(3, 40), torch.full((3, 1), 0.2))
    assert vectors.isfinite().all(dim=1).tolist() == [False, False, True]


@kernel_test
def test_even_vectors_that_need_more_steps_are_not_finite() -> None:
    """Nothing comes out that is not solved; one token is solved in one step."""
    tokens = torch.stack([tokens_of(40), tokens_of(1).expand(40, -1)])
    vectors, _ = even_vectors(tokens, torch.ones(2, 40), torch.full((2, 1), 0.2), steps=1)
    assert vectors.isfinite().all(dim=1).tolist() == [False, True]


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("count", [50, 8000, 9000])
@pytest.mark.parametrize("steps", [1, 10])
def test_texts_are_pooled_on_a_gpu_as_on_a_cpu(
    monkeypatch: pytest.MonkeyPatch, count: int, steps: int
) -> None:
    """Also if some need more steps; one keeps its mean.

    Sums of 8,000 float32 numbers in other orders differ by about √8000 · 2⁻²⁴, 5e-6, several times
    in a solve: 3e-5.
    """
    monkeypatch.setattr(even, "_steps", lambda ridge: steps)
    features = {
        "token_embeddings": torch.stack([tokens_of(count, 64, seed=seed) for seed in range(4)]),
        "attention_mask": torch.ones(4, count, dtype=torch.long),
        EVENLY: torch.tensor([1.0, 1.0, 3.0, torch.inf]),
    }
    features["attention_mask"][1, count // 2 :] = 0
    pooling = EvenPooling(64, "mean", ridge=0.2)
    on_cpu = pooling(dict(features))["sentence_embedding"]
    moved = {name: value.to(DEVICE) for name, value in features.items()}
    assert error(pooling(moved)["sentence_embedding"].cpu(), on_cpu) <= 3e-5


@kernel_test
def test_kernels_run_on_the_device_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """One GPU is enough to see which device they ask for."""
    from fairspan.attention.kernels import even_vectors as even_kernel
    from fairspan.attention.kernels import tile_rows

    asked = []

    @contextmanager
    def device_of(tensor: Tensor) -> Iterator[None]:
        asked.append(tuple(tensor.shape))
        yield

    monkeypatch.setattr(tile_rows, "device_of", device_of)
    monkeypatch.setattr(even_kernel, "device_of", device_of)
    case = Case([20], heads=2, kv_heads=2, dim=16, seed=0, dtype=torch.float32)
    view = TileView(lay_tiles(case.valid, 8, lead=1, trail=1), None, None, False)
    tile_rows.tile_rows_kernel(case.inputs(), view)
    even_vectors(case.q[0], case.valid.expand(2, -1), torch.ones(2, 1))
    assert asked == [(1, 2, 20, 16), (2, 20, 16)]
