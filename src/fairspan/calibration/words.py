"""A calibration in words, for sentences that people read."""

from dataclasses import asdict

from fairspan.calibration.calibration import PRESETS, WIDEST_WINDOW, WINDOW, Calibration, Layers
from fairspan.calibration.temperature import PerSide

_SIDES = {"document": ", documents only", "query": ", queries only"}
_LAYERS = {
    "all": "all layers",
    "last": "the last layer",
    "last_half": "the last half of the layers",
}
_POOLINGS = {"even": "pooled evenly", "auto": "pooled evenly if the model takes the mean"}


def in_words(calibration: Calibration) -> str:
    """Such as "tiles of 64 tokens at temperature 0.8 on documents"; "long texts" do not fit."""
    if not calibration.acts:
        return "the plain model"
    cuts = []
    if calibration.tile_size is not None:
        size = calibration.tile_size
        tiles = f"tiles of {f'up to {WIDEST_WINDOW}' if size == WINDOW else size} tokens"
        cuts.append(f"long texts in {tiles}" if calibration.reads_what_fits_plainly else tiles)
    if calibration.strength > 0:
        cuts.append(_baskets(calibration))
    words = [" and ".join(cuts)] if cuts else []
    temperature = calibration.temperature
    if isinstance(temperature, PerSide):
        words.append(f"temperatures {asdict(temperature)}")
    elif isinstance(temperature, tuple):
        steps = [
            f"{number:g} {f'to {end} tokens' if end else 'beyond'}" for end, number in temperature
        ]
        words.append(f"temperature {', '.join(steps)}")
    elif temperature != 1:
        words.append(f"temperature {temperature:g}")
    pooling = _POOLINGS.get(calibration.pooling, "")
    if pooling and calibration.ridge != PRESETS["plain"].ridge:
        pooling += f" with ridge {calibration.ridge:g}"
    how = ", ".join(filter(None, [" at ".join(words), pooling]))
    if how:
        how += _SIDES.get(calibration.sides, "")
    return ", ".join(filter(None, [how, "level vectors" if calibration.level else ""]))


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
