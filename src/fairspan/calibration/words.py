"""A calibration in words, for sentences that people read."""

from dataclasses import asdict

from fairspan.calibration.calibration import PRESETS, WINDOW, Calibration, Layers, PerSide

_SIDES = {"document": " on documents", "query": " on queries"}
_LAYERS = {
    "all": "all layers",
    "last": "the last layer",
    "last_half": "the last half of the layers",
}


def in_words(calibration: Calibration) -> str:
    """Such as "tiles of 64 tokens at temperature 0.8 on documents".

    >>> in_words(Calibration.preset("tiles"))
    'tiles of 64 tokens at temperature 0.8'
    >>> in_words(Calibration.preset("paper").but(basket_size=64, sides="document"))
    'baskets of 64 tokens on documents'
    """
    if not calibration.acts:
        return "the plain model"
    temperature, said = calibration.temperature, []
    if calibration.tile_size is not None:
        as_large = calibration.tile_size == WINDOW
        said.append(
            "tiles as large as the window"
            if as_large
            else f"tiles of {calibration.tile_size} tokens"
        )
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
    if isinstance(layers, str):
        return _LAYERS[layers]
    return (
        f"the last {layers} layers"
        if isinstance(layers, int)
        else f"layers {', '.join(map(str, layers))}"
    )
