"""`Treatment`: the grammar of names, names and words of calibrations, and what each text gets."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairspan import Calibration, PerSide
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.treatment import Treatment, as_treatment, as_treatments
from fairspan.calibration.words import in_words
from tests.builders.saying import said_by

PLAIN, FAIR = PRESETS["plain"], PRESETS["fair"]
TILES = Calibration.preset("tiles-64")
LONG = "long texts in tiles of"


@pytest.mark.parametrize(
    ("name", "calibration"),
    [
        (
            " retrieval + basket_size = 64 + eos=equal",
            PRESETS["retrieval"].but(basket_size=64, eos="equal"),
        ),
        ("tiles-64+tile_size=32", TILES.but(tile_size=32)),
        ("fair+tile_size=window", FAIR.but(tile_size="window")),
        ("tiles-64+tile_size=null+pooling=model", PRESETS["tempscale"]),
    ],
)
def test_names_that_are_not_the_shortest(name: str, calibration: Calibration) -> None:
    treatment = as_treatment(name)
    assert treatment == Treatment(name.strip(), calibration)
    assert as_treatment(treatment) is treatment


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("papre", "there is no treatment 'papre': begin with fair, paper"),
        ("", "there is no treatment ''"),
        ("tiles-0", "there is no treatment 'tiles-0'"),
        (f"tiles-{'9' * 5000}", "there is no treatment 'tiles-9"),
        ("tiles-window", "there is no treatment 'tiles-window'"),
        ("chunk-mean-0", "there is no treatment 'chunk-mean-0'"),
        ("paper+64", "written name=value, as in +basket_size=64, got '64'"),
        ("paper+size=64", "no field 'size'. Fields: basket_size"),
        ("paper+basket_size=many", "got 'many'"),
        (f"paper+basket_size={'9' * 5000}", "basket_size must be a whole number"),
        ("tiles-64+tiles=words", "tiles can be segments, as in fair+tiles=segments, or omitted"),
        ("paper+tiles=segments", "'paper+tiles=segments' has no tiles: begin with a base that has"),
        ("chunk-mean+tile_size=8+tiles=segments", "has no tiles"),
        ("chunk-mean+chunks=segments", "no field 'chunks'"),
        (7, "or a Calibration, got 7"),
    ],
)
def test_what_is_no_treatment_is_one_line(name: Any, message: str) -> None:
    assert message in said_by(as_treatment, name)


def test_treatments_differ() -> None:
    assert as_treatments(["plain", TILES]) == (as_treatment("plain"), as_treatment("tiles-64"))
    assert "name at least one treatment" in said_by(as_treatments, [])
    assert "'fair' is named twice" in said_by(as_treatments, ["fair", "plain", " fair"])
    assert "treatments must be a list" in said_by(as_treatments, "fair")


def test_segments_as_tiles() -> None:
    treatment = as_treatment("fair+tiles=segments")
    assert treatment == Treatment("fair+tiles=segments", FAIR, by_segments=True)
    assert Treatment.from_dict(json.loads(json.dumps(treatment.to_dict()))) == treatment


@pytest.mark.parametrize(
    ("name", "size"),
    [("chunk-mean", 128), ("chunk-mean-64+level=true", 64), ("chunk-mean-window", "window")],
)
def test_averaged_chunks(name: str, size: int | str) -> None:
    treatment = as_treatment(name)
    assert (treatment.chunks, treatment.acts, treatment.chunk_size()) == (True, True, size)
    assert as_treatment("chunk-mean").chunk_size(512) == 512
    assert treatment.baseline == name.partition("+")[0]
    assert Treatment.from_dict(json.loads(json.dumps(treatment.to_dict()))) == treatment


@pytest.mark.parametrize(
    ("sides", "documents", "segments"),
    [("both", True, True), ("document", True, False), ("query", False, True)],
)
def test_sides(sides: str, documents: bool, segments: bool) -> None:
    """IRF's control calibrates documents only. All of it is embedded on the document side."""
    treatment = as_treatment(f"paper+sides={sides}")
    assert treatment.for_documents == PRESETS["paper" if documents else "plain"]
    assert treatment.for_segments == PRESETS["paper" if segments else "plain"]


def test_each_side_has_its_own_temperature() -> None:
    """So that vectors of one side do not depend on the other's. Segments are documents here."""
    treatment = as_treatment(Calibration(temperature=PerSide(query=0.9, document=0.8)))
    assert treatment.for_documents == treatment.for_segments == Calibration(temperature=0.8)
    assert treatment.for_queries == Calibration(temperature=0.9)


