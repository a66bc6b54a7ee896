"""Grids: the candidates that a tuning chooses from."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairspan.calibration.file import CALIBRATION_FILE
from fairspan.calibration.treatment import AnyTreatment, Treatment, as_treatment
from fairspan.errors import CalibrationError, DesignError

GRIDS: dict[str, tuple[str, ...]] = {
    "small": (
        "tiles",
        "tiles+sides=document",
        "tiles+temperature=1",
        "tiles+tile_size=32",
        "tiles+tile_size=128",
        "tiles+tile_layers=first_three_quarters",
        "tempscale",
        "retrieval",
        "paper",
        "paper+basket_size=64",
    ),
    "full": (
        "tiles",
        "tiles+temperature=0.9",
        "tiles+temperature=1",
        "tiles+tile_size=32",
        "tiles+tile_size=32+temperature=0.9",
        "tiles+tile_size=32+temperature=1",
        "tiles+tile_size=128",
        "tiles+tile_size=128+temperature=0.9",
        "tiles+tile_size=128+temperature=1",
        "tiles+tile_layers=first_three_quarters",
        "tiles+tile_layers=first_half",
        "tiles+sides=document",
        "tiles+temperature=1+sides=document",
        "paper",
        "paper+strength=0.5",
        "paper+basket_size=64",
        "paper+basket_size=64+strength=0.5",
        "paper+basket_size=256",
        "paper+basket_size=256+strength=0.5",
        "paper+sides=document",
        "paper+basket_size=64+sides=document",
        "retrieval",
        "tempscale",
        "tempscale+temperature=0.9",
    ),
}
TAKEN = ("none", "chunk-mean")
"""The plain model and the reference are measured beside the candidates, under these names."""
_FIELDS = ("extends", "treatments", "treatment")


def read_grid(given: str | Path | Sequence[AnyTreatment]) -> tuple[Treatment, ...]:
    """The candidates of a grid, each a calibration that differs from the plain model and from the others.

    Args:
        given: "small" or "full"; a TOML file; or a list of treatments. In the file, `treatments` is a list of names,
            a `[[treatment]]` table has a name and fields, and `extends` names the grid that these are added to.

    Raises:
        DesignError: if it is no grid, or one of its treatments cannot be a candidate.
    """
    if isinstance(given, str) and given in GRIDS:
        return _candidates("[[grid]]", GRIDS[given])
    if isinstance(given, str | Path):
        return _from_file(given)
    if isinstance(given, Sequence):
        return _candidates("[[grid]]", given)
    raise DesignError(f"[[grid]] must be {', '.join(GRIDS)}, a TOML file or a list of treatments, got {given!r}.")


def _from_file(file: str | Path) -> tuple[Treatment, ...]:
    table = _parse(file)
    unknown = [name for name in table if name not in _FIELDS]
    if unknown:
        raise DesignError(f"{file}: a grid has no field {unknown[0]!r}. Fields: {', '.join(_FIELDS)}.")
    names, tables = table.get("treatments", []), table.get("treatment", [])
    if not isinstance(names, list):
        raise DesignError(f"{file}: treatments must be a list of names, got {names!r}.")
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise DesignError(f"{file}: treatments with fields are tables, each below a line [[ treatment ]].")
    if "extends" not in table:
        return _candidates(str(file), [*names, *tables])
    extended = table["extends"]
    if not isinstance(extended, str) or extended not in GRIDS:
        raise DesignError(f"{file}: extends must be one of {', '.join(GRIDS)}, got {extended!r}.")
    return _candidates(f"{file}, which extends {extended}", [*GRIDS[extended], *names, *tables])


def _parse(file: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, IsADirectoryError):
        raise DesignError(
            f"there is no grid {str(file)!r}: [[grid]] takes {', '.join(GRIDS)} or a TOML file."
        ) from None
    except OSError as error:
        raise DesignError(f"{file} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise DesignError(f"{file} cannot be read: it is not UTF-8 text.") from None
    except (ValueError, RecursionError) as error:
        raise DesignError(f"{file} is not TOML: {error}.") from None


def _candidates(where: str, given: Sequence[AnyTreatment]) -> tuple[Treatment, ...]:
    """Treatments that can be chosen; raise, with where they were named, if one cannot or two are the same."""
    if not given:
        raise DesignError(f"{where} has no treatment: name at least one, for example tiles.")
    found: list[Treatment] = []
    for one in given:
        try:
            candidate = as_treatment(one)
        except CalibrationError as error:
            raise DesignError(f"{where}: {_fault(one, error)}") from None
        _require_candidate(where, candidate)
        for other in found:
            if candidate.name == other.name:
                raise DesignError(f"{where}: the treatment {candidate.name!r} is named twice.")
            if candidate.calibration == other.calibration:
                raise DesignError(
                    f"{where}: {other.name!r} and {candidate.name!r} are the same calibration: omit one of them."
                )
        found.append(candidate)
    return tuple(found)


def _require_candidate(where: str, treatment: Treatment) -> None:
    if not treatment.acts:
        raise DesignError(f"{where}: {treatment.name!r} is the plain model, which is always measured: omit it.")
    if treatment.name in TAKEN:
        raise DesignError(
            f"{where}: {treatment.name!r} is the name of what candidates are compared with: choose another name."
        )
    if treatment.baseline is not None:
        raise DesignError(
            f"{where}: {treatment.name!r} has the baseline {treatment.baseline}, which cannot be written to "
            f"{CALIBRATION_FILE}: omit it."
        )
    if treatment.languages is not None:
        raise DesignError(
            f"{where}: {treatment.name!r} is fitted on a corpus, which cannot be written to {CALIBRATION_FILE}: "
            "compare it with evaluate, and omit it."
        )
    if treatment.by_segments:
        raise DesignError(
            f"{where}: {treatment.name!r} cuts documents into their segments, which cannot be written to "
            f"{CALIBRATION_FILE}: omit it."
        )


def _fault(given: AnyTreatment, error: CalibrationError) -> str:
    """What is wrong with a treatment, and with which."""
    name = given.get("name") if isinstance(given, Mapping) else given
    told = not isinstance(name, str) or repr(name) in error.message
    return error.message if told else f"{name!r}: {error.message}"
