"""`Calibration`: everything that decides how a model's attention is calibrated, as one frozen value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

from fairspan.calibration.temperature import (
    PerSide,
    Side,
    Temperature,
    dump_temperature,
    parse_temperature,
    temperature_of,
)
from fairspan.errors import CalibrationError

Pooling = Literal["cls", "lasttoken", "mean"]
SpecialBasket = str | float
Layers = str | int | tuple[int, ...]

LAYER_NAMES = ("last_half", "last", "all")
TILE_LAYER_NAMES = ("all", "first_three_quarters", "first_half")
ROWS = ("auto", "pooling", "all")
SIDES = ("both", "document", "query")
SHORT_TEXTS = ("calibrate", "leave", "ramp")
SPECIAL_BASKETS = ("auto", "auto-original", "basket", "equal", "original")


@dataclass(frozen=True, slots=True)
class Calibration:
    """How attention is calibrated at inference time.

    Attributes:
        basket_size: keys per basket; the last basket of a text may be shorter.
        layers: the layers whose attention is split into baskets: "last_half", "last", "all", an int k for the last
            k, or a list of 0-based layer numbers. The temperature always acts in every layer.
        rows: the query rows that are calibrated: "pooling" (the row that is pooled), "all", or "auto" ("pooling"
            for CLS and last-token pooling, "all" otherwise).
        strength: 0 leaves the basket masses as they are, 1 makes them equal, between them a mixture.
        bos, eos: what becomes of the first and the last token of a text. "basket": it lies in the neighbouring
            content basket. Otherwise it has a basket of its own that holds an "equal" share, 1/m of m baskets, its
            "original" mass, or a fixed share given as a number; content baskets divide the rest. "auto"
            gives the pooled token and the first token of a CLS or last-token model an "equal" basket of their own
            and leaves all others in a "basket"; "auto-original" does the same with "original" where "auto" says
            "equal".
        short_texts: what happens to texts that fill no basket: "calibrate" them too, "leave" them as they are, or
            "ramp" the strength up from 0 for an empty text to full for one full basket.
        temperature: divides the attention scores before the softmax, above 0 and at most 1. A number, a
            `LengthSchedule`, or a `PerSide` of these.
        sides: "both", or only "document" (also plain `encode`) or "query" (`encode_query`).
        scale_position_bias: whether the temperature also divides an additive position bias (T5, MPNet). The
            published equation does not, the published code does.
        tile_size: tokens per tile, or None to read texts as the plain model does. In tiles, a token sees its own tile
            and the shared tokens (special tokens and prompt), and positions start again in every tile.
        tile_layers: the layers that are tiled: "all", "first_three_quarters", "first_half" or an int k for the first
            k. Positions start again in every tile whatever this says.
        tile_reach: how many tiles on either side a token sees besides its own.

    >>> Calibration.preset("retrieval").strength
    0.5
    >>> Calibration.preset("tiles").tile_size
    64
    """

    basket_size: int = 128
    layers: Layers = "last_half"
    rows: str = "auto"
    strength: float = 1.0
    bos: SpecialBasket = "auto"
    eos: SpecialBasket = "auto"
    short_texts: str = "calibrate"
    temperature: Temperature = 1.0
    sides: str = "both"
    scale_position_bias: bool = False
    tile_size: int | None = None
    tile_layers: str | int = "all"
    tile_reach: int = 0

    FORMAT: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not _is_whole(self.basket_size, 1):
            raise CalibrationError(
                f"basket_size must be a whole number of at least 1, got {self.basket_size!r} (128 is the published "
                "default)."
            )
        object.__setattr__(self, "layers", _parse_layers(self.layers))
        _require_choice("rows", self.rows, ROWS)
        if not _is_share(self.strength):
            raise CalibrationError(f"strength must be a number from 0 to 1, got {self.strength!r}.")
        for name in ("bos", "eos"):
            _require_special_basket(name, getattr(self, name))
        fixed = [share for share in (self.bos, self.eos) if not isinstance(share, str)]
        if sum(fixed) > 1:
            raise CalibrationError(f"the fixed shares bos={self.bos} and eos={self.eos} add up to more than 1.")
        _require_choice("short_texts", self.short_texts, SHORT_TEXTS)
        object.__setattr__(self, "temperature", parse_temperature(self.temperature))
        _require_choice("sides", self.sides, SIDES)
        if not isinstance(self.scale_position_bias, bool):
            raise CalibrationError(f"scale_position_bias must be true or false, got {self.scale_position_bias!r}.")
        if self.sides != "both" and isinstance(self.temperature, PerSide):
            raise CalibrationError(
                f"sides={self.sides!r} already limits the calibration to one side: "
                "give one temperature instead of one for each side."
            )
        self._check_tiles()

    def _check_tiles(self) -> None:
        if self.tile_size is not None and not _is_whole(self.tile_size, 1):
            raise CalibrationError(
                f"tile_size must be a whole number of at least 1, or None for no tiles, got {self.tile_size!r} (64 "
                "is the default of the preset 'tiles')."
            )
        if not (_is_whole(self.tile_layers, 1) or self.tile_layers in TILE_LAYER_NAMES):
            raise CalibrationError(
                f"tile_layers must be {', '.join(map(repr, TILE_LAYER_NAMES))} or the number of first layers (1 or "
                f"more), got {self.tile_layers!r}."
            )
        if not _is_whole(self.tile_reach, 0):
            raise CalibrationError(f"tile_reach must be a whole number of tiles, 0 or more, got {self.tile_reach!r}.")
        if self.tile_size is None and (self.tile_layers, self.tile_reach) != ("all", 0):
            without = "tile_layers" if self.tile_layers != "all" else "tile_reach"
            raise CalibrationError(f"{without}={getattr(self, without)!r} needs tiles: give a tile_size such as 64.")

    @classmethod
    def preset(cls, name: str) -> Calibration:
        """A variant by name."""
        if not isinstance(name, str) or name not in PRESETS:
            raise CalibrationError(f"there is no preset {name!r}. Presets: {', '.join(PRESETS)}.")
        return PRESETS[name]

    def but(self, **changes: Any) -> Calibration:
        """The same calibration with some fields changed."""
        _refuse_unknown_fields(changes)
        return replace(self, **changes)

    def acts_on(self, side: Side) -> bool:
        """Whether texts of that side come out different from the plain model's."""
        if self.sides not in ("both", side):
            return False
        return self.strength > 0 or self.tile_size is not None or temperature_of(self.temperature, side) != 1.0

    def tiles_on(self, side: Side) -> bool:
        """Whether texts of that side are read in tiles, so that no number of positions limits their length."""
        return self.tile_size is not None and self.sides in ("both", side)

    def on(self, side: Side) -> Calibration:
        """What texts of one side get, as a calibration that knows no sides."""
        if self.sides not in ("both", side):
            return PRESETS["none"]
        return replace(self, sides="both", temperature=temperature_of(self.temperature, side))

    @property
    def acts(self) -> bool:
        """Whether any text comes out different from the plain model's."""
        return self.acts_on("query") or self.acts_on("document")

    def layer_numbers(self, depth: int) -> frozenset[int]:
        """The 0-based calibrated layers of a model with `depth` attention layers."""
        match self.layers:
            case "all":
                return frozenset(range(depth))
            case "last":
                return frozenset({depth - 1})
            case "last_half":
                return frozenset(range(depth // 2, depth))
            case int(count):
                if count > depth:
                    raise CalibrationError(
                        f"layers={count} asks for the last {count} layers, but the model has {depth}."
                    )
                return frozenset(range(depth - count, depth))
            case tuple(numbers):
                beyond = [n for n in numbers if n >= depth]
                if beyond:
                    raise CalibrationError(
                        f"layers={list(numbers)} names layer {beyond[0]}, but the model's {depth} layers are "
                        f"numbered 0 to {depth - 1}."
                    )
                return frozenset(numbers)
        raise AssertionError(self.layers)

    def tiled_layers(self, depth: int) -> frozenset[int]:
        """The 0-based tiled layers of a model with `depth` attention layers; none without tiles."""
        if self.tile_size is None:
            return frozenset()
        if isinstance(self.tile_layers, int):
            if self.tile_layers > depth:
                raise CalibrationError(
                    f"tile_layers={self.tile_layers} asks for the first {self.tile_layers} layers, but the model has "
                    f"{depth}."
                )
            return frozenset(range(self.tile_layers))
        quarters = {"all": 4, "first_three_quarters": 3, "first_half": 2}[self.tile_layers]
        return frozenset(range(-(-quarters * depth // 4)))

    def rows_for(self, pooling: Pooling) -> Literal["pooling", "all"]:
        """Which query rows are calibrated under that pooling."""
        if self.rows == "auto":
            return "all" if pooling == "mean" else "pooling"
        if self.rows == "pooling" and pooling == "mean":
            raise CalibrationError(
                "rows='pooling' needs a model that pools one token (CLS or last token); this one pools over all "
                "of them. Use rows='all' or 'auto'."
            )
        return "all" if self.rows == "all" else "pooling"

    def special_baskets(self, pooling: Pooling) -> tuple[SpecialBasket, SpecialBasket]:
        """`bos` and `eos` with "auto" replaced by what it means under that pooling."""
        own = {"auto": "equal", "auto-original": "original"}
        bos, eos = self.bos, self.eos
        if bos in own:
            bos = "basket" if pooling == "mean" else own[str(bos)]
        if eos in own:
            eos = own[str(eos)] if pooling == "lasttoken" else "basket"
        return bos, eos

    def reserves_equal(self, pooling: Pooling) -> bool:
        """Whether a special token holds an equal share beside one that holds another."""
        special = self.special_baskets(pooling)
        return self.strength > 0 and "equal" in special and not {*special} <= {"equal", "basket"}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with the version of its layout."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        layers = list(self.layers) if isinstance(self.layers, tuple) else self.layers
        temperature = dump_temperature(self.temperature)
        if self.tile_size is None:
            # Named only where there are tiles, so that stored vectors and runs from before them are found.
            values = {name: value for name, value in values.items() if not name.startswith("tile_")}
        return {"format": self.FORMAT, **values, "layers": layers, "temperature": temperature}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` wrote."""
        if not isinstance(values, Mapping):
            raise CalibrationError(f"a calibration is a JSON object, got {type(values).__name__}.")
        written = values.get("format", cls.FORMAT)
        if written != cls.FORMAT:
            raise CalibrationError(
                f"this calibration has layout {written!r}, and this fairspan reads layout {cls.FORMAT}: "
                "install a newer fairspan."
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
            raise CalibrationError(f"not JSON: {error}.") from None
        return cls.from_dict(values)


def as_calibration(given: Calibration | str | Mapping[str, Any] | None, **changes: Any) -> Calibration:
    """A calibration from a preset's name, a value, its JSON form, or fields alone."""
    if given is None:
        # Tiles alone, unless baskets are asked for as well.
        base = PRESETS["none"] if changes.get("tile_size") is not None else Calibration()
    elif isinstance(given, Calibration):
        base = given
    elif isinstance(given, str):
        base = Calibration.preset(given)
    elif isinstance(given, Mapping):
        base = Calibration.from_dict(given)
    else:
        raise CalibrationError(
            f"a calibration is a preset's name ({', '.join(PRESETS)}) or a Calibration, got {given!r}."
        )
    return base.but(**changes) if changes else base


def _refuse_unknown_fields(values: Mapping[str, Any]) -> None:
    known = [field.name for field in fields(Calibration)]
    unknown = [name for name in values if name not in known]
    if unknown:
        raise CalibrationError(f"Calibration has no field {unknown[0]!r}. Fields: {', '.join(known)}.")


def _require_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise CalibrationError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_share(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _require_special_basket(name: str, value: Any) -> None:
    if not _is_share(value) and not (isinstance(value, str) and value in SPECIAL_BASKETS):
        raise CalibrationError(
            f"{name} must be one of {', '.join(map(repr, SPECIAL_BASKETS))} or a share from 0 to 1, got {value!r}."
        )


def _parse_layers(value: Any) -> Layers:
    if isinstance(value, str) and value in LAYER_NAMES:
        return value
    if _is_whole(value, 1):
        return int(value)
    several = isinstance(value, (list, tuple, set, frozenset)) and len(value) > 0
    if several and all(_is_whole(n, 0) for n in value):
        return tuple(sorted(set(value)))
    raise CalibrationError(
        f"layers must be {', '.join(map(repr, LAYER_NAMES))}, the number of last layers (1 or more), or a list of "
        f"0-based layer numbers, got {value!r}."
    )


PRESETS: dict[str, Calibration] = {
    "paper": Calibration(),
    "retrieval": Calibration(strength=0.5, bos="auto-original", short_texts="leave"),
    "retrieval-2026-06": Calibration(strength=0.5, short_texts="leave"),
    "tempscale": Calibration(strength=0.0, temperature=0.8),
    "tiles": Calibration(strength=0.0, temperature=0.8, tile_size=64),
    "none": Calibration(strength=0.0),
}
