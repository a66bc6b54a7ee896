"""A calibration in words, for sentences that people read."""

from fairspan.calibration.calibration import PRESETS, Calibration
from fairspan.calibration.temperature import LengthSchedule, PerSide, dump_temperature

_SIDES = {"document": " on documents", "query": " on queries"}


def in_words(calibration: Calibration) -> str:
    """Such as "tiles of 64 tokens at temperature 0.8 on documents".

    >>> in_words(Calibration.preset("tiles"))
    'tiles of 64 tokens at temperature 0.8'
    >>> in_words(Calibration.preset("paper").but(basket_size=64, sides="document"))
    'baskets of 64 tokens on documents'
    """
    if not calibration.acts:
        return "the plain model"
    said = []
    if calibration.tile_size is not None:
        said.append(f"tiles of {calibration.tile_size} tokens{_tile_layers(calibration)}")
    if calibration.strength > 0:
        said.append(f"baskets of {calibration.basket_size} tokens{_basket_details(calibration)}")
    words = " and ".join(said)
    temperature = _temperature(calibration)
    if temperature:
        words = f"{words} at {temperature}" if words else temperature
    return words + _SIDES.get(calibration.sides, "")


def _tile_layers(calibration: Calibration) -> str:
    layers, reach = calibration.tile_layers, calibration.tile_reach
    found = ""
    if layers != "all":
        found += f" in the first {layers} layers" if isinstance(layers, int) else f" in {_spelled(layers)}"
    return found + (f" with {reach} neighbouring tiles" if reach else "")


def _basket_details(calibration: Calibration) -> str:
    found = "" if calibration.strength == 1 else f" at strength {calibration.strength:g}"
    if calibration.layers != PRESETS["paper"].layers:
        layers = calibration.layers
        found += f" in layers {layers}" if not isinstance(layers, str) else f" in {_spelled(layers)}"
    return found


def _spelled(layers: str) -> str:
    names = {"all": "all layers", "last": "the last layer", "last_half": "the last half of the layers"}
    names |= {"first_half": "the first half of the layers"}
    return names.get(layers, "the first three quarters of the layers")


def _temperature(calibration: Calibration) -> str:
    match calibration.temperature:
        case PerSide() | LengthSchedule() as given:
            return f"temperatures {dump_temperature(given)}"
        case number if number != 1:
            return f"temperature {number:g}"
    return ""
