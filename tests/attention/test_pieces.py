"""One long text in pieces: the vectors of one pass, in steps between which others run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from benchmarks.measure import peak_bytes
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import SegmentedText
from fairspan.attention.steps import give_way, in_steps
from fairspan.attention.tiles import tiles_being_read
from fairspan.encoding.direct import DirectEncoder, ReadText
from fairspan.model import splitting
from tests.attention.by_matrices import matrices_instead
from tests.attention.test_architectures import error
from tests.attention.test_tiles import TOLERANCE, kinds, run
from tests.builders.tiny import HIDDEN, Kind, words

Make = Callable[..., SentenceTransformer]
TEXT = words(100, 5)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 tokens in pieces of at most 20 of content."""
    monkeypatch.setattr(splitting, "CPU_PIECE", 20)


def steps_of(encoder: DirectEncoder, texts: list[ReadText]) -> Iterator[np.ndarray | None]:
    return in_steps(lambda: encoder.vectors(texts))


@contextmanager
def passes_over(model: SentenceTransformer) -> Iterator[list[int]]:
    """The tokens of every pass."""
    seen: list[int] = []
    forward = model[0].model.forward

    def look(**inputs: torch.Tensor) -> object:
        seen.append(inputs["input_ids"].shape[1])
        return forward(**inputs)

    with patch.object(model[0].model, "forward", look):
        yield seen


def assert_agrees(fair: SentenceTransformer, text: Any, **options: Any) -> None:
    """Vectors and the states of all tokens, against matrices over the whole text."""
    vectors, tokens = run(fair, [text], **options)
    with matrices_instead(), patch.object(splitting, "CPU_PIECE", 1000):
        wanted_vectors, wanted_tokens = run(fair, [text], **options)
    assert error(vectors, wanted_vectors) <= TOLERANCE
    assert error(tokens, wanted_tokens) <= TOLERANCE


@kinds(["bert", "mpnet", "qwen3"])
def test_pieces_agree_with_whole_matrices(make_kind: Make, kind: Kind) -> None:
    """Several tiles in a piece, or one that is longer; segments; prompts; no special tokens."""
    model = make_kind(kind)
    for size, temperature in ((7, 0.6), (33, 1.0)):
        fair = fairspan.calibrate(model, f"tiles-{size}", temperature=temperature)
        with passes_over(fair) as lengths:
            fair.encode(TEXT)
        shared = sum(fair[0].tiling.shared(fair[0].site, None))
        assert sum(lengths) - len(lengths) * shared == 102 - shared
        assert len(lengths) == (7 if size == 7 else 4)
        assert_agrees(fair, TEXT)
        assert_agrees(fair, TEXT, prompt="w1 w2 w3 ")
    segments = [words(count, count) for count in (9, 3, 30, 1, 25, 8)]
    assert_agrees(fair, SegmentedText(segments))
    model.tokenizer.backend_tokenizer.post_processor = None
    assert_agrees(fairspan.calibrate(model, "tiles-7"), TEXT)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_half_precision(make_tiny: Make, pooling: str) -> None:
    """The pieces are combined in float32, so they are as near to float32 as one pass is."""
    model = make_tiny("bert", pooling)
    exact = fairspan.calibrate(model, "tiles-7").encode(TEXT)
    half = fairspan.calibrate(copy.deepcopy(model).to(torch.bfloat16), "tiles-7")
    pieces = half.encode(TEXT, convert_to_tensor=True).float().numpy()
    with patch.object(splitting, "CPU_PIECE", 1000):
        whole = half.encode(TEXT, convert_to_tensor=True).float().numpy()
    assert np.abs(pieces - exact).max() <= 2 * np.abs(whole - exact).max()