SPECIAL = st.sampled_from(["auto", "basket", "equal", "original"])
FIELDS: dict[str, Any] = {
    "basket_size": st.integers(1, 4096),
    "layers": st.one_of(
        st.sampled_from(["last_half", "last", "all"]),
        st.integers(1, 12),
        st.lists(st.integers(0, 11), min_size=1, max_size=3),
    ),
    "strength": st.floats(0, 1),
    "bos": SPECIAL,
    "eos": SPECIAL,
    "short_texts": st.sampled_from(["calibrate", "leave"]),
    "temperature": st.one_of(st.floats(0.01, 1), st.just(((256, 1.0), (None, 0.8)))),
    "sides": st.sampled_from(["both", "document", "query"]),
    "scale_position_bias": st.booleans(),
    "tile_size": st.one_of(st.none(), st.just("window"), st.integers(1, 4096)),
    "pooling": st.sampled_from(["model", "even", "auto"]),
    "ridge": st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    "level": st.booleans(),
}
BY_SIDE = {"sides": st.just("both"), "temperature": st.just(PerSide(query=1.0, document=0.8))}


@settings(max_examples=60, deadline=None)
@given(st.builds(Calibration, **FIELDS) | st.builds(Calibration, **FIELDS | BY_SIDE))
def test_names_and_json_of_a_calibration_mean_it(calibration: Calibration) -> None:
    treatment = as_treatment(calibration)
    assert treatment.calibration == calibration
    assert as_treatment(treatment.name).calibration == calibration
    read = Calibration.from_json(calibration.to_json())
    assert read == Calibration.from_dict(calibration.to_dict()) == calibration
    assert hash(read) == hash(calibration)


@pytest.mark.parametrize(
    ("calibration", "name", "words"),
    [
        *((preset, name, None) for name, preset in PRESETS.items()),
        (PLAIN.but(level=True), "plain+level=true", "level vectors"),
        (FAIR.but(temperature=0.9), "fair+temperature=0.9", None),
        (
            PRESETS["tempscale"].but(scale_position_bias=True),
            "tempscale+scale_position_bias=true",
            None,
        ),
        (TILES.but(tile_size=32, sides="query"), "tiles-32+sides=query", None),
        (PLAIN.but(basket_size=64), "plain+basket_size=64", "the plain model"),
        (
            PLAIN.but(pooling="even", ridge=1e16),
            "plain+pooling=even+ridge=1e16",
            "pooled evenly with ridge 1e+16",
        ),
        (
            PLAIN.but(temperature={"query": 0.8, "document": 0.9}),
            'plain+temperature={"query":0.8,"document":0.9}',
            "temperatures {'query': 0.8, 'document': 0.9}",
        ),
        (
            TILES.but(tile_size=48, temperature=0.7, ridge=0.1, pooling="even", sides="document"),
            "tiles-48+temperature=0.7+sides=document+pooling=even+ridge=0.1",
            "tiles of 48 tokens at temperature 0.7, pooled evenly with ridge 0.1, documents only",
        ),
        (
            TILES.but(tile_size=48, short_texts="leave", temperature=1),
            "tiles-48+short_texts=leave+temperature=1",
            f"{LONG} 48 tokens, pooled evenly if the model takes the mean",
        ),
        (PLAIN.but(tile_size="window"), "plain+tile_size=window", f"{LONG} up to 512 tokens"),
        (PRESETS["retrieval"], "retrieval", "baskets of 128 tokens at strength 0.5"),
        (
            Calibration(layers="last", temperature=0.9, tile_size=64),
            "paper+layers=last+temperature=0.9+tile_size=64",
            "tiles of 64 tokens and baskets of 128 tokens in the last layer at temperature 0.9",
        ),
        (Calibration(layers=3), "paper+layers=3", "baskets of 128 tokens in the last 3 layers"),
        (Calibration(layers=[1]), "paper+layers=[1]", "baskets of 128 tokens in layers 1"),
    ],
)
def test_names_and_words(calibration: Calibration, name: str, words: str | None) -> None:
    """Names are the shortest, and claim baskets only where there are some."""
    assert as_treatment(calibration).name == name
    assert as_treatment(name).calibration == calibration
    if words is not None:
        assert in_words(calibration) == words
