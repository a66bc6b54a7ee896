"""`Calibration`: everything that decides how a model's attention is calibrated, as one frozen value, or in a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from fairspan.errors import DesignError, require_whole

Pooling = Literal["cls", "lasttoken", "mean"]
Side = Literal["query", "document"]
Layers = str | int | tuple[int, ...]

CALIBRATION_FILE = "calibration.json"
LAYER_NAMES = ("last_half", "last", "all")
WINDOW = "window"
SIZED_TILES = re.compile(r"tiles-([1-9]\d*)")
_OF_BASKETS = {"basket_size", "layers", "strength", "bos", "eos", "short_texts"}
_SPECIAL_BASKETS = ("auto", "basket", "equal", "original")
_CHOICES = {
    "bos": _SPECIAL_BASKETS,
    "eos": _SPECIAL_BASKETS,
    "short_texts": ("calibrate", "leave"),
    "sides": ("both", "document", "query"),
    "scale_position_bias": (True, False),
}


def check_temperature(value: Any) -> float:
    """`value` as a temperature in (0, 1], or an error that says so."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        raise DesignError(
            f"temperature must be a number above 0 and at most 1, got {value!r}. "
            "1 changes nothing; 0.8 is the published default."
        )
    return float(value)


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float = 1.0
    document: float = 1.0

    def __post_init__(self) -> None:
        for side in ("query", "document"):
            object.__setattr__(self, side, check_temperature(getattr(self, side)))


Temperature = float | PerSide


def parse_temperature(value: Any) -> Temperature:
    """Read any form a caller or a JSON file may use: a number, or a mapping by side."""
    if isinstance(value, PerSide):
        return value
    if isinstance(value, Mapping):
        if value and set(value) <= {"query", "document"}:
            return PerSide(**value)
        raise DesignError(
            f"temperature by side takes the keys 'query' and 'document', got {sorted(map(str, value))}."
        )
    return check_temperature(value)


def temperature_of(temperature: Temperature, side: Side) -> float:
    """The part of `temperature` that acts on one side."""
    return getattr(temperature, side) if isinstance(temperature, PerSide) else temperature


