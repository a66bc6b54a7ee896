"""`Calibration` as a value: presets, refusals, layers, and what it changes on a side."""

from typing import Any

import pytest

from fairspan import Calibration, DesignError
from fairspan.calibration.calibration import PRESETS


def test_presets_are_the_published_variants() -> None:
    """Strength, first token and short texts of both variants; TempScale's 0.8."""
    assert [*PRESETS] == ["fair", "paper", "retrieval", "tempscale", "plain"]
    paper, retrieval = PRESETS["paper"], PRESETS["retrieval"]
    assert (paper.basket_size, paper.layers, paper.strength) == (128, "last_half", 1)
    assert paper.short_texts == "calibrate"
    assert paper.special_baskets("cls") == ("equal", "basket")
    assert (retrieval.strength, retrieval.short_texts) == (0.5, "leave")
    assert retrieval.special_baskets("cls") == ("original", "basket")
    assert retrieval.special_baskets("lasttoken") == ("original", "equal")
    assert retrieval.special_baskets("mean") == ("basket", "basket")
    tempscale = PRESETS["tempscale"]
    assert (tempscale.strength, tempscale.temperature) == (0, 0.8)
    assert not PRESETS["plain"].acts
    leaves = PRESETS["fair"].but(short_texts="leave")
    assert leaves.reads_what_fits_plainly
    for other in (PRESETS["fair"], leaves.but(strength=0.5)):
        assert not other.reads_what_fits_plainly


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"basket_size": 0}, "basket_size must be a whole number of at least 1, got 0"),
        ({"basket_size": True}, "got True"),
        ({"layers": "first"}, "'last_half', 'last', 'all'"),
        ({"layers": []}, r"got \[\]"),
        ({"layers": [-1]}, r"got \[-1\]"),
        ({"strength": 1.1}, "strength must be a number from 0 to 1, got 1.1"),
        ({"strength": float("nan")}, "got nan"),
        ({"bos": "own"}, "'auto', 'basket', 'equal', 'original', got 'own'"),
        ({"eos": 0.1}, "got 0.1"),
        ({"short_texts": "ramp"}, "'calibrate', 'leave', got 'ramp'"),
        ({"temperature": 0}, "above 0 and at most 1, got 0"),
        ({"temperature": {"doc": 0.8}}, "'query' and 'document'"),
        ({"temperature": {"query": {"query": 0.8}}}, "at most 1, got {'query': 0.8}"),
        ({"sides": "left"}, "'both', 'document', 'query'"),
        ({"sides": "query", "temperature": {"query": 0.9}}, "already limits"),
        ({"scale_position_bias": "yes"}, "True, False, got 'yes'"),
        ({"tile_size": 0}, "a whole number of tokens, or 'window', got 0"),
        ({"tile_size": "x"}, "got 'x'"),
        ({"ridge": 0}, "ridge must be a number above 0, got 0"),
        ({"ridge": float("inf")}, "got inf"),
        ({"ridge": "0.1"}, "got '0.1'"),
        ({"ridge": 10**400}, "got 1000"),
        ({"level": "yes"}, "level must be one of True, False, got 'yes'"),
        ({"size": 3}, "has no field 'size'. Fields: basket_size"),
    ],
)
def test_wrong_values_are_refused_with_the_choices(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DesignError, match=message):
        Calibration().but(**fields)


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [
        ("last_half", {3, 4, 5, 6}),
        ("last", {6}),
        ("all", set(range(7))),
        (2, {5, 6}),
        ([6, 0], {0, 6}),
    ],
)
def test_layers_of_a_model_with_seven(layers: Any, numbers: set[int]) -> None:
    """`last_half` is [L/2, L): of an odd number, the larger half."""
    assert Calibration(layers=layers).layer_numbers(7) == numbers


@pytest.mark.parametrize("layers", [[7], 8])
def test_layers_beyond_the_model_are_refused(layers: Any) -> None:
    message = "asks for more than the model's 7 layers, which are numbered 0 to 6"
    with pytest.raises(DesignError, match=rf"layers=(\(7,\)|8) {message}"):
        Calibration(layers=layers).layer_numbers(7)


@pytest.mark.parametrize(
    ("fields", "attends", "reads", "acts"),
    [
        ({}, False, False, False),
        ({"level": True}, False, False, True),
        ({"pooling": "even"}, False, True, True),
        ({"tile_size": 64}, True, True, True),
        ({"strength": 0.1}, True, True, True),
        ({"temperature": 0.9}, True, True, True),
        ({"temperature": {"document": 0.9}}, True, True, True),
        ({"temperature": {"query": 1, "document": 1}}, False, False, False),
    ],
)
def test_what_a_calibration_changes(
    fields: dict[str, Any], attends: bool, reads: bool, acts: bool
) -> None:
    """On documents; queries of a model for documents only are plain, and are never level."""
    calibration = PRESETS["plain"].but(**fields)
    for asked in (calibration, calibration.on("document")):
        assert (asked.attends, asked.reads, asked.acts) == (attends, reads, acts)
    if "temperature" not in fields:
        assert not calibration.but(sides="document").on("query").acts
    assert not calibration.on("query").level
