"""`Treatment`: the grammar of names, tables in a configuration, and which side is embedded how."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import Calibration, DesignError, PerSide
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.calibration.words import in_words

TILES = Calibration.preset("tiles-64")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *((name, preset) for name, preset in PRESETS.items()),
        ("paper+layers=3", Calibration(layers=3)),
        ("paper+basket_size=64", Calibration(basket_size=64)),
        ("paper+basket_size=64+sides=document", Calibration(basket_size=64, sides="document")),
        ("paper+layers=last+strength=0.5", Calibration(layers="last", strength=0.5)),
        (
            "retrieval + basket_size = 64 + eos=equal",
            Calibration(
                strength=0.5, bos="original", eos="equal", short_texts="leave", basket_size=64
            ),
        ),
        ("paper+layers=[1,3]", Calibration(layers=[1, 3])),
        ("plain+temperature=0.9", Calibration(strength=0, temperature=0.9)),
        (
            "tempscale+scale_position_bias=true",
            Calibration(strength=0, temperature=0.8, scale_position_bias=True),
        ),
        ("tiles-64+tile_size=32", TILES.but(tile_size=32)),
        ("tiles-256", TILES.but(tile_size=256)),
        ("tiles-256+sides=document", TILES.but(tile_size=256, sides="document")),
        ("fair+tile_size=window", PRESETS["fair"].but(tile_size="window")),
        ("plain+tile_size=64", Calibration(strength=0, tile_size=64)),
        ("paper+tile_size=64", Calibration(tile_size=64)),
        ("tiles-64+tile_size=null+pooling=model", PRESETS["tempscale"]),
        (
            'plain+temperature={"query":0.8,"document":1}',
            Calibration(strength=0, temperature={"query": 0.8, "document": 1}),
        ),
    ],
)
def test_names(name: str, wanted: Calibration) -> None:
    found = as_treatment(name)
    assert found == Treatment(name, wanted)
    assert as_treatment(found) is found


def test_segments_as_tiles() -> None:
    treatment = as_treatment("fair+tiles=segments")
    assert treatment == Treatment("fair+tiles=segments", PRESETS["fair"], by_segments=True)
    assert not as_treatment("fair").by_segments
    assert Treatment.from_dict(json.loads(json.dumps(treatment.to_dict()))) == treatment


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("papre", "there is no treatment 'papre': begin with fair, paper"),
        ("", "there is no treatment ''"),
        ("none", "there is no treatment 'none'"),
        ("long", "there is no treatment 'long'"),
        ("128-last_half", "there is no treatment '128-last_half'"),
        ("q 0.8, d 1", "there is no treatment 'q 0.8, d 1'"),
        ("paper+basket_size=0", "basket_size must be a whole number of at least 1, got 0"),
        (f"paper+basket_size={'9' * 5000}", "basket_size must be a whole number"),
        ("paper+layers=0", "got 0"),
        ("tiles-0", "there is no treatment 'tiles-0'"),
        (f"tiles-{'9' * 5000}", "there is no treatment 'tiles-9"),
        ("tiles-window", "there is no treatment 'tiles-window'"),
        ("paper+64", "written name=value, as in +basket_size=64, got '64'"),
        ("paper+", "got ''"),
        ("paper+size=64", "no field 'size'. Fields: basket_size"),
        ("paper+basket_size=many", "got 'many'"),
        ("paper+strength=2", "strength must be a number from 0 to 1, got 2"),
        (f"paper+ridge={'9' * 400}", "ridge must be a number above 0, got 999"),
        ("paper+sides=left", "'both', 'document', 'query', got 'left'"),
        ("tiles-64+tiles=words", "tiles can be segments, as in fair+tiles=segments, or omitted"),
        ("paper+tiles=segments", "'paper+tiles=segments' has no tiles: begin with a base that has"),
        ("chunk-mean+tiles=segments", "has no tiles"),
        ("paper+baskets=segments", "no field 'baskets'"),
        ("chunk-mean+chunks=segments", "no field 'chunks'"),
        ("tiles-64+tile_size=0", "a whole number of tokens, or 'window', got 0"),
        ("paper+tile_reach=1", "no field 'tile_reach'"),
        ({"name": "mine", "preset": "paper"}, "got {'name': 'mine', 'preset': 'paper'}"),
        (7, "got 7"),
        (None, "got None"),
    ],
)
def test_what_is_no_treatment_is_one_line(given: Any, said: str) -> None:
    with pytest.raises(DesignError) as caught:
        as_treatment(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "size"),
    [("chunk-mean", 128), ("chunk-mean-64+level=true", 64), ("chunk-mean-window", "window")],
)
def test_averaged_chunks(name: str, size: int | str) -> None:
    treatment = as_treatment(name)
    assert (treatment.chunks, treatment.acts, treatment.chunk_size()) == (True, True, size)
    assert treatment.baseline == name.partition("+")[0]
    assert Treatment.from_dict(json.loads(json.dumps(treatment.to_dict()))) == treatment


@pytest.mark.parametrize(
    ("sides", "documents", "segments"),
    [("both", True, True), ("document", True, False), ("query", False, True)],
)
def test_sides(sides: str, documents: bool, segments: bool) -> None:
    """IRF's control calibrates documents only. All of it is embedded on the document side."""
    treatment = as_treatment(f"paper+basket_size=64+layers=last+sides={sides}")
    plain, calibrated = PRESETS["plain"], Calibration(basket_size=64, layers="last")
    assert treatment.for_documents == (calibrated if documents else plain)
    assert treatment.for_segments == (calibrated if segments else plain)
    assert treatment.calibration.on("document").acts == documents
    assert treatment.for_segments.on("document").acts == segments


