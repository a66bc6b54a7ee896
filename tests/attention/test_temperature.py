"""Temperatures by length: which text gets which, in every path, and what they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import as_treatment
from fairspan.calibration.words import in_words
from fairspan.cli.values import words as typed_words
from tests.attention.by_matrices import matrices_instead
from tests.attention.test_architectures import TOLERANCE, assert_agrees, error
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]

STEPS = [(10, 1.0), (30, 0.6), (None, 0.3)]
NAME = "1to10_0.6to30_0.3"
# With the special tokens of BERT: 72, 30, 31, 10, 11, 3 and 2 tokens, so both sides of each border.
TEXTS = [words(count, seed) for seed, count in enumerate((70, 28, 29, 8, 9, 1, 0))]


def encoded(model: SentenceTransformer, texts: list[str], **options: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(model.encode_document(texts, **options)))


# Every way, and every path of attention: with and without masks, windows and position biases.
CASES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("bert", "mean", "right", {"calibration": "plain"}),
    ("bert", "cls", "right", {"calibration": "paper", "basket_size": 5}),
    ("roberta", "cls", "left", {"calibration": "plain", "tile_size": 7}),
    ("modernbert", "cls", "right", {"calibration": "plain"}),
    ("modernbert", "mean", "left", {"tile_size": 7, "pooling": "auto", "level": False}),
    ("gte", "mean", "left", {"calibration": "paper", "basket_size": 5}),
    ("qwen3", "lasttoken", "left", {"calibration": "paper", "basket_size": 5}),
    ("t5", "mean", "right", {"calibration": "plain", "scale_position_bias": True}),
    ("t5", "mean", "right", {"calibration": "plain", "tile_size": 7}),
]


@pytest.mark.parametrize(("architecture", "pooling", "side", "way"), CASES)
def test_a_batch_of_mixed_lengths(
    make_tiny: Make, architecture: str, pooling: str, side: str, way: dict[str, Any]
) -> None:
    """Against the reference by matrices; each text alone; and with the number of its own step."""
    model = make_tiny(architecture, pooling, padding_side=side)
    fair = fairspan.calibrate(model, **way, temperature=STEPS)
    assert_agrees(fair, TEXTS)
    batch = encoded(fair, TEXTS)
    of_value = {value: fairspan.calibrate(model, **way, temperature=value) for _, value in STEPS}
    for number, text in enumerate(TEXTS):
        tokens = len(model.tokenizer(text)["input_ids"])
        value = next(value for end, value in STEPS if end is None or tokens <= end)
        alone = encoded(fair, [text])
        expected = encoded(of_value[value], [text])
        assert error(batch[number : number + 1], alone) <= TOLERANCE, tokens
        assert error(alone, expected) <= TOLERANCE, tokens
    assert error(batch, encoded(of_value[0.3], TEXTS)) > 100 * TOLERANCE, "the premise"


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_the_prompt_counts_and_tiles_go_by_the_whole_text(make_tiny: Make, pooling: str) -> None:
    """27 words, a prompt of 3 and two special tokens are 32; in tiles of 7 each tile is short."""
    model = make_tiny("bert", pooling)
    text = words(27)
    for way in ({"strength": 0.0}, {"strength": 0.0, "tile_size": 7}):
        fair = fairspan.calibrate(model, **way, temperature=[(31, 1.0), (None, 0.3)])
        for prompt, value in (("w1 w2 w3 ", 0.3), ("", 1.0)):
            number = fairspan.calibrate(model, **way, temperature=value)
            vectors = [encoded(one, [text], prompt=prompt) for one in (fair, number)]
            assert error(*vectors) <= TOLERANCE


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_dtypes(make_tiny: Make, dtype: torch.dtype) -> None:
    """In bfloat16 the query and 1/0.3 are rounded once more: some 2⁻⁸ in each of four layers."""
    model = make_tiny("bert", "mean")
    fair = fairspan.calibrate(model, strength=0, temperature=STEPS).to(dtype)
    with matrices_instead(), torch.inference_mode():
        expected = fair(fair.preprocess(TEXTS))["sentence_embedding"]
    with torch.inference_mode():
        found = fair(fair.preprocess(TEXTS))["sentence_embedding"]
    # 1/0.6 is held in float32, whatever the dtype of the model.
    assert error(found, expected) <= (2**-5 if dtype == torch.bfloat16 else 1e-6)


def test_what_steps_are() -> None:
    """From Python, JSON and the command line; all equal, they are a number. In a list of treatments
    a name has no comma that would end it."""
    calibration = Calibration(strength=0.0, temperature=STEPS)
    assert calibration.temperature == tuple(STEPS)
    assert hash(calibration) == hash(calibration.but(temperature=NAME))
    for given in (tuple(STEPS), [[*step] for step in STEPS], NAME, "1.0to10_0.6to30_3e-1"):
        assert calibration.but(temperature=given) == calibration
    assert Calibration(temperature=[(5, 0.8), (None, 0.8)]).temperature == 0.8
    assert Calibration(temperature=[(None, 1)]).temperature == 1.0
    treatment = as_treatment(calibration)
    assert treatment.name == f"plain+temperature={NAME}"
    assert as_treatment(treatment.name).calibration == calibration
    assert typed_words(f"plain,{treatment.name}") == ["plain", treatment.name]
    words_of_it = "temperature 1 to 10 tokens, 0.6 to 30 tokens, 0.3 beyond"
    assert in_words(calibration) == words_of_it


@pytest.mark.parametrize(
    "temperature",
    [
        [],
        [(10, 1.0)],
        [(10, 1.0), (None, 0.5), (None, 0.3)],
        [(None, 1.0), (10, 0.5)],
        [(10, 1.0), (10, 0.6), (None, 0.3)],
        [(0, 1.0), (None, 0.3)],
        [(True, 1.0), (None, 0.3)],
        [0.5, 0.3],
        [(10, 1.0, 2), (None, 0.3)],
        "1to10",
        "1to_0.3",
        "1to10,0.3",
        "",
    ],
    ids=str,
)
def test_what_steps_are_not(temperature: Any) -> None:
    with pytest.raises(
        fairspan.DesignError, match=r"temperature must be a number or steps such as"
    ):
        Calibration(temperature=temperature)


@pytest.mark.parametrize("value", [0, "warm", float("nan")])
def test_values_of_steps(value: Any) -> None:
    with pytest.raises(fairspan.DesignError, match="above 0 and at most 1, got"):
        Calibration(temperature=[(10, 1.0), (None, value)])
