"""`Treatment`: a named way of embedding, such as "plain" or "paper+basket_size=64".

A name is a base and changes of it. White space around bases, fields and values is ignored.

    treatment = base , { "+" , field , "=" , value } ;
    base      = preset | tiles | published | by side | baseline ;
    preset    = a name in `PRESETS` | "none" ;  (* "none" is "plain" *)
    tiles     = "tiles-" , count ;  (* the size of a tile *)
    published = digits , "-" , layers ;  (* IRF's names: the basket size and the layers *)
    layers    = "last_half" | "last" | "all" | digits ;
    by side   = "q " , number , ", d " , number ;  (* temperatures of queries and documents *)
    baseline  = "chunk-mean" , [ "-" , ( count | "window" ) ] ;
    field     = a field of `Calibration` | "baskets" | "tiles" | "chunks" ;
    value     = JSON or other text, without "+" ;  (* of the last three fields: "segments" *)
                (* of temperature also steps, value "to" tokens, such as 1to256_0.9to512_0.8 *)
    count     = digits that do not begin with 0 ;
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from fairspan.calibration.calibration import (
    DEFAULT,
    LAYER_NAMES,
    PRESETS,
    REMOVED,
    Calibration,
    PerSide,
    is_count,
    parse_change,
)
from fairspan.errors import DesignError, FairspanError, require_list

PLAIN = "plain"
DEFAULT_TREATMENTS = (PLAIN, DEFAULT)
CLOSED_TREATMENTS = (PLAIN, "chunk-mean")
"""The default for a model that only gives vectors, which allows no other."""
CHUNK_TOKENS = 128
_CHUNKS = "chunk-mean"
_REMOVED = ("whitening", "last2avg")
_NUMBER = r"(\d*\.?\d+(?:e-?\d+)?)"
# How a treatment gets what it cuts a document into.
_CUTS = {
    "baskets": "give it a strength above 0 or a tile_size",
    "tiles": "give it a tile_size such as 64",
    "chunks": "begin with chunk-mean",
}


@dataclass(frozen=True, slots=True)
class Treatment:
    """A calibration under the name that rows and tables show.

    Attributes:
        by_segments: whether a document's baskets, tiles or chunks are its segments, where known.
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


AnyTreatment = Treatment | Calibration | str | Mapping[str, Any]
"""A treatment, or what `as_treatment` makes one of."""


def as_treatment(treatment: AnyTreatment) -> Treatment:
    """A treatment from its name, a calibration, or a table of fields with a name."""
    match treatment:
        case Treatment():
            return treatment
        case Calibration():
            return Treatment(_name_of(treatment), treatment)
        case str():
            return _parse(treatment, treatment, {})
        case Mapping():
            return _read_table(treatment)
    raise DesignError(
        f"a treatment is a name such as 'plain' or 'paper', or a Calibration, got {treatment!r}."
    )


def as_treatments(
    treatments: Sequence[AnyTreatment], *, error: type[FairspanError] = DesignError
) -> tuple[Treatment, ...]:
    """Different treatments, at least one."""
    # A single table is no list of treatments, although it can be iterated.
    listed = str(treatments) if isinstance(treatments, Mapping) else treatments
    require_list("treatments", listed, "['plain', 'paper']", error)
    parsed = tuple(as_treatment(treatment) for treatment in treatments)
    if not parsed:
        raise error("name at least one treatment, for example plain.")
    names = [treatment.name for treatment in parsed]
    for name in names:
        if names.count(name) > 1:
            raise error(f"the treatment {name!r} is named twice.")
    return parsed


def shown_name(name: str) -> str:
    """A treatment's name as people see it, with "plain" for "none"."""
    base, plus, changes = name.strip().partition("+")
    return PLAIN + plus + changes if base.strip() == "none" else name.strip()


def name_sides(temperature: PerSide) -> str:
    """The treatment that does nothing but set these temperatures."""
    query, document = map(repr, astuple(temperature))
    return f"q {query.removesuffix('.0')}, d {document.removesuffix('.0')}"


def name_steps(steps: Sequence[Sequence[float | None]]) -> str:
    """Temperatures by length as a field has them, such as "1to256_0.8"."""
    words = [(str(number).removesuffix(".0"), f"to{end}" if end else "") for end, number in steps]
    return "_".join(map("".join, words))


