"""`Calibration`: everything that decides how attention is calibrated, as one frozen value."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
DEFAULT = "fair"
"""The preset of models that are calibrated without naming one."""
LEAVE_PLAIN = 'calibration="plain"'
"""How to ask in Python for a model as it is."""
WIDEST_WINDOW = 512
"""The most tokens that "window" stands for, since search finds less with wider tiles."""
_OF_BASKETS = {"basket_size", "layers", "strength", "bos", "eos"}
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


def check_temperature(value: Any) -> float:
    """`value` as a temperature in (0, 1]."""
    allowed = "a number above 0 and at most 1"
    return _check_number("temperature", value, allowed, lambda number: 0 < number <= 1)


@dataclass(frozen=True, slots=True)
class PerSide:
    """One temperature for queries and another for documents."""

    query: float = 1.0
    document: float = 1.0

    def __post_init__(self) -> None:
        for side in ("query", "document"):
            object.__setattr__(self, side, check_temperature(getattr(self, side)))


Steps = tuple[tuple[int | None, float], ...]
"""Temperatures by length: tokens of the whole text up to which, None for any number, and values."""
Temperature = float | PerSide | Steps


def temperature_of(temperature: Temperature, side: Side) -> float | Steps:
    """The part of `temperature` that acts on one side."""
    return getattr(temperature, side) if isinstance(temperature, PerSide) else temperature


@dataclass(frozen=True, slots=True)
class Calibration:
    """How attention is calibrated at inference time.

    Models with CLS or last-token pooling split the pooled token's attention into baskets, models
    with mean pooling that of every token.

    Attributes:
        basket_size: keys per basket; the last basket of a text may be shorter.
        layers: layers with baskets: "last_half", "last", "all", an int k for the last k, or a list
            of 0-based numbers. The temperature acts in every layer.
        strength: 0 leaves the basket masses unchanged, 1 makes them equal, values between mix both.
        bos, eos: the first and the last token of a text: part of the next content "basket", or a
            basket of its own with an "equal" share (1/m of m baskets) or its "original" mass.
            "auto" is "equal" for the pooled and the first token, else "basket", as always with mean
            pooling.
        short_texts: "calibrate" them too, or "leave" them to the plain model. With tiles, short
            texts are those that fit into the window and have at most 512 tokens; with baskets,
            those that do not fill one.
        temperature: divides the attention scores before the softmax, above 0 and at most 1: a
            number, a `PerSide`, or steps by the tokens of the whole text, such as [(256, 1.0),
            (None, 0.8)]. With tiles it only affects texts of several tiles.
        sides: "both", or only "document" (also plain `encode`) or "query" (`encode_query`).
        scale_position_bias: whether the temperature also divides an additive position bias (T5,
            MPNet). The published equation does not, the published code does.
        tile_size: most tokens in a tile, "window" for as many as the plain model reads, but at most
            512, or None for no tiles. The tiles of a text differ by at most one token. A token sees
            its own tile and global tokens (special tokens, prompt), and positions restart in every
            tile.
        pooling: "model" for the model's own; "even" for a vector that says as much of every token
            as of every other, in place of the mean of all tokens; "auto" for "even" where the model
            takes this mean. Texts that `short_texts` leaves keep theirs.
        ridge: above 0; the larger, the nearer even pooling is to the mean. With
            short_texts="leave" it falls to this value with a text's length, from infinity at the
            window.
        level: whether all documents' vectors get the same share of the direction that vectors of
            the model have in common, so that texts of every length compare; see `fit_level`. It
            acts on documents only, whatever `sides` is.
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
        """Bring fields into one form."""
        require_whole("basket_size", self.basket_size)
        object.__setattr__(self, "layers", _parse_layers(self.layers))
        object.__setattr__(self, "temperature", _parse_temperature(self.temperature))
        strength = _check_number(
            "strength", self.strength, "a number from 0 to 1", lambda number: 0 <= number <= 1
        )
        object.__setattr__(self, "strength", strength)
        ridge = _check_number(
            "ridge", self.ridge, "a number above 0", lambda number: 0 < number < math.inf
        )
        object.__setattr__(self, "ridge", ridge)
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                listed = ", ".join(map(repr, choices))
                raise DesignError(f"{name} must be one of {listed}, got {value!r}.")
        for name in ("scale_position_bias", "level"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if self.sides != "both" and isinstance(self.temperature, PerSide):
            limited = f"sides={self.sides!r} already limits the calibration to one side"
            raise DesignError(f"{limited}: give one temperature.")
        size = self.tile_size
        if size not in (None, WINDOW) and not _is_whole(size, 1):
            wanted = "a whole number of tokens, or 'window'"
            raise DesignError(f"tile_size must be {wanted}, got {size!r}.")

    @classmethod
    def preset(cls, name: str) -> Calibration:
        """A preset by its name, with fields changed as in "paper+basket_size=64".

        "tiles-128" has tiles of 128 tokens.
        """
        word, *changes = map(str.strip, name.split("+"))
        preset = preset_of(word)
        if preset is None:
            presets = f"{', '.join(PRESETS)}, or such as tiles-64"
            raise DesignError(f"there is no preset {name!r}. Presets: {presets}.")
        return preset.but(**dict(map(parse_change, changes)))

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

    def acts_on(self, side: Side) -> bool:
        """Whether texts of that side get other vectors than from the plain model."""
        return self.reads_on(side) or self.on(side).level

    def reads_on(self, side: Side) -> bool:
        """Whether attention over texts of that side or their pooling differs from the plain one."""
        return self.attends_on(side) or self.on(side).pooling != "model"

    def attends_on(self, side: Side) -> bool:
        """Whether the attention over texts of that side differs from the plain model's."""
        return self.tiles_on(side) or self.on(side).strength > 0 or self.on(side).temperature != 1

    def tiles_on(self, side: Side) -> bool:
        """Whether texts of that side are read in tiles, so that positions do not limit them."""
        return self.on(side).tile_size is not None

    @property
    def acts(self) -> bool:
        return self.acts_on("query") or self.acts_on("document")

    @property
    def keeps_what_fits(self) -> bool:
        """Whether texts that fit into the window and have at most 512 tokens keep their vectors."""
        return self.reads_what_fits_plainly and not self.level

    @property
    def reads_what_fits_plainly(self) -> bool:
        """The same of their vectors before these are made level."""
        leaves = self.tile_size is not None and self.short_texts == "leave"
        acts = self.reads_on("query") or self.reads_on("document")
        return not acts or ((leaves or self.tile_size == WINDOW) and self.strength == 0)

    def layer_numbers(self, depth: int) -> frozenset[int]:
        """The 0-based layers in baskets of a model with `depth` attention layers."""
        first = {"all": 0, "last_half": depth // 2, "last": depth - 1}
        chosen: Sequence[int]
        if isinstance(self.layers, tuple):
            chosen = self.layers
        elif isinstance(self.layers, int):
            chosen = range(depth - self.layers, depth)
        else:
            chosen = range(first[self.layers], depth)
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
        layers = [*self.layers] if isinstance(self.layers, tuple) else self.layers
        fields = {"format": self.FORMAT, **asdict(self), "layers": layers}
        if isinstance(self.temperature, tuple):
            fields["temperature"] = [[*step] for step in self.temperature]
        return fields

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        """Read what `to_dict` wrote."""
        if not isinstance(values, Mapping):
            raise DesignError(f"a calibration is a JSON object, got {type(values).__name__}.")
        changes = dict(values)
        layout = changes.pop("format", cls.FORMAT)
        # Layout 3 had no pooling, and 4 no level.
        if layout not in (3, 4, cls.FORMAT):
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


AnyCalibration = Calibration | str | Path | Mapping[str, Any]
"""A calibration, or what `as_calibration` makes one of."""


def as_calibration(calibration: AnyCalibration | None, **changes: Any) -> Calibration:
    """A calibration from a preset's name, its JSON form, a file or a folder, or fields alone.

    A string that is no preset's name means a file if it looks like a path or exists. Fields alone
    change "fair", or the defaults of `Calibration` if one of them is about baskets.
    """
    base = PRESETS[DEFAULT]
    match calibration:
        case None:
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
        reason = getattr(error, "strerror", None) or error
        raise DesignError(f"{file} cannot be read: {reason}.") from None


def parse_change(part: str) -> tuple[str, Any]:
    """The field and the value of a change, such as "basket_size=64"."""
    field, equals, value = part.partition("=")
    if not equals:
        form = "name=value, as in +basket_size=64"
        raise DesignError(f"a field is written {form}, got {part!r}.")
    try:
        return field.strip(), json.loads(value)
    except ValueError:
        return field.strip(), value.strip()


def is_count(text: str) -> bool:
    """Whether a text is a number in digits that does not begin with 0."""
    return re.fullmatch("[1-9][0-9]{0,8}", text) is not None


def _check_number(
    name: str, value: Any, allowed: str, is_allowed: Callable[[float], bool]
) -> float:
    """The value of a field as a float; raise unless it is an allowed number."""
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
    if not is_allowed(number):
        raise DesignError(f"{name} must be {allowed}, got {value!r}.")
    return number


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _parse_temperature(value: Any) -> Temperature:
    """A temperature from a number, a mapping by side as in JSON, or steps by length."""
    if isinstance(value, PerSide):
        return value
    if isinstance(value, Mapping):
        if value and set(value) <= {"query", "document"}:
            return PerSide(**value)
        keys = sorted(map(str, value))
        raise DesignError(f"temperature by side takes the keys 'query' and 'document', got {keys}.")
    if isinstance(value, str | list | tuple):
        return _parse_steps(value)
    return check_temperature(value)


def _parse_steps(value: Any) -> Temperature:
    """Steps from pairs, or from a text such as "1to256_0.8"; a number if all are equal."""
    pairs = value
    try:
        if isinstance(value, str):
            words = [word.partition("to") for word in value.split("_")]
            pairs = [(json.loads(end or "null"), json.loads(number)) for number, _, end in words]
        steps = tuple((end, number) for end, number in pairs)
    except (TypeError, ValueError):
        steps = ()
    ends = [end for end, _ in steps[:-1]]
    rise = all(_is_whole(end, 1) for end in ends) and ends == sorted(set(ends))
    if not steps or steps[-1][0] is not None or not rise:
        by_length = "[(256, 1.0), (512, 0.9), (None, 0.8)] or 1to256_0.9to512_0.8"
        raise DesignError(
            f"temperature must be a number or steps such as {by_length}, got {value!r}."
        )
    steps = tuple((end, check_temperature(number)) for end, number in steps)
    return steps if len({number for _, number in steps}) > 1 else steps[0][1]


def _parse_layers(value: Any) -> Layers:
    """A name, a number of last layers, or sorted numbers."""
    if isinstance(value, str) and value in LAYER_NAMES:
        return value
    if _is_whole(value, 1):
        return int(value)
    several = isinstance(value, list | tuple | set | frozenset) and value
    if several and all(_is_whole(number, 0) for number in value):
        return tuple(sorted(set(value)))
    names = ", ".join(map(repr, LAYER_NAMES))
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
    stem, _, size = word.rpartition("-")
    if stem == "tiles" and is_count(size):
        return Calibration(strength=0.0, temperature=0.8, tile_size=int(size), pooling="auto")
    return PRESETS.get(word)
