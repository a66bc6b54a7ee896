"""Documents given as lists of segments, which become tiles."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan import DesignError, SegmentedText
from fairspan.model.probing import SEGMENTS
from fairspan.model.segments import segment_of_tokens
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]
B = 8


def test_unequal_segments_differ_from_tiles_of_one_size(make_tiny: Make) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-8")
    document = [words(3, seed=1), words(20, seed=2), words(6, seed=3)]
    one = fairspan.encode_segments(fair, SegmentedText(document))
    assert one.ndim == 1
    assert np.abs(fairspan.encode_segments(fair, [document])[0] - one).max() <= 1e-6, (
        "a list is a list of documents"
    )
    with pytest.raises(DesignError, match=r"got '.*': one document is \[segments\]"):
        fairspan.encode_segments(fair, document)
    assert np.abs(one - fair.encode_document(" ".join(document))).max() > 1e-3


def test_tokens_of_real_text_go_to_the_segment_they_were_cut_from(
    minilm: SentenceTransformer,
) -> None:
    fair = fairspan.calibrate(minilm, "tiles-64")
    page = SegmentedText(["Bees dance to tell others.", "Glaciers carve wide valleys."])
    features = fair.preprocess([page])
    segment, ids = features[SEGMENTS][0], features["input_ids"][0]
    parts = [fair.tokenizer.decode(ids[segment == s], skip_special_tokens=True) for s in (0, 1)]
    assert parts == [part.lower() for part in page.segments]


@pytest.mark.parametrize("settings", [{}, {"strength": 0.5, "basket_size": B}])
def test_plain_texts_in_the_same_batch_keep_their_tiles(
    make_tiny: Make, settings: dict[str, Any]
) -> None:
    """And baskets go by their size in all of them."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-8", **settings)
    texts = [words(30, seed=1), words(5, seed=2)]
    page = SegmentedText([words(4, seed=3), words(17, seed=4)])
    mixed = fair.encode([*texts, page])
    apart = np.stack([*fair.encode(texts), fair.encode(page)])
    assert np.abs(mixed - apart).max() <= 1e-5 * np.abs(apart).max()


def test_prompts_go_with_the_first_segment(make_tiny: Make) -> None:
    """Offsets are counted from the start of the prompt."""
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-8")
    features = fair.preprocess([SegmentedText(["w1 w2", "w3"])], prompt="w9 w8 ")
    assert features[SEGMENTS].tolist() == [[0, 0, 0, 0, 0, 1, 1]]  # <s> w9 w8 w1 w2 | w3 </s>


def test_segments_cut_off_by_the_model_are_never_passed_over(
    make_tiny: Make,
) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "cls"), "tiles-8")
    fair.max_seq_length = 12
    with pytest.warns(UserWarning, match="its segments 2 to 3 were cut off"):
        fairspan.encode_segments(fair, [[words(12), words(4), words(4)]])


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ([], "at least one segment"),
        (["a", " "], "segment 1 of a document of 2 is empty"),
        ("text", "list of strings"),
    ],
)
def test_wrong_documents_are_refused(segments: object, said: str) -> None:
    with pytest.raises(DesignError, match=said):
        SegmentedText(segments)  # type: ignore[arg-type]


def test_a_model_without_tiles_is_refused(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    for unfit in (model, *(fairspan.calibrate(model, name) for name in ("tempscale", "paper"))):
        with pytest.raises(DesignError, match="segments become tiles only"):
            fairspan.encode_segments(unfit, [["a", "b"]])


def test_segments_without_a_space_between_them() -> None:
    """As in Chinese: a token belongs to the segment that holds its last character."""
    page = SegmentedText.cut("abcdef", [0, 2, 5])
    offsets = torch.tensor([[[0, 0], [0, 2], [2, 4], [4, 6], [0, 0]]])
    found = segment_of_tokens([page], offsets, torch.ones(1, 5), None)
    assert found.tolist() == [[0, 0, 1, 2, 2]]


@pytest.mark.parametrize(("calibration", "similarity"), [(None, "dot"), ("tiles-64", "cosine")])
def test_average_is_the_mean_of_segments_embedded_alone(
    make_tiny: Make, calibration: str | None, similarity: str
) -> None:
    model = copy.deepcopy(make_tiny("bert", "cls"))
    model.prompts = {"document": "w9 "}
    model.similarity_fn_name = similarity
    if calibration is not None:
        model = fairspan.calibrate(model, calibration, tile_size=B)
    documents = [[words(3, seed=1), words(20, seed=2), words(6, seed=3)], [words(4, seed=4)]]

    def alone(segment: str) -> np.ndarray:
        vector = model.encode_document(segment).astype(np.float64)
        assert np.abs(vector - model.encode(segment)).max() > 1e-3, "the prompt counts"
        return vector / np.linalg.norm(vector) if similarity == "cosine" else vector

    means = np.stack([np.mean([alone(segment) for segment in one], axis=0) for one in documents])
    if similarity == "cosine":
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    vectors = fairspan.encode_segments(model, documents, average=True)
    assert vectors.dtype == np.float32
    # Batches are padded: a few float32 roundings of values of order 1.
    assert vectors == pytest.approx(means, abs=1e-5)
    page = SegmentedText(documents[0])
    assert fairspan.encode_segments(model, page, average=True) == pytest.approx(means[0], abs=1e-5)
    tensor = fairspan.encode_segments(model, documents, average=True, convert_to_tensor=True)
    assert torch.equal(tensor.cpu(), torch.from_numpy(vectors))
    rows = fairspan.encode_segments(model, documents, average=True, convert_to_numpy=False)
    assert [row.tolist() for row in rows] == vectors.tolist()
    units = fairspan.encode_segments(model, documents, average=True, normalize_embeddings=True)
    assert np.linalg.norm(units, axis=1) == pytest.approx(1, abs=1e-6)


def test_average_of_nothing(make_tiny: Make) -> None:
    model = make_tiny("bert", "cls")
    assert fairspan.encode_segments(model, [], average=True).shape == (0,)
    with pytest.raises(DesignError, match="at least one segment"):
        fairspan.encode_segments(model, [["a"], []], average=True)
    with pytest.raises(DesignError, match="precision cannot be used with average=True"):
        fairspan.encode_segments(model, [["a"]], average=True, precision="int8")
