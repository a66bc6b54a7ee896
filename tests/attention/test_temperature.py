"""Temperatures by length: which text gets which, in every path, and what they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import fairspan
from fairspan.calibration.calibration import Calibration
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.calibration.words import in_words
from tests.attention.by_matrices import matrices_instead
from tests.attention.test_architectures import error
from tests.attention.test_tiles import assert_agrees
from tests.builders.commands import Run
from tests.builders.tiny import words

Make = Callable[..., SentenceTransformer]

STEPS = [(10, 1.0), (30, 0.6), (None, 0.3)]
NAME = "1to10_0.6to30_0.3"
# With the special tokens of BERT: 72, 30, 31, 10, 11, 3 and 2 tokens, so both sides of each border.
TEXTS = [words(count, seed) for seed, count in enumerate((70, 28, 29, 8, 9, 1, 0))]
KINDS = [
    ("bert", "mean", "right"),
    ("bert", "cls", "right"),
    ("roberta", "cls", "left"),
    ("modernbert", "mean", "left"),
    ("modernbert", "cls", "right"),
    ("qwen3", "lasttoken", "left"),
    ("t5", "mean", "right"),
]
WAYS: list[dict[str, Any]] = [
    {"calibration": "plain"},
    {"calibration": "plain", "scale_position_bias": True},
    {"calibration": "paper", "basket_size": 5},
    {"calibration": "plain", "tile_size": 7},
    {"calibration": "plain", "tile_size": 7, "pooling": "auto", "sides": "document"},
]
# Four layers of float32 arithmetic in another order, relative to the largest value.
TOLERANCE = 1e-5


def encoded(model: SentenceTransformer, texts: list[str], **options: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(model.encode_document(texts, **options)))


@pytest.mark.parametrize(("architecture", "pooling", "side"), KINDS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_batch_of_mixed_lengths(
    make_tiny: Make, architecture: str, pooling: str, side: str, way: dict[str, Any]
) -> None:
    """Against the reference by matrices; each text alone; and with the number of its own step."""
    model = make_tiny(architecture, pooling, padding_side=side)
    fair = fairspan.calibrate(model, **way, temperature=STEPS)
    assert_agrees(fair, TEXTS, TOLERANCE)
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


def test_a_saved_model_and_its_gradients(make_tiny: Make, tmp_path: Path) -> None:
    fair = fairspan.calibrate(make_tiny("bert", "mean"), strength=0, temperature=STEPS)
    fair.save_pretrained(str(tmp_path / "saved"))
    loaded = fairspan.load(str(tmp_path / "saved"))
    assert loaded[0].calibration == fair[0].calibration
    assert torch.equal(encoded(loaded, TEXTS), encoded(fair, TEXTS))
    loaded.train()
    loaded(loaded.preprocess(TEXTS))["sentence_embedding"].sum().backward()
    assert all(
        torch.isfinite(one.grad).all() for one in loaded.parameters() if one.grad is not None
    )


def test_what_steps_are() -> None:
    """From Python, JSON and the command line; all equal, they are a number."""
    calibration = Calibration(strength=0.0, temperature=STEPS)
    assert calibration.temperature == tuple(STEPS)
    assert hash(calibration) == hash(calibration.but(temperature=NAME))
    for given in (tuple(STEPS), [[*step] for step in STEPS], NAME, "1.0to10_0.6to30_3e-1"):
        assert calibration.but(temperature=given) == calibration
    assert Calibration.from_json(calibration.to_json()) == calibration
    assert Calibration(temperature=[(5, 0.8), (None, 0.8)]).temperature == 0.8
    assert Calibration(temperature=[(None, 1)]).temperature == 1.0
    assert calibration.on("query").acts
    assert not calibration.but(sides="document").on("query").acts
    treatment = as_treatment(calibration)
    assert treatment.name == f"plain+temperature={NAME}"
    assert as_treatment(treatment.name).calibration == calibration
    assert Treatment.from_dict(json.loads(json.dumps(treatment.to_dict()))) == treatment
    words_of_it = "temperature 1 to 10 tokens, 0.6 to 30 tokens, 0.3 beyond"
    assert in_words(calibration) == words_of_it


@pytest.mark.parametrize(
    "temperature",
    [
        [],
        [(10, 1.0)],
        [(10, 1.0), (None, 0.5), (None, 0.3)],
        [(None, 1.0), (10, 0.5)],
        [(30, 1.0), (10, 0.6), (None, 0.3)],
        [(10, 1.0), (10, 0.6), (None, 0.3)],
        [(0, 1.0), (None, 0.3)],
        [(10.5, 1.0), (None, 0.3)],
        [(True, 1.0), (None, 0.3)],
        [0.5, 0.3],
        [(10, 1.0, 2), (None, 0.3)],
        "1to10",
        "1to_0.3",
        "1to10,0.3",
        "hot",
        "",
    ],
    ids=str,
)
def test_what_steps_are_not(temperature: Any) -> None:
    with pytest.raises(
        fairspan.DesignError, match=r"temperature must be a number or steps such as"
    ):
        Calibration(temperature=temperature)


@pytest.mark.parametrize("value", [0, 1.5, "warm", None, float("nan")])
def test_values_of_steps(value: Any) -> None:
    with pytest.raises(fairspan.DesignError, match="above 0 and at most 1, got"):
        Calibration(temperature=[(10, 1.0), (None, value)])


def test_a_list_of_treatments_is_not_broken(
    run: Run, save_tiny: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "page.txt").write_text(f"{words(9, 1)}\n\n{words(9, 2)}", encoding="utf-8")
    model = save_tiny("bert", "mean")
    named = f"plain,tempscale+temperature={NAME},fair"
    done = run("inspect", model, "page.txt", "--borders", "blank", "--treatments", named, "--json")
    said = json.loads(done.ok.out)
    assert [one["treatment"] for one in said["verdicts"]] == named.split(",")
    assert run("calibrate", model, "made", "--preset", f"tempscale+temperature={NAME}").ok
    assert fairspan.load(str(tmp_path / "made"))[0].calibration.temperature == tuple(STEPS)
