"""A calibration in words, for sentences that people read."""

from dataclasses import asdict

from fairspan.calibration.calibration import PRESETS, Calibration, Layers, PerSide

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
    tile_layers, temperature, said = calibration.tile_layers, calibration.temperature, []
    if calibration.tile_size is not None:
        where = "" if tile_layers == "all" else f" in the first {tile_layers} layers"
        said.append(f"tiles of {calibration.tile_size} tokens{where}")
    if calibration.strength > 0:
        strength = "" if calibration.strength == 1 else f" at strength {calibration.strength:g}"
        usual = calibration.layers == PRESETS["paper"].layers
        where = "" if usual else f" in {_layers(calibration.layers)}"
        said.append(f"baskets of {calibration.basket_size} tokens{strength}{where}")
    words = [" and ".join(said)] if said else []
    if isinstance(temperature, PerSide):
        words.append(f"temperatures {asdict(temperature)}")
    elif temperature != 1:
        words.append(f"temperature {temperature:g}")
    return " at ".join(words) + _SIDES.get(calibration.sides, "")


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
