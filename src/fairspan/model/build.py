"""`calibrate`: a calibrated SentenceTransformer from a plain one."""

from collections.abc import Mapping
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer

from fairspan.calibration.calibration import Calibration, as_calibration
from fairspan.errors import UnsupportedModel
from fairspan.model.transformer import CalibratedTransformer, refuse_exported
from fairspan.model.weights import copy_sharing_weights, refuse_nan


def calibrate(
    model: SentenceTransformer,
    calibration: Calibration | str | Mapping[str, Any] | None = None,
    **fields: Any,
) -> SentenceTransformer:
    """A SentenceTransformer with calibrated attention, on the same weights as `model`, which stays as it is.

    Args:
        model: a SentenceTransformer on the torch backend. One that is calibrated already is calibrated anew.
        calibration: a preset's name ("paper", "retrieval", "retrieval-2026-06", "tempscale", "none") or a
            `Calibration`. None means the fields alone, on top of the defaults.
        fields: fields of `Calibration` to change.

    Raises:
        UnsupportedModel: if any promised layer cannot be calibrated.
        CalibrationError: if a field has a wrong value, or one that does not fit this model.
    """
    wanted = as_calibration(calibration, **fields)
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(
            f"calibrate takes a SentenceTransformer, got {type(model).__name__}: wrap it first, for example "
            "SentenceTransformer('BAAI/bge-m3')."
        )
    refuse_nan(model)
    for module in model.modules():
        if isinstance(module, Transformer):
            refuse_exported(module)
    calibrated = copy_sharing_weights(model)
    transformers = [module for module in calibrated.modules() if isinstance(module, Transformer)]
    if not transformers:
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(
            f"the model has no Transformer module, only {kinds}: there is no attention to calibrate."
        )
    for module in transformers:
        if type(module) not in (Transformer, CalibratedTransformer):
            raise UnsupportedModel(
                f"{type(module).__name__} is a Transformer module with code of its own, which fairspan would "
                "bypass: rebuild the model with sentence_transformers' Transformer."
            )
        module.__class__ = CalibratedTransformer
        module.calibration = wanted
        module.on_model_ready(calibrated)
    return calibrated
