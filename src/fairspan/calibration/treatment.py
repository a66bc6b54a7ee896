"""`Treatment`: a named way of embedding, such as "plain" or "paper+basket_size=64".

A name is a base and changes of it. White space around bases, fields and values is ignored.

    treatment = base , { "+" , change } ;
    base      = a name in `PRESETS` | "tiles-" , count | chunks ;  (* the size of a tile *)
    chunks    = "chunk-mean" , [ "-" , ( count | "window" ) ] ;
    change    = a field of `Calibration` , "=" , value | "tiles=segments" ;
    value     = JSON or other text, without "+" ;
                (* of temperature also steps, value "to" tokens, such as 1to256_0.9to512_0.8 *)
    count     = digits that do not begin with 0 ;
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairspan.calibration.calibration import DEFAULT, PRESETS, Calibration, parse_name, preset_of
from fairspan.errors import DesignError, require_list

PLAIN = "plain"
DEFAULT_TREATMENTS = (PLAIN, DEFAULT)
CLOSED_TREATMENTS = (PLAIN, "chunk-mean")
"""The default for a model that only gives vectors, which allows no other."""
CHUNK_TOKENS = 128
_CHUNKS = "chunk-mean"


@dataclass(frozen=True, slots=True)
class Treatment:
    """A calibration under the name that rows and tables show.

    Attributes:
        by_segments: whether a document's tiles are its segments.
        baseline: "chunk-mean" for documents as the mean of the vectors of their chunks, which have
            at most 64 tokens in "chunk-mean-64".
    """

    name: str
    calibration: Calibration
    by_segments: bool = False
    baseline: str | None = None

    @property
    def acts(self) -> bool:
        return self.calibration.acts or self.chunks

    @property
    def chunks(self) -> bool:
        """Whether a document is embedded chunk by chunk."""
        return self.baseline is not None

    def chunk_size(self, default: int = CHUNK_TOKENS) -> int | str:
        """Most tokens in a chunk, or "window" for what the plain model reads."""
        suffix = (self.baseline or "").rpartition("-")[2]
        if suffix == "window":
            return suffix
        return int(suffix) if suffix.isdecimal() else default

    @property
    def for_documents(self) -> Calibration:
        return self.calibration.on("document")

    @property
    def for_queries(self) -> Calibration:
        return self.calibration.on("query")

    @property
    def for_segments(self) -> Calibration:
        """What segments alone are embedded with: the same as documents if `sides` is "both".

        With sides="document" the plain model embeds them (IRF's control experiment), with
        sides="query" only they are calibrated.
        """
        if self.calibration.sides == "document":
            return PRESETS[PLAIN]
        return self.calibration.but(sides="both").on("document")

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "calibration": self.calibration.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Treatment:
        calibration = Calibration.from_dict(values["calibration"])
        return cls(values["name"], calibration, values["by_segments"], values["baseline"])


AnyTreatment = Treatment | Calibration | str
"""A treatment, or what `as_treatment` makes one of."""


def as_treatment(treatment: AnyTreatment) -> Treatment:
    """A treatment from its name or a calibration."""
    match treatment:
        case Treatment():
            return treatment
        case Calibration():
            return Treatment(_name_of(treatment), treatment)
        case str():
            return _parse(treatment.strip())
    raise DesignError(
        f"a treatment is a name such as 'plain' or 'paper', or a Calibration, got {treatment!r}."
    )


def as_treatments(treatments: Sequence[AnyTreatment]) -> tuple[Treatment, ...]:
    """Different treatments, at least one."""
    require_list("treatments", treatments, "['plain', 'paper']")
    parsed = tuple(as_treatment(treatment) for treatment in treatments)
    if not parsed:
        raise DesignError("name at least one treatment, for example plain.")
    names = [treatment.name for treatment in parsed]
    for name in names:
        if names.count(name) > 1:
            raise DesignError(f"the treatment {name!r} is named twice.")
    return parsed


def _parse(name: str) -> Treatment:
    """The treatment of that name."""
    word, changes = parse_name(name)
    by_segments = "tiles" in changes
    if by_segments and changes.pop("tiles") != "segments":
        raise DesignError(
            f"tiles can be segments, as in fair+tiles=segments, or omitted, got {name!r}."
        )
    is_chunked = re.fullmatch(f"{_CHUNKS}(-[1-9][0-9]{{0,8}}|-window)?", word) is not None
    preset = PRESETS[PLAIN] if is_chunked else preset_of(word)
    if preset is None:
        bases = f"{', '.join([*PRESETS, _CHUNKS])} or a name such as tiles-64"
        change = "change fields with +, as in paper+basket_size=64"
        raise DesignError(f"there is no treatment {name!r}: begin with {bases}, and {change}.")
    calibration = preset.but(**changes)
    if by_segments and (is_chunked or calibration.tile_size is None):
        raise DesignError(
            f"the treatment {name!r} has no tiles: begin with a base that has, such as tiles-64."
        )
    return Treatment(name, calibration, by_segments, word if is_chunked else None)


def _name_of(calibration: Calibration) -> str:
    """The shortest name, of presets and changes, that `as_treatment` reads as this calibration."""
    names = []
    for name in (*PRESETS, f"tiles-{calibration.tile_size}"):
        base = preset_of(name)
        # A method without baskets is not IRF's, however it was written.
        if base is not None and (base.strength == 0 or calibration.strength > 0):
            unchanged = base.to_dict()
            changes = [
                f"{field}={_written(field, value)}"
                for field, value in calibration.to_dict().items()
                if value != unchanged[field]
            ]
            names.append("+".join([name, *changes]))
    return min(names, key=len)


def _written(field: str, value: Any) -> str:
    """A field's value as a name has it, without "+"."""
    if field == "temperature" and isinstance(value, list):
        return "_".join(_written("", number) + (f"to{end}" if end else "") for end, number in value)
    if isinstance(value, str):
        return value
    # JSON reads 1e16 as it reads 1e+16.
    return json.dumps(value, separators=(",", ":")).removesuffix(".0").replace("e+", "e")
