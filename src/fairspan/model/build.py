"""`calibrate`: a calibrated SentenceTransformer from a plain one."""

import copy
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn

from fairspan.calibration.calibration import DEFAULT, LEAVE_PLAIN, PRESETS, Calibration
from fairspan.calibration.level import CommonDirection
from fairspan.calibration.spelling import AnyCalibration, as_calibration
from fairspan.errors import DesignError, FairspanError, UnsupportedModel
from fairspan.model.card import write_card
from fairspan.model.level import (
    SHORT,
    add_level,
    find_direction,
    level_of,
    remove_level,
    require_texts,
)
from fairspan.model.loading import load
from fairspan.model.transformer import (
    CalibratedTransformer,
    calibrated_transformers,
    prompt_of,
    refuse_exported,
)
from fairspan.model.window import Window, set_window

Model = TypeVar("Model", bound=nn.Module)
Leveling = bool | Sequence[str] | CommonDirection


def calibrate(
    model: str | Path | SentenceTransformer,
    calibration: AnyCalibration | None = None,
    *,
    max_seq_length: int | None = None,
    level: Leveling | None = None,
    **fields: Any,
) -> SentenceTransformer:
    """A SentenceTransformer with calibrated attention.

    A `model` that is an object is not changed, and shares its weights with the calibrated copy:
    training changes those of both, so train an adapter, or a `copy.deepcopy`.

    Args:
        model: what `fairspan.load` reads, a folder or a name on the Hugging Face hub; or a
            SentenceTransformer on the torch backend. A calibrated one is calibrated again.
        calibration: a preset's name ("fair", "tiles-64", "paper", "retrieval", "tempscale",
            "plain") or a `Calibration`; or the JSON file of one, which `Calibration.to_json`
            writes, or a folder with such a `calibration.json`. None means "fair": documents of any
            length are read whole, in tiles, and their vectors are level. With fields about baskets
            None means the defaults of `Calibration`.
        max_seq_length: the longest text to read, in tokens, in place of the model's own limit. By
            default any length in tiles. Only tiles read beyond the model's positions.
        level: the field of `Calibration`; or about 50 general short texts, of which the plain model
            finds the common direction, in place of those that come with fairspan; or what
            `fit_level` found. It belongs to the weights: a model that is calibrated again keeps
            its own, so after training, or with another adapter, use level=False, then level=True.
        fields: fields of `Calibration` to change.

    Raises:
        UnsupportedModel: if any requested layer cannot be calibrated.
        DesignError: if a field has a wrong value, or one that does not fit this model.
    """
    direction: CommonDirection | None = None
    texts: list[str] | None = None
    if isinstance(level, CommonDirection):
        direction = level
    elif level is not None and not isinstance(level, bool):
        texts = require_texts(level)
    if level is not None:
        fields["level"] = level is not False
    wanted = as_calibration(calibration, **fields)
    if isinstance(model, str | Path):
        model = load(model)
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(
            "calibrate takes a model's name or folder, or a SentenceTransformer, got "
            f"{type(model).__name__}."
        )
    _check_weights(model)
    require_transformers(model, "calibrate")
    calibrated, fitted = _calibrated(model, wanted, max_seq_length)
    if fitted.level:
        add_level(calibrated, direction or common_direction(model, texts=texts))
    write_card(calibrated, fitted)
    return calibrated


def _calibrated(
    model: SentenceTransformer, wanted: Calibration, max_seq_length: int | None = None
) -> tuple[SentenceTransformer, Calibration]:
    """A copy of a model under a calibration, without level vectors, and the fitted calibration."""
    calibrated = copy_sharing_weights(model)
    remove_level(calibrated)
    fitted = wanted
    for module in list(calibrated.modules()):
        if isinstance(module, Transformer):
            module.__class__ = CalibratedTransformer
            module.calibration = wanted
            module.on_model_ready(calibrated)
            fitted = module.calibration
            if max_seq_length is not None:
                set_window(module, max_seq_length)
    return calibrated, fitted


