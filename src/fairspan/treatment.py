"""`Treatment`: a named way of embedding that an audit measures, such as "none" or "paper"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairspan.calibration import LAYER_NAMES, PRESETS, Calibration, as_calibration
from fairspan.errors import CalibrationError

BASKETS = ("tokens", "segments")
# IRF's own names: the basket size, a hyphen, and the layers.
_PUBLISHED = re.compile(rf"(\d+)-({'|'.join(LAYER_NAMES)}|\d+)")


@dataclass(frozen=True, slots=True)
class Treatment:
    """A calibration under the name that rows and tables show.

    In an audit, documents stand on the document side. A segment embedded alone is treated as documents are, unless
    the calibration is limited to one side: with sides="document" segments stay as the plain model embeds them (IRF's
    control experiment), with sides="query" only they are calibrated.
    """

    name: str
    calibration: Calibration
    baskets: str = "tokens"
    """What a document's baskets are: runs of "tokens", or its "segments" where they are known."""

    def __post_init__(self) -> None:
        if self.baskets not in BASKETS:
            raise CalibrationError(f"baskets must be one of {', '.join(BASKETS)}, got {self.baskets!r}.")
        if self.baskets == "segments" and not self.calibration.strength > 0:
            raise CalibrationError(f"the treatment {self.name!r} has segment baskets and a strength of 0.")

    @property
    def for_documents(self) -> Calibration:
        """What documents are embedded with."""
        return PRESETS["none"] if self.calibration.sides == "query" else self.calibration.but(sides="both")

    @property
    def for_segments(self) -> Calibration:
        """What segments alone are embedded with."""
        return PRESETS["none"] if self.calibration.sides == "document" else self.calibration.but(sides="both")

    @property
    def for_queries(self) -> Calibration:
        """What queries are embedded with; to a search they are what segments alone are to an audit."""
        return self.for_segments

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "calibration": self.calibration.to_dict(), "baskets": self.baskets}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Treatment:
        """Read what `to_dict` wrote."""
        return cls(
            str(values["name"]),
            Calibration.from_dict(values["calibration"]),
            str(values.get("baskets", "tokens")),
        )


def as_treatment(given: Treatment | Calibration | str | Mapping[str, Any]) -> Treatment:
    """A treatment from its name, a calibration, or a table of fields with a name.

    Names are a preset's ("paper"), or one of IRF's ("128-last_half", "512-last"), each followed by any number of
    fields to change: "paper+basket_size=64+sides=document". With "paper+baskets=segments" every segment of a document
    is a basket.

    >>> as_treatment("128-last").calibration.layers
    'last'
    >>> as_treatment("paper+basket_size=64").calibration.basket_size
    64
    """
    match given:
        case Treatment():
            return given
        case Calibration():
            return Treatment(_name_of(given), given)
        case str():
            base, *changes = (part.strip() for part in given.split("+"))
            fields = dict(_parse_change(part) for part in changes)
            baskets = fields.pop("baskets", "tokens")
            return Treatment(given.strip(), _base(base, given).but(**fields), baskets)
        case Mapping():
            return _from_table(given)
    raise CalibrationError(f"a treatment is a name such as 'none' or 'paper', or a Calibration, got {given!r}.")


def _base(name: str, whole: str) -> Calibration:
    published = _PUBLISHED.fullmatch(name)
    if published:
        size, layers = published.groups()
        return Calibration(basket_size=int(size), layers=int(layers) if layers.isdigit() else layers)
    if name not in PRESETS:
        raise CalibrationError(
            f"there is no treatment {whole!r}: begin with {', '.join(PRESETS)} or a name such as 128-last_half, and "
            "change fields with +, as in paper+basket_size=64."
        )
    return PRESETS[name]


def _parse_change(part: str) -> tuple[str, Any]:
    field, equals, value = part.partition("=")
    if not equals:
        raise CalibrationError(f"a field of a treatment is written name=value, as in +basket_size=64, got {part!r}.")
    try:
        return field.strip(), json.loads(value)
    except json.JSONDecodeError:
        return field.strip(), value.strip()


def _from_table(table: Mapping[str, Any]) -> Treatment:
    fields = dict(table)
    baskets = fields.pop("baskets", None)
    name, preset = fields.pop("name", None), fields.pop("preset", None)
    if not isinstance(name, str) or not name.strip():
        raise CalibrationError(f"a treatment given as a table needs a name, got {dict(table)!r}.")
    named = name.split("+")[0].strip()
    if preset is None and (not fields or named in PRESETS or _PUBLISHED.fullmatch(named)):
        named_so = as_treatment(name)
        return Treatment(name, named_so.calibration.but(**fields), baskets or named_so.baskets)
    return Treatment(name, as_calibration(preset, **fields), baskets or "tokens")


def _name_of(calibration: Calibration) -> str:
    for name, preset in PRESETS.items():
        if calibration == preset:
            return name
    plain = Calibration().to_dict()
    changed = {field: value for field, value in calibration.to_dict().items() if value != plain[field]}
    return "+".join(["paper", *(f"{field}={_written(value)}" for field, value in changed.items())])


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
