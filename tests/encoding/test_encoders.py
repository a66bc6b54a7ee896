"""An encoder of a side: its vectors, and the keys that they are stored under."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import PerSide
from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.encoding.encoder import ObjectEncoder
from fairspan.encoding.model_encoder import ModelEncoder
from fairspan.encoding.text import Text
from fairspan.errors import UnsupportedModel
from fairspan.model.build import copy_sharing_weights
from tests.builders.tiny import words
from tests.model.test_identity import BY_PADDING, encoder_of

Make = Callable[..., SentenceTransformer]


TEXTS = [words(30, 1), words(5, 2), words(17, 3)]
PAPER = Calibration(basket_size=8)
TILES = Calibration(strength=0, tile_size=8)
BY_SIDE = Calibration(basket_size=8, temperature=PerSide(query=0.5, document=0.8))


def encoder(
    model: SentenceTransformer, calibration: Calibration, side: Any = "query", **options: Any
) -> ModelEncoder:
    how = {"prompt": "", "fingerprint": "f", "side": side, **options}
    return ModelEncoder(model, calibration, **how)


@pytest.mark.parametrize(
    ("calibration", "side"),
    [
        (PAPER.but(sides="query"), "query"),
        (PAPER.but(sides="query"), "document"),
        (BY_SIDE, "document"),
    ],
)
def test_vectors_are_those_of_the_model(
    representative: SentenceTransformer, calibration: Calibration, side: Any
) -> None:
    """In the same batch it is the same computation, if both sides are calibrated alike."""
    model = representative
    prompt = {"query": "w1 w2 ", "document": "w3 "}[side]
    fair = fairspan.calibrate(model, calibration)
    encode = getattr(fair, f"encode_{side}")
    found = np.stack(
        encoder(model, calibration, side, prompt=prompt).vectors(
            [Text(text, len(text.split()) + 2) for text in TEXTS]
        )
    )
    assert found.dtype == np.float32
    if calibration.sides == "both":
        assert np.array_equal(found, encode(TEXTS, prompt=prompt))
    by_one = np.stack([encode(text, prompt=prompt) for text in TEXTS])
    assert np.allclose(found, by_one, atol=BY_PADDING * max(1.0, np.abs(by_one).max()))
    plain = model.encode(TEXTS, prompt=prompt)
    assert (np.abs(found - plain).max() > 1e-3) == calibration.on(side).acts


def test_keys_differ_wherever_vectors_do(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    plain = PRESETS["plain"]
    calibrations = (plain, PAPER, PAPER.but(sides="document"), BY_SIDE)
    made = [
        encoder(model, calibration, side)
        for calibration, side in product(calibrations, ("query", "document"))
    ]
    made += [encoder(model, calibration, prompt="w1 ") for calibration in (plain, PAPER)]
    made.append(encoder(model, TILES, "document", by_segments=True))
    narrow = copy_sharing_weights(model)
    narrow.max_seq_length = 10
    made.append(encoder(narrow, plain, "document"))
    text = Text(words(30, 1), 32, borders=(0, 40))
    found = [np.asarray(one.vectors([text])[0]) for one in made]
    keys = [one.key(text) for one in made]
    apart = [
        (one, other)
        for one, other in combinations(range(len(made)), 2)
        if np.abs(found[one] - found[other]).max() > 1e-4
    ]
    assert all(keys[one] != keys[other] for one, other in apart)
    assert len(apart) > 40
    assert {len(made) - 1} < set(chain(*apart)), "a text that is cut has another vector"


def test_keys_are_the_same_where_vectors_are(make_tiny: Make) -> None:
    """A query that a calibration leaves alone; borders matter to segments as tiles alone."""
    model = make_tiny("bert", "cls")
    text, other = Text(TEXTS[0], 32), Text(TEXTS[0], 99, borders=(0, 40))
    plain, paper = PRESETS["plain"], PAPER
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


@pytest.mark.parametrize(("pooling", "prompt"), [("cls", ""), ("mean", "w7 w8 ")])
def test_segments_as_tiles(make_tiny: Make, pooling: str, prompt: str) -> None:
    """What `encode_segments` gives for the same segments; a text without borders is one segment."""
    model = make_tiny("bert", pooling)
    fair = fairspan.calibrate(model, TILES)
    made = encoder(model, TILES, "document", by_segments=True, prompt=prompt)
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
    runs = np.stack(encoder(model, TILES, "document", prompt=prompt).vectors(texts))
    assert np.abs(found - runs)[:2].max() > 1e-3, "tiles of eight tokens are others"
    spanned = made.with_spans([replace(text, spans=((0, 5),)) for text in texts])
    assert np.abs(np.stack([vector for vector, _ in spanned]) - by_hand).max() < BY_PADDING


@pytest.mark.parametrize(
    ("architecture", "side", "calibration", "prompt"),
    [
        ("mpnet", "right", "plain", ""),
        ("qwen3", "left", "paper", "w1 w2 "),
        ("modernbert", "right", "paper", ""),
    ],
)
def test_spans_by_hand(
    make_tiny: Make, architecture: str, side: str, calibration: str, prompt: str
) -> None:
    """The mean of a span's last hidden states. One token a word, so they are counted off: <s>, the
    prompt's, then each segment's."""
    plain = make_tiny(architecture, "mean", padding_side=side)
    wanted = PRESETS[calibration].but(basket_size=16)
    model = plain if calibration == "plain" else fairspan.calibrate(plain, wanted)
    counts = [(5, 9, 2), (30, 4, 11), (1, 1, 1)]
    texts = []
    for seed, row in enumerate(counts):
        parts = [words(count, seed + count) for count in row]
        ends = np.cumsum([len(part) + 1 for part in parts]) - 1
        spans = [(int(end) - len(part), int(end)) for part, end in zip(parts, ends, strict=True)]
        texts.append(Text(" ".join(parts), 2 + len(prompt.split()) + sum(row), tuple(spans)))
    found = encoder_of(plain, wanted, prompt).with_spans(texts)
    for text, row, (whole, *contextual) in zip(texts, counts, found, strict=True):
        # Alone, so unpadded: sentence_transformers cuts padding off the right end only.
        read = {"output_value": "token_embeddings", "prompt": prompt}
        tokens = model.encode_document(text.text, **read).double().numpy()
        begin = 1 + len(prompt.split())
        for vector, count in zip(contextual, row, strict=True):
            mean = tokens[begin : begin + count].mean(axis=0)
            assert np.allclose(vector, mean / np.linalg.norm(mean), atol=BY_PADDING)
            begin += count
        assert begin == len(tokens) - 1
        expected = model.encode_document(text.text, prompt=prompt)
        assert np.allclose(whole, expected, atol=BY_PADDING * max(1.0, np.abs(expected).max()))


def test_spans_that_cannot_be_read_are_refused(make_tiny: Make) -> None:
    """Of a model without token embeddings."""
    long = Text(words(20), 22, ((0, len(words(20))),))

    class Pooled(SentenceTransformer):
        def forward(self, features: dict[str, Any], **options: Any) -> Any:
            return {"sentence_embedding": torch.ones(len(features["input_ids"]), 3)}

    model = Pooled(modules=list(make_tiny("bert", "mean").children()), device="cpu")
    with pytest.raises(UnsupportedModel, match="retention needs token embeddings"):
        encoder_of(model).with_spans([long])
    with pytest.raises(UnsupportedModel, match="needs token embeddings, which list does not offer"):
        ObjectEncoder([]).with_spans([long])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        lambda rows: np.asarray(rows, dtype=np.float16),
        lambda rows: torch.tensor(rows, dtype=torch.bfloat16, requires_grad=True),
        lambda rows: [torch.tensor(row) for row in rows],
    ],
    ids=["lists", "numpy", "torch", "list-of-torch"],
)
def test_any_object_that_encodes(form: Callable[[list[list[float]]], Any]) -> None:
    """Numbers that every one of these types holds exactly."""

    class Lengths:
        def encode(self, sentences: list[str], /) -> Any:
            assert isinstance(sentences, list)
            return form([[float(len(sentence)), 0.5] for sentence in sentences])

    found = ObjectEncoder(Lengths()).vectors([Text("ab", 2), Text("abcd", 4)])
    assert [vector.dtype for vector in found] == [np.float32, np.float32]
    assert np.array_equal(found, [[2.0, 0.5], [4.0, 0.5]])
