"""A calibration in a file: the JSON that `Calibration.to_json` writes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.errors import CalibrationError

CALIBRATION_FILE = "calibration.json"


def read_if_file(
    given: Calibration | str | Path | Mapping[str, Any] | None,
) -> Calibration | str | Mapping[str, Any] | None:
    """The calibration in a file, if `given` means one; anything else as it is.

    A `Path` means a file or a folder. So does a string that is no preset's name, and looks like a path or is there.
    """
    if isinstance(given, str):
        like_a_path = given.endswith(".json") or Path(given).name != given
        return read_calibration(given) if given not in PRESETS and (like_a_path or os.path.exists(given)) else given
    return read_calibration(given) if isinstance(given, Path) else given


def read_calibration(path: str | Path) -> Calibration:
    """The calibration in a JSON file, or in the `calibration.json` of a folder.

    Raises:
        CalibrationError: if there is none, or it cannot be read.
    """
    file = Path(path)
    try:
        if file.is_dir():
            file /= CALIBRATION_FILE
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        if file == Path(path):
            raise CalibrationError(f"there is no file {path}, nor a folder with a {CALIBRATION_FILE}.") from None
        raise CalibrationError(f"the folder {path} has no {CALIBRATION_FILE}.") from None
    except OSError as error:
        raise CalibrationError(f"{file} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise CalibrationError(f"{file} cannot be read: {error}.") from None
    try:
        return Calibration.from_json(text)
    except CalibrationError as error:
        raise CalibrationError(f"{file}: {error.message}") from None
