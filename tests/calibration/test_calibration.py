"""`Calibration` as a value: defaults, presets, refusals, and the round trip through JSON."""

import json
from typing import Any

import pytest

from fairspan import Calibration, DesignError, PerSide
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.spelling import as_calibration


def test_presets_are_the_published_variants() -> None:
    """Strength, first token and short texts of both variants; TempScale's 0.8."""
    paper = Calibration.preset("paper")
    assert (paper.basket_size, paper.layers, paper.strength, paper.short_texts) == (
        128,
        "last_half",
        1,
        "calibrate",
    )
    assert paper.special_baskets("cls") == ("equal", "basket")
    retrieval = Calibration.preset("retrieval")
    assert (retrieval.strength, retrieval.short_texts) == (0.5, "leave")
    assert retrieval.special_baskets("cls") == ("original", "basket")
    assert retrieval.special_baskets("lasttoken") == ("original", "equal")
    tempscale = Calibration.preset("tempscale")
    assert (tempscale.strength, tempscale.temperature) == (0, 0.8)
    assert not Calibration.preset("plain").acts


@pytest.mark.parametrize("name", PRESETS)
def test_under_mean_pooling_no_special_token_has_a_basket_of_its_own(name: str) -> None:
    calibration = Calibration.preset(name)
    assert calibration.special_baskets("mean") == ("basket", "basket")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"basket_size": 0}, "basket_size must be a whole number of at least 1, got 0"),
        ({"basket_size": 1.5}, "got 1.5"),
        ({"basket_size": True}, "got True"),
        ({"layers": "first"}, "'last_half', 'last', 'all'"),
        ({"layers": 0}, "got 0"),
        ({"layers": []}, r"got \[\]"),
        ({"layers": [-1]}, r"got \[-1\]"),
        ({"strength": 1.1}, "strength must be a number from 0 to 1, got 1.1"),
        ({"strength": "full"}, "got 'full'"),
        ({"strength": float("nan")}, "got nan"),
        ({"bos": "own"}, "'auto', 'basket', 'equal', 'original', got 'own'"),
        ({"eos": 0.1}, "got 0.1"),
        ({"short_texts": "ramp"}, "'calibrate', 'leave', got 'ramp'"),
        ({"temperature": 0}, "above 0 and at most 1, got 0"),
        ({"temperature": 1.2}, "got 1.2"),
        ({"temperature": []}, r"got \[\]"),
        ({"temperature": {"doc": 0.8}}, "'query' and 'document'"),
        ({"temperature": {"query": {"query": 0.8}}}, "at most 1, got {'query': 0.8}"),
        ({"sides": "left"}, "'both', 'document', 'query'"),
        ({"sides": "query", "temperature": {"query": 0.9}}, "already limits"),
        ({"scale_position_bias": "yes"}, "True, False, got 'yes'"),
        *(
            ({"tile_size": v}, rf"a whole number of tokens, or 'window', got {v!r}")
            for v in (0, True, "x")
        ),
        ({"size": 3}, "has no field 'size'. Fields: basket_size"),
    ],
)
def test_wrong_values_are_refused_with_the_choices(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(DesignError, match=said):
        as_calibration(None, **fields)


@pytest.mark.parametrize(
    "calibration",
    [
        *PRESETS.values(),
        Calibration(layers=[5, 3], bos="equal", eos="original", sides="document"),
        Calibration(layers=2, temperature=PerSide(query=1.0, document=0.8)),
        Calibration(temperature=((256, 1.0), (None, 0.8))),
        Calibration(strength=0.0, tile_size=32),
        Calibration(pooling="even", ridge=1e16),
        Calibration(pooling="even", ridge=5e-324),
    ],
)
def test_json_round_trip(calibration: Calibration) -> None:
    assert Calibration.from_json(calibration.to_json()) == calibration
    assert Calibration.from_dict(json.loads(json.dumps(calibration.to_dict()))) == calibration
    assert hash(calibration) == hash(Calibration.from_json(calibration.to_json()))


@pytest.mark.parametrize(
    ("layers", "wanted"),
    [
        ("last_half", {3, 4, 5, 6}),
        ("last", {6}),
        ("all", set(range(7))),
        (2, {5, 6}),
        ([0, 6], {0, 6}),
    ],
)
def test_layers_of_a_model_with_seven(layers: Any, wanted: set[int]) -> None:
    """`last_half` is [L/2, L): of an odd number, the larger half."""
    assert Calibration(layers=layers).layer_numbers(7) == wanted


def test_fields_alone_change_fair_unless_they_are_about_baskets() -> None:
    """So that a size of tiles changes `fair`, and a size of baskets does not bring tiles."""
    fair = as_calibration(None)
    assert fair == PRESETS["fair"]
    assert as_calibration(None, tile_size=64) == fair.but(tile_size=64)
    assert as_calibration(None, sides="both") == fair.but(sides="both")
    assert as_calibration(None, basket_size=64) == Calibration(basket_size=64)
    assert as_calibration(None, strength=0.5, tile_size=64) == Calibration(
        strength=0.5, tile_size=64
    )
    alone = as_calibration("tiles-64")
    no_tiles = as_calibration("tiles-64", tile_size=None, pooling="model")
    assert no_tiles == Calibration.preset("tempscale")
    assert alone.on("query").acts
    assert alone.on("query").tile_size
    one_side = alone.but(sides="document")
    assert not one_side.on("query").acts
    assert not one_side.on("query").tile_size
    assert one_side.on("query") == Calibration.preset("plain")


def test_layers_beyond_the_model_are_refused() -> None:
    said = "asks for more than the model's 7 layers, which are numbered 0 to 6"
    with pytest.raises(DesignError, match=rf"layers=\(7,\) {said}"):
        Calibration(layers=[7]).layer_numbers(7)
    with pytest.raises(DesignError, match=f"layers=8 {said}"):
        Calibration(layers=8).layer_numbers(7)


def test_tiles_of_a_size_are_a_preset() -> None:
    tiles = Calibration.preset("tiles-64")
    assert Calibration.preset("tiles-128") == tiles.but(tile_size=128)
    assert not tiles.level
    with pytest.raises(DesignError, match="there is no preset 'tiles-0'"):
        Calibration.preset("tiles-0")


def test_fair_reads_every_document_in_tiles_and_makes_it_level() -> None:
    fair = PRESETS["fair"]
    assert fair.on("document").tile_size
    assert fair.short_texts == "calibrate"
    assert fair.level
    assert not fair.reads_what_fits_plainly
    leaves = fair.but(short_texts="leave")
    assert leaves.reads_what_fits_plainly


def test_the_presets_there_are() -> None:
    assert [*PRESETS] == ["fair", "paper", "retrieval", "tempscale", "plain"]


def test_a_preset_with_changes_is_a_calibration() -> None:
    assert as_calibration("paper+basket_size=64") == Calibration(basket_size=64)
    even = Calibration(strength=0, pooling="even", sides="document")
    assert as_calibration("plain+pooling=even+sides=document") == even
    assert as_calibration("fair+short_texts=leave", tile_size=64) == PRESETS["fair"].but(
        short_texts="leave", tile_size=64
    )