def _read_table(table: Mapping[str, Any]) -> Treatment:
    """A treatment from a table such as {"name": "mine", "preset": "fair", "temperature": 0.9}."""
    changes = dict(table)
    name = changes.pop("name", None)
    written = changes.pop("preset", None)
    if not isinstance(name, str) or not name.strip():
        raise DesignError(f"a treatment given as a table needs a name, got {dict(table)!r}.")
    # Without a preset, the name itself may have a base.
    if written is None and changes and _parse_base(shown_name(name).split("+")[0].strip()) is None:
        written = "paper" if changes.get("tile_size") is None else PLAIN
    return _parse(written or name, name, changes)


def _parse(written: str, name: str, more: Mapping[str, Any]) -> Treatment:
    """The treatment that is written so, under a name and with more fields to change."""
    word, *parts = map(str.strip, shown_name(written).split("+"))
    changes = dict(map(parse_change, parts)) | dict(more)
    cuts = {cut: changes.pop(cut) for cut in _CUTS if cut in changes}
    for cut, value in cuts.items():
        if value != "segments":
            allowed = "segments, as in fair+tiles=segments, or omitted"
            raise DesignError(f"{cut} can be {allowed}, got {value!r}.")
    base = _parse_base(word)
    if base is None:
        bases = f"{', '.join([*PRESETS, _CHUNKS])} or a name such as tiles-64 or 128-last_half"
        change = "change fields with +, as in paper+basket_size=64"
        raise DesignError(f"there is no treatment {written!r}: begin with {bases}, and {change}.")
    calibration, baseline = base
    treatment = Treatment(shown_name(name), calibration.but(**changes), bool(cuts), baseline)
    _require_cuts(treatment, cuts)
    return treatment


def _parse_base(word: str) -> tuple[Calibration, str | None] | None:
    """The calibration and the baseline that a name begins with; None if this is no base."""
    stem, _, suffix = word.rpartition("-")
    if word in (*PRESETS, *REMOVED) or (stem == "tiles" and is_count(suffix)):
        return Calibration.preset(word), None
    if stem.isdecimal() and (suffix in LAYER_NAMES or suffix.isdecimal()):
        layers = int(suffix) if suffix.isdecimal() else suffix
        return Calibration(basket_size=int(stem), layers=layers), None
    if by_side := re.fullmatch(f"q {_NUMBER}, ?d {_NUMBER}", word):
        query, document = map(float, by_side.groups())
        return PRESETS[PLAIN].but(temperature=PerSide(query, document)), None
    if word == _CHUNKS or (stem == _CHUNKS and (suffix == "window" or is_count(suffix))):
        return PRESETS[PLAIN], word
    removed = word.partition("-")[0]
    if removed in _REMOVED:
        raise DesignError(
            f"the treatment {removed!r} was removed: papers/baselines.py has it as a function that "
            "returns a SentenceTransformer."
        )
    return None


def _require_cuts(treatment: Treatment, cuts: Mapping[str, Any]) -> None:
    """Raise unless a treatment has what is to be segments."""
    shown = f"the treatment {treatment.name!r}"
    if treatment.chunks and cuts and "chunks" not in cuts:
        raise DesignError(f"{shown} embeds chunks: make these segments with chunks=segments.")
    tiled = treatment.calibration.tile_size is not None
    baskets = tiled or treatment.calibration.strength > 0 or treatment.chunks
    present = {"baskets": baskets, "tiles": tiled, "chunks": treatment.chunks}
    for cut in cuts:
        if not present[cut]:
            raise DesignError(f"{shown} has no {cut}: {_CUTS[cut]}.")


def _name_of(calibration: Calibration) -> str:
    """The shortest name, of presets and changes, that `as_treatment` reads as this calibration."""
    bases = [*PRESETS]
    temperature = calibration.temperature
    if isinstance(temperature, PerSide) and not calibration.but(temperature=1.0).acts:
        bases.append(name_sides(temperature))
    if isinstance(calibration.tile_size, int):
        bases.append(f"tiles-{calibration.tile_size}")
    if calibration.strength == 0:
        # A method without baskets is not IRF's, however it was written.
        bases = [base for base in bases if as_treatment(base).calibration.strength == 0]
    return min((_as_change_of(base, calibration) for base in bases), key=len)


def _as_change_of(base: str, calibration: Calibration) -> str:
    """A calibration's name that begins with `base`."""
    unchanged = as_treatment(base).calibration.to_dict()
    parts = [base]
    for field, value in calibration.to_dict().items():
        if value != unchanged[field]:
            written = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
            if field == "temperature" and isinstance(value, list):
                written = name_steps(value)
            parts.append(f"{field}={written.removesuffix('.0')}")
    return "+".join(parts)
