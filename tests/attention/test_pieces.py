"""One long text in pieces inside each layer: the vectors of layers that run at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from benchmarks.measure import peak_bytes
from sentence_transformers import SentenceTransformer
from torch import nn

import fairspan
from fairspan import SegmentedText
from fairspan.attention import pieces
from fairspan.attention.tiles import tiles_being_read
from fairspan.model import splitting
from tests.attention.by_matrices import matrices_instead
from tests.attention.test_architectures import TOLERANCE, error, outputs
from tests.attention.test_tiles import kinds
from tests.builders.tiny import HIDDEN, Kind, words

Make = Callable[..., SentenceTransformer]
TEXT = words(100, 5)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 tokens in pieces of at most 20 of content."""
    monkeypatch.setattr(splitting, "CPU_PIECE", 20)


@contextmanager
def seen_by_layers(model: SentenceTransformer) -> Iterator[list[int]]:
    """The tokens of every run of the first layer."""
    seen: list[int] = []
    (layers,) = (part for part in model[0].model.modules() if isinstance(part, nn.ModuleList))
    part = next(iter(layers[0].children()))
    hook = part.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append((args or (*kwargs.values(),))[0].shape[1]),
        with_kwargs=True,
    )
    try:
        yield seen
    finally:
        hook.remove()


def assert_agrees(fair: SentenceTransformer, text: Any, **options: Any) -> None:
    """Vectors and the states of all tokens, against matrices over the whole text."""
    vectors, tokens = outputs(fair, [text], **options)
    with matrices_instead(), patch.object(splitting, "CPU_PIECE", 1000):
        wanted_vectors, wanted_tokens = outputs(fair, [text], **options)
    assert error(vectors, wanted_vectors) <= TOLERANCE
    assert error(tokens, wanted_tokens) <= TOLERANCE


@kinds(["bert", "mpnet", "qwen3"])
def test_pieces_agree_with_whole_matrices(make_kind: Make, kind: Kind) -> None:
    """Several tiles in a piece, or one that is longer; segments; prompts; no special tokens."""
    model = make_kind(kind)
    for size, temperature in ((7, 0.6), (33, 1.0)):
        fair = fairspan.calibrate(model, f"tiles-{size}", temperature=temperature)
        if kind[0] == "bert":
            with seen_by_layers(fair) as lengths:
                fair.encode(TEXT)
            global_tokens = sum(fair[0].tiling.lead_and_trail(fair[0].site, None))
            assert sum(lengths) - len(lengths) * global_tokens == 102 - global_tokens
            assert len(lengths) == (7 if size == 7 else 4)
        assert_agrees(fair, TEXT)
    assert_agrees(fair, TEXT, prompt="w1 w2 w3 ")
    segments = [words(count, count) for count in (9, 3, 30, 1, 25, 8)]
    assert_agrees(fair, SegmentedText(segments))
    model.tokenizer.backend_tokenizer.post_processor = None
    assert_agrees(fairspan.calibrate(model, "tiles-7"), TEXT)


def test_half_precision(make_tiny: Make) -> None:
    """The pieces are combined in float32, so they are as near to float32 as one pass is."""
    model = make_tiny("bert", "mean")
    exact = fairspan.calibrate(model, "tiles-7").encode(TEXT)
    half = fairspan.calibrate(copy.deepcopy(model).to(torch.bfloat16), "tiles-7")
    in_pieces = half.encode(TEXT, convert_to_tensor=True).float().numpy()
    with patch.object(splitting, "CPU_PIECE", 1000):
        whole = half.encode(TEXT, convert_to_tensor=True).float().numpy()
    assert np.abs(in_pieces - exact).max() <= 2 * np.abs(whole - exact).max()


def test_texts_with_gradients_baskets_or_compiled_layers_are_read_at_once(make_tiny: Make) -> None:
    """And give the same vectors."""
    model = make_tiny("bert", "cls")
    fair = fairspan.calibrate(model, "tiles-7")
    expected = fair.encode(TEXT)
    with seen_by_layers(fair) as seen:
        with_gradients = fair(fair.preprocess([TEXT]))["sentence_embedding"]
    assert seen == [102]
    assert with_gradients.requires_grad
    assert np.abs(with_gradients.detach().numpy() - expected).max() <= TOLERANCE
    assert_agrees(fairspan.calibrate(model, tile_size=7, strength=1.0, basket_size=5), TEXT)
    fair[0].model.encoder.layer[0]._compiled_call_impl = fair[0].model.encoder.layer[0]._call_impl
    with seen_by_layers(fair) as seen:
        assert np.abs(fair.encode(TEXT) - expected).max() <= TOLERANCE
    assert seen == [102]


def test_what_a_token_needs_between_two_layers(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state, the embedding that the model's forward keeps, and 110 bytes of ids and geometry,
    but not its queries, keys, values, attention and residuals."""
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7")
    monkeypatch.setattr(splitting, "CPU_PIECE", 200)
    monkeypatch.setattr(pieces, "_EMBEDDED_AT_A_TIME", 200)
    peaks = [
        peak_bytes(lambda count=count: fair.encode(words(count), show_progress_bar=False))
        for count in (500, 1500)
    ]
    assert (peaks[1] - peaks[0]) / 1000 <= 2 * 4 * HIDDEN + 128


def test_threads_read_with_one_model(make_tiny: Make) -> None:
    """The pieces of one thread's text are none of the other's."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-7")
    texts = [words(100, seed) for seed in range(6)]
    alone = [fair.encode(text) for text in texts]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(fair.encode, texts))
    assert np.array_equal(together, alone)


def test_an_error_in_a_piece_is_raised(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7")
    expected = fair.encode(TEXT)
    part = fair[0].model.encoder.layer[2].intermediate
    forward = part.forward
    calls = []

    def fails(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return forward(*args, **kwargs)

    with patch.object(part, "forward", fails), pytest.raises(RuntimeError, match="out of memory"):
        fair.encode(TEXT)
    assert tiles_being_read() is None
    assert np.array_equal(fair.encode(TEXT), expected)


def test_layers_in_pieces_can_be_copied_and_pickled(make_tiny: Make) -> None:
    """A copy runs its own layers, and a model that was calibrated again runs them once."""
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7")
    expected = fair.encode(TEXT)
    for model in (copy.deepcopy(fair), pickle.loads(pickle.dumps(fair))):
        layer = model[0].model.encoder.layer[0]
        (forward,) = layer.forward.args
        assert forward.__self__ is layer
        assert np.array_equal(model.encode(TEXT), expected)
    again = fairspan.calibrate(fair, "tiles-7")
    with seen_by_layers(again) as lengths:
        assert np.array_equal(again.encode(TEXT), expected)
    assert len(lengths) == 7


def test_layers_that_run_at_once_have_the_same_vectors(make_tiny: Make) -> None:
    """Such as those whose forward another library has put back."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-7")
    expected = fair.encode(TEXT)
    layers = fair[0].model.encoder.layer
    for layer in (layers[1], layers[3]):
        del layer.forward
    assert np.abs(fair.encode(TEXT) - expected).max() <= TOLERANCE
