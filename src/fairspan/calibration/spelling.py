"""Calibrations as users write them: names, fields, JSON files and folders."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import (
    CALIBRATION_FILE,
    DEFAULT,
    PRESETS,
    Calibration,
    preset_of,
)
from fairspan.errors import DesignError, first_line

_OF_BASKETS = {"basket_size", "layers", "strength", "bos", "eos"}

AnyCalibration = Calibration | str | Path | Mapping[str, Any]
"""A calibration, or what `as_calibration` makes one of."""


def as_calibration(calibration: AnyCalibration | None, **changes: Any) -> Calibration:
    """A calibration from a preset's name, its JSON form, a file or a folder, or fields alone.

    A string that is no preset's name means a file if it looks like a path or exists. Fields alone
    change "fair", or if one of them is about baskets "paper"; with a size of tiles, "plain".
    """
    match calibration:
        case None:
            base = PRESETS[DEFAULT]
            if _OF_BASKETS & changes.keys():
                base = PRESETS["paper" if changes.get("tile_size") is None else "plain"]
        case Calibration():
            base = calibration
        case Mapping():
            base = Calibration.from_dict(calibration)
        case str() if not _names_file(calibration):
            base = Calibration.preset(calibration)
        case str() | Path():
            base = read_calibration(calibration)
        case _:
            raise DesignError(
                f"a calibration is a preset's name ({', '.join(PRESETS)}) or a Calibration, got "
                f"{calibration!r}."
            )
    return base.but(**changes)


def _names_file(name: str) -> bool:
    like_a_path = name.endswith(".json") or Path(name).name != name
    return preset_of(name) is None and (like_a_path or os.path.exists(name))


def read_calibration(path: str | Path) -> Calibration:
    """The calibration in a JSON file, or in the `calibration.json` of a folder."""
    file = Path(path)
    try:
        file = file / CALIBRATION_FILE if file.is_dir() else file
        return Calibration.from_json(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DesignError(f"there is no file {file}.") from None
    except DesignError as error:
        raise DesignError(f"{file}: {error}") from None
    except (OSError, ValueError) as error:
        raise DesignError(f"{file} cannot be read: {first_line(error)}.") from None