@dataclass(frozen=True, slots=True)
class Calibration:
    """How attention is calibrated at inference time.

    Models with CLS or last-token pooling split the pooled token's attention into baskets, models with mean pooling
    that of every token.

    Attributes:
        basket_size: keys per basket; the last basket of a text may be shorter.
        layers: the layers whose attention is split into baskets: "last_half", "last", "all", an int k for the last
            k, or a list of 0-based layer numbers. The temperature always acts in every layer.
        strength: 0 leaves the basket masses unchanged, 1 makes them equal, values between mix the two.
        bos, eos: the first and the last token of a text. "basket": part of the neighbouring content basket. Otherwise
            a basket of its own with an "equal" share, 1/m of m baskets, or its "original" mass; content baskets
            share the rest. "auto" gives the pooled token and the first token an "equal" basket of their own. With
            mean pooling both are always part of content baskets.
        short_texts: for texts that do not fill one basket: "calibrate" them too, or "leave" them unchanged.
        temperature: divides the attention scores before the softmax, above 0 and at most 1. A number,
            or a `PerSide`. With tiles it only affects texts of several tiles.
        sides: "both", or only "document" (also plain `encode`) or "query" (`encode_query`).
        scale_position_bias: whether the temperature also divides an additive position bias (T5, MPNet). The
            published equation does not, the published code does.
        tile_size: largest number of tokens in a tile, "window" for as many as the plain model reads, or None for no
            tiles. The tiles of a text differ in length by at most one token. A token sees its own tile and the shared
            tokens (special tokens and prompt), and positions restart in every tile.

    >>> Calibration.preset("retrieval").strength
    0.5
    >>> Calibration.preset("tiles").tile_size
    64
    >>> Calibration.preset("long").tile_size
    'window'
    """

    basket_size: int = 128
    layers: Layers = "last_half"
    strength: float = 1.0
    bos: str = "auto"
    eos: str = "auto"
    short_texts: str = "calibrate"
    temperature: Temperature = 1.0
    sides: str = "both"
    scale_position_bias: bool = False
    tile_size: int | str | None = None

    FORMAT: ClassVar[int] = 3

    def __post_init__(self) -> None:
        require_whole("basket_size", self.basket_size)
        object.__setattr__(self, "layers", _parse_layers(self.layers))
        object.__setattr__(self, "temperature", parse_temperature(self.temperature))
        strength = self.strength
        if (
            isinstance(strength, bool)
            or not isinstance(strength, int | float)
            or not 0 <= strength <= 1
        ):
            raise DesignError(f"strength must be a number from 0 to 1, got {self.strength!r}.")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise DesignError(
                    f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}."
                )
        if self.sides != "both" and isinstance(self.temperature, PerSide):
            raise DesignError(
                f"sides={self.sides!r} already limits the calibration to one side: "
                "give one temperature instead of one for each side."
            )
        if self.tile_size not in (None, WINDOW) and not _is_whole(self.tile_size, 1):
            raise DesignError(
                f"tile_size must be a whole number of tokens, or 'window', got {self.tile_size!r}."
            )

    @classmethod
    def preset(cls, name: str) -> Calibration:
        """A variant by name; "none" is "plain", and "tiles-128" has tiles of 128 tokens."""
        found = PRESETS.get("plain" if name == "none" else name)
        if tiles := SIZED_TILES.fullmatch(name):
            found = PRESETS["tiles"].but(tile_size=int(tiles[1]))
        if found is None:
            raise DesignError(
                f"there is no preset {name!r}. Presets: {', '.join(PRESETS)}, or such as tiles-128."
            )
        return found

    def but(self, **changes: Any) -> Calibration:
        """The same calibration with some fields changed."""
        _refuse_unknown_fields(changes)
        return replace(self, **changes)

    def acts_on(self, side: Side) -> bool:
        """Whether texts of that side come out different from the plain model's."""
        if self.sides not in ("both", side):
            return False
        return (
            self.strength > 0
            or self.tile_size is not None
            or temperature_of(self.temperature, side) != 1.0
        )

    @property
    def keeps_what_fits(self) -> bool:
        """Whether a text that the plain model reads whole keeps the plain model's vector."""
        return not self.acts or (self.tile_size == WINDOW and self.strength == 0)

    def tiles_on(self, side: Side) -> bool:
        """Whether texts of that side are read in tiles, so that no number of positions limits their length."""
        return self.tile_size is not None and self.sides in ("both", side)

    def on(self, side: Side) -> Calibration:
        """What texts of one side get, as a calibration that knows no sides."""
        if self.sides not in ("both", side):
            return PRESETS["plain"]
        return replace(self, sides="both", temperature=temperature_of(self.temperature, side))

    @property
    def acts(self) -> bool:
        """Whether any text comes out different from the plain model's."""
        return self.acts_on("query") or self.acts_on("document")

    def layer_numbers(self, depth: int) -> frozenset[int]:
        """The 0-based layers in baskets of a model with `depth` attention layers."""
        match self.layers:
            case tuple(numbers):
                chosen: Sequence[int] = numbers
            case int(count):
                chosen = range(depth - count, depth)
            case name:
                chosen = range({"all": 0, "last_half": depth // 2, "last": depth - 1}[name], depth)
        if min(chosen) < 0 or max(chosen) >= depth:
            raise DesignError(
                f"layers={self.layers} asks for more than the model's {depth} layers, which are numbered 0 to "
                f"{depth - 1}."
            )
        return frozenset(chosen)

    def special_baskets(self, pooling: Pooling) -> tuple[str, str]:
        """`bos` and `eos` as they act under that pooling: "basket", "equal" or "original"."""
        if pooling == "mean":
            return "basket", "basket"
        auto_eos = "equal" if pooling == "lasttoken" else "basket"
        return (
            "equal" if self.bos == "auto" else self.bos,
            auto_eos if self.eos == "auto" else self.eos,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with the version of its layout."""
        layers = list(self.layers) if isinstance(self.layers, tuple) else self.layers
        return {"format": self.FORMAT, **asdict(self), "layers": layers}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` wrote."""
        if not isinstance(values, Mapping):
            raise DesignError(f"a calibration is a JSON object, got {type(values).__name__}.")
        written = values.get("format", cls.FORMAT)
        if written != cls.FORMAT:
            raise DesignError(
                f"this calibration has layout {written!r}, and this fairspan reads layout {cls.FORMAT}: "
                "write it again with this version, or install the one that wrote it."
            )
        rest = {name: value for name, value in values.items() if name != "format"}
        _refuse_unknown_fields(rest)
        return cls(**rest)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DesignError(f"not JSON: {error}.") from None
        return cls.from_dict(values)


AnyCalibration = Calibration | str | Path | Mapping[str, Any]
"""A calibration, or what `as_calibration` makes one of."""


def as_calibration(given: AnyCalibration | None, **changes: Any) -> Calibration:
    """A calibration from a preset's name, a value, its JSON form, a file or a folder with one, or fields alone.

    A string that is no preset's name means a file if it looks like a path or is there. Fields alone change "long", or
    the defaults of `Calibration` if one of them is about baskets.
    """
    if given is None:
        base = PRESETS["long"]
        if _OF_BASKETS & changes.keys():
            base = Calibration() if changes.get("tile_size") is None else PRESETS["plain"]
    elif isinstance(given, Calibration):
        base = given
    elif isinstance(given, Path) or (isinstance(given, str) and _names_file(given)):
        base = read_calibration(given)
    elif isinstance(given, str):
        base = Calibration.preset(given)
    elif isinstance(given, Mapping):
        base = Calibration.from_dict(given)
    else:
        raise DesignError(
            f"a calibration is a preset's name ({', '.join(PRESETS)}) or a Calibration, got {given!r}."
        )
    return base.but(**changes) if changes else base


def _names_file(given: str) -> bool:
    like_a_path = given.endswith(".json") or Path(given).name != given
    return given not in (*PRESETS, "none") and (like_a_path or os.path.exists(given))


def read_calibration(path: str | Path) -> Calibration:
    """The calibration in a JSON file, or in the `calibration.json` of a folder.

    Raises:
        DesignError: if there is none, or it cannot be read.
    """
    file = Path(path)
    try:
        file = file / CALIBRATION_FILE if file.is_dir() else file
        return Calibration.from_json(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DesignError(f"there is no file {file}.") from None
    except DesignError as error:
        raise DesignError(f"{file}: {error}") from None
    except (OSError, ValueError) as error:
        raise DesignError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from None


def _refuse_unknown_fields(values: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(Calibration)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise DesignError(f"Calibration has no field {unknown[0]!r}. Fields: {', '.join(known)}.")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _parse_layers(value: Any) -> Layers:
    if isinstance(value, str) and value in LAYER_NAMES:
        return value
    if _is_whole(value, 1):
        return int(value)
    several = isinstance(value, (list, tuple, set, frozenset)) and len(value) > 0
    if several and all(_is_whole(n, 0) for n in value):
        return tuple(sorted(set(value)))
    raise DesignError(
        f"layers must be {', '.join(map(repr, LAYER_NAMES))}, the number of last layers (1 or more), or a list of "
        f"0-based layer numbers, got {value!r}."
    )


PRESETS: dict[str, Calibration] = {
    "long": Calibration(strength=0.0, temperature=0.8, tile_size=WINDOW),
    "tiles": Calibration(strength=0.0, temperature=0.8, tile_size=64),
    "paper": Calibration(),
    "retrieval": Calibration(strength=0.5, bos="original", short_texts="leave"),
    "tempscale": Calibration(strength=0.0, temperature=0.8),
    "plain": Calibration(strength=0.0),
}
