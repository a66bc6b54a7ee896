"""`Calibration`: everything that decides how attention is calibrated, as one frozen value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Literal, cast

from fairspan.calibration.temperature import (
    PerSide,
    Temperature,
    as_temperature,
    check_number,
    temperature_of,
)
from fairspan.errors import DesignError, require_whole

Pooling = Literal["cls", "lasttoken", "mean"]
Side = Literal["query", "document"]
Layers = str | int | tuple[int, ...]

CALIBRATION_FILE = "calibration.json"
WINDOW = "window"
DEFAULT = "fair"
"""The preset of models that are calibrated without naming one."""
LEAVE_PLAIN = 'calibration="plain"'
"""How to ask in Python for a model as it is."""
WIDEST_WINDOW = 512
"""The most tokens that "window" stands for, since search finds less with wider tiles."""
_LAYER_NAMES = ("last_half", "last", "all")
_SPECIAL_BASKETS = ("auto", "basket", "equal", "original")
_CHOICES = {
    "bos": _SPECIAL_BASKETS,
    "eos": _SPECIAL_BASKETS,
    "short_texts": ("calibrate", "leave"),
    "sides": ("both", "document", "query"),
    "scale_position_bias": (True, False),
    "pooling": ("model", "even", "auto"),
    "level": (True, False),
}


@dataclass(frozen=True, slots=True)
class Calibration:
    """How attention is calibrated at inference time.

    Models with CLS or last-token pooling split the pooled token's attention into baskets, models
    with mean pooling that of every token.

    Attributes:
        basket_size: keys per basket; the last basket of a text may be shorter.
        layers: layers with baskets: "last_half", "last", "all", an int k for the last k, or a list
            of 0-based numbers. The temperature acts in every layer.
        strength: 0 leaves the attention of baskets unchanged, 1 makes their totals equal, values
            between mix both.
        bos, eos: the first and the last token of a text: part of the next content "basket", or a
            basket of its own with an "equal" share (1/m of m baskets) or its "original" attention.
            "auto" is "equal" for the pooled and the first token, otherwise "basket". With mean
            pooling it is always "basket".
        short_texts: "calibrate" them too, or "leave" them to the plain model. With tiles, short
            texts are those that fit into the window and have at most 512 tokens; with baskets,
            those that do not fill one.
        temperature: divides the attention scores before the softmax, above 0 and at most 1: a
            number, a `PerSide`, or steps by the tokens of the whole text, such as [(256, 1.0),
            (None, 0.8)]. With tiles it only affects texts of several tiles.
        sides: "both", or only "document" (also plain `encode`) or "query" (`encode_query`).
        scale_position_bias: whether the temperature also divides an additive position bias (T5,
            MPNet). The published equation does not, the published code does.
        tile_size: largest number of tokens in a tile; "window" for as many as the plain model
            reads, but at most 512; None for no tiles. Tiles of a text differ by at most one token.
            A token attends to its own tile and to global tokens (special tokens, prompt), and
            positions restart in every tile.
        pooling: "model" for the model's own; "even" for a vector that represents all tokens
            equally, instead of their mean; "auto" for "even" if the model takes the mean. Texts
            that `short_texts` leaves to the plain model keep its pooling.
        ridge: above 0; the larger, the nearer even pooling is to the mean. With
            short_texts="leave" it is infinite at the window and falls to this value with length.
        level: whether the vectors of all documents get the same share of the direction that the
            model's vectors have in common, so that short and long documents are comparable; see
            `fit_level`. It affects documents only, whatever `sides` is.
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
    pooling: str = "model"
    ridge: float = 0.2
    level: bool = False

    FORMAT: ClassVar[int] = 5

    def __post_init__(self) -> None:
        """Check fields, and bring them into one form."""
        require_whole("basket_size", self.basket_size)
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                listed = ", ".join(map(repr, choices))
                raise DesignError(f"{name} must be one of {listed}, got {value!r}.")
        size = self.tile_size
        if size not in (None, WINDOW) and not (type(size) is int and size > 0):
            wanted = "a whole number of tokens, or 'window'"
            raise DesignError(f"tile_size must be {wanted}, got {size!r}.")
        parsed = {
            "layers": _as_layers(self.layers),
            "strength": check_number("strength", self.strength, "from 0 to 1", _is_share),
            "temperature": as_temperature(self.temperature),
            "scale_position_bias": bool(self.scale_position_bias),
            "ridge": check_number("ridge", self.ridge, "above 0", _is_positive),
            "level": bool(self.level),
        }
        for name, value in parsed.items():
            object.__setattr__(self, name, value)
        if self.sides != "both" and isinstance(self.temperature, PerSide):
            limited = f"sides={self.sides!r} already limits the calibration to one side"
            raise DesignError(f"{limited}: give one temperature.")

    @classmethod
    def preset(cls, name: str) -> Calibration:
        """A preset by its name, with fields changed as in "paper+basket_size=64".

        "tiles-128" has tiles of 128 tokens.
        """
        word, changes = parse_name(name)
        preset = preset_of(word)
        if preset is None:
            presets = f"{', '.join(PRESETS)}, or such as tiles-64"
            raise DesignError(f"there is no preset {name!r}. Presets: {presets}.")
        return preset.but(**changes)

    def but(self, **changes: Any) -> Calibration:
        """The same calibration with some fields changed."""
        names = [field.name for field in fields(self)]
        for name in changes:
            if name not in names:
                raise DesignError(f"Calibration has no field {name!r}. Fields: {', '.join(names)}.")
        return replace(self, **changes)

    def on(self, side: Side) -> Calibration:
        """What texts of one side get, as a calibration that knows no sides."""
        level = self.level and side == "document"
        if self.sides not in ("both", side):
            return replace(PRESETS["plain"], level=level)
        temperature = temperature_of(self.temperature, side)
        return replace(self, sides="both", temperature=temperature, level=level)

    @property
    def attends(self) -> bool:
        """Whether the attention over texts of some side differs from the plain model's."""
        return self.tile_size is not None or self.strength > 0 or self.temperature != 1

    @property
    def reads(self) -> bool:
        """Whether attention or pooling differs from the plain model's."""
        return self.attends or self.pooling != "model"

    @property
    def acts(self) -> bool:
        """Whether texts of some side get other vectors than from the plain model."""
        return self.reads or self.level

    @property
    def reads_what_fits_plainly(self) -> bool:
        """Whether texts that fit into the window and have at most 512 tokens are read as plain."""
        leaves = self.tile_size is not None and self.short_texts == "leave"
        return not self.reads or ((leaves or self.tile_size == WINDOW) and self.strength == 0)

    def layer_numbers(self, depth: int) -> frozenset[int]:
        """The 0-based layers in baskets of a model with `depth` attention layers."""
        chosen = self.layers
        if not isinstance(chosen, tuple):
            named: dict[Layers, int] = {"all": 0, "last_half": depth // 2, "last": depth - 1}
            first = named[chosen] if isinstance(chosen, str) else depth - chosen
            chosen = tuple(range(first, depth))
        if min(chosen) < 0 or max(chosen) >= depth:
            numbers = f"the model's {depth} layers, which are numbered 0 to {depth - 1}"
            raise DesignError(f"layers={self.layers} asks for more than {numbers}.")
        return frozenset(chosen)

    def special_baskets(self, pooling: Pooling) -> tuple[str, str]:
        """`bos` and `eos` as they act under that pooling."""
        if pooling == "mean":
            return "basket", "basket"
        auto_eos = "equal" if pooling == "lasttoken" else "basket"
        bos = "equal" if self.bos == "auto" else self.bos
        return bos, auto_eos if self.eos == "auto" else self.eos

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, with the version of its layout."""
        return {"format": self.FORMAT, **json.loads(json.dumps(asdict(self)))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` wrote."""
        if not isinstance(values, Mapping):
            raise DesignError(f"a calibration is a JSON object, got {type(values).__name__}.")
        changes = dict(values)
        layout = changes.pop("format", cls.FORMAT)
        # Layout 4 had no level.
        if layout not in (4, cls.FORMAT):
            layouts = f"layout {layout!r}, and this fairspan reads layout {cls.FORMAT}"
            remedy = "write it again with this version, or install the one that wrote it"
            raise DesignError(f"this calibration has {layouts}: {remedy}.")
        return cls().but(**changes)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DesignError(f"not JSON: {error}.") from None
        return cls.from_dict(values)


def _is_share(number: float) -> bool:
    return 0 <= number <= 1


def _is_positive(number: float) -> bool:
    return 0 < number <= sys.float_info.max


def _as_layers(value: Any) -> Layers:
    """A name, a number of last layers, or sorted numbers."""
    if value in _LAYER_NAMES or (type(value) is int and value > 0):
        return cast(Layers, value)
    are_numbers = isinstance(value, list | tuple) and all(type(number) is int for number in value)
    if are_numbers and value and min(value) >= 0:
        return tuple(sorted(set(value)))
    names = ", ".join(map(repr, _LAYER_NAMES))
    forms = f"{names}, the number of last layers (1 or more), or a list of 0-based layer numbers"
    raise DesignError(f"layers must be {forms}, got {value!r}.")


PRESETS: dict[str, Calibration] = {
    "fair": Calibration(
        strength=0.0,
        sides="document",
        tile_size=64,
        pooling="auto",
        level=True,
    ),
    "paper": Calibration(),
    "retrieval": Calibration(strength=0.5, bos="original", short_texts="leave"),
    "tempscale": Calibration(strength=0.0, temperature=0.8),
    "plain": Calibration(strength=0.0),
}


def preset_of(word: str) -> Calibration | None:
    """The preset of that name, such as "fair" or "tiles-64"; None if there is none."""
    if tiles := re.fullmatch("tiles-([1-9][0-9]{0,8})", word):
        return PRESETS["tempscale"].but(tile_size=int(tiles[1]), pooling="auto")
    return PRESETS.get(word)


def parse_name(name: str) -> tuple[str, dict[str, Any]]:
    """The base of a name such as "paper+basket_size=64", and the fields that it changes."""
    base, *parts = map(str.strip, name.split("+"))
    changes = {}
    for part in parts:
        field, equals, value = map(str.strip, part.partition("="))
        if not equals:
            form = "name=value, as in +basket_size=64"
            raise DesignError(f"a field is written {form}, got {part!r}.")
        try:
            changes[field] = json.loads(value)
        except ValueError:
            changes[field] = value
    return base, changes