def test_texts_with_gradients_baskets_or_compiled_layers_are_read_at_once(make_tiny: Make) -> None:
    """And give the same vectors."""
    model = make_tiny("bert", "cls")
    fair = fairspan.calibrate(model, "tiles-7")
    expected = fair.encode(TEXT)
    with passes_over(fair) as seen:
        with_gradients = fair(fair.preprocess([TEXT]))["sentence_embedding"]
    assert seen == [102]
    assert with_gradients.requires_grad
    assert np.abs(with_gradients.detach().numpy() - expected).max() <= TOLERANCE
    assert_agrees(fairspan.calibrate(model, tile_size=7, strength=1.0, basket_size=5), TEXT)
    fair[0].model.encoder.layer[0]._compiled_call_impl = fair[0].model.encoder.layer[0]._call_impl
    with passes_over(fair) as seen:
        assert np.abs(fair.encode(TEXT) - expected).max() <= TOLERANCE
    assert seen == [102]


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_other_texts_are_read_between_the_steps(make_tiny: Make, pooling: str) -> None:
    """Two long texts in turns, with short ones, tiled or not, after every step."""
    fair = fairspan.calibrate(make_tiny("bert", pooling), "tiles-7")
    encoder = DirectEncoder(fair)
    texts = encoder.read([TEXT, words(90, 6), words(12, 7), "w1"])
    alone = [encoder.vectors([text])[0] for text in texts]
    both = zip_longest(steps_of(encoder, texts[:1]), steps_of(encoder, texts[1:2]))
    outputs: list[list[np.ndarray]] = [[], []]
    rounds = 0
    for pair in both:
        for output, vectors in zip(outputs, pair, strict=True):
            output += [] if vectors is None else [vectors[0]]
        assert tiles_being_read() is None
        assert np.array_equal(encoder.vectors(texts[2:3])[0], alone[2])
        rounds += 1
    # Every piece stops before every layer but the first, and at its end.
    assert rounds == 7 * fair[0].depth + 1
    for output, expected in zip(outputs, alone, strict=False):
        assert np.array_equal(np.stack(output), expected[None])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_a_token_needs_between_two_layers(
    make_tiny: Make, monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    """Its state, the embedding that the model's forward keeps, and 110 bytes of ids and geometry,
    but not its queries, keys, values, attention and residuals."""
    fair = fairspan.calibrate(make_tiny("bert", pooling), "tiles-7")
    monkeypatch.setattr(splitting, "CPU_PIECE", 200)
    peaks = [
        peak_bytes(lambda count=count: fair.encode(words(count), show_progress_bar=False))
        for count in (1000, 3000)
    ]
    assert (peaks[1] - peaks[0]) / 2000 <= 2 * 4 * HIDDEN + 128


def test_threads_read_with_one_model(make_tiny: Make) -> None:
    """The stops of one thread's pieces are none of the other's."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-7")
    texts = [words(100, seed) for seed in range(12)]
    alone = [fair.encode(text) for text in texts]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(fair.encode, texts))
    assert np.array_equal(together, alone)


def test_a_closed_iterator_ends_the_work(make_tiny: Make) -> None:
    encoder = DirectEncoder(fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7"))
    texts = encoder.read([TEXT])
    steps = steps_of(encoder, texts)
    assert next(steps) is None
    steps.close()
    assert list(steps) == []
    *waiting, vectors = steps_of(encoder, texts)
    assert set(waiting) == {None}
    assert np.array_equal(vectors, encoder.vectors(texts))


def test_an_error_in_a_piece_is_raised_and_ends_the_others(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "mean"), "tiles-7")
    expected = fair.encode(TEXT)
    layer = fair[0].model.encoder.layer[2]
    forward = layer.forward
    calls = []

    def fails(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return forward(*args, **kwargs)

    with patch.object(layer, "forward", fails), pytest.raises(RuntimeError, match="out of memory"):
        fair.encode(TEXT)
    assert tiles_being_read() is None
    assert np.array_equal(fair.encode(TEXT), expected)


def test_steps_by_hand() -> None:
    """Work that nobody runs in steps does not stop; what it raises is raised in its step."""

    def work() -> str:
        give_way()
        give_way()
        return "done"

    def fails() -> None:
        give_way()
        raise ValueError("at the second step")

    assert work() == "done"
    assert list(in_steps(work)) == [None, None, "done"]
    steps = in_steps(fails)
    assert next(steps) is None
    with pytest.raises(ValueError, match="second step"):
        next(steps)
