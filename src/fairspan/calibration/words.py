"""A calibration in words, for sentences that people read."""

from fairspan.calibration.calibration import PRESETS, Calibration, Layers
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
        layers = calibration.tile_layers
        where = f"the first {layers} layers" if isinstance(layers, int) else _layers(layers)
        said.append(f"tiles of {calibration.tile_size} tokens" + ("" if layers == "all" else f" in {where}"))
    if calibration.strength > 0:
        said.append(f"baskets of {calibration.basket_size} tokens{_basket_details(calibration)}")
    words = " and ".join(said)
    temperature = _temperature(calibration)
    if temperature:
        words = f"{words} at {temperature}" if words else temperature
    return words + _SIDES.get(calibration.sides, "")


def _basket_details(calibration: Calibration) -> str:
    found = "" if calibration.strength == 1 else f" at strength {calibration.strength:g}"
    return found if calibration.layers == PRESETS["paper"].layers else f"{found} in {_layers(calibration.layers)}"


def _layers(layers: Layers) -> str:
    match layers:
        case "all":
            return "all layers"
        case "last":
            return "the last layer"
        case str():
            part, _, share = layers.partition("_")
            return f"the {part} {share.replace('_', ' ')} of the layers"
        case int():
            return f"the last {layers} layers"
    return f"layers {', '.join(map(str, layers))}"


def _temperature(calibration: Calibration) -> str:
    given = calibration.temperature
    if isinstance(given, PerSide | LengthSchedule):
        return f"temperatures {dump_temperature(given)}"
    return f"temperature {given:g}" if given != 1 else ""
