"""`calibrate`: a calibrated SentenceTransformer from a plain one; `encode_segments`: documents in known segments."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn

from fairspan.calibration.calibration import PRESETS, Calibration, as_calibration
from fairspan.calibration.file import read_if_file
from fairspan.errors import FairspanError, SegmentError, UnsupportedModel
from fairspan.model.fingerprint import fingerprint
from fairspan.model.language_module import LanguageModule, language_modules, refuse_foreign_fit
from fairspan.model.languages import LanguageCorrection
from fairspan.model.segments import SegmentedText
from fairspan.model.transformer import CalibratedTransformer, calibrated_transformers, read_up_to, refuse_exported

Model = TypeVar("Model", bound=nn.Module)


def calibrate(
    model: SentenceTransformer,
    calibration: Calibration | str | Path | Mapping[str, Any] | None = None,
    *,
    max_seq_length: int | None = None,
    languages: LanguageCorrection | None = None,
    **fields: Any,
) -> SentenceTransformer:
    """A SentenceTransformer with calibrated attention, on the same weights as `model`, which stays as it is.

    Args:
        model: a SentenceTransformer on the torch backend. One that is calibrated already is calibrated anew.
        calibration: a preset's name ("tiles", "paper", "retrieval", "retrieval-2026-06", "tempscale", "none") or a
            `Calibration`; or the JSON file of one, which `Calibration.to_json` writes, or a folder with such a
            `calibration.json`. None means the fields alone, on top of the defaults.
        max_seq_length: the longest text to read, in tokens, in place of the model's own limit. Texts in tiles may be
            longer than the model has positions.
        languages: what `fairspan.fit_languages` fitted on this model, in place of what the model may have of it.
        fields: fields of `Calibration` to change.

    Raises:
        UnsupportedModel: if any promised layer cannot be calibrated, or `languages` was fitted on another model.
        CalibrationError: if a field has a wrong value, or one that does not fit this model.
    """
    wanted = as_calibration(read_if_file(calibration), **fields)
    if not isinstance(model, SentenceTransformer):
        raise UnsupportedModel(
            f"calibrate takes a SentenceTransformer, got {type(model).__name__}: wrap it first, for example "
            "SentenceTransformer('BAAI/bge-m3')."
        )
    for name, parameter in model.named_parameters():
        if parameter.is_floating_point() and bool(parameter.isnan().any()):
            raise FairspanError(
                f"the model's weight {name!r} contains NaN, so its embeddings would be NaN too: load the checkpoint "
                "again, or in another dtype if it was converted."
            )
    require_transformers(model, "calibrate")
    calibrated = copy_sharing_weights(model)
    for module in list(calibrated.modules()):
        if isinstance(module, Transformer):
            module.__class__ = CalibratedTransformer
            module.calibration = wanted
            module.on_model_ready(calibrated)
            if max_seq_length is not None:
                read_up_to(module, max_seq_length)
    if languages is not None:
        _correct_languages(calibrated, languages)
    for own in language_modules(calibrated):
        _warn_of_another_calibration(own, wanted)
    return calibrated


def _correct_languages(model: SentenceTransformer, fit: LanguageCorrection) -> None:
    """Add a correction of languages as the last module, in place of one that is there."""
    for name in [name for name, module in model.named_children() if isinstance(module, LanguageModule)]:
        delattr(model, name)
    refuse_foreign_fit(model, fit, fingerprint)
    module = LanguageModule(fit).to(model.device, model.dtype or torch.float32)
    model.add_module("languages", module)
    module.on_model_ready(model)


def _warn_of_another_calibration(module: LanguageModule, wanted: Calibration) -> None:
    known = module.fitted_on.get("calibration")
    fitted = PRESETS["none"] if known is None else Calibration.from_dict(known)
    if "fingerprint" in module.fitted_on and fitted.on("document") != wanted.on("document"):
        warnings.warn(
            "the correction of languages was fitted under another calibration, under which vectors lie elsewhere: "
            "fit it with fairspan.fit_languages(…, calibration=…).",
            stacklevel=3,
        )


def calibrate_if_asked(
    model: SentenceTransformer, calibration: Calibration | None, max_seq_length: int | None
) -> SentenceTransformer:
    """`model` calibrated, or as it is if `calibration` is None; with a limit on texts, if one is given."""
    if calibration is not None:
        return calibrate(model, calibration, max_seq_length=max_seq_length)
    if max_seq_length is None:
        return model
    made = copy_sharing_weights(model)
    for module in require_transformers(made, "set a max_seq_length for"):
        read_up_to(module, max_seq_length)
    return made


def require_transformers(model: SentenceTransformer, purpose: str) -> list[Transformer]:
    """The Transformer modules of a model; raise if there is none, or one whose attention cannot be reached."""
    found = [module for module in model.modules() if isinstance(module, Transformer)]
    if not found:
        kinds = ", ".join(type(module).__name__ for module in model.children())
        raise UnsupportedModel(
            f"the model has no Transformer module, only {kinds}: there is no attention to {purpose}."
        )
    for module in found:
        refuse_exported(module)
        if type(module) not in (Transformer, CalibratedTransformer):
            raise UnsupportedModel(
                f"{type(module).__name__} is a Transformer module with code of its own, which fairspan would "
                "bypass: rebuild the model with sentence_transformers' Transformer."
            )
    return found


def copy_sharing_weights(model: Model) -> Model:
    """A copy of `model` with modules, configuration and tokenizer of its own, over the same storage.

    Parameters become new objects that view the same memory: moving or casting the copy gives the copy new memory and
    leaves the original where it was.
    """
    memo: dict[int, object] = {}
    for parameter in model.parameters():
        # Subclasses of Parameter (quantised weights) carry state of their own and are shared as they are.
        memo[id(parameter)] = (
            nn.Parameter(parameter.data, requires_grad=parameter.requires_grad)
            if type(parameter) is nn.Parameter
            else parameter
        )
    for buffer in model.buffers():
        memo[id(buffer)] = buffer.detach()
    return copy.deepcopy(model, memo)


def encode_segments(
    model: SentenceTransformer, documents: Sequence[Sequence[str]] | Sequence[str], **options: Any
) -> Any:
    """Embed documents whose segments are known, with one basket, or one tile, for each segment.

    Args:
        model: a calibrated model.
        documents: a list of documents, each a list of segments; or one document.
        options: whatever `model.encode_document` takes.

    Returns:
        What `model.encode_document` returns: one vector per document.
    """
    calibrations = [module.calibration for module in calibrated_transformers(model)]
    if not any(one.strength > 0 or one.tile_size is not None for one in calibrations):
        raise SegmentError(
            "segments become tiles or baskets only inside a calibrated model: use fairspan.calibrate(model, 'tiles') "
            "or any calibration with tiles or with a strength above 0."
        )
    if documents and all(isinstance(part, str) for part in documents):
        return model.encode_document(SegmentedText(documents), **options)  # type: ignore[arg-type]
    return model.encode_document([SegmentedText(document) for document in documents], **options)
