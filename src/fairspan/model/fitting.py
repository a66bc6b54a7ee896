"""What of a calibration fits a model."""

from sentence_transformers.sentence_transformer.modules import Pooling

from fairspan.calibration.calibration import Calibration
from fairspan.errors import DesignError
from fairspan.model.even import takes_mean
from fairspan.model.pooling import PoolingSite


def fitting(calibration: Calibration, site: PoolingSite) -> Calibration:
    """The calibration with the pooling that it means in a model; raise if it does not fit."""
    tiled = calibration.tile_size is not None
    if calibration.strength > 0 and tiled and site.pooling == "mean":
        raise DesignError(
            "this model pools over all tokens, whose attention cannot be in tiles and in baskets: "
            "use strength=0."
        )
    return calibration.but(pooling=_pooling(calibration, site.module))


def _pooling(calibration: Calibration, module: Pooling) -> str:
    """ "model" or "even"; raise if a model that does not take the mean was to be pooled evenly."""
    if calibration.pooling == "auto":
        return "even" if takes_mean(module) else "model"
    if calibration.pooling == "even" and not takes_mean(module):
        mode = module.pooling_mode
        modes = mode if isinstance(mode, str) else " and ".join(mode)
        raise DesignError(
            f"this model's {type(module).__name__} pools by {modes}, and even pooling replaces the "
            "mean of all tokens only: use pooling='model', or 'auto'."
        )
    return calibration.pooling
