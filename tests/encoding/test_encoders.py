"""An encoder of a side: its vectors, and the keys that they are stored under."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import PerSide
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.encoding.model_encoder import ModelEncoder
from fairspan.encoding.text import Text
from fairspan.model.build import copy_sharing_weights
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]

# Float32 sums in padded batches are split otherwise than for a text alone: a few roundings (6e-8
# each) through four layers of vectors whose entries are of order 1.
BY_PADDING = 1e-5


def narrow(model: SentenceTransformer, window: int) -> SentenceTransformer:
    copied = copy_sharing_weights(model)
    copied.max_seq_length = window
    return copied


TEXTS = [words(30, 1), words(5, 2), words(17, 3)]
TILES = Calibration(strength=0, tile_size=8)
BY_SIDE = Calibration(basket_size=8, temperature=PerSide(query=0.5, document=0.8))


def encoder(
    model: SentenceTransformer, calibration: Calibration, side: Any = "query", **options: Any
) -> ModelEncoder:
    how = {"prompt": "", "fingerprint": "f", "side": side, **options}
    return ModelEncoder(model, calibration, **how)


def vectors(made: ModelEncoder, texts: Sequence[str] = TEXTS) -> np.ndarray:
    return np.stack(made.vectors([Text(text, len(text.split()) + 2) for text in texts]))


def alone(encode: Callable[..., Any], **options: Any) -> np.ndarray:
    return np.stack([encode(text, **options) for text in TEXTS])


@pytest.mark.parametrize(
    "calibration",
    [PRESETS["plain"], Calibration(basket_size=8, sides="query"), BY_SIDE],
    ids=["none", "one", "both"],
)
@pytest.mark.parametrize("side", ["query", "document"])
def test_an_encoder_of_a_side(make_tiny: Make, calibration: Calibration, side: str) -> None:
    model = make_tiny("bert", "cls")
    prompt = {"query": "w1 w2 ", "document": "w3 "}[side]
    fair = fairspan.calibrate(model, calibration)
    by_hand = alone(getattr(fair, f"encode_{side}"), prompt=prompt)
    plain = alone(model.encode, prompt=prompt)
    found = vectors(encoder(model, calibration, side, prompt=prompt))
    assert np.abs(found - by_hand).max() < BY_PADDING
    changed = calibration.on("query" if side == "query" else "document").acts
    assert (np.abs(found - plain).max() > 1e-3) == changed


def test_keys_differ_wherever_vectors_do(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    paper, plain = Calibration(basket_size=8), PRESETS["plain"]
    made = [
        encoder(model, calibration, side, prompt=prompt)
        for calibration in (
            plain,
            paper,
            paper.but(sides="document"),
            BY_SIDE,
            PRESETS["tempscale"],
        )
        for side in ("query", "document")
        for prompt in ("", "w1 ")
    ]
    made.append(encoder(model, TILES, "document", by_segments=True))
    made.append(encoder(narrow(model, 10), plain, "document"))
    text = Text(words(30, 1), 32, borders=(0, 40))
    found = [np.asarray(one.vectors([text])[0]) for one in made]
    keys = [one.key(text) for one in made]
    apart = [
        (one, other)
        for one, other in combinations(range(len(made)), 2)
        if np.abs(found[one] - found[other]).max() > 1e-4
    ]
    assert all(keys[one] != keys[other] for one, other in apart)
    assert len(apart) > 100
    assert {len(made) - 1} < set(chain(*apart)), "a text that is cut has another vector"


def test_keys_are_the_same_where_vectors_are(make_tiny: Make) -> None:
    """A query that a calibration leaves alone; borders matter to segments as tiles alone."""
    model = make_tiny("bert", "cls")
    text, other = Text(TEXTS[0], 32), Text(TEXTS[0], 99, borders=(0, 40))
    plain, paper = PRESETS["plain"], Calibration(basket_size=8)
    asked = encoder(model, plain)
    assert asked.key(text) == asked.key(other)
    assert asked.key(text) == encoder(model, paper.but(sides="document")).key(text)
    assert asked.key(text) == encoder(model, plain.but(temperature=PerSide(document=0.5))).key(text)
    assert asked.key(text) != encoder(model, paper).key(text)
    read = encoder(model, paper, "document")
    assert read.key(text) == read.key(other)
    by_segments = encoder(model, TILES, "document", by_segments=True)
    assert by_segments.key(text) != by_segments.key(other)
    spans = Text(TEXTS[0], 32, spans=((0, 5),))
    others = (text, Text(TEXTS[0], 32, spans=((0, 6),)))
    assert all(read.key(spans) != read.key(other) for other in others)


@pytest.mark.parametrize("prompt", ["", "w7 w8 "])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_segments_as_tiles(make_tiny: Make, pooling: str, prompt: str) -> None:
    """What `encode_segments` gives for the same segments; a text without borders is one segment."""
    model = make_tiny("bert", pooling)
    calibration = Calibration(strength=0, tile_size=8)
    fair = fairspan.calibrate(model, calibration)
    made = encoder(model, calibration, "document", by_segments=True, prompt=prompt)
    pages = [[words(3, 1), words(20, 2), words(6, 3)], [words(9, 4), words(2, 5)], [words(12, 6)]]
    texts = []
    for parts in pages:
        starts = [len(" ".join(parts[:number])) + (number > 0) for number in range(len(parts))]
        texts.append(Text(" ".join(parts), 40, borders=tuple(starts)))
    texts[-1] = replace(texts[-1], borders=())
    given = {"prompt": prompt or None}
    by_hand = np.stack([fairspan.encode_segments(fair, [parts], **given)[0] for parts in pages])
    found = np.stack(made.vectors(texts))
    assert np.abs(found - by_hand).max() < BY_PADDING
    runs = np.stack(encoder(model, calibration, "document", prompt=prompt).vectors(texts))
    assert np.abs(found - runs)[:2].max() > 1e-3, "tiles of eight tokens are others"
    spanned = made.with_spans([replace(text, spans=((0, 5),)) for text in texts])
    assert np.abs(np.stack([vector for vector, _ in spanned]) - by_hand).max() < BY_PADDING


def test_spans_by_hand(make_tiny: Make) -> None:
    """The mean of a span's last hidden states inside its document, after <s> and the prompt."""
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, "paper", basket_size=8)
    parts = [words(8, 1), words(6, 2), words(10, 3)]
    starts = [0, len(parts[0]) + 1, len(parts[0]) + len(parts[1]) + 2]
    places = tuple((start, start + len(part)) for start, part in zip(starts, parts, strict=True))
    text = Text(" ".join(parts), 27, spans=places)
    made = encoder(model, Calibration(basket_size=8), "document", prompt="w4 ")
    ((whole, *spans),) = made.with_spans([text])
    read = {"output_value": "token_embeddings", "prompt": "w4 "}
    tokens = fair.encode_document(text.text, **read).double().numpy()
    assert len(tokens) == 27
    for found, (start, end) in zip(spans, [(2, 10), (10, 16), (16, 26)], strict=True):
        mean = tokens[start:end].mean(axis=0)
        assert np.abs(found - mean / np.linalg.norm(mean)).max() < BY_PADDING
    assert np.abs(whole - fair.encode_document(text.text, prompt="w4 ")).max() < BY_PADDING