def common_direction(
    model: SentenceTransformer, *, prompt: str | None = None, texts: Sequence[str] | None = None
) -> CommonDirection:
    """The common direction of a model with level vectors, or else that of the plain model.

    At most 128 tokens of a text are read, so that the model's window does not matter.

    Args:
        prompt: the documents' prompt; None for the model's own.
        texts: find the direction anew from these texts; None for the embedded sample.
    """
    common = level_of(model) if texts is None else None
    if common is not None:
        return common
    if any(isinstance(module, Transformer) for module in model.modules()):
        require_transformers(model, "calibrate")
    plain, _ = _calibrated(model, PRESETS["plain"])
    for module in plain.modules():
        if isinstance(module, Transformer):
            limit = Window.of(module, tiled=False).plain
            set_window(module, min(limit or SHORT, SHORT), tiled=False)
    return find_direction(plain, prompt_of(model, "document") if prompt is None else prompt, texts)


def _check_weights(model: SentenceTransformer) -> None:
    """Raise if a weight contains NaN; warn if weights in half precision are on a CPU."""
    half = None
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and bool(parameter.isnan().any()):
            raise FairspanError(
                f"the model's weight {name!r} contains NaN, so its embeddings would be NaN too: "
                "load the checkpoint again, or in another dtype if it was converted."
            )
        if parameter.dtype in (torch.float16, torch.bfloat16):
            half = half or str(parameter.dtype).removeprefix("torch.")
    if half is not None and model.device.type == "cpu":
        warnings.warn(
            f"the model is in {half}, which is slow on a CPU: use model.float() first.",
            stacklevel=3,
        )


def calibrate_by_default(
    model: SentenceTransformer,
    calibration: Calibration | None,
    max_seq_length: int | None,
    prompt: str | None = None,
) -> SentenceTransformer:
    """`model` under a calibration, and with a limit on texts unless that is None.

    None for the calibration means the default preset; a calibrated model keeps its own. None for
    the documents' prompt means the model's own.
    """
    is_calibrated = next(calibrated_transformers(model), None) is not None
    wanted = calibration
    if calibration is None and not is_calibrated:
        wanted = PRESETS[DEFAULT]
    if wanted is None or not (wanted.acts or is_calibrated):
        return _limited(model, max_seq_length)
    try:
        level = common_direction(model, prompt=prompt) if wanted.level else None
        return calibrate(model, wanted, max_seq_length=max_seq_length, level=level)
    except (DesignError, UnsupportedModel) as error:
        if calibration is not None:
            raise
        raise type(error)(
            f"{error} Embedding is calibrated by default: use {LEAVE_PLAIN} to leave the model as "
            "it is."
        ) from None


def _limited(model: SentenceTransformer, max_seq_length: int | None) -> SentenceTransformer:
    """`model` with a limit on texts, unless that is None."""
    if max_seq_length is None:
        return model
    limited = copy_sharing_weights(model)
    for module in require_transformers(limited, "set a max_seq_length for"):
        set_window(module, max_seq_length)
    return limited


def require_transformers(model: SentenceTransformer, purpose: str) -> list[Transformer]:
    """The Transformer modules of a model; raise if there is none, or one cannot be calibrated."""
    modules = [module for module in model.modules() if isinstance(module, Transformer)]
    if not modules:
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(
            f"the model has no Transformer module, only {kinds}: there is no attention to "
            f"{purpose}."
        )
    for module in modules:
        refuse_exported(module)
        if type(module) not in (Transformer, CalibratedTransformer):
            raise UnsupportedModel(
                f"{type(module).__name__} is a Transformer module with custom code, which fairspan "
                "would bypass: rebuild the model with sentence_transformers' Transformer."
            )
    return modules


def copy_sharing_weights(model: Model) -> Model:
    """A copy of `model` with its own modules, configuration and tokenizer, on the same storage.

    Moving or casting the copy gives it new memory and leaves the original where it was.
    """
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        # `nn.Parameter(…)` would make a plain one of a subclass, such as quantised weights.
        view = nn.Parameter.__new__(type(parameter), parameter.data, parameter.requires_grad)
        view.__dict__.update(parameter.__dict__)
        memo[id(parameter)] = view
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach()
    return copy.deepcopy(model, memo)
