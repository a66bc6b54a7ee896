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
    """Such as "tiles of 64 tokens at temperature 0.8 on documents"."""
    if not calibration.acts:
        return "the plain model"
    cuts = []
    if calibration.tile_size is not None:
        size = calibration.tile_size
        cuts.append("tiles as large as the window" if size == WINDOW else f"tiles of {size} tokens")
    if calibration.strength > 0:
        cuts.append(_baskets(calibration))
    words = [" and ".join(cuts)] if cuts else []
    temperature = calibration.temperature
    if isinstance(temperature, PerSide):
        words.append(f"temperatures {asdict(temperature)}")
    elif temperature != 1:
        words.append(f"temperature {temperature:g}")
    how = " at ".join(words)
    if calibration.pooling != "model":
        how = ", ".join(filter(None, [how, "pooled evenly"]))
    return how + _SIDES.get(calibration.sides, "")


def _baskets(calibration: Calibration) -> str:
    """Their size; strength and layers where they are not the published ones."""
    words = f"baskets of {calibration.basket_size} tokens"
    if calibration.strength != 1:
        words += f" at strength {calibration.strength:g}"
    if calibration.layers != PRESETS["paper"].layers:
        words += f" in {_layers(calibration.layers)}"
    return words


def _layers(layers: Layers) -> str:
    if isinstance(layers, str):
        return _LAYERS[layers]
    if isinstance(layers, int):
        return f"the last {layers} layers"
    return f"layers {', '.join(map(str, layers))}"