def test_each_side_has_its_own_temperature() -> None:
    """So that vectors of one side do not depend on the other's. Segments are documents here."""
    calibration = Calibration(strength=0, temperature=PerSide(query=0.9, document=0.8))
    treatment = as_treatment(calibration)
    assert treatment.for_documents == treatment.for_segments == calibration.but(temperature=0.8)
    assert treatment.for_queries == calibration.but(temperature=0.9)
    assert not calibration.but(temperature=PerSide(document=0.8)).on("query").acts


CALIBRATIONS = st.builds(
    Calibration,
    basket_size=st.integers(1, 4096),
    layers=st.one_of(
        st.sampled_from(["last_half", "last", "all"]),
        st.integers(1, 12),
        st.lists(st.integers(0, 11), min_size=1, max_size=3),
    ),
    strength=st.floats(0, 1),
    bos=st.sampled_from(["auto", "basket", "equal", "original"]),
    eos=st.sampled_from(["auto", "basket", "equal", "original"]),
    short_texts=st.sampled_from(["calibrate", "leave"]),
    temperature=st.one_of(
        st.floats(0.01, 1),
        st.just(PerSide(query=1.0, document=0.8)),
        st.just(((256, 1.0), (None, 0.8))),
    ),
    scale_position_bias=st.booleans(),
    pooling=st.sampled_from(["model", "even", "auto"]),
    ridge=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    level=st.booleans(),
)


TILED = st.builds(
    Calibration.but, CALIBRATIONS, tile_size=st.one_of(st.just("window"), st.integers(1, 4096))
)


@settings(max_examples=200, deadline=None)
@given(st.one_of(CALIBRATIONS, TILED))
def test_a_calibration_is_named_so_that_its_name_means_it(calibration: Calibration) -> None:
    treatment = as_treatment(calibration)
    assert treatment.calibration == calibration
    assert as_treatment(treatment.name).calibration == calibration


@pytest.mark.parametrize(
    ("calibration", "name", "words"),
    [
        ({"pooling": "even"}, "plain+pooling=even", "pooled evenly"),
        (
            {"tile_size": 48, "temperature": 0.7, "pooling": "even", "ridge": 0.1},
            "tiles-48+temperature=0.7+pooling=even+ridge=0.1",
            "tiles of 48 tokens at temperature 0.7, pooled evenly with ridge 0.1",
        ),
        (
            {"tile_size": 48, "short_texts": "leave", "pooling": "auto"},
            "tiles-48+short_texts=leave+temperature=1",
            "long texts in tiles of 48 tokens, pooled evenly if the model takes the mean",
        ),
        (
            {"tile_size": "window"},
            "plain+tile_size=window",
            "long texts in tiles of up to 512 tokens",
        ),
    ],
)
def test_names_and_words_of_calibrations(
    calibration: dict[str, Any], name: str, words: str
) -> None:
    made = PRESETS["plain"].but(**calibration)
    assert (as_treatment(made).name, in_words(made)) == (name, words)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        *((preset.to_dict(), name) for name, preset in PRESETS.items()),
        ({"strength": 0, "temperature": 0.9}, "plain+temperature=0.9"),
        ({"strength": 0, "basket_size": 64}, "plain+basket_size=64"),
        ({**PRESETS["fair"].to_dict(), "temperature": 0.9}, "fair+temperature=0.9"),
        ({**PRESETS["fair"].to_dict(), "short_texts": "leave"}, "fair+short_texts=leave"),
        ({**TILES.to_dict(), "tile_size": 32}, "tiles-32"),
        ({**PRESETS["tempscale"].to_dict(), "sides": "document"}, "tempscale+sides=document"),
        ({**PRESETS["retrieval"].to_dict(), "strength": 0.7}, "retrieval+strength=0.7"),
        (
            {"strength": 0, "temperature": {"query": 0.8, "document": 0.9}},
            'plain+temperature={"query":0.8,"document":0.9}',
        ),
        ({"strength": 0, "pooling": "even", "ridge": 1e16}, "plain+pooling=even+ridge=1e16"),
        ({"tile_size": 64, "strength": 1}, "paper+tile_size=64"),
    ],
)
def test_names_are_the_shortest_and_claim_baskets_only_where_there_are(
    fields: dict[str, Any], name: str
) -> None:
    calibration = Calibration.from_dict(fields)
    assert as_treatment(calibration).name == name
    assert as_treatment(name).calibration.to_json() == calibration.to_json()
