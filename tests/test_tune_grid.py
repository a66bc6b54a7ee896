"""Grids of a tuning: what is in the named ones, files and lists of candidates, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairspan import Calibration, DesignError
from fairspan.calibration.calibration import PRESETS
from fairspan.calibration.treatment import Treatment, as_treatment
from fairspan.studies.tune.grid import GRIDS, read_grid

Written = Callable[[str], Path]
TILES, PAPER, TEMPSCALE = PRESETS["tiles"], PRESETS["paper"], PRESETS["tempscale"]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        file = tmp_path / "grid.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write


def refusal(given: Any) -> str:
    with pytest.raises(DesignError) as caught:
        read_grid(given)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    assert "[[grid" not in said
    assert caught.value.__cause__ is None
    return said


def names(given: Any) -> list[str]:
    return [candidate.name for candidate in read_grid(given)]


# --- the named grids


def test_the_full_grid_is_the_product_it_is_made_of() -> None:
    """As calibrations, whatever the candidates are called."""
    wanted = [
        *(TILES.but(tile_size=size, temperature=t) for size in (32, 64, 128) for t in (1.0, 0.9, 0.8)),
        *(TILES.but(tile_layers=layers) for layers in ("first_three_quarters", "first_half")),
        *(TILES.but(temperature=t, sides="document") for t in (0.8, 1.0)),
        *(PAPER.but(basket_size=size, strength=s) for size in (64, 128, 256) for s in (0.5, 1.0)),
        *(PAPER.but(basket_size=size, sides="document") for size in (128, 64)),
        PRESETS["retrieval"],
        *(TEMPSCALE.but(temperature=t) for t in (0.8, 0.9)),
    ]
    found = [candidate.calibration for candidate in read_grid("full")]
    assert len(found) == len(set(found)) == len(wanted) == 24
    assert set(found) == set(wanted)


def test_the_small_grid_is_part_of_the_full_one() -> None:
    assert len(GRIDS["small"]) == 10
    assert set(GRIDS["small"]) < set(GRIDS["full"])


@pytest.mark.parametrize("grid", GRIDS)
def test_no_candidate_spells_out_what_its_preset_has(grid: str) -> None:
    """Every field that a name has changes something, and nothing is there twice."""
    for name, candidate in zip(GRIDS[grid], read_grid(grid), strict=True):
        assert candidate == as_treatment(name)
        base, *changes = name.split("+")
        for change in changes:
            rest = "+".join([base, *(other for other in changes if other != change)])
            assert as_treatment(rest).calibration != candidate.calibration, name


def test_reading_a_grid_needs_no_torch() -> None:
    code = (
        "import sys; from fairspan.studies.tune.grid import read_grid; read_grid('full'); "
        "heavy = {'torch', 'transformers', 'polars'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- files and lists


def test_a_file_has_names_and_tables(written: Written) -> None:
    file = written(
        """
        treatments = ["tiles", "128-last"]

        [[treatment]]
        name = "mine"
        preset = "tiles"
        tile_size = 48
        temperature = [[400, 0.9]]

        [[treatment]]
        name = "tiles+tile_size=32"
        sides = "document"
        """
    )
    wanted = (
        Treatment("tiles", TILES),
        Treatment("128-last", Calibration(basket_size=128, layers="last")),
        Treatment("mine", TILES.but(tile_size=48, temperature=[(400, 0.9)])),
        Treatment("tiles+tile_size=32", TILES.but(tile_size=32, sides="document")),
    )
    assert read_grid(file) == read_grid(str(file)) == wanted


def test_tables_alone(written: Written) -> None:
    assert names(written('[[treatment]]\nname = "mine"\nstrength = 0.7\n')) == ["mine"]
    assert names(written('[[treatments]]\nname = "mine"\nstrength = 0.7\n')) == ["mine"]


@pytest.mark.parametrize("grid", GRIDS)
def test_a_file_extends_a_named_grid(written: Written, grid: str) -> None:
    assert read_grid(written(f'extends = "{grid}"')) == read_grid(grid)
    file = written(f'extends = "{grid}"\ntreatments = ["tiles+tile_size=48"]\n[[treatment]]\nname = "512-last"\n')
    assert names(file) == [*GRIDS[grid], "tiles+tile_size=48", "512-last"]


def test_a_list_of_treatments() -> None:
    mine = Treatment("mine", TILES.but(tile_size=48))
    found = read_grid(["paper", mine, {"name": "yours", "strength": 0.7}, Calibration(strength=0.2)])
    assert found == (
        Treatment("paper", PAPER),
        mine,
        Treatment("yours", Calibration(strength=0.7)),
        Treatment("paper+strength=0.2", Calibration(strength=0.2)),
    )
    assert read_grid(tuple(found)) == found


def test_a_named_grid_comes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small").write_text('treatments = ["tiles"]', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert names("small") == list(GRIDS["small"])
    assert names("./small") == names(Path("small")) == ["tiles"]


# --- what is refused


@pytest.mark.parametrize(
    ("treatment", "said"),
    [
        ("none", "'none' is the plain model, which is always measured: omit it"),
        ("paper+strength=0", "'paper+strength=0' is the plain model"),
        ("whitening", "'whitening' has the baseline whitening, which cannot be written to calibration.json"),
        ("whitening-8+temperature=0.8", "has the baseline whitening-8, which cannot be written to calibration.json"),
        ("last2avg", "'last2avg' has the baseline last2avg"),
        ("tiles+tiles=segments", "cuts documents into their segments, which cannot be written to calibration.json"),
        ("paper+baskets=segments", "cuts documents into their segments"),
        ("paper", "the treatment 'paper' is named twice"),
        ("128-last_half", "'paper' and '128-last_half' are the same calibration: omit one of them"),
        ("papre", "there is no treatment 'papre': begin with paper"),
        ("tiles+tile_size=0", "'tiles+tile_size=0': tile_size must be a whole number of at least 1"),
        ("tiles+colour=1", "'tiles+colour=1': Calibration has no field 'colour'. Fields: basket_size"),
    ],
)
def test_what_cannot_be_a_candidate(written: Written, treatment: str, said: str) -> None:
    file = written(f'treatments = ["paper", "{treatment}"]')
    in_file, in_list = refusal(file), refusal(["paper", treatment])
    assert in_file.startswith(f"{file}: ")
    assert treatment in in_file
    assert said in in_file
    assert in_list == in_file.replace(str(file), "grid", 1)
    table = written(f'treatments = ["paper"]\n[[treatment]]\nname = "{treatment}"')
    assert refusal(table) == in_file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no treatment: name at least one, for example tiles"),
        ("treatments = []", "has no treatment: name at least one"),
        ('treatments = ["tiles"]\ntreatments = ["paper"]', "is not TOML: Cannot overwrite a value"),
        ('treatments = ["tiles"]\n[[treatment]\n', "is not TOML: "),
        ('treatments = ["tiles"]\n[[treatment]\n', "(at line 2, column "),
        ('treatment = "tiles"', "treatments with fields are tables, each below a line [[ treatment ]]"),
        ('treatment = ["tiles"]', "each below a line [[ treatment ]]"),
        ('[treatment]\nname = "tiles"', "each below a line [[ treatment ]]"),
        ('treatments = "tiles"', "treatments must be a list of names, got 'tiles'"),
        ('treatments = {name = "tiles"}', "treatments must be a list of names"),
        ("treatments = [3]", "a treatment is a name such as 'none' or 'paper', or a Calibration, got 3"),
        ('treatments = [["tiles"]]', "got ['tiles']"),
        ("[[treatment]]\ntile_size = 32", "a treatment given as a table needs a name, got {'tile_size': 32}"),
        ("[[treatment]]\nname = 3", "needs a name, got {'name': 3}"),
        ('[[treatment]]\nname = "mine"\ntile_sizes = 32', "'mine': Calibration has no field 'tile_sizes'"),
        ('[[treatment]]\nname = "mine"\npreset = "papre"', "'mine': there is no preset 'papre'"),
        ('[[treatment]]\nname = "mine"\npreset = 3', "'mine': a calibration is a preset's name"),
        ('[[treatment]]\nname = "mine"\nstrength = nan', "'mine': strength must be a number from 0 to 1, got nan"),
        ('[[treatment]]\nname = "mine"\nbaseline = "last2avg"', "'mine' has the baseline last2avg"),
        ('tiles = ["paper"]', "a grid has no field 'tiles'. Fields: extends, treatments, treatment"),
        ('extends = "smal"', "extends must be one of small, full, got 'smal'"),
        ('extends = ["small"]', "extends must be one of small, full, got ['small']"),
        (
            'extends = "small"\ntreatments = ["tiles"]',
            "grid.toml, which extends small: the treatment 'tiles' is named twice",
        ),
        (
            'extends = "small"\ntreatments = ["none+tile_size=64"]',
            "grid.toml, which extends small: 'tiles+temperature=1' and 'none+tile_size=64' are the same calibration",
        ),
    ],
)
def test_a_file_that_is_no_grid_is_one_line_with_its_name(written: Written, text: str, said: str) -> None:
    file = written(text)
    line = refusal(file)
    assert line.startswith(str(file))
    assert said in line


@pytest.mark.parametrize("given", ["smal", "nowhere.toml", "", Path("nowhere.toml"), Path("small")])
def test_a_grid_that_is_not_there_names_the_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DesignError) as caught:
        read_grid(given)
    assert caught.value.for_command_line.endswith(": --grid takes small, full or a TOML file.")
    assert "there is no grid '" in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_bytes(b"\xff\xfe\x00")
    assert refusal(file) == f"{file} cannot be read: it is not UTF-8 text."
    assert refusal(file / "deeper.toml").startswith(f"{file / 'deeper.toml'} cannot be read: ")
    assert "there is no grid" in refusal(tmp_path)


@pytest.mark.parametrize("given", [3, None, {"name": "tiles"}, TILES, {"tiles"}])
def test_what_is_no_grid_is_one_line(given: Any) -> None:
    assert refusal(given).startswith("grid must be small, full, a TOML file or a list of treatments, got ")


def test_an_empty_list_is_one_line() -> None:
    assert refusal([]) == "grid has no treatment: name at least one, for example tiles."
    assert "got 3" in refusal(["tiles", 3])


@pytest.mark.parametrize("name", ["none", "chunk-mean"])
def test_no_candidate_has_the_name_of_what_it_is_compared_with(name: str) -> None:
    assert refusal([{"name": name, "preset": "tiles"}]) == (
        f"grid: {name!r} is the name of what candidates are compared with: choose another name."
    )
