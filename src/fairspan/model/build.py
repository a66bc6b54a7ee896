"""`calibrate`: a calibrated SentenceTransformer from a plain one."""

import copy
import warnings
from typing import Any, TypeVar

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import nn

from fairspan.calibration.calibration import AnyCalibration, Calibration, as_calibration
from fairspan.errors import FairspanError, UnsupportedModel
from fairspan.model.card import write_card
from fairspan.model.transformer import CalibratedTransformer, refuse_exported
from fairspan.model.window import read_up_to

Model = TypeVar("Model", bound=nn.Module)
Encoder = TypeVar("Encoder", SentenceTransformer, MultiVectorEncoder)


def calibrate(
    model: Encoder,
    calibration: AnyCalibration | None = None,
    *,
    max_seq_length: int | None = None,
    **fields: Any,
) -> Encoder:
    """A SentenceTransformer with calibrated attention that shares the weights of `model`, which is not changed.

    Weights that are trained change in both, since they are the same memory: train an adapter, or a `copy.deepcopy`.

    Args:
        model: a SentenceTransformer on the torch backend, or a MultiVectorEncoder, whose documents are read in tiles.
            A calibrated one is calibrated again.
        calibration: a preset's name ("long", "tiles", "paper", "retrieval", "tempscale", "plain") or a
            `Calibration`; or the JSON file of one, which `Calibration.to_json` writes, or a folder with such a
            `calibration.json`. None means "long": texts that fit into the window are unchanged, longer ones are
            read whole. With fields about baskets None means the defaults of `Calibration`.
        max_seq_length: the longest text to read, in tokens. By default any length in tiles, otherwise the model's
            own limit.
        fields: fields of `Calibration` to change.

    Raises:
        UnsupportedModel: if any requested layer cannot be calibrated.
        DesignError: if a field has a wrong value, or one that does not fit this model.
    """
    wanted = as_calibration(calibration, **fields)
    if not isinstance(model, SentenceTransformer | MultiVectorEncoder):
        raise UnsupportedModel(
            f"calibrate takes a SentenceTransformer or a MultiVectorEncoder, got {type(model).__name__}: wrap it "
            "first, for example SentenceTransformer('all-MiniLM-L6-v2')."
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
            wanted = module.calibration
            if max_seq_length is not None:
                read_up_to(module, max_seq_length)
    half = next(
        (
            str(one.dtype)[6:]
            for one in model.parameters()
            if one.dtype in (torch.float16, torch.bfloat16)
        ),
        None,
    )
    if half is not None and model.device.type == "cpu":
        warnings.warn(
            f"the model is in {half}, which is slow on a CPU: use model.float() first.",
            stacklevel=2,
        )
    write_card(calibrated, wanted)
    return calibrated


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
                f"{type(module).__name__} is a Transformer module with custom code, which fairspan would "
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
